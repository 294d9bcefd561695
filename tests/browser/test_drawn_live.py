"""Common code of all components: editions, live answers, payloads, numbers as text, and the events that their wrappers send to Python."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import streamlit as st
from drawn import mixed
from stage import ACCENT, DARK, HEADS, INK, PAPER, SAVED, Stage, alike, hex_of

from viz_app import components
from viz_app.components import mounting, stamp_payload
from viz_app.components.catalogue import COMPONENTS
from viz_app.drawing.colours import ramp
from viz_app.drawing.notes import rows
from viz_app.drawing.payload import pack, unpack

STANDS = {"query": "", "steps": 0, "query_at_start": ""}
SOCKET = """() => {
  window.sockets = [];
  window.WebSocket = class {
    static CONNECTING = 0; static OPEN = 1; static CLOSING = 2; static CLOSED = 3;
    constructor(url, protocols) {
      Object.assign(this, { url: String(url), protocols, readyState: 0, sent: [] });
      sockets.push(this);
    }
    send(text) { this.sent.push(text); }
    opened() { this.readyState = 1; this.onopen?.(); }
    closed() { this.readyState = 3; this.onclose?.(); }
    close() { this.readyState = 2; }
    answer(bytes) { this.onmessage({ data: Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)).buffer }); }
  };
  for (const name of ["source", "target"]) {
    const box = document.createElement("div");
    box.className = `st-key-${name}`;
    box.innerHTML = "<textarea></textarea>";
    document.body.append(box);
  }
  document.body.insertAdjacentHTML("beforeend", '<div class="st-key-other"><textarea></textarea></div>');
}"""


def plain(text: str, look: str = "note") -> dict:
    return rows(look, ("line", text))


SCORES = pack(
    {"title": "scores", "axes": ["distance", "score"], "domain": [0, 1], "marked": None, **SAVED},
    distance=np.arange(3, dtype=np.int32),
    value=np.array([0, 0.5, 1], np.float32),
)
BOXES = {"fields": ["source", "target"], "pause": 1500, "lines": False}


def live(stage: Stage, is_open: bool = True, token: str = "secret", rerun: int = 0) -> None:
    """Make a page with two text boxes, a component with the key "words", and the component that listens."""
    stage.mount("plain").show(plain("first"), (3, 1), key="words")
    stage.page.evaluate("delete window.attnscopeLive")
    stage.page.evaluate(SOCKET)
    stage.beside("live")
    listening(stage, rerun, is_open, token)


def listening(stage: Stage, rerun: int, is_open: bool = True, token: str = "secret") -> None:
    """Pass the component that listens the data of a rerun."""
    data = {"token": token, "path": "/app/live", "open": is_open, **BOXES, "address": STANDS}
    stage.show(data, (1, rerun), key="live")


def typed(stage: Stage, text: str, box: str = "source") -> None:
    stage.page.evaluate(
        "([box, text]) => { const i = document.querySelector(`.st-key-${box} textarea`); i.value = text;"
        " i.dispatchEvent(new Event('input', { bubbles: true })); }", [box, text],
    )  # fmt: skip


def requests(stage: Stage) -> list[dict[str, str]]:
    return [json.loads(one) for one in stage.page.evaluate("sockets.flatMap((s) => s.sent)")]


def words(stage: Stage) -> list[str]:
    return stage.page.evaluate(
        "[...document.body.children].flatMap((e) => [...(e.shadowRoot?.querySelectorAll('.plain p') ?? [])]).map((p) "
        "=> p.textContent)"
    )


def answer(stage: Stage, text: str, edition: tuple[int, int], key: str = "words") -> None:
    import base64

    message = pack({"edition": list(edition), "plain": {key: plain(text)}})
    stage.page.evaluate(
        "(bytes) => sockets.at(-1).answer(bytes)", base64.b64encode(message).decode()
    )


# --- the browser's address


def addressed(stage: Stage, query: str, steps: int, rerun: int, found: str = "") -> None:
    data = {
        "token": "t",
        "path": "/live",
        "open": False,
        **BOXES,
        "address": {"query": query, "steps": steps, "query_at_start": found},
    }
    stage.show(data, (1, rerun), key="live")


def search(stage: Stage) -> str:
    return stage.page.evaluate("location.search")


def test_a_step_is_an_entry_of_the_history_and_other_changes_overwrite_it(stage: Stage) -> None:
    stage.mount("live")
    stage.page.evaluate(
        "() => { delete window.attnscopeHistory; history.pushState({}, '', '/app?source=a'); }"
    )
    before = stage.page.evaluate("history.length")
    reruns = [  # query, steps
        ("source=b", 4),
        ("source=bc", 4),
        ("source=bc&head=1", 5),
        ("source=bcd&head=1", 5),
        ("source=bcd&head=1", 6),
        ("source=bcd", 8),
        ("source=bcd&site=x%2Fy+z", 0),
    ]
    entries = 0
    for rerun, (query, steps) in enumerate(reruns):
        addressed(stage, query, steps, rerun + 1)
        addressed(stage, query, steps, rerun + 1)  # as when only the theme changes
        assert search(stage) == f"?{query}"
        entries += (query, steps) in (
            ("source=bc&head=1", 5),
            ("source=bcd", 8),
        )  # 6 has led nowhere else
        assert stage.page.evaluate("history.length") == before + entries
    assert stage.page.evaluate("location.pathname") == "/app"
    stage.page.go_back()
    assert search(stage) == "?source=bcd&head=1"
    stage.page.go_back()
    assert search(stage) == "?source=bc"


def test_a_run_from_before_back_or_forward_does_not_overwrite_their_address(
    stage: Stage,
) -> None:
    stage.mount("live")
    stage.page.evaluate(
        "() => { delete window.attnscopeHistory; history.pushState({}, '', '/app?source=a'); }"
    )
    addressed(stage, "source=a", 3, 1, "source=a")
    addressed(stage, "source=b", 4, 2, "source=a")
    addressed(stage, "source=c", 5, 3, "source=b")
    entries = stage.page.evaluate("history.length")
    stage.page.go_back()
    addressed(stage, "source=d", 6, 4, "source=c")  # was running when Back was pressed
    assert search(stage) == "?source=b"
    addressed(stage, "source=b&head=1", 6, 5, "source=b")  # followed Back
    assert search(stage) == "?source=b&head=1"
    addressed(stage, "source=b&head=2", 6, 6, "anything")  # later runs are the session's own
    assert search(stage) == "?source=b&head=2"
    assert stage.page.evaluate("history.length") == entries
    stage.page.go_forward()
    addressed(stage, "source=e", 7, 7, "source=b&head=2")
    assert search(stage) == "?source=c"
    addressed(stage, "source=c&head=3", 8, 8, "source=c")
    assert search(stage) == "?source=c&head=3"
    assert (
        stage.page.evaluate("history.length") == entries + 1
    )  # a step, with no entry before it any more


def test_parameters_for_embedding_stay_in_the_address(stage: Stage) -> None:
    stage.mount("live")
    address = "/app?embed=true&old=1&embed_options=dark_theme&embed_options=show_toolbar#part"
    stage.page.evaluate("(address) => history.replaceState({}, '', address)", address)
    addressed(stage, "source=%C3%A9", 0, 1)
    kept = "&embed=true&embed_options=dark_theme&embed_options=show_toolbar"
    assert stage.page.evaluate("location.search + location.hash") == f"?source=%C3%A9{kept}#part"
    addressed(stage, "", 0, 2)
    assert search(stage) == f"?{kept[1:]}"


# --- live


def test_typing_asks_in_the_name_of_the_session(stage: Stage) -> None:
    live(stage)
    assert stage.page.evaluate("sockets.map((s) => [s.url, s.protocols, s.binaryType])") == [
        ["ws://stage.test/app/live", ["attnscope", "secret"], "arraybuffer"]
    ]
    stage.page.evaluate("sockets[0].opened()")
    assert requests(stage) == []  # nothing has been typed yet
    typed(stage, "nothing of ours", "other")
    assert requests(stage) == []
    typed(stage, "abc")
    assert requests(stage) == [{"texts": ["abc", ""]}]


def test_one_request_at_a_time_and_then_one_for_the_latest_text(stage: Stage) -> None:
    live(stage)
    stage.page.evaluate("sockets[0].opened()")
    typed(stage, "a")
    typed(stage, "ab")
    typed(stage, "x", "target")
    assert len(requests(stage)) == 1
    answer(stage, "answer to a", (4, 1))
    assert words(stage) == ["answer to a"]
    assert requests(stage)[1:] == [{"texts": ["ab", "x"]}]
    answer(stage, "answer to ab", (5, 1))
    assert words(stage) == ["answer to ab"]
    assert len(requests(stage)) == 2
    typed(stage, "xy", "target")
    assert requests(stage)[2:] == [{"texts": ["ab", "xy"]}]


def test_an_older_answer_is_not_shown(stage: Stage) -> None:
    live(stage)
    stage.page.evaluate("sockets[0].opened()")
    for edition, stands in (
        ((3, 0), "first"),
        ((2, 9), "first"),
        ((3, 1), "same"),
        ((3, 2), "3 2"),
        ((3, 1), "3 2"),
        ((4, 0), "4 0"),
        ((3, 9), "4 0"),
    ):
        typed(stage, f"{edition}")
        answer(stage, "same" if edition == (3, 1) else f"{edition[0]} {edition[1]}", edition)
        assert words(stage) == [stands], edition
    typed(stage, "once more")
    answer(stage, "for somebody else", (9, 9), key="elsewhere")
    assert words(stage) == ["4 0"]


def test_an_answer_with_the_choices_before_the_last_rerun_is_requested_again(stage: Stage) -> None:
    live(stage, rerun=2)
    stage.page.evaluate("sockets[0].opened()")
    typed(stage, "a")
    answer(stage, "other choices", (5, 1))
    assert words(stage) == ["first"]
    assert requests(stage) == [{"texts": ["a", ""]}] * 2
    answer(stage, "these choices", (5, 2))
    assert words(stage) == ["these choices"]
    assert len(requests(stage)) == 2


@pytest.mark.parametrize("is_open", [True, False])
def test_a_rerun_older_than_the_typed_text_still_changes_the_choices(
    stage: Stage, is_open: bool
) -> None:
    live(stage)
    stage.page.evaluate("sockets[0].opened()")
    typed(stage, "a")
    answer(stage, "other choices", (5, 1))
    assert words(stage) == ["other choices"]
    stage.page.evaluate(
        "(data) => { const picture = attnscopePictures.get('words'); picture.rerun = { edition: [3, 2], data }; }",
        {**plain("this rerun"), "key": "words", "edition": [3, 2]},
    )
    listening(stage, 2, is_open)
    if is_open:
        assert requests(stage) == [{"texts": ["a", ""]}] * 2
        answer(stage, "these choices", (5, 2))
    assert words(stage) == ["these choices" if is_open else "this rerun"]


def test_an_empty_answer_shows_nothing_and_allows_another_request(stage: Stage) -> None:
    live(stage)
    stage.page.evaluate("sockets[0].opened()")
    typed(stage, "a")
    stage.page.evaluate("sockets[0].answer('')")
    assert words(stage) == ["first"]
    typed(stage, "b")
    assert [one["texts"][0] for one in requests(stage)] == ["a", "b"]


def test_a_missing_socket_is_reopened_and_used_then(stage: Stage) -> None:
    live(stage)
    typed(stage, "early")  # not open yet: used once it is
    assert requests(stage) == []
    assert stage.page.evaluate("sockets.length") == 1
    stage.page.evaluate("sockets[0].opened()")
    assert [one["texts"][0] for one in requests(stage)] == ["early"]
    stage.page.evaluate("sockets[0].closed()")  # before the answer
    typed(stage, "late")
    assert stage.page.evaluate("sockets.length") == 2
    stage.page.evaluate("sockets[1].opened()")
    assert [one["texts"][0] for one in requests(stage)] == ["early", "late"]
    answer(stage, "there", (8, 8))
    assert words(stage) == ["there"]


def test_a_page_that_is_not_live_sends_nothing(stage: Stage) -> None:
    live(stage, is_open=False)
    typed(stage, "abc")
    assert stage.page.evaluate("sockets.length") == 0
    stage.show(
        {"token": "other", "path": "/live", "open": True, **BOXES, "address": STANDS},
        (1, 2),
        key="live",
    )
    stage.page.evaluate("sockets[0].opened()")
    typed(stage, "abcd")
    assert stage.page.evaluate("sockets[0].protocols") == ["attnscope", "other"]
    assert requests(stage) == [{"texts": ["abcd", ""]}]


def test_another_session_has_its_own_socket(stage: Stage) -> None:
    live(stage)
    stage.page.evaluate("sockets[0].opened()")
    typed(stage, "a")
    stage.show(
        {"token": "secret", "path": "/app/live", "open": True, **BOXES, "address": STANDS},
        (1, 2),
        key="live",
    )
    assert stage.page.evaluate("sockets.length") == 1  # the same session continues
    stage.show(
        {"token": "other", "path": "/app/live", "open": True, **BOXES, "address": STANDS},
        (1, 3),
        key="live",
    )
    assert stage.page.evaluate("sockets.map((s) => [s.protocols[1], s.readyState])") == [
        ["secret", 2],
        ["other", 0],
    ]
    stage.page.evaluate("sockets[1].opened()")
    typed(stage, "ab")
    assert stage.page.evaluate("sockets[1].sent.map((one) => JSON.parse(one).texts[0])") == [
        "ab"
    ]  # not waiting for the old answer
    stage.page.evaluate(
        "() => { sockets[0].closed(); sockets[0].onmessage?.({ data: new ArrayBuffer(0) }); }"
    )
    typed(stage, "abc")
    assert stage.page.evaluate("sockets.map((s) => s.sent.length)") == [
        1,
        1,
    ]  # the end of the old one does not affect the new one
    answer(stage, "theirs", (7, 7))
    assert words(stage) == ["theirs"]
    assert stage.page.evaluate("sockets.map((s) => s.sent.length)") == [1, 2]


def test_an_answer_can_hold_a_packed_picture(stage: Stage) -> None:
    import base64

    stage.mount("plain")
    stage.page.evaluate("delete window.attnscopeLive")
    stage.page.evaluate(SOCKET)
    header = {
        "queries": [["q", "", False]],
        "keys": [["k", "", False]],
        "query": 0,
        "key": 0,
        "queryAxis": "reads",
        "keyAxis": "read",
        "blocked": [[]],
    }
    first, second = (
        pack(header | {"queryAxis": name}, weights=np.ones(1, np.float32))
        for name in ("first", "second")
    )
    stage.beside("choice")
    stage.show(first, (1, 1), key="choice")
    stage.beside("live")
    stage.show(
        {"token": "t", "path": "/live", "open": True, **BOXES, "address": STANDS}, key="live"
    )
    stage.page.evaluate("sockets[0].opened()")
    typed(stage, "a")
    message = pack({"edition": [2, 1], "plain": {}}, choice=np.frombuffer(second, np.uint8))
    stage.page.evaluate("(bytes) => sockets[0].answer(bytes)", base64.b64encode(message).decode())
    axes = stage.page.evaluate(
        "[...document.body.children].flatMap((e) => [...(e.shadowRoot?.querySelectorAll('.axis') ?? [])]).map((p) => p.textContent)"
    )
    assert axes == ["second", "read"]


# --- the boxes


def boxes(stage: Stage, **how: Any) -> None:
    """A function that makes the page of `live` with other settings of its boxes; text for Streamlit and the effect of Enter are
    recorded."""
    live(stage)
    data = {"token": "secret", "path": "/live", "open": True, **BOXES, **how, "address": STANDS}
    stage.show(data, (9, 9), key="live")
    stage.page.evaluate("""() => {
      window.handed = [];
      document.querySelectorAll("textarea").forEach((box) => (box.onkeydown = (event) => {
        if (event.key === "Enter" && event.ctrlKey) handed.push([box.parentElement.className, box.value]);
      }));
    }""")


def handed(stage: Stage, n: int) -> list[list[str]]:
    """Return the n texts that Streamlit has received, once there are so many."""
    stage.page.wait_for_function("(n) => handed.length >= n", arg=n)
    return stage.page.evaluate("handed")


def test_streamlit_gets_a_text_when_typing_pauses_and_that_of_other_boxes_at_every_key(
    stage: Stage,
) -> None:
    boxes(stage, pause=400)
    stage.page.evaluate("""() => {
      for (const [name, text] of [["source", "a"], ["source", "ab"], ["other", "x"], ["source", "abc"]]) {
        const box = document.querySelector(`.st-key-${name} textarea`);
        box.value = text;
        box.dispatchEvent(new Event("input", { bubbles: true }));
      }
    }""")
    assert handed(stage, 2) == [["st-key-other", "x"], ["st-key-source", "abc"]]


def test_enter_commits_if_texts_hold_no_line_breaks(stage: Stage) -> None:
    boxes(stage, pause=60_000)
    stage.page.locator(".st-key-source textarea").focus()
    for key in ("a", "Enter", "b", "Shift+Enter"):
        stage.press(key)
    assert stage.page.locator(".st-key-source textarea").input_value() == "ab"
    assert handed(stage, 2) == [["st-key-source", "a"], ["st-key-source", "ab"]]
    boxes(stage, pause=60_000, lines=True)
    stage.page.locator(".st-key-source textarea").focus()
    stage.press("a", "Enter", "b")
    assert stage.page.locator(".st-key-source textarea").input_value() == "a\nb"
    assert handed(stage, 0) == []


def test_pasted_lines_become_one_if_texts_hold_no_line_breaks(stage: Stage) -> None:
    paste = """(box) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", "one \\n two\\nthree\\n");
      return box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }"""
    for lines, left_to_the_browser, text in ((False, False, "one two three"), (True, True, "")):
        boxes(stage, lines=lines)
        box = stage.page.locator(".st-key-source textarea")
        box.focus()
        assert box.evaluate(paste) is left_to_the_browser
        assert box.input_value() == text


# --- input and output


def test_texts_of_more_than_two_lines_are_shown_in_full_on_request_and_nothing_moves(
    stage: Stage,
) -> None:
    def strip(source: str, output: str) -> dict:
        texts = (
            ("label-in", "in"),
            ("source", source),
            ("arrow", "→"),
            ("label-out", "out"),
            ("output", output),
            ("stale", ""),
        )
        return rows("written long", *texts)

    def state() -> tuple[list[bool], bool, float]:
        stage.page.evaluate("stage.frames(2)")
        cut = stage.js(
            "(root) => [...root.querySelectorAll('.source, .output')].map((e) => e.classList.contains('cut'))"
        )
        return cut, stage.hidden("button"), stage.box(".place")["height"]

    long = "word " * 60
    stage.mount("plain").show(strip("short", "brief"))
    *_, tall = shown = state()
    assert shown == ([False, False], True, tall)
    for edition, (source, output) in enumerate(((long, "brief"), ("short", long), (long, long)), 2):
        stage.show(strip(source, output), (edition, 1))
        assert state() == ([source == long, output == long], False, tall)
    assert stage.text("button") == "show all"
    stage.click("button")
    assert state() == ([False, False], False, tall)
    assert stage.text("button") == "show less"
    assert (
        stage.js(
            "(root) => { const e = root.querySelector('.source'); return e.scrollHeight - e.clientHeight; }"
        )
        <= 2
    )
    stage.show(strip(long + "and", long), (9, 1))  # typing continues, and the full text stays
    assert stage.text("button") == "show less"
    stage.click("button")
    assert state() == ([True, True], False, tall)


# --- keys

USED = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", " ", "Escape"]


def test_a_key_is_consumed_only_by_an_action_that_uses_it(stage: Stage) -> None:
    stage.functions("choice", "useKeys", "arrows")
    stage.js("""(root) => {
      const box = document.createElement("div"), moves = (window.moves = []);
      const move = (rows, columns) => (moves.push([rows, columns]), rows >= 0);
      own.useKeys(box, { ...own.arrows(move), Escape: () => { moves.push("out"); } });
      window.press = (key, held = {}) => box.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true, ...held }));
    }""")
    left_to_the_browser = [stage.js("(root, key) => press(key)", key) for key in USED]
    #                       left, right, up (refused), down, Enter, Space, Escape
    assert left_to_the_browser == [False, False, True, False, True, True, False]
    assert stage.js("() => moves") == [[0, -1], [0, 1], [-1, 0], [1, 0], "out"]
    for held in ("ctrlKey", "altKey", "metaKey", "shiftKey"):
        assert stage.js("(root, held) => press('Escape', { [held]: true })", held)
    assert len(stage.js("() => moves")) == 5


# --- editions


def test_only_data_that_are_at_least_as_new_replace_others(stage: Stage) -> None:
    stage.mount("plain")
    stands = ""
    for edition, text in (
        ((2, 3), "a"),
        ((2, 2), "b"),
        ((1, 9), "c"),
        ((2, 3), "d"),
        ((2, 4), "e"),
        ((3, 0), "f"),
        ((2, 9), "g"),
        ((3, 1), "h"),
    ):
        stage.show(plain(text), edition)
        stands = stands if text in "bcg" else text
        assert stage.texts("p") == [stands]
    stage.show(plain("another"), (1, 1), key="another key")
    assert stage.texts("p") == ["another"]


def test_a_removed_component_is_forgotten(stage: Stage) -> None:
    stage.mount("plain").show(plain("new"), (5, 5))
    assert stage.page.evaluate("[...attnscopePictures.keys()]") == ["plain"]
    stage.page.evaluate("stage.end()")
    assert stage.page.evaluate("[...attnscopePictures.keys()]") == []
    stage.show(plain("a new page"), (1, 1))
    assert stage.texts("p") == ["a new page"]
    stage.page.evaluate("() => { window.before = stage.endOf(); }")
    stage.show(plain("once more"), (1, 2))
    stage.page.evaluate("window.before()")  # the end of a component that has been replaced already
    assert stage.page.evaluate("[...attnscopePictures.keys()]") == ["plain"]


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_cleanup_followed_by_another_rerun_ends_nothing(stage: Stage, ends_first: bool) -> None:
    """Streamlit calls the cleanup once the component's script has loaded, before or after the other is shown."""
    stage.mount("by_distance", 400).show(SCORES, (1, 1))
    stage.page.evaluate("() => { window.before = stage.endOf(); }")
    if ends_first:
        stage.page.evaluate("window.before()")
    stage.show(SCORES, (1, 2))
    if not ends_first:
        stage.page.evaluate("window.before()")
    stage.page.evaluate("new Promise((done) => setTimeout(done, 50))")
    stage.page.evaluate("stage.host.style.width = '600px'")
    stage.page.wait_for_function("stage.root.querySelector('svg').viewBox.baseVal.width > 500")


def test_the_stamp_is_read_as_it_is_written(stage: Stage) -> None:
    stage.functions("choice", "stampOf", "older", "unpack")
    for key, edition in (("k", (0, 1)), ("schlüssel-ж", (4_000_000_000, 70_000)), ("", (1, 256))):
        data = list(stamp_payload(b"\x01\x02\x03payload", key, edition))
        assert stage.page.evaluate("(data) => own.stampOf(Uint8Array.from(data))", data) == {
            "key": key,
            "edition": list(edition),
        }
    for one, other, is_older in (
        ((1, 1), (1, 1), False),
        ((1, 0), (1, 1), True),
        ((1, 2), (1, 1), False),
        ((0, 9), (1, 1), True),
        ((2, 0), (1, 1), False),
    ):
        assert stage.page.evaluate("([a, b]) => own.older(a, b)", [one, other]) is is_older


def test_a_payload_is_read_as_it_is_packed(stage: Stage) -> None:
    stage.functions("choice", "unpack")
    arrays = {
        "f": np.array([[1.5, -2], [np.inf, 1e-30]], np.float32),
        "i": np.array([7, -9, 2**30], np.int32),
        "b": np.arange(5, dtype=np.uint8),
    }
    for title in ("t", "title of another length ж", "xyz"):  # arrays begin anywhere
        data = list(pack({"title": title}, **arrays))
        found = stage.page.evaluate(
            """(data) => {
          const bytes = new Uint8Array(data.length + 3);
          bytes.set(data, 3);
          const { arrays, ...header } = own.unpack(bytes.subarray(3));
          return [header.title, Object.entries(arrays).map(([name, a]) => [name, a.constructor.name, [...a].map(String)])];
        }""",
            data,
        )
        assert found[0] == title
        assert [(name, kind) for name, kind, _ in found[1]] == [
            ("f", "Float32Array"),
            ("i", "Int32Array"),
            ("b", "Uint8Array"),
        ]
        assert [np.float32(v.replace("Infinity", "inf")) for v in found[1][0][2]] == arrays[
            "f"
        ].ravel().tolist()
        assert [int(v) for v in found[1][1][2]] == arrays["i"].tolist()
        assert [int(v) for v in found[1][2][2]] == arrays["b"].tolist()


# --- colours


def test_another_theme_has_its_colours_at_once(stage: Stage) -> None:
    header = {"queries": [["q", "", False]], "keys": [["k", "", False]], "query": 0, "key": 0, "queryAxis": "reads",
              "keyAxis": "read", "blocked": [[]]}  # fmt: skip
    stage.mount("choice").show(pack(header, weights=np.ones(1, np.float32)))
    assert hex_of(stage.css(".keys button", "backgroundColor")[0]) == ACCENT
    stage.page.evaluate(
        "(colours) => Object.entries(colours).forEach((pair) => stage.host.style.setProperty(...pair))",
        DARK | {"--st-primary-color": "#7a0019"},
    )
    stage.show(pack(header, weights=np.ones(1, np.float32)))
    assert hex_of(stage.css(".keys button", "backgroundColor")[0]) == "#7a0019"


# --- numbers and texts


def test_a_float_is_written_with_the_shortest_digits_that_identify_it(stage: Stage) -> None:
    stage.functions("head", "exact")
    rng = np.random.default_rng(2)
    values = [
        0.0,
        1.0,
        0.1,
        0.25,
        1e-9,
        3e-40,
        123456.7,
        1e20,
        -0.3,
        *rng.standard_normal(200),
        *rng.random(200) ** 8,
    ]
    values = [float(np.float32(v)) for v in values]
    said = stage.page.evaluate("(values) => values.map((v) => own.exact(v))", values)
    for value, text in zip(values, said, strict=True):
        assert np.float32(text) == np.float32(value)
        digits = len(text.split("e")[0].replace("-", "").replace(".", "").strip("0"))
        needed = next(
            n for n in range(1, 10) if np.float32(f"{value:.{n - 1}e}") == np.float32(value)
        )
        assert digits <= max(6, needed)
    assert said[:2] == ["0", "1"]
    assert said[3] == "0.250000"
    assert said[4] == "1e-9"


def test_a_long_text_is_shortened_in_the_middle_by_whole_characters(stage: Stage) -> None:
    stage.functions("stepper", "shorten", "fit")
    for text, limit, short in (
        ("abcdefgh", 8, "abcdefgh"), ("abcdefgh", 7, "abc…fgh"), ("abcdefgh", 6, "abc…gh"), ("😀😁😂🤣😃😄", 5, "😀😁…😃😄"),
        ("abc", 2, "a…"), ("abcd", 3, "a…d"),
    ):  # fmt: skip
        assert stage.page.evaluate("([t, n]) => own.shorten(t, n)", [text, limit]) == short
    for room, short in ((8, "abcdefgh"), (7.9, "abc…fgh"), (5, "ab…gh"), (1, "a…"), (0, "a…")):
        assert (
            stage.page.evaluate("(room) => own.fit('abcdefgh', room, (t) => [...t].length)", room)
            == short
        )


def test_a_long_step_keeps_both_tokens(stage: Stage) -> None:
    stage.functions("stepper", "fit")
    for whole, room, short in (
        ("abcdefgh → xyz", 14, "abcdefgh → xyz"), ("abcdefgh → xyz", 13, "abc…fgh → xyz"), ("abc → stuvwxyz", 11, "abc → st…yz"),
        ("abcdefgh → stuvwxyz", 11, "ab…h → st…z"), ("abcd → wxyz", 0, "a… → w…"),
    ):  # fmt: skip
        assert (
            stage.page.evaluate(
                "([t, n]) => own.fit(t, n, (text) => [...text].length)", [whole, room]
            )
            == short
        )


def test_colours_run_evenly_from_the_page_to_the_accent(stage: Stage) -> None:
    stage.functions("head", "rampOf", "rgb", "contrast", "css")
    for paper, accent in (
        (PAPER, ACCENT),
        (DARK["--st-background-color"], DARK["--st-primary-color"]),
        ("#fff4e0", "#7a0019"),
    ):
        found = stage.page.evaluate(
            "([a, b]) => own.rampOf(own.rgb(a), own.rgb(b)).map((c) => own.css(c))", [paper, accent]
        )
        assert len(found) == 256
        assert hex_of(found[0]) == paper
        assert all(
            alike(hex_of(found[code]), ramp((code - 1) / 254, paper, accent))
            for code in range(1, 256)
        )
    for colour, rgb in (
        ("#0a141e", [10, 20, 30]),
        ("rgb(10, 20, 30)", [10, 20, 30]),
        ("rgba(10, 20, 30, 0.5)", [10, 20, 30]),
        ("white", [255, 255, 255]),
        ("nonsense", [0, 0, 0]),
    ):
        assert stage.page.evaluate("(c) => own.rgb(c)", colour) == rgb
    for a, b, ratio in (
        ([0, 0, 0], [255, 255, 255], 21),
        ([255, 255, 255], [255, 255, 255], 1),
        ([118, 118, 118], [255, 255, 255], 4.54),
    ):
        assert stage.page.evaluate("([a, b]) => own.contrast(a, b)", [a, b]) == pytest.approx(
            ratio, abs=0.01
        )  # WCAG 2


def test_nearly_black_colours_are_mixed_by_the_linear_part_of_the_curve(stage: Stage) -> None:
    stage.functions("head", "rampOf", "luminance", "css")
    ends = ([0, 3, 9], [10, 11, 13]), ([11, 1, 10], [4, 12, 0]), ([2, 2, 2], [255, 9, 200])
    for paper, accent in ends:
        found = stage.page.evaluate(
            "([a, b]) => own.rampOf(a, b).map((c) => own.css(c))", [paper, accent]
        )
        for code in range(1, 256, 3):
            expected = mixed(
                (code - 1) / 254, *(f"#{r:02x}{g:02x}{b:02x}" for r, g, b in (paper, accent))
            )
            seen = [int(hex_of(found[code])[i : i + 2], 16) for i in (1, 3, 5)]
            assert seen == pytest.approx(expected, abs=0.6)
    greys = [value / 255 for value in range(256)]
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in greys
    ]  # IEC 61966-2-1
    for n, part in enumerate((0.2126, 0.7152, 0.0722)):
        colours = [[value if i == n else 0 for i in range(3)] for value in range(256)]
        found = stage.page.evaluate("(colours) => colours.map((c) => own.luminance(c))", colours)
        assert found == pytest.approx([part * v for v in linear], rel=1e-4)


def test_each_of_twelve_heads_has_a_colour_and_the_thirteenth_that_of_the_first(
    stage: Stage,
) -> None:
    stage.functions("head", "headColour")
    found = stage.page.evaluate(
        "[...Array(31).keys()].map((head) => own.headColour(head).toLowerCase())"
    )
    assert found == [HEADS[head % 12] for head in range(31)]
    assert len(set(found)) == 12


def test_ink_has_the_best_contrast_on_each_step_of_the_ramp(stage: Stage) -> None:
    stage.functions("head", "readTheme", "contrast", "rgb")
    for paper, accent, ink in ((PAPER, ACCENT, INK), tuple(DARK.values())):
        inks, seen = stage.page.evaluate(
            """([paper, accent, ink]) => {
          const element = document.createElement("div");
          for (const [name, value] of [["background", paper], ["primary", accent], ["text", ink]])
            element.style.setProperty(`--st-${name}-color`, value);
          document.body.append(element);
          const theme = own.readTheme(element);
          return [theme.ramp.map((_, code) => theme.on(code)), theme.ramp];
        }""",
            [paper, accent, ink],
        )
        contrasts = {
            one: stage.page.evaluate(
                "([ramp, one]) => ramp.map((c) => own.contrast(c, own.rgb(one)))", [seen, one]
            )
            for one in (paper, ink, "#000000", "#ffffff")
        }
        used = [hex_of(one) for one in inks]
        for code, chosen in enumerate(used):
            of_page = max((paper, ink), key=lambda one, code=code: contrasts[one][code])
            best = max(contrasts, key=lambda one, code=code: contrasts[one][code])
            is_legible = contrasts[of_page][code] >= 4.5
            assert contrasts[chosen][code] == contrasts[of_page if is_legible else best][code]
            assert contrasts[chosen][code] >= 4.5
        assert {paper, ink} <= set(used)


def test_a_page_without_a_theme_has_one(stage: Stage) -> None:
    stage.functions("head", "readTheme")
    theme = stage.page.evaluate(
        "() => { const e = document.createElement('div'); document.body.append(e); const t = own.readTheme(e); return "
        "[t.background, t.accent, t.text, t.font]; }"
    )
    assert [hex_of(one) for one in theme[:3]] == ["#ffffff", "#1f3fc4", "#20242c"]
    assert theme[3] == "sans-serif"


def test_a_picture_of_many_cells_shows_the_largest_under_each_pixel(stage: Stage) -> None:
    stage.functions("head", "spans")
    for cells, pixels in ((7, 7), (3, 11), (11, 3), (1000, 17), (1, 5)):
        ends = stage.page.evaluate("([c, p]) => [...own.spans(c, p)]", [cells, pixels])
        pairs = list(zip(ends[::2], ends[1::2], strict=True))
        assert pairs[0][0] == 0
        assert pairs[-1][1] == cells
        assert all(a < b for a, b in pairs)
        assert {c for a, b in pairs for c in range(a, b)} == set(range(cells))
        for p, (a, b) in enumerate(pairs):
            assert abs(a - p * cells / pixels) < 1
            assert abs(b - max(a + 1, (p + 1) * cells / pixels)) < 1


# --- text as text


def test_text_from_outside_is_set_as_text(stage: Stage) -> None:
    hostile = "<img src=x onerror=alert(1)> مرحبا"
    stage.mount("plain").show(rows("note bad", ("a b", hostile), ("", "second")))
    assert stage.texts(".plain p") == [hostile, "second"]
    assert stage.attrs(".plain p", "class") == ["a b", ""]
    assert stage.attrs(".plain p", "dir") == ["auto", "auto"]
    assert not stage.elements(".plain img")
    assert stage.attr(".plain", "class") == "plain note bad"
    assert stage.attr(".plain", "role") == "alert"
    stage.show(rows("written", ("x", "third")), (1, 2))
    assert stage.texts(".plain p") == ["third"]
    assert stage.attr(".plain", "role") is None
    assert stage.attr(".plain", "class") == "plain written"


def test_the_walk_begins_at_the_given_stage_and_stays_where_the_user_leads_it(stage: Stage) -> None:
    from .test_drawn_tables import payload

    header, arrays = unpack(payload())
    for first, number in ((3, 3), (99, len(header["stages"]) - 1), (0, 0)):
        stage.mount("walk", 900).show(pack({**header, "stage": first}, **arrays))
        assert stage.data(".walk")["stage"] == str(number)
        stage.click(".walk .names button:nth-child(2)")
        stage.show(pack({**header, "stage": first}, **arrays))
        assert stage.data(".walk")["stage"] == "1"
        assert (
            stage.page.evaluate("stage.root.activeElement.textContent")
            == header["stages"][1]["name"]
        )


# --- events that reach Python


def shown(name: str, data: bytes | dict, **handlers: Callable) -> dict[str, Any]:
    """Show a component and return the arguments of Streamlit's component function."""
    calls: list[dict[str, Any]] = []
    with (
        mock.patch.object(mounting, "_registered", return_value=lambda **how: calls.append(how)),
        mock.patch.object(
            mounting,
            "live_session",
            return_value=mock.Mock(edition=(0, 0), actions=mock.Mock(note=lambda act: act())),
        ),
    ):
        mounting.show(COMPONENTS[name], data, **handlers)
    return calls[0]


def holding(values: dict[str, Any]) -> Any:
    """Return a session's state as far as a callback may access it (session/actions.py)."""
    return mock.patch.object(
        st, "session_state", mock.Mock(spec=["to_dict"], to_dict=lambda: values)
    )


@pytest.mark.parametrize(
    ("name", "trigger", "value", "told"),
    [
        ("head", "on_lock_change", {"lock": {"token": "q3"}}, [("on_lock", "q3")]),
        ("head", "on_lock_change", {"lock": {"token": ""}}, [("on_lock", "")]),
        ("head", "on_lock_change", {"lock": None}, []),
        ("overview", "on_pick_change", {"pick": {"site": "s", "head": 2.0}}, [("on_pick", "s", 2)]),
        ("overview", "on_pick_change", {}, []),
        ("heads", "on_pick_change", {"pick": {"head": 3}}, [("on_pick", 3)]),
        ("heads", "on_pick_change", {}, []),
        ("choice", "on_pick_change", {"pick": {"query": 4, "key": -1}}, [("on_choose", 4, -1)]),
        ("choice", "on_pick_change", {}, []),
        ("matrices", "on_pick_change", {"pick": {"query": 4, "key": 1}}, [("on_choose", 4, 1)]),
        ("matrices", "on_pick_change", {}, []),
        ("answers", "on_pick_change", {"pick": {"position": 4}}, [("on_choose", 4)]),
        ("answers", "on_pick_change", {}, []),
        ("walk", "on_news_change", {"news": {"stage": 5}}, [("on_stage", 5)]),
        ("walk", "on_news_change", {"news": {"query": 2, "key": 7}}, [("on_choose", 2, 7)]),
        (
            "walk",
            "on_news_change",
            {"news": {"query": 2, "key": 7, "stage": 5}},
            [("on_stage", 5), ("on_choose", 2, 7)],
        ),
        ("walk", "on_news_change", {}, []),
        ("beam_tree", "on_node_change", {"node": {"step": 3, "rank": 1}}, [("on_node", 3, 1)]),
        ("beam_tree", "on_node_change", {}, []),
        ("stepper", "on_step_change", {"step": {"position": 6}}, [("on_step", 6)]),
        ("stepper", "on_step_change", {}, []),
        ("stepper", "on_force_change", {"force": {"position": 6, "id": 9}}, [("on_force", 6, 9)]),
        ("stepper", "on_force_change", {}, []),
        ("stepper", "on_free_change", {"free": True}, [("on_free",)]),
        ("stepper", "on_free_change", {}, []),
        (
            "mask_painter",
            "on_paint_change",
            {"paint": {"kind": "cross", "cells": [[1, 2, 0], [3, 4, 1]]}},
            [("on_paint", "cross", [(1, 2, 0), (3, 4, 1)])],
        ),
        ("mask_painter", "on_paint_change", {}, []),
        ("mask_painter", "on_kind_change", {"kind": {"kind": "cross"}}, [("on_kind", "cross")]),
        ("mask_painter", "on_kind_change", {}, []),
    ],
)
def test_a_gesture_reaches_python(name: str, trigger: str, value: dict, told: list) -> None:
    heard: list[tuple] = []
    handlers = {
        one: lambda *arguments, one=one: heard.append((one, *arguments))
        for one in COMPONENTS[name].events
    }
    call = shown(name, b"payload", **handlers)
    assert call["key"] == name
    assert call["data"] == stamp_payload(b"payload", name, (0, 0))
    with holding({name: value}):
        call[trigger]()
    assert heard == told


@pytest.mark.parametrize(
    "message", [7, "text", [], {}, {"query": "x"}, {"position": None}, {"cells": 3, "kind": 1}]
)
def test_a_malformed_message_raises_nothing(message: object) -> None:
    for name, component in COMPONENTS.items():
        call = shown(name, b"payload", **{one: lambda *arguments: None for one in component.events})
        for event in component.events.values():
            with holding({name: {event.trigger: message}}):
                call[f"on_{event.trigger}_change"]()
            with holding({}):  # the component has left the page
                call[f"on_{event.trigger}_change"]()


def test_a_component_is_shown_with_a_handler_for_each_event_and_no_other() -> None:
    with pytest.raises(TypeError, match="on_pick"):
        shown("heads", b"payload")
    with pytest.raises(TypeError, match="on_lock"):
        shown("maps", b"payload", on_lock=print)


def test_every_folder_with_scripts_is_a_component() -> None:
    folders = {path.parent.name for path in Path(components.__file__).parent.glob("*/*.html")}
    assert folders == set(COMPONENTS)


def test_data_are_stamped_with_their_key_and_edition() -> None:
    assert stamp_payload({"a": 1}, "k", (3, 4)) == {"a": 1, "key": "k", "edition": (3, 4)}
    data = stamp_payload(b"xyz", "ж", (3, 4))
    assert data == b"xyz" + "ж".encode() + struct.pack("<III", 2, 3, 4)
