"""A head's weights over a sound and over an image: the position of each weight, and the sentences about it."""

from typing import Any

import numpy as np
import pytest
from stage import ACCENT, INK, PAPER, SAVED, Stage, alike

from viz_app.drawing.payload import pack

HEARD, FRAMES, STEP = 5, 8, 0.2
LEVELS = np.array(
    [30 * k for k in range(FRAMES)]
)  # of the upper band; the lower band is its reverse
WEIGHTS = np.array(
    [[0.4, 0.0, 0.2, 0.1, 0.0, 0.05, 0.05, 0.2], [0.0, 0.1, 0.0, 0.7, 0.1, 0.1, 0.0, 0.0]],
    np.float32,
)
BLOCKED = np.zeros((2, FRAMES), np.uint8)
BLOCKED[0, 1], BLOCKED[0, 4] = 1, 2  # by the first mask, by the second
PALE, COVER = 0.5, 0.88
HEAD = {
    "site": "s", "head": 0, "title": "Head 1, over it", "layer": "Layer 1", "query": 0, "lock": "", "first": 0,
    "masks": ["padding", "window of 2"], "scale": "weight", "file": "m.over", **SAVED,
}  # fmt: skip


def mixed(one: str, other: str, share: float) -> str:
    pairs = zip(*(bytes.fromhex(colour[1:]) for colour in (one, other)), strict=True)
    return "#" + bytes(round(a + (b - a) * share) for a, b in pairs).hex()


def sound(**header: Any) -> bytes:
    columns = np.repeat(LEVELS, 2)  # two columns of the spectrogram to a frame
    return pack(
        HEAD | {
            "queries": [["a", "", False], ["b", "", False]], "keys": [f"{k * STEP:.1f} s" for k in range(FRAMES)],
            "readsItself": False, "isInput": True, "step": STEP, "seconds": HEARD * STEP, "bands": 2, "heard": HEARD,
            "areFrames": True, "rows": 1, "columns": FRAMES, "before": 0, "size": [1, 1], "stride": [1, 1],
        } | header,
        spectrogram=np.stack([columns, columns[::-1]]).astype(np.uint8),
        weights=WEIGHTS, blocked=BLOCKED, heads=WEIGHTS, headsBlocked=BLOCKED,
    )  # fmt: skip


@pytest.fixture
def map_of_sound(stage: Stage) -> Stage:
    return stage.mount("sound_map").show(sound())


def test_the_sound_and_the_weights_over_it_end_together(map_of_sound: Stage) -> None:
    stage = map_of_sound
    wide, tall = stage.box(".cells")["width"], stage.box(".cells")["height"]
    plain, over = stage.pixels(".plain"), stage.pixels(".cells")
    for k in range(HEARD):
        x, level = (k + 0.5) * wide / HEARD, LEVELS[k] / 255
        assert alike(plain.at(x, tall / 4), mixed(PAPER, INK, level), 2)
        assert alike(plain.at(x, 3 * tall / 4), mixed(PAPER, INK, LEVELS[-1 - k] / 255), 2)
        if not BLOCKED[0, k]:
            ground = mixed(PAPER, INK, PALE * level)
            wanted = mixed(ground, ACCENT, COVER * float(WEIGHTS[0, k]))
            assert alike(over.at(x, tall / 4), wanted, 2)
    stage.click(".extent")
    plain, level = stage.pixels(".plain"), LEVELS[6] / 255
    assert alike(plain.at(6.5 * wide / FRAMES, tall / 4), mixed(PAPER, INK, level), 2)


def test_the_axis_gives_the_time_of_the_frame_above(map_of_sound: Stage) -> None:
    stage, wide = map_of_sound, map_of_sound.box(".plain")["width"]
    marks = stage.written(".plain")
    assert list(marks) == [f"{i / 10:g} s" for i in range(10)]
    for text, mark in marks.items():
        assert mark["x"] == pytest.approx(float(text[:-2]) / (HEARD * STEP) * wide + 3, abs=0.6)
    stage.click(".extent")
    marks = stage.written(".plain")
    assert marks["1.2 s"]["x"] == pytest.approx(1.2 / (FRAMES * STEP) * wide + 3, abs=0.6)


def test_a_short_sound_is_offered_with_its_length(stage: Stage) -> None:
    stage.mount("sound_map").show(sound(heard=2, step=0.02, seconds=0.04))
    stage.click(".extent")
    assert stage.text(".extent") == "Show the sound alone, 0.04 s"


def test_only_cells_blocked_by_a_mask_are_hatched(map_of_sound: Stage) -> None:
    stage, wide = map_of_sound, map_of_sound.box(".cells")["width"]
    lefts = [path["clip"]["x"] * HEARD / wide for path in stage.drawn(".cells", "path")]
    assert lefts == pytest.approx([1, 4], abs=0.02)  # frame 1 by one mask, 4 by another
    for k, said in ((1, "masked (padding)"), (4, "masked (window of 2)"), (2, "weight 0.2")):
        stage.move(".cells", (k + 0.5) * wide / HEARD, 9)
        assert stage.text(".tip .where") == f"a → {k * STEP:.1f} s"
        assert stage.text(".tip .value").startswith(said)


def test_the_sentence_splits_the_row_between_sound_and_silence(map_of_sound: Stage) -> None:
    said = map_of_sound.text(".reading")
    assert said.startswith("a gives 70 % of its attention to the sound, most to 0.0 s 0.400, ")
    assert "0.4 s 0.200, 0.6 s 0.100. 30 % is on the silence" in said


def test_every_small_head_has_its_own_weights(map_of_sound: Stage) -> None:
    stage = map_of_sound
    for head in range(2):
        box, drawn = stage.box(".small canvas", head), stage.pixels(".small canvas", head)
        for k in range(HEARD):
            if not BLOCKED[head, k]:
                ground = mixed(PAPER, INK, PALE * LEVELS[k] / 255)
                wanted = mixed(ground, ACCENT, COVER * float(WEIGHTS[head, k]))
                seen = drawn.at((k + 0.5) * box["width"] / HEARD, box["height"] / 4)
                assert alike(seen, wanted, 3)


def test_a_frame_is_hovered_where_it_is_drawn(stage: Stage) -> None:
    square = np.resize(WEIGHTS, (FRAMES, FRAMES))
    frames = stage.change(
        sound(readsItself=True, queries=[[f"{k * STEP:.1f} s", "", False] for k in range(FRAMES)]),
        {"weights": square, "blocked": np.zeros_like(square, np.uint8)},
    )
    stage.mount("sound_map").show(frames)
    wide = stage.box(".plain")["width"]
    stage.move(".plain", 3.5 * wide / HEARD, 9)
    assert stage.data(".sound-map")["shown"] == "3"
    assert stage.text(".what") == "What the frame at 0.6 s attends to"
    assert stage.text(".reading").startswith("0.6 s gives 90 % of its attention to the sound")


GRID_SIZE, GRID_STRIDE, GRID_ROWS, GRID_COLUMNS = (5, 6), (3, 4), 2, 3
SPECIAL = 1


def patches(**header: Any) -> bytes:
    """Two rows of three overlapping patches after a special token; the last column is padding."""
    n = SPECIAL + GRID_ROWS * GRID_COLUMNS
    names = [["[CLS]", "", True], *([f"p{i}", f"extent {i}", False] for i in range(1, n))]
    bands = GRID_STRIDE[0] + GRID_SIZE[0]
    columns = (GRID_COLUMNS - 1) * GRID_STRIDE[1] + GRID_SIZE[1]
    weights = np.full((n, n), 0.05, np.float32)
    weights[0], weights[5] = [0.3, 0, 0.4, 0.2, 0.1, 0, 0], [0.1, 0.5, 0, 0.1, 0, 0.3, 0]
    blocked = np.zeros((n, n), np.uint8)
    return pack(
        HEAD | {
            "queries": names, "keys": [name for name, *_ in names], "readsItself": True, "isInput": True,
            "step": 0.4, "seconds": 0.9, "bands": bands, "heard": 2, "areFrames": False, "rows": GRID_ROWS,
            "columns": GRID_COLUMNS, "before": SPECIAL, "size": GRID_SIZE, "stride": GRID_STRIDE,
        } | header,
        spectrogram=np.zeros((bands, columns), np.uint8), weights=weights, blocked=blocked,
        heads=weights[:2], headsBlocked=blocked[:2],
    )  # fmt: skip


def nearest(x: float, y: float, columns: int) -> tuple[int, int]:
    """Return the row and column, from below, of the patch whose middle is nearest to a point given as shares of the picture."""
    bands, wide = (
        (n - 1) * stride + size
        for n, stride, size in zip((GRID_ROWS, columns), GRID_STRIDE, GRID_SIZE, strict=True)
    )
    middles = {
        (row, column): (row * GRID_STRIDE[0] + GRID_SIZE[0] / 2, column * GRID_STRIDE[1] + 3)
        for row in range(GRID_ROWS)
        for column in range(columns)
    }
    return min(
        middles,
        key=lambda place: max(
            abs(middles[place][0] - y * bands) / GRID_STRIDE[0],
            abs(middles[place][1] - x * wide) / GRID_STRIDE[1],
        ),
    )


def test_a_point_has_the_weight_of_the_patch_whose_middle_is_nearest(stage: Stage) -> None:
    stage.mount("sound_map").show(patches())
    assert stage.text(".what").startswith("What [CLS] attends to. Patches overlap")
    box, over = stage.box(".cells"), stage.pixels(".cells")
    row_of_cls = [0.3, 0, 0.4, 0.2, 0.1, 0, 0]
    for x in (0.05, 0.35, 0.45, 0.55, 0.65, 0.95):
        for y in (0.1, 0.4, 0.6, 0.9):  # from below
            row, column = nearest(x, y, 2)
            weight = row_of_cls[SPECIAL + row * GRID_COLUMNS + column]
            seen = over.at(x * box["width"], (1 - y) * box["height"])
            assert alike(seen, mixed(PAPER, ACCENT, COVER * weight), 2)
            stage.move(".plain", x * box["width"], (1 - y) * box["height"])
            shown = SPECIAL + row * GRID_COLUMNS + column
            assert stage.data(".sound-map")["shown"] == str(shown)
            assert stage.text(".what").startswith(f"What p{shown} (extent {shown}) attends to")


def test_special_token_and_padding_have_their_shares_beside_patches(stage: Stage) -> None:
    stage.mount("sound_map").show(patches(query=5))
    said = stage.text(".reading")
    assert said.startswith(
        "p5 gives 80 % of its attention to the sound, most to p1 0.500, p5 0.300"
    )
    assert "10 % is on the padding that is put after it" in said
    assert stage.text(".queries button") == "[CLS] 10 %"
    assert stage.text(".extent") == "Show all 1.4 s, with the padding after it"
    stage.click(".extent")
    assert stage.text(".extent") == "Show the sound alone, 0.9 s"


def test_the_outline_is_around_everything_that_the_query_covers(stage: Stage) -> None:
    stage.mount("sound_map").show(patches(query=5))  # of the upper row, second column
    box = stage.box(".cells")
    rect = stage.drawn(".cells", "frame")[0]
    assert rect["y"] == pytest.approx(0, abs=1)
    assert rect["h"] == pytest.approx(5 / 8 * box["height"], abs=1)
    assert rect["x"] == pytest.approx(4 / 10 * box["width"], abs=2)
    assert rect["w"] == pytest.approx(6 / 10 * box["width"], abs=3)


def test_an_image_of_unknown_colours_is_not_called_the_image(stage: Stage) -> None:
    grey = np.zeros((2, 3, 3), np.uint8)
    header = {
        "rows": 2,
        "columns": 3,
        "size": [2, 3],
        "before": 1,
        "tokens": [["x", "", False]] * 7,
    }
    blocked = np.zeros((1, 7), np.uint8)
    arrays = {"weights": PATCHES, "blocked": blocked, "heads": PATCHES, "headsBlocked": blocked}
    for is_stretched, caption in (
        (False, "The image as the model reads it"),
        (True, "What the model reads, from its smallest numbers (black) to its largest (white)"),
    ):
        about = HEAD | header | {"isStretched": is_stretched}
        stage.mount("image_map", 900).show(pack(about, pixels=grey, **arrays))
        assert stage.text(".image figcaption") == caption


ROWS, COLUMNS = 2, 3
PATCHES = np.array([[0.3, 0.25, 0.0, 0.1, 0.05, 0.2, 0.1]], np.float32)  # [CLS], then row by row


def test_a_weight_is_drawn_over_its_patch(stage: Stage) -> None:
    greys = np.array([[0, 50, 100], [150, 200, 250]], np.uint8)
    blocked = np.zeros((1, 7), np.uint8)
    blocked[0, 2] = 1
    header = {
        "rows": ROWS, "columns": COLUMNS, "size": [ROWS, COLUMNS], "before": 1,
        "tokens": [["[CLS]", "", True], *([f"r{r + 1}c{c + 1}", "", False] for r in range(ROWS) for c in range(COLUMNS))],
    }  # fmt: skip
    arrays = {"weights": PATCHES, "blocked": blocked, "heads": PATCHES, "headsBlocked": blocked}
    pixels = np.repeat(greys[..., None], 3, 2)
    stage.mount("image_map", 900).show(pack(HEAD | header, pixels=pixels, **arrays))
    box, over = stage.box(".cells"), stage.pixels(".cells")
    wide, tall = box["width"] / COLUMNS, box["height"] / ROWS
    for r in range(ROWS):
        for c in range(COLUMNS):
            if (r, c) != (0, 1):
                ground = mixed(f"#{3 * f'{greys[r, c]:02x}'}", PAPER, PALE)
                wanted = mixed(ground, ACCENT, COVER * float(PATCHES[0, 1 + r * COLUMNS + c]))
                at = ((c + 0.5) * wide, (r + 0.5) * tall)
                assert alike(over.at(*at), wanted, 3), (r, c)
    (hatched,) = stage.drawn(".cells", "path")
    assert (hatched["clip"]["x"], hatched["clip"]["y"]) == pytest.approx((wide, 0), abs=0.6)
    stage.move(".cells", 2.5 * wide, 1.5 * tall)
    assert stage.text(".tip .where") == "[CLS] → r2c3"
    assert stage.text(".tip .value").startswith("weight 0.1")
    assert stage.text(".reading").startswith("[CLS] gives 70 % of its attention to the patches")
