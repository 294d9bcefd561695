"""On a phone every page is at most two screens high, and the head follows the text that is typed."""

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Page
from served_app import boxes, go, resize, save_picture

SCREEN = 420, 900
AXE = Axe()
# each page with the shipped model, and the tall ones with other kinds
PAGES = [
    *(
        (page, "eng-fra")
        for page in ("", "task", "inside", "layer", "positions", "masks", "interventions", "decoding", "compare", "from-rnn")
    ),
    ("masks", "xlnet"),
    ("inside", "gpt"),
    ("", "bert"),
]  # fmt: skip
# pages where pictures that are side by side elsewhere are swiped: address, parameters, and the number of pictures
PINNED = {"source": "I like cats.", "pin.checkpoint": "eng-fra", "pin.source": "I like dogs."}


def beside_itself(name: str) -> dict[str, str]:
    """Return the parameters of a model that reads one text, beside its own run on another."""
    return {"checkpoint": name, "pin.checkpoint": name, "pin.text": "The dog sat here."}


SUBTRACTED = PINNED | {"difference": "true"}
BOTH_RUNS = ".st-key-both-runs > * > .stHorizontalBlock"
DIFFERENCES = ".stHorizontalBlock:has(> .stColumn .st-key-difference-2)"
SWIPED = {
    "reach": ("from-rnn", {"from-rnn-section": "What reaches what"}, ".maps .swiped", 4),
    "alignments": ("from-rnn", {"from-rnn-section": "Two alignments"}, ".maps .swiped", 2),
    "order": ("task", {"checkpoint": "xlnet"}, ".order .swiped", 2),
    "compare": ("compare", PINNED, ".difference .swiped", 3),
    "matrices": ("inside", {"inside-view": "matrices"}, ".matrices .swiped", 3),
    "patch": ("interventions", {"interventions-section": "Patch"}, ".patch .swiped", 2),
    **{
        f"pinned {page}": (page, PINNED, BOTH_RUNS, 2)
        for page in (
            "",
            "task",
            "layer",
            "positions",
            "interventions",
            "masks",
            "inside",
            "decoding",
        )
    },
    "pinned map": ("positions", PINNED | {"positions-section": "Map"}, BOTH_RUNS, 2),
    "pinned sampling": ("decoding", PINNED | {"decoding-how": "sampling"}, BOTH_RUNS, 2),
    "pinned order": ("task", beside_itself("xlnet"), BOTH_RUNS, 2),
    "pinned patch": (
        "interventions",
        beside_itself("gpt") | {"interventions-section": "Patch"},
        ".patch .swiped",
        2,
    ),
    "difference of positions": ("positions", SUBTRACTED, DIFFERENCES, 2),
    "difference of a beam": ("decoding", SUBTRACTED | {"decoding-how": "beam"}, DIFFERENCES, 2),
}
SAVED_WHOLE = {"reach": ".maps", "matrices": ".matrices"}
HEIGHT = "document.querySelector('[data-testid=stMain]').scrollHeight"


@pytest.mark.parametrize(("path", "checkpoint"), PAGES)
def test_a_page_is_at_most_two_screens_on_a_phone(
    shared_page: Page, path: str, checkpoint: str
) -> None:
    resize(shared_page, *SCREEN)
    go(shared_page, path, ".next button", checkpoint=checkpoint)
    resize(shared_page, *SCREEN)
    assert shared_page.evaluate(HEIGHT) <= 2 * SCREEN[1]
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= SCREEN[0]


def test_the_chosen_head_is_in_sight_with_the_text(shared_page: Page) -> None:
    resize(shared_page, *SCREEN)
    go(shared_page, "", ".head[data-painted]")
    source, head = boxes(shared_page, ".st-key-source", ".head .map .stage")
    assert source["top"] >= 0
    assert head["bottom"] <= SCREEN[1]


def test_the_lines_of_a_head_open_on_a_phone(shared_page: Page) -> None:
    resize(shared_page, *SCREEN)
    go(shared_page, "", ".head[data-painted]")
    assert not shared_page.locator(".head .lines").is_visible()
    shared_page.locator(".head summary").click()
    shared_page.locator(".head .lines path").first.wait_for(state="attached")
    resize(shared_page, 1280, 720)
    assert shared_page.locator(".head .lines").is_visible()
    assert not shared_page.locator(".head summary").is_visible()


def test_the_tokens_of_masks_are_one_of_the_pictures_on_a_phone(shared_page: Page) -> None:
    resize(shared_page, *SCREEN)
    go(shared_page, "masks", ".masks .effect .title", checkpoint="eng-fra")
    assert not shared_page.locator(".masks .panel.tokens").is_visible()
    shared_page.get_by_role("button", name="Tokens", exact=True).click()
    assert shared_page.locator(".masks .panel.tokens").is_visible()
    assert not shared_page.locator(".masks .panel.after").is_visible()
    resize(shared_page, 1280, 720)
    assert shared_page.locator(".masks .panel.after").is_visible()
    assert shared_page.locator(".masks .panel.tokens").is_visible()


@pytest.mark.parametrize("name", SWIPED)
def test_pictures_that_are_side_by_side_elsewhere_are_swiped_on_a_phone(
    shared_page: Page, name: str
) -> None:
    path, params, swiped, n = SWIPED[name]
    resize(shared_page, *SCREEN)
    go(shared_page, path, ".next button", **{"checkpoint": "eng-fra", **params})
    shared_page.wait_for_selector(swiped)
    assert shared_page.evaluate(HEIGHT) <= 2 * SCREEN[1]
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= SCREEN[0]
    pictures = boxes(shared_page, *(f"{swiped} > :nth-child({i + 1})" for i in range(n)))
    assert pictures[0]["right"] < pictures[1]["x"] < SCREEN[0]  # its edge is visible
    last = shared_page.locator(f"{swiped} > :last-child")
    last.scroll_into_view_if_needed()
    (box,) = boxes(shared_page, last)
    assert 0 <= box["x"] < box["right"] <= SCREEN[0]
    violations = AXE.run(shared_page).response["violations"]
    assert not violations, [
        node["html"][:200] for violation in violations for node in violation["nodes"]
    ]


@pytest.mark.parametrize("name", SAVED_WHOLE)
def test_a_picture_that_is_swiped_is_saved_whole(shared_page: Page, name: str) -> None:
    resize(shared_page, *SCREEN)
    path, params, swiped, n = SWIPED[name]
    go(shared_page, path, swiped, checkpoint="eng-fra", **params)
    shared_page.locator(swiped).evaluate("(pictures) => (pictures.scrollLeft = 100)")
    (first,) = boxes(shared_page, f"{swiped} > :first-child")
    with shared_page.expect_download() as saved:
        save_picture(shared_page, SAVED_WHOLE[name], "PNG")
    with Image.open(saved.value.path()) as picture:
        assert picture.width > n * first["width"]
        width, height = picture.size
        end = picture.convert("L").crop((width * 3 // 4, 0, width, height // 2))
    assert (np.asarray(end) < 128).mean() > 0.005  # the last picture is there


def test_an_equation_is_one_line_on_a_phone(shared_page: Page) -> None:
    resize(shared_page, *SCREEN)
    terms = ".matrices .terms"
    go(
        shared_page,
        "inside",
        f"{terms} figure",
        checkpoint="eng-fra",
        **{"inside-view": "matrices"},
    )
    for line in shared_page.locator(terms).all():
        first, last = boxes(shared_page, line.locator("> *").first, line.locator("> *").last)
        assert first["right"] < last["x"]
        assert first["top"] < last["bottom"]
        assert last["top"] < first["bottom"]


def test_each_of_two_runs_that_are_swiped_is_named(shared_page: Page) -> None:
    resize(shared_page, *SCREEN)
    go(shared_page, "", ".st-key-pin-head .head[data-painted]", **PINNED, checkpoint="eng-fra")
    columns = f"{SWIPED['pinned '][2]} > .stColumn"
    for key, name in (("head", "This run"), ("pin-head", "Pinned run")):
        column = shared_page.locator(f"{columns}:has(.st-key-{key})")
        before = column.evaluate("(column) => getComputedStyle(column, '::before').content")
        assert before == f'"{name}"'
