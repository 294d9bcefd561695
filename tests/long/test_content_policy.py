"""The Content-Security-Policy blocks nothing that a page needs. The other browser tests bypass it (served_app.py)."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from served_app import PATIENCE, app_address, navigate, open_details, save_picture

from viz_app.navigation import PAGES

BLOCKED = "Content Security Policy"  # in Chromium's messages on the console
READY = {
    "attention": ".head[data-painted]",
    "inside": ".walk[data-painted]",
    "masks": "canvas",
    "models": "canvas",
    "lessons": ".lesson-list button",
    "train": ".st-key-train-start button",
}
VEGA = "[data-testid=stVegaLiteChart] :is(svg.marks, canvas)"
CHARTS = {
    "positions?positions-section=Map": (".js-plotly-plot .main-svg", VEGA),
    "from-rnn?from-rnn-section=Sentence+length": (VEGA,),
}


@pytest.fixture(scope="module")
def guarded(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A session with the policy in force, and what it blocked."""
    context = browser.new_context(color_scheme="light", accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    page, blocked = context.new_page(), []
    page.on("console", lambda line: blocked.append(line.text) if BLOCKED in line.text else None)
    page.goto(f"{app_address()}/attention")
    page.wait_for_selector(".head[data-painted]")
    yield page, blocked
    context.close()


def painted_dark(page: Page) -> None:
    """Switch the system to dark, and wait until the page has followed."""
    page.emulate_media(color_scheme="dark")
    app = page.locator("[data-testid=stApp]")
    expect(app).not_to_have_css("background-color", "rgb(255, 255, 255)")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    page.emulate_media(color_scheme="light")


def test_nothing_on_any_page_is_blocked(guarded: tuple[Page, list[str]]) -> None:
    page, blocked = guarded
    for name in PAGES:
        navigate(page, f"{app_address()}/{name}?present=on")
        page.wait_for_selector(READY.get(name, "[data-painted], .checks"), state="attached")
        painted_dark(page)
        assert not blocked, name


def test_charts_and_saved_pictures_are_not_blocked(guarded: tuple[Page, list[str]]) -> None:
    page, blocked = guarded
    for address, drawn in CHARTS.items():
        navigate(page, f"{app_address()}/{address}")
        for chart in drawn:
            page.wait_for_selector(chart)
    navigate(page, f"{app_address()}/attention")
    page.wait_for_selector(".head[data-painted]")
    with page.expect_download() as picture:
        save_picture(page, ".st-key-overview", "PNG")
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")
    open_details(page)
    with page.expect_download() as table:
        page.get_by_text("This head, CSV").click()
    assert table.value.path().read_bytes()
    painted_dark(page)
    assert not blocked


def test_a_foreign_script_is_blocked(guarded: tuple[Page, list[str]]) -> None:
    """The policy is active: an injected handler does not run."""
    page, blocked = guarded
    image = '<img src="x" onerror="window.injected = true">'
    with page.expect_console_message(lambda line: BLOCKED in line.text):
        page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", image)
    assert page.evaluate("window.injected") is None
    assert blocked
