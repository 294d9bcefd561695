"""The keyboard: a component uses the keys that it declares, and every other key is left to the browser."""

import re
from pathlib import Path

from playwright.sync_api import Page
from served_app import go, visit, wait_until_idle

import viz_app

COMPONENTS = Path(viz_app.__file__).parent / "components"
# page, an element that shows it is drawn, and the choices there: together they show every component
PAGES = [
    ("attention", ".head", {"growth": "true"}), ("task", ".answers", {}), ("masks", ".masks", {}), ("decoding", ".stepper", {}),
    ("decoding", ".beam", {"decoding-how": "beam"}), ("inside", ".walk", {}), ("inside", ".matrices", {"inside-view": "matrices"}),
    ("inside", ".heads", {"inside-view": "heads"}), ("positions", ".shuffle", {}), ("interventions", ".outcome", {}),
    ("interventions", ".patch", {"interventions-section": "Patch"}),
    ("interventions", ".scatter", {"interventions-section": "Patch", "patch-part": "gradient"}),
    ("interventions", ".rowtests", {"interventions-section": "Is attention explanation?"}),
    ("compare", ".difference", {}),
    ("inside", ".several", {"inside-view": "several"}), ("layer", ".layer", {}),
    ("from-rnn", ".versions", {}), ("from-rnn", ".maps", {"from-rnn-section": "Two alignments"}),
    ("attention", ".states", {"checkpoint": "dates-rnn"}), ("models", ".cards", {}),
    ("task", ".guesses", {"checkpoint": "bert"}), ("task", ".pair", {"checkpoint": "bert"}),
    ("task", ".span", {"checkpoint": "bert-where"}), ("task", ".classes", {"checkpoint": "gpt-sentiment"}),
    ("task", ".order", {"checkpoint": "xlnet"}),
]  # fmt: skip
# Each focusable element of a component is sent each key, which a listener of the window then reports.
SWALLOWED = """async ([strange, used]) => {
  const found = [], held = [{}, { ctrlKey: true }, { altKey: true }, { metaKey: true }, { shiftKey: true }];
  let names = [];
  const press = (element, key, modifiers) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true, ...modifiers });
    element.dispatchEvent(event);
    if (event.defaultPrevented) found.push([element.outerHTML.slice(0, 80), key, ...Object.keys(modifiers)]);
  };
  const look = (root) => root.querySelectorAll("*").forEach((element) => {
    if (element.shadowRoot) look(element.shadowRoot);
    if (root === document) return;
    if (element.classList.contains("attnscope")) names.push(element.classList[1]);
    if (element.tabIndex < 0 && !element.onkeydown && !element.matches("canvas, svg, g")) return;
    for (const key of strange) for (const modifiers of held) press(element, key, modifiers);
    for (const key of used) for (const modifiers of held.slice(1)) press(element, key, modifiers);
  });
  look(document);
  return [names, found];
}"""
STRANGE = ["F5", "Tab", "PageDown", "PageUp", "Home", "End", "c", "r", "p", "toString"]
USED = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", " ", "Escape"]


def test_no_component_keeps_a_key_from_the_browser_that_it_has_no_use_for(page: Page) -> None:
    seen: set[str] = set()
    for path, ready, chosen in PAGES:
        go(
            page,
            path,
            f"{ready}[data-painted]",
            **{"checkpoint": "dates", "source": "24/07/69", "lock": "q3", **chosen},
        )
        names, swallowed = page.evaluate(SWALLOWED, [STRANGE, USED])
        assert swallowed == [], path
        seen |= set(names)
    roots = (
        re.match(r'<div class="attnscope (\w+)"', path.read_text("utf-8"))
        for path in COMPONENTS.glob("*/*.html")
    )
    assert seen == {
        root[1] for root in roots if root
    }  # those without such a root have no focusable element


def test_tab_leaves_an_element_focused_by_a_click(page: Page) -> None:
    visit(page, checkpoint="dates", source="24/07/69")
    wait_until_idle(page)
    held = "document.activeElement?.shadowRoot?.activeElement?.className ?? ''"
    page.locator(".head canvas.cells").click(position={"x": 200, "y": 100})
    assert page.evaluate(held) == "cells"
    for _ in range(6):  # its four buttons are on the way
        page.keyboard.press("Tab")
    assert not page.evaluate("!!document.activeElement.shadowRoot?.querySelector('.head')")
    page.locator(".overview button").nth(5).click()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert not page.evaluate("!!document.activeElement.shadowRoot?.querySelector('.overview')")


def test_keys_are_listened_to_in_one_place() -> None:
    """This way, what holds for one component holds for all."""
    listens = re.compile(r"""onkey|Listener\("key""")
    listening = {
        path.name for path in COMPONENTS.rglob("*.js") if listens.search(path.read_text("utf-8"))
    }
    assert listening == {
        "keys.js",
        "boxes.js",
        "tools.js",
    }  # the page itself uses Enter in its text boxes, and P
