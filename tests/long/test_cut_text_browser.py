"""No text is cut off by its control or lies under another: on a phone, on a projector, on a wall."""

import pytest
from playwright.sync_api import Page
from served_app import boxes, go, resize

PHONE, SMALL, WALL = (420, 900, ""), (1280, 720, ""), (1920, 1080, "1")
# text that does not fit into its element: text inputs, and elements that do not scroll
CUT = """(selector) => {
  const all = [document, ...[...document.querySelectorAll("*")].map((one) => one.shadowRoot).filter(Boolean)];
  return all.flatMap((root) => [...root.querySelectorAll(selector)])
    .filter((e) => e.checkVisibility() && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1))
    .map((e) => e.value ?? e.textContent);
}"""
# path, screen, elements: each had a cut text once
HELD = [
    *(("masks", screen, "[class*=st-key-masks-ready] input") for screen in (SMALL, WALL)),
    *(("train", screen, ".st-key-train-settings .stSelectbox input") for screen in (PHONE, SMALL, WALL)),
    ("inside", WALL, ".st-key-similarity-choice input"),
    *(("lessons", screen, ".st-key-class-lesson input") for screen in (SMALL, WALL)),
]  # fmt: skip


@pytest.mark.parametrize(("path", "screen", "elements"), HELD)
def test_its_text_fits(
    shared_page: Page, path: str, screen: tuple[int, int, str], elements: str
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    link = {"checkpoint": "eng-fra"} | ({"present": present} if present else {})
    go(shared_page, path, elements, **link)
    assert shared_page.evaluate(CUT, elements) == []


def test_the_share_above_the_tallest_bar_is_whole_on_a_wall(shared_page: Page) -> None:
    resize(shared_page, *WALL[:2])
    go(shared_page, "from-rnn", ".versions .column span", checkpoint="eng-fra", present="1")
    shares = shared_page.locator(".versions .column span").all()
    columns, *places = boxes(shared_page, ".versions .columns", *shares)
    assert min(place["top"] for place in places) >= columns["top"]


def test_the_numbers_of_heads_have_room_on_a_wall(shared_page: Page) -> None:
    resize(shared_page, *WALL[:2])
    go(shared_page, "interventions", ".board td button", checkpoint="eng-fra", present="1")
    spare = """(all) => all.map((e) => {
      const range = document.createRange();
      range.selectNodeContents(e);
      return e.clientWidth - range.getBoundingClientRect().width;
    })"""
    cells = shared_page.locator(".board td button")
    assert min(cells.evaluate_all(spare)) >= 8


@pytest.mark.parametrize("screen", [PHONE, SMALL])
def test_the_link_for_newcomers_is_beside_the_headline_or_above_it(
    shared_page: Page, screen: tuple[int, int, str]
) -> None:
    resize(shared_page, *screen[:2])
    go(shared_page, "", ".head[data-painted]", checkpoint="eng-fra")
    door, headline = boxes(shared_page, ".st-key-first-lesson button p", ".headline h1")
    assert door["left"] >= headline["right"] or door["bottom"] <= headline["top"]


@pytest.mark.parametrize("screen", [PHONE, SMALL, WALL])
def test_names_of_the_lanes_end_before_the_first_column(
    shared_page: Page, screen: tuple[int, int, str]
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    link = {"checkpoint": "eng-fra"} | ({"present": present} if present else {})
    go(shared_page, "decoding", ".stepper .column", **link)
    ends = """() => {
      const root = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".stepper")).shadowRoot;
      const right = (e) => { const range = document.createRange(); range.selectNodeContents(e); return range.getBoundingClientRect().right; };
      return [...root.querySelectorAll(".lane-names div:not(.title, .head)")].map(right);
    }"""
    (column,) = boxes(shared_page, ".stepper .column")
    assert all(end <= column["left"] for end in shared_page.evaluate(ends))
