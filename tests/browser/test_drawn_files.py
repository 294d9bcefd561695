"""What every file of a picture has in common: its caption in lines, its page in print, its pixels."""

from stage import SAVED, Stage

from . import test_drawn_shuffle as shuffle


def test_a_caption_is_broken_between_words_and_within_one_that_is_longer_than_a_line(
    stage: Stage,
) -> None:
    stage.functions("head", "wrapped")

    def lines(text: str, room: int) -> list[str]:
        return stage.js(
            "(root, text, room) => own.wrapped(text, room, (part) => part.length)", text, room
        )

    assert lines("one two three", 7) == ["one two", "three"]
    assert lines("one two three", 6) == ["one", "two", "three"]
    assert lines("  one   two ", 20) == ["one two"]
    assert lines("a abcdefghij k", 4) == ["a", "abcd", "efgh", "ij k"]
    assert lines("", 9) == []


def test_a_drawing_is_printed_on_a_page_of_its_own_size(stage: Stage) -> None:
    stage.page.add_init_script(
        "const page = () => [document.title, document.head.innerHTML, document.body.innerHTML];"
        "if (window !== top) window.print = () => { top.printed = page(); }"
    )
    shuffle.shuffle_shown(stage)
    stage.click(".pdf")
    stage.page.wait_for_function("window.printed")
    title, head, body = stage.page.evaluate("window.printed")
    wide, tall = stage.page.evaluate(
        "(body) => { const holder = document.createElement('div'); holder.innerHTML = body;"
        " const svg = holder.querySelector('svg'); return [svg.getAttribute('width'), svg.getAttribute('height')]; }",
        body,
    )
    assert title == "shuffle-test"
    assert f"@page {{ size: {wide}px {tall}px; margin: 0 }}" in head
    assert SAVED["caption"] in body
    assert "The shuffle test" in body
    assert body.startswith("<svg")
    stage.page.evaluate(
        "document.querySelector('iframe.attnscope-print').contentWindow.onafterprint()"
    )
    assert stage.page.locator("iframe.attnscope-print").count() == 0
