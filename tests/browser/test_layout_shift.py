# ruff: noqa: F401, F811  (pytest finds its fixtures by these names)
"""Nothing on a page moves while someone types: 24 words, key by key, and not one layout shift, page by page."""

import pytest
from playwright.sync_api import Page
from served_app import browser, context, page, rested, visit

WORDS = (
    "I think that my old friend is reading a very good book about the little dog which he saw in a garden yesterday evening."
)

# page → where it is, what is ready on it, and what else is in its URL; another page needs but a line here
PAGES = {
    "states of an RNN": ("", ".states[data-painted]", {"checkpoint": "eng-fra-rnn"}),
    "decoding": ("decoding", ".stepper[data-painted]", {}),
    "positions": ("positions", ".shuffle[data-painted]", {}),
    "masks": ("masks", ".masks[data-painted]", {}),
    "three models": ("from-rnn", ".versions[data-painted]", {}),
    "what reaches what": ("from-rnn", ".maps[data-painted]", {"from-rnn-section": "What reaches what"}),
    "two alignments": ("from-rnn", ".maps[data-painted]", {"from-rnn-section": "Two alignments"}),
}

WATCH = """() => {
  window.shifts = [];
  const bar = document.querySelector("[data-testid=stSidebar]").getBoundingClientRect();
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => entry.sources.forEach((source) => {
    const { node, previousRect: a, currentRect: b } = source;
    if (a.width && b.width && (a.x !== b.x || a.y !== b.y)) {
      const part = node?.nodeType === 1 ? node : node?.parentElement;
      if (b.right <= bar.right) return;        // in the sidebar, whose boxes grow with their text
      window.shifts.push([part?.className?.baseVal ?? part?.className ?? part?.tagName ?? "", a.x, a.y, b.x, b.y].join(" "));
    }
  }))).observe({ type: "layout-shift" });
}"""


@pytest.mark.parametrize("name", PAGES)
def test_nothing_moves_while_24_words_are_typed(page: Page, name: str) -> None:
    path, ready, params = PAGES[name]
    visit(page, path, ready, source="I", **params)
    rested(page)
    box = page.locator(".st-key-source :is(input, textarea)").first
    box.click()
    box.press("End")
    page.evaluate(WATCH)
    for word in WORDS.split()[1:]:
        box.press_sequentially(f" {word}")
    page.wait_for_timeout(2500)        # the rerun that follows when typing rests
    rested(page)
    assert page.evaluate("window.shifts") == []
