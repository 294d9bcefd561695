"""Train in a browser: the attention is redrawn during a run, and any of its steps opens on other pages."""

from playwright.sync_api import Page, expect
from served_app import go, in_url, visit, wait_until_idle

START, PAUSE = ".st-key-train-start button", ".st-key-train-pause button"
RESET = ".st-key-train-reset button"
MAPS = ".st-key-train-maps .maps"


def painted(page: Page) -> int:
    return int(page.locator(MAPS).get_attribute("data-painted") or 0)


def pixels(page: Page) -> str:
    return page.locator(f"{MAPS} canvas.cells").first.evaluate("(canvas) => canvas.toDataURL()")


def test_a_run_is_watched_paused_replayed_and_opened(page: Page) -> None:
    visit(page, "train", START, **{"train-d-model": "16", "train-seed": "5"})
    page.click(START)
    page.wait_for_selector(f"{MAPS}[data-painted]")
    page.click(".st-key-train-speed input")  # at full speed the run may end before it is paused
    page.click("[role=option]:has-text('10 steps a second')")
    first, before = pixels(page), painted(page)
    page.wait_for_function(
        """([parts, n]) => {
          const find = (root) => root.querySelector(parts) ??
            [...root.querySelectorAll("*")].map((e) => e.shadowRoot && find(e.shadowRoot)).find(Boolean);
          return Number(find(document)?.dataset.painted) > n;
        }""",
        arg=[".maps", before + 5],
    )
    assert pixels(page) != first
    page.click(PAUSE)
    page.wait_for_selector(f"{PAUSE}:has-text('Resume')")
    page.wait_for_selector(".st-key-train-open button")
    wait_until_idle(page)
    last, label = pixels(page), page.inner_text(".st-key-train-open button")
    slider = page.locator(".st-key-train-step input[type=range]")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_selector(".st-key-train-open button:has-text('Open step 0 ')")
    wait_until_idle(page)
    assert "step 0 " not in label
    assert pixels(page) != last
    page.click(".st-key-train-open button")
    page.wait_for_selector(".head[data-painted]")
    in_url(page, "growth-step", "0")
    assert page.locator(".head").get_attribute("data-site") == "decoder.layers.0.cross_attn"
    go(page, "train", RESET)
    page.click(RESET)  # the next test's run would wait a minute for the trainer of a closed tab
    page.wait_for_selector(START)


def test_the_progress_of_the_run_is_legible_and_no_other_model_is_named(page: Page) -> None:
    visit(page, "train", START, present="1", **{"train-d-model": "16", "train-seed": "5"})
    expect(page.locator(".st-key-input-bar")).to_be_hidden()  # it names a model, and not this one
    page.click(START)
    expect(page.locator(".st-key-train-status .note")).to_contain_text("of 800")
    page.click(RESET)
    go(page, "attention", ".head[data-painted]")
    expect(page.locator(".st-key-input-bar")).to_be_visible()
