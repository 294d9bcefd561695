"""The component `mask_painter` by itself: blocked cells and their reasons, painting, and before, after, difference."""

import re
from typing import Any

import numpy as np
import pytest
from stage import (
    DARK,
    HATCH,
    HEADS,
    INK,
    ORANGE,
    PAPER,
    QUIET,
    RATIO,
    SAVED,
    Stage,
    alike,
    hex_of,
    signed_colour,
    weight_colour,
)

from viz_app.drawing.payload import pack

ROWS, COLS = 5, 7
BOARD, MARKS = ".painting .cells", ".painting .marks"
TINT = weight_colour(57 / 254)
LAYERS = [
    {"name": "padding", "reason": "nothing stands there"},
    {"name": "look-ahead", "reason": ""},
]
WHOLE = {"block": 1, "first": [0, 0], "size": [ROWS, COLS]}
DRAWN = {"name": "drawn", "reason": "forbidden by you"}
QUERIES, KEYS = (
    [[f"{side}{i}", "", i == n - 1] for i in range(n)] for side, n in (("q", ROWS), ("k", COLS))
)
NAMES = ("before", "after", "difference")
ALL = 1500  # px, from which all pictures of the head fit side by side


def payload(
    painted: list | None = None, _arrays: dict | None = None, **changes: Any
) -> tuple[bytes, dict, dict]:
    rng = np.random.default_rng(9)
    base = np.zeros((ROWS, COLS), np.uint8)
    base[:, 6], base[1, 4] = 1, 2
    base[0, 3:] |= 2
    before, after = (rng.dirichlet(np.full(COLS, 0.5), ROWS).astype(np.float32) for _ in range(2))
    blocked_before, blocked_after = (
        np.zeros((ROWS, COLS), np.uint8),
        np.zeros((ROWS, COLS), np.uint8),
    )
    blocked_before[0, 5], blocked_after[0, 5], blocked_before[2, 1], blocked_after[4, 2] = (
        1,
        1,
        1,
        1,
    )
    strip = np.concatenate(
        [
            (rng.random(ROWS * COLS) > 0.4).astype(np.uint8),
            (rng.random(ROWS * COLS) > 0.4).astype(np.uint8),
            (rng.random(9) > 0.4).astype(np.uint8),
        ]
    )
    arrays = {
        "base": base, "strip": strip, "before": before, "after": after, "difference": after - before,
        "blockedBefore": blocked_before,
        "blockedAfter": blocked_after, "logBefore": np.array([-0.5, -2.25, 0.0], np.float32),
        "logAfter": np.array([-4.5, -0.0004, -1.0], np.float32),
    } | (_arrays or {})  # fmt: skip
    largest = float(max(1, *-arrays["logBefore"], *-arrays["logAfter"]))
    header = {
        "kind": "cross", "painted": painted or [], "title": "Which mask this is", "subtitle": "what it is of",
        "queries": QUERIES, "keys": KEYS,
        **WHOLE, "queryAxis": "who reads", "keyAxis": "what is read", "layers": LAYERS, "drawn": DRAWN,
        "story": ["First.", "Then."],
        "strip": [
            {"kind": "encoder_self", "title": "Encoder", "rows": 3, "cols": 3, "pictures": [
                {"name": "all", "offset": 70, "blocked": 4, "cells": 9}]},
            {"kind": "cross", "title": "Cross", "rows": ROWS, "cols": COLS, "pictures": [
                {"name": "padding", "offset": 0, "blocked": 5, "cells": 35},
                {"name": "combined", "offset": 35, "blocked": 11, "cells": 35}]},
        ],
        "effect": {
            "title": "Which head this is", "site": "decoder.layers.0.cross_attn", "head": 4, "kind": "cross",
            "file": "a-head", **SAVED, "queries": QUERIES, "keys": KEYS,
            **WHOLE, "queryAxis": "who reads", "keyAxis": "what is read", "scale": 0.5,
            "labels": [["a", "", False], ["b", "", False], ["[end]", "", True]],
            "given": "Target", "outputs": ["old", "new"], "sums": [-2.75, -5.5004], "largest": largest,
        },
    } | changes  # fmt: skip
    return pack(header, **arrays), header, arrays


def shown(stage: Stage, width: int = 1240, **how: Any) -> tuple[dict, dict]:
    data, header, arrays = payload(**how)
    stage.mount("mask_painter", width).show(data)
    return header, arrays


def grid(stage: Stage, n: int | None = None) -> dict[str, float]:
    """Return where the cells of the board, or of a panel of the effect, begin and how large they are."""
    view = "view.brush.board" if n is None else f"view.effect.panels[{n}].board"
    return stage.js(
        f"(root) => {{ const {{ left, top, wide, tall }} = root.querySelector('.masks').{view}; return {{ left, top, "
        f"wide, tall }}; }}"
    )


def at(stage: Stage, query: float, key: float) -> tuple[float, float]:
    cells = grid(stage)
    return cells["left"] + (key + 0.5) * cells["wide"], cells["top"] + (query + 0.5) * cells["tall"]


def at_panel(stage: Stage, n: int, query: float, key: float) -> tuple[float, float]:
    cells = grid(stage, n)
    return cells["left"] + (key + 0.5) * cells["wide"], cells["top"] + (query + 0.5) * cells["tall"]


def framed(stage: Stage, frame: dict[str, float]) -> tuple[int, ...]:
    """Return the rows and columns of the board that a frame encloses: first, end, first, end."""
    cells = grid(stage)
    x, y = (frame["x"] - cells["left"]) / cells["wide"], (frame["y"] - cells["top"]) / cells["tall"]
    ends = y, y + frame["h"] / cells["tall"], x, x + frame["w"] / cells["wide"]
    assert all(abs(end - round(end)) < 0.1 for end in ends)
    return tuple(round(end) for end in ends)


def open_cells(stage: Stage) -> np.ndarray:
    """Return which cells of the board are tinted; the others must be hatched."""
    cells, pixels = grid(stage), stage.pixels(BOARD)
    found = np.zeros((ROWS, COLS), bool)
    for q in range(ROWS):
        for k in range(COLS):
            x, y = cells["left"] + k * cells["wide"], cells["top"] + q * cells["tall"]
            corner = pixels.within(x + 3, y + 3, 7, 5)
            tinted = len(corner) == 1 and alike(*corner, TINT)
            assert corner == {PAPER, HATCH} or tinted, (q, k, corner)
            found[q, k] = corner != {PAPER, HATCH}
    return found


# --- the board


def test_open_cells_are_tinted_and_blocked_ones_hatched(stage: Stage) -> None:
    _, arrays = shown(stage)
    assert (open_cells(stage) == (arrays["base"] == 0)).all()
    cells, texts = grid(stage), stage.drawn(BOARD, "text")
    signs = [one for one in texts if one["text"] in ("0", "−∞")]
    assert [one["text"] for one in signs] == [
        "0" if v == 0 else "−∞" for v in arrays["base"].ravel()
    ]
    for i, one in enumerate(signs):
        q, k = divmod(i, COLS)
        assert (one["x"], one["y"]) == pytest.approx(
            (
                cells["left"] + (k + 0.5) * cells["wide"],
                cells["top"] + (q + 0.5) * cells["tall"] + 0.5,
            )
        )
    assert stage.text(".painting .title") == "Which mask this is"
    legend = stage.text(".painting .legend")
    assert legend == "allowed (0)blocked (−∞)changed"
    assert stage.text(".painting .subtitle") == "what it is of"
    assert stage.attr(BOARD, "aria-label").startswith("Which mask this is")
    data = stage.data(".masks")
    assert [data[name] for name in ("kind", "site", "head", "before", "after", "wrote")] == [
        "cross", "decoder.layers.0.cross_attn", "4", "-2.75", "-5.5004", "new",
    ]  # fmt: skip
    assert {name: float(data[name]) for name in cells} == pytest.approx(cells)
    assert stage.texts(".story p") == ["First.", "Then."]


def test_the_board_names_its_tokens_and_axes(stage: Stage) -> None:
    shown(stage)
    cells, texts = grid(stage), stage.written(BOARD)
    for i in range(ROWS):
        one = texts[f"q{i}"]
        assert one["y"] == pytest.approx(cells["top"] + (i + 0.5) * cells["tall"])
        assert one["x"] < cells["left"]
        assert one["colour"] == (QUIET if i == ROWS - 1 else INK)
    for i in range(COLS):
        one = texts[f"k{i}"]
        assert one["x"] == pytest.approx(cells["left"] + (i + 0.5) * cells["wide"])
        assert one["y"] < cells["top"]
    along, down = texts["what is read →"], texts["← who reads"]
    assert along["angle"] == 0
    assert along["y"] < cells["top"]
    assert down["angle"] == pytest.approx(-np.pi / 2)
    assert down["x"] < cells["left"]
    (rules,) = stage.drawn(BOARD, "path")
    assert sorted(y for x, y, x2, y2 in rules["lines"] if y == y2) == pytest.approx(
        [cells["top"] + i * cells["tall"] for i in range(ROWS + 1)]
    )
    assert sorted(x for x, y, x2, y2 in rules["lines"] if x == x2) == pytest.approx(
        [cells["left"] + i * cells["wide"] for i in range(COLS + 1)]
    )
    assert cells["wide"] == cells["tall"]
    assert stage.attrs(BOARD, "tabindex", "role") == [{"tabindex": "0", "role": "img"}]


def test_the_strip_shows_every_mask_as_its_layers_and_their_union(stage: Stage) -> None:
    header, arrays = shown(stage)
    assert stage.texts(".group .name") == ["Encoder", "Cross"]
    assert stage.attrs(".group", "aria-pressed") == ["false", "true"]
    assert stage.attrs(".group", "data-kind") == [
        "encoder_self",
        "cross",
    ]
    assert stage.texts(".caption") == ["all", "padding", "combined"]
    assert stage.texts(".group .sign") == ["="]
    assert stage.attrs(".picture", "title") == [
        "all: 4 of 9 cells blocked",
        "padding: 5 of 35 cells blocked",
        "combined: 11 of 35 cells blocked",
    ]
    assert stage.attrs(".picture", "data-blocked") == ["4", "5", "11"]
    assert ["whole" in one for one in stage.attrs(".picture", "class")] == [True, False, True]
    for n, (offset, rows, cols) in enumerate(((70, 3, 3), (0, ROWS, COLS), (35, ROWS, COLS))):
        pixels = stage.pixels(".picture canvas", n)
        side = pixels.wide / RATIO / cols
        assert pixels.tall / RATIO / rows == pytest.approx(side, rel=0.03)
        for i, allowed in enumerate(arrays["strip"][offset : offset + rows * cols]):
            r, c = divmod(i, cols)
            seen = pixels.within(c * side + 1, r * side + 1, side - 2, side - 2)
            assert (len(seen) == 1 and alike(*seen, TINT)) if allowed else seen == {PAPER, HATCH}
    stage.click(".group", 5, 5, 0)
    assert stage.sent == [["kind", {"kind": "encoder_self"}]]
    assert stage.keeps_the_keyboard(".group", payload()[0])
    three = [
        {
            **header["strip"][1],
            "pictures": [header["strip"][1]["pictures"][0]] * 2
            + [header["strip"][1]["pictures"][1]],
        }
    ]
    stage.show(payload(strip=three)[0])
    assert stage.texts(".group .sign") == ["∧", "="]
    assert stage.texts(".caption") == ["padding", "padding", "combined"]
    assert stage.texts(".group .name") == ["Cross"]
    stage.click(".group", 5, 5, 0)
    assert stage.sent[-1] == ["kind", {"kind": "cross"}]


def test_hovering_a_cell_says_why_it_is_open_or_blocked(stage: Stage) -> None:
    shown(stage, painted=[[2, 2, 0], [0, 4, 1], [3, 6, 0]])
    for q, k, said, why, last in (
        (2, 3, "q2 may attend to k3.", ["no layer blocks it"], "True, adds 0 to its score"),
        (1, 4, "q1 may not attend to k4 (look-ahead).", ["look-ahead"], "False, adds −∞ to its score"),
        (0, 6, "q0 may not attend to k6 (padding: "
        "nothing stands there; look-ahead).", ["padding: nothing stands there", "look-ahead"], "False, adds −∞ to its score"),
        (2, 2, "q2 may not attend to k2 (drawn: forbidden by you).", ["drawn: forbidden by you"], "False, adds −∞ to its score"),
        (0, 4, "q0 may attend to k4 (allowed by "
        "hand, against the other layers).", ["allowed by hand, against the other layers"], "True, adds 0 to its score"),
        (3, 6, "q3 may not attend to k6 (padding: nothing "
        "stands there; drawn: forbidden by you).", ["padding: nothing stands there", "drawn: forbidden by you"],
         "False, adds −∞ to its score"),
    ):  # fmt: skip
        stage.move(BOARD, *at(stage, q, k))
        assert stage.text(".said") == said
        assert stage.texts(".said .token") == [f"q{q}", f"k{k}"]
        assert not stage.hidden(".tip")
        verb = " may attend to " if "may attend" in said else " may not attend to "
        assert stage.text(".tip .pair") == f"q{q}{verb}k{k}"
        assert stage.texts(".tip .why div") == [*why, last]
        (frame,) = [one for one in stage.drawn(MARKS, "frame") if one["colour"] == INK]
        assert framed(stage, frame) == (q, q + 1, k, k + 1)
    row = stage.js(
        "(root) => [...root.querySelectorAll('.forms tr')].map((tr) => [...tr.children].map((e) => [e.textContent, e.className]))"
    )
    allowed = [k != 6 for k in range(COLS)]
    assert [one[0] for one in row[0]] == ["boolean", *("True" if a else "False" for a in allowed)]
    assert [one[0] for one in row[1]] == ["additive", *("0" if a else "−∞" for a in allowed)]
    assert [i for i, one in enumerate(row[1]) if one[1] == "on"] == [7]
    stage.away()
    assert stage.hidden(".tip")
    assert stage.text(".said").startswith("Point at a cell")
    assert not stage.texts(".forms td")


def test_the_tip_is_beside_the_pointer_and_within_the_page(stage: Stage) -> None:
    shown(stage)
    stage.js(
        "(root) => root.addEventListener('pointermove', (e) => { root.at = [e.clientX, e.clientY]; })"
    )
    stage.move(BOARD, *at(stage, 2, 3))
    (x, y), tip = stage.js("(root) => root.at"), stage.box(".tip")
    assert x < tip["left"] < x + 40
    assert y < tip["top"] < y + 40
    stage.move(".panel.difference .cells", *at_panel(stage, 2, 4, 6))
    assert stage.box(".tip")["right"] <= stage.box(".masks")["right"] + 0.5


def test_hovering_a_token_frames_its_row_or_column(stage: Stage) -> None:
    shown(stage)
    cells = grid(stage)
    stage.move(BOARD, cells["left"] - 8, at(stage, 2, 0)[1])
    assert stage.text(".said") == "The row of q2"
    assert stage.hidden(".tip")
    assert len(stage.texts(".forms tr")) == 2
    (frame,) = stage.drawn(MARKS, "frame")
    assert framed(stage, frame) == (2, 3, 0, COLS)
    stage.move(BOARD, at(stage, 0, 4)[0], cells["top"] - 5)
    (frame,) = stage.drawn(MARKS, "frame")
    assert framed(stage, frame) == (0, ROWS, 4, 5)
    for x, y in (
        (2, 2),
        (cells["left"] + COLS * 40 + 2, cells["top"] + 9),
        (cells["left"] + 9, cells["top"] + ROWS * 40 + 2),
        (at(stage, 0, 4)[0], 10),
    ):
        stage.move(BOARD, x, y)
        assert not stage.drawn(MARKS)
    stage.move(BOARD, cells["left"] + 1, cells["top"] + 1)
    assert stage.text(".said").startswith("q0 may attend to k0")


def test_painted_cells_have_their_own_frame(stage: Stage) -> None:
    shown(stage, painted=[[2, 2, 0], [0, 4, 1], [9, 9, 0], [1, COLS, 0], [ROWS, 1, 0]])
    frames = stage.drawn(MARKS, "frame")
    assert [framed(stage, one) for one in frames] == [(2, 3, 2, 3), (0, 1, 4, 5)]
    assert all(alike(one["colour"], ORANGE) for one in frames)
    expected = payload()[2]["base"] == 0
    expected[2, 2], expected[0, 4] = False, True
    assert (open_cells(stage) == expected).all()


def test_a_new_picture_has_no_tip_of_the_old_one(stage: Stage) -> None:
    shown(stage)
    stage.move(BOARD, *at(stage, 2, 3))
    stage.show(payload()[0])
    assert stage.hidden(".tip")


# --- painting


def test_a_click_toggles_a_cell_and_a_second_toggles_it_back(stage: Stage) -> None:
    _, arrays = shown(stage)
    expected = arrays["base"] == 0
    for (q, k), cells in (
        ((2, 3), [[2, 3, 0]]),
        ((0, 5), [[2, 3, 0], [0, 5, 1]]),
        ((2, 3), [[0, 5, 1]]),
    ):
        stage.click(BOARD, *at(stage, q, k))
        expected[q, k] = not expected[q, k]
        assert stage.sent[-1] == ["paint", {"kind": "cross", "cells": cells}]
        frames = [one for one in stage.drawn(MARKS, "frame") if alike(one["colour"], ORANGE)]
        assert len(frames) == len(cells)  # at once, without another move
        assert len(stage.drawn(MARKS, "frame")) == len(cells) + 1  # and the cell under the pointer
        assert (open_cells(stage) == expected).all()
    assert len(stage.sent) == 3


def test_in_a_part_of_a_long_text_cells_are_painted_by_their_positions_in_the_whole_text(
    stage: Stage,
) -> None:
    _, arrays = shown(stage, first=[30, 60], size=[100, 90], painted=[[32, 63, 0], [1, 1, 0]])
    expected = arrays["base"] == 0
    expected[2, 3] = False
    assert (open_cells(stage) == expected).all()
    frames = [one for one in stage.drawn(MARKS, "frame") if alike(one["colour"], ORANGE)]
    centres = [(one["x"] + one["w"] / 2, one["y"] + one["h"] / 2) for one in frames]
    assert centres == [pytest.approx(at(stage, 2, 3), abs=1)]  # the other is not shown
    stage.click(BOARD, *at(stage, 4, 2))
    assert stage.sent == [
        ["paint", {"kind": "cross", "cells": [[32, 63, 0], [1, 1, 0], [34, 62, 0]]}]
    ]
    assert stage.text(".painting .legend").startswith(
        "Queries 30 to 34 of 100, keys 60 to 66 of 90. allowed"
    )
    stage.click(".all")
    assert stage.sent[-1] == ["tile", {}]
    stage.show(payload()[0], (2, 1))
    assert stage.hidden(".all")


def test_a_block_of_a_long_text_is_not_painted_but_shown_cell_by_cell(stage: Stage) -> None:
    block = {"block": 10, "first": [0, 0], "size": [45, 70]}
    effect = payload()[1]["effect"] | block
    _, arrays = shown(stage, **block, painted=[[32, 61, 0]], effect=effect)
    assert (open_cells(stage) == (arrays["base"] == 0)).all()
    frames = [one for one in stage.drawn(MARKS, "frame") if alike(one["colour"], ORANGE)]
    assert len(frames) == 1
    assert stage.text(".painting .legend").startswith("Each cell is 10 × 10: tinted where any")
    stage.click(BOARD, *at(stage, 4, 2))
    stage.press(" ")
    stage.click(".panel.after canvas.cells", *at_panel(stage, 1, 1, 3))
    assert stage.sent == [
        ["tile", {"query": 44, "key": 25}],
        ["tile", {"query": 5, "key": 5}],
        ["tile", {"query": 15, "key": 35}],
    ]
    told = "Each cell is the largest of 10 × 10; in the difference, the one furthest from 0. The other 99 are hidden. Click"
    assert stage.text(".effect .legend").startswith(told)
    assert stage.hidden(".all")


def test_a_stroke_paints_all_cells_it_passes_as_its_first(stage: Stage) -> None:
    _, arrays = shown(stage)
    mouse, box = stage.page.mouse, stage.box(BOARD)
    expected = arrays["base"] == 0

    def to(q: float, k: float) -> None:
        x, y = at(stage, q, k)
        mouse.move(box["left"] + x, box["top"] + y)

    to(1, 0)
    mouse.down()
    to(4, 3)  # a fast pointer skips cells
    assert stage.sent == []
    to(4, 5)
    to(-1, 5)  # nothing is painted over the names
    to(4, 4)
    mouse.up()
    painted = [(1, 0), (2, 1), (3, 2), (4, 3), (4, 4), (4, 5)]
    ((name, stroke),) = stage.sent
    assert name == "paint"
    assert sorted(map(tuple, stroke["cells"])) == [(q, k, 0) for q, k in painted]
    for place in painted:
        expected[place] = False
    assert (open_cells(stage) == expected).all()
    to(3, 3)  # after release, it paints no more
    assert (open_cells(stage) == expected).all()
    to(0, 6)
    mouse.down()
    to(0, 3)
    mouse.up()
    assert sorted(c for c in map(tuple, stage.sent[-1][1]["cells"]) if c[0] == 0) == [
        (0, k, 1) for k in range(3, 7)
    ]


def test_a_steep_stroke_skips_no_row(stage: Stage) -> None:
    shown(stage)
    mouse, box = stage.page.mouse, stage.box(BOARD)
    for (q, k), press in (((1, 2), mouse.down), ((4, 2), mouse.up)):
        x, y = at(stage, q, k)
        mouse.move(box["left"] + x, box["top"] + y)
        press()
    assert sorted(map(tuple, stage.sent[0][1]["cells"])) == [(q, 2, 0) for q in (1, 2, 3, 4)]


def test_only_the_left_button_paints(stage: Stage) -> None:
    shown(stage)
    x, y = at(stage, 2, 3)
    box = stage.box(BOARD)
    stage.page.mouse.click(box["left"] + x, box["top"] + y, button="right")
    stage.click(BOARD, 2, 2)
    assert stage.sent == []


def test_a_token_paints_its_whole_row_or_column(stage: Stage) -> None:
    _, arrays = shown(stage)
    cells, own = grid(stage), arrays["base"] == 0
    expected = own.copy()
    stage.click(BOARD, cells["left"] - 8, at(stage, 0, 0)[1])
    expected[0] = False
    assert (open_cells(stage) == expected).all()
    assert sorted(map(tuple, stage.sent[-1][1]["cells"])) == [(0, k, 0) for k in range(3)]
    stage.click(BOARD, at(stage, 0, 4)[0], cells["top"] - 5)
    expected[:, 4] = False
    assert (open_cells(stage) == expected).all()
    assert sorted(c for c in map(tuple, stage.sent[-1][1]["cells"]) if c[1] == 4) == [
        (q, 4, 0) for q in (2, 3, 4)
    ]
    stage.click(BOARD, at(stage, 0, 4)[0], cells["top"] - 5)  # again: back to before
    expected[:, 4] = [False, *own[1:, 4]]
    assert (open_cells(stage) == expected).all()
    stage.click(BOARD, cells["left"] - 8, at(stage, 0, 0)[1])
    assert (open_cells(stage) == own).all()
    assert stage.sent[-1][1]["cells"] == []


def test_the_keyboard_paints_too(stage: Stage) -> None:
    shown(stage)
    stage.js("(root) => root.querySelector('.painting canvas.cells').focus()")
    stage.press("ArrowRight")
    assert stage.text(".said").startswith(
        "q0 may attend to k0"
    )  # the first key shows the current cell
    for key, place in (
        ("ArrowRight", (0, 1)), ("ArrowDown", (1, 1)), ("ArrowDown", (2, 1)), ("ArrowLeft", (2, 0)), ("ArrowLeft", (2, 0)),
        ("ArrowUp", (1, 0)),
        *[("ArrowDown", (q, 0)) for q in (2, 3, 4, 4)], *[("ArrowRight", (4, k)) for k in (1, 2, 3, 4, 5, 6, 6)],
    ):  # fmt: skip
        stage.press(key)
        assert re.match(r"(q\d) may (not )?attend to (k\d)", stage.text(".said")).group(1, 3) == (
            f"q{place[0]}",
            f"k{place[1]}",
        )
    stage.press(" ")
    assert stage.sent == [["paint", {"kind": "cross", "cells": [[4, 6, 1]]}]]
    stage.press("Enter", "x")
    assert stage.sent[1:] == [["paint", {"kind": "cross", "cells": []}]]
    stage.js("(root) => root.activeElement.blur()")
    assert stage.text(".said").startswith("Point at a cell")
    stage.js("(root) => root.querySelector('.painting canvas.cells').focus()")
    stage.press(" ")
    assert stage.sent[2:] == [["paint", {"kind": "cross", "cells": [[0, 0, 0]]}]]


def test_other_keys_are_left_to_the_browser(stage: Stage) -> None:
    shown(stage)
    pressed = """(root, key) => {
      const board = root.querySelector(".painting canvas.cells");
      board.focus();
      return board.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true, bubbles: true }));
    }"""
    for key in ("Tab", "a", "Escape", "Home"):
        assert stage.js(pressed, key) is True
        assert stage.text(".said").startswith("Point at a cell")
    for key in ("ArrowRight", " ", "Enter"):
        assert stage.js(pressed, key) is False  # or the page would scroll


def test_an_older_answer_does_not_undo_a_stroke(stage: Stage) -> None:
    _, arrays = shown(stage)
    stage.click(BOARD, *at(stage, 2, 3))
    stage.show(payload()[0])
    assert not open_cells(stage)[2, 3]
    stage.show(payload(painted=[[2, 3, 0]])[0])
    stage.show(payload(painted=[[1, 1, 0]])[0])  # now Python's value counts again
    found = open_cells(stage)
    assert found[2, 3]
    assert not found[1, 1]
    stage.click(BOARD, *at(stage, 2, 3))
    stage.show(payload(kind="decoder_self")[0])  # another mask has nothing of it
    assert (open_cells(stage) == (arrays["base"] == 0)).all()


def test_the_cells_fill_their_room(stage: Stage) -> None:
    for rows, cols in ((2, 45), (45, 2)):
        names = [
            [[f"{side}{i}", "", False] for i in range(n)] for side, n in (("q", rows), ("k", cols))
        ]
        shown(
            stage,
            _arrays={"base": np.zeros((rows, cols), np.uint8)},
            queries=names[0],
            keys=names[1],
        )
        cells, box = grid(stage), stage.box(BOARD)
        right, bottom = cells["left"] + cols * cells["wide"], cells["top"] + rows * cells["tall"]
        if cols > rows:
            assert box["width"] - 30 <= right <= box["width"]
        else:
            assert box["height"] - 5 <= bottom <= box["height"]


def test_the_name_of_an_axis_is_shortened_to_its_side(stage: Stage) -> None:
    shown(stage, width=700, queryAxis="m" * 300, keyAxis="m" * 300)
    box, texts = stage.box(BOARD), stage.drawn(BOARD, "text")
    for sign, room in (("←", box["height"]), ("→", box["width"])):
        (one,) = [one for one in texts if sign in one["text"] and "…" in one["text"]]
        assert room / 2 < one["wide"] < room
    shown(stage, queryAxis="who reads: " + "m" * 300, keyAxis="what is read: " + "m" * 300)
    assert {"what is read →", "← who reads"} < {one["text"] for one in stage.drawn(BOARD, "text")}


def test_long_texts_have_small_cells_without_symbols(stage: Stage) -> None:
    for rows, cols in ((61, 67), (5, 30), (41, 5)):
        names = [
            [[f"{side}{i}", "", False] for i in range(n)] for side, n in (("q", rows), ("k", cols))
        ]
        base = np.zeros((rows, cols), np.uint8)
        base[3, 2] = 1
        shown(stage, _arrays={"base": base}, queries=names[0], keys=names[1])
        cells, box = grid(stage), stage.box(BOARD)
        assert cells["left"] + cols * cells["wide"] <= box["width"]
        assert cells["top"] + rows * cells["tall"] <= box["height"]
        assert not {one["text"] for one in stage.drawn(BOARD, "text")} & {"0", "−∞"}


# --- the effect


def test_before_after_and_difference_hold_their_weights(stage: Stage) -> None:
    _header, arrays = shown(stage, ALL)
    for n, name in enumerate(NAMES):
        cells, canvas = grid(stage, n), f".panel.{name} .cells"
        pixels, texts = stage.pixels(canvas), stage.drawn(canvas, "text")
        blocked = {"before": arrays["blockedBefore"], "after": arrays["blockedAfter"]}.get(
            name, arrays["blockedBefore"] & arrays["blockedAfter"]
        )
        for q in range(ROWS):
            for k in range(COLS):
                value = float(arrays[name][q, k])
                x, y = cells["left"] + k * cells["wide"], cells["top"] + q * cells["tall"]
                corner = pixels.within(x + 2, y + 2, 4, 3)
                here = [
                    one
                    for one in texts
                    if abs(one["x"] - x - cells["wide"] / 2) < 0.1
                    and abs(one["y"] - y - cells["tall"] / 2 - 0.5) < 0.1
                ]
                if blocked[q, k]:
                    assert corner <= {PAPER, HATCH}
                    assert len(corner) == 2
                    assert not here
                    continue
                expected = signed_colour(value, 0.5) if n == 2 else weight_colour(value)
                assert alike(corner.pop(), expected, 2), (name, q, k)
                assert not corner
                said = (
                    re.sub(r"^(−?)0\.", r"\1.", f"{value:.2f}".replace("-", "−"))
                    if abs(value) >= 0.005
                    else None
                )
                assert [one["text"] for one in here] == (
                    [said] if said and cells["wide"] >= 19 else []
                )
        assert stage.attr(canvas, "aria-label") == f"Which head this is, {name}"
        assert {"who reads", "what is read"} <= {one["text"].strip("← →") for one in texts}
    assert cells["wide"] >= 19
    captions = [text.split(":")[0] for text in stage.texts(".panels figcaption")[:3]]
    assert captions == ["Before", "After", "Difference"]
    assert stage.text(".effect .title") == "Which head this is"
    assert hex_of(stage.css(".effect .chip", "backgroundColor")[0]) == HEADS[4]
    legend = stage.text(".effect .legend")
    assert "0 (blank) to 1 (full colour)" in legend
    assert "−0.5 (orange) to +0.5 (blue)" in legend
    assert "Hatched: blocked" in legend


def test_hovering_the_effect_shows_all_three_numbers(stage: Stage) -> None:
    _header, arrays = shown(stage, ALL)
    for n, (q, k) in enumerate(((3, 4), (2, 1), (4, 2))):
        cells = grid(stage, n)
        stage.move(
            f".panel.{NAMES[n]} .cells",
            cells["left"] + (k + 0.5) * cells["wide"],
            cells["top"] + (q + 0.5) * cells["tall"],
        )
        assert stage.text(".tip .pair") == f"q{q} attends to k{k}"
        lines = stage.texts(".tip .why div")
        for name, line, blocked in zip(
            NAMES,
            lines,
            (arrays["blockedBefore"][q, k], arrays["blockedAfter"][q, k], 0),
            strict=True,
        ):
            word, said = line.split(": ")
            assert word == name
            assert (
                said == "blocked"
                if blocked
                else np.float32(said.replace("−", "-")) == arrays[name][q, k]
            )
        for panel in range(3):
            (frame,) = stage.drawn(f".panel.{NAMES[panel]} .marks", "frame")
            own = grid(stage, panel)
            assert frame["x"] == pytest.approx(own["left"] + k * own["wide"] - 1)
            assert frame["y"] == pytest.approx(own["top"] + q * own["tall"] - 1)
        (frame,) = stage.drawn(MARKS, "frame")  # and in the mask of the same kind
        assert framed(stage, frame) == (q, q + 1, k, k + 1)
        assert stage.text(".said").startswith(f"q{q} may ")
    stage.away()
    assert stage.hidden(".tip")


def test_a_cell_under_the_pointer_is_framed_only_in_pictures_of_its_kind(stage: Stage) -> None:
    shown(stage, ALL, kind="decoder_self")
    cells = grid(stage, 1)
    stage.move(
        ".panel.after .cells",
        cells["left"] + 2.5 * cells["wide"],
        cells["top"] + 1.5 * cells["tall"],
    )
    assert [len(stage.drawn(f".panel.{name} .marks", "frame")) for name in NAMES] == [1, 1, 1]
    assert not stage.drawn(MARKS, "frame")
    stage.move(BOARD, *at(stage, 2, 3))
    assert [len(stage.drawn(f".panel.{name} .marks", "frame")) for name in NAMES] == [0, 0, 0]
    assert len(stage.drawn(MARKS, "frame")) == 1
    shown(stage, ALL)
    stage.move(BOARD, *at(stage, 2, 3))
    assert [len(stage.drawn(f".panel.{name} .marks", "frame")) for name in NAMES] == [1, 1, 1]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, by WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [v / 255 for v in bytes.fromhex(colour[1:])]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def test_without_room_for_all_pictures_a_switch_chooses_one(stage: Stage) -> None:
    seen = "(root) => [...root.querySelectorAll('.panel')].filter((e) => e.offsetParent).map((e) => e.className.split(' ')[1])"
    switch = "(root) => [...root.querySelectorAll('.switch button')].filter((e) => e.offsetParent).map((e) => e.textContent)"
    shown(stage, ALL)
    assert stage.js(seen) == [*NAMES, "tokens"]
    assert stage.js(switch) == []
    shown(stage, 1240)
    assert stage.js(seen) == ["after", "difference", "tokens"]
    assert stage.js(switch) == ["Before", "After"]
    stage.click(".switch .before")
    assert stage.js(seen) == ["before", "difference", "tokens"]
    assert stage.attrs(".switch button", "aria-pressed") == ["true", *["false"] * 3]
    assert stage.drawn(".panel.before .cells", "text")
    shown(stage, 700)
    assert stage.js(switch) == ["Before", "After", "Difference"]
    for name in ("difference", "after"):
        stage.click(f".switch .{name}")
        assert stage.js(seen) == [name, "tokens"]
        assert stage.drawn(f".panel.{name} .cells", "text")


def test_allowed_and_blocked_cells_are_distinguishable_on_a_dark_page(stage: Stage) -> None:
    stage.mount("mask_painter", 1240, **DARK).show(payload()[0])
    pixels = stage.pixels(BOARD)

    (tint,) = pixels.within(*(v + 3 for v in at(stage, 1.5, 0.5)), 7, 5)
    assert sum(bytes.fromhex(tint[1:])) > 3 * 100  # a colour, not nearly the page's black
    (zero,) = {one["colour"] for one in stage.drawn(BOARD, "text") if one["text"] == "0"}
    assert contrast(zero, tint) >= 4.5
    assert contrast(tint, DARK["--st-background-color"]) >= 3


def nats(value: float) -> str:
    return (
        "0.000"
        if abs(value) < 0.0005
        else f"{value:.{3 if abs(value) < 1 else 2}f}".replace("-", "−")
    )


def test_the_loss_of_each_token_before_and_after(stage: Stage) -> None:
    header, arrays = shown(stage)
    rows = stage.js(
        "(root) => [...root.querySelectorAll('.tokens tr')].map((tr) => [tr.className, ...[...tr.children].map((e) => "
        "e.textContent)])"
    )
    assert rows[0] == ["head", "token", "before", "after", ""]
    assert rows[1] == ["sum", "sum", nats(-2.75), nats(-5.5004), ""]
    for i, (text, _, special) in enumerate(header["effect"]["labels"]):
        assert rows[2 + i] == [
            "special" if special else "",
            text,
            nats(float(arrays["logBefore"][i])),
            nats(float(arrays["logAfter"][i])),
            "",
        ]
    for name in ("before", "after"):
        bars = f".tokens td.bars > .bar.{name}"
        widths = stage.js(
            "(root, one) => [...root.querySelectorAll(one)].map((e) => parseFloat(e.style.width))",
            bars,
        )
        assert widths == pytest.approx(
            [
                100 * -float(v) / 4.5
                for v in arrays["logBefore" if name == "before" else "logAfter"]
            ],
            rel=1e-3,
            abs=1e-4,
        )
    assert stage.text(".panel.tokens figcaption") == "Target log-probability, nats"
    assert "A full bar is −4.5 nats" in stage.text(".effect .legend")
    small = {
        "logBefore": np.array([-0.2, 0, 0], np.float32),
        "logAfter": np.array([-0.1, 0, -0.3], np.float32),
    }
    shown(stage, _arrays=small)
    assert "A full bar is −1.0 nats" in stage.text(".effect .legend")


def test_the_effect_as_a_file(stage: Stage) -> None:
    shown(stage, ALL)
    name, picture, drawn = stage.saved_picture()
    assert name == "a-head.masks.png"
    said = [one["text"] for one in drawn if one["op"] == "text"]
    assert (said[0], said[1], said[3], said[-1]) == (
        "Which head this is",
        "0",
        "−0.5",
        SAVED["caption"],
    )
    assert said[2].startswith("1 weight")
    assert said[4].startswith("+0.5 difference")
    (whole,) = [one["of"] for one in drawn if one["op"] == "copy"]
    texts = [one for one in whole if one["op"] == "text"]
    assert [one["text"].split(":")[0] for one in texts] == ["Before", "After", "Difference"]
    x = 0.0
    for n, panel in enumerate(NAMES):
        canvas, cells = stage.pixels(f".panel.{panel} .cells"), grid(stage, n)
        assert x <= texts[n]["x"] < x + canvas.wide / RATIO
        for q, k in ((0, 0), (3, 4)):
            dx, dy = (
                cells["left"] + (k + 0.2) * cells["wide"],
                cells["top"] + (q + 0.2) * cells["tall"],
            )
            assert picture.at(x + dx, 30 + 22 + dy) == canvas.at(dx, dy)
        x += canvas.wide / RATIO + 22


def test_another_width_redraws_everything(stage: Stage) -> None:
    shown(stage)
    stage.page.evaluate("stage.host.style.width = '1000px'")
    stage.frames()
    assert stage.box(BOARD)["width"] == pytest.approx(stage.box(".painting .stage")["width"], abs=1)
    stage.show(payload(story=["Only this."])[0])
    assert stage.texts(".story p") == ["Only this."]
    assert int(stage.data(".masks")["painted"]) == 2
