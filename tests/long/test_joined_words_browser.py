"""Sub-words merged into words in a real browser: the switch, its text, the address, and the browser's Back."""

from playwright.sync_api import Page, expect
from served_app import go, in_url

SITE = "decoder.layers.1.self_attn"
WORDS = ["[start]", "The", "·unbelievably", "·hungry", "·doggy"]


def keys(page: Page) -> list[str]:
    return page.locator(".head").evaluate(
        "({ view: { picture } }) => picture.keys.map(([key]) => key)"
    )


def open_head(page: Page, **choices: str) -> None:
    """Open a head of gpt on a text with a word of several tokens."""
    text = "The unbelievably hungry doggy"
    go(page, "", ".head[data-painted]", checkpoint="gpt", text=text, site=SITE, head="2", **choices)


def test_the_switch_merges_and_one_press_of_back_splits(shared_page: Page) -> None:
    open_head(shared_page)
    tokens = len(keys(shared_page))
    assert tokens == 12
    switch = shared_page.get_by_role("checkbox", name="Merge sub-words into words")
    switch.check()
    expect(shared_page.locator(".head")).to_have_attribute("data-cols", "5")
    assert keys(shared_page) == WORDS
    in_url(shared_page, "words", "true")
    expect(shared_page.locator(".overview .joins")).to_contain_text(
        "a row is the mean over the word's tokens, a column the sum"
    )
    expect(shared_page.locator(".head figure.map .note")).to_contain_text(
        "Sub-words merged into words"
    )
    longer = "The unbelievably hungry doggy was unbelievably there"
    shared_page.get_by_role("textbox", name="Text (type here)").fill(longer)
    expect(shared_page.locator(".head")).to_have_attribute("data-cols", "8")
    in_url(shared_page, "text", longer)
    shared_page.go_back()
    in_url(shared_page, "words", "")
    expect(shared_page.locator(".head")).to_have_attribute("data-cols", str(tokens))
    expect(switch).not_to_be_checked()
    expect(shared_page.locator(".overview .joins")).to_have_text("")


def test_a_pinned_word_stays_pinned_on_the_other_pages(shared_page: Page) -> None:
    open_head(shared_page, words="true")
    shared_page.locator('.head svg rect[data-side="query"][data-index="3"]').click()
    in_url(shared_page, "lock", "q3")
    pages = shared_page.get_by_test_id("stTopNav")
    pages.get_by_role("link", name="Inside a head").click()
    in_url(shared_page, "lock", "q8")  # its token, after the six of “unbelievably”
    chosen = shared_page.locator(".choice .tokens").first.locator("[aria-pressed=true]")
    expect(chosen).to_have_text("·hungry → ·dog")
    pages.get_by_role("link", name="Attention", exact=True).click()
    in_url(shared_page, "lock", "q3")
    expect(shared_page.locator(".head")).to_have_attribute("data-cols", "5")
    expect(shared_page.locator(".head")).to_have_attribute("data-lock", "q3")


def test_if_words_are_unknown_the_switch_is_off_and_says_why(
    shared_page: Page,
) -> None:
    go(shared_page, "", ".head[data-painted]", checkpoint="gpt-char", words="true")
    switch = shared_page.get_by_role("checkbox", name="Merge sub-words into words")
    expect(switch).to_be_disabled()
    expect(switch).not_to_be_checked()
    expect(shared_page.locator(".overview .join")).to_have_attribute(
        "title", "Its tokenizer does not say which tokens belong to one word."
    )
