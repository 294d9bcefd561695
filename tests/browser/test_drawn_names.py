"""The common code of every matrix of cells: the names along its two sides, and its cells painted pixel by pixel."""

import math
from typing import Any

import numpy as np
import pytest
from stage import ACCENT, HATCH, INK, PAPER, QUIET, RATIO, Stage

from viz_app.drawing.colours import ramp

LEFT, TOP = 104, 88
ROOMY = {"left": LEFT, "top": TOP, "wide": 40, "tall": 20}


def labels(*texts: str, special: int = -1) -> list[list[Any]]:
    return [[text, "", i == special] for i, text in enumerate(texts)]


def draw_names(
    stage: Stage, queries: list, keys: list, letter: float = 7, em: float = 0, **place: float
) -> tuple[list[dict], list[dict]]:
    """Return the names of the queries and of the keys, with letters `letter` pixels and `em` of their height wide."""
    stage.functions("head", "nameTokens")
    drawn = stage.js(
        "(root, queries, keys, place, letter, em, theme) => {"
        " const canvas = document.createElement('canvas'), context = canvas.getContext('2d');"
        f" context.scale({RATIO}, {RATIO});"
        " context.measureText = (text) => ({ width: (letter + em * parseFloat(context.font)) * [...text].length });"
        " own.nameTokens(context, queries, keys, { ...place, theme });"
        " return stage.log(canvas); }",
        queries, keys, ROOMY | place, letter, em, {"font": "serif", "text": INK, "quiet": QUIET, "line": QUIET},
    )  # fmt: skip
    texts = [one for one in drawn if one["op"] == "text"]
    down = [one for one in texts if one["align"] == "right"]
    return down, [one for one in texts if one["align"] != "right"]


def size(name: dict[str, Any]) -> float:
    number, family = name["font"].split("px ")
    assert family == "serif"
    return float(number)


def test_queries_end_beside_the_middle_of_their_rows(stage: Stage) -> None:
    down, _ = draw_names(stage, labels("a", "b", "c", special=1), labels("k"))
    assert [(one["text"], one["x"], one["y"]) for one in down] == [
        ("a", LEFT - 6, TOP + 10), ("b", LEFT - 6, TOP + 30), ("c", LEFT - 6, TOP + 50),
    ]  # fmt: skip
    assert [one["colour"] for one in down] == [INK, QUIET, INK]
    assert {(one["baseline"], one["angle"], size(one)) for one in down} == {("middle", 0, 13)}


@pytest.mark.parametrize(
    ("tall", "letters", "step"),
    [
        (20, 13, 1),
        (16, 12.8, 1),
        (12.5, 12, 1),
        (11.5, 12, 1),
        (11.4, 12, 2),
        (5.8, 12, 2),
        (5.7, 12, 3),
    ],
)
def test_every_nth_of_flat_rows_is_named(
    stage: Stage, tall: float, letters: float, step: int
) -> None:
    down, _ = draw_names(stage, labels(*"abcdefghijklm"), labels("k"), tall=tall)
    assert "".join(one["text"] for one in down) == "abcdefghijklm"[::step]
    assert [size(one) for one in down] == pytest.approx([letters] * len(down), abs=0.01)
    assert [one["y"] for one in down] == pytest.approx(
        [TOP + (q + 0.5) * tall for q in range(0, 13, step)]
    )


def test_all_flat_rows_are_named_if_two_columns_fit(stage: Stage) -> None:
    down, _ = draw_names(stage, labels(*"abcdefghijklm"), labels("k"), tall=8, aside=30)
    assert [one["text"] for one in down] == [*"abcdefghijklm"]
    assert [one["x"] for one in down] == [LEFT - 6 - 30 * (q % 2) for q in range(13)]
    down, _ = draw_names(stage, labels(*"abcdefghijklm"), labels("k"), tall=5, aside=30)
    assert [one["text"] for one in down] == [*"adgjm"]


def test_a_matrix_can_have_smaller_names(stage: Stage) -> None:
    down, along = draw_names(stage, labels("a"), labels("k"), largest=12.5)
    assert {size(one) for one in down + along} == {12.5}


def test_keys_that_fit_are_horizontal_over_the_middle_of_their_columns(stage: Stage) -> None:
    _, along = draw_names(stage, labels("a"), labels("kk", "l", "mmmmm", special=2), wide=40)
    assert [(one["text"], one["x"], one["y"]) for one in along] == [
        ("kk", LEFT + 20, TOP - 9), ("l", LEFT + 60, TOP - 9), ("mmmmm", LEFT + 100, TOP - 9),
    ]  # fmt: skip
    assert {(one["align"], one["baseline"], one["angle"], size(one)) for one in along} == {
        ("center", "middle", 0, 13)
    }
    assert [one["colour"] for one in along] == [INK, INK, QUIET]


def test_one_key_that_would_touch_its_neighbour_turns_all_of_them(stage: Stage) -> None:
    for wide, turned in (
        (39.1, False),
        (39, True),
    ):  # five letters and the gap of 4 between two names
        _, along = draw_names(stage, labels("a"), labels("kk", "mmmmm", special=0), wide=wide)
        assert [one["angle"] for one in along] == pytest.approx([-math.pi / 4 if turned else 0] * 2)
        assert {one["align"] for one in along} == {"left" if turned else "center"}
        assert [one["y"] for one in along] == [TOP - (5 if turned else 9)] * 2
        assert [one["x"] for one in along] == pytest.approx([LEFT + wide / 2, LEFT + 1.5 * wide])
        assert [one["colour"] for one in along] == [QUIET, INK]
        assert {one["baseline"] for one in along} == {"middle"}


def test_each_name_is_measured_in_the_letters_it_is_written_in(stage: Stage) -> None:
    for wide, tall, turned in (
        (20, 10, 4),
        (10, 20, 2),
        (25, 10, 0),
    ):  # letters of 13 and 12, 12 and 13, 13 and 12
        down, along = draw_names(
            stage,
            labels("abcdefghijklmnopqrstu"),
            labels("mmm"),
            letter=0,
            em=0.5,
            wide=wide,
            tall=tall,
        )
        assert along[0]["angle"] == pytest.approx(-math.pi / turned if turned else 0)
        assert size(along[0]) == (13 if wide > 12 else 12)
        assert size(down[0]) == (13 if tall > 12 else 12)
        assert len(down[0]["text"]) == (
            12 if tall > 12 else 13
        )  # of the 82 pixels beside the cells
    _, along = draw_names(
        stage, labels("q"), labels("abcdefghijklmnopqrstu"), letter=0, em=0.5, wide=17, tall=20
    )
    assert len(along[0]["text"]) == 15  # of the 90.5 pixels over them, in letters of 12


@pytest.mark.parametrize(
    (
        "wide",
        "letters",
        "step",
    ),  # slanted names are wide / √2 apart; if that is too little, they are vertical
    [
        (20, 13, 1),
        (17, 17 / math.sqrt(2), 1),
        (16.3, 12, 1),
        (16.2, 12.96, 1),
        (11.5, 12, 1),
        (11.4, 12, 2),
        (5.8, 12, 2),
        (5.7, 12, 3),
    ],
)
def test_of_rotated_keys_those_that_do_not_touch_are_named(
    stage: Stage, wide: float, letters: float, step: int
) -> None:
    keys = [f"{letter}{letter}{letter}" for letter in "abcdefghijklm"]
    _, along = draw_names(stage, labels("q"), labels(*keys), wide=wide)
    assert [one["text"] for one in along] == keys[::step]
    assert [one["angle"] for one in along] == pytest.approx(
        [-math.pi / (4 if wide > 16.25 else 2)] * len(along)
    )
    assert [size(one) for one in along] == pytest.approx([letters] * len(along), abs=0.01)
    assert [one["x"] for one in along] == pytest.approx(
        [LEFT + (k + 0.5) * wide for k in range(0, 13, step)]
    )


@pytest.mark.parametrize(
    ("wide", "letters", "step"),
    [(13, 12, 1), (8.5, 12, 1), (8.3, 12, 2), (4.3, 12, 2), (4.1, 12, 3)],
)
@pytest.mark.parametrize("letter", [0.1, 9])
def test_single_letters_are_never_rotated(
    stage: Stage, wide: float, letters: float, step: int, letter: float
) -> None:
    _, along = draw_names(stage, labels("q"), labels(*"abcdefghijklm"), letter=letter, wide=wide)
    assert "".join(one["text"] for one in along) == "abcdefghijklm"[::step]
    assert [size(one) for one in along] == pytest.approx([letters] * len(along), abs=0.01)
    assert {one["angle"] for one in along} == {0}
    assert {one["align"] for one in along} == {"center"}


def test_beside_single_letters_only_a_special_token_is_rotated(stage: Stage) -> None:
    _, along = draw_names(stage, labels("q"), labels("a", "[end]", "b", special=1), wide=9)
    assert [(one["text"], one["align"], one["y"]) for one in along] == [
        ("a", "center", TOP - 9), ("[end]", "left", TOP - 5), ("b", "center", TOP - 9),
    ]  # fmt: skip
    assert [one["angle"] for one in along] == pytest.approx([0, -math.pi / 2, 0])


@pytest.mark.parametrize(("left", "fits"), [(106, 12), (105.9, 11), (113, 13)])
def test_a_query_is_shortened_to_the_room_beside_the_cells(
    stage: Stage, left: float, fits: int
) -> None:
    text = "abcdefghijklmnopqrstuvwxyz"
    down, _ = draw_names(stage, labels(text[:fits], text[: fits + 1]), labels("k"), left=left)
    assert down[0]["text"] == text[:fits]
    assert len(down[1]["text"]) == fits
    assert "…" in down[1]["text"]


@pytest.mark.parametrize(("top", "fits"), [(88.4, 13), (88.3, 12), (93.4, 14)])
def test_a_rotated_key_is_shortened_to_the_room_over_the_cells(
    stage: Stage, top: float, fits: int
) -> None:
    text = "abcdefghijklmnopqrstuvwxyz"
    _, along = draw_names(stage, labels("q"), labels(text[:fits], text[: fits + 1]), top=top)
    assert along[0]["text"] == text[:fits]
    assert len(along[1]["text"]) == fits
    assert "…" in along[1]["text"]
    assert (top - 24) * math.sqrt(2) >= 7 * fits


# --- the cells


def paint_codes(
    stage: Stage, codes: np.ndarray, x: int, y: int, wide: int, tall: int, period: int | None
) -> np.ndarray:
    """Paint these codes on an empty canvas of 41 × 37 and return its device pixels."""
    stage.functions("head", "paintCodes", "rampOf", "rgb")
    rows, cols = codes.shape
    ramp, paper, hatch = (
        "own.rampOf(own.rgb(paper), own.rgb(accent))",
        "own.rgb(paper)",
        "own.rgb(hatch)",
    )
    drawn = stage.js(
        "(root, codes, rows, cols, place, period, paper, accent, hatch) => {"
        " const canvas = Object.assign(document.createElement('canvas'), { width: 41, height: 37 });"
        f" const theme = {{ ramp: {ramp}, paper: {paper}, hatch: {hatch} }};"
        " own.paintCodes(canvas.getContext('2d'), codes, rows, cols, ...place, theme, ...period);"
        " return [...canvas.getContext('2d').getImageData(0, 0, 41, 37).data]; }",
        codes.ravel().tolist(), rows, cols, [x, y, wide, tall], [period] if period else [], PAPER, ACCENT, HATCH,
    )  # fmt: skip
    return np.array(drawn).reshape(37, 41, 4)


def rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


@pytest.mark.parametrize("period", [None, 4])
@pytest.mark.parametrize(
    ("rows", "cols", "wide", "tall"),
    [(3, 5, 23, 29), (3, 29, 13, 11), (31, 5, 17, 7), (31, 29, 5, 3)],
)
def test_a_pixel_shows_the_largest_of_its_cells_or_stripes(
    stage: Stage, rows: int, cols: int, wide: int, tall: int, period: int | None
) -> None:
    rng = np.random.default_rng(rows * cols)
    codes = rng.integers(1, 256, (rows, cols)) * (rng.random((rows, cols)) < 0.5)
    codes[: rows // 2, : cols // 2] = 0
    x, y = 7, 3
    drawn = paint_codes(stage, codes, x, y, wide, tall, period)
    inside = np.zeros((37, 41), bool)
    inside[y : y + tall, x : x + wide] = True
    assert not drawn[~inside].any()
    masked = 0
    for down in range(tall):
        for right in range(wide):
            first, left = down * rows // tall, right * cols // wide
            last, end = (
                max(first + 1, (down + 1) * rows // tall),
                max(left + 1, (right + 1) * cols // wide),
            )
            code = codes[first:last, left:end].max()
            masked += not code
            stripe = HATCH if (down + right) % (period or 6) == 0 else PAPER
            expected = rgb(ramp((code - 1) / 254) if code else stripe)
            seen = drawn[y + down, x + right]
            assert np.abs(seen[:3] - expected).max() <= 1, (down, right)
            assert seen[3] == 255
    assert masked


def test_a_canvas_has_the_requested_size_and_is_empty(stage: Stage) -> None:
    stage.functions("head", "sized")
    found = stage.js(
        "(root, sizes) => { const canvas = document.createElement('canvas'), own2d = canvas.getContext('2d');"
        " return sizes.map(([width, height]) => {"
        "  const [context, ratio] = own.sized(canvas, width, height), { a, e } = context.getTransform();"
        "  const empty = !context.getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);"
        "  context.fillRect(0, 0, 5, 5); context.translate(3, 3); context.scale(7, 7);"
        "  const { style } = canvas;"
        "  return [context === own2d, ratio, a, e, empty, canvas.width, canvas.height, style.width, style.height]; }); }",
        [[40.4, 30.3], [40.4, 30.3], [40.4, 17], [23, 17], [17, 23]],
    )
    size = [(81, 61, "40.4px", "30.3px")] * 2 + [
        (81, 34, "40.4px", "17px"),
        (46, 34, "23px", "17px"),
        (34, 46, "17px", "23px"),
    ]
    assert [tuple(one) for one in found] == [(True, RATIO, 1, 0, True, *one) for one in size]
