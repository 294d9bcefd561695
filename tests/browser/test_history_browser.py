"""The browser's Back: one press a deliberate step, and none for what is typed or slid on the way."""

import re

import pytest
from playwright.sync_api import Page, expect
from served_app import go, in_url, rested, visit

START, SITE = "24/07/69", "decoder.layers.1.cross_attn"
OTHER_SITE = "encoder.layers.0.self_attn"


def entries(page: Page) -> int:
    return page.evaluate("history.length")


def head(page: Page, site: str, number: int) -> None:
    page.locator(f'.overview button[data-site="{site}"][data-head="{number}"]').click()
    in_url(page, "site", site)
    in_url(page, "head", str(number))
    rested(page)


def test_as_many_presses_of_back_as_deliberate_steps_lead_to_the_start(page: Page) -> None:
    go(page, "", ".head[data-painted]", checkpoint="dates", source=START, site=SITE, head="2")
    start, first = page.url, entries(page)
    head(page, OTHER_SITE, 3)  # a head of another layer
    box = page.get_by_role("textbox", name="Date, in any format (type here)")
    box.press("End")
    box.press_sequentially("5 May 1990")
    in_url(page, "source", START + "5 May 1990")
    rested(page)
    assert entries(page) == first + 1  # ten letters add none
    page.get_by_role("combobox", name="Model").fill("dates-bahdanau")  # a checkpoint
    page.keyboard.press("Enter")
    in_url(page, "checkpoint", "dates-bahdanau")
    rested(page)
    page.get_by_role("link", name="Positions").first.click()  # a page
    page.wait_for_url("**/positions*")
    in_url(page, "checkpoint", "dates-bahdanau")
    rested(page)
    page.get_by_text("Curves", exact=True).click()  # a section
    in_url(page, "positions-section", "Curves")
    rested(page)
    page.locator(".st-key-positions-length input[type=range]").press("ArrowRight")
    in_url(page, "positions-length", "104")
    rested(page)
    assert entries(page) == first + 4
    for name, value in (
        ("positions-section", ""),
        ("positions-section", ""),
        ("checkpoint", "dates"),
        ("site", SITE),
    ):
        page.go_back()
        in_url(page, name, value)
        rested(page)
    assert page.url == start
    expect(page.locator(".head")).to_have_attribute("data-site", SITE)
    expect(page.locator(".written .source")).to_have_text(START)
    expect(page.get_by_role("combobox", name="Model")).to_have_value(re.compile("^dates — "))
    rested(page)  # painted before the address is written
    page.go_forward()
    in_url(page, "site", OTHER_SITE)
    expect(page.locator(".head")).to_have_attribute("data-head", "3")
    expect(page.locator(".written .source")).to_have_text(START + "5 May 1990")


@pytest.mark.parametrize("path", ["", "attention"])
def test_the_first_picture_is_one_entry_of_the_history_with_its_whole_address(
    fresh: Page, path: str
) -> None:
    fresh.goto("about:blank")
    before = entries(fresh)
    visit(fresh, path)
    in_url(fresh, "source", "She is reading a book.")
    rested(fresh)
    assert entries(fresh) == before + 1
    assert "site=" in fresh.url
    assert "head=" in fresh.url
    fresh.go_back()
    assert fresh.url == "about:blank"


def test_back_on_decoding_takes_back_a_forced_token_and_a_node_but_not_what_typing_clears(
    page: Page,
) -> None:
    go(page, "decoding", ".stepper[data-painted]", checkpoint="dates", source=START, step="4")
    start, first = page.url, entries(page)
    other = page.locator(".panel.serial .bar").nth(1)
    forced = f"4:{other.get_attribute('data-id')}"
    other.click()
    in_url(page, "force", forced)
    rested(page)
    page.locator(".st-key-decoding-how").get_by_text("beam", exact=True).click()
    in_url(page, "decoding-how", "beam")
    page.locator(".beam .node[data-step='4'][data-rank='2']").click()
    in_url(page, "node", "4:2")
    rested(page)
    assert entries(page) == first + 3
    for name, value in (("node", ""), ("decoding-how", ""), ("force", "")):
        page.go_back()
        in_url(page, name, value)
        rested(page)
    assert page.url == start
    page.go_forward()
    in_url(page, "force", forced)
    rested(page)
    box = page.get_by_role("textbox", name="Date, in any format (type here)")
    box.press("End")
    box.press_sequentially("5")
    in_url(page, "force", "")  # another source, and what was forced is let go
    rested(page)
    page.go_back()
    in_url(page, "source", START)
    assert page.url == start


def test_back_on_masks_takes_back_a_stroke_and_a_ready_made_mask(page: Page) -> None:
    page.set_viewport_size(
        {"width": 1280, "height": 1300}
    )  # all of it: an open list closes when the page scrolls
    go(page, "masks", ".masks[data-painted]", checkpoint="dates", source=START)
    in_url(page, "mask", "decoder_self")
    rested(page)
    start, first = page.url, entries(page)
    page.locator(".paintable canvas.cells").focus()
    page.keyboard.press("Enter")
    in_url(page, "decoder-mask", "f0.0")
    rested(page)
    page.get_by_role("combobox", name="Ready-made, decoder self").click()
    page.get_by_role("option", name="none: read everything").click()
    page.wait_for_function(
        "() => new URLSearchParams(location.search).get('decoder-mask') !== 'f0.0'"
    )
    rested(page)
    assert entries(page) == first + 2
    page.go_back()
    in_url(page, "decoder-mask", "f0.0")
    rested(page)
    page.go_back()
    in_url(page, "decoder-mask", "")
    rested(page)
    assert page.url == start


def test_the_training_is_played_step_by_step_without_entries(page: Page) -> None:
    go(
        page,
        "",
        ".head[data-painted]",
        checkpoint="dates",
        source=START,
        growth="true",
        **{"growth-step": "0"},
    )
    before = entries(page)
    page.get_by_role("button", name="Play the steps of the training").click()
    for step in ("4", "8"):
        in_url(page, "growth-step", step)
    page.get_by_role("button", name="Pause").click()
    rested(page)
    stands = page.url
    assert entries(page) == before
    expect(page.locator(".st-key-note-growth")).to_contain_text("steps")
    page.get_by_role("link", name="Masks").first.click()
    page.wait_for_url("**/masks*")
    rested(page)
    page.go_back()
    page.wait_for_selector(".head[data-painted]")
    assert page.url == stands
