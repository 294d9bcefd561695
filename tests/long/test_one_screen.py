"""Cause and effect on one screen of a small projector, 1280×720: a control and its effect are in sight together."""

import pytest
from playwright.sync_api import Page
from served_app import boxes, go, wait_until_idle

TALL = 720  # px
# page → the other parameters of its URL, and the elements in sight: the control and what it changes
SCREENS = {
    "masks": (
        "masks",
        {},
        [".st-key-which", ".masks .stage.paintable", ".masks .story", ".masks .panel.after .stage"],
    ),
    "walk": ("inside", {}, [".st-key-which", ".walk .track", ".walk .sentence", ".walk .stage"]),
    "matrices": (
        "inside",
        {"inside-view": "matrices"},
        [".st-key-which", ".choice", ".matrices .equation >> nth=0"],
    ),
    "sum of heads": ("inside", {"inside-view": "heads"}, [".st-key-which", ".heads .stage"]),
    "several heads": (
        "inside",
        {"inside-view": "several"},
        [".st-key-which", ".several .ranking", ".several .strands > svg"],
    ),
    "scaling": (
        "inside",
        {"inside-view": "scaling"},
        [".st-key-which", "[data-testid=stVegaLiteChart]"],
    ),
    "greedy": (
        "decoding",
        {},
        [".st-key-which", ".stepper .controls", ".stepper .lanes", ".stepper .panel.serial .bars"],
    ),
    "sampling": (
        "decoding",
        {"decoding-how": "sampling"},
        [".st-key-which", ".stepper .lanes", ".stepper .panel.serial .bars"],
    ),
    "forced": (
        "decoding",
        {"force": "2:30"},
        [".stepper .fork", ".stepper .lanes", ".stepper .panel.serial h2"],
    ),
    "beam": (
        "decoding",
        {"decoding-how": "beam"},
        [".st-key-which", ".beam .tree-scroll", ".beam .lead", ".beam .bars"],
    ),
    "layer": ("layer", {}, [".st-key-which", ".layer .tokens", ".layer .all svg"]),
}


@pytest.mark.parametrize("name", SCREENS)
def test_cause_and_effect_are_on_one_screen(shared_page: Page, name: str) -> None:
    path, params, parts = SCREENS[name]
    go(shared_page, path, parts[-1], source="She is reading a book.", **params)
    wait_until_idle(shared_page)
    found = dict(zip(parts, boxes(shared_page, *parts), strict=True))
    ends = {part: round(box["bottom"]) for part, box in found.items()}
    assert all(end <= TALL for end in ends.values()), ends
    assert all(box["y"] >= 0 for box in found.values()), found


def test_the_headline_is_in_the_same_place_on_every_page(shared_page: Page) -> None:
    places = set()
    for path in (
        "",
        "task",
        "inside",
        "layer",
        "positions",
        "masks",
        "decoding",
        "from-rnn",
        "models",
    ):
        go(shared_page, path, ".headline")
        wait_until_idle(shared_page)
        (box,) = boxes(shared_page, ".headline")
        places.add((round(box["x"]), round(box["y"])))
    assert len(places) == 1, places
