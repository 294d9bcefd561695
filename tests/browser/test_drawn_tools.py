"""The buttons beside the navigation: a link to the current view, and the presentation."""

import pytest
from playwright.sync_api import expect
from stage import Stage


def tools(stage: Stage, clipboard: str = "resolve", by_command: bool = True, **boxes: str) -> None:
    """Mount the buttons on a page with text in its boxes, in a browser with or without these ways to copy."""
    stage.mount("tools")
    stage.page.evaluate(
        """([clipboard, byCommand, boxes]) => {
      history.replaceState({}, "", "/masks?checkpoint=dates&source=a&target=b#part");
      window.copies = [];
      const allowed = (text) => (copies.push(text), Promise.resolve()), refused = () => Promise.reject(new Error("no"));
      const writeText = clipboard === "resolve" ? allowed : refused;
      Object.defineProperty(navigator, "clipboard", { value: clipboard ? { writeText } : undefined, configurable: true });
      document.execCommand = () => byCommand && (copies.push(stage.root.activeElement.value), true);
      for (const [name, text] of Object.entries(boxes)) {
        const box = document.createElement("div");
        box.className = `st-key-${name}`;
        box.append(document.createElement("textarea"));
        box.firstChild.value = text;
        document.body.append(box);
      }
    }""",
        [clipboard, by_command, boxes],
    )
    stage.show({"presents": False, "fields": ["source", "target"]})


@pytest.mark.parametrize(
    ("clipboard", "by_command"), [("resolve", False), ("reject", True), ("", True)]
)
def test_the_link_is_copied_with_the_text_typed_a_moment_ago(
    stage: Stage, clipboard: str, by_command: bool
) -> None:
    tools(stage, clipboard, by_command, source="a new & longer\ntext", target="")
    stage.click(".copy")
    stage.page.wait_for_function("copies.length === 1")
    expect(stage.page.get_by_role("button", name="Link copied")).to_be_visible()
    assert stage.hidden(".by-hand")
    assert (
        stage.page.evaluate("copies[0]")
        == "http://stage.test/masks?checkpoint=dates&source=a+new+%26+longer%0Atext#part"
    )


def test_a_link_that_would_not_open_is_not_copied(stage: Stage) -> None:
    tools(stage, source="é" * 20, target="b")
    stage.show({"presents": False, "fields": ["source", "target"], "longest": 120})
    stage.click(".copy")
    expect(stage.page.get_by_role("button", name="Text too long")).to_be_visible()
    assert stage.page.evaluate("copies") == []


def test_if_a_page_may_not_copy_the_link_is_selected(stage: Stage) -> None:
    tools(stage, "reject", by_command=False, source="a", target="b")
    stage.click(".copy")
    stage.page.wait_for_function("stage.root.querySelector('.by-hand input').value")
    link = "http://stage.test/masks?checkpoint=dates&source=a&target=b#part"
    selected = "(root) => { const i = root.activeElement; return i.value.slice(i.selectionStart, i.selectionEnd); }"
    assert stage.js(selected) == link
    assert stage.text(".copy") == "Copy link"
    stage.press("Escape")
    assert stage.hidden(".by-hand")


def test_the_button_and_the_key_start_a_presentation_once(stage: Stage) -> None:
    tools(stage)
    stage.show({"presents": False, "fields": []}, (2, 1))
    stage.press("p", "P", "q")
    stage.click(".present")
    assert stage.sent == [["present", True]] * 2
    stage.show({"presents": True, "fields": []}, (3, 1))
    assert stage.page.evaluate("document.documentElement.hasAttribute('data-present')")
    assert stage.attrs(".present", "aria-pressed") == ["true"]
    stage.press("p")
    assert stage.sent[2:] == [["present", False]]
    stage.page.evaluate("stage.end()")
    stage.press("p")  # there is no listener any more
    assert len(stage.sent) == 3


def test_a_new_window_size_is_reported_at_once_or_when_the_page_has_settled(
    stage: Stage,
) -> None:
    resized = """(root, size) => {
      document.documentElement.dataset.window = size;
      document.documentElement.dispatchEvent(new Event("windowsize"));
    }"""
    shown = {"presents": False, "fields": [], "size": "usual"}
    tools(stage)
    stage.show(shown, (1, 2))
    stage.js(resized, "large")
    assert stage.sent == []  # there is no chart
    stage.js("""() => {
      const chart = document.body.appendChild(document.createElement("div"));
      chart.dataset.testid = "stPlotlyChart";
    }""")
    stage.hold_timers()
    stage.show(shown, (2, 1))
    stage.js(resized, "usual")
    assert stage.sent == []
    stage.js(resized, "large")
    assert stage.sent == [["window", {"size": "large"}]]
    stage.show(shown | {"size": "phone"}, (3, 1))
    assert (
        len(stage.sent) == 1
    )  # another run would leave the controls of this one without their values
    stage.end_timers()
    assert stage.sent[1:] == [["window", {"size": "large"}]]
    stage.hold_timers()
    stage.show(shown | {"size": "large"}, (4, 1))
    stage.end_timers()
    assert len(stage.sent) == 2
    stage.page.evaluate("stage.end()")
    stage.js(resized, "phone")
    assert len(stage.sent) == 2
    stage.js("""() => {
      delete document.documentElement.dataset.window;
      document.querySelector("[data-testid=stPlotlyChart]").remove();
    }""")
