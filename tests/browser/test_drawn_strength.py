"""The component `head`: the colour scale of weights, hidden tokens, and the parts of a long text."""

import re

import numpy as np
import pytest
from stage import LINE, Stage, alike, weight_colour

from viz_app.drawing.payload import pack, unpack
from viz_app.drawing.scale import SCALE_NAMES, Scale

from .test_drawn_head import (
    CELLS,
    COLS,
    ROWS,
    curves,
    grid,
    middle,
    payload,
    row_y,
    shown,
    to,
    weights_of,
)

SINKS = {"sinks": [1, 6], "sinkNames": ["[start]", "[end]"], "sinkShare": 0.3671}


def strengths(weights: np.ndarray, scale: str, hides: bool) -> np.ndarray:
    return Scale(scale, hides).strengths(weights, SINKS["sinks"])


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("scale", SCALE_NAMES)
def test_cells_and_lines_are_drawn_equally_strongly(stage: Stage, scale: str, hides: bool) -> None:
    """They match the drawings made in Python."""
    weights = weights_of()
    weights[3] = 0
    at = shown(stage, weights, scale=scale, hides=hides, **SINKS)
    expected, pixels = strengths(weights, scale, hides), stage.pixels(CELLS)
    for q in range(ROWS):
        for k in range(COLS):
            seen = pixels.at(
                at["left"] + (k + 0.1) * at["wide"], at["top"] + (q + 0.1) * at["tall"]
            )
            hidden = hides and k in SINKS["sinks"]
            assert alike(seen, LINE if hidden else weight_colour(float(expected[q, k])), 2), (q, k)
    ys, yk, found = row_y(stage, "query"), row_y(stage, "key"), {}
    for ends, how in curves(stage, 0):
        place = tuple(
            int(np.abs(np.array(all_y) - v).argmin()) for all_y, v in ((ys, ends[1]), (yk, ends[7]))
        )
        found[place] = float(how["stroke-opacity"])
    assert set(found) == set(map(tuple, np.argwhere(expected >= 0.01).tolist()))
    for place, opacity in found.items():
        assert opacity == pytest.approx(float(expected[place]), abs=0.00501)
    stage.move("svg rect[data-side=query]", 20, 5, n=2)
    lit = [float(how["stroke-opacity"]) for _, how in curves(stage, 1)]
    assert lit == pytest.approx([float(s) for s in expected[2] if s >= 0.01], abs=0.0006)
    numbers = stage.texts("svg > g:nth-of-type(2) text")
    assert numbers == [
        f"{w:.2f}" for w, s in zip(weights[2], expected[2], strict=True) if s >= 0.01
    ]  # the weights themselves


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "end"), [
    ("weight", "1  weight"), ("row", "the largest of its row"), ("root", "1  √weight: the middle is 0.25"),
])  # fmt: skip
def test_the_key_names_the_strongest_colour(stage: Stage, scale: str, end: str) -> None:
    shown(stage, width=1200, scale=scale)
    names = stage.written(CELLS)
    assert names[end]["y"] == stage.box(CELLS)["height"] - 13
    assert "hidden" not in names
    shown(stage, blocked=np.eye(ROWS, COLS), width=1200, scale=scale, hides=True, **SINKS)
    names, y = stage.written(CELLS), stage.box(CELLS)["height"] - 18
    assert names[end]["x"] + names[end]["wide"] < names["masked"]["x"] < names["hidden"]["x"]
    (swatch,) = [
        one for one in stage.drawn(CELLS, "rect") if (one["y"], one["w"], one["h"]) == (y, 12, 10)
    ]
    assert swatch["colour"] == LINE
    assert swatch["x"] + 12 < names["hidden"]["x"] < swatch["x"] + 20
    shown(stage, blocked=np.eye(ROWS, COLS), width=420, scale=scale, hides=True, **SINKS)
    last = stage.written(CELLS)["hidden"]
    assert last["x"] + last["wide"] <= stage.box(CELLS)["width"]  # shortened if the space is narrow


def test_the_share_of_the_hidden_tokens_is_stated(stage: Stage) -> None:
    shown(stage, **SINKS)
    assert stage.text(".sinks").strip() == "hide [start] and [end]"
    assert stage.text(".sunk") == "(37 % of the weight)"
    shown(stage, hides=True, **SINKS)
    assert stage.text(".sunk") == "[start] and [end] hidden: 37 % of the weight goes there"
    assert stage.js("(root) => root.querySelector('.sinks input').checked")
    assert stage.css(".sinks", "visibility") == stage.css(".sunk", "visibility") == ["visible"]
    shown(stage, hides=True)  # nothing to hide: the switches stay in place
    assert stage.css(".sinks", "visibility") == stage.css(".sunk", "visibility") == ["hidden"]


def test_a_hidden_cell_has_no_number_and_says_why_on_hover(stage: Stage) -> None:
    at = shown(stage, np.full((2, 7), 1 / 7, np.float32), hides=True, **SINKS)
    numbers = [one for one in stage.drawn(CELLS, "text") if one["text"].startswith("0.1")]
    assert len(numbers) == 2 * 5
    to(stage, at, 0, 6)
    assert stage.text(".tip .why") == "hidden by the switch above"
    assert np.float32(stage.text(".tip .value").removeprefix("weight ")) == np.float32(1 / 7)
    to(stage, at, 0, 5)
    assert stage.text(".tip .why") == ""


def test_a_switch_acts_at_once_and_sends_its_state_to_python(stage: Stage) -> None:
    weights = weights_of()
    shown(stage, weights, **SINKS)
    stage.js(
        "(root) => { const s = root.querySelector('.scale'); s.value = 'root'; s.dispatchEvent(new Event('change')); }"
    )
    assert stage.sent == [["look", {"scale": "root", "hides": False}]]
    assert stage.data(".head")["scale"] == "root"
    lines = len(curves(stage, 0))
    assert lines == int((strengths(weights, "root", False) >= 0.01).sum())
    stage.show(payload(weights, **SINKS))  # computed before Python received it
    assert stage.data(".head")["scale"] == "root"
    assert stage.js("(root) => root.querySelector('.scale').value") == "root"
    stage.js("(root) => root.querySelector('.sinks input').click()")
    assert stage.sent[1:] == [["look", {"scale": "root", "hides": True}]]
    assert len(curves(stage, 0)) == int((strengths(weights, "root", True) >= 0.01).sum()) < lines
    stage.show(payload(weights, scale="root", hides=True, **SINKS))  # received
    stage.show(payload(weights, scale="row", **SINKS))
    assert stage.data(".head")["scale"] == "row"
    assert not stage.js("(root) => root.querySelector('.sinks input').checked")


@pytest.mark.slow
def test_a_file_names_the_colour_scale_of_its_weights(stage: Stage) -> None:
    for scale, hides, said in (
        ("weight", False, ""), ("row", False, " (each row by its largest weight)"),
        ("root", False, " (square root of the weights)"),
        ("weight", True, " ([start] and [end] hidden)"), ("root", True, " (square root of the weights; [start] and [end] hidden)"),
    ):  # fmt: skip
        shown(stage, scale=scale, hides=hides, **SINKS)
        _, svg = stage.saved_svg(".lines .svg")
        assert svg[1].text == f"Whose lines these are{said}"
        _, _, drawn = stage.saved_picture(".map .png")
        assert f"Whose lines these are{said}" in [
            one["text"] for one in drawn if one["op"] == "text"
        ]
    shown(stage, hides=True)
    assert stage.saved_svg(".lines .svg")[1][1].text == "Whose lines these are"


@pytest.mark.parametrize(("rows", "cols", "most"), [(61, 53, 300), (181, 7, 362)])
def test_of_very_many_lines_only_the_strongest_are_drawn(
    stage: Stage, rows: int, cols: int, most: int
) -> None:
    """At most 300 are drawn, or two per query if that is more."""
    weights = np.random.default_rng(7).random((rows, cols)).astype(np.float32)
    shown(stage, weights)
    found = curves(stage, 0)
    assert len(found) == most
    least = np.sort(weights.ravel())[-most]
    assert min(float(how["stroke-opacity"]) for _, how in found) == pytest.approx(least, abs=0.006)
    assert f"the {most} strongest of {int((weights >= 0.01).sum())}" in stage.text(".lines .note")


# --- long texts


def blocks(**changes) -> bytes:
    weights = np.linspace(0.01, 0.95, ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
    weights[2, 5] = 0.99
    return payload(weights, **{"block": 16, "size": [75, 107], "first": [0, 0], **changes})


def test_a_picture_of_blocks_names_what_it_hides(stage: Stage) -> None:
    stage.mount("head").show(blocks())
    at = grid(stage)
    assert stage.text(".map .note") == (
        "Each cell is the largest of 16 × 16 weights; the other 255 are hidden, and so are the tokens of the largest one. "
        "Click for the exact weights."
    )
    assert (
        stage.text(".reading")
        == "Hover a token to isolate its lines; click to see its exact weights (arrow keys, Enter)."
    )
    assert stage.hidden(".whole")
    to(stage, at, 2, 5)
    assert stage.text(".tip .value") == "largest weight 0.990000"
    assert stage.data(".head")["block"] == "16"
    stage.mount("head").show(
        payload(np.full((ROWS, 1201), 0.5, np.float32), block=2, size=[9, 2402])
    )
    assert re.search(
        r"Click for the exact weights\. Each pixel = largest of \d × \d cells\.$",
        stage.text(".map .note"),
    )


def test_a_click_on_a_block_requests_its_content(stage: Stage) -> None:
    stage.mount("head").show(blocks(lock="q1"))
    at = grid(stage)
    assert stage.data(".head")["lock"] == ""
    for place, asked in (
        ((2, 3), {"query": 40, "key": 56}), ((4, 6), {"query": 72, "key": 104}), ((0, 0), {"query": 8, "key": 8}),
    ):  # fmt: skip
        stage.click(CELLS, *middle(at, *place))
        assert stage.sent[-1] == ["tile", asked]
    stage.click(CELLS, at["left"] - 5, middle(at, 2, 0)[1])  # of a row, where its weight is largest
    assert stage.sent[-1] == ["tile", {"query": 40, "key": 88}]
    stage.click(CELLS, middle(at, 0, 1)[0], at["top"] - 5)
    assert stage.sent[-1] == ["tile", {"query": 72, "key": 24}]
    stage.click("svg rect[data-side=query]", n=2)
    assert stage.sent[-1] == ["tile", {"query": 40, "key": 88}]
    before = len(stage.sent)
    stage.click(CELLS, 3, 3)
    assert len(stage.sent) == before
    stage.show(blocks(size=[66, 98]))  # the last block is smaller than the others
    stage.click(CELLS, *middle(grid(stage), 4, 6))
    assert stage.sent[-1] == ["tile", {"query": 65, "key": 97}]
    assert all(name == "tile" for name, _ in stage.sent)


def part(weights: np.ndarray, **changes) -> bytes:
    fields, arrays = unpack(payload(weights, size=[75, 107], first=[30, 40], **changes))
    fields.pop("arrays")
    return pack(fields, **arrays, largest=np.full(ROWS, 0.8, np.float32))


def test_a_part_is_labelled_and_leads_back(stage: Stage) -> None:
    weights = weights_of()
    stage.mount("head").show(part(weights))
    assert (
        stage.text(".map .note") == "Exact weights: queries 30 to 34 of 75, keys 40 to 46 of 107."
    )
    assert not stage.hidden(".whole")
    stage.click(".whole")
    assert stage.sent == [["tile", {}]]
    stage.show(payload(weights))
    assert stage.hidden(".whole")


def test_in_a_part_tokens_keep_their_positions_in_the_text(stage: Stage) -> None:
    stage.mount("head").show(part(weights_of(), lock="q32"))
    assert stage.data(".head")["lock"] == "q32"
    assert [
        "locked" in name for name in stage.attrs("svg text.token[data-side=query]", "class")
    ] == [i == 2 for i in range(ROWS)]
    stage.click("svg rect[data-side=key]", n=3)
    stage.click("svg rect[data-side=query]", n=0)
    assert stage.sent == [["lock", {"token": "k43"}], ["lock", {"token": "q30"}]]
    for lock in ("q29", "q35", "k39", "k47", "q2"):
        stage.mount("head").show(part(weights_of(), lock=lock))
        assert stage.data(".head")["lock"] == ""


def test_in_a_part_rows_are_drawn_by_the_largest_weight_of_the_whole_row(stage: Stage) -> None:
    weights = weights_of()
    stage.mount("head").show(
        part(weights, scale="row", sinks=[41], sinkNames=["[end]"], hides=True)
    )
    at, pixels = grid(stage), stage.pixels(CELLS)
    for q in range(1, ROWS):
        for k in range(COLS):
            seen = pixels.at(
                at["left"] + (k + 0.1) * at["wide"], at["top"] + (q + 0.1) * at["tall"]
            )
            assert alike(
                seen, LINE if k == 1 else weight_colour(min(1.0, float(weights[q, k]) / 0.8)), 2
            )


def test_escape_releases_and_no_other_key_is_kept_from_the_browser(stage: Stage) -> None:
    shown(stage, lock="q1")
    stage.js(
        "(root) => { window.kept = []; document.addEventListener('keydown', (e) => kept.push([e.key, e.defaultPrevented]));"
        " root.querySelector('canvas.cells').focus(); }"
    )
    stage.press("a", "F5", "Escape", " ", "Tab")
    assert stage.js("() => kept") == [
        ["a", False],
        ["F5", False],
        ["Escape", True],
        [" ", False],
        ["Tab", False],
    ]
