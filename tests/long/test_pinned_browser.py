"""A pinned run in a browser: pinned by a key, kept while typing, in the address, on a phone."""

from playwright.sync_api import Browser, Page, expect
from served_app import boxes, go, in_url, visit, wait_until_idle

START = {"checkpoint": "dates", "source": "24/07/69", "site": "decoder.layers.1.cross_attn"}
BOX = ".st-key-source textarea"
OUTPUT = ".output"


def outputs(page: Page) -> list[str]:
    """Return the texts of the current run and of the pinned one."""
    keys = (".st-key-written", ".st-key-pin-written")
    return [page.locator(f"{key} {OUTPUT}").inner_text() for key in keys]


def test_the_key_k_pins_the_run_and_typing_leaves_the_pinned_one(shared_page: Page) -> None:
    page = shared_page
    go(page, "", ".head[data-painted]", **START)
    page.locator(".head canvas.cells").click(position={"x": 5, "y": 5})
    page.keyboard.press("k")
    page.wait_for_selector(".st-key-pin-head .head[data-painted]")
    in_url(page, "pin.source", "24/07/69")
    wait_until_idle(page)
    for drawer in boxes(page, ".st-key-details details", ".st-key-pin-details details"):
        assert drawer["height"] < 60  # not squeezed between the checks and the next question
    first = outputs(page)
    assert first[0] == first[1] == "1969-07-24"
    page.locator(BOX).fill("25/07/69")
    expect(page.locator(f".st-key-written {OUTPUT}")).to_have_text("1969-07-25")
    assert outputs(page)[1] == "1969-07-24"
    page.locator(BOX).blur()
    in_url(page, "source", "25/07/69")
    page.get_by_role("button", name="Same text").click()
    expect(page.locator(f".st-key-pin-written {OUTPUT}")).to_have_text("1969-07-25")
    wait_until_idle(page)
    page.locator(BOX).fill("26/07/69")  # answered over the socket, both runs
    expect(page.locator(f".st-key-pin-written {OUTPUT}")).to_have_text("1969-07-26")
    page.locator(BOX).blur()
    in_url(page, "source", "26/07/69")
    wait_until_idle(page)
    page.get_by_role("button", name="Unpin").click()
    expect(page.locator(".st-key-pin-written")).to_have_count(0)
    in_url(page, "pin.checkpoint", "")


def test_a_letter_k_that_is_typed_pins_nothing(shared_page: Page) -> None:
    go(shared_page, "", ".head[data-painted]", **START)
    shared_page.locator(BOX).press("End")
    shared_page.keyboard.press("k")
    expect(shared_page.locator(BOX)).to_have_value("24/07/69k")
    wait_until_idle(shared_page)
    expect(shared_page.locator(".st-key-pin-written")).to_have_count(0)


def test_both_runs_fit_on_a_phone(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 420, "height": 800}, bypass_csp=True)
    page = context.new_page()
    pinned = {"pin.checkpoint": "dates", "pin.source": "3 May 2019"}
    visit(page, "", ".st-key-pin-head .head[data-painted]", **START, **pinned)
    wait_until_idle(page)
    both = boxes(page, ".st-key-head .head", ".st-key-pin-head .head")
    assert min(box["width"] for box in both) > 300
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    context.close()
