"""Nothing on a page moves while 24 words are typed, nor from its first paint until it is complete, page by page."""

import pytest
from playwright.sync_api import Page
from served_app import app_address, in_url, resize, visit, wait_for_layout, wait_until_idle

WORDS = "I think that my old friend is reading a very good book about the little dog which he saw in a garden yesterday evening."

KEYED = 6  # words that are typed key by key; the others are inserted one at a time
# page → its path, the element to wait for, and the other parameters of its URL; a new page needs only one line here
PAGES = {
    "states of an RNN": ("", ".states[data-painted]", {"checkpoint": "eng-fra-rnn"}),
    "decoding": ("decoding", ".stepper[data-painted]", {}),
    "positions": ("positions", ".shuffle[data-painted]", {}),
    "masks": ("masks", ".masks[data-painted]", {}),
    "three models": ("from-rnn", ".versions[data-painted]", {}),
    "what reaches what": (
        "from-rnn",
        ".maps[data-painted]",
        {"from-rnn-section": "What reaches what"},
    ),
    "two alignments": ("from-rnn", ".maps[data-painted]", {"from-rnn-section": "Two alignments"}),
    "attention": ("", ".head[data-painted]", {}),
    "walk": ("inside", ".walk[data-painted]", {}),
    "matrices": ("inside", ".matrices[data-painted]", {"inside-view": "matrices"}),
    "several heads": ("inside", ".several[data-painted]", {"inside-view": "several"}),
    "a layer": ("layer", ".layer[data-painted]", {}),
    "models": ("models", ".cards[data-painted]", {}),
    "task: translation": ("task", ".answers[data-painted]", {}),
    "task: running text": ("task", ".answers[data-painted]", {"checkpoint": "gpt"}),
    "task: hidden words": ("task", ".guesses[data-painted]", {"checkpoint": "bert"}),
    "task: an order": ("task", ".order[data-painted]", {"checkpoint": "xlnet"}),
    "task: classes": ("task", ".classes[data-painted]", {"checkpoint": "gpt-sentiment"}),
    "task: an answer in a text": ("task", ".span[data-painted]", {"checkpoint": "bert-where"}),
    "decoding of a prompt": ("decoding", ".stepper[data-painted]", {"checkpoint": "gpt"}),
}
# checkpoint → the field that is typed into, where it is not the source
FIELD = {
    "gpt": "text",
    "bert": "text",
    "xlnet": "text",
    "gpt-sentiment": "text",
    "bert-where": "question",
}

WATCH = """(tokensMove) => {
  window.shifts = [];
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => entry.sources.forEach((source) => {
    const { node, previousRect: a, currentRect: b } = source;
    if (a.width && b.width && (a.x !== b.x || a.y !== b.y)) {
      const part = node?.nodeType === 1 ? node : node?.parentElement;
      if (tokensMove && !part) return;     // within a component, of which BOXES tells
      const within = part?.closest("[class*=st-key]")?.className.match(/st-key-[\\w-]+/)[0];
      window.shifts.push([within, part?.outerHTML.slice(0, 60), a.x, a.y, b.x, b.y].join(" "));
    }
  }))).observe({ type: "layout-shift" });
}"""

# The elements that must not move whatever is typed: all of Streamlit's elements, and the parts of each component; not the tokens
# in a row, which follow the text, nor the end of the page: sentences about it, and checks
BOXES = """() => {
  const found = {}, look = (root) => root.querySelectorAll("*").forEach((e, i) => {
    if (e.shadowRoot) look(e.shadowRoot);
    const last = ".st-key-explanation, .st-key-checks, .st-key-checked, .st-key-trained, .st-key-tools, .st-key-live, .st-key-files";
    // the caption of a chart names the text, in as many lines as that takes
    const named = ".st-key-from-rnn-fading";
    const part = ".attnscope, .attnscope > *, section, section > :not(canvas), header, figure, .stage";
    const own = root === document ? ".stElementContainer, textarea" : part;
    if (e.closest(`${last}, ${named}`) || !e.matches(own) || !e.checkVisibility()) return;
    const { x, y, width, height } = e.getBoundingClientRect(), names = e.className?.baseVal ?? e.className;
    const name = names.match(/st-key-[\\w-]+/)?.[0] ?? (root === document ? e.tagName : names);
    const at = [x, y, width, height].map(Math.round).join(" ");
    found[`${name} ${Object.keys(found).length}`] = at;
  });
  look(document);
  return found;
}"""
# pages with rows of tokens
TOKENS_MOVE = (
    "walk",
    "matrices",
    "several heads",
    "a layer",
    "decoding",
    "decoding of a prompt",
)


def moves_tokens(name: str) -> bool:
    return name.startswith("task") or name in TOKENS_MOVE


@pytest.mark.parametrize("name", PAGES)
def test_nothing_moves_while_24_words_are_typed(page: Page, name: str) -> None:
    path, ready, params = PAGES[name]
    field = FIELD.get(params.get("checkpoint", ""), "source")
    visit(page, path, ready, **{field: "I"}, **params)
    wait_until_idle(page)
    box = page.locator(f".st-key-{field} :is(input, textarea)").first
    box.click()
    box.press("End")
    wait_for_layout(page)
    page.evaluate(WATCH, moves_tokens(name))
    before = page.evaluate(BOXES)
    words = WORDS.split()[1:]
    for i, word in enumerate(words):
        if i < KEYED:
            box.press_sequentially(f" {word}")
        else:
            page.keyboard.insert_text(f" {word}")
    in_url(page, field, WORDS)  # by the rerun that follows when typing pauses
    wait_until_idle(page)
    after = page.evaluate(BOXES)
    moved = {part: (box, after.get(part)) for part, box in before.items() if after.get(part) != box}
    assert (page.evaluate("window.shifts"), moved) == ([], {})


SHIFTED = """
window.moved = 0;
window.movers = [];
new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
  window.moved += entry.value;
  window.movers.push([entry.startTime, entry.value, ...entry.sources.map(({ node }) => node?.className ?? node?.nodeName)]);
})).observe({ type: "layout-shift", buffered: true });
"""
LEAST_SEEN = 0.02  # in all; 0.1 is what web.dev calls good
OPENED = [
    *((path, (1280, 720)) for path in (
        "", "task", "inside", "layer", "positions", "masks", "interventions", "decoding", "compare", "from-rnn", "lessons", "models", "train",
        "task?checkpoint=bert", "masks?checkpoint=xlnet", "?checkpoint=gpt", "decoding?present=1",
    )),
    *((path, size) for path in ("", "task", "decoding") for size in ((420, 860), (1920, 1080))),
]  # fmt: skip


@pytest.mark.parametrize(("path", "size"), OPENED)
def test_nothing_moves_from_the_first_paint_on(
    page: Page, path: str, size: tuple[int, int]
) -> None:
    resize(page, *size)
    page.add_init_script(SHIFTED)
    page.goto(f"{app_address()}/{path}")
    page.wait_for_selector("html[data-shown]", state="attached")
    early = page.evaluate("performance.now()")
    wait_for_layout(page)
    assert early < 20_000  # the outline was not removed by its timeout
    assert page.evaluate("window.moved") < LEAST_SEEN, page.evaluate("window.movers")
    assert page.evaluate("performance.getEntriesByName('first-paint').length") == 1


def test_until_then_an_outline_is_visible_and_nothing_of_the_app(page: Page) -> None:
    resize(page, 1280, 720)
    page.route_web_socket("**/_stcore/stream*", lambda socket: None)  # the server does not answer
    page.goto(app_address())
    page.wait_for_selector("[data-testid=stApp]", state="attached")
    assert not page.locator("[data-testid=stApp]").is_visible()
    outline = "getComputedStyle(document.body, '::before')"
    assert page.evaluate(f"{outline}.content") == '""'
    assert float(page.evaluate(f"{outline}.opacity")) > 0


def test_the_labels_of_the_boxes_are_below_the_navigation(page: Page) -> None:
    resize(page, 1280, 720)
    visit(page)
    header = "[data-testid=stHeader]"
    labels = ".st-key-input-bar label[data-testid=stWidgetLabel] p"
    tops = page.evaluate(
        "(all) => [...document.querySelectorAll(all)].map((e) => e.getBoundingClientRect().top)",
        labels,
    )
    below = page.evaluate(f"document.querySelector('{header}').getBoundingClientRect().bottom")
    assert len(tops) > 2
    assert min(tops) >= below - 1
