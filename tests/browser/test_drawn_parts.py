"""Pictures made of page elements: each is saved in four formats, with all words and numbers that it shows."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest
from drawn import on_screen
from stage import SAVED, Stage, alike, hex_of

import models
from viz_app.drawing.payload import pack, unpack
from viz_app.input_bar.examples import readable_examples
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.pinned import Pinned
from viz_app.views.compare import payloads as compare
from viz_app.views.interventions import explanation_payload as explanation
from viz_app.views.interventions import patch_effects, patch_payloads
from viz_app.views.interventions import payloads as heads
from viz_app.views.task import presentations
from viz_app.views.task.reading import TaskChoices

from . import test_drawn_versions as versions
from .test_drawn_files import SVG, Pdf

CROSS = "decoder.layers.2.cross_attn"
TEXTS = {"eng-fra": ("The cat is black.",), "gpt": ("The boy said that he had seen it",)}


@cache
def run_of(name: str) -> CurrentRun:
    scope = models.load(name, device="cpu")
    return CurrentRun(scope, scope.run(*TEXTS.get(name, readable_examples(scope)[0])))


@cache
def task(name: str) -> dict[str, Any]:
    return presentations.task_payloads(run_of(name), TaskChoices(None, Focus()))


@cache
def interventions() -> dict[str, Any]:
    choices = heads.HeadOffChoices(None, "log-probability", "zero")
    return on_screen(heads.head_off_payloads(run_of("eng-fra"), choices))


def patch() -> dict[str, Any]:
    other = ("The dog is black.",)
    choices = patch_effects.PatchChoices(
        other, (), None, "", "residual", "difference", "needed", ()
    )
    return patch_payloads.patch_section_payloads(run_of("eng-fra"), choices)["patch"]


def row_tests() -> dict[str, Any]:
    choices = explanation.RowChoices(None, CROSS, 0, None, ())
    return explanation.explanation_payloads(run_of("eng-fra"), choices)["row_tests"]


def distances() -> dict[str, Any]:
    choices = compare.CompareChoices(None, Focus(CROSS, 0), None)
    return compare.compare_payloads(run_of("eng-fra"), choices)["distances"]


def three_versions() -> bytes:
    header = {
        "source": "p q", "reference": None, "cards": versions.CARDS, "legend": "How it reads.", **SAVED, "file": "m.versions",
        "bottleneck": {"title": "The bottleneck", "note": "What it is.", "vector": "h(m)", "bars": "How much.", "scale": 2.0,
                       "largest": 0.6, "labels": [["p", "", False], ["q", "", False], [".", "", False]]},
    }  # fmt: skip
    return pack(header, vector=versions.CHANGE, change=versions.CHANGE)


SHOWN: dict[str, Callable[[], Any]] = {
    "answers": lambda: task("gpt")["answers"],
    "answers of a translation": lambda: task("eng-fra")["answers"],
    "board": lambda: interventions()["board"],
    "classes": lambda: task("gpt-sentiment")["classes"],
    "distances": distances,
    "guesses": lambda: task("bert")["guesses"],
    "outcome": lambda: interventions()["outcome"],
    "pair": lambda: task("gpt-sentiment")["pair"],
    "patch": patch,
    "row_tests": row_tests,
    "versions": three_versions,
}
# visible words of a picture's elements, without hints, buttons, menus and the table for screen readers, which is made when the
# browser has time
WORDS = """(root) => {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const { parentElement: e, data } = walker.currentNode;
    if (data.trim() && e.checkVisibility() && !e.closest("style, .files, .behind, [data-screen-only]")) found.push(data);
  }
  return found;
}"""

LAID_OUT = """(root) => [...root.querySelectorAll(":not(.files *, .behind, .behind *)")].map((e) => {
  const { x, y, width, height } = e.getBoundingClientRect();
  return [e.getAttribute("style"), x, y, width, height, e.scrollTop, e.scrollLeft].join(" ");
})"""


def mount(stage: Stage, name: str, width: int = 1200) -> Any:
    data = SHOWN[name]()
    stage.mount(name.split()[0], width).show(data)
    return data


def svg_of(stage: Stage) -> ElementTree.Element:
    _, mime, raw = stage.saved(".save.svg")
    assert mime == "image/svg+xml"
    return ElementTree.fromstring(raw)


def texts_of(drawing: ElementTree.Element) -> list[str]:
    """Return the words of the picture itself, without its title and its caption."""
    return [one.text for one in drawing.find(f"{SVG}g").iter(f"{SVG}text")]


def letters(texts: list[str]) -> Counter[str]:
    return Counter(re.sub(r"\s", "", "".join(texts)))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", SHOWN)
def test_its_svg_has_every_word_and_number_that_is_shown(stage: Stage, name: str) -> None:
    mount(stage, name)
    before = stage.js(LAID_OUT)
    drawing = svg_of(stage)
    title, *_ = [one.text for one in drawing.findall(f"{SVG}text")]
    shown, said = stage.js(WORDS), texts_of(drawing)
    numbers = [one for one in shown if re.fullmatch(r"[−+<>]?[\d.,]*\d( %)?", one)]
    assert len(numbers) > 3
    assert not Counter(numbers) - Counter(said)
    assert letters(said) + letters([title]) >= letters(shown)
    assert letters(shown) + letters([title]) >= letters(said)
    assert stage.js(LAID_OUT) == before  # the page is unchanged


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", SHOWN)
def test_it_is_taken_in_four_forms(stage: Stage, name: str) -> None:
    mount(stage, name)
    assert stage.texts(".take .formats button") == ["PNG", "SVG", "PDF", "CSV"]
    assert stage.box(".take .formats")["width"] == 0  # until the menu is opened
    said = set(texts_of(svg_of(stage)))
    file, mime, raw = stage.saved(".save.pdf")
    assert (file.rpartition(".")[2], mime) == ("pdf", "application/pdf")
    assert said <= {text for text, *_ in Pdf(raw).words()}
    file, mime, raw = stage.saved(".save.png")
    assert (file.rpartition(".")[2], mime) == ("png", "image/png")
    file, known, tables = stage.saved_tables()
    assert file.endswith(".picture.csv")
    assert "model: " in known
    for head, *rows in tables:
        assert rows, head
        assert {len(row) for row in rows} == {len(head)}


def numbers_of(table: list[list[str]]) -> list[float]:
    return [float(cell) for row in table[1:] for cell in row[1:] if cell]


def test_the_table_of_heads_has_the_exact_effects(stage: Stage) -> None:
    kinds = mount(stage, "board")["kinds"]
    for kind, table in zip(kinds, stage.saved_tables()[2], strict=True):
        expected = [value for row in kind["effects"] for value in row]
        assert numbers_of(table) == pytest.approx(expected, rel=1e-6)
        assert [row[0] for row in table[1:]] == [f"Layer {n}" for n in kind["layers"]]


def test_the_tables_of_an_answer_have_its_numbers(stage: Stage) -> None:
    header, arrays = unpack(mount(stage, "answers"))
    places, answer, row = stage.saved_tables()[2]
    known = [label[0] for label in header["places"] if label]
    assert [line[0] for line in places[1:]] == known
    assert [line[3] for line in places[1:]] == [str(rank) for rank in arrays["rank"]]
    assert [float(line[1]) for line in places[1:]] == pytest.approx(arrays["surprisal"].tolist())
    assert numbers_of(answer) == pytest.approx(arrays["p"].tolist())
    assert numbers_of(row) == pytest.approx(arrays["weights"].tolist())


def test_each_compared_map_names_the_tokens_of_its_own_run(stage: Stage) -> None:
    """Their cells stand in one place all the same."""
    run = run_of("eng-fra")
    here = CurrentRun(run.scope, run.scope.run("I like cats."))
    pinned = Pinned(run.scope, ("I like dogs.", ""), ())
    choices = compare.CompareChoices(pinned, Focus(CROSS, 0), None)
    stage.mount("difference", 900).show(compare.compare_payloads(here, choices)["difference"])
    maps = [stage.written(f".of-{name} canvas.cells") for name in ("first", "second", "difference")]
    named = [{word for word in words if "cats" in word or "dogs" in word} for words in maps]
    assert named[0] == {"·cats"}
    assert named[1] == {"·dogs"}
    assert all("|" in word or "…" in word for word in named[2])
    assert maps[0]["I"]["x"] == maps[1]["I"]["x"] == maps[2]["I"]["x"]


def test_numbers_in_the_cells_of_compared_maps_never_overlap(stage: Stage) -> None:
    """In a wide font, cells of some widths have room for the names of tokens but not for numbers."""
    run = run_of("eng-fra")
    here = CurrentRun(run.scope, run.scope.run("I like cats."))
    pinned = Pinned(run.scope, ("I like dogs.", ""), ())
    choices = compare.CompareChoices(pinned, Focus(CROSS, 0), None)
    payload = compare.compare_payloads(here, choices)["difference"]
    counts = []
    for width in range(600, 1000, 50):
        stage.mount("difference", width, **{"--st-font": "monospace"}).show(payload)
        texts = stage.drawn(".of-difference canvas.cells", "text")
        numbers = [one for one in texts if re.match(r"−?\.?\d", one["text"])]
        for one, following in itertools.pairwise(numbers):
            room = following["x"] - one["x"] if one["y"] == following["y"] else math.inf
            assert (one["wide"] + following["wide"]) / 2 <= room
        counts.append(len(numbers))
    assert 0 in counts
    assert max(counts) > 5


def test_a_layer_with_fewer_heads_has_no_cells_for_the_rest(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = distances()
    picture["kinds"][0]["values"][1][4:] = [None, None]
    monkeypatch.setitem(SHOWN, "distances", lambda: picture)
    mount(stage, "distances")
    hidden = stage.js(
        "(root) => [...root.querySelectorAll('td button')].map((e) => !e.checkVisibility())"
    )
    assert [i for i, is_hidden in enumerate(hidden) if is_hidden] == [10, 11]


def test_cells_have_their_colours_and_stand_where_they_stand_on_the_page(stage: Stage) -> None:
    mount(stage, "distances")
    drawing = svg_of(stage)
    page = stage.js(
        """(root) => [...root.querySelectorAll("td button")].map((e) => {
          const { x, y, width } = e.getBoundingClientRect();
          return [getComputedStyle(e).backgroundColor, x, y, width];
        })"""
    )
    values = [float(value) for value in stage.attrs("td button", "data-value")]
    lightness = [sum(bytes.fromhex(hex_of(colour)[1:])) for colour, *_ in page]
    assert lightness[values.index(max(values))] == min(lightness)
    assert stage.text(".most") == f"{max(values):.2f}"
    x, y = page[0][1:3]
    rects = [
        (hex_of(one.get("fill").replace(", ", " ")), float(one.get("x")), float(one.get("y")))
        for one in drawing.find(f"{SVG}g").iter(f"{SVG}rect")
        if one.get("fill", "").startswith("rgb") and one.get("width") == str(page[0][3])
    ]
    assert len(rects) == len(page) == 18
    for (colour, left, top), (fill, at_x, at_y) in zip(
        ((c, a, b) for c, a, b, _ in page), rects, strict=True
    ):
        assert alike(hex_of(colour), fill)
        assert (left - x, top - y) == pytest.approx(
            (at_x - rects[0][1], at_y - rects[0][2]), abs=0.01
        )


@pytest.mark.parametrize("name", ["answers", "distances", "patch"])
def test_the_scale_of_a_file_runs_as_on_the_page(stage: Stage, name: str) -> None:
    """Its colours stand in the same order, from left to right."""
    mount(stage, name)
    shown = stage.js(
        """(root) => [...root.querySelectorAll("*")].filter((e) => e.checkVisibility() && !e.closest(".files"))
          .map((e) => getComputedStyle(e).backgroundImage).filter((image) => image.startsWith("linear-gradient(to right"))"""
    )
    assert shown
    drawn = [
        [(float(stop.get("offset")), stop.get("stop-color")) for stop in ramp]
        for ramp in svg_of(stage).iter(f"{SVG}linearGradient")
    ]
    for image in shown:
        colours = [hex_of(one.replace(",", " ")) for one in re.findall(r"rgb\([^)]*\)", image)]
        ramps = [ramp for ramp in drawn if len(ramp) == len(colours) > 1]
        assert any(
            [hex_of(colour.replace(", ", " ")) for _, colour in sorted(ramp)] == colours
            for ramp in ramps
        )


def test_what_scrolls_is_in_the_file_whole(stage: Stage) -> None:
    run = run_of("gpt")
    long = CurrentRun(run.scope, run.scope.run(" ".join(["The boy said it ."] * 20)))
    data = presentations.task_payloads(long, TaskChoices(None, Focus()))["answers"]
    stage.mount("answers", 600).show(data)
    strip = "(root) => root.querySelector('.strip')"
    assert stage.js(f"(root) => ({strip})(root).scrollHeight - ({strip})(root).clientHeight") > 100
    assert stage.js(f"(root) => ({strip})(root).scrollTop") > 0
    before = stage.js(LAID_OUT)
    drawing = svg_of(stage)
    assert letters(texts_of(drawing)) >= letters(stage.texts(".place b"))
    height = float(drawing.get("height"))
    bottoms = [
        float(re.match(r"translate\(\S+ (\S+)\)", one.get("transform"))[1])
        for one in drawing.find(f"{SVG}g").iter(f"{SVG}text")
    ]
    assert max(bottoms) - min(bottoms) < height
    assert stage.js(LAID_OUT) == before


def test_a_pair_that_waits_has_nothing_to_take(stage: Stage) -> None:
    stage.mount("pair").show(presentations.second_text_missing())
    assert stage.box(".files")["width"] == 0
