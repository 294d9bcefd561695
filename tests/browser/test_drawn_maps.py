"""The component `maps` by itself: every cell, bar, scale and tip against its numbers."""

import math
import re
from typing import Any

import numpy as np
import pytest
from stage import ACCENT, HATCH, INK, LINE, PAPER, QUIET, RATIO, SAVED, Stage, alike, weight_colour

from viz_app.drawing.payload import pack, unpack

ROWS, COLS = 5, 7
LEFT, TOP, RIGHT, BOTTOM = 76, 74, 24, 44


def brief(value: float) -> str:
    if value == 0:
        return "0"
    if 0.01 <= abs(value) < 1000:
        return f"{float(f'{value:.3g}'):g}"
    head, power = f"{value:.1e}".split("e")
    return f"{head}e{int(power):+d}"


def maps_payload(bars: bool = True, **changes: Any) -> tuple[bytes, dict[str, np.ndarray]]:
    rng = np.random.default_rng(11)
    arrays = {
        "map0": rng.uniform(0.001, 2.5, (ROWS, COLS)).astype(np.float32),
        "map1": rng.uniform(0, 0.8, (ROWS, COLS)).astype(np.float32),
        "bars": np.array([0.02, 0.5, 1.0, 0.25, 0.0], np.float32),
    }  # fmt: skip
    arrays["map0"][1, 4] = 0
    arrays["map0"][2, 2] = 0.0004  # below the minimum of the scale
    arrays["map1"][3, 1] = 0
    maps = [
        {"title": "One", "note": "Note of one", "array": "map0", "scale": "log", "least": 0.0025, "largest": 2.5,
         "none": "it cannot reach", "says": "log scale; hatched = 0"},
        {"title": "Two", "note": "Note of two", "array": "map1", "scale": "linear", "least": 0.0, "largest": 0.8, "none": "",
         "says": "linear scale"},
    ]  # fmt: skip
    header = {
        "title": "What reaches what", "file": "reach", **SAVED, "rowAxis": "output y", "colAxis": "input x",
        "rows": [[f"r{i}", f"said of r{i}" if i == 2 else "", False] for i in range(ROWS)],
        "cols": [[f"c{i}", "", False] for i in range(COLS)],
        "maps": maps,
    }  # fmt: skip
    if bars:
        header["bars"] = {
            "title": "Apart",
            "array": "bars",
            "bars": True,
            "largest": 1.0,
            "none": "",
            "says": "bits",
            "note": "How far apart.",
        }
    return pack(header | changes, **arrays), arrays


def maps_shown(
    stage: Stage, width: int = 1200, **how: Any
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    data, arrays = maps_payload(**how)
    stage.mount("maps", width).show(data)
    return {
        name: float(stage.data(".maps")[name]) for name in ("left", "top", "side", "tall")
    }, arrays


def to(stage: Stage, at: dict[str, float], n: int, row: float, col: float) -> None:
    stage.move(".cells", LEFT + (col + 0.5) * at["side"], TOP + (row + 0.5) * at["tall"], n)


def colour_of(value: float, n: int) -> str:
    share = math.log(max(value, 0.0025) / 0.0025) / math.log(1000) if n == 0 else value / 0.8
    return weight_colour(min(1.0, max(0.0, share)))


def test_on_a_root_scale_a_hundredth_is_a_tenth_of_the_way_to_the_accent(stage: Stage) -> None:
    data, arrays = maps_payload(bars=False)
    header, _ = unpack(data)
    del header["arrays"]
    arrays["map1"][:] = 0.8 * np.float32(0.01)
    arrays["map1"][0, 0], arrays["map1"][1, 1] = 0.8, 0.2
    maps = [header["maps"][0], {**header["maps"][1], "scale": "root"}]
    stage.mount("maps", 900).show(pack({**header, "maps": maps}, **arrays))
    at = {name: float(stage.data(".maps")[name]) for name in ("side", "tall")}
    pixels = stage.pixels(".cells", 1)
    for (row, col), share in (((0, 0), 1.0), ((1, 1), 0.5), ((2, 3), 0.1)):
        seen = pixels.within(
            LEFT + col * at["side"] + 3, TOP + row * at["tall"] + 3, at["side"] - 6, at["tall"] - 6
        )
        assert seen == {weight_colour(share)}


def test_each_map_shows_its_own_numbers_on_its_own_scale(stage: Stage) -> None:
    at, arrays = maps_shown(stage)
    assert (at["left"], at["top"]) == (LEFT, TOP)
    for n in (0, 1):
        pixels, values = stage.pixels(".cells", n), arrays[f"map{n}"]
        for r in range(ROWS):
            for c in range(COLS):
                x, y = LEFT + c * at["side"], TOP + r * at["tall"]
                seen = pixels.within(x + 2, y + 2, at["side"] - 4, at["tall"] - 4)
                if n == 0 and values[r, c] == 0:
                    assert len(seen) > 1
                    assert PAPER in seen
                else:
                    assert alike(seen.pop(), colour_of(float(values[r, c]), n)), (n, r, c)
                    assert not seen
        (frame,) = [one for one in stage.drawn(".cells", "frame", n) if one["h"] > 9]
        assert [frame[k] for k in "xy"] == [LEFT, TOP]
        assert (frame["w"], frame["h"]) == pytest.approx((COLS * at["side"], ROWS * at["tall"]))
        assert frame["colour"] == LINE
    (hatch,) = stage.drawn(".cells", "path", 0)
    assert hatch["colour"] == HATCH
    assert hatch["line"] == pytest.approx(0.7)
    assert (hatch["clip"]["x"], hatch["clip"]["y"]) == pytest.approx(
        (LEFT + 4 * at["side"], TOP + at["tall"]), abs=0.3
    )
    assert (hatch["clip"]["w"], hatch["clip"]["h"]) == pytest.approx(
        (at["side"], at["tall"]), abs=0.6
    )
    assert not stage.drawn(".cells", "path", 1)


def test_stripes_fill_each_cell_without_a_value_and_no_other(stage: Stage) -> None:
    none = ((0, 5), (3, 1), (4, 6))
    values = np.ones((ROWS, COLS), np.float32)
    values[tuple(zip(*none, strict=True))] = 0
    data, _ = maps_payload()
    at, _ = maps_shown(stage)
    stage.show(stage.change(data, {"map0": values}))
    pixels, hatched = stage.pixels(".cells"), stage.drawn(".cells", "path")
    for (r, c), one in zip(none, hatched, strict=True):
        x, y, w, h = (one["clip"][k] for k in "xywh")
        assert (x, y, w, h) == pytest.approx(
            (LEFT + c * at["side"], TOP + r * at["tall"], at["side"], at["tall"]), abs=0.6
        )
        sums = range(
            math.floor((x + y) / 6) * 6, math.ceil(x + y + w + h), 6
        )  # x + y along a stripe
        assert one["lines"] == [pytest.approx([s - y, y, s - y - h, y + h]) for s in sums]
        assert {PAPER} < pixels.within(x + 1, y + 1, w - 2, h - 2)
        assert PAPER in pixels.within(x, y, 0.5, h)  # no frame
        assert len(pixels.within(x - 3, y + 3, 2, h - 6)) == 1  # of the cell before it


def test_where_the_cells_without_a_value_are_listed_a_zero_is_a_value(stage: Stage) -> None:
    data, arrays = maps_payload(bars=False)
    header, _ = unpack(data)
    del header["arrays"]
    first, second = header["maps"]
    listed = np.zeros((ROWS, COLS), np.uint8)
    listed[4, 0] = 1
    maps = [{**first, "without": "listed"}, second]
    stage.mount("maps", 1200).show(pack({**header, "maps": maps}, **arrays, listed=listed))
    at = {name: float(stage.data(".maps")[name]) for name in ("side", "tall")}
    (hatch,) = stage.drawn(".cells", "path", 0)
    assert (hatch["clip"]["x"], hatch["clip"]["y"]) == pytest.approx(
        (LEFT, TOP + 4 * at["tall"]), abs=0.3
    )
    assert arrays["map0"][1, 4] == 0
    to(stage, at, 0, 1, 4)
    assert stage.texts(".tip td")[:2] == ["One", "0"]
    to(stage, at, 0, 4, 0)
    assert stage.texts(".tip td")[:2] == ["One", "0: it cannot reach"]


def test_names_along_the_columns_are_rotated_about_their_middle(stage: Stage) -> None:
    at, _ = maps_shown(stage)
    for c in range(COLS):
        one = stage.written(".cells")[f"c{c}"]
        assert (one["x"], one["y"], one["angle"]) == pytest.approx(
            (LEFT + (c + 0.5) * at["side"] + 2, TOP - 5, -0.96)
        )
        assert (one["baseline"], one["font"]) == ("middle", "12.5px sans-serif")
    for words, y in (("output y ↓", TOP - 22), ("input x →", TOP - 8)):
        one = stage.written(".cells")[words]
        assert (one["y"], one["font"], one["align"], one["baseline"]) == (
            y,
            "12px sans-serif",
            "left",
            "middle",
        )


@pytest.mark.parametrize(
    ("n", "size", "step"),
    [
        (28, 12.285, 1),
        (27, 12.5, 1),
        (33, 12, 1),
        (34, 12, 2),
        (66, 12, 2),
        (67, 12, 3),
        (99, 12, 3),
        (100, 12, 4),
    ],
)
def test_names_of_rows_shrink_to_12_pixels_and_are_then_omitted(
    stage: Stage, n: int, size: float, step: int
) -> None:
    names = [[f"r{i}", "", False] for i in range(n)]
    stage.mount("maps", 900).show(
        pack(
            {**_header(), "rows": names, "cols": [["c", "", False]]},
            map0=np.ones((n, 1), np.float32),
        )
    )
    rows = [
        one
        for one in stage.drawn(".cells", "text")
        if one["text"].startswith("r") and one["align"] == "right"
    ]
    assert [one["text"] for one in rows] == [f"r{i}" for i in range(0, n, step)]
    assert [float(one["font"].split("px")[0]) for one in rows] == pytest.approx(
        [size] * len(rows), abs=0.01
    )
    assert [one["y"] for one in rows] == pytest.approx(
        [TOP + (i + 0.5) * 430 / n for i in range(0, n, step)]
    )


def test_a_long_name_is_shortened_to_its_room(stage: Stage) -> None:
    rng = np.random.default_rng(7)
    long = ["".join(rng.choice(list("ilmtw"), 29)) for _ in range(11)]
    names = [[text, "", False] for text in long]
    stage.mount("maps", 400).show(
        pack({**_header(), "rows": names, "cols": names}, map0=np.ones((11, 11), np.float32))
    )
    written = [one["text"] for one in stage.drawn(".cells", "text") if "…" in one["text"]]
    left = float(stage.data(".maps")["left"])
    assert left == pytest.approx(0.34 * math.floor(stage.box("figure")["width"]))
    rooms = [left - 12] * 11 + [TOP - 10] * 11
    for token, shown, room in zip(long * 2, written, rooms, strict=True):
        shorter = [
            token[: limit // 2] + "…" + token[len(token) - (limit - 1) // 2 :]
            for limit in range(28, 2, -1)
        ]
        widths = stage.js(
            "(root, texts) => { const context = document.createElement('canvas').getContext('2d');"
            " context.font = '12.5px sans-serif'; return texts.map((text) => context.measureText(text).width); }", shorter,
        )  # fmt: skip
        assert shown == next(
            text for text, width in zip(shorter, widths, strict=True) if width <= room
        )


def test_the_frames_lie_over_the_cells_and_the_words_over_both(stage: Stage) -> None:
    maps_shown(stage)
    for n in range(3):
        assert stage.box(".marks", n) == stage.box(".cells", n)
        cells, marks = stage.pixels(".cells", n), stage.pixels(".marks", n)
        assert (marks.wide, marks.tall) == (cells.wide, cells.tall)
    assert stage.attrs("figcaption span", "class") == ["quiet"] * 3
    assert stage.css(".stage", "display") == ["block"] * 3
    assert stage.attrs(".cells", "role") == ["img"] * 3


def test_a_tip_too_wide_for_the_page_begins_at_its_edge(stage: Stage) -> None:
    data, _ = maps_payload()
    stage.mount("maps", 300).show(stage.change(data, rowAxis="a long name of the output " * 3))
    at = {name: float(stage.data(".maps")[name]) for name in ("side", "tall")}
    stage.js(
        "(root) => { root.querySelector('.tip').style.cssText = 'width: 340px; max-width: none'; }"
    )
    to(stage, at, 0, 1, 1)
    assert stage.box(".tip")["left"] == stage.box(".maps")["left"]


def test_cells_are_as_large_as_the_room_allows(stage: Stage) -> None:
    at, _ = maps_shown(stage)
    wide = round(min(stage.box("figure", n)["width"] for n in range(3)))
    assert at["side"] == min(30, (wide - LEFT - RIGHT) / COLS)
    assert at["tall"] == max(26, at["side"])  # cells grow to fill
    for n in range(3):
        assert (stage.box(".cells", n)["width"], stage.box(".cells", n)["height"]) == (
            wide,
            TOP + ROWS * at["tall"] + BOTTOM,
        )
    names = [[f"r{i}", "", False] for i in range(71)]
    stage.mount("maps", 500).show(
        pack({**_header(), "rows": names, "cols": names}, map0=np.ones((71, 71), np.float32))
    )
    side, tall = (float(stage.data(".maps")[k]) for k in ("side", "tall"))
    wide = round(stage.box("figure")["width"])
    assert side == pytest.approx((wide - LEFT - RIGHT) / 71)
    assert tall == pytest.approx(430 / 71)
    for align in ("right", "left"):  # every nth is named
        shown = [
            int(one["text"][1:])
            for one in stage.drawn(".cells", "text")
            if one["align"] == align and re.fullmatch(r"r\d+", one["text"])
        ]
        step = shown[1]
        assert shown == list(range(0, 71, step))
        assert step == math.ceil(13 / tall if align == "right" else 11 / side)
    stage.mount("maps", 420).show(
        pack(
            {**_header(), "rows": names[:4], "cols": names[:50]}, map0=np.ones((4, 50), np.float32)
        )
    )
    assert float(stage.data(".maps")["side"]) < 14
    assert float(stage.data(".maps")["tall"]) == 26


def test_every_column_is_named_upright_if_slanted_names_would_touch(stage: Stage) -> None:
    names = [[f"name {i}", "", False] for i in range(11)]
    header = _header()
    header["maps"][0]["says"] = "root scale; hatched = 0: not reachable from there"
    drawn = pack({**header, "rows": names, "cols": names}, map0=np.ones((11, 11), np.float32))
    for width, is_upright in ((224, True), (500, False)):
        stage.mount("maps", width).show(drawn)
        assert (float(stage.data(".maps")["side"]) < 11 / math.sin(0.96)) == is_upright
        texts = stage.drawn(".cells", "text")
        shown = [one for one in texts if one["align"] == "left" and one["text"].startswith("name")]
        assert [one["text"] for one in shown] == [text for text, *_ in names]
        for one in shown:
            assert (one["angle"] == pytest.approx(-math.pi / 2)) == is_upright
        says = [
            one for one in texts if one["text"][1:] and one["text"] in header["maps"][0]["says"]
        ]
        assert " ".join(one["text"] for one in says) == header["maps"][0]["says"]
        assert (len(says) == 2) == is_upright  # it is wrapped where it would be cut
        assert all(one["wide"] <= width for one in says)
        assert says[-1]["y"] + 7 <= stage.box(".cells")["height"]


def _header() -> dict[str, Any]:
    one = {
        "title": "One",
        "note": "",
        "array": "map0",
        "scale": "linear",
        "least": 0.0,
        "largest": 1.0,
        "none": "",
        "says": "",
    }
    return {"title": "t", "file": "f", **SAVED, "rowAxis": "r", "colAxis": "c", "maps": [one]}


def test_rows_and_columns_are_named_and_so_are_the_axes(stage: Stage) -> None:
    at, _ = maps_shown(stage)
    for n in range(3):
        texts = stage.written(".cells", n)
        for r in range(ROWS):
            one = texts[f"r{r}"]
            assert (one["align"], one["baseline"], one["colour"], one["angle"]) == (
                "right",
                "middle",
                INK,
                0,
            )
            assert one["x"] == LEFT - 5
            assert one["y"] == pytest.approx(TOP + (r + 0.5) * at["tall"])
        if n == 2:
            assert "c0" not in texts
            continue
        for c in range(COLS):
            one = texts[f"c{c}"]
            assert (one["align"], one["colour"]) == ("left", INK)
            assert -1.2 < one["angle"] < -0.7
            assert LEFT + (c + 0.4) * at["side"] < one["x"] < LEFT + (c + 0.7) * at["side"]
            assert TOP - 8 < one["y"] < TOP
        down, along = texts["output y ↓"], texts["input x →"]
        assert (down["colour"], along["colour"], down["align"]) == (QUIET, QUIET, "left")
        assert down["y"] < along["y"] < TOP
        assert down["x"] == along["x"] == 0
    assert stage.text(".title") == "What reaches what"
    assert stage.texts("figcaption b") == ["One", "Two", "Apart"]
    assert stage.texts("figcaption span") == ["Note of one", "Note of two", "How far apart."]
    assert stage.attrs(".cells", "aria-label") == [
        "One. Note of one",
        "Two. Note of two",
        "Apart. How far apart.",
    ]
    long = [["x" * 70, "", False]] * ROWS
    at, _ = maps_shown(stage, rows=long)
    (name, *_) = [one for one in stage.drawn(".cells", "text") if "…" in one["text"]]
    assert LEFT < at["left"] - 12 - 12 < name["wide"] <= at["left"] - 12


def test_each_scale_shows_its_ends_and_its_unit(stage: Stage) -> None:
    at, _ = maps_shown(stage)
    y = TOP + ROWS * at["tall"] + 12
    for n, (least, most, says) in enumerate(
        (("≤ 0.0025", "2.5", "log scale; hatched = 0"), ("0", "0.8", "linear scale"))
    ):
        least = least if n else f"≤ {brief(0.0025)}"
        texts = stage.written(".cells", n)
        steps = [
            one
            for one in stage.drawn(".cells", "rect", n)
            if one["y"] == pytest.approx(y) and one["h"] == pytest.approx(9)
        ]
        assert len(steps) == 96
        assert [one["x"] for one in steps] == [LEFT + i for i in range(96)]
        for i, one in enumerate(steps):
            assert alike(one["colour"], weight_colour(i / 95))
            assert one["w"] == pytest.approx(1.2)  # no gap between two
        (frame,) = [one for one in stage.drawn(".cells", "frame", n) if one["h"] == 9]
        assert (frame["x"], frame["y"], frame["w"], frame["colour"]) == (
            LEFT,
            pytest.approx(y),
            96,
            LINE,
        )
        assert (texts[least]["align"], texts[least]["colour"]) == ("right", INK)
        assert texts[least]["x"] == LEFT - 4
        assert (texts[most]["align"], texts[most]["colour"]) == ("left", INK)
        assert texts[most]["x"] == LEFT + 96 + 4
        assert texts[least]["y"] == texts[most]["y"] == pytest.approx(y + 5)
        assert texts[says]["colour"] == QUIET
        assert texts[says]["y"] == pytest.approx(y + 24)
        assert texts[says]["x"] == 0


@pytest.mark.parametrize(
    "value", [0.0101, 0.01, 0.00999, 999.4, 1000.0, 1234.5, 12.345, 0.5, 7e-12]
)
def test_a_scales_end_is_short(stage: Stage, value: float) -> None:
    one = {**_header()["maps"][0], "largest": value}
    names = [["a", "", False]]
    stage.mount("maps", 500).show(
        pack(
            {**_header(), "maps": [one], "rows": names, "cols": names},
            map0=np.ones((1, 1), np.float32),
        )
    )
    assert brief(value) in stage.written(".cells")


def test_bars_are_as_long_as_their_numbers(stage: Stage) -> None:
    at, arrays = maps_shown(stage)
    width = stage.box(".cells", 2)["width"]
    room = width - LEFT - RIGHT - 30
    bars = [one for one in stage.drawn(".cells", "rect", 2) if one["colour"] == ACCENT]
    texts = stage.written(".cells", 2)
    for r, (bar, value) in enumerate(zip(bars, arrays["bars"], strict=True)):
        assert (bar["x"], bar["w"]) == (
            LEFT,
            pytest.approx(max(0.5, room * float(value)), abs=0.01),
        )
        assert (bar["y"], bar["h"]) == (
            pytest.approx(TOP + r * at["tall"] + 1),
            pytest.approx(at["tall"] - 2),
        )
        said = [
            one
            for one in stage.drawn(".cells", "text", 2)
            if one["y"] == pytest.approx(TOP + (r + 0.5) * at["tall"]) and one["align"] == "left"
        ]
        assert [one["text"] for one in said] == [brief(float(value))]
        assert said[0]["x"] == pytest.approx(LEFT + room * float(value) + 4)
        assert said[0]["colour"] == INK
    (frame,) = stage.drawn(".cells", "frame", 2)
    assert [frame[k] for k in "xywh"] == pytest.approx([LEFT, TOP, room, ROWS * at["tall"]])
    assert frame["colour"] == LINE
    foot = TOP + ROWS * at["tall"] + 17
    ends = [one for one in stage.drawn(".cells", "text", 2) if one["y"] == pytest.approx(foot)]
    assert [(one["text"], one["x"], one["align"], one["colour"]) for one in ends] == [
        ("0", LEFT, "left", QUIET), ("1 bits", pytest.approx(LEFT + room), "right", QUIET),
    ]  # fmt: skip
    assert "1 bits" in texts


def test_narrow_bars_have_no_numbers(stage: Stage) -> None:
    names = [[f"r{i}", "", False] for i in range(41)]
    bars = {
        "title": "Apart",
        "array": "bars",
        "bars": True,
        "largest": 1.0,
        "none": "",
        "says": "bits",
        "note": "",
    }
    stage.mount("maps", 900).show(
        pack(
            {**_header(), "rows": names, "cols": names[:2], "bars": bars},
            map0=np.ones((41, 2), np.float32),
            bars=np.full(41, 0.37, np.float32),
        )
    )
    assert float(stage.data(".maps")["tall"]) < 11
    assert "0.37" not in stage.written(".cells", 1)


def test_pointing_names_the_cell_in_all_maps(stage: Stage) -> None:
    at, arrays = maps_shown(stage)
    for n, r, c, where in (
        (0, 2, 3, "output y: 3 r2 (said of r2), input x: 4 c3"),
        (1, 4, 6, "output y: 5 r4, input x: 7 c6"),
        (0, 1, 4, "output y: 2 r1, input x: 5 c4"),
    ):
        to(stage, at, n, r, c)
        assert stage.text(".tip .where") == where
        assert not stage.hidden(".tip")
        cells = stage.texts(".tip td")
        assert cells[::2] == ["One", "Two", "Apart"]
        for text, array in zip(cells[1::2], ("map0", "map1", "bars"), strict=True):
            value = arrays[array][r] if array == "bars" else arrays[array][r, c]
            if array == "map0" and value == 0:
                assert text == "0: it cannot reach"
            else:
                assert np.float32(text) == value
        assert stage.attrs(".tip tr", "class") == ["on" if i == n else None for i in range(3)]
        tip = stage.data(".tip")
        assert (tip["row"], tip["col"]) == (str(r), str(c))
        assert np.float32(tip["value"]) == arrays[f"map{n}"][r, c]
        for other in range(3):
            frames = stage.drawn(".marks", "frame", other)
            x, y = LEFT + c * at["side"], TOP + r * at["tall"]
            expected = [(LEFT, y, COLS * at["side"], at["tall"], 0.6)]
            if other < 2:
                expected += [
                    (x, TOP, at["side"], ROWS * at["tall"], 0.6),
                    (x, y, at["side"], at["tall"], 1.8),
                ]
            assert [tuple(one[k] for k in ("x", "y", "w", "h", "line")) for one in frames] == [
                pytest.approx(e) for e in expected
            ]
            assert {one["colour"] for one in frames} == {INK}
    to(stage, at, 2, 3, 1)  # a bar has no column
    assert stage.text(".tip .where") == "output y: 4 r3"
    assert stage.texts(".tip td")[0] == "Apart"
    assert len(stage.texts(".tip td")) == 2
    assert np.float32(stage.texts(".tip td")[1]) == arrays["bars"][3]
    assert stage.data(".tip")["col"] == ""
    assert [len(stage.drawn(".marks", "frame", n)) for n in range(3)] == [1, 1, 1]
    box = stage.box(".maps")
    assert stage.box(".tip")["right"] <= box["right"] + 0.5
    for r, c in ((-0.53, 1), (ROWS - 0.47, 1), (1, -0.53), (1, COLS - 0.47)):
        to(stage, at, 0, r, c)
        assert stage.hidden(".tip")
        assert not stage.drawn(".marks", "", 0)
    to(stage, at, 0, ROWS - 0.6, COLS - 0.6)
    assert stage.data(".tip")["row"] == str(ROWS - 1)
    to(stage, at, 0, -0.45, -0.45)
    assert (stage.data(".tip")["row"], stage.data(".tip")["col"]) == ("0", "0")
    stage.away()
    assert stage.hidden(".tip")


def test_the_page_shows_through_wherever_nothing_is_drawn(stage: Stage) -> None:
    at, _ = maps_shown(stage)
    for n in range(3):
        pixels = stage.pixels(".cells", n)
        wide, tall = pixels.wide / RATIO - 0.5, pixels.tall / RATIO - 0.5
        assert {
            pixels.at(0.5, 0.5),
            pixels.at(wide, 0.5),
            pixels.at(0.5, tall),
            pixels.at(wide, tall),
        } == {PAPER}
    to(stage, at, 0, 1, 1)
    stage.show(maps_payload()[0])  # a new picture has no tip of the old one
    assert stage.hidden(".tip")


def test_the_tip_is_beside_the_pointer(stage: Stage) -> None:
    at, _ = maps_shown(stage)
    to(stage, at, 0, 1, 1)
    root, cells, tip = stage.box(".maps"), stage.box(".cells"), stage.box(".tip")
    assert tip["left"] - cells["left"] == pytest.approx(LEFT + 1.5 * at["side"] + 16, abs=1)
    assert tip["top"] - cells["top"] == pytest.approx(TOP + 1.5 * at["tall"] + 18, abs=1)
    assert root["left"] <= tip["left"]


def test_fewer_maps_leave_no_remains_and_another_width_is_redrawn(stage: Stage) -> None:
    maps_shown(stage)
    stage.show(maps_payload(bars=False)[0])
    assert stage.texts("figcaption b") == ["One", "Two"]
    assert int(stage.data(".maps")["painted"]) == 2
    assert stage.data(".maps")["rows"] == str(ROWS)
    stage.page.evaluate("stage.host.style.width = '640px'")
    stage.frames()
    assert stage.box(".cells")["width"] == round(
        min(stage.box("figure", n)["width"] for n in range(2))
    )


def test_the_maps_as_a_file(stage: Stage) -> None:
    note = (
        "A note so long that it needs more than a line of its picture, and is broken between words."
    )
    first = {
        "title": "One",
        "note": note,
        "array": "map0",
        "scale": "linear",
        "least": 0.0,
        "largest": 2.5,
        "none": "",
        "says": "linear",
    }
    data, _ = maps_payload()
    stage.mount("maps", 1200).show(stage.change(data, maps=[first, first]))
    name, picture, drawn = stage.saved_picture()
    (whole,) = [one["of"] for one in drawn if one["op"] == "copy"]
    said = [
        [one["text"], one["x"], one["y"], one["font"], one["colour"]]
        for one in whole
        if one["op"] == "text"
    ]
    assert name == "reach.png"
    assert {one["baseline"] for one in whole if one["op"] == "text"} == {"top"}
    assert [one["text"] for one in drawn if one["op"] == "text"] == [
        "What reaches what",
        SAVED["caption"],
    ]
    place = stage.box(".pictures")
    titles = [one for one in said if one[0] in ("One", "Apart")]
    for n, (one, word) in enumerate(zip(titles, ("One", "One", "Apart"), strict=True)):
        figure = stage.box("figure", n)
        assert one[0] == word
        assert one[1:3] == [
            pytest.approx(figure["left"] - place["left"]),
            pytest.approx(figure["top"] - place["top"] + 2),
        ]
        assert one[3] == "600 14px sans-serif"
        assert one[4] == INK
    lines = [one for one in said if one[1] == titles[0][1] and one[3] == "12px sans-serif"]
    assert " ".join(one[0] for one in lines) == note
    assert len(lines) > 1
    assert np.diff([one[2] for one in lines]) == pytest.approx([15] * (len(lines) - 1))
    assert lines[0][2] == pytest.approx(titles[0][2] + 20)
    for n in range(3):
        box, canvas = stage.box(".cells", n), stage.pixels(".cells", n)
        for x, y in ((LEFT + 40, TOP + 35), (LEFT + 20, TOP + 80)):
            seen = picture.within(
                box["left"] - place["left"] + x - 0.5,
                box["top"] - place["top"] + y + 30 - 0.5,
                1.5,
                1.5,
            )
            assert any(alike(canvas.at(x, y), one, 8) for one in seen)


def test_a_scale_without_room_for_its_end_is_narrower(stage: Stage) -> None:
    names = [["a", "", False]]
    stage.mount("maps", 170).show(
        pack(
            {**_header(), "maps": _header()["maps"][:1], "rows": names, "cols": names},
            map0=np.ones((1, 1), np.float32),
        )
    )
    (end,) = [one for one in stage.drawn(".cells", "text") if one["text"] == "1"]
    (frame,) = [one for one in stage.drawn(".cells", "frame") if one["h"] == 9]
    assert frame["w"] < 96
    assert frame["x"] + frame["w"] < end["x"]
    assert end["x"] + end["wide"] <= 170
