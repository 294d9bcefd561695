"""The pages that compare fit one viewport: question, controls and picture end within it, normal and presented."""

import pytest
from playwright.sync_api import Page, expect
from served_app import boxes, go, resize, wait_until_idle

RNN, POSITIONS = "from-rnn-section", "positions-section"
PLOT, CHART = "[data-testid=stPlotlyChart]", "[data-testid=stVegaLiteChart]"
# the comparison → its page, the other parameters of its URL, and its picture
SCREENS = {
    "three models": ("from-rnn", {}, ".versions"),
    "reach, every pair": ("from-rnn", {RNN: "What reaches what"}, ".maps .pictures"),
    "reach, by distance": (
        "from-rnn",
        {RNN: "What reaches what", "from-rnn-reach": "Mean by distance"},
        PLOT,
    ),
    "cost, steps": ("from-rnn", {RNN: "Parallel and cost"}, CHART),
    "cost, times": ("from-rnn", {RNN: "Parallel and cost", "from-rnn-cost": "Times"}, CHART),
    "cost, table": ("from-rnn", {RNN: "Parallel and cost", "from-rnn-cost": "Table 1"}, "table"),
    "sentence length": ("from-rnn", {RNN: "Sentence length"}, CHART),
    "two alignments": ("from-rnn", {RNN: "Two alignments"}, ".maps .pictures"),
    "stages": ("from-rnn", {RNN: "Stages, on dates"}, "[data-testid=stDataFrame]"),
    "stages, curves": (
        "from-rnn",
        {RNN: "Stages, on dates", "from-rnn-learning": "How fast each learns"},
        PLOT,
    ),
    "similarities": ("from-rnn", {RNN: "Similarities"}, "[data-testid=stDataFrame]"),
    "shuffle": ("positions", {}, ".st-key-positions-shuffle .shuffle .place"),
    "curves": ("positions", {POSITIONS: "Curves"}, CHART),
    "map": ("positions", {POSITIONS: "Map"}, PLOT),
    "misprints": ("positions", {POSITIONS: "Two misprints"}, PLOT),
    "misprints, similarity": (
        "positions",
        {POSITIONS: "Two misprints", "positions-picture": "similarity"},
        CHART,
    ),
    "misprints, shift": (
        "positions",
        {POSITIONS: "Two misprints", "positions-picture": "plane"},
        CHART,
    ),
    "added": ("positions", {POSITIONS: "Added or concatenated"}, PLOT),
    "score by distance": ("positions", {POSITIONS: "Score by distance"}, ".by-distance"),
    "matrices": ("inside", {"inside-view": "matrices"}, ".matrices .equations"),
}
SMALL, LARGE, PRESENTED = (1280, 720, ""), (1920, 1080, ""), (1280, 720, "1")
ON_A_WALL = (1920, 1080, "1")
# every picture on the small screen and on a wall, and every second one on each of the others
PLACES = [
    *((name, size) for name in SCREENS for size in (SMALL, ON_A_WALL)),
    *((name, PRESENTED) for name in [*list(SCREENS)[::2], "map", "two alignments"]),
    *((name, LARGE) for name in list(SCREENS)[1::2]),
]


def test_a_section_that_the_model_lacks_is_disabled_with_the_reason(shared_page: Page) -> None:
    go(shared_page, "from-rnn", CHART, checkpoint="gpt")  # it opens on the first available section
    sections = shared_page.locator(".st-key-from-rnn-section")
    lacking = sections.locator("[data-lacks]")
    expect(lacking).to_have_count(4)
    first = lacking.first
    assert first.get_attribute("title").startswith("This model does not translate. ")
    expect(first).to_have_attribute("aria-disabled", "true")
    first.click(force=True)
    wait_until_idle(shared_page)
    expect(shared_page.locator(CHART).first).to_be_visible()
    expect(sections.get_by_text("Sentence length")).not_to_have_attribute("data-lacks", "")
    sections.get_by_text("Similarities").click()
    expect(shared_page.locator("[data-testid=stDataFrame]")).to_be_visible()
    go(shared_page, "from-rnn", ".versions[data-painted]", checkpoint="eng-fra")
    expect(lacking).to_have_count(0)


@pytest.mark.parametrize(("name", "size"), PLACES)
def test_the_picture_and_its_controls_end_within_the_window(
    shared_page: Page, name: str, size: tuple[int, int, str]
) -> None:
    path, params, picture = SCREENS[name]
    width, height, present = size
    resize(shared_page, width, height)
    presented = {"present": present} if present else {}
    go(shared_page, path, picture, **params, **presented)
    of_main = f"[data-testid=stMain] :is({picture})" if picture[0] != "." else picture
    drawn = shared_page.locator(of_main)
    ends = [box["bottom"] for box in boxes(shared_page, *drawn.all(), ".st-key-details")]
    assert max(ends) <= height, ends
    assert shared_page.locator("[data-testid=stMain]").evaluate("e => e.scrollTop") == 0


def test_the_text_on_the_shuffle_test_is_in_sight_with_it(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "positions", ".st-key-positions-shuffle .shuffle .place", checkpoint="eng-fra")
    wait_until_idle(shared_page)
    (words,) = boxes(shared_page, ".st-key-positions-explained .plain p")
    assert words["height"] > 15
    assert words["bottom"] <= 720
