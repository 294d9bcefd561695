"""A presentation: pictures are larger by one factor, and the pointer still hits what it points at."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from stage import RATIO, Stage

from . import test_drawn_beam as beam
from . import test_drawn_decoding as decoding
from . import test_drawn_head as head
from . import test_drawn_maps as maps
from . import test_drawn_masks as masks
from . import test_drawn_order as order
from . import test_drawn_overview as overview
from . import test_drawn_several as several
from . import test_drawn_shuffle as shuffle
from . import test_drawn_states as states
from . import test_drawn_tables as tables

SCALE = 1.34


@pytest.fixture(autouse=True)
def presented(stage: Stage) -> Iterator[None]:
    stage.page.evaluate(
        f"document.documentElement.style.setProperty('--attnscope-scale', '{SCALE}')"
    )
    yield
    stage.page.evaluate("document.documentElement.style.removeProperty('--attnscope-scale')")


def test_the_scale_is_the_one_that_the_page_has() -> None:
    style = (Path(__file__).parents[2] / "viz_app" / "style.css").read_text("utf-8")
    assert f"--attnscope-scale: {SCALE};" in style.split("html[data-present] {")[1].split("}")[0]


def test_a_head_fills_its_place_with_larger_letters(stage: Stage) -> None:
    at = head.shown(stage)
    place, box = stage.box(".map .stage"), stage.box(head.CELLS)
    assert (box["width"], box["height"]) == pytest.approx((place["width"], place["height"]), abs=1)
    pixels = stage.pixels(head.CELLS)
    assert (pixels.wide, pixels.tall) == pytest.approx(
        (RATIO * place["width"], RATIO * place["height"]), abs=RATIO
    )  # sharp
    name = stage.written(head.CELLS)["q1"]
    assert (name["x"], name["y"]) == pytest.approx(
        (SCALE * (at["left"] - 6), SCALE * (at["top"] + 1.5 * at["tall"])), abs=0.5
    )
    stage.move(
        head.CELLS, SCALE * (at["left"] + 2.5 * at["wide"]), SCALE * (at["top"] + 1.5 * at["tall"])
    )
    assert {key: stage.data(".tip")[key] for key in ("query", "key")} == {"query": "1", "key": "2"}
    frame = stage.drawn(head.MARKS, "frame")[0]
    assert frame["w"] == pytest.approx(SCALE * (at["wide"] + 2), abs=0.1)
    lines = [float(v) for v in stage.attr(".lines svg", "viewBox").split()]
    own = stage.box(".lines .stage")
    assert lines == pytest.approx([0, 0, own["width"] / SCALE, own["height"] / SCALE], abs=1)


def test_the_walk_has_larger_rows_and_no_more_than_it_needs(stage: Stage) -> None:
    header, arrays = tables.shown(stage)
    tables.to_stage(stage, 5)
    n = len(header["indices"])
    box, column = stage.box(tables.CELLS), tables.columns(stage)["weights"]
    lines = n + 1
    pitch = min(22, int((186 + (1600 - 720) / SCALE) // lines))
    assert box["height"] == pytest.approx(SCALE * (40 + lines * pitch + 6), abs=1)
    stage.move(
        tables.CELLS, SCALE * (column["x"] + 5), SCALE * (40 + 2.5 * pitch)
    )  # the second key
    assert stage.data(".tip")["column"] == "weights"
    assert float(stage.data(".tip")["value"]) == pytest.approx(float(arrays["weights"][1]))


def test_the_board_of_masks_is_painted_where_the_pointer_is(stage: Stage) -> None:
    masks.shown(stage)
    at = masks.grid(stage)
    place, box = stage.box(".painting .stage"), stage.box(masks.BOARD)
    assert (box["width"], box["height"]) == pytest.approx((place["width"], place["height"]), abs=1)
    stage.move(
        masks.BOARD, SCALE * (at["left"] + 3.5 * at["wide"]), SCALE * (at["top"] + 1.5 * at["tall"])
    )
    assert stage.text(".tip .query") == masks.QUERIES[1][0]
    assert stage.text(".tip .key") == masks.KEYS[3][0]


def test_each_head_of_the_overview_is_under_its_button(stage: Stage) -> None:
    overview.shown(stage)
    for kind, layer, number in (("encoder", 0, 0), ("decoder", 2, 3)):
        left, top, wide, tall = overview.place(stage, overview.button(kind, layer, number)).values()
        side = wide / SCALE
        assert wide == tall == pytest.approx(SCALE * round(side))
        assert (left, top) == pytest.approx(
            (SCALE * (20 + number * (side + 3)), SCALE * (15 + layer * (side + 3)))
        )


def test_the_lanes_of_decoding_are_drawn_larger(stage: Stage) -> None:
    decoding.shown(stage)
    _, _, wide, tall = (float(v) for v in stage.attr(".lane-scroll svg", "viewBox").split())
    box = stage.box(".lane-scroll svg")
    assert (box["width"], box["height"]) == pytest.approx((SCALE * wide, SCALE * tall), abs=1)
    assert stage.css(".lane-names", "height") == [stage.css(".lane-scroll svg", "height")[0]]


def larger(stage: Stage, drawing: str) -> tuple[float, float]:
    """Return the own width and height of a drawing, after comparing it with its place on the page."""
    _, _, wide, tall = (float(v) for v in stage.attr(drawing, "viewBox").split())
    box = stage.box(drawing)
    assert (box["width"], box["height"]) == pytest.approx((SCALE * wide, SCALE * tall), abs=1)
    return wide, tall


def test_the_shuffle_test_has_larger_letters_and_rows_as_high_as_before(stage: Stage) -> None:
    shuffle.shuffle_shown(stage)
    larger(stage, "svg")
    row = stage.box("svg rect[data-map][data-row='1']")
    assert row["height"] == pytest.approx(
        shuffle.PITCH - SCALE, abs=0.1
    )  # a gap between them as wide as a line
    stage.move("svg rect[data-map][data-row='1']", 5, 5)
    assert stage.text(".tip").startswith("1 ")


def test_the_beam_is_larger_and_its_steps_are_closer(stage: Stage) -> None:
    stage.mount("beam_tree", 900).show(beam.beam_payload()[0])
    wide, _ = larger(stage, ".tree-scroll svg")
    assert wide == 2 * 8 + 2 * 92 + 74
    first, third = (stage.box(f"g.node[data-step='{step}'][data-rank='1'] rect") for step in (1, 3))
    assert third["left"] - first["left"] == pytest.approx(SCALE * 2 * 92, abs=0.1)
    stage.page.evaluate(
        "document.documentElement.style.removeProperty('--attnscope-scale')"
    )  # it ends
    stage.page.evaluate("stage.host.style.width = '800px'")
    stage.frames(3)
    first, third = (stage.box(f"g.node[data-step='{step}'][data-rank='1'] rect") for step in (1, 3))
    assert third["left"] - first["left"] == pytest.approx(2 * 104, abs=0.1)


def test_lines_of_several_heads_have_larger_letters(stage: Stage) -> None:
    several.shown(stage)
    larger(stage, ".strands > svg")
    stage.move(".strands rect[data-side='key'][data-index='2']", 5, 5)
    assert not stage.hidden(".tip")


def test_maps_are_larger_and_the_pointer_hits_the_right_cell(stage: Stage) -> None:
    at, arrays = maps.maps_shown(stage)
    assert at["tall"] == pytest.approx(max(at["side"], 26 / SCALE))
    assert stage.box(".cells")["height"] == pytest.approx(
        SCALE * (74 + maps.ROWS * at["tall"] + 44), abs=1
    )
    stage.move(
        ".cells", SCALE * (at["left"] + 5.5 * at["side"]), SCALE * (at["top"] + 3.5 * at["tall"])
    )
    assert (stage.data(".tip")["row"], stage.data(".tip")["col"]) == ("3", "5")
    outline = stage.drawn(".marks", "frame")[-1]
    assert (outline["x"], outline["w"]) == pytest.approx(
        (SCALE * (at["left"] + 5 * at["side"]), SCALE * at["side"]), abs=0.5
    )
    assert float(stage.data(".tip")["value"]) == pytest.approx(float(arrays["map0"][3, 5]))


def test_the_masks_of_an_order_have_larger_letters_and_are_no_higher(stage: Stage) -> None:
    scope = order.scope.__wrapped__()
    stage.page.evaluate("document.documentElement.style.removeProperty('--attnscope-scale')")
    stage.mount("order", 900).show(order.payload(scope, position=0))
    before = stage.box(".seen canvas")
    stage.page.evaluate(
        f"document.documentElement.style.setProperty('--attnscope-scale', '{SCALE}')"
    )
    stage.mount("order", 900).show(order.payload(scope, position=0))
    after, names = stage.box(".seen canvas"), stage.written(".seen canvas")
    assert after["height"] <= before["height"] + SCALE * 22
    left, cell = 0.36 * stage.box(".seen section")["width"] / SCALE, 26
    assert names["b 1"]["x"] == pytest.approx(SCALE * (min(150, left) - 6), abs=0.5)
    stage.click(".seen canvas", SCALE * (min(150, left) + 2.5 * cell), SCALE * (20 + 1.5 * cell))
    assert stage.sent == [["pick", {"position": 1}]]


def test_states_are_named_larger_and_the_pointer_reads_a_number(stage: Stage) -> None:
    stage.mount("states", 700).show(states.payload())
    assert stage.box(".cells")["height"] == pytest.approx(420, abs=1)
    at = {name: float(stage.data(".states")[name]) for name in ("left", "top", "side", "tall")}
    assert at["tall"] == pytest.approx(40 / SCALE)
    stage.move(
        ".cells", SCALE * (at["left"] + 2.5 * at["side"]), SCALE * (at["top"] + 1.5 * at["tall"])
    )
    assert stage.text(".tip .number") == "2.00000"
