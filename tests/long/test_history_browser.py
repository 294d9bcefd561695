"""The browser's Back: one press per deliberate step, and none for typing or sliding on the way."""

import pytest
from playwright.sync_api import Page, expect
from served_app import back, forward, go, in_url, resize, visit, wait_until_idle

START, SITE = "24/07/69", "decoder.layers.1.cross_attn"
OTHER_SITE = "encoder.layers.0.self_attn"


def entries(page: Page) -> int:
    return page.evaluate("history.length")


def head(page: Page, site: str, number: int) -> None:
    page.locator(f'.overview button[data-site="{site}"][data-head="{number}"]').click()
    in_url(page, "site", site)
    in_url(page, "head", str(number))
    wait_until_idle(page)


def test_one_press_of_back_per_deliberate_step_leads_to_the_start(shared_page: Page) -> None:
    go(
        shared_page,
        "",
        ".head[data-painted]",
        checkpoint="dates",
        source=START,
        site=SITE,
        head="2",
    )
    start, first = shared_page.url, entries(shared_page)
    head(shared_page, OTHER_SITE, 3)  # a head of another layer
    box = shared_page.get_by_role("textbox", name="Date, in any format (type here)")
    box.press("End")
    box.press_sequentially("5 May 1990")
    in_url(shared_page, "source", START + "5 May 1990")
    wait_until_idle(shared_page)
    assert entries(shared_page) == first + 1  # ten letters add none
    shared_page.get_by_role("combobox", name="Model").fill("dates-bahdanau")  # a checkpoint
    shared_page.keyboard.press("Enter")
    in_url(shared_page, "checkpoint", "dates-bahdanau")
    wait_until_idle(shared_page)
    shared_page.get_by_role("link", name="Positions").first.click()  # a page
    shared_page.wait_for_url("**/positions*")
    in_url(shared_page, "checkpoint", "dates-bahdanau")
    wait_until_idle(shared_page)
    shared_page.get_by_text("Curves", exact=True).click()  # a section
    in_url(shared_page, "positions-section", "Curves")
    wait_until_idle(shared_page)
    shared_page.locator(".st-key-positions-length input[type=range]").press("ArrowRight")
    in_url(shared_page, "positions-length", "104")
    wait_until_idle(shared_page)
    assert entries(shared_page) == first + 4
    for name, value in (
        ("positions-section", ""),
        ("positions-section", ""),
        ("checkpoint", "dates"),
        ("site", SITE),
    ):
        back(shared_page)
        in_url(shared_page, name, value)
    assert shared_page.url == start
    expect(shared_page.locator(".head")).to_have_attribute("data-site", SITE)
    expect(shared_page.locator(".written .source")).to_have_text(START)
    expect(shared_page.get_by_role("combobox", name="Model")).to_have_value("dates")
    shared_page.go_forward()
    in_url(shared_page, "site", OTHER_SITE)
    expect(shared_page.locator(".head")).to_have_attribute("data-head", "3")
    expect(shared_page.locator(".written .source")).to_have_text(START + "5 May 1990")


@pytest.mark.parametrize("path", ["", "attention"])
def test_the_first_picture_is_one_entry_of_the_history_with_its_whole_address(
    page: Page, path: str
) -> None:
    page.goto("about:blank")
    before = entries(page)
    visit(page, path)
    in_url(page, "source", "She is reading a book.")
    wait_until_idle(page)
    assert entries(page) == before + 1
    assert "site=" in page.url
    assert "head=" in page.url
    page.go_back()
    assert page.url == "about:blank"


def test_back_on_decoding_undoes_a_forced_token_and_a_node_but_not_what_typing_clears(
    shared_page: Page,
) -> None:
    go(
        shared_page,
        "decoding",
        ".stepper[data-painted]",
        checkpoint="dates",
        source=START,
        step="4",
    )
    start, first = shared_page.url, entries(shared_page)
    other = shared_page.locator(".panel.serial .bar").nth(1)
    forced = f"4:{other.get_attribute('data-id')}"
    other.click()
    in_url(shared_page, "force", forced)
    wait_until_idle(shared_page)
    shared_page.locator(".st-key-decoding-how").get_by_text("beam", exact=True).click()
    in_url(shared_page, "decoding-how", "beam")
    shared_page.locator(".beam .node[data-step='4'][data-rank='2']").click()
    in_url(shared_page, "node", "4:2")
    wait_until_idle(shared_page)
    assert entries(shared_page) == first + 3
    for name, value in (("node", ""), ("decoding-how", ""), ("force", "")):
        back(shared_page)
        in_url(shared_page, name, value)
    assert shared_page.url == start
    forward(shared_page)
    in_url(shared_page, "force", forced)
    box = shared_page.get_by_role("textbox", name="Date, in any format (type here)")
    box.press("End")
    box.press_sequentially("5")
    in_url(shared_page, "force", "")  # another source clears the forced tokens
    wait_until_idle(shared_page)
    back(shared_page)
    in_url(shared_page, "source", START)
    assert shared_page.url == start


def test_back_on_masks_undoes_a_stroke_and_a_preset_mask(shared_page: Page) -> None:
    resize(shared_page, 1280, 1300)  # all of it: an open list closes when the page scrolls
    go(shared_page, "masks", ".masks[data-painted]", checkpoint="dates", source=START)
    in_url(shared_page, "mask", "decoder_self")
    wait_until_idle(shared_page)
    start, first = shared_page.url, entries(shared_page)
    shared_page.locator(".paintable canvas.cells").focus()
    shared_page.keyboard.press("Enter")
    in_url(shared_page, "decoder-mask", "f0.0")
    wait_until_idle(shared_page)
    shared_page.get_by_role("combobox", name="Preset mask, decoder self").click()
    shared_page.get_by_role("option", name="none: attends to everything").click()
    shared_page.wait_for_function(
        "() => new URLSearchParams(location.search).get('decoder-mask') !== 'f0.0'"
    )
    wait_until_idle(shared_page)
    assert entries(shared_page) == first + 2
    back(shared_page)
    in_url(shared_page, "decoder-mask", "f0.0")
    back(shared_page)
    in_url(shared_page, "decoder-mask", "")
    assert shared_page.url == start


def test_the_training_is_played_step_by_step_without_entries(shared_page: Page) -> None:
    go(
        shared_page,
        "",
        ".head[data-painted]",
        checkpoint="dates",
        source=START,
        growth="true",
        **{"growth-step": "0"},
    )
    before = entries(shared_page)
    shared_page.get_by_role("button", name="Play the steps of the training").click()
    for step in ("4", "8"):
        in_url(shared_page, "growth-step", step)
    shared_page.get_by_role("button", name="Pause").click()
    wait_until_idle(shared_page)
    stands = shared_page.url
    assert entries(shared_page) == before
    expect(shared_page.locator(".st-key-note-growth")).to_contain_text("steps")
    shared_page.get_by_role("link", name="Masks").first.click()
    shared_page.wait_for_url("**/masks*")
    wait_until_idle(shared_page)
    back(shared_page)
    shared_page.wait_for_selector(".head[data-painted]")
    assert shared_page.url == stands
