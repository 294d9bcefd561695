"""The frame around every page: its navigation, and the presentation."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect
from served_app import PATIENCE, back, boxes, frames, go, in_url, resize, visit, wait_until_idle

START = {
    "checkpoint": "dates",
    "source": "24/07/69",
    "site": "decoder.layers.1.cross_attn",
    "head": "2",
}
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 20, 29)"}
# The font sizes in the frame: in the input bar, the header and the app's own lines of text
SIZES = """() => {
  const found = [], look = (root) => root.querySelectorAll("*").forEach((e) => {
    if (e.shadowRoot) look(e.shadowRoot);
    const frame = root === document ? ".st-key-input-bar, [data-testid=stHeader], .headline" : ".plain, .tools";
    const written = [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (written && e.closest(frame) && e.checkVisibility())
      found.push([parseFloat(getComputedStyle(e).fontSize), e.textContent.slice(0, 40)]);
  });
  look(document);
  return found;
}"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_a_scrolled_page_passes_under_an_opaque_navigation(
    browser: Browser, scheme: str, width: int
) -> None:
    context = browser.new_context(
        bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 720}
    )
    page = context.new_page()
    visit(page, **START)
    header = page.locator("[data-testid=stHeader]")
    page.locator("[data-testid=stMain]").evaluate("e => e.scrollTo(0, 200)")
    assert header.evaluate("e => getComputedStyle(e).backgroundColor") == PAPER[scheme]
    assert header.evaluate("e => getComputedStyle(e).opacity") == "1"
    top = "([x, y]) => !!document.elementFromPoint(x, y).closest('[data-testid=stHeader]')"
    assert page.evaluate(top, [width // 2 if width > 700 else 100, 15])
    context.close()


def test_a_chart_is_drawn_for_the_window_and_for_a_presentation(shared_page: Page) -> None:
    chart = "[data-testid=stVegaLiteChart] svg"
    is_drawn = """([height, letters]) => {
      const svg = document.querySelector("[data-testid=stVegaLiteChart] svg"), text = svg?.querySelector(".role-axis-label text");
      return text && Math.round(svg.getBoundingClientRect().height) === height && getComputedStyle(text).fontSize === `${letters}px`;
    }"""
    resize(shared_page, 1280, 720)
    go(shared_page, "positions", chart, **START, **{"positions-section": "Curves"})
    (box,) = boxes(shared_page, chart)
    usual = round(box["height"])
    for (width, height), taller, letters in (
        ((1280, 720), 0, 16), ((1920, 1080), 220, 20), ((420, 900), 40, 16), ((1280, 720), 0, 16),
    ):  # fmt: skip
        resize(shared_page, width, height)
        shared_page.wait_for_function(is_drawn, arg=[usual + taller, 12])
        shared_page.keyboard.press("p")
        presented = usual + taller + (120 if width > 700 else 0)  # the room that the controls leave
        shared_page.wait_for_function(is_drawn, arg=[presented, letters])
        wait_until_idle(shared_page)
        shared_page.keyboard.press("p")  # its letters must not be those of the presentation
        shared_page.wait_for_function(is_drawn, arg=[usual + taller, 12])
        wait_until_idle(shared_page)


def test_a_first_visit_has_charts_for_its_window_and_controls_with_their_values(
    browser: Browser,
) -> None:
    """A second run for the size of the window would move the page, and might empty the controls of the first."""
    context = browser.new_context(viewport={"width": 1920, "height": 1080}, bypass_csp=True)
    context.set_default_timeout(PATIENCE)
    heights = """() => (window.heights = [], new MutationObserver(() => {
      const height = document.querySelector("[data-testid=stVegaLiteChart] svg")?.getAttribute("height");
      if (height && heights.at(-1) !== height) heights.push(height);
    }).observe(document, { subtree: true, childList: true, attributes: true }))"""
    page = context.new_page()
    page.add_init_script(f"({heights})()")
    visit(
        page,
        "positions",
        "[data-testid=stVegaLiteChart] svg",
        **START,
        **{"positions-section": "Curves"},
    )
    wait_until_idle(page)
    frames(page, 90)
    assert page.locator("[data-testid=stSliderThumbValue]").all_text_contents() == ["64", "100"]
    assert len(page.evaluate("heights")) == 1
    assert float(page.evaluate("heights[0]")) > 400
    context.close()


def test_a_presentation_has_larger_type_and_is_in_the_link(shared_page: Page) -> None:
    go(shared_page, "", ".head[data-painted]", **START)
    start, presents = shared_page.url, shared_page.locator("html[data-present]")
    small = shared_page.evaluate(SIZES)
    assert len(small) > 12
    assert min(size for size, _ in small) >= 12, sorted(small)[:3]
    box = shared_page.get_by_role("textbox", name="Date, in any format (type here)")
    box.press("End")
    box.press("p")  # in a text box it is a letter
    expect(box).to_have_value("24/07/69p")
    box.press("Backspace")
    in_url(shared_page, "source", "24/07/69")
    shared_page.locator(".head canvas.cells").click(position={"x": 5, "y": 5})
    shared_page.keyboard.press("Control+p")
    expect(presents).to_have_count(0)
    shared_page.keyboard.press("p")
    in_url(shared_page, "present", "1")
    expect(presents).to_have_count(1)
    wait_until_idle(shared_page)
    assert min(size for size, _ in shared_page.evaluate(SIZES)) >= 15
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= 1280
    shared_page.get_by_role("link", name="Masks").first.click()  # it continues on another page
    shared_page.wait_for_url("**/masks*present=1*")
    expect(presents).to_have_count(1)
    wait_until_idle(shared_page)  # its address is written last
    back(shared_page)
    shared_page.wait_for_selector(".head[data-painted]")
    shared_page.get_by_role("button", name="End").click()
    in_url(shared_page, "present", "")
    expect(presents).to_have_count(0)
    wait_until_idle(shared_page)
    back(shared_page)
    in_url(shared_page, "present", "1")
    expect(presents).to_have_count(1)
    back(shared_page)
    expect(presents).to_have_count(0)
    assert shared_page.url == start


@pytest.mark.parametrize("path", ["", "inside", "layer", "masks", "decoding", "task"])
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080), (420, 800)])
def test_typing_and_choosing_a_model_work_in_a_presentation_too(
    shared_page: Page, path: str, width: int, height: int
) -> None:
    resize(shared_page, width, height)
    go(shared_page, path, ".st-key-input-bar", present="1", **START)
    text = shared_page.get_by_role("textbox", name="Date, in any format (type here)")
    model = shared_page.locator(".st-key-bar-model input")
    for control in (text, model):
        found = control.bounding_box()
        assert found["y"] >= 0
        assert found["y"] + found["height"] <= height / 2
    text.fill("25/08/70")
    expect(shared_page.locator(".st-key-written .output")).to_have_text("1970-08-25")
    expect(text).to_be_focused()
    resize(shared_page, 1280)


@pytest.mark.parametrize(("path", "picture"), [
    ("", ".head .map .stage"), ("inside", ".walk .stage"), ("masks", ".masks .stage.paintable"),
    ("decoding", ".panel.serial .bars"),
])  # fmt: skip
def test_the_picture_of_a_presentation_is_in_sight_on_a_small_projector(
    shared_page: Page, path: str, picture: str
) -> None:
    go(shared_page, path, picture, present="1", checkpoint="dates", source="24/07/69")
    shared_page.wait_for_selector("html[data-present]", state="attached")
    wait_until_idle(shared_page)
    (box,) = boxes(shared_page, picture)
    assert box["width"] > 300
    assert box["bottom"] <= 720


def test_on_a_phone_the_pages_are_named_and_large_enough_for_a_finger(browser: Browser) -> None:
    context = browser.new_context(
        bypass_csp=True, viewport={"width": 420, "height": 800}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    visit(page, **START)
    wait_until_idle(page)
    opens = page.locator("[data-testid=stExpandSidebarButton]")
    assert "Pages" in opens.evaluate("e => getComputedStyle(e, '::after').content")
    small = """(elements) => elements.filter((e) => e.checkVisibility()).map((e) => [e.getBoundingClientRect(), e.outerHTML])
      .filter(([box]) => box.width < 40 || box.height < 40).map(([, name]) => name)"""
    reached = [".overview button", ".head button", ".tools button", "[data-testid=stHeader] button"]
    for part in reached:
        assert page.locator(part).evaluate_all(small) == [], part
    button = page.locator('.overview button[data-site="encoder.layers.0.self_attn"][data-head="1"]')
    button.tap()
    in_url(page, "site", "encoder.layers.0.self_attn")
    page.wait_for_function("""() => {
      const box = document.querySelector(".st-key-head").getBoundingClientRect();
      return box.top >= 0 && box.top < 120;
    }""")
    opens.tap()
    sidebar = page.locator("[data-testid=stSidebar]")
    expect(sidebar.get_by_role("link", name="Decoding")).to_be_visible()
    within = "document.querySelectorAll('[data-testid=stSidebar] :is(a, button, input, textarea)')"
    page.wait_for_function(f"() => !({small})([...{within}]).length")  # once it has slid into place
    page.locator("[data-testid=stSidebarCollapseButton] button").tap()
    expect(opens).to_be_visible()
    context.close()


def test_a_presenters_remote_turns_the_pages(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "inside", ".walk", checkpoint="eng-fra")
    shared_page.evaluate("document.activeElement?.blur()")
    shared_page.keyboard.press("PageDown")  # not presented: it scrolls
    wait_until_idle(shared_page)
    assert "/inside?" in shared_page.url
    go(shared_page, "inside", ".walk", checkpoint="eng-fra", present="1")
    shared_page.evaluate("document.activeElement?.blur()")
    for key, path in (("PageDown", "layer"), ("PageUp", "inside"), ("PageUp", "task")):
        shared_page.keyboard.press(key)
        shared_page.wait_for_url(f"**/{path}?*present=1*")
        wait_until_idle(shared_page)
    box = shared_page.locator(".st-key-source textarea")
    box.press("PageDown")  # in a text box it moves in the text
    wait_until_idle(shared_page)
    assert "/task?" in shared_page.url


def test_a_presentation_on_a_phone_has_no_control_over_a_label(shared_page: Page) -> None:
    resize(shared_page, 420, 900)
    go(shared_page, "", ".head[data-painted]", checkpoint="eng-fra")
    labels = shared_page.locator(".st-key-input-bar label[data-testid=stWidgetLabel] p")
    edit, *texts = boxes(shared_page, shared_page.locator(".st-key-edit button"), *labels.all())
    for text in texts:
        beside = edit["right"] <= text["x"] or edit["x"] >= text["right"]
        assert beside or edit["bottom"] <= text["y"] or edit["y"] >= text["bottom"]
    tools = shared_page.locator(".tools > button")
    for box in boxes(shared_page, *tools.all()):
        assert box["x"] >= 0
        assert box["right"] <= 420
    shared_page.get_by_role("button", name="Present").click()
    expect(shared_page.locator("html[data-present]")).to_have_count(1)
    shared_page.get_by_role("button", name="End").click()
    expect(shared_page.locator("html[data-present]")).to_have_count(0)
    resize(shared_page, 1280, 720)


def test_each_page_has_its_own_title_in_the_browser(shared_page: Page) -> None:
    go(shared_page, "", ".head[data-painted]", **START)
    expect(shared_page).to_have_title("Attention · Attnscope")
    shared_page.get_by_role("link", name="Masks").first.click()
    expect(shared_page).to_have_title("Masks · Attnscope")


def test_the_question_at_the_end_of_a_page_opens_its_answer(shared_page: Page) -> None:
    go(shared_page, "", ".head[data-painted]", **START)
    asked = shared_page.locator(".next button")
    expect(asked).to_be_in_viewport()
    weight = re.search(r"[\d.]+ %", asked.inner_text()).group()
    asked.click()
    walk = shared_page.locator(".walk")
    expect(walk).to_contain_text(f"comes to give {weight} of its attention")
    in_url(shared_page, "source", START["source"])  # the text is kept
    expect(shared_page).to_have_url(re.compile("/inside"))
    expect(shared_page.locator('[data-testid=stTopNavLink][aria-current="page"]')).to_have_text(
        "Inside a head"
    )
    back(shared_page)
    expect(shared_page.locator(".head")).to_be_visible()
    expect(asked).to_contain_text(weight)


def test_a_question_follows_the_typed_text(shared_page: Page) -> None:
    go(shared_page, "", ".head[data-painted]", **START)
    before = shared_page.locator(".next button").inner_text()
    box = shared_page.get_by_role("textbox", name="Date, in any format (type here)")
    box.fill("5 May 1990")
    in_url(shared_page, "source", "5 May 1990")
    wait_until_idle(shared_page)
    expect(shared_page.locator(".next button")).not_to_have_text(before)
