"""The component `several` by itself: the order of the heads, their numbers and lines, and the events of clicks."""

import functools
from typing import Any

import drawn
import numpy as np
import pytest
from drawn import SVG
from stage import HEADS, Stage, alike, hex_of, weight_colour

from viz_app import words
from viz_app.drawing.payload import pack, unpack
from viz_app.views.inside.several import HeadGroup, several_payload

TERMS = words.terms("letters")
DASHES = ["", "7 4", "2 3", "10 3 2 3"]


@functools.cache
def payload(
    measure: str = "first",
    chosen: tuple[int, ...] | None = (1, 3, 5),
    query: int | None = None,
    text: str = "abcab=d",
) -> bytes:
    return several_payload(
        HeadGroup(drawn.letters("gpt").run(text), "self", measure, chosen), TERMS, query
    )


def shown(
    stage: Stage, width: int = 960, **how: Any
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    stage.mount("several", width).show(payload(**how))
    return unpack(payload(**how))


def test_the_heads_are_in_order_with_their_numbers(stage: Stage) -> None:
    header, arrays = shown(stage)
    assert stage.texts("tbody .name") == [header["heads"][n]["name"] for n in header["order"]]
    assert [hex_of(colour) for colour in stage.css("tbody .chip", "backgroundColor")] == [
        HEADS[n % 3] for n in header["order"]
    ]
    assert stage.js(
        "(root) => [...root.querySelectorAll('tbody input')].map((box) => box.checked)"
    ) == [n in (1, 3, 5) for n in header["order"]]
    names = [measure["id"] for measure in header["measures"]]
    cells = stage.texts(".ranking tbody td:not(.name)")
    assert cells == [f"{arrays[name][n]:.2f}" for n in header["order"] for name in names]
    titles = stage.attrs(".ranking tbody td:not(.name)", "title")
    assert [np.float32(title) for title in titles] == [
        arrays[name][n] for n in header["order"] for name in names
    ]
    for colour, n, name in zip(
        stage.css(".ranking tbody td:not(.name)", "backgroundColor"),
        np.repeat(header["order"], len(names)),
        names * 6,
        strict=True,
    ):
        value = float(arrays[name][n]) / (header["widest"] if name == "entropy" else 1)
        assert alike(hex_of(colour), weight_colour(min(1.0, value)))


def test_the_measure_is_named_with_its_formula(stage: Stage) -> None:
    header, _ = shown(stage)
    assert stage.attrs(".ranking th", "aria-sort") == [None, None, None, None, "descending", None]
    assert stage.text(".measure b") == "First token, mean weight:"
    assert stage.text(".formula") == "(1/n) Σi a(i,1)"
    assert stage.texts(".formula sub") == ["i"]
    assert stage.text(".says") == header["measures"][3]["says"]
    stage.show(payload("entropy"), (2, 1))
    assert stage.attrs(".ranking th", "aria-sort")[1] == "ascending"
    stage.show(payload("same", None, text="abc"), (3, 1))
    assert stage.text(".says").endswith(" This text has nothing to measure.")
    assert set(stage.texts(".ranking tbody td:last-child")) == {"–"}


def test_each_head_has_its_own_colour_and_style(stage: Stage) -> None:
    header, arrays = shown(stage)
    for n, head in enumerate(header["chosen"]):
        strokes = stage.attrs(f".strands path[data-head='{head}']", "stroke", "stroke-dasharray")
        assert {(one["stroke"].lower(), one["stroke-dasharray"]) for one in strokes} == {
            (HEADS[head % 3], DASHES[n])
        }
        strong = (arrays["weights"][n] >= 0.05).sum()
        lines = stage.attrs(f".strands path[data-head='{head}']", "d")
        assert sum(line.count("M") for line in lines) == strong > 0
    assert stage.texts(".legend span") == [header["heads"][n]["name"] for n in header["chosen"]]
    assert stage.attrs(".legend line", "stroke-dasharray") == DASHES[:3]


@pytest.mark.parametrize("query", [0, 5])
def test_a_line_goes_from_query_to_key_and_is_as_strong_as_its_weight(
    stage: Stage, query: int
) -> None:
    _, arrays = shown(stage, chosen=(4,), query=query)
    weights = arrays["weights"][0][query]
    pads = stage.attrs(".strands rect", "data-side", "data-index", "y", "height")
    middle = {
        (p["data-side"], int(p["data-index"])): float(p["y"]) + float(p["height"]) / 2 for p in pads
    }
    found = {}
    for path in stage.attrs(".strands path", "d", "stroke-opacity"):
        for curve in path["d"].removeprefix("M").split("M"):
            numbers = [float(x) for x in curve.replace("C", " ").split()]
            assert numbers[1] == pytest.approx(middle["query", query], abs=0.1)
            key = min(range(8), key=lambda k, y=numbers[-1]: abs(middle["key", k] - y))
            found[key] = float(path["stroke-opacity"])
    assert set(found) == {k for k in range(8) if weights[k] >= 0.05}
    for key, opacity in found.items():
        assert opacity == pytest.approx(0.15 + 0.85 * weights[key], abs=0.03)


def test_hovering_shows_the_weights_of_each_head(stage: Stage) -> None:
    header, arrays = shown(stage)
    stage.move(".strands rect[data-side=query]", 20, 6, 5)
    assert stage.text(".tip .what") == f"{header['queries'][5][0]} attends to"
    rows = stage.js(
        "(root) => [...root.querySelectorAll('.tip tr')].map((tr) => [...tr.children].map((td) => td.textContent))"
    )
    for n, row in enumerate(rows):
        best = np.argsort(-arrays["weights"][n][5], kind="stable")[:4]
        assert row == [
            header["heads"][header["chosen"][n]]["name"],
            *(f"{header['keys'][k][0]} {arrays['weights'][n][5][k]:.2f}" for k in best),
        ]
    stage.move(".strands rect[data-side=key]", 20, 6, 1)
    assert stage.text(".tip .what") == f"{header['keys'][1][0]} is attended to by"
    assert np.float32(stage.attr(".tip tr", "data-value")) == arrays["weights"][0][:, 1].max()
    stage.away()
    assert stage.hidden(".tip")


def test_a_tick_a_heading_and_a_token_send_events(stage: Stage) -> None:
    header, _ = shown(stage)
    stage.click("tbody input", n=2)
    stage.click("th button", n=1)
    stage.click(".strands rect[data-side=query]", n=4)
    stage.js("(root) => root.querySelectorAll('tbody input')[0].focus()")
    stage.press(" ")
    assert [news for _, news in stage.sent] == [
        {"head": header["order"][2]}, {"measure": "previous"}, {"query": 4}, {"head": header["order"][0]},
    ]  # fmt: skip
    stage.show(payload(query=4), (2, 1))
    stage.click(".strands rect[data-side=query]", n=4)
    assert stage.sent[-1][1] == {"query": -1}
    stage.show(
        stage.change(payload(query=4), block=5), (3, 1)
    )  # of a long text: a token of the block
    note = "Each line is the largest of 5 × 5 weights; the other 24 are hidden. Click a heading"
    assert stage.text(".note").startswith(note)
    stage.click(".strands rect[data-side=query]", n=2)
    stage.click(".strands rect[data-side=query]", n=4)
    assert [news for _, news in stage.sent[-2:]] == [{"query": 10}, {"query": -1}]


@pytest.mark.parametrize("width", [375, 960, 1600])
def test_a_long_text_has_legible_letters_and_moves_nothing(stage: Stage, width: int) -> None:
    shown(stage, width)
    parts = (".scroll", ".measure", ".strands > svg", ".note")
    places = [stage.box(part) for part in parts]
    stage.show(payload(text="abcde=@" * 1 + "abcde"), (2, 1))
    assert [stage.box(part) for part in parts] == places
    assert min(map(float, stage.attrs(".strands > svg text", "font-size"))) >= 12
    assert (
        min(
            float(size.removesuffix("px"))
            for size in stage.css("td, th button, p, .legend", "fontSize")
        )
        >= 12
    )


def test_the_lines_are_saved_as_a_drawing(stage: Stage) -> None:
    header, _ = shown(stage)
    name, root = stage.saved_svg(".svg", header)
    assert name == "letters.self.heads.svg"
    texts = [text.text for text in root.iter(f"{SVG}text")]
    names = ", ".join(header["heads"][n]["name"] for n in header["chosen"])
    assert f"{header['title']}; layer.head {names}" in texts
    assert len(list(root.iter(f"{SVG}path"))) == len(stage.attrs(".strands path", "d"))
    name, pixels, _ = stage.saved_picture(".png", header)
    assert (name, pixels.wide) == (
        "letters.self.heads.png",
        pytest.approx(3 * float(root.get("width")), abs=3),
    )


def test_a_title_that_is_wider_than_the_drawing_is_not_cut_off(stage: Stage) -> None:
    header, arrays = shown(stage)
    long = {name: entry for name, entry in header.items() if name != "arrays"}
    long["title"] = "What each of these heads reads from the English sentence " * 5
    stage.show(pack(long, **arrays))
    _, root = stage.saved_svg(".svg", header)
    title = next(
        text for text in root.iter(f"{SVG}text") if (text.text or "").startswith(long["title"])
    )
    wide = stage.page.evaluate(
        """(said) => {
          const text = document.body.appendChild(document.createElement("span"));
          Object.assign(text.style, { font: "600 13px sans-serif", whiteSpace: "pre", position: "absolute" });
          text.textContent = said;
          return text.getBoundingClientRect().width;
        }""",
        title.text,
    )
    assert wide > 1400
    assert 8 + wide <= float(root.get("width")) <= wide + 40


def test_the_arrow_keys_pin_the_lines_of_a_query(stage: Stage) -> None:
    shown(stage)
    stage.js("(root) => root.querySelector('.strands > svg').focus()")
    stage.press("ArrowDown")
    assert stage.sent[-1][1] == {"query": 0}
    stage.press("Escape")
    assert stage.sent[-1][1] == {"query": -1}
