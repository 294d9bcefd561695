"""On a phone every page is at most two screens high, and the head follows the text that is typed."""

import pytest
from playwright.sync_api import Page
from served_app import boxes, go, resized

SCREEN = 420, 900
# each page with the shipped model, and the high ones with other kinds
PAGES = [
    *(
        (page, "eng-fra")
        for page in ("", "task", "inside", "layer", "positions", "masks", "interventions", "decoding", "compare", "from-rnn")
    ),
    ("masks", "xlnet"),
    ("inside", "gpt"),
    ("", "bert"),
]  # fmt: skip
HEIGHT = "document.querySelector('[data-testid=stMain]').scrollHeight"


@pytest.mark.parametrize(("path", "checkpoint"), PAGES)
def test_a_page_is_at_most_two_screens_on_a_phone(
    shared_page: Page, path: str, checkpoint: str
) -> None:
    resized(shared_page, *SCREEN)
    go(shared_page, path, ".next button", checkpoint=checkpoint)
    resized(shared_page, *SCREEN)
    assert shared_page.evaluate(HEIGHT) <= 2 * SCREEN[1]
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= SCREEN[0]


def test_the_chosen_head_is_in_sight_with_the_text(shared_page: Page) -> None:
    resized(shared_page, *SCREEN)
    go(shared_page, "", ".head[data-painted]")
    source, head = boxes(shared_page, ".st-key-source", ".head .map .stage")
    assert source["top"] >= 0
    assert head["bottom"] <= SCREEN[1]


def test_the_lines_of_a_head_open_on_a_phone(shared_page: Page) -> None:
    resized(shared_page, *SCREEN)
    go(shared_page, "", ".head[data-painted]")
    assert not shared_page.locator(".head .lines").is_visible()
    shared_page.locator(".head summary").click()
    shared_page.locator(".head .lines path").first.wait_for(state="attached")
    resized(shared_page, 1280, 720)
    assert shared_page.locator(".head .lines").is_visible()
    assert not shared_page.locator(".head summary").is_visible()


def test_the_tokens_of_masks_are_one_of_the_pictures_on_a_phone(shared_page: Page) -> None:
    resized(shared_page, *SCREEN)
    go(shared_page, "masks", ".masks .effect .title", checkpoint="eng-fra")
    assert not shared_page.locator(".masks .panel.tokens").is_visible()
    shared_page.get_by_role("button", name="Tokens", exact=True).click()
    assert shared_page.locator(".masks .panel.tokens").is_visible()
    assert not shared_page.locator(".masks .panel.after").is_visible()
    resized(shared_page, 1280, 720)
    assert shared_page.locator(".masks .panel.after").is_visible()
    assert shared_page.locator(".masks .panel.tokens").is_visible()
