"""A user's data in a browser: pasted with a bad line, corrected, trained; and a file that is no text."""

from playwright.sync_api import Page, expect
from served_app import visit

BOX, SAYS = ".own-data textarea", ".own-data .says"
START = ".st-key-train-start button:enabled"
PAIRS = [f"the cat sees dog {i}\tle chat voit {i}" for i in range(300)]


def test_pasted_pairs_are_corrected_and_trained(page: Page) -> None:
    sizes = {"train-d-model": "16", "train-n-heads": "2"}
    visit(page, "train", BOX, **{"train-task": "own pairs"} | sizes)
    expect(page.locator(".own-data .use")).to_be_disabled()
    colours = "(word) => [word, document.body].map((e) => getComputedStyle(e)).map((s, i) => i ? s.backgroundColor : s.color)"
    text, ground = page.locator(".st-key-train-start button:visible p").evaluate(colours)
    assert text != ground, "a button that cannot be pressed can be read"
    pasted = "\n".join([*PAIRS[:4], "<img src=x onerror=alert(1)>", *PAIRS[4:]])
    page.fill(BOX, pasted)
    page.click(".own-data .use")
    expect(page.locator(SAYS)).to_contain_text("line 5: expected source, tab, target; got '<img")
    assert page.locator(".own-data img").count() == 0
    assert page.input_value(BOX) == pasted, "nothing is lost"
    page.fill(BOX, "\n".join(PAIRS))
    page.click(".own-data .use")
    expect(page.locator(SAYS)).to_contain_text("pasted text: 300 sentence pairs")
    page.locator(START).first.click()
    page.wait_for_selector(".st-key-train-maps .maps[data-painted]")
    assert page.input_value(BOX) == "\n".join(PAIRS)
    page.locator(".st-key-train-pause button:visible").first.click()
    expect(page.locator(".st-key-train-kept")).to_contain_text("attnscope train translation")


def test_files_that_are_too_large_or_no_text_are_refused(page: Page) -> None:
    visit(page, "train", BOX, **{"train-task": "own text"})
    files = page.locator(".own-data input")
    large = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a " * 2_500_001}
    files.set_input_files([large])  # type: ignore[list-item]
    expect(page.locator(SAYS)).to_contain_text("large.txt: more than 5 MB")
    binary = {"name": "<b>.txt", "mimeType": "text/plain", "buffer": b"a b\n\xff\xfe\x00"}
    files.set_input_files([binary])  # type: ignore[list-item]
    expect(page.locator(SAYS)).to_contain_text("<b>.txt: line 2: not UTF-8 text")
    assert page.locator(START).count() == 0
