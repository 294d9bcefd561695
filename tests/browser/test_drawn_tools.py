"""The buttons beside the navigation: a link to what one sees, and the presentation."""

import pytest
from playwright.sync_api import expect
from stage import Stage


def tools(stage: Stage, clipboard: str = "resolve", by_command: bool = True, **boxes: str) -> None:
    """The buttons, on a page with these texts in its boxes, in a browser that lets a page copy or does not."""
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
def test_the_link_is_copied_with_what_was_typed_a_moment_ago(
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


def test_where_a_page_may_not_copy_the_link_lies_selected(stage: Stage) -> None:
    tools(stage, "reject", by_command=False, source="a", target="b")
    stage.click(".copy")
    stage.page.wait_for_function("stage.root.querySelector('.by-hand input').value")
    link = "http://stage.test/masks?checkpoint=dates&source=a&target=b#part"
    selected = "(root) => { const i = root.activeElement; return i.value.slice(i.selectionStart, i.selectionEnd); }"
    assert stage.js(selected) == link
    assert stage.text(".copy") == "Copy link"
    stage.press("Escape")
    assert stage.hidden(".by-hand")


def test_the_button_and_the_key_ask_for_a_presentation_once(stage: Stage) -> None:
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
    stage.press("p")  # nobody listens any more
    assert len(stage.sent) == 3


def test_the_size_of_the_window_is_reported_where_a_page_has_a_chart(stage: Stage) -> None:
    tools(stage)
    shown = {"presents": False, "fields": []}
    stage.show(shown | {"size": None}, (2, 1))  # no chart
    stage.show(shown | {"size": "usual"}, (3, 1))
    assert stage.sent == []
    stage.show(shown | {"size": "large"}, (4, 1))
    assert stage.sent == [["window", {"size": "usual"}]]
    stage.show(shown | {"size": "usual"}, (5, 1))
    for width, height, size in (
        (1800, 1000, "large"), (1799, 1000, "usual"), (1800, 999, "usual"), (767, 1600, "phone"), (768, 1600, "usual"),
    ):  # fmt: skip
        before = len(stage.sent)
        stage.page.set_viewport_size({"width": width, "height": height})
        stage.frames(2)
        assert stage.sent[before:] == ([] if size == "usual" else [["window", {"size": size}]])
    stage.page.set_viewport_size({"width": 1280, "height": 1600})
