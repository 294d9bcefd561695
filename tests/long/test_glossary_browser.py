"""Hovering a technical term or a symbol shows its meaning, wherever on a page it is."""

import pytest
from playwright.sync_api import Page, expect
from served_app import frames, go, open_details, rest_on, wait_for_layout, wait_until_idle

from viz_app.words import GLOSSARY
from viz_app.words.glossary import LETTER_MEANINGS, SYMBOLS

FIND = """([word, within]) => {
  const roots = [document];
  document.querySelectorAll("*").forEach((e) => e.shadowRoot && roots.push(e.shadowRoot));
  for (const root of roots) for (const part of root.querySelectorAll(within)) {
    const walk = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let text; (text = walk.nextNode());) {
      const at = text.data.search(new RegExp(`(?<![A-Za-z])${word}(?![A-Za-z])`));
      if (at < 0 || !text.parentElement.checkVisibility()) continue;
      text.parentElement.scrollIntoView({ block: "center" });
      const range = document.createRange();
      range.setStart(text, at);
      range.setEnd(text, at + 1);
      const box = range.getClientRects()[0];
      return [box.left + box.width / 2, box.top + box.height / 2];
    }
  }
  return null;
}"""
# page → the other parameters of its URL; terms and symbols, each with its position and its explanation
POINTED = {
    "a headline": ("inside", {}, "head", ".headline", GLOSSARY["head"]),
    "a label": ("decoding", {}, "Layer", ".st-key-which label", GLOSSARY["layer"]),
    "prose": ("inside", {}, "weights", ".st-key-explanation", GLOSSARY["weight"]),
    "a component": ("inside", {}, "token", ".walk .sentence", GLOSSARY["token"]),
    "a symbol in prose": (
        "decoding",
        {"decoding-how": "beam"},
        "α",
        ".st-key-which label",
        SYMBOLS["α"],
    ),
    "a check": ("inside", {}, "v", ".checks", SYMBOLS["v"]),
}


def at_rest(page: Page, word: str, within: str) -> list[float]:
    """Return the position of a word once scrolling to it has come to rest."""
    page.evaluate(FIND, [word, within])
    wait_for_layout(page)
    place = page.evaluate(FIND, [word, within])
    assert place
    frames(page, 2)  # a scroll event after the pointer's move would hide the explanation
    return place


@pytest.mark.parametrize("name", POINTED)
def test_a_term_is_explained_on_hover(shared_page: Page, name: str) -> None:
    path, params, word, within, said = POINTED[name]
    go(shared_page, path, ".headline", **params)
    tip = shared_page.locator(".tools .glossary")
    expect(tip).to_be_hidden()
    if within in (".st-key-explanation", ".checks"):
        open_details(shared_page)
    shared_page.mouse.move(*at_rest(shared_page, word, within))
    expect(tip).to_be_visible()
    expect(tip).to_contain_text(said)
    shared_page.mouse.move(5, 700)
    expect(tip).to_be_hidden()


def test_each_symbol_of_a_formula_is_explained(shared_page: Page) -> None:
    go(shared_page, "inside", ".walk[data-painted]")
    shared_page.locator(".walk .names button").nth(3).click()
    wait_until_idle(
        shared_page
    )  # Python's explanation of the step has arrived, so the element under the pointer is not replaced
    formula = shared_page.locator(".walk .formula")
    assert formula.get_attribute("data-formula") == "α_{i,j} = q^{i}·k^{j} / √d_{k}"
    rest_on(shared_page, formula, 15, 10)
    tip = shared_page.locator(".tools .glossary")
    expect(tip).to_be_visible()
    assert dict.fromkeys(tip.locator("b").all_text_contents()) == dict.fromkeys(
        ["α", "i", "j", "q", "·", "k", "√", "d_k"]
    )
    expect(tip).to_contain_text(SYMBOLS["d_k"])
    expect(tip).to_contain_text(LETTER_MEANINGS["i"])
    open_details(shared_page)
    wait_for_layout(shared_page)
    rest_on(shared_page, shared_page.locator(".st-key-explanation .katex").last)
    expect(tip.locator("b").first).to_be_visible()


def test_typed_text_is_not_explained(shared_page: Page) -> None:
    go(shared_page, "", ".head[data-painted]", source="token head layer")
    shared_page.evaluate("""() => {
      const own = document.elementFromPoint.bind(document);
      document.elementFromPoint = (...place) => {
        window.looked = true;
        return own(...place);
      };
    }""")
    rest_on(shared_page, shared_page.locator(".written .output"), 20, 12)
    shared_page.wait_for_function("window.looked")  # for a term under the pointer
    expect(shared_page.locator(".tools .glossary")).to_be_hidden()
