"""Live updates while typing: the socket sends all pictures of Streamlit's rerun, and never an older one after a newer."""

import asyncio
import gc
import json
import threading
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl
from weakref import ref

import pytest
import torch
from app_parts import app_at, component, pick_model, said
from streamlit.testing.v1 import AppTest

import viz_app
from models import Scope, Trace
from viz_app.components import stamp_payload
from viz_app.drawing.payload import unpack
from viz_app.session import cache, live, live_route, process, respond
from viz_app.session.byte_cache import ByteCache
from viz_app.session.cache import runs, store
from viz_app.session.current_run import CurrentRun
from viz_app.session.lanes import Lanes
from viz_app.session.live import LiveSession, Pictures

APP = Path(viz_app.__file__).with_name("app.py")
BEFORE, AFTER = "Tuesday, 22 October 2024", "3 May 1999"
VIEWS = [
    ("", ""), ("", "growth=true&growth-step=32"), ("", "similarity=cosine&site=decoder.layers.0.self_attn"), ("", "lock=q40"),
    ("", "checkpoint=dates-bahdanau"), ("", "checkpoint=dates-self-attn"),
    ("inside", ""), ("inside", "inside-view=matrices&inside-convention=columns"), ("inside", "inside-view=heads&lock=q2"),
    ("inside", "inside-view=several&inside-measure=previous&site=decoder.layers.0.self_attn"),
    ("inside", "similarity=additive"), ("inside", "checkpoint=dates-bahdanau"),
    ("layer", ""), ("layer", "site=encoder.layers.1.self_attn&lock=q3"),
    ("masks", "mask=cross"), ("masks", "decoder-mask=f5.0-4_a0.2&masks-shown=second"), ("masks", "masks-second="),
    ("decoding", "step=4"), ("decoding", "decoding-how=sampling&decoding-seed=3&heads=mean"),
    ("decoding", "checkpoint=dates-bahdanau"), ("decoding", "force=2:12&step=3"), ("decoding", "decoding-how=beam&node=2:2"),
    ("positions", "positions-order=reversed"), ("positions", "checkpoint=dates-rnn"),
    ("", "checkpoint=dates-rnn"), ("inside", "checkpoint=dates-rnn"),
    ("task", ""), ("task", "task-position=4&site=decoder.layers.0.self_attn"), ("task", "checkpoint=dates-rnn"),
]  # fmt: skip
NOT_LIVE = [
    ("positions", "positions-section=Curves"), ("positions", "positions-write=true"), ("from-rnn", ""),
    ("inside", "inside-view=scaling"), ("layer", "checkpoint=dates-rnn"),
]  # fmt: skip


def open_page(address: str, query: str) -> AppTest:
    asked = dict(parse_qsl(query, keep_blank_values=True))
    return app_at(address, **{"checkpoint": "dates", "source": BEFORE, **asked})


def parts(app: AppTest) -> dict[str, bytes | dict]:
    """Return the data of each component, by its key."""
    found = {}
    for proto in (element.proto for element in app.get("bidi_component")):
        data = proto.bytes or json.loads(proto.json)
        if isinstance(data, dict):
            found[data["key"]] = {
                name: value for name, value in data.items() if name not in ("key", "edition")
            }
        else:
            length = int.from_bytes(data[-12:-8], "little")
            found[data[-12 - length : -12].decode()] = data[: -12 - length]
    return found


def answer(session: LiveSession, source: str, target: str = "") -> dict[str, bytes | dict]:
    header, arrays = unpack(session.edit(source, target))
    return {**header["plain"], **{key: array.tobytes() for key, array in arrays.items()}}


def rest(app: AppTest) -> list[str]:
    """Return the content of the page outside components."""
    shown = [*app.markdown, *app.caption]
    charts = [
        part.proto.SerializeToString()
        for kind in ("html", "plotly_chart", "vega_lite_chart")
        for part in app.get(kind)
    ]
    return (
        [part.value for part in shown]
        + charts
        + [(button.label, button.disabled) for button in app.button]
    )


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(("address", "query"), VIEWS)
def test_the_answer_is_what_the_rerun_shows_and_all_of_it(address: str, query: str) -> None:
    app = open_page(address, query)
    for typed in ((AFTER, ""), (BEFORE, "20")):
        before, beside = parts(app), rest(app)
        message = answer(app.session_state["live session"], *typed)
        for name, text in zip(("source", "target"), typed, strict=True):
            app.text_area(key=name).set_value(text)
        app.run()
        assert not app.exception
        after = parts(app)
        assert message == {key: after[key] for key in message}
        changed = {key for key in after if after[key] != before.get(key)} - {
            "live"
        }  # which holds the address, not a picture
        assert changed <= set(message)
        assert changed
        if not typed[1]:  # with a target, the button has another label
            assert rest(app) == beside


def test_another_source_clears_forced_tokens_over_the_socket_with_a_note() -> None:
    app = open_page("decoding", "force=2:12&step=5")
    asked = [
        unpack(answer(app.session_state["live session"], text)["stepper"])[0]
        for text in (AFTER, BEFORE)
    ]
    assert [(header["forced"], header["step"], header["free"] is None) for header in asked] == [
        ([], 0, True),
        ([1], 4, False),
    ]
    assert asked[0]["note"] == "The forced tokens belonged to another source and were removed."
    assert asked[1]["note"] == "Forced at position 2: 0."


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(("address", "query"), NOT_LIVE)
def test_elements_that_streamlit_draws_are_left_to_its_reruns(address: str, query: str) -> None:
    app = open_page(address, query)
    assert app.session_state["live session"].edit(AFTER, "") is None


@pytest.mark.parametrize("text", ["", "   ", "x" * 20_000, "1 " * 40])
def test_a_text_that_cannot_be_run_is_named_and_the_picture_stays(text: str) -> None:
    app = open_page("", "")
    before = parts(app)
    message = answer(app.session_state["live session"], text)
    assert message["note source"]["look"] == "note bad"
    assert dict(message["written"]["rows"])["stale"] != ""
    assert message["head"] == before["head"]
    again = answer(app.session_state["live session"], BEFORE)
    assert again == {key: before[key] for key in again}


def pause(app: AppTest) -> int:
    return json.loads(component(app, "live").json)["pause"]


def test_the_box_waits_for_a_pause_only_if_the_socket_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = open_page("layer", "")
    app.run()
    assert pause(app) == 0
    monkeypatch.setattr(live, "served", live.threading.Event())
    live_route.socket_routes()
    app.run()
    assert pause(app) == 1500
    assert json.loads(component(app, "live").json)["open"] is True
    pick_model(app, "dates-rnn")  # the model has no such layer
    assert pause(app) == 0


def test_the_models_text_is_copied_as_it_is_when_the_button_is_clicked() -> None:
    app = open_page("", "")
    answer(app.session_state["live session"], AFTER)
    app.text_area(key="source").set_value(
        AFTER
    )  # leaving the box and clicking may come in one rerun
    app.button(key="edit").click().run()
    assert app.text_area(key="target").value == "1999-05-03"


# --- the numbers of the edits


class Numbers:
    """A session whose answers are only numbers."""

    def __init__(self) -> None:
        self.session = LiveSession()
        self.session.answer = lambda *texts: {"text": {"source": texts[0]}}

    def typed(self, text: str) -> int:
        return unpack(self.session.edit(text, ""))[0]["edition"][0]

    def drawn(self, text: str) -> int:
        self.session.begin()
        self.session.redraw(text, "")
        return self.session.edition[0]


def test_a_rerun_has_the_number_of_the_edit_it_draws() -> None:
    numbers = Numbers()
    first = numbers.drawn("a")
    assert first < numbers.typed("ab") < numbers.typed("abc")
    late = numbers.drawn("ab")
    assert numbers.typed("abcd") > numbers.drawn("abc") > late  # each one edit behind


def test_a_text_typed_again_is_a_new_edit() -> None:
    numbers = Numbers()
    numbers.drawn("a")
    longer = numbers.typed("ab")
    again = numbers.typed("a")
    assert again > longer
    assert numbers.drawn("a") == again


def test_a_text_set_by_a_button_is_newer_than_all_typed_ones() -> None:
    numbers = Numbers()
    typed = [numbers.typed(text) for text in ("a", "ab", "abc")]
    assert numbers.drawn("abc") == typed[-1]
    assert numbers.drawn("ab") > typed[-1]  # an example that was also typed on the way
    assert numbers.typed("x") > numbers.session.edition[0]


def test_an_answer_with_the_choices_of_an_older_rerun_is_older() -> None:
    session = Numbers().session
    session.begin()
    session.redraw("a", "")
    session.answer = lambda source, target: {"text": {"head": 1}}
    late = unpack(session.edit("ab", ""))[0]["edition"]
    session.begin()
    session.redraw("ab", "")  # a click on another head has committed the text, too
    assert tuple(late) < session.edition
    session.answer = lambda source, target: {"text": {"head": 2}}
    assert tuple(unpack(session.edit("ab", ""))[0]["edition"]) == session.edition


def test_a_stamp_names_the_session_and_the_edit() -> None:
    assert stamp_payload({"rows": []}, "note", (7, 2)) == {
        "rows": [],
        "key": "note",
        "edition": (7, 2),
    }
    assert (
        stamp_payload(b"abc", "é", (258, 3))
        == b"abc" + "é".encode() + b"\2\0\0\0" + b"\2\1\0\0" + b"\3\0\0\0"
    )


# --- several at once


def test_waiting_requests_are_run_together_and_get_their_own_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apps = [open_page("", "site=encoder.layers.0.self_attn") for _ in range(5)]
    sessions = [app.session_state["live session"] for app in apps]
    texts = ["1 June 2001", "2 July 2002", "", "3 August 2003", "4 September 2004"]
    batches = []
    run_each = Scope.run_each
    monkeypatch.setattr(
        Scope,
        "run_each",
        lambda self, pairs, *more: batches.append(len(pairs)) or run_each(self, pairs, *more),
    )
    lanes = Lanes(live_route._answer)

    async def ask() -> list[bytes]:
        return await asyncio.gather(
            *(
                lanes.answer(session, (text, ""))
                for session, text in zip(sessions, texts, strict=True)
            )
        )

    answers = asyncio.run(ask())
    assert batches == [
        4,
        1,
    ]  # all had asked before the first was answered; the empty text is run separately, and refused
    for text, message in zip(texts, answers, strict=True):
        rows = dict(unpack(message)[0]["plain"]["written"]["rows"])
        assert rows["source"] == (text or BEFORE)
        assert bool(rows["stale"]) == (not text)
        if text:
            assert rows["output"] == f"200{text[0]}-0{5 + int(text[0])}-0{text[0]}"


class Panic(BaseException):
    """The error of a library written in Rust after a panic, which is no Exception."""


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, Panic, SystemExit, KeyboardInterrupt, RecursionError]
)
def test_a_failing_answer_does_not_affect_the_others(error: type[BaseException]) -> None:
    def fails(*texts: str) -> Pictures:
        raise error("broken")

    broken, whole, later = Numbers().session, Numbers().session, Numbers().session
    broken.answer = fails
    broken.name = whole.name = later.name = "no such checkpoint"
    lanes = Lanes(live_route._answer)

    async def ask(*sessions: LiveSession) -> list[bytes | None]:
        return await asyncio.wait_for(
            asyncio.gather(*(lanes.answer(session, ("a", "")) for session in sessions)), 30
        )

    async def twice() -> list[bytes | None]:
        return [*await ask(broken, whole), *await ask(later)]

    nothing, *answers = asyncio.run(twice())
    assert nothing is None
    assert [unpack(answer)[0]["plain"] for answer in answers] == [{"text": {"source": "a"}}] * 2


def test_a_batch_that_panics_still_gives_everyone_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def panics(asked: object) -> None:
        raise Panic("in the batch")

    monkeypatch.setattr(live.cache, "run_together", panics)
    sessions = [Numbers().session for _ in range(3)]
    lanes = Lanes(live_route._answer)

    async def ask() -> list[bytes | None]:
        return await asyncio.wait_for(
            asyncio.gather(*(lanes.answer(session, ("a", "")) for session in sessions)), 30
        )

    assert [unpack(answer)[0]["plain"] for answer in asyncio.run(ask())] == [
        {"text": {"source": "a"}}
    ] * 3


def test_no_session_waits_for_a_long_text_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    together, long = [], "word " * 70
    monkeypatch.setattr(runs, "MIN_GENERATED_BATCH", 1)
    monkeypatch.setattr(
        Scope,
        "run_each",
        lambda self, pairs, *more: together.append(pairs) or [None for _ in pairs],
    )
    monkeypatch.setattr(runs, "cached", lambda *what, make: None)
    live.cache.run_together(
        [("eng-fra", texts, ()) for texts in (("Yes.", ""), (long, ""), ("No.", long), ("", ""))]
    )
    assert together == [[("Yes.", None)]]
    live.cache.run_together([("eng-fra", (long, ""), ()), ("no such checkpoint", ("a", ""), ())])
    assert len(together) == 1  # nothing is left to run
    live.cache.run_together([("eng-fra", ("No.", " "), ()), ("eng-fra", ("Yes.", "Oui."), ())])
    assert together[1:] == [[("No.", None), ("Yes.", "Oui.")]]  # a blank target is none
    longest = "word" + " word" * 62
    assert (
        len(live.cache.scope("eng-fra").encode(source=longest)["source"].ids)
        == runs.MAX_BATCHED_TOKENS
    )  # with its end token
    live.cache.run_together(
        [("eng-fra", (longest, ""), ()), ("eng-fra", (f"{longest} word", ""), ())]
    )
    assert together[2:] == [[(longest, None)]]


def message(text: str | None = None, data: bytes | None = None) -> dict:
    return {"type": "websocket.receive", "text": text, "bytes": data}


@pytest.mark.parametrize(
    "text",
    [
        None, "", "[]", "null", "{", "1", '"a"', '{"texts": [1, ""]}', '{"texts": "a"}', '{"texts": []}',
        '{"source": "a", "target": ""}', '{"texts": ["a", null]}', json.dumps({"texts": ["a"] * 9}), "x" * 1_000_001,
        "[" * 100_000, '{"texts":' * 50_000, "9" * 5_000,
    ],
)  # fmt: skip
def test_a_foreign_message_is_not_answered(text: str | None) -> None:
    assert live_route._texts(message(text, b"\x00" if text is None else None)) is None


def test_a_message_consists_of_texts_of_whole_characters() -> None:
    asked = {"texts": ["a\ud83db", "\udc00"], "token": "of an older page"}
    assert live_route._texts(message(json.dumps(asked))) == ("a\ufffdb", "\ufffd")
    assert live_route._texts(message(json.dumps({"texts": ["😀", "\x00", "c"]}))) == (
        "😀",
        "\x00",
        "c",
    )


def test_half_a_character_gets_the_same_answer_as_in_a_rerun() -> None:
    app = open_page("", "")
    source, target = live_route._texts(message(json.dumps({"texts": ["3 May 1999 \ud83d", ""]})))
    rows = dict(answer(app.session_state["live session"], source, target)["written"]["rows"])
    assert rows["source"] == "3 May 1999 \ufffd"
    app.text_area(key="source").set_value("3 May 1999 \ufffd").run()
    assert dict(said(app, "written")["rows"]) == rows


def test_text_parts_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_page("", "")
    text = "<script>alert(1)</script>"
    assert (
        dict(answer(app.session_state["live session"], text)["written"]["rows"])["source"] == text
    )
    assert said(app, "written")["look"].startswith("written")


def test_a_run_of_a_model_that_the_session_has_left_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stopped rerun, or an answer over the socket, may still be computing when the session already shows another model."""
    app = open_page("", "")
    session, other = app.session_state["live session"], cache.scope("dates-rnn")
    trace, answer = cache.trace, session.answer
    changed = replace(session.run.spec, forced=((1, 2),))

    def leave(*given: object) -> object:
        read = trace(*given)
        session.scope = other
        return read

    session.change = lambda own: replace(own, spec=changed)
    before = session.run
    monkeypatch.setattr(cache, "trace", leave)
    respond.run_texts(session, AFTER, "")
    assert session.run is before
    monkeypatch.undo()
    assert answer(AFTER, "") == {}  # from the page of the previous model
    run, _ = respond.run_texts(session, AFTER, "")
    assert session.run is run
    assert session.shown is run  # the changes belong to the other model


@pytest.mark.slow
def test_a_closed_page_holds_no_run_and_a_page_that_returns_has_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "cache_store", ByteCache(1))  # caches nothing
    soon: list[None] = []
    monkeypatch.setattr(process, "release_memory_soon", lambda: soon.append(None))
    app = open_page("", "similarity=cosine")
    session = app.session_state["live session"]
    held, change = ref(session.run.trace), session.change
    logits = session.run.trace.next_token.logits.clone()
    live_route._leave(session.token)
    gc.collect()
    assert held() is None
    assert soon == [None]
    assert session.run.trace.fields == {"source": BEFORE, "target": None}
    assert torch.equal(session.run.trace.next_token.logits, logits)
    live_route._leave(session.token)
    answer(session, AFTER)
    assert session.run.trace.fields["source"] == AFTER
    assert session.change is change  # of the same model
    assert not app.run().exception


class ClosedWhileRead(LiveSession):
    """A session whose page is closed the moment another thread reads that it has a run."""

    held: CurrentRun | None = None

    @property
    def _run(self) -> CurrentRun | None:
        run = self.held
        if run is not None and threading.current_thread() is threading.main_thread():
            closing = threading.Thread(target=self.put_aside)
            closing.start()
            closing.join(0.1)  # or until the lock is free
        return run

    @_run.setter
    def _run(self, run: CurrentRun | None) -> None:
        self.held = run


def test_a_page_that_closes_while_its_run_is_read_takes_no_run_away() -> None:
    dates = cache.scope("dates")
    session = ClosedWhileRead()
    session.run = run = CurrentRun(dates, dates.run(AFTER))
    assert session.run is run


def test_a_page_closes_while_its_last_run_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop of all sockets closes it, and must not wait for a model's run."""
    dates = cache.scope("dates")
    session = LiveSession()
    session.run = CurrentRun(dates, trace := dates.run(AFTER))
    session.put_aside()
    closed: list[bool] = []

    def close_meanwhile(*asked: object) -> Trace:
        closing = threading.Thread(target=session.put_aside)
        closing.start()
        closing.join(1)
        closed.append(not closing.is_alive())
        return trace

    monkeypatch.setattr(cache, "given_trace", close_meanwhile)
    stale = session.keep_last()
    assert closed == [True]
    assert (stale.trace, stale.stale) == (trace, True)


def test_memory_is_released_after_a_rerun_with_a_long_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon: list[None] = []
    monkeypatch.setattr(process, "release_memory_soon", lambda: soon.append(None))
    app = open_page("", "checkpoint=eng-fra&target=x")
    assert soon == []
    app.text_area(key="source").set_value("I am here. " * 100).run()
    assert not app.exception
    assert soon == [None]


def test_requests_to_release_memory_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    monkeypatch.setattr(process, "MERGE_SECONDS", 3600)
    monkeypatch.setattr(process, "_trim", lambda: rounds.append)
    for n in (1, 2):
        for _ in range(3):
            process.release_memory_soon()
        (timer,) = process._timers
        timer.cancel()
        timer.function()
        assert rounds == [0] * n
        assert process._timers == []
