"""The component `states` by itself: colours, frames, names, the numbers under the pointer, and the same height for any text."""

from typing import Any

import numpy as np
import pytest
from stage import DARK, RATIO, SAVED, SHARP, Stage, alike, near, signed_colour

from viz_app.drawing.payload import pack

VALUES = np.array([
    [0.5, -1.25, 0.25, 0.0, 0.75, -0.5], [-0.125, 1.25, 2.0, -2.0, 0.375, 1.5], [1.75, 0.1, -1.5, 0.0, 0.625, -0.25],
], np.float32)  # fmt: skip
LEFT, TOP, RIGHT, TALL = 108, 24, 10, 40
ROWS = [["one", "", False], ["<b>2</b>", "a note", False], ["[end]", "", True]]


def payload(values: np.ndarray = VALUES, **changes: Any) -> bytes:
    header = {
        "title": "The states", "file": "the-file", **SAVED, "axis": "the axis", "columns": values.shape[1], "limit": 2.0,
        "rows": ROWS[: len(values)] + [["x", "", False]] * (len(values) - len(ROWS)), "ways": ["there →", "← back"],
        "frames": [{"row": 2, "first": 0, "count": 3}, {"row": 0, "first": 3, "count": 3}],
    }  # fmt: skip
    return pack(header | changes, states=values)


def side(width: int) -> float:
    return (width - LEFT - RIGHT) / 6


@pytest.mark.parametrize("colours", [{}, DARK])
def test_each_number_has_its_colour(stage: Stage, colours: dict[str, str]) -> None:
    stage.mount("states", 700, **colours).show(payload())
    pixels, wide = stage.pixels(".cells"), side(700)
    shown = (
        {}
        if not colours
        else dict(zip(("paper", "accent", "below"), ("#10141d", "#8fb1ff", "#ff9654"), strict=True))
    )
    for (r, c), value in np.ndenumerate(VALUES):
        assert alike(
            pixels.at(LEFT + (c + 0.3) * wide, TOP + (r + 0.4) * TALL),
            signed_colour(value, 2.0, **shown),
        ), (r, c)


def test_the_frames_names_and_directions_are_in_the_right_places(stage: Stage) -> None:
    stage.mount("states", 700).show(payload())
    wide, frames = side(700), [one for one in stage.drawn(".cells", "frame") if one["line"] == 2.5]
    assert [[one["x"], one["y"], one["w"], one["h"]] for one in frames] == [
        pytest.approx([LEFT, TOP + 2 * TALL, 3 * wide, TALL]),
        pytest.approx([LEFT + 3 * wide, TOP, 3 * wide, TALL]),
    ]
    texts = stage.written(".cells")
    for r, name in enumerate(("one", "<b>2</b>", "[end]")):
        assert near([texts[name]["y"]], TOP + (r + 0.5) * TALL)
        assert texts[name]["x"] < LEFT
    for c in range(6):
        assert near([texts[str(c + 1)]["x"]], LEFT + (c + 0.5) * wide)
    assert near([texts["there →"]["x"]], LEFT)
    assert near([texts["← back"]["x"]], LEFT + 6 * wide)
    assert {"the axis", "2.00", "−2.00"} <= set(texts)
    assert (
        texts["value"]["x"] < texts["−2.00"]["x"] < texts["2.00"]["x"]
    )  # the legend of the colours
    assert texts["value"]["y"] == texts["2.00"]["y"]


def test_one_direction_has_one_frame_and_no_dividing_line(stage: Stage) -> None:
    stage.mount("states", 700).show(payload(ways=[], frames=[{"row": 2, "first": 0, "count": 6}]))
    assert not {"there →", "← back"} & set(stage.written(".cells"))
    assert len([one for one in stage.drawn(".cells", "frame") if one["line"] == 2.5]) == 1
    assert stage.drawn(".cells", "path") == []


@pytest.mark.parametrize(("row", "column", "where", "number"), [
    (0, 1, "token 1, one: number 2 of 6", "−1.25"), (1, 5, "token 2, <b>2</b> (a note): number 6 of 6", "1.50000"),
    (2, 1, "token 3, [end]: number 2 of 6", "0.100000"),
])  # fmt: skip
def test_the_pointer_reads_a_number(
    stage: Stage, row: int, column: int, where: str, number: str
) -> None:
    stage.mount("states", 700).show(payload())
    stage.move(".cells", LEFT + (column + 0.5) * side(700), TOP + (row + 0.5) * TALL)
    assert not stage.hidden(".tip")
    assert (stage.text(".where"), float(stage.text(".number").replace("−", "-"))) == (
        where,
        float(number.replace("−", "-")),
    )
    stage.move(".cells", LEFT - 5, TOP + 5)
    assert stage.hidden(".tip")
    stage.move(".cells", LEFT + 5, TOP + 3 * TALL + 5)
    assert stage.hidden(".tip")


def test_a_row_whose_name_is_a_number_has_no_second_one(stage: Stage) -> None:
    rows = [[str(i), "", False] for i in range(3)]
    stage.mount("states", 700).show(payload(rows=rows, what="position", numbered=True))
    stage.move(".cells", LEFT + 1.5 * side(700), TOP + 0.5 * TALL)
    assert stage.text(".where") == "position 0: number 2 of 6"


def test_the_picture_has_one_height_whatever_the_text(stage: Stage) -> None:
    stage.mount("states", 700)
    heights = set()
    for n in (1, 3, 23, 331):
        stage.show(payload(np.zeros((n, 6), np.float32), frames=[]))
        assert stage.data(".states")["rows"] == str(n)
        assert float(stage.data(".states")["tall"]) == pytest.approx(
            min(TALL, (420 - TOP - 62) / n)
        )
        heights.add((stage.box(".states")["height"], stage.box(".cells")["height"]))
    assert len(heights) == 1


def test_with_more_numbers_than_pixels_the_strongest_are_visible(stage: Stage) -> None:
    many = np.zeros((3, 3001), np.float32)
    many[1, 1500] = -2.0
    stage.mount("states", 700).show(payload(many, frames=[], ways=[]))
    pixels = stage.pixels(".cells")
    middle = int(RATIO * (LEFT + (700 - LEFT - RIGHT) * 1500.5 / 3001))
    line = [
        pixels._name(pixels.all[int(RATIO * (TOP + 1.5 * TALL)), x])
        for x in range(middle - 2, middle + 3)
    ]
    assert any(alike(colour, signed_colour(-2.0, 2.0)) for colour in line)


def test_the_picture_is_saved_as_it_is(stage: Stage) -> None:
    stage.mount("states", 700).show(payload())
    name, pixels, drawn = stage.saved_picture()
    assert name == "the-file.png"
    assert (pixels.wide, pixels.tall) == (SHARP * 700, SHARP * (30 + 420 + 17 + 8))
    assert [one["text"] for one in drawn if one["op"] == "text"] == ["The states", SAVED["caption"]]


def test_named_columns_have_titles_of_both_axes(stage: Stage) -> None:
    names = [[letter, "", False] for letter in "uvwxyz"]
    axes = {"queryAxis": "query (rows): one text", "keyAxis": "key (columns): another"}
    stage.mount("states", 700).show(payload(names=names, ways=[], frames=[], **axes))
    texts = stage.written(".cells")
    assert "key (columns): another →" in texts
    assert any(text.startswith("← query (rows)") for text in texts)
    stage.show(payload(names=names, ways=[], frames=[]))
    assert not any("query" in text or "key" in text for text in stage.written(".cells"))
