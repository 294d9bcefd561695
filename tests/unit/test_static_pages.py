"""The static edition as files: the targets of its clicks, the folders that it accepts, and text that never becomes HTML."""

import base64
import gzip
import json
import math
import os
import re
import signal
from functools import partial
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
import torch

import models
from models.checkpoint_files import checksum, write_bytes
from viz_app import checkpoints
from viz_app.components import Component
from viz_app.components.catalogue import (
    BOARD,
    DISTANCES,
    GUESSES,
    MASK_PAINTER,
    OUTCOME,
    PATCH,
    PLAIN,
    ROW_TESTS,
    WALK,
)
from viz_app.drawing.look import DARK, LIGHT
from viz_app.drawing.notes import rows, small_print
from viz_app.drawing.payload import pack, unpack
from viz_app.static_pages import charts, crawl, export, links, packed, recording
from viz_app.static_pages import folder as folder_module
from viz_app.static_pages.contents import ModelTexts, StaticPage
from viz_app.static_pages.crawl import Pages
from viz_app.static_pages.events import messages, without_model
from viz_app.static_pages.folder import LIST, check_folder, write_site
from viz_app.static_pages.layout import CellLayout
from viz_app.static_pages.markdown import as_html, headline_html, labelled_html, table_html
from viz_app.static_pages.model_cards import linked_cards
from viz_app.static_pages.page import INSTALL_COMMAND
from viz_app.static_pages.shared import MIN_SHARED_BYTES, shared_payloads
from viz_app.static_pages.still import Still
from viz_app.static_pages.tex import mathml
from viz_app.views.interventions import patch_text
from viz_app.views.page import NextQuestion, ShownComponent

ROOT = Path(__file__).parents[2]
TABS = ["attention", "masks", "decoding"]
EVIL = "<img src=x onerror=alert(1)>"


def test_ctrl_c_waits_for_the_end_of_a_still_unless_it_is_pressed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[StaticPage] = []

    def make(presses: int, example: ModelTexts, place: StaticPage, query: str) -> SimpleNamespace:
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)
        made.append(place)
        return SimpleNamespace(missing="nothing is shown")

    pages = [StaticPage("gpt", tab) for tab in TABS]
    for presses, n_made in ((1, 1), (2, 0)):
        made.clear()
        monkeypatch.setattr(crawl, "_make_still", partial(make, presses))
        with pytest.raises(KeyboardInterrupt):
            crawl.crawl(ModelTexts("gpt"), pages, lambda: None)
        assert len(made) == n_made
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    """A site with a few pages of one model."""
    return export.site_files(["bert"], TABS, [])


def payload(page: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the data that static.js reads from a page."""
    (packed,) = re.findall(rb'id="drawn">"([^"]*)"', page)
    return unpack(gzip.decompress(base64.b64decode(packed)))


def test_a_click_on_a_head_leads_to_the_weights_of_that_head(made: dict[str, bytes]) -> None:
    header, arrays = payload(made["bert/attention.html"])
    first = header["stills"][0]
    clicks = [move for move in first["moves"] if move[:2] == ["overview", "pick"]]
    run = models.load("bert").run(*ModelTexts("bert").texts[:1])
    assert len(clicks) == sum(site.n_heads for site in run.attention.values()) == 16
    for _, _, message, target in clicks:
        name, array = header["stills"][target]["parts"]["head"]
        drawn, numbers = unpack(arrays[array].tobytes())
        site = run.attention[message["site"]]
        q, k = site.q[0, message["head"]], site.k[0, message["head"]]
        expected = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        assert (name, drawn["site"], drawn["head"]) == ("head", message["site"], message["head"])
        torch.testing.assert_close(torch.tensor(numbers["weights"]), expected)


def test_controls_that_need_the_model_are_missing(made: dict[str, bytes]) -> None:
    header, arrays = payload(made["bert/attention.html"])
    for still in header["stills"]:
        glance, _ = unpack(arrays[still["parts"]["overview"][1]].tobytes())
        assert glance["switches"] is False
    header, arrays = payload(made["bert/masks.html"])
    for still in header["stills"]:
        painter, _ = unpack(arrays[still["parts"]["mask_painter"][1]].tobytes())
        assert painter["fixed"] is True
    assert "In the app you paint cells" in made["bert/masks.html"].decode()
    assert "Click or drag" not in made["bert/masks.html"].decode()


def chart_of(made: dict[str, bytes], page: str, key: str) -> dict[str, Any]:
    """A chart of the first still of a page."""
    header, arrays = payload(made[page])
    return json.loads(arrays[header["stills"][0]["charts"][key]].tobytes())


@pytest.mark.slow
def test_a_chart_has_the_papers_numbers_in_both_themes() -> None:
    made = export.site_files(["bert"], ["positions"], [])
    curves = chart_of(made, "bert/positions-curves.html", "positions-curves")
    assert curves["library"] == "vega"
    for theme in ("light", "dark"):
        (points,) = [
            rows
            for rows in curves[theme]["usual"]["datasets"].values()
            if "value" in next(iter(rows))
        ]
        assert len(points) % 5 == 0
        for point in points:
            i, odd = divmod(int(re.findall(r"\d+", point["dimension"])[0]), 2)
            angle = point["position"] / 10000 ** (2 * i / 64)
            expected = math.cos(angle) if odd else math.sin(angle)
            assert point["value"] == pytest.approx(expected, abs=1e-5)
    grid = chart_of(made, "bert/positions-map.html", "positions-map")
    assert grid["library"] == "plotly"
    light, dark = grid["light"]["usual"], grid["dark"]["usual"]
    assert light["data"][0]["z"] == dark["data"][0]["z"]
    assert light["layout"]["font"]["color"] == LIGHT.text
    assert dark["layout"]["font"]["color"] == DARK.text
    usual, phone = (curves["light"][name] for name in ("usual", "phone"))
    assert usual["datasets"] == phone["datasets"]
    assert [each["encoding"]["color"]["legend"]["columns"] for each in (usual, phone)] == [2, 1]
    assert phone["height"] > usual["height"]  # so that the longer legend takes nothing of the plot
    assert {"assets/vega.js", "assets/plotly.js"} <= made.keys()
    assert b"plotly.js" not in made["bert/positions-curves.html"]
    assert b"plotly.js" in made["bert/positions-map.html"]


def test_a_table_has_the_recorded_scores_and_its_texts_are_only_text() -> None:
    made = export.site_files(["gpt"], ["from-rnn"], [])
    page = made["gpt/from-rnn-similarities.html"].decode()
    for name in ("additive", "cosine", "dot", "general", "scaled-dot"):
        training = models.load(f"dates-{name}").training
        (row,) = re.findall(rf"<td>{name.replace('-', ' ')}</td>.*?</tr>", page, re.DOTALL)
        assert f"<td>{training['scores']['held-out exact match']:.5g}</td>" in row
        assert f"<td>{training['step']:,}</td>" in row
    table = table_html(pd.DataFrame({EVIL: [EVIL], "n": [1234567], "x": [1234.5]}))
    assert "<img" not in table
    assert "<td>1,234,567</td>" in table
    assert "<td>1,234.5</td>" in table


def test_charts_without_their_library_are_named_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    made = export.site_files(["bert"], ["positions"], [])
    assert "bert/positions-curves.html" not in made
    assert "assets/vega.js" not in made
    page = made["bert/positions-shuffle-test.html"].decode()
    assert re.search(r'aria-disabled="true" title="[^"]*made without them[^"]*">Curves<', page)


def test_the_script_of_vega_lite_fits_the_charts_schema() -> None:
    assert charts.is_compatible("6.1", "v6.4.1")
    assert charts.is_compatible("6.4", "v6.4.1")
    assert not charts.is_compatible("6.5", "v6.4.1")
    assert not charts.is_compatible("5.21", "v6.4.1")


def test_a_page_that_shows_nothing_of_a_model_is_named_with_its_reason(
    made: dict[str, bytes],
) -> None:
    assert not [name for name in made if "decoding" in name]
    page = made["bert/attention.html"].decode()
    assert re.search(r'aria-disabled="true" title="[^"]*not generate text[^"]*">Decoding<', page)


def test_every_page_says_how_to_type_and_limits_what_it_loads(made: dict[str, bytes]) -> None:
    assert f"\n{INSTALL_COMMAND}\n" in (ROOT / "README.md").read_text("utf-8")
    pages = [content.decode() for name, content in made.items() if name.endswith(".html")]
    assert len(pages) == 3
    for page in pages:
        assert escape(INSTALL_COMMAND) in page
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
        assert policy
        assert "default-src &#x27;none&#x27;; script-src &#x27;self&#x27;;" in policy[1]
        for script in re.findall(r"<script[^>]*>", page):
            assert 'src="' in script or 'type="application/json"' in script


def test_the_same_site_has_the_same_bytes(made: dict[str, bytes]) -> None:
    assert export.site_files(["bert"], TABS, []) == made


def test_a_site_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MAX_SITE_BYTES", 1000)
    monkeypatch.setattr(crawl, "MAX_STILLS", 1)
    with pytest.raises(ValueError, match="more than 1,000"):
        export.site_files(["eng-fra-bahdanau"], ["attention"], [])


def write(folder: Path, **files: bytes) -> None:
    check_folder(folder)
    write_site(folder, {name.replace("_", "."): content for name, content in files.items()})


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_earlier_export_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "site"
    write(folder, a_html=b"1", b_html=b"1")
    write(folder, b_html=b"2", c_html=b"2")
    assert names(folder) == {"b.html", "c.html", LIST}
    assert (folder / "b.html").read_bytes() == b"2"
    assert names(tmp_path) == {f"new/site/{name}" for name in names(folder)}


def test_a_page_that_was_changed_by_hand_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path, a_html=b"1", b_html=b"1")
    (tmp_path / "a.html").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"something else, a\.html"):
        check_folder(tmp_path)


def test_an_export_follows_one_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, a_html=b"1", b_html=b"1", c_html=b"1")

    def stopped(path: Path, content: bytes) -> None:
        if path.name == "b.html":
            raise KeyboardInterrupt
        write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "write_bytes", stopped)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, a_html=b"2", b_html=b"2")
    assert (tmp_path / "a.html").read_bytes() == b"2"
    write(tmp_path, a_html=b"3", b_html=b"3")
    assert names(tmp_path) == {"a.html", "b.html", LIST}


LISTS = [
    None,
    b"",
    b"{}",
    b"[1]",
    b'{"thesis.txt": 1}',
    b'{"thesis.txt": ["x", {}]}',
    b"[" * 60_000,
    b'["' + b"x" * 2**19,
]


@pytest.mark.parametrize("listed", LISTS)
def test_a_folder_that_holds_something_else_is_refused(
    tmp_path: Path, listed: bytes | None
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    if listed is not None:
        (tmp_path / LIST).write_bytes(listed)
    with pytest.raises(ValueError, match=r"contains something else"):
        check_folder(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_in_the_folder_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LIST)
    os.mkfifo(tmp_path / "a.html")
    with pytest.raises(ValueError, match="contains something else"):
        check_folder(tmp_path)


def test_nothing_outside_the_folder_is_touched(tmp_path: Path) -> None:
    """Neither a list that names other files nor links lead outside."""
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    folder = tmp_path / "site"
    folder.mkdir()
    sums = [checksum(b"mine")]
    (folder / LIST).write_text(json.dumps({"../outside.txt": sums, str(outside): sums}))
    write(folder, a_html=b"1")
    assert outside.read_text() == "mine"
    (folder / "assets").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="link"):
        check_folder(folder)
    (tmp_path / "linked").symlink_to(folder)
    with pytest.raises(ValueError, match="not a folder"):
        check_folder(tmp_path / "linked")
    with pytest.raises(ValueError, match="not a folder"):
        check_folder(outside)


def test_texts_are_escaped_everywhere() -> None:
    evil = f"**{EVIL}** *{EVIL}* `{EVIL}` [{EVIL}](javascript:x) ${EVIL}$ \\< {EVIL}\n\n- {EVIL}\n\n$${EVIL}$$"
    html = as_html(f"{evil}\n\n| {EVIL} | b |\n|---|---|\n| {EVIL} | c |")
    assert "<img" not in html
    assert "href" not in html
    assert {"<strong>", "<em>", "<code>", "<li>", "<td>", "<math>"} <= set(
        re.findall(r"<\w+>", html)
    )
    assert "<img" not in headline_html(EVIL, EVIL)
    assert "<img" not in labelled_html([(EVIL, EVIL)])
    assert '<abbr title="' in headline_html("Which token?", "")


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"\frac{q\cdot k}{\sqrt{32}}", "q·k32"),
        (r"\mathrm{softmax}\left(x\right)", "softmax(x)"),
        (r"-\log_2 p", "−log2p"),
        (r"s_{i-1}^{2}", "si−12"),
        (r"\overleftarrow{h}_1", "h←1"),
        (r"\text{a < b}", "a &lt; b"),
        (r"\mathbf{\sin}\frac{x}{10^{\mathbf{2^i}/d}}", "sinx102i/d"),
        (r"a \le b \ge c", "a≤b≥c"),
        (r"\frac{", ""),
    ],
)
def test_a_formula_has_its_letters_in_order(tex: str, expected: str) -> None:
    assert re.sub(r"<[^>]+>", "", mathml(tex)) == expected


def test_a_formula_keeps_numerator_and_scripts_apart() -> None:
    assert (
        mathml("a_i^2")
        == "<math><mrow><msubsup><mi>a</mi><mi>i</mi><mn>2</mn></msubsup></mrow></math>"
    )
    assert (
        mathml(r"\frac{a}{b}").count(
            "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>"
        )
        == 1
    )


WALKED = {"query": 2, "indices": [5, 0, 3]}
TOKENS = {"states": ["special", "open", "hidden", "hidden", "fixed"]}
KINDS = {"strip": [{"kind": "cross"}, {"kind": "self"}, {"kind": "cross"}]}
ON, OFF = {"factor": 1}, {"factor": 0}
ALL_ON = {"kinds": [{"sites": ["a", "b"], "states": [[ON, ON], [ON, None]]}]}
ONE_OFF = {"kinds": [{"sites": ["a", "b"], "states": [[ON, OFF], [ON, None]]}]}
FAR = {"kinds": [{"sites": ["a", "b"], "values": [[0.5, 0.0], [0.1, None]]}]}
FOLLOWED = {"decisions": [{"chosen": False}, {"chosen": True}, {"chosen": False}]}
EQUAL_WEIGHTS = {"columns": [{"weights": [1, 0], "edited": True}, {"weights": [0.5, 0.5]}, {"weights": None}]}  # fmt: skip


def switched(*heads: tuple[str, int], off: bool = True) -> list[dict[str, Any]]:
    return [{"site": site, "head": head, "off": off} for site, head in heads]


@pytest.mark.parametrize(
    ("component", "event", "header", "expected"),
    [
        (WALK, "on_choose", WALKED, [{"query": 2, "key": key} for key in (5, 0, 3)]),
        (GUESSES, "on_hide", TOKENS, [{"hidden": one} for one in ([1, 2, 3], [3], [2])]),
        (MASK_PAINTER, "on_kind", KINDS, [{"kind": "cross"}, {"kind": "self"}]),
        (WALK, "on_news", WALKED, []),
        (BOARD, "on_switch", ALL_ON, switched(("a", 0), ("a", 1), ("b", 0))),
        (BOARD, "on_switch", ONE_OFF, switched(("a", 1), off=False)),
        (BOARD, "on_scale", ALL_ON, []),
        (
            DISTANCES,
            "on_pick",
            FAR,
            [{"site": s, "head": h} for s, h in (("a", 0), ("a", 1), ("b", 0))],
        ),
        (OUTCOME, "on_choose", FOLLOWED, [{"position": 0}, {"position": 2}]),
        (ROW_TESTS, "on_set", EQUAL_WEIGHTS, [{"weights": []}, {"weights": [0.5, 0.5]}]),
    ],
)
def test_a_click_sends_the_event_of_its_picture(
    component: Component, event: str, header: dict, expected: list
) -> None:
    assert messages(component, event, pack(header)) == expected
    assert messages(component, event, header) == expected


def test_what_only_the_app_does_is_not_offered() -> None:
    hint = patch_text.HINT.format(noun="text")
    shown = without_model(PATCH, {"hint": hint, "measured": "log p", "panels": []})
    assert isinstance(shown, dict)
    assert (shown["fixed"], shown["measured"]) == (True, "log p")
    assert "Click" not in shown["hint"]
    assert without_model(BOARD, {"kinds": []}) == {"kinds": [], "scales": False}
    assert without_model(OUTCOME, {"verdict": patch_text.NOTHING_PATCHED}) != {
        "verdict": patch_text.NOTHING_PATCHED
    }


def test_only_shipped_models_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    many = [tmp_path] * (checkpoints.MAX_SEARCHED_FOLDERS + 1)
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(tmp_path))
    monkeypatch.setattr(checkpoints, "_folders", lambda: {"mine": tmp_path})
    monkeypatch.setattr(checkpoints, "_searched_folders", lambda: many)
    assert "mine" in checkpoints.offered()
    assert checkpoints.is_search_cut()
    with checkpoints.only_shipped():
        assert list(checkpoints.offered()) == models.shipped()
        assert not checkpoints.is_search_cut()
    assert "mine" in checkpoints.offered()


def test_an_empty_note_takes_no_place() -> None:
    cells = [ShownComponent(PLAIN, key) for key in ("empty", "full")]
    layout = CellLayout({"empty": rows("note"), "full": small_print("one line")}, "", "")
    nodes = layout.whole({}, [], [], cells)
    assert [node["part"] for node in nodes if "part" in node] == ["full"]


def test_cards_lead_to_the_models_that_have_pages() -> None:
    cells = np.arange(6, dtype=np.uint8)
    cards = [{"name": "now"}, {"name": "gpt", "href": "task?checkpoint=gpt"}, {"name": "dates", "href": "x"}]  # fmt: skip
    payload = pack({"groups": [{"cards": cards}], "python": {"href": "reference"}}, cells=cells)
    header, arrays = unpack(linked_cards(payload, {"now": "now/task.html", "gpt": "gpt/task.html"}))
    shown = {card["name"]: card.get("href") for card in header["groups"][0]["cards"]}
    assert shown == {"now": None, "gpt": "../gpt/task.html", "dates": ""}
    assert "python" not in header
    assert arrays["cells"].tolist() == cells.tolist()


def test_a_payload_of_several_models_is_stored_once() -> None:
    common, small = {"rows": "x" * MIN_SHARED_BYTES}, {"rows": "few"}
    places = {name: StaticPage(name, "positions", "Map") for name in ("gpt", "bert", "xlnet")}
    own = {name: {"rows": name * MIN_SHARED_BYTES} for name in places}
    charts = {name: {"map": common, "small": small, "own": own[name]} for name in ("gpt", "bert")}
    charts["xlnet"] = {"own": own["xlnet"]}
    site = {
        ModelTexts(name): Pages(
            {place: {"": Still("", charts=charts[name], leads_to=("task", ""))}}
        )
        for name, place in places.items()
    }
    shared = shared_payloads(site)
    assert set(shared) == {places["gpt"], places["bert"]}
    assert len({one.name for one in shared.values()}) == 1
    script = shared[places["gpt"]].script.decode()
    (text,) = re.findall(r'"([^"]+)"', script)
    _, elsewhere = unpack(gzip.decompress(base64.b64decode(text)))
    for name, pages in zip(places, site.values(), strict=True):
        stored = shared[places[name]].payloads if places[name] in shared else ()
        header, arrays = unpack(packed.pack_stills(pages, places[name], [], stored))
        assert not elsewhere.keys() & arrays.keys()
        for key, array in header["stills"][0]["charts"].items():
            read = json.loads({**arrays, **elsewhere}[array].tobytes())
            assert read["rows"] == charts[name][key]["rows"]
        assert len(arrays) == (2 if name in ("gpt", "bert") else 1)


def test_links_lead_to_the_same_page_of_another_model_and_mark_the_current_one() -> None:
    both = {
        ModelTexts(name): Pages({StaticPage(name, tab): {"": Still("")} for tab in tabs})
        for name, tabs in {"gpt": ("attention", "inside"), "bert": ("attention", "task")}.items()
    }
    for here, files in {
        StaticPage("gpt", "attention"): ["gpt/attention", "bert/attention"],
        StaticPage("gpt", "inside"): [
            "gpt/inside",
            "bert/attention",
        ],  # the first, since it has none of its own
        StaticPage("bert", "task"): ["gpt/attention", "bert/task"],
    }.items():
        html = links.models(both, here)
        assert re.findall(r'href="../([^"]*).html"', html) == files
        (current,) = re.findall(r'href="../([^"/]*)[^"]*" aria-current="page"', html)
        assert current == here.checkpoint


def test_the_question_at_the_end_leads_to_the_still_that_it_names() -> None:
    place = StaticPage("gpt", "inside")
    pages = Pages({place: {"head=1": Still("head=1")}}, {(place, "head=1"): "head=1"})
    for query, expected in {"head=1": "../gpt/inside.html#head=1", "head=2": ""}.items():
        assert packed._next(pages, Still("", leads_to=("inside", query))) == expected
    assert packed._next(pages, Still("", leads_to=("masks", ""))) == ""


def test_a_model_is_shown_with_its_text_and_without_the_typing_hint(made: dict[str, bytes]) -> None:
    example = ModelTexts("bert")
    assert f"“{escape(example.texts[0])}”" in made["index.html"].decode()
    assert example.inputs == [("Text", example.texts[0])]
    page = made["bert/attention.html"].decode()
    assert f": bert reads “{escape(example.texts[0])}”" in page  # where a search engine finds it
    assert "<title>Attention · bert · Attnscope</title>" in page


def test_each_section_has_its_own_file() -> None:
    assert (
        StaticPage("gpt", "positions", "Score by distance").file
        == "gpt/positions-score-by-distance.html"
    )
    assert StaticPage("gpt", "attention").file == "gpt/attention.html"


def test_the_address_of_the_next_question_holds_its_choices() -> None:
    unchanged: Any = SimpleNamespace()
    unchanged.unchanged = unchanged
    changed: Any = SimpleNamespace(unchanged=unchanged)
    asked = NextQuestion("Where does it come from?", "inside", {"inside-key": 3, "lock": "q2"})
    query = parse_qs(recording._address_of(asked, unchanged))
    assert (query["inside-key"], query["lock"]) == (["3"], ["q2"])
    then = NextQuestion("And then?", "inside")
    assert "lock" not in parse_qs(recording._address_of(then, unchanged))
    for page, has_choices in {"models": False, "decoding": True}.items():
        written = NextQuestion("And then?", page, {"inside-key": 3})
        assert recording._address_of(written, unchanged) == ""
        assert ("inside-key" in parse_qs(recording._address_of(written, changed))) == has_choices
