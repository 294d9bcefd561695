"""The component `matrices` by itself: in both conventions every number is in its row and column, and its tip names it."""

import functools
import re
from typing import Any

import letters
import numpy as np
import pytest
from letters import CROSS, SELF, TERMS
from stage import (
    HATCH,
    HEADS,
    INK,
    LINE,
    ORANGE,
    PAPER,
    RATIO,
    Stage,
    alike,
    hex_of,
    signed_colour,
    weight_colour,
)

from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import chosen_cell
from viz_app.views.inside import matrices as inside_matrices

HEAD, QUERY, KEY = 2, 3, 1
CANVAS = "figure canvas"


@functools.cache
def payload(convention: str = "rows", site: str = CROSS) -> bytes:
    trace = letters.trace()
    cell = chosen_cell(trace, trace.attention[site], HEAD, QUERY, KEY)
    return inside_matrices.matrices(trace, cell, TERMS, convention)


def shown(
    stage: Stage, convention: str = "rows", site: str = CROSS
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    stage.mount("matrices", 1240).show(payload(convention, site))
    return unpack(payload(convention, site))


def terms_of(header: dict[str, Any]) -> list[tuple[dict, dict, str, bool]]:
    """Return the matrices in order: array, name, size, and whether it is transposed."""
    columns = header["convention"] == "columns"
    return [
        (header["matrices"][term["matrix"]], term, equation["size"], columns != bool(term.get("transposed")))
        for equation in header["equations"] for term in equation["terms"] if isinstance(term, dict)
    ]  # fmt: skip


def length(n: int, size: str, axis: str = "number") -> int:
    """Return the length of a side of n cells; a side of tokens has the same length for few and for many."""
    if axis in ("query", "key"):
        return {"small": 84, "large": 168}[size]
    return max(30, min({"small": 110, "large": 210}[size], n * {"small": 6, "large": 12}[size]))


def extent(matrix: dict[str, Any], size: str, turned: bool) -> tuple[int, int]:
    """Return the width and height of a drawn matrix."""
    down, across = [(n, axis) for n, axis in zip(matrix["shape"], matrix["axes"], strict=True)][
        :: -1 if turned else 1
    ]
    return length(across[0], size, across[1]), length(down[0], size, down[1])


def point(stage: Stage, n: int, row: int, col: int, rows: int, cols: int) -> dict[str, str]:
    box = stage.box(CANVAS, n)
    stage.move(CANVAS, (col + 0.5) / cols * box["width"], (row + 0.5) / rows * box["height"], n)
    assert not stage.hidden(".tip")
    return stage.data(".tip")


def bands(stage: Stage) -> list[list[float]]:
    """Return the outlines: the matrix of each, and left, top, width, height."""
    return stage.js(
        "(root) => [...root.querySelectorAll('figure')].flatMap((figure, n) => [...figure.querySelectorAll('.band')]"
        ".map((b) => [n, ...['left', 'top', 'width', 'height'].map((k) => parseFloat(b.style[k])), b.classList.contains('held')]))"
    )


def outline(
    n: int,
    shape: tuple[int, int],
    size: tuple[int, int],
    row: int,
    col: int,
    rows: int = 1,
    cols: int = 1,
) -> list[float]:
    wide, tall = size
    return [
        n, wide * col / shape[1] - 1, tall * row / shape[0] - 1,
        max(wide * cols / shape[1], 3) + 2, max(tall * rows / shape[0], 3) + 2,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("site", [CROSS, SELF])
@pytest.mark.parametrize("convention", ["rows", "columns"])
def test_every_matrix_has_its_numbers_where_the_convention_puts_them(
    stage: Stage, convention: str, site: str
) -> None:
    header, arrays = shown(stage, convention, site)
    for n, (matrix, term, size, turned) in enumerate(terms_of(header)):
        values = arrays[matrix["array"]]
        blocked = arrays["blocked"] if matrix["masked"] else np.zeros(values.shape)
        values, blocked = (values.T, blocked.T) if turned else (values, blocked)
        rows, cols = values.shape
        pixels, box = stage.pixels(CANVAS, n), stage.box(CANVAS, n)
        assert (box["width"], box["height"]) == extent(matrix, size, turned)
        wide, tall = box["width"] / cols, box["height"] / rows
        if wide * RATIO < 2 or tall * RATIO < 2:
            continue
        for r in range(rows):
            for c in range(cols):
                seen = pixels.at((c + 0.5) * wide, (r + 0.5) * tall)
                if blocked[r, c]:
                    assert seen in (PAPER, HATCH)
                    assert pixels.within(c * wide + 2, r * tall + 2, wide - 3, tall - 3) == {
                        PAPER,
                        HATCH,
                    }
                else:
                    value = float(values[r, c])
                    expected = (
                        weight_colour(value)
                        if matrix["weights"]
                        else signed_colour(value, matrix["scale"])
                    )
                    assert alike(seen, expected, 2), (term["name"], r, c)
        assert alike(pixels.at(0, 0), LINE) or alike(pixels.at(0.5, 0.5), LINE)
        caption = re.sub(r"[_^]\{([^}]*)\}", r"\1", term["name"])
        assert stage.texts("figcaption")[n] == f"{caption} {rows} × {cols}"
        assert (
            stage.attrs(CANVAS, "aria-label")[n] == f"{matrix['says']}, {rows} rows, {cols} columns"
        )
        assert ("pick" in (stage.attrs("figure", "class")[n] or "")) == matrix["pick"]


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["rows", "columns"])
def test_a_number_is_named_by_its_tokens_and_its_product_is_outlined(
    stage: Stage, convention: str
) -> None:
    header, arrays = shown(stage, convention, SELF)
    every = terms_of(header)
    n = 0
    held = [b for b in bands(stage) if b[5]]
    for equation in header["equations"]:
        here = [term for term in equation["terms"] if isinstance(term, dict)]
        first = n
        for place in range(len(here)):
            matrix, _, size, turned = every[n]
            values = arrays[matrix["array"]]
            rows, cols = values.T.shape if turned else values.shape
            row, col = rows - 1, min(2, cols - 1)
            tip = point(stage, n, row, col, rows, cols)
            i, j = (col, row) if turned else (row, col)
            assert (tip["matrix"], tip["first"], tip["second"]) == (matrix["array"], str(i), str(j))
            assert np.float32(tip["value"]) == values[i, j]
            assert np.float32(stage.text(".tip .value").replace("−", "-")) == values[i, j]
            where = [
                header["tokens"][axis][k][0] if axis in header["tokens"] else f"{axis} {k + 1}"
                for axis, k in zip(matrix["axes"], (i, j), strict=True)
            ]
            assert stage.text(".tip .what") == f"{matrix['says']}: {where[0]}, {where[1]}"
            if not (matrix["masked"] and arrays["blocked"][i, j]):
                assert stage.text(".tip .why") == matrix["made"]
            expected = [outline(n, (rows, cols), extent(matrix, size, turned), row, col)]
            shapes = [
                arrays[m["array"]].T.shape if t else arrays[m["array"]].shape
                for m, _, _, t in every[first : first + len(here)]
            ]
            sizes = [extent(m, s, t) for m, _, s, t in every[first : first + len(here)]]
            if place == 2:
                expected.append(outline(first, shapes[0], sizes[0], row, 0, 1, shapes[0][1]))
                expected.append(outline(first + 1, shapes[1], sizes[1], 0, col, shapes[1][0], 1))
            if place == 1 and len(here) == 2:
                expected.append(outline(first, shapes[0], sizes[0], row, col))
            free = [b[:5] for b in bands(stage) if not b[5]]
            assert sorted(free) == [pytest.approx(one, abs=0.02) for one in sorted(expected)]
            n += 1
    assert [b for b in bands(stage) if b[5]] == held
    stage.away()
    assert stage.hidden(".tip")
    assert [b for b in bands(stage)] == held


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["rows", "columns"])
def test_the_chosen_weight_stays_outlined_and_a_click_chooses_another(
    stage: Stage, convention: str
) -> None:
    header, arrays = shown(stage, convention)
    expected, picks = [], []
    for n, (matrix, _, size, turned) in enumerate(terms_of(header)):
        if not matrix["pick"]:
            stage.click(CANVAS, 4, 4, n)
            continue
        shape = arrays[matrix["array"]].T.shape if turned else arrays[matrix["array"]].shape
        row, col = (KEY, QUERY) if turned else (QUERY, KEY)
        expected.append(outline(n, shape, extent(matrix, size, turned), row, col))
        picks.append((n, shape, turned))
    assert [b[:5] for b in bands(stage) if b[5]] == [
        pytest.approx(one, abs=0.02) for one in expected
    ]
    assert len(picks) >= 2
    assert stage.sent == []
    for n, (rows, cols), turned in picks:
        box = stage.box(CANVAS, n)
        stage.click(
            CANVAS,
            (1.5 if turned else 4.5) / cols * box["width"],
            (4.5 if turned else 1.5) / rows * box["height"],
            n,
        )
        assert stage.sent[-1] == ["pick", {"query": 1, "key": 4}]
        stage.click(CANVAS, box["width"] - 0.6, box["height"] - 0.6, n)
        last = {"query": (cols if turned else rows) - 1, "key": (rows if turned else cols) - 1}
        assert stage.sent[-1] == ["pick", last]
    stage.show(stage.change(payload(convention), first=[100, 50], part="A part of it."))
    n, (rows, cols), turned = picks[0]
    stage.click(
        CANVAS,
        (1.5 if turned else 4.5) / cols * box["width"],
        (4.5 if turned else 1.5) / rows * box["height"],
        n,
    )
    assert stage.sent[-1] == ["pick", {"query": 101, "key": 54}]
    assert stage.text(".note").startswith("A part of it. Blue is above 0")
    assert (stage.data(".matrices")["query"], stage.data(".matrices")["key"]) == (
        str(100 + QUERY),
        str(50 + KEY),
    )


def test_a_blocked_cell_names_its_mask(stage: Stage) -> None:
    header, arrays = shown(stage, "rows", SELF)
    n = next(n for n, (matrix, *_) in enumerate(terms_of(header)) if matrix["masked"])
    rows, cols = arrays["weights"].shape
    point(stage, n, 1, 3, rows, cols)
    assert stage.text(".tip .why") == "blocked by: look-ahead"
    bits = np.zeros((rows, cols), np.uint8)
    bits[1, 3] = 0b101
    stage.show(
        stage.change(payload("rows", SELF), {"blocked": bits}, masks=["one", "two", "three"])
    )
    point(stage, n, 1, 3, rows, cols)
    assert stage.text(".tip .why") == "blocked by: one, three"


@pytest.mark.parametrize("convention", ["rows", "columns"])
def test_each_equation_is_written_out(stage: Stage, convention: str) -> None:
    header, _ = shown(stage, convention)
    assert stage.text(".title") == header["title"]
    assert hex_of(stage.css(".chip", "backgroundColor")[0]) == HEADS[HEAD]
    written = [
        re.sub(r"[_^]\{([^}]*)\}", r"\1", e["title"] + e["formula"]) for e in header["equations"]
    ]
    assert stage.texts(".equation > p") == written
    signs = [term for e in header["equations"] for term in e["terms"] if isinstance(term, str)]
    assert stage.texts(".sign") == signs
    data = stage.data(".matrices")
    assert [data[name] for name in ("site", "head", "query", "key", "convention")] == [
        CROSS,
        str(HEAD),
        str(QUERY),
        str(KEY),
        convention,
    ]
    note = (
        "Blue is above 0, orange below. Weights go from the page's colour (0) to blue (1); hatched = blocked. "
        "Point at a number to see what it is computed from. Click in the scores or in Â to choose that weight, "
        "or use the tokens above."
    )
    assert stage.text(".note").startswith(note)
    stage.show(payload("columns" if convention == "rows" else "rows"))
    assert len(stage.texts(".equation")) == len(header["equations"])
    assert int(stage.data(".matrices")["painted"]) == 2


def test_numbers_finer_than_pixels_show_those_furthest_from_0_and_a_note(stage: Stage) -> None:
    header, _arrays = unpack(payload())
    big = np.zeros((3, 997), np.float32)
    big[1, 500], big[1, 501] = -1.0, 0.3
    matrices = {
        **header["matrices"],
        "x": {**header["matrices"]["x"], "shape": [3, 997], "scale": 1.0},
    }
    equations = [
        {"title": "t", "formula": "f", "size": "small", "terms": [{"matrix": "x", "name": "X"}]}
    ]
    stage.mount("matrices", 900).show(
        stage.change(payload(), {"x": big}, matrices=matrices, equations=equations)
    )
    assert stage.text(".note").endswith(
        " Where there are more numbers than pixels, a pixel shows the one furthest from 0."
    )
    assert (stage.box(CANVAS)["width"], stage.box(CANVAS)["height"]) == (110, 84)
    assert any(alike(one, ORANGE, 2) for one in stage.pixels(CANVAS).within(54, 34, 3, 16))
    shown(stage)
    assert stage.text(".note").endswith("or use the tokens above.")


def single(stage: Stage, values: np.ndarray, size: str = "small", masked: bool = False) -> bytes:
    """Return a payload of a single matrix; `masked` blocks all of it."""
    header, _ = unpack(payload())
    matrix = {
        **header["matrices"]["x"],
        "shape": list(values.shape),
        "scale": 1.0,
        "masked": masked,
        "axes": ["d_in", "d_out"],
    }
    arrays = {"x": values.astype(np.float32), "blocked": np.full(values.shape, masked, np.uint8)}
    equations = [
        {"title": "t", "formula": "f", "size": size, "terms": [{"matrix": "x", "name": "X"}]}
    ]
    return stage.change(
        payload(), arrays, matrices={**header["matrices"], "x": matrix}, equations=equations
    )


POOLED = " Where there are more numbers than pixels, a pixel shows the one furthest from 0."


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(
    ("rows", "cols", "size", "pooled"),  # a matrix is at most 110 or 210 pixels long, of two device pixels each
    [(220, 3, "small", False), (221, 3, "small", True), (3, 220, "small", False), (3, 221, "small", True),
     (420, 5, "large", False), (421, 5, "large", True), (5, 420, "large", False), (5, 421, "large", True)],
)  # fmt: skip
def test_the_note_on_pixels_names_the_side_that_is_finer(
    stage: Stage, rows: int, cols: int, size: str, pooled: bool
) -> None:
    stage.mount("matrices", 900).show(single(stage, np.ones((421, 421))))
    assert stage.text(".note").endswith(POOLED)
    stage.show(
        single(stage, np.ones((rows, cols)), size), (1, 2)
    )  # the note on the previous matrix is gone
    assert stage.text(".note").endswith(POOLED if pooled else "or use the tokens above.")
    box, longest = stage.box(CANVAS), {"small": 110, "large": 210}[size]
    assert (box["width"], box["height"]) == tuple(
        min(longest, max(30, n * (6 if size == "small" else 12))) for n in (cols, rows)
    )


def test_blocked_numbers_are_striped_every_sixth_pixel(stage: Stage) -> None:
    stage.mount("matrices", 900).show(single(stage, np.ones((11, 7)), masked=True))
    pixels = stage.pixels(CANVAS)
    for y in range(1, pixels.tall - 1):
        for x in range(1, pixels.wide - 1):
            expected = HATCH if (x + y) % (6 * RATIO) == 0 else PAPER
            assert pixels.at(x / RATIO, y / RATIO) == expected, (x, y)


def test_each_matrix_is_a_picture_in_a_frame_with_a_quiet_caption(stage: Stage) -> None:
    header, _ = shown(stage)
    for n in range(len(terms_of(header))):
        box, (frame,) = stage.box(CANVAS, n), stage.drawn(CANVAS, "frame", n)
        assert [frame[k] for k in "xywh"] == [0.25, 0.25, box["width"] - 0.5, box["height"] - 0.5]
        assert (frame["colour"], frame["line"]) == (LINE, 1 / RATIO)
    assert set(stage.attrs("figcaption", "class")) == {"quiet"}
    assert set(stage.attrs("figure", "class")) == {"pick", None}
    assert set(stage.attrs(CANVAS, "role")) == {"img"}
    assert set(stage.css(".cells", "display")) == {"block"}


def test_the_outline_of_a_tiny_cell_is_still_visible(stage: Stage) -> None:
    for rows, cols in ((101, 3), (3, 101)):
        stage.mount("matrices", 900).show(single(stage, np.ones((rows, cols))))
        point(stage, 0, rows // 2, cols // 2, rows, cols)
        (band,) = bands(stage)
        assert band[:5] == pytest.approx(
            outline(
                0,
                (rows, cols),
                (length(cols, "small"), length(rows, "small")),
                rows // 2,
                cols // 2,
            )
        )
        assert sorted(band[3:5]) == [5, 12]


def test_the_tip_is_beside_the_pointer(stage: Stage) -> None:
    shown(stage)
    tip = point(stage, 1, 2, 3, 7, 5)
    assert tip["matrix"]
    box, cells = stage.box(".tip"), stage.box(CANVAS, 1)
    x, y = cells["left"] + 3.5 / 5 * cells["width"], cells["top"] + 2.5 / 7 * cells["height"]
    assert box["left"] == pytest.approx(x + 16, abs=0.1)
    assert box["top"] == pytest.approx(y + 18, abs=0.1)


def test_new_matrices_have_no_tip_of_the_old_ones(stage: Stage) -> None:
    shown(stage)
    point(stage, 0, 1, 1, 5, 5)
    stage.show(payload("columns"))
    assert stage.hidden(".tip")


@pytest.mark.slow
def test_the_matrices_as_a_file(stage: Stage) -> None:
    header, _ = shown(stage)
    name, picture, drawn = stage.saved_picture(known=header)
    assert name == f"{header['file']}.png"
    title, least, signed, zero, one_weight = [one["text"] for one in drawn if one["op"] == "text"][
        :5
    ]
    assert (title, least, zero, one_weight) == (
        header["title"],
        "−",
        "0",
        "1 weight; hatched = masked",
    )
    assert signed.startswith("+ ± the largest number of each: ")
    ends = dict(
        part.rsplit(" ", 1)
        for part in signed.removeprefix("+ ± the largest number of each: ").split(", ")
    )
    scales = {
        re.sub(r"[{}]", "", term["name"]): one["scale"]
        for one, term, _, _ in terms_of(header)
        if not one.get("weights")
    }
    assert {name: float(end) for name, end in ends.items()} == pytest.approx(scales, abs=0.006)
    place = stage.box(".equations")
    for n in range(len(terms_of(header))):
        box, canvas = stage.box(CANVAS, n), stage.pixels(CANVAS, n)
        x, y = box["width"] * 0.37, box["height"] * 0.61
        seen = picture.within(
            box["left"] - place["left"] + x - 0.5,
            box["top"] - place["top"] + y - 0.5 + 30,
            1.5,
            1.5,
        )
        assert any(alike(canvas.at(x, y), one, 8) for one in seen), n
    (whole,) = [one for one in drawn if one["op"] == "copy"]
    texts = [one for one in whole["of"] if one["op"] == "text"]
    assert {(one["baseline"], one["colour"]) for one in texts} == {("top", INK)}
    left = list(texts)
    for words in (".equation > p", "figcaption", ".sign"):
        for n, (text, size) in enumerate(
            zip(stage.texts(words), stage.css(words, "fontSize"), strict=True)
        ):
            at, letters_ = stage.box(words, n), float(size.removesuffix("px"))
            x, y = at["left"] - place["left"], at["top"] - place["top"] + 2
            mine = [
                one
                for one in left
                if abs(one["y"] - y) < 0.45 * letters_ and x - 0.01 <= one["x"] < x + at["width"]
            ]
            assert "".join(one["text"] for one in mine) == text
            assert (mine[0]["x"], mine[0]["y"]) == pytest.approx((x, y), abs=0.01)
            assert mine[0]["font"] == f"{letters_:g}px sans-serif"
            small = [one for one in mine if one["y"] != mine[0]["y"]]
            count = "(root, all, n) => root.querySelectorAll(all)[n].querySelectorAll('sub, sup').length"
            assert len(small) == stage.js(count, words, n)
            assert all(
                0.7 * letters_ < float(one["font"].split("px")[0]) < 0.9 * letters_ for one in small
            )
            left = [one for one in left if one not in mine]
    assert not left
    for n, seen in enumerate([one for one in whole["of"] if one["op"] == "copy"]):
        box = stage.box(CANVAS, n)
        assert [seen[k] for k in "xywh"] == pytest.approx(
            [box["left"] - place["left"], box["top"] - place["top"], box["width"], box["height"]],
            abs=0.01,
        )
