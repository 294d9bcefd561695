"""Accessibility: axe-core finds no violation on any page, and every picture has a name and a table behind it."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect
from served_app import PATIENCE, frames, go, resize, visit, wait_until_idle, watched_page

from viz_app.navigation import PAGES

MODELS = {"light": "eng-fra", "dark": "bert"}  # theme → the model shown in it
AXE = Axe()


@pytest.fixture(scope="module", params=MODELS)
def themed(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A session whose browser asks for this theme."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 720}, color_scheme=request.param, bypass_csp=True
    )
    context.set_default_timeout(PATIENCE)
    with watched_page(context) as page:
        yield page
    context.close()


# the visible canvases and drawings, wherever they are:
# (name, role, whether hidden from a screen reader, headers and values of its table)
PICTURES = """() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
  const isPicture = (e) => e.tagName === "CANVAS" || (e.tagName === "svg" && e.getRootNode() !== document && e.clientWidth > 60);
  return all(document).filter((e) => isPicture(e) && e.checkVisibility()).map((e) => {
    const table = e.nextElementSibling?.matches(".behind") ? e.nextElementSibling : null;
    const count = (name) => table?.querySelectorAll(name).length ?? 0;
    const { ariaLabel: name, role } = e, hidden = e.ariaHidden === "true";
    return { name, role, hidden, rows: count("th[scope=row]"), values: count("tbody td") };
  });
}"""

READ = f"() => ({PICTURES})().every((picture) => picture.hidden || picture.values)"


def describe(violation: dict[str, Any]) -> str:
    """Return what axe found, and on which element."""
    return f"{violation['id']}: {violation['help']} — " + "; ".join(
        node["html"][:120] for node in violation["nodes"]
    )


@pytest.fixture
def model(request: pytest.FixtureRequest) -> str:
    return MODELS[request.node.callspec.params["themed"]]


def see(page: Page, view: str, model: str, **link: str) -> None:
    address = "" if view == "attention" else view
    go(page, address, "h1", checkpoint=model, **link)
    page.wait_for_function(READ)  # tables are made once a picture is at rest
    frames(page, 2)


@pytest.mark.parametrize("view", PAGES)
def test_axe_finds_nothing_and_every_picture_can_be_read(
    themed: Page, view: str, model: str
) -> None:
    see(themed, view, model)
    assert themed.title() == f"{PAGES[view].title} · Attnscope"
    found_nothing(themed)


def found_nothing(page: Page) -> None:
    found = AXE.run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [describe(one) for one in found] == []
    for picture in page.evaluate(PICTURES):
        if not picture["hidden"]:
            assert picture["role"] in ("img", "group")
            assert picture["name"], picture
            assert picture["rows"] > 0, picture
            assert picture["values"] > 0, picture


@pytest.mark.parametrize("view", PAGES)
def test_axe_finds_nothing_presented_or_on_a_phone(themed: Page, view: str, model: str) -> None:
    """The presentation is in the light theme, the phone in the dark one."""
    is_phone = model == MODELS["dark"]
    if is_phone:
        resize(themed, 420, 900)
    see(themed, view, model, **({} if is_phone else {"present": "1"}))
    found_nothing(themed)
    resize(themed, 1280, 720)


# letters of charts that Streamlit draws, and of captions, with a contrast under 4.5 to the page
FAINT = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = parse(getComputedStyle(document.querySelector(".stApp")).backgroundColor).slice(0, 3);
  return [...document.querySelectorAll("[data-testid=stVegaLiteChart] svg text, [data-testid=stCaptionContainer] p")].filter((e) => {
    const style = getComputedStyle(e), [r, g, b, a = 1] = parse(e.ownerSVGElement ? style.fill : style.color);
    let strength = a * (e.ownerSVGElement ? Number(style.fillOpacity) : 1);
    for (let part = e; part; part = part.parentElement) strength *= Number(getComputedStyle(part).opacity);
    if (!e.textContent.trim() || !strength) return false;
    const ends = [light(paper), light([r, g, b].map((v, i) => v * strength + paper[i] * (1 - strength)))].sort((x, y) => x - y);
    return (ends[1] + 0.05) / (ends[0] + 0.05) < 4.5;
  }).map((e) => e.textContent);
}"""


def test_letters_of_charts_have_enough_contrast(themed: Page, model: str) -> None:
    see(themed, "positions", model, **{"positions-section": "Curves"})
    themed.wait_for_selector("[data-testid=stVegaLiteChart] svg text")
    wait_until_idle(themed)
    assert themed.locator("[data-testid=stCaptionContainer] p").count()
    assert themed.evaluate(FAINT) == []


def test_the_first_tab_leads_past_the_controls(themed: Page, model: str) -> None:
    see(themed, "task", model)
    themed.evaluate("document.activeElement?.blur(); window.getSelection().removeAllRanges()")
    themed.locator("body").press("Tab")
    skip = themed.get_by_role("link", name="Skip to the page")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    skip.press("Enter")
    expect(themed.get_by_role("heading", level=1)).to_be_focused()
    expect(skip).not_to_be_in_viewport()


def test_each_stop_of_the_tab_key_is_visible(themed: Page, model: str) -> None:
    """The focused element differs from the others by an outline, a border or a shadow."""
    see(themed, "attention", model)
    themed.locator("body").press("Tab")
    stops = []
    for _ in range(30):
        stops.append(themed.evaluate(SHOWN_FOCUS))
        themed.keyboard.press("Tab")
    assert len({stop["what"] for stop in stops}) > 15
    lost = [stop["what"] for stop in stops if not stop["seen"]]
    assert [
        what for what in lost if not what.startswith("<body")
    ] == []  # past the end of the page and back to its start


# The focused element, and whether the focus is visible on it or around it.
SHOWN_FOCUS = """async () => {
  let element = document.activeElement;
  while (element.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  const look = () => {
    const seen = [];
    for (let e = element, i = 0; e && i < 4; e = e.parentElement, i++) {
      const s = getComputedStyle(e);
      seen.push(s.outlineStyle === "none" ? "" : s.outline, s.boxShadow, s.borderColor, s.backgroundColor);
    }
    const hit = element.querySelector?.("rect.hit");
    return JSON.stringify([seen, hit && getComputedStyle(hit).stroke]);
  };
  const settle = async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const ending = document.getAnimations().filter((one) => one instanceof CSSTransition);
    await Promise.allSettled(ending.map((one) => one.finished));
  };
  await settle();
  const focused = look();
  element.blur();
  await settle();
  const without = look();
  element.focus({ focusVisible: true });
  return { what: element.outerHTML.slice(0, 100) + element.textContent.slice(0, 20), seen: focused !== without };
}"""


@pytest.mark.parametrize("path", ["", "masks"])
def test_a_direct_load_requests_nothing_that_is_missing(context: BrowserContext, path: str) -> None:
    failed, errors = [], []
    with watched_page(context) as page:
        page.on("response", lambda one: failed.append(one.url) if one.status >= 400 else None)
        page.on("console", lambda one: errors.append(one.text) if one.type == "error" else None)
        visit(page, path, "h1")
        wait_until_idle(page)
        assert (failed, errors) == ([], [])
        icon = page.locator("link[rel~=icon]").get_attribute("href")
        assert icon
        assert page.evaluate("async (url) => (await fetch(url)).ok", icon)


# sections that compare and change runs → page, and the other parameters of its address
SECTIONS_OF_RUNS: dict[str, tuple[str, dict[str, str]]] = {
    "compare": ("compare", {"pin.checkpoint": "{model}"}),
    "compare, many texts": ("compare", {"compare-section": "Many texts"}),
    "patch": ("interventions", {"interventions-section": "Patch"}),
    "patch by gradient": (
        "interventions",
        {"interventions-section": "Patch", "patch-part": "gradient"},
    ),
    "explanation": ("interventions", {"interventions-section": "Is attention explanation?"}),
    "many texts": ("interventions", {"interventions-section": "Many texts"}),
    "attribution": ("interventions", {"interventions-section": "Attribution"}),
    "difference": ("layer", {"pin.checkpoint": "{model}", "difference": "true"}),
}


@pytest.mark.parametrize("section", SECTIONS_OF_RUNS)
def test_axe_finds_nothing_in_the_sections_that_compare_and_change_runs(
    themed: Page, section: str, model: str
) -> None:
    view, asked = SECTIONS_OF_RUNS[section]
    see(themed, view, model, **{name: value.format(model=model) for name, value in asked.items()})
    wait_until_idle(themed)
    found_nothing(themed)
