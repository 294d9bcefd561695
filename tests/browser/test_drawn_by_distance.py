"""The component `by_distance` by itself: every number is where the drawn axes say."""

import re

import numpy as np
import pytest
from stage import ACCENT, QUIET, SAVED, Stage, hex_of

from viz_app.drawing.payload import pack

AXES = ["distance of query and key", "score"]
DISTANCES = np.arange(-3, 4, dtype=np.int32)
MEAN = np.array([1.5, -2.25, 0, 6.75, 3, -1, 0.125], np.float32)
LEAST, LARGEST = MEAN - np.float32(0.5), MEAN + np.arange(7, dtype=np.float32) / 8
PAIRS = np.array([1, 2, 3, 4, 3, 2, 1], np.int32)
HEADER = {
    "title": "Head 2: score by distance",
    "axes": AXES,
    "domain": [-3.1, 7.7],
    "marked": None,
    "file": "scores",
    **SAVED,
}
WIDTH, HEIGHT = 560, 280


def banded(**changes: object) -> bytes:
    return pack(
        HEADER | changes, distance=DISTANCES, value=MEAN, least=LEAST, largest=LARGEST, pairs=PAIRS
    )


def alone(n: int = 7, **changes: object) -> bytes:
    return pack(
        HEADER | {"marked": 2} | changes, distance=np.arange(n, dtype=np.int32), value=MEAN[:n]
    )


def places(stage: Stage, path: str) -> list[tuple[float, float]]:
    found = re.findall(r"(-?[\d.e-]+) (-?[\d.e-]+)", stage.attr(path, "d"))
    return [(float(x), float(y)) for x, y in found]


def scales(stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """Return (factor, offset) from a distance to its x and from a score to its y, read from the drawn ticks."""
    texts = stage.elements("svg text", "x", "y", "text-anchor", "fill")
    across = [
        (int(text), float(x))
        for text, x, _, anchor, fill in texts
        if anchor == "middle" and hex_of(fill) == QUIET
    ]
    up = [(float(text), float(y) - 4) for text, _, y, anchor, _ in texts if anchor == "end"]
    lines = {round(float(y), 2) for y in stage.attrs("svg line[x2]", "y1")}
    assert {round(y, 2) for _, y in up} <= lines
    assert len(up) >= 3
    return np.polyfit(*zip(*across, strict=True), 1), np.polyfit(*zip(*up, strict=True), 1)


def test_the_line_and_its_band_are_where_the_axes_say(stage: Stage) -> None:
    stage.mount("by_distance", WIDTH).show(banded())
    x, y = scales(stage)
    assert x[0] > 0 > y[0]  # to the right and upwards
    expected = [(np.polyval(x, d), np.polyval(y, v)) for d, v in zip(DISTANCES, MEAN, strict=True)]
    np.testing.assert_allclose(places(stage, ".line"), expected, atol=0.05)
    there = [(np.polyval(x, d), np.polyval(y, v)) for d, v in zip(DISTANCES, LARGEST, strict=True)]
    back = [(np.polyval(x, d), np.polyval(y, v)) for d, v in zip(DISTANCES, LEAST, strict=True)]
    np.testing.assert_allclose(places(stage, ".band"), there + back[::-1], atol=0.05)
    assert hex_of(stage.attr(".line", "stroke")) == hex_of(stage.attr(".band", "fill")) == ACCENT
    assert stage.attr(".line", "fill") == "none"
    assert not stage.elements("circle")
    assert (
        stage.text(".title")
        == stage.attr(".title", "title")
        == stage.attr("svg", "aria-label")
        == HEADER["title"]
    )
    assert {AXES[0], AXES[1]} <= set(stage.texts("svg text"))
    assert "rotate(-90)" in next(
        how for text, how in stage.elements("svg text", "transform") if text == AXES[1]
    )
    assert all(0 <= px <= WIDTH and 0 <= py <= HEIGHT for px, py in places(stage, ".band"))


def test_one_score_at_each_distance_has_no_band_and_its_position_in_the_text_is_marked(
    stage: Stage,
) -> None:
    stage.mount("by_distance", WIDTH).show(alone())
    x, y = scales(stage)
    ((_, left, top, colour),) = stage.elements("circle.marked", "cx", "cy", "fill")
    assert (float(left), float(top)) == (
        pytest.approx(np.polyval(x, 2), abs=0.05),
        pytest.approx(np.polyval(y, MEAN[2]), abs=0.05),
    )
    assert colour == "#D55E00"
    assert not stage.elements(".band")


def test_hovering_shows_the_exact_numbers_at_the_nearest_distance(stage: Stage) -> None:
    stage.mount("by_distance", WIDTH).show(banded())
    x, _ = scales(stage)
    for distance, said in (
        (-3, "distance -3: mean 1.50000, least 1, largest 1.50000 of 1 pair"),
        (0, "distance 0: mean 6.75000, least 6.25000, largest 7.12500 of 4 pairs"),
        (1, "distance 1: mean 3.00000, least 2.50000, largest 3.50000 of 3 pairs"),
    ):
        stage.move("svg", np.polyval(x, distance + 0.3), 60)
        assert stage.text(".tip") == said
        (rule,) = stage.attrs("svg line:last-of-type", "x1")
        assert float(rule) == pytest.approx(np.polyval(x, distance), abs=0.05)
    stage.away()
    assert stage.hidden(".tip")
    stage.show(alone(), (1, 2))
    x, _ = scales(stage)
    for distance, more in ((2, ", their distance in the text"), (4, "")):
        stage.move("svg", np.polyval(x, distance), 200)
        assert stage.text(".tip").startswith(f"distance {distance}: score ")
        assert stage.text(".tip").endswith(more or "0")
    stage.show(alone(5), (1, 3))
    assert stage.hidden(".tip")  # of a picture that is no longer there


@pytest.mark.parametrize("width", [300, 1240])
def test_its_size_is_the_same_whatever_the_text(stage: Stage, width: int) -> None:
    stage.mount("by_distance", width).show(banded())
    height = stage.box(".by-distance")["height"]
    for n, domain in ((1, [0, 1e-9]), (2, [-1e-4, 0]), (7, [-40_000, 123_456])):
        stage.show(alone(n, domain=domain), (1, n + 1))
        assert stage.box(".by-distance")["height"] == height
        texts = [stage.box("svg text", i) for i in range(len(stage.texts("svg text")))]
        root = stage.box(".by-distance")
        assert all(
            box["left"] >= root["left"] - 1 and box["right"] <= root["right"] + 1 for box in texts
        ), texts
    stage.show(alone(1, marked=0, domain=[0, 2]), (1, 99))
    assert len(stage.elements("circle")) == 2  # a line with one point would be invisible


def test_the_picture_as_a_file(stage: Stage) -> None:
    stage.mount("by_distance", WIDTH).show(banded())
    name, svg = stage.saved_svg(".svg")
    assert name == "scores.svg"
    assert svg[1].text == HEADER["title"]
