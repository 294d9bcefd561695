"""The component `head` by itself: every colour, number, name, line and sentence against its weights."""

import math
import re
from typing import Any

import numpy as np
import pytest
from stage import (
    ACCENT,
    DARK,
    HATCH,
    HEADS,
    INK,
    PAPER,
    QUIET,
    RATIO,
    SAVED,
    SHARP,
    Stage,
    alike,
    hex_of,
    mixed,
    near,
    weight_colour,
)

from viz_app.drawing.payload import pack

ROWS, COLS = 5, 7
CELLS, MARKS = ".map .cells", ".map .marks"
SVG = "{http://www.w3.org/2000/svg}"


def weights_of(rows: int = ROWS, cols: int = COLS) -> np.ndarray:
    weights = np.random.default_rng(5).dirichlet(np.full(cols, 0.6), rows).astype(np.float32)
    weights[0] = np.eye(cols, dtype=np.float32)[cols - 2]
    return weights


def payload(weights: np.ndarray, blocked: np.ndarray | None = None, **changes: Any) -> bytes:
    rows, cols = weights.shape
    header = {
        "site": "decoder.layers.1.cross_attn", "head": 3, "lock": "", "title": "Whose lines these are",
        "queryAxis": "who reads", "keyAxis": "what is read",
        "queries": [[f"q{i}", f"said of q{i}" if i == 1 else "", i == 4] for i in range(rows)],
        "keys": [[f"k{i}", f"said of k{i}" if i == 2 else "", i == 5] for i in range(cols)],
        "masks": ["padding", "look-ahead", "drawn"], "file": "one-head", **SAVED, "block": 1, "first": [0, 0], "size": [rows, cols],
        "scale": "weight", "hides": False, "sinks": [], "sinkNames": [], "sinkShare": 0,
    }  # fmt: skip
    blocked = np.zeros(weights.shape, np.uint8) if blocked is None else blocked
    return pack(
        header | changes, weights=weights.astype(np.float32), blocked=blocked.astype(np.uint8)
    )


def shown(
    stage: Stage,
    weights: np.ndarray | None = None,
    blocked: np.ndarray | None = None,
    width: int = 760,
    **changes: Any,
) -> dict:
    """Show a head, and return where its cells are: left, top, width, height."""
    stage.mount("head", width).show(
        payload(weights_of() if weights is None else weights, blocked, **changes)
    )
    return grid(stage)


def grid(stage: Stage) -> dict[str, float]:
    return {name: float(value) for name, value in stage.data(CELLS).items()}


def to(stage: Stage, at: dict[str, float], query: float, key: float) -> None:
    stage.move(CELLS, at["left"] + (key + 0.5) * at["wide"], at["top"] + (query + 0.5) * at["tall"])


def middle(at: dict[str, float], query: int, key: int) -> tuple[float, float]:
    return at["left"] + (key + 0.5) * at["wide"], at["top"] + (query + 0.5) * at["tall"]


# --- the heatmap


def test_each_cell_is_at_its_query_and_key_in_the_colour_of_its_weight(stage: Stage) -> None:
    weights = weights_of()
    at, pixels = shown(stage, weights), stage.pixels(CELLS)
    (image,) = stage.drawn(CELLS, "image")
    assert (image["x"], image["y"]) == (at["left"], at["top"])
    assert (image["w"], image["h"]) == pytest.approx(
        (COLS * at["wide"], ROWS * at["tall"]), abs=0.5
    )
    for q in range(ROWS):
        for k in range(COLS):
            for x, y in ((0.08, 0.1), (0.92, 0.9)):
                seen = pixels.at(
                    at["left"] + (k + x) * at["wide"], at["top"] + (q + y) * at["tall"]
                )
                assert alike(seen, weight_colour(float(weights[q, k]))), (q, k)


@pytest.mark.parametrize(
    ("rows", "cols", "width"), [(5, 31, 760), (31, 5, 760), (61, 43, 1100), (3, 2, 420)]
)
def test_the_cells_fill_the_room_they_have_and_no_more(
    stage: Stage, rows: int, cols: int, width: int
) -> None:
    at, box = shown(stage, weights_of(rows, cols), width=width), stage.box(CELLS)
    used = at["left"] + cols * at["wide"], at["top"] + rows * at["tall"]
    assert used[0] <= box["width"] + 0.01
    assert used[1] < box["height"]
    assert used[0] > 0.9 * box["width"] or used[1] > 0.9 * box["height"] or at["wide"] >= 100


@pytest.mark.slow
def test_the_height_depends_on_the_window_and_not_on_the_text(stage: Stage) -> None:
    heights = []
    for window in (1600, 1080, 600):
        stage.page.set_viewport_size({"width": 1280, "height": window})
        stage.frames(3)
        seen = {
            shown(stage, weights_of(rows, 7)) and stage.box(CELLS)["height"] for rows in (2, 97)
        }
        assert len(seen) == 1
        heights += seen
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == 3
    stage.page.set_viewport_size({"width": 1280, "height": 1600})
    stage.frames(3)
    assert stage.box(CELLS)["height"] == heights[0]


def test_queries_run_down_the_side_and_keys_along_the_top(stage: Stage) -> None:
    at = shown(stage)
    names = stage.written(CELLS)
    for q in range(ROWS):
        name = names[f"q{q}"]
        assert name["y"] == pytest.approx(middle(at, q, 0)[1])
        assert at["left"] - 12 < name["x"] < at["left"]
        assert name["colour"] == (QUIET if q == 4 else INK)  # special tokens are paler
    for k in range(COLS):
        name = names[f"k{k}"]
        assert name["x"] == pytest.approx(middle(at, 0, k)[0])
        assert at["top"] - 12 < name["y"] < at["top"]
        assert name["colour"] == (QUIET if k == 5 else INK)


def test_long_keys_are_turned_and_shortened_in_the_middle(stage: Stage) -> None:
    keys = [["x" * n, "", False] for n in (2, 3, 4, 5, 6, 7, 90)]
    at = shown(stage, keys=keys, queries=[["y" * 90, "", False]] * ROWS)
    turned = [one for one in stage.drawn(CELLS, "text") if "x" in one["text"] and one["angle"]]
    assert [one["angle"] for one in turned] == pytest.approx([-math.pi / 4] * COLS)
    assert [one["x"] for one in turned] == pytest.approx([middle(at, 0, k)[0] for k in range(COLS)])
    long = turned[-1]
    left, right = long["text"].split("…")
    assert len(left) - len(right) in (0, 1)
    assert long["wide"] * math.sqrt(0.5) <= at["top"] - 24
    assert long["wide"] > 60  # as much of it as fits
    side = [one["wide"] for one in stage.drawn(CELLS, "text") if "y…y" in one["text"]]
    assert max(side) <= at["left"] - 22


def test_if_only_every_second_query_fits_the_others_are_beside_them(stage: Stage) -> None:
    at = shown(stage, weights_of(97, 101))
    assert 12 - 0.5 > at["tall"] >= 6 - 0.25
    names = [one for one in stage.drawn(CELLS, "text") if re.fullmatch(r"q\d+", one["text"])]
    assert [one["text"] for one in names] == [f"q{i}" for i in range(97)]
    inner, outer = names[0]["x"], names[1]["x"]
    assert [one["x"] for one in names] == [outer if q % 2 else inner for q in range(97)]
    widest = max(one["wide"] for one in names)
    assert outer + 2 < inner - widest
    assert outer - widest > 0


def test_if_tokens_would_touch_every_nth_is_named(stage: Stage) -> None:
    at = shown(stage, weights_of(197, 101))
    names = stage.drawn(CELLS, "text")
    for letter, pitch, n in (("q", at["tall"], 197), ("k", at["wide"], 101)):
        indices = [
            int(one["text"][1:]) for one in names if re.fullmatch(rf"{letter}\d+", one["text"])
        ]
        step = indices[1]
        assert indices == list(range(0, n, step))
        assert step * pitch >= 12 - 0.5 > (step - 1) * pitch


def test_a_token_without_room_for_its_name_is_named_on_hover(stage: Stage) -> None:
    at = shown(stage, weights_of(97, 101))
    to(stage, at, 50, 51)
    query, key = (stage.written(MARKS)[name] for name in ("q50", "k51"))
    x, y = middle(at, 50, 51)
    assert query["y"] == pytest.approx(y)
    assert query["x"] + query["wide"] < at["left"]
    assert key["x"] + key["wide"] / 2 == pytest.approx(x)
    assert key["y"] < at["top"]
    assert {one["colour"] for one in stage.drawn(MARKS, "rect")} == {PAPER}  # nothing shows through
    stage.move(CELLS, at["left"] - 5, y)
    assert list(stage.written(MARKS)) == ["q50"]
    stage.move(CELLS, x, at["top"] - 5)
    assert list(stage.written(MARKS)) == ["k51"]
    at = shown(stage)
    to(stage, at, 2, 3)
    assert not stage.written(MARKS)


def test_the_axes_name_query_and_key(stage: Stage) -> None:
    at = shown(stage)
    names = stage.written(CELLS)
    key, query = names["what is read →"], names["← who reads"]
    assert key["angle"] == 0
    assert key["y"] < at["top"]
    assert query["angle"] == pytest.approx(-math.pi / 2)
    assert query["x"] < at["left"]
    shown(stage, queryAxis="w" * 300, keyAxis="v" * 300)
    key, query = (one for one in stage.drawn(CELLS, "text") if "…" in one["text"])
    assert (key["text"][0], query["text"][0]) == ("v", "←")
    assert key["wide"] < stage.box(CELLS)["width"]
    assert query["wide"] < stage.box(CELLS)["height"]
    shown(
        stage, queryAxis=f"who reads: {'w' * 300}", keyAxis=f"what is read: {'v' * 300}"
    )  # the axis and its text
    assert {"what is read →", "← who reads"} < stage.written(CELLS).keys()


def test_a_cell_with_room_has_its_number_in_legible_ink(stage: Stage) -> None:
    weights = np.array([[0.004, 0.0051, 0.25, 0.7409], [1, 0, 0, 0]], np.float32)
    blocked = np.array([[0, 0, 0, 0], [0, 1, 1, 1]])
    at = shown(stage, weights, blocked)
    numbers = [one for one in stage.drawn(CELLS, "text") if re.fullmatch(r"\d\.\d+", one["text"])]
    assert [one["text"] for one in numbers] == ["0.005", "0.250", "0.741", "1.000"]
    for one, (q, k) in zip(numbers, ((0, 1), (0, 2), (0, 3), (1, 0)), strict=True):
        assert (one["x"], one["y"]) == pytest.approx(middle(at, q, k))
    assert [one["colour"] for one in numbers] == [INK, INK, PAPER, PAPER]


def test_numbers_are_as_exact_as_their_room_allows(stage: Stage) -> None:
    seen = []
    for rows, cols, width in (
        (3, 5, 1100),
        (3, 17, 1100),
        (3, 23, 1100),
        (3, 31, 1100),
        (61, 2, 760),
    ):
        at = shown(stage, np.full((rows, cols), 0.25, np.float32), width=width)
        numbers = [
            one for one in stage.drawn(CELLS, "text") if one["text"] in ("0.250", "0.25", ".25")
        ]
        seen.append({one["text"] for one in numbers})
        assert len(numbers) == (rows * cols if seen[-1] else 0)
        assert all(one["wide"] < at["wide"] for one in numbers)
    assert seen == [{"0.250"}, {"0.25"}, {".25"}, set(), set()]


def test_the_scale_runs_from_0_to_1_in_the_colours_of_the_cells(stage: Stage) -> None:
    shown(stage)
    names = stage.written(CELLS)
    low, high = names["0"], names["1  weight"]
    assert low["y"] == high["y"]
    steps = [
        one
        for one in stage.drawn(CELLS, "rect")
        if low["x"] < one["x"] < high["x"] and one["y"] < low["y"] < one["y"] + one["h"]
    ]
    assert [one["x"] for one in steps] == sorted(one["x"] for one in steps)
    for share in (0, 0.25, 0.5, 0.75, 1):
        i = round(share * (len(steps) - 1))
        assert alike(steps[i]["colour"], weight_colour(i / (len(steps) - 1)))
    assert "masked" not in names


def test_the_key_shows_masked_cells_if_there_are_any(stage: Stage) -> None:
    shown(stage, blocked=np.eye(ROWS, COLS))
    name, pixels = stage.written(CELLS)["masked"], stage.pixels(CELLS)
    _, swatch = stage.drawn(CELLS, "image")
    assert name["x"] - 8 < swatch["x"] + swatch["w"] < name["x"]
    assert swatch["y"] < name["y"] < swatch["y"] + swatch["h"]
    assert pixels.within(swatch["x"], swatch["y"], 12, 10) == {PAPER, HATCH}


def test_a_masked_cell_is_striped_and_a_weight_of_0_is_not(stage: Stage) -> None:
    weights, blocked = np.zeros((2, 3), np.float32), np.array([[0, 2, 0], [5, 0, 0]])
    at, pixels = shown(stage, weights, blocked), stage.pixels(CELLS)
    for q in range(2):
        for k in range(3):
            x, y = at["left"] + k * at["wide"] + 3, at["top"] + q * at["tall"] + 3
            colours = pixels.within(x, y, 30, 30)
            assert colours == ({PAPER, HATCH} if blocked[q, k] else {PAPER})


def test_lines_part_the_cells_where_they_are_large_enough(stage: Stage) -> None:
    at = shown(stage)
    (lines,) = stage.drawn(CELLS, "path")
    down = sorted(x for x, _, x2, _ in lines["lines"] if x == x2)
    across = sorted(y for _, y, _, y2 in lines["lines"] if y == y2)
    assert down == pytest.approx([at["left"] + k * at["wide"] for k in range(COLS + 1)])
    assert across == pytest.approx([at["top"] + q * at["tall"] for q in range(ROWS + 1)])
    at = shown(stage, weights_of(151, 89))
    (lines,) = stage.drawn(CELLS, "path")
    assert at["tall"] < 7
    assert len(lines["lines"]) == 4


@pytest.mark.slow
def test_if_a_pixel_shows_several_cells_the_page_says_so(stage: Stage) -> None:
    shown(stage)
    assert stage.text(".map .note") == "Point at a cell for its exact weight."
    weights = np.zeros((31, 701), np.float32)
    weights[20, 400] = 1
    at = shown(stage, weights, width=400)
    n = math.ceil(1 / (min(at["wide"], at["tall"]) * RATIO))
    assert n > 1
    assert stage.text(".map .note") == f"Each pixel = largest of {n} × {n} cells."
    tall = shown(stage, np.zeros((2903, 5), np.float32))
    n = math.ceil(1 / (tall["tall"] * RATIO))
    assert n > 1
    assert stage.text(".map .note") == f"Each pixel = largest of {n} × {n} cells."
    at = shown(stage, weights, width=400)
    x, y = middle(at, 20, 400)
    pixels = stage.pixels(CELLS)
    assert ACCENT in pixels.within(x - 1, y - 1, 2.5, 2.5)
    assert ACCENT not in pixels.within(at["left"], at["top"], 399 * at["wide"] - 1, 31 * at["tall"])


def test_flat_cells_are_pointed_at_by_their_own_height(stage: Stage) -> None:
    at = shown(stage, np.full((37, 5), 0.2, np.float32))
    assert at["tall"] < at["wide"]
    for q, k in ((36, 4), (9, 0), (0, 2)):
        to(stage, at, q, k)
        assert stage.data(".tip") | {"weight": ""} == {"query": str(q), "key": str(k), "weight": ""}


def test_the_page_shows_through_wherever_nothing_is_drawn(stage: Stage) -> None:
    shown(stage)
    pixels = stage.pixels(CELLS)
    wide, tall = pixels.wide / RATIO, pixels.tall / RATIO
    for x, y in ((0, 0), (wide - 0.5, 0), (0, tall - 0.5), (wide - 0.5, tall - 0.5)):
        assert pixels.at(x, y) == PAPER


# --- pointing


def test_the_tip_names_both_tokens_the_weight_and_why(stage: Stage) -> None:
    weights, blocked = weights_of(), np.zeros((ROWS, COLS), np.uint8)
    blocked[3, 1], blocked[3, 4] = 2, 5
    at = shown(stage, weights, blocked)
    for q, k, why in (
        (2, 3, ""), (1, 3, "said of q1"), (2, 2, "said of k2"), (1, 2, "said of q1; said of k2"), (0, COLS - 2, ""),
        (3, 1, "masked (look-ahead)"), (3, 4, "masked (padding, drawn)"),
    ):  # fmt: skip
        to(stage, at, q, k)
        assert stage.text(".tip > div") == f"q{q} → k{k}"
        value = stage.text(".tip .value")
        assert value.startswith("weight ")
        assert np.float32(value[7:]) == weights[q, k]
        assert stage.text(".tip .why") == why
        assert stage.data(".tip") == {"query": str(q), "key": str(k), "weight": value[7:]}
        assert not stage.hidden(".tip")
    assert stage.text(".tip .value") != "weight 1"
    to(stage, at, 0, COLS - 2)
    assert stage.text(".tip .value") == "weight 1"
    to(stage, at, 0, 0)
    assert stage.text(".tip .value") == "weight 0"
    stage.away()
    assert stage.hidden(".tip")


def test_the_tip_is_beside_the_pointer_and_within_the_picture(stage: Stage) -> None:
    at = shown(stage)
    to(stage, at, 0, 0)
    tip, cells = stage.box(".tip"), stage.box(CELLS)
    assert tip["left"] > cells["left"] + middle(at, 0, 0)[0]
    assert tip["top"] > cells["top"] + middle(at, 0, 0)[1]
    stage.mount("head", 360).show(payload(weights_of()))
    to(stage, grid(stage), 0, 6)
    assert stage.box(".tip")["right"] <= stage.box(".head")["right"] + 0.5


def test_the_cell_or_token_under_the_pointer_is_framed(stage: Stage) -> None:
    at = shown(stage)
    places = {
        (2, 3): (2, 3, 1, 1), (2, None): (2, 0, 1, COLS), (None, 3): (0, 3, ROWS, 1),
    }  # fmt: skip
    for (q, k), (top, left, tall, wide) in places.items():
        x, y = middle(at, q or 0, k or 0)
        stage.move(CELLS, 40 if k is None else x, at["top"] - 5 if q is None else y)
        (frame,) = stage.drawn(MARKS)
        assert (frame["op"], frame["colour"], frame["line"]) == ("frame", INK, 2)
        assert (frame["x"], frame["y"]) == pytest.approx(
            (at["left"] + left * at["wide"] - 1, at["top"] + top * at["tall"] - 1)
        )
        assert (frame["w"], frame["h"]) == pytest.approx(
            (wide * at["wide"] + 2, tall * at["tall"] + 2)
        )
    for x, y in (
        (5, 5),
        (at["left"] + COLS * at["wide"] + 3, at["top"] + 5),
        (at["left"] + 5, at["top"] + ROWS * at["tall"] + 3),
        (at["left"] + 3, 10),
        (3, at["top"] - 3),
    ):
        stage.move(CELLS, x, y)
        assert not stage.drawn(MARKS)
        assert stage.hidden(".tip")
    stage.move(CELLS, at["left"] + (COLS - 0.1) * at["wide"], at["top"] + (ROWS - 0.1) * at["tall"])
    assert stage.data(".tip") | {"weight": ""} == {
        "query": str(ROWS - 1),
        "key": str(COLS - 1),
        "weight": "",
    }
    stage.move(CELLS, at["left"] + 1, at["top"] + 1)
    assert stage.data(".tip") | {"weight": ""} == {"query": "0", "key": "0", "weight": ""}


def test_a_token_is_pointed_at_up_to_the_edge_of_its_cells(stage: Stage) -> None:
    at = shown(stage)
    stage.move(CELLS, at["left"] - 2, middle(at, 2, 0)[1])
    assert stage.text(".reading").startswith("q2 attends most to")
    stage.move(CELLS, middle(at, 0, 3)[0], at["top"] - 2)
    assert stage.text(".reading").startswith("k3 is attended to most by")
    to(stage, at, 1, 1)
    stage.show(payload(weights_of()))  # a new picture has no tip of the old one
    assert stage.hidden(".tip")
    assert not stage.drawn(MARKS)


# --- the lines


def curves(stage: Stage, group: int) -> list[tuple[tuple[float, ...], dict[str, str]]]:
    """Return each curve of a group of lines: x and y of its ends and of its two handles, and its stroke."""
    paths = stage.js(
        "(root, n) => [...root.querySelectorAll('svg > g')[n].querySelectorAll('path')]"
        ".map((p) => Object.fromEntries([...p.attributes].map((a) => [a.name, a.value])))", group,
    )  # fmt: skip
    number = r"(-?[\d.]+)"
    shape = re.compile(rf"M{number} {number}C{number} {number} {number} {number} {number} {number}")
    return [(tuple(map(float, one)), path) for path in paths for one in shape.findall(path["d"])]


def row_y(stage: Stage, side: str) -> list[float]:
    return [float(y) for y in stage.attrs(f"svg text.token[data-side={side}]", "y")]


def test_every_weight_worth_drawing_is_a_line_from_its_query_to_its_key(stage: Stage) -> None:
    weights = weights_of()
    weights[3] = [0.0099, 0.0101, 0.2, 0.3, 0.1, 0.3, 0.0799]
    shown(stage, weights)
    ys, yk = row_y(stage, "query"), row_y(stage, "key")
    assert len(ys) == ROWS
    assert len(yk) == COLS
    found = {}
    for (x, y, x1, y1, x2, y2, x3, y3), how in curves(stage, 0):
        q, k = (int(np.abs(np.array(all_y) - v).argmin()) for all_y, v in ((ys, y), (yk, y3)))
        assert (y, y1, y2, y3) == pytest.approx((ys[q], ys[q], yk[k], yk[k]), abs=0.051)
        assert x < x1 < x2 < x3
        assert (how["fill"], hex_of(how["stroke"])) == ("none", ACCENT)
        assert (q, k) not in found
        found[q, k] = float(how["stroke-opacity"]), float(how["stroke-width"])
    assert set(found) == {(q, k) for q in range(ROWS) for k in range(COLS) if weights[q, k] >= 0.01}
    for place, (opacity, _) in found.items():
        assert opacity == pytest.approx(float(weights[place]), abs=0.00501)
    strong = sorted(found.values())
    assert strong == sorted(found.values(), key=lambda one: one[1])  # stronger lines are wider
    assert stage.js("(root) => root.querySelectorAll('svg > g')[0].getAttribute('opacity')") == "1"
    assert stage.text(".lines .note") == "Lines under 0.01 are not drawn."
    assert stage.attr(".lines .note", "title") == "A line is as strong as its cell, to ±0.005."


def test_the_tokens_are_in_two_columns_in_their_order(stage: Stage) -> None:
    shown(stage)
    heads = [(text, float(x)) for text, x in stage.elements("svg > text", "x")[:2]]
    assert [text for text, _ in heads] == ["query", "key"]
    assert heads[0][1] < heads[1][1]
    for side, n, (_, x) in (("query", ROWS, heads[0]), ("key", COLS, heads[1])):
        here = f"svg text.token[data-side={side}]"
        assert stage.texts(here) == [f"{side[0]}{i}" for i in range(n)]
        assert near(stage.attrs(here, "x"), x, 0.5)
        y = row_y(stage, side)
        assert y == sorted(y)
        assert [i for i, name in enumerate(stage.attrs(here, "class")) if "special" in name] == [
            4 if side == "query" else 5
        ]
        pads = stage.elements(f"svg rect[data-side={side}]", "y", "height")
        assert [float(top) + float(tall) / 2 for _, top, tall in pads] == pytest.approx(y)


def test_a_long_column_of_tokens_shrinks_and_names_every_nth(stage: Stage) -> None:
    shown(stage, weights_of(101, 7))
    y = row_y(stage, "query")
    assert y[-1] <= stage.box(".lines .stage")["height"]
    hidden = stage.attrs("svg text.token[data-side=query]", "visibility")
    assert [i for i, v in enumerate(hidden) if v is None] == list(range(0, 101, 2))
    stage.away()
    stage.click("svg rect[data-side=key]", n=3)
    numbers = "(root) => root.querySelectorAll('svg > g')[1].querySelectorAll('text').length"
    assert stage.js(numbers) == 0  # no room for them
    shown(stage, weights_of(41, 7))
    assert set(stage.attrs("svg text.token", "visibility")) == {None}


def test_long_tokens_leave_room_for_the_numbers(stage: Stage) -> None:
    shown(stage, queries=[["y" * 90, "", False]] * ROWS)
    box, width = stage.box("svg text.token[data-side=query]"), stage.box(".lines .stage")["width"]
    assert "…" in stage.texts("svg text.token[data-side=query]")[0]
    assert 0.3 * width < box["width"] < 0.47 * width


@pytest.mark.parametrize("side", ["query", "key"])
def test_hovering_a_token_shows_its_lines_and_their_weights(stage: Stage, side: str) -> None:
    weights = weights_of()
    shown(stage, weights)
    token = 2
    stage.move(f"svg rect[data-side={side}]", 20, 5, n=token)
    other = "key" if side == "query" else "query"
    line = weights[token] if side == "query" else weights[:, token]
    strong = [i for i, w in enumerate(line) if w >= 0.01]
    ys, yk = row_y(stage, side), row_y(stage, other)
    lit = curves(stage, 1)
    assert len(lit) == len(strong) < len(line)
    for i, (ends, how) in zip(strong, lit, strict=True):
        start, stop = (ends[1], ends[7]) if side == "query" else (ends[7], ends[1])
        assert (start, stop) == pytest.approx((ys[token], yk[i]), abs=0.051)
        assert float(how["stroke-opacity"]) == pytest.approx(float(line[i]), abs=0.0006)
        assert hex_of(how["stroke"]) == ACCENT
    numbers = stage.elements("svg > g:nth-of-type(2) text", "y")
    assert [text for text, _ in numbers] == [f"{line[i]:.2f}" for i in strong]
    assert [float(y) for _, y in numbers] == pytest.approx([yk[i] for i in strong])
    assert (
        float(stage.js("(root) => root.querySelectorAll('svg > g')[0].getAttribute('opacity')"))
        < 0.1
    )
    names = stage.attrs(f"svg text.token[data-side={side}]", "class")
    assert [("on" in name.split(), "dim" in name.split()) for name in names] == [
        (i == token, i != token) for i in range(len(ys))
    ]
    assert not any(
        {"on", "dim", "locked"} & set(name.split())
        for name in stage.attrs(f"svg text.token[data-side={other}]", "class")
    )
    assert stage.hidden(".tip")
    stage.away()
    assert not curves(stage, 1)
    assert not any("dim" in name for name in stage.attrs("svg text.token", "class"))


def test_hovering_a_cell_leaves_its_one_line(stage: Stage) -> None:
    weights = weights_of()
    at = shown(stage, weights)
    for q, k in ((2, int(weights[2].argmax())), (0, COLS - 2)):
        to(stage, at, q, k)
        ((ends, how),) = curves(stage, 1)
        assert (ends[1], ends[7]) == pytest.approx(
            (row_y(stage, "query")[q], row_y(stage, "key")[k]), abs=0.051
        )
        assert float(how["stroke-opacity"]) == pytest.approx(float(weights[q, k]), abs=0.0006)
        assert [
            ("on" in name) for name in stage.attrs("svg text.token[data-side=key]", "class")
        ] == [i == k for i in range(COLS)]
    to(stage, at, 0, 0)
    assert not curves(stage, 1)  # a weight of 0 has no line


# --- the sentence


def test_the_sentence_names_the_strongest_three_and_their_weights(stage: Stage) -> None:
    weights = weights_of()
    weights[2] = [0.05, 0.3, 0.1, 0.002, 0.4, 0.008, 0.14]
    shown(stage, weights)
    assert (
        stage.text(".reading")
        == "Hover a token to isolate its lines; click or press an arrow key to pin it."
    )
    stage.js("() => { window.asked = matchMedia; window.matchMedia = () => ({ matches: true }); }")
    try:
        shown(stage, weights)
        assert stage.text(".reading") == "Tap a token to see its lines."
    finally:
        stage.js("() => { window.matchMedia = asked; }")
    shown(stage, weights)
    stage.move("svg rect[data-side=query]", 20, 5, n=2)
    assert stage.text(".reading") == "q2 attends most to k4 0.40, k1 0.30, k6 0.14."
    stage.move("svg rect[data-side=key]", 40, 5, n=2)
    column = sorted(
        ((float(w), i) for i, w in enumerate(weights[:, 2]) if w >= 0.01), reverse=True
    )[:3]
    assert (
        stage.text(".reading")
        == f"k2 is attended to most by {', '.join(f'q{i} {w:.2f}' for w, i in column)}. (said of k2)"
    )
    stage.move("svg rect[data-side=query]", 20, 5, n=0)
    assert stage.text(".reading") == f"q0 attends most to k{COLS - 2} 1.00."
    stage.click("svg rect[data-side=query]", n=0)
    assert (
        stage.text(".reading")
        == f"q0 attends most to k{COLS - 2} 1.00. Pinned. Click again or press Esc to release."
    )
    assert stage.texts(".reading .token") == ["q0", f"k{COLS - 2}"]


def test_the_sentence_says_so_if_nothing_is_read(stage: Stage) -> None:
    weights = np.zeros((2, 3), np.float32)
    weights[0, 1] = 1
    shown(stage, weights)
    stage.move("svg rect[data-side=query]", 20, 5, n=1)
    assert stage.text(".reading") == "q1 attends most to nothing. (said of q1)"
    stage.move("svg rect[data-side=key]", 40, 5, n=0)
    assert stage.text(".reading") == "k0 is attended to most by no token."
    stage.move("svg rect[data-side=key]", 40, 5, n=1)
    assert stage.text(".reading") == "k1 is attended to most by q0 1.00."


# --- locking


@pytest.mark.parametrize(
    ("x", "y", "lock"),
    [("cell", "cell", "q2"), ("side", "cell", "q2"), ("cell", "over", "k3"), ("side", "over", "")],
)  # fmt: skip
def test_a_click_in_the_heatmap_pins_the_token_there(
    stage: Stage, x: str, y: str, lock: str
) -> None:
    at = shown(stage, lock="k1")
    assert stage.data(".head")["lock"] == "k1"
    cell_x, cell_y = middle(at, 2, 3)
    stage.click(CELLS, cell_x if x == "cell" else 40, cell_y if y == "cell" else at["top"] - 5)
    assert stage.sent == [["lock", {"token": lock}]]
    stage.away()
    assert stage.data(".head")["lock"] == lock


def test_the_same_click_again_releases_and_another_replaces(stage: Stage) -> None:
    at = shown(stage)
    for q, k in ((2, 3), (2, 5), (4, 5), (1, 1)):
        stage.click(CELLS, *middle(at, q, k))
    stage.click("svg rect[data-side=key]", n=1)
    stage.click("svg rect[data-side=query]", n=1)
    stage.click("svg rect[data-side=query]", n=1)
    assert [value["token"] for name, value in stage.sent] == ["q2", "", "q4", "q1", "k1", "q1", ""]


def test_a_pinned_token_is_underlined_and_its_lines_stay(stage: Stage) -> None:
    weights = weights_of()
    shown(stage, weights, lock="k3")
    assert ["locked" in name for name in stage.attrs("svg text.token[data-side=key]", "class")] == [
        i == 3 for i in range(COLS)
    ]
    assert len(curves(stage, 1)) == int((weights[:, 3] >= 0.01).sum())
    stage.move("svg rect[data-side=query]", 20, 5, n=2)  # hovering elsewhere shows that meanwhile
    assert len(curves(stage, 1)) == int((weights[2] >= 0.01).sum())
    assert ["locked" in name for name in stage.attrs("svg text.token[data-side=key]", "class")] == [
        i == 3 for i in range(COLS)
    ]
    stage.away()
    assert len(curves(stage, 1)) == int((weights[:, 3] >= 0.01).sum())
    assert stage.text(".reading").startswith("k3 is attended to most by ")
    stage.js("(root) => root.querySelector('canvas.cells').focus()")
    stage.press("a")
    assert stage.sent == []
    stage.press("Escape")
    assert stage.sent == [["lock", {"token": ""}]]
    stage.press("Escape")  # nothing is pinned any more
    assert len(stage.sent) == 1


@pytest.mark.slow
def test_a_new_pin_outlives_an_older_answer_but_not_its_head(stage: Stage) -> None:
    weights = weights_of()
    for other in ({"site": "encoder.layers.0.self_attn"}, {"head": 1}):
        at = shown(stage, weights)
        stage.click(CELLS, *middle(at, 2, -1.5))
        stage.show(payload(weights))  # computed before Python received it
        assert stage.data(".head")["lock"] == "q2"
        stage.show(
            payload(weights, **other)
        )  # the pin came too late: Python's value for that head counts
        assert stage.data(".head")["lock"] == ""
        assert "locked" not in " ".join(stage.attrs("svg text.token", "class"))
        stage.show(payload(weights))
        assert stage.data(".head")["lock"] == ""
        stage.click(CELLS, *middle(at, 2, -1.5))
        stage.show(payload(weights, lock="q2"))  # received
        stage.show(payload(weights, lock="k1"))
        assert stage.data(".head")["lock"] == "k1"


@pytest.mark.parametrize("lock", ["q5", "k7", "x1", "q", "", "q-1"])
def test_a_pin_on_a_missing_token_is_ignored(stage: Stage, lock: str) -> None:
    shown(stage, lock=lock if lock != "q-1" else "q99")
    assert stage.data(".head")["lock"] == ("q0" if lock == "q" else "")


@pytest.mark.parametrize("lock", ["q4", "k6", "q0"])
def test_the_last_token_can_be_pinned_too(stage: Stage, lock: str) -> None:
    shown(stage, lock=lock)
    assert stage.data(".head")["lock"] == lock


def test_in_a_part_of_a_long_text_a_token_is_pinned_by_its_position_in_the_whole_text(
    stage: Stage,
) -> None:
    at = shown(stage, first=[30, 60], size=[100, 90], lock="k62")
    assert stage.data(".head")["lock"] == "k62"
    stage.click(CELLS, *middle(at, 2, 3))
    stage.click("svg rect[data-side=key]", n=5)
    assert [value["token"] for _, value in stage.sent] == ["q32", "k65"]
    shown(stage, first=[30, 60], size=[100, 90], lock="q2")  # not in this part
    assert stage.data(".head")["lock"] == ""


# --- title, size, files


def test_the_title_has_the_colour_of_its_head(stage: Stage) -> None:
    for head in (0, 3, 11, 12):
        shown(stage, head=head)
        assert stage.text(".title") == "Whose lines these are"
        assert hex_of(stage.css(".chip", "backgroundColor")[0]) == HEADS[head % 12]
    data = stage.data(".head")
    assert (data["site"], data["head"], data["rows"], data["cols"]) == (
        "decoder.layers.1.cross_attn",
        "12",
        str(ROWS),
        str(COLS),
    )
    stage.show(payload(weights_of(3, 2)))
    assert int(stage.data(".head")["painted"]) == int(data["painted"]) + 1
    assert stage.texts("svg text.token") == ["q0", "q1", "q2", "k0", "k1"]  # only the new ones


def test_another_width_is_redrawn(stage: Stage) -> None:
    before = shown(stage)
    stage.page.evaluate("stage.host.style.width = '1180px'")
    stage.frames()
    x = stage.attrs("svg text.token[data-side=key]", "x")
    assert grid(stage)["wide"] >= before["wide"]
    stage.page.evaluate("stage.end()")  # and not any more once Streamlit has removed it
    stage.page.evaluate("document.body.append(stage.host)")
    stage.page.evaluate("stage.host.style.width = '800px'")
    stage.frames()
    assert stage.attrs("svg text.token[data-side=key]", "x") == x


def test_a_dark_page_has_its_own_colours(stage: Stage) -> None:
    weights = weights_of()
    paper, accent, ink = DARK.values()
    stage.mount("head", 760, **DARK).show(payload(weights, np.eye(ROWS, COLS)))
    at, pixels = grid(stage), stage.pixels(CELLS)
    assert pixels.at(1, 60) == paper
    assert alike(
        pixels.at(at["left"] + 2.1 * at["wide"], at["top"] + 3.1 * at["tall"]),
        weight_colour(float(weights[3, 2]), paper, accent),
    )
    assert pixels.within(at["left"] + 3, at["top"] + 3, 20, 20) == {paper, mixed(0.38, paper, ink)}
    names = stage.written(CELLS)
    assert names["q1"]["colour"] == ink
    assert names["q4"]["colour"] == mixed(0.62, paper, ink)
    assert hex_of(curves(stage, 0)[0][1]["stroke"]) == accent


def test_the_heatmap_as_a_file(stage: Stage) -> None:
    at = shown(stage)
    name, picture, drawn = stage.saved_picture(".map .png")
    assert name == "one-head.png"
    on_page = stage.pixels(CELLS)
    assert picture.wide == SHARP * on_page.wide / RATIO
    title, caption = [one["text"] for one in drawn if one["op"] == "text"]
    assert (title, caption) == ("Whose lines these are", SAVED["caption"])
    for q, k in ((0, COLS - 2), (3, 1), (4, 6)):
        x, y = at["left"] + (k + 0.1) * at["wide"], at["top"] + (q + 0.1) * at["tall"]
        assert picture.at(x, y + 30) == on_page.at(x, y)
    assert picture.at(1, 1) == PAPER
    assert INK in picture.within(15, 5, 60, 20)
    again = stage.pixels(CELLS)  # on the page it is unchanged
    assert (again.wide, again.tall) == (on_page.wide, on_page.tall)
    assert (again.all == on_page.all).all()


def test_a_long_title_has_room_in_the_file(stage: Stage) -> None:
    shown(stage, title="A long title " * 12)
    _, picture, drawn = stage.saved_picture(".map .png")
    title, _ = [one for one in drawn if one["op"] == "text"]
    assert picture.wide > SHARP * title["wide"] > SHARP * stage.pixels(CELLS).wide / RATIO


def test_the_lines_as_a_file(stage: Stage) -> None:
    shown(stage, queries=[["<a&b>", "", False]] * ROWS)
    name, svg = stage.saved_svg(".lines .svg")
    assert name == "one-head.svg"
    paper, title = list(svg)[:2]
    assert hex_of(paper.get("fill")) == PAPER
    assert title.text == "Whose lines these are"
    assert hex_of(title.get("fill")) == INK
    texts = [one.text for one in svg.iter(f"{SVG}text")]
    assert texts.count("<a&b>") == ROWS
    assert [f"k{i}" for i in range(COLS)] == texts[-COLS - 1 : -1]
    assert len(list(svg.iter(f"{SVG}path"))) == len(
        stage.js("(root) => [...root.querySelectorAll('svg path')].map(String)")
    )


def test_the_arrow_keys_pin_a_row_or_a_column(stage: Stage) -> None:
    """They do what a click does: down and up move through the queries, right and left through the keys."""
    shown(stage)
    stage.js("(root) => root.querySelector('.map canvas.cells').focus()")
    for key, token in (
        ("ArrowDown", "q0"), ("ArrowDown", "q1"), ("ArrowUp", "q0"), ("ArrowUp", "q0"), ("ArrowRight", "k0"),
        ("ArrowRight", "k1"), ("ArrowLeft", "k0"), ("Escape", ""),
    ):  # fmt: skip
        stage.press(key)
        assert stage.sent[-1] == ["lock", {"token": token}]
