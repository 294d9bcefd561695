"""The component `shuffle` by itself: where each token goes, how far its vector moved, and the mean of these."""

import math
import re
from typing import Any

import numpy as np
import pytest
from stage import ACCENT, INK, LINE, PAPER, QUIET, SAVED, Stage, alike, hex_of, near, weight_colour

from viz_app.drawing.payload import pack

UNRELATED = math.sqrt(2)
SVG = "{http://www.w3.org/2000/svg}"

TOKENS = [
    ["a", "", False],
    ["b", "", False],
    ["c", "", False],
    ["[end]", "", True],
    ["e", "", False],
]
ORDER = [2, 1, 4, 0, 3]
STAGES = ["input", "layer 1", "layer 2"]


PITCH = 40  # px from row to row of a short text


def shuffle_payload(
    tokens: list = TOKENS, order: list = ORDER, most: float = 1.3, **changes: Any
) -> tuple[bytes, dict[str, np.ndarray]]:
    n = len(tokens)
    rng = np.random.default_rng(7)
    arrays = {f"map{i}": rng.uniform(0.006, most, (n, 3)).astype(np.float32) for i in range(2)}
    arrays["map0"][0, 0], arrays["map0"][1, 1] = 0, 3e-7
    arrays["means"] = np.array([[0.2, 0.7, 1.1], [0, 4e-7, 1.6]], np.float32)
    parts = [
        {"kind": "tangle", "title": "They change places"}, {"kind": "map", "title": "First map", "stages": STAGES, "array": "map0"},
        {"kind": "map", "title": "Second map", "stages": STAGES, "array": "map1"},
        {"kind": "bars", "title": "Mean change", "stages": STAGES, "names": ["with positions", "switched off"], "array": "means"},
    ]  # fmt: skip
    header = {
        "title": "The shuffle test",
        "file": "shuffle-test",
        **SAVED,
        "tokens": tokens,
        "order": order,
        "unrelated": UNRELATED,
        "parts": parts,
    }
    return pack(header | changes, **arrays), arrays


def shuffle_shown(stage: Stage, width: int = 1240, **how: Any) -> dict[str, np.ndarray]:
    data, arrays = shuffle_payload(**how)
    stage.mount("shuffle", width).show(data)
    return arrays


def inside(n: int) -> str:
    return f"svg > g:nth-of-type({n + 1})"


def says(value: float) -> str:
    return (
        "0"
        if value == 0
        else f"{value:.2f}"
        if value >= 0.005
        else f"{value:.0e}".replace("e-0", "e-")
    )


def test_stages_without_room_have_their_initials(stage: Stage) -> None:
    for width, names in ((1240, STAGES), (190, ["in", "L1", "L2"])):
        shuffle_shown(stage, width)
        texts = stage.texts(f"{inside(1)} text")
        assert [name for name in texts if name in (*STAGES, "in", "L1", "L2")] == names


def test_each_token_is_joined_to_its_new_place(stage: Stage) -> None:
    shuffle_shown(stage)
    pitch, n = PITCH, len(TOKENS)
    lines = stage.elements(f"{inside(0)} line", "x1", "y1", "x2", "y2", "stroke", "data-moves")
    wide = min(420, (1240 - 3 * 26) / 4)
    for to_place, (from_place, (_, x1, y1, x2, y2, stroke, moves)) in enumerate(
        zip(ORDER, lines, strict=True)
    ):
        assert (float(x1), float(x2)) == pytest.approx((0.36 * wide + 6, 0.64 * wide - 6), abs=0.01)
        assert (float(y1), float(y2)) == pytest.approx(
            (66 + (from_place + 0.5) * pitch, 66 + (to_place + 0.5) * pitch)
        )
        assert hex_of(stroke) == ("#8f96a3" if from_place == to_place else "#d55e00")
        assert moves == f"{from_place} {to_place}"
    texts = stage.elements(f"{inside(0)} text", "x", "y", "text-anchor", "fill")
    assert [one[0] for one in texts[:3]] == ["They change places", "as typed", "reordered"]
    assert (texts[1][3], float(texts[1][1]), float(texts[2][1])) == (
        "end",
        pytest.approx(0.36 * wide),
        pytest.approx(0.64 * wide),
    )
    for index, (text, x, y, anchor, fill) in enumerate(texts[3:]):
        to_place, right = divmod(index, 2)
        from_place = ORDER[to_place]
        assert text == TOKENS[from_place][0]
        assert anchor == ("start" if right else "end")
        assert float(y) == pytest.approx(66 + ((to_place if right else from_place) + 0.5) * pitch)
        assert float(x) == pytest.approx((0.64 if right else 0.36) * wide)
        assert hex_of(fill) == (QUIET if TOKENS[from_place][2] else INK)
    pads = stage.elements(f"{inside(0)} rect", "data-says", "x", "y", "width", "height")
    for index, (_, said, x, y, width, height) in enumerate(pads):
        to_place, right = divmod(index, 2)
        assert said == f"{TOKENS[ORDER[to_place]][0]}: position {ORDER[to_place]} → {to_place}"
        assert float(x) == pytest.approx(0.64 * wide - 6 if right else 0)
        assert float(width) == pytest.approx(0.36 * wide + 6)
        assert float(y) == pytest.approx(66 + (to_place if right else ORDER[to_place]) * pitch)
        assert float(height) == pitch
    assert len(pads) == 2 * n


def test_each_vector_has_a_cell_per_stage_in_the_colour_of_its_change(stage: Stage) -> None:
    arrays = shuffle_shown(stage)
    for part, array in ((1, "map0"), (2, "map1")):
        cells = stage.elements(
            f"{inside(part)} rect[data-map]",
            "data-map",
            "data-row",
            "data-stage",
            "data-value",
            "data-says",
            "x",
            "y",
            "width",
            "height",
            "fill",
        )
        assert len(cells) == len(TOKENS) * 3
        texts = stage.elements(f"{inside(part)} text", "x", "y", "text-anchor", "fill")
        lefts = sorted({float(one[6]) for one in cells})
        for _, name, row, at, value, said, x, y, width, height, fill in cells:
            row, at = int(row), int(at)
            number = arrays[array][row, at]
            assert name == array
            assert np.float32(value) == number
            assert said == f"{row} {TOKENS[row][0]}, {STAGES[at]}: moved by {value} of its length"
            assert float(x) == lefts[at]
            assert float(y) == pytest.approx(66 + row * PITCH)
            assert float(height) == PITCH - 1
            assert float(width) == pytest.approx(lefts[1] - lefts[0] - 1)
            assert alike(hex_of(fill), weight_colour(min(1.0, float(number) / UNRELATED)))
            written = [
                one
                for one in texts
                if one[3] == "middle"
                and float(one[2]) == pytest.approx(66 + (row + 0.5) * PITCH)
                and abs(float(one[1]) - float(x) - float(width) / 2 - 0.5) < 0.01
            ]
            assert [one[0] for one in written] == [says(float(number))]
            assert (
                hex_of(written[0][4]) in (INK, PAPER)
                and (hex_of(written[0][4]) == PAPER) == (number / UNRELATED > 0.55)
            ) or 0.4 < number / UNRELATED < 0.75  # black in between, where neither is legible
        heads = [one for one in texts if one[0] in STAGES]
        assert [one[0] for one in heads] == STAGES
        assert [float(one[1]) for one in heads] == pytest.approx(
            [x + (lefts[1] - lefts[0]) / 2 for x in lefts]
        )
        assert {float(one[2]) for one in heads} == {54}
        names = [one for one in texts if one[3] == "end"]
        assert [one[0] for one in names] == [f"{i} {token[0]}" for i, token in enumerate(TOKENS)]
        assert near((one[1] for one in names), lefts[0] - 6)
        assert [float(one[2]) for one in names] == [
            66 + (i + 0.5) * PITCH for i in range(len(TOKENS))
        ]
        assert texts[0][0] == ("First map" if part == 1 else "Second map")


@pytest.mark.parametrize(("most", "end"), [(1.3, "1.41"), (1.9, "≥ 1.41")])
def test_the_scale_of_the_changes_ends_at_a_right_angle(
    stage: Stage, most: float, end: str
) -> None:
    arrays = shuffle_shown(stage, most=most)
    assert (arrays["map1"].max() > UNRELATED) == (end != "1.41")
    frame = stage.elements(f"{inside(2)} rect[fill=none]", "x", "y", "width", "height", "stroke")
    (_, x, y, width, height, stroke), (_, left, top, wide, tall, _) = frame
    assert [float(v) for v in (y, height)] == [65.5, 5 * PITCH]
    assert hex_of(stroke) == LINE
    assert [float(v) for v in (left, top, wide, tall)] == [
        float(x) + 0.5,
        66 + 5 * PITCH + 12,
        float(width),
        9,
    ]
    steps = [
        one
        for one in stage.elements(
            f"{inside(2)} rect:not([data-map]):not([fill=none])", "x", "y", "height", "fill"
        )
        if float(one[3]) == 9
    ]
    assert len(steps) == 64
    assert [float(one[1]) for one in steps] == pytest.approx(
        [float(left) + i * float(wide) / 64 for i in range(64)]
    )
    assert all(alike(hex_of(steps[i][4]), weight_colour(i / 63)) for i in (0, 20, 40, 63))
    assert {float(one[2]) for one in steps} == {float(top)}
    texts = {
        one[0]: one for one in stage.elements(f"{inside(2)} text", "x", "y", "text-anchor", "fill")
    }
    for text, value in (("0", 0), ("0.5", 0.5), ("1", 1), (end, UNRELATED)):
        assert float(texts[text][1]) == pytest.approx(float(left) + value / UNRELATED * float(wide))
        assert texts[text][3] == "middle"
        assert float(texts[text][2]) == float(top) + 22
        assert hex_of(texts[text][4]) == QUIET
    unit = texts["moved by (share of its length)"]
    assert float(unit[1]) == pytest.approx(float(left) + float(wide) / 2)
    assert float(unit[2]) == float(top) + 38


def test_the_mean_change_has_a_bar_per_stage_and_test(stage: Stage) -> None:
    arrays = shuffle_shown(stage)
    floor, wide = 66 + 190, (1240 - 3 * 26) / 4
    each = (wide - 46) / 3
    thick = min(48, each * 0.8 / 2)
    bars = stage.elements(
        f"{inside(3)} rect[data-bar]",
        "data-bar",
        "data-stage",
        "data-value",
        "data-says",
        "x",
        "y",
        "width",
        "height",
        "fill",
    )
    texts = stage.elements(f"{inside(3)} text", "x", "y", "text-anchor", "fill")
    names = ["with positions", "switched off"]
    assert len(bars) == 6
    for _, k, s, value, said, x, y, width, height, fill in bars:
        k, s = int(k), int(s)
        number = arrays["means"][k, s]
        tall = min(float(number), UNRELATED) / UNRELATED * 190
        assert np.float32(value) == number
        assert said == f"{STAGES[s]}, {names[k]}: {value}"
        middle = 46 + (s + 0.5) * each
        assert float(x) == pytest.approx(middle + (k - 1) * thick + 1)
        assert float(width) == pytest.approx(thick - 2)
        assert float(height) == pytest.approx(max(tall, 1))
        assert float(y) == pytest.approx(floor - max(tall, 1))
        assert hex_of(fill) == (ACCENT if k == 0 else "#e69f00")
        (written,) = [
            one
            for one in texts
            if abs(float(one[1]) - float(x) + 1 - thick / 2) < 0.01
            and abs(float(one[2]) - floor + tall + 6) < 0.01
        ]
        assert written[0] == says(float(number))
        assert written[3] == "middle"
    lines = stage.elements(f"{inside(3)} line", "x1", "x2", "y1", "y2", "stroke")
    assert (
        [float(one[3]) for one in lines]
        == [float(one[4]) for one in lines]
        == pytest.approx([floor - v / UNRELATED * 190 for v in (0, 0.5, 1)])
    )
    assert {(float(one[1]), round(float(one[2]), 2), hex_of(one[5])) for one in lines} == {
        (46, round(wide, 2), LINE)
    }
    ticks = [one for one in texts if one[3] == "end"]
    assert [one[0] for one in ticks] == ["0.0", "0.5", "1.0"]
    assert [float(one[2]) for one in ticks] == pytest.approx([float(one[3]) for one in lines])
    for s, stage_name in enumerate(STAGES):
        (one,) = [one for one in texts if one[0] == stage_name]
        assert float(one[1]) == pytest.approx(46 + (s + 0.5) * each)
        assert float(one[2]) == floor + 18
        assert one[3] == "middle"
    swatches = [
        one
        for one in stage.elements(f"{inside(3)} rect:not([data-bar])", "x", "y", "fill")
        if float(one[2]) == floor + 36
    ]
    assert [(float(one[1]), hex_of(one[3])) for one in swatches] == [(46, ACCENT), (216, "#e69f00")]
    hollow = {
        "fill": swatches[1][3],
        "fill-opacity": "0.15",
        "stroke": swatches[1][3],
    }  # distinguishable without colours, too
    apart = stage.attrs(
        f"{inside(3)} rect[data-bar='1'], {inside(3)} rect[fill-opacity]",
        "fill",
        "fill-opacity",
        "stroke",
    )
    assert apart == [hollow] * 4
    legend = [one for one in texts if one[0] in names]
    assert [(one[0], float(one[1])) for one in legend] == [(names[0], 63), (names[1], 233)]
    turned = stage.elements(f"{inside(3)} text[transform]", "transform")
    assert turned == [["mean change", f"translate(11 {66 + 95 + 40}) rotate(-90)"]]


def test_parts_are_side_by_side_if_there_is_room(stage: Stage) -> None:
    for width, columns in ((1240, 4), (1060, 3), (560, 2), (400, 1)):
        shuffle_shown(stage, width)
        moved = [
            tuple(float(v) for v in re.findall(r"[\d.]+", one))
            for one in stage.attrs("svg > g", "transform")
        ]
        wide = (width - 26 * (columns - 1)) / columns
        heights = [66 + 5 * PITCH + 62] * 3 + [66 + 190 + 62]
        tops, y = [], 0
        for i in range(4):
            if i and i % columns == 0:
                y += max(heights[i - columns : i])
            tops.append(y)
        assert moved == [pytest.approx(((i % columns) * (wide + 26), tops[i])) for i in range(4)]
        last = heights[(3 // columns) * columns :]
        assert float(stage.attr("svg", "height")) == tops[-1] + max(last)
    assert (
        stage.attr("svg", "aria-label") == "They change places. First map. Second map. Mean change"
    )


def test_a_long_text_has_small_rows_without_numbers(stage: Stage) -> None:
    for n, letters, numbers, named in (
        (5, "13", True, True),
        (33, "12", True, True),
        (41, "12", False, False),
        (201, "12", False, False),
    ):
        tokens = [[f"t{i}", "", False] for i in range(n)]
        arrays = shuffle_shown(stage, tokens=tokens, order=list(range(n)))
        pitch = min(PITCH, max(4, 460 / n))
        cells = stage.elements(f"{inside(2)} rect[data-map]", "y", "height", "data-row")
        assert float(cells[-1][1]) == pytest.approx(66 + (n - 1) * pitch)
        assert float(cells[-1][2]) == pytest.approx(max(1, pitch - 1))
        texts = stage.texts(f"{inside(2)} text")
        assert (says(float(arrays["map1"][0, 0])) in texts[4:]) == numbers
        assert ("t1" in stage.texts(f"{inside(0)} text")) == named
        rows = [int(text.split()[0]) for text in texts if re.fullmatch(r"\d+ t\d+", text)]
        assert rows == list(
            range(0, n, math.ceil((int(letters) - 0.5) / pitch))
        )  # no name touches the next
        assert stage.box(".place")["height"] == 66 + 460 + 62  # whatever the text
        assert {
            one[1] for one in stage.elements(f"{inside(2)} text[text-anchor=end]", "font-size")
        } == {letters}
        assert {hex_of(one) for one in stage.attrs(f"{inside(0)} line", "stroke")} == {"#8f96a3"}


def test_hovering_the_drawing_shows_the_exact_number(stage: Stage) -> None:
    shuffle_shown(stage)
    for selector in (
        f"{inside(1)} rect[data-map]",
        f"{inside(3)} rect[data-bar]",
        f"{inside(0)} rect",
    ):
        said, box, root = (
            stage.attrs(selector, "data-says")[1],
            stage.box(selector, 1),
            stage.box(".shuffle"),
        )
        stage.move(selector, box["width"] / 2, box["height"] / 2, 1)
        assert stage.text(".tip") == said
        assert not stage.hidden(".tip")
        tip = stage.box(".tip")
        assert tip["top"] == pytest.approx(box["top"] + box["height"] / 2 + 18, abs=1)
        assert tip["left"] == pytest.approx(
            min(box["left"] + box["width"] / 2 + 16, root["right"] - tip["width"]), abs=1
        )
    stage.move("svg", 3, 3)
    assert stage.hidden(".tip")
    stage.move(selector, 5, 5)
    stage.away()
    assert stage.hidden(".tip")
    assert stage.text(".foot span") == "Point at a cell or a token for its exact number."


def test_the_shuffle_test_as_a_file(stage: Stage) -> None:
    shuffle_shown(stage)
    name, svg = stage.saved_svg()
    assert name == "shuffle-test.svg"
    assert list(svg)[1].text == "The shuffle test"
    assert len([one for one in svg.iter(f"{SVG}rect") if one.get("data-map") == "map1"]) == 15
    assert (
        float(svg.get("height")) == float(stage.attr("svg", "height")) + 30
        or float(svg.get("height")) > 200
    )


def test_the_numbers_of_the_shuffle_test_count_tokens_as_the_drawing_does(stage: Stage) -> None:
    shuffle_shown(stage)
    name, about, (moves, *maps, _) = stage.saved_tables()
    assert name.endswith(".picture.csv")
    assert about == SAVED["about"]
    assert moves[0][1:] == ["position before", "position after"]
    assert sorted(int(row[1]) for row in moves[1:]) == list(range(len(moves) - 1))
    for table in maps:
        assert [row[0].split()[0] for row in table[1:]] == [str(i) for i in range(len(table) - 1)]


def test_a_token_with_a_hash_is_quoted_for_readers_that_skip_comments(stage: Stage) -> None:
    shuffle_shown(stage, tokens=[["C#", "", False], *TOKENS[:2]], order=[2, 0, 1])
    table = stage.saved(".save.csv")[2].decode()
    assert table.count("C#") == table.count('C#"') > 0


def test_a_new_drawing_has_no_tip_of_the_old_one(stage: Stage) -> None:
    shuffle_shown(stage)
    stage.move(f"{inside(1)} rect[data-map]", 5, 5)
    stage.show(shuffle_payload()[0], (1, 2))
    assert stage.hidden(".tip")
