"""Touch targets on a phone: on every page, everything that can be pressed is at least 40 px high and wide.

Exceptions are pictures that are one stop of the keyboard and are read, not pressed (a heatmap's cells, and the tokens beside
lines, which the heatmap has, too), and Streamlit's link that skips to the content, which is for keyboards."""

import re

import pytest
from playwright.sync_api import Browser, Page
from served_app import PATIENCE, boxes, go, visit, wait_for_layout, wait_until_idle

LEAST = 40  # px
INSIDE, DECODING, POSITIONS, FROM_RNN = (
    "inside-view",
    "decoding-how",
    "positions-section",
    "from-rnn-section",
)
# page → the other parameters of its URL; every section of every page, and every kind of answer
PAGES: list[tuple[str, dict[str, str]]] = [
    ("", {}), ("", {"checkpoint": "dates", "growth": "true"}), ("", {"checkpoint": "dates-rnn"}),
    ("layer", {}), ("masks", {}), ("models", {}),
    *[("inside", {INSIDE: view}) for view in ("walk", "matrices", "scaling", "heads", "several")],
    ("inside", {"checkpoint": "xlnet"}),
    *[("task", {"checkpoint": name}) for name in ("eng-fra", "gpt", "bert", "bert-where", "xlnet", "gpt-sentiment")],
    *[("decoding", {DECODING: how}) for how in ("greedy", "sampling", "beam")], ("decoding", {"checkpoint": "dates-bahdanau"}),
    *[("positions", {POSITIONS: name}) for name in (
        "Shuffle test", "Curves", "Map", "Two misprints", "Added or concatenated", "Rotation", "Score by distance", "Grid of patches",
    )],
    *[("interventions", {"interventions-section": name}) for name in (
        "Heads", "Patch", "Attribution", "Many texts", "Is attention explanation?",
    )],
    *[("from-rnn", {FROM_RNN: name}) for name in (
        "Three models", "What reaches what", "Parallel and cost", "Sentence length", "Two alignments", "Stages, on dates",
        "Similarities",
    )],
]  # fmt: skip
SMALL = """(least) => {
  const native = "a[href], button, input, select, textarea, summary";
  const pressed = `${native}, [role=button], [role=radio], [role=tab], [role=switch], [role=combobox]`;
  const apart = ".head svg, .strands svg, [data-testid=stSkipToContent]", found = [];
  const around = { slider: "[data-orientation]", field: "label, [data-testid=stNumberInputContainer]" };
  const look = (root) => root.querySelectorAll("*").forEach((e) => {
    if (e.shadowRoot) look(e.shadowRoot);
    if (!e.matches(pressed) || e.disabled || e.closest(apart) || !e.checkVisibility({ checkVisibilityCSS: true })) return;
    const slider = e.closest("[data-testid=stSlider]") && e.type === "range";
    const hit = slider ? e.closest(around.slider) : e.matches("input, select") ? (e.closest(around.field) ?? e) : e;
    const box = hit.getBoundingClientRect(), closed = e.closest("[data-testid=stSidebar][aria-expanded=false]");
    if (closed || box.width < 2 || box.right <= 1 || box.left >= innerWidth) return;        // put away
    const name = [e.tagName, e.ariaLabel, e.className?.baseVal ?? e.className, e.textContent.slice(0, 9)].join(" ");
    if (Math.min(box.width, box.height) < least - 0.5) found.push(`${Math.round(box.width)}×${Math.round(box.height)} ${name}`);
  });
  look(document);
  return [...new Set(found)];
}"""

# panels that extend past the page's right edge, titles and names of rows that are truncated, rows of tokens cut off at the bottom
# or overlapping others, and download buttons over the picture below them
CUT = """() => {
  const found = [], box = (e) => e.getBoundingClientRect();
  const look = (root) => root.querySelectorAll("*").forEach((e) => {
    if (e.shadowRoot) look(e.shadowRoot);
    if (e.matches(".panels:not(.swiped) > *, .mask > *") && box(e).right > innerWidth) found.push(`wide: ${e.className}`);
    if (e.matches(".swiped > *") && box(e).width > innerWidth - 30) found.push(`wider than the window: ${e.className}`);
    if (e.matches("h2, h3, .choice .axis") && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 2)) {
      found.push(`shortened: ${e.textContent}`);
    }
    if (e.matches(".choice .tokens") && [...e.children].some((one) => box(one).bottom > box(e).bottom)) found.push("cut: tokens");
    if (e.matches(".st-key-inside-tokens .st-key-choice") && box(e).width < 0.8 * innerWidth) found.push("narrow: tokens");
    if (e.matches("header:has(.files) + svg") &&
      box(e.previousElementSibling.querySelector(".files")).bottom > box(e).top + 1) found.push("on the picture: files");
  });
  look(document);
  return found;
}"""


# text in letters under 12 px; superscripts and subscripts of a formula are smaller than their base
FINE = """() => {
  const found = [], look = (root) => root.querySelectorAll("*").forEach((e) => {
    if (e.shadowRoot) look(e.shadowRoot);
    const written = [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!written || e.matches("style, script, title, desc, sub, sup, .katex *") || !e.checkVisibility()) return;
    const svg = e.ownerSVGElement, wide = svg?.viewBox.baseVal?.width, grown = wide ? svg.getBoundingClientRect().width / wide : 1;
    const size = parseFloat(getComputedStyle(e).fontSize) * grown;
    if (size < 11.95) found.push(`${size.toFixed(1)} ${e.textContent.slice(0, 30)}`);
  });
  look(document);
  return found;
}"""


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Page:
    context = browser.new_context(
        bypass_csp=True,  # wait_for_function evaluates text
        viewport={"width": 420, "height": 800},
        has_touch=True,
        is_mobile=True,
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    yield page
    context.close()


@pytest.mark.parametrize(
    ("path", "params"),
    PAGES,
    ids=lambda one: one if isinstance(one, str) else "-".join(one.values()),
)
def test_everything_that_can_be_pressed_is_large_enough_for_a_finger(
    phone: Page, path: str, params: dict[str, str]
) -> None:
    go(phone, path, ".headline", **params)
    wait_for_layout(phone)
    assert phone.evaluate(SMALL, LEAST) == []
    assert phone.evaluate("document.documentElement.scrollWidth") <= 420
    assert phone.evaluate(CUT) == []
    assert phone.evaluate(FINE) == []


def test_the_cells_and_the_tokens_that_are_painted_are_as_large_as_a_finger(phone: Page) -> None:
    """Cells without room are reached by scrolling within the picture, which keeps its height; and scrolling paints nothing."""
    visit(
        phone,
        "masks",
        ".masks[data-painted]",
        source="She is reading a very good book about the little dog.",
    )
    wait_until_idle(phone)
    board = phone.locator(".masks").evaluate("(root) => ({ ...root.dataset })")
    assert float(board["wide"]) == float(board["tall"]) == LEAST
    holder, stage = boxes(phone, ".masks .holder", ".masks .stage.paintable")
    assert stage["width"] > holder["width"] <= 420
    assert stage["height"] > holder["height"] < 400
    cell = {"x": float(board["left"]) + 20, "y": float(board["top"]) + 20}
    paint = """([x, y, end]) => {
      const all = [...document.querySelectorAll("*")].map((e) => e.shadowRoot?.querySelector(".masks .paintable canvas.cells"));
      const found = all.find(Boolean);
      const box = found.getBoundingClientRect(), send = (type) => found.dispatchEvent(new PointerEvent(type, {
        clientX: box.left + x, clientY: box.top + y, pointerId: 1, pointerType: "touch", bubbles: true }));
      found.setPointerCapture = () => {};
      send("pointerdown");
      send(end);
    }"""
    phone.evaluate(paint, [cell["x"], cell["y"] + LEAST, "pointercancel"])
    phone.locator(".masks .paintable canvas.cells").tap(position=cell)
    phone.wait_for_function("location.search.includes('-mask=')")
    (painted,) = re.findall(r"-mask=([^&]*)", phone.url)
    assert re.fullmatch(r"[af]\d+\.\d+", painted)  # only that cell
