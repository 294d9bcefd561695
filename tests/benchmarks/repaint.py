"""From a key pressed to the new picture painted, in a real browser: the Attention page beside a trivial page.

Both run with the app's settings, in one Chromium, and take turns key by key. The time is the browser's own: from the
input event to the frame after the change, which for Attention means that the strip shows the new text and both pictures
have been drawn anew, and for the trivial page that the text is echoed.
"""

import re
import shutil
from statistics import median

from playwright.sync_api import Browser, Page, sync_playwright

from tests.benchmarks.serving import APP, SCRIPTS, served
from tests.benchmarks.side_by_side import Result, over, print_table

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
TYPED = "She told us that the old man reads a book"   # no text twice: every key is a new run, a space goes with its letter

WATCH = """
() => {
  const everywhere = (selector, root = document) => [...root.querySelectorAll("*")].flatMap((e) =>
    [...(e.matches(selector) ? [e] : []), ...(e.shadowRoot ? everywhere(selector, e.shadowRoot) : [])]);
  const first = (selector) => everywhere(selector)[0];
  window.shown = (selector) => first(selector)?.textContent;
  window.painted = () => [".overview", ".head"].map((name) => Number(first(`${name}[data-painted]`)?.dataset.painted ?? 0));
  window.watch = (done) => {
    const before = painted();
    window.edit = new Promise((resolve) => document.addEventListener("input", (event) => {
      const start = performance.now(), text = event.target.value;
      const observer = new MutationObserver(() => {
        if (!done(text, before)) return;
        observer.disconnect();
        requestAnimationFrame(() => resolve(performance.now() - start));
      });
      const roots = [document, ...everywhere("*").map((e) => e.shadowRoot).filter(Boolean)];
      const what = { subtree: true, childList: true, characterData: true, attributes: true };
      roots.forEach((root) => observer.observe(root, what));
    }, { capture: true, once: true }));
  };
}
"""
ATTENTION_DONE = "(text, before) => painted().every((n, i) => n > before[i]) && shown('.written .source') === text"
TRIVIAL_DONE = "(text) => shown('[data-testid=stText]') === text"


def opened(browser: Browser, address: str, ready: str) -> Page:
    """A page with the cursor in its first text box, empty, once `ready` is there and things are quiet."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(120_000)
    page.goto(f"http://{address}")
    page.wait_for_selector(ready)
    page.evaluate(WATCH)
    box = page.locator("[data-testid=stTextInput] input").first
    box.click()
    box.press("Control+a")
    page.wait_for_timeout(2000)
    return page


def edit(page: Page, key: str, done: str) -> float:
    """Milliseconds from the key to the frame that shows what it changed."""
    page.bring_to_front()
    page.evaluate(f"() => watch({done})")
    page.keyboard.insert_text(key)
    took = page.evaluate("() => Promise.race([edit, new Promise((_, no) => setTimeout(() => no('no answer'), 15000))])")
    page.wait_for_timeout(150)
    return took


def measure() -> list[Result]:
    """Two servers, one browser, a key here and a key there; the first keys warm up."""
    times: tuple[list[float], list[float]] = ([], [])
    with served(APP) as app, served(SCRIPTS / "trivial.py") as trivial, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        attention = opened(browser, app, ".head[data-painted]"), ATTENTION_DONE
        echo = opened(browser, trivial, "[data-testid=stText]"), TRIVIAL_DONE
        for key in re.findall(r" ?\S", TYPED):
            for milliseconds, (page, done) in zip(times, (attention, echo), strict=True):
                milliseconds.append(edit(page, key, done))
        browser.close()
    ours, theirs = (t[3:] for t in times)
    detail = f"{median(ours):.0f} against {median(theirs):.0f} ms"
    return [Result("key to repainted: Attention over a trivial page", over(ours, theirs), "≤ 2", detail)]


if __name__ == "__main__":
    print_table(measure())
