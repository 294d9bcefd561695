"""A text that cannot be read: the last picture stays, dimmed, one line gives the reason, and a button cuts a text that is too long."""

import pytest
from playwright.sync_api import Page, expect
from served_app import boxes, frames, go, resize, wait_until_idle, wait_until_still

SIZES = {"normal": (1280, 720), "large": (1920, 1080), "phone": (420, 900)}
LONG = "the little dog was very hungry and " * 61  # 429 tokens of gpt
PARTS = (".st-key-head", ".st-key-overview")

# the opacity of an element, with those of all its ancestors
PAINTED = """(name) => {
  let shown = 1;
  for (let e = document.querySelector(name); e; e = e.parentElement) shown *= getComputedStyle(e).opacity;
  return shown;
}"""
# the words that the line covers only in part: [text, left, right] of all lines of text partly under it
CLIPPED = """() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
  const note = all(document).find((e) => e.role === "alert"), line = note.getBoundingClientRect(), found = [];
  for (const e of all(document)) {
    if (note.contains(e) || !e.checkVisibility({ visibilityProperty: true }) || e.closest("svg")) continue;
    for (const text of e.childNodes) {
      if (text.nodeType !== Node.TEXT_NODE || !text.data.trim()) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      for (const box of range.getClientRects()) {
        const under = Math.min(box.bottom, line.bottom) - Math.max(box.top, line.top);
        const beside = Math.min(box.right, line.right) - Math.max(box.left, line.left);
        if (box.width > 2 && beside > 0 && under > box.height * 0.3 && under < box.height * 0.7) found.push(text.data);
      }
    }
  }
  return found;
}"""


def source(page: Page, name: str = "source"):
    return page.locator(f".st-key-{name} textarea")


@pytest.mark.parametrize("presented", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", ["", "inside"])
def test_an_emptied_box_dims_the_picture_and_one_line_says_why(
    shared_page: Page, path: str, size: str, presented: bool
) -> None:
    page, link = shared_page, {"present": "1"} if presented else {}
    resize(page, *SIZES[size])
    ready, parts = (".head[data-painted]", PARTS) if not path else (".walk", (".st-key-walk",))
    go(page, path, ready, checkpoint="eng-fra", source="She is reading a book.", **link)
    before = boxes(page, *parts)
    assert page.evaluate(PAINTED, parts[0]) == 1
    source(page).fill("")
    note = page.get_by_role("alert")
    expect(note).to_contain_text("The source is empty; type some text.")
    wait_until_idle(page)
    assert page.evaluate(PAINTED, parts[0]) == 0.5
    assert page.evaluate(PAINTED, ".st-key-input-bar") == 1
    assert page.evaluate(PAINTED, ".st-key-tools") == 1
    for box, old in zip(boxes(page, *parts), before, strict=True):
        assert (box["x"], box["y"], box["width"]) == (old["x"], old["y"], old["width"])
    (line,) = boxes(page, note.locator("p").first)
    assert line["height"] < 32
    assert line["right"] <= SIZES[size][0]
    assert page.evaluate(CLIPPED) == []
    stale = page.locator(".written .stale")
    if stale.is_visible():
        words, read = boxes(page, stale, page.locator(".written .source"))
        assert max(words["height"], read["height"]) < 40  # one line each, side by side
        assert words["right"] <= read["x"]
    source(page).fill("We like him.")
    expect(note).to_have_count(0)
    wait_until_idle(page)
    assert page.evaluate(PAINTED, parts[0]) == 1


@pytest.mark.parametrize(
    ("size", "presented"), [("normal", False), ("normal", True), ("phone", False)]
)
def test_a_text_that_is_too_long_is_cut_by_a_button(
    shared_page: Page, size: str, presented: bool
) -> None:
    page, link = shared_page, {"present": "1"} if presented else {}
    resize(page, *SIZES[size])
    go(page, "", ".head[data-painted]", checkpoint="gpt", text="She is reading a book.", **link)
    source(page, "text").fill(LONG)
    note = page.get_by_role("alert")
    expect(note).to_contain_text("429 tokens; this model reads at most 128")
    button = note.get_by_role("button", name="Use the first 128 tokens")
    expect(button).to_be_in_viewport()
    cut = note.locator(".rest")
    expect(cut).to_be_in_viewport()
    start = cut.get_attribute("title").strip("“”…")
    assert cut.text_content() == f"Cut: {cut.get_attribute('title')}"
    button.click()
    expect(note).to_have_count(0)
    expect(page.locator(".head")).to_have_attribute("data-cols", "128")
    kept = source(page, "text").input_value()
    assert LONG.startswith(kept)
    assert LONG[len(kept) :].strip().startswith(start)
    page.keyboard.press("Control+z")
    expect(source(page, "text")).to_have_value(LONG)
    expect(note).to_have_count(1)


# the share of a canvas that is not close to its most frequent colour
INKED = """(name) => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
  const canvas = all(document).find((e) => e.matches(name)), { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let inked = 0;
  for (let i = 0; i < data.length; i += 4) inked += data[i + 3] > 0 && data[i] < 150 && data[i + 2] - data[i] > 60;
  return inked / (width * height);
}"""


def test_the_picture_of_hundreds_of_tokens_is_not_blank(shared_page: Page) -> None:
    page = shared_page
    resize(page, 1280, 720)
    go(page, "", ".head[data-painted]", checkpoint="eng-fra", source=LONG)
    expect(page.locator(".head")).to_have_attribute("data-cols", "429")
    wait_until_idle(page)
    wait_until_still(page)
    frames(page, 2)
    by_row = page.evaluate(INKED, ".head canvas.cells")
    assert by_row > 0.01
    assert page.evaluate(INKED, ".overview canvas") > 0.01
    assert page.locator(".head select.scale").input_value() == "row"
    assert page.locator(".overview .most").text_content() == "1 weight; in a long row, its largest"
    page.locator(".head select.scale").select_option("weight")
    assert page.evaluate(INKED, ".head canvas.cells") < by_row / 3  # the colour key remains
    wait_until_idle(page)
    go(page, "", ".head[data-painted]", checkpoint="eng-fra", source="We like him.")
    assert page.locator(".head select.scale").input_value() == "weight"
    assert page.locator(".overview .most").text_content() == "1 weight"
