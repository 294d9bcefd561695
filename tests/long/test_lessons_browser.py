"""Every lesson by keyboard to its end, with wrong and right predictions; a link to each step, a phone, and a hall."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from served_app import back, boxes, go, in_url, resize, wait_until_idle

import viz_app.navigation  # noqa: F401  # declares every URL parameter
from viz_app.controls.lesson_panel import offered_lessons

LESSONS = {lesson.name: lesson for lesson in offered_lessons().lessons}
NAMES = list(LESSONS)
AXE = Axe()
# the outline around one picture
MARKED = """() => [...document.querySelectorAll('[class*="st-key-"]')]
    .filter((e) => getComputedStyle(e).outlineOffset === "6px").length === 1"""


def predict(page: Page, last: bool = False) -> None:
    """Make a prediction with the keyboard alone: the first option, or the `last` one."""
    form = page.locator(".lesson form")
    if form.locator("input[type=number]").count():
        form.locator("input").focus()
        page.keyboard.type("5")
    elif form.locator("input[type=radio]").count():
        form.locator("input").first.focus()
        page.keyboard.press("Space")
        if last:
            page.keyboard.press("ArrowUp")  # around from the first to the last
    elif form.locator(".order").count():
        form.locator(".order button:enabled").first.focus()
        page.keyboard.press("Enter")
    else:
        form.locator("td button").first.focus()
        page.keyboard.press("Space")
    expect(form.locator(".commit")).to_be_enabled()
    form.locator(".commit").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".lesson .told dl")
    wait_until_idle(page)


def begin(page: Page, name: str) -> None:
    go(page, "lessons", ".lesson-list button")
    page.locator(".lesson-list button").nth(NAMES.index(name)).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".lesson .commit")
    wait_until_idle(page)


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_completed_with_the_keyboard(shared_page: Page, name: str) -> None:
    page = shared_page
    resize(page, 1280, 720)
    begin(page, name)
    n = page.locator(".lesson .steps button").count()
    for number in range(1, n + 1):
        expect(page.locator('.lesson .steps [aria-current="step"]')).to_have_text(str(number))
        expect(page.locator(".lesson .told")).to_be_empty()
        predict(page, last=number % 2 == 0)
        expect(page.locator(".lesson .error")).to_be_empty()
        expect(page.locator(".lesson .away")).to_be_empty()
        if LESSONS[name].steps[number - 1].looks_at:
            page.wait_for_function(MARKED)
        assert page.locator(".lesson .told p").first.inner_text()
        assert page.locator(".lesson .said").inner_text()
        assert page.locator(".lesson .happened").inner_text()
        question = boxes(page, ".lesson .question")[0]
        assert 0 <= question["top"] < question["bottom"] <= 720
        if number < n:
            page.locator(".lesson .on").focus()
            page.keyboard.press("Enter")
            in_url(page, "lesson-step", str(number + 1))
            page.wait_for_selector(".lesson .commit")
            wait_until_idle(page)
    expect(page.locator(".lesson .steps .made")).to_have_count(n)
    (footer,) = boxes(page, ".lesson footer")
    assert footer["height"] < 60, "its buttons are on one line"
    page.locator(".lesson .on").focus()
    page.keyboard.press("Enter")
    following = NAMES.index(name) + 1
    if following < len(NAMES):
        in_url(page, "lesson", NAMES[following])
        expect(page.locator(".lesson h2")).to_have_text(LESSONS[NAMES[following]].title)
        expect(page.locator(".lesson .steps .made")).to_have_count(0)
    else:
        page.wait_for_selector(".lesson-list button")
        expect(page.locator(".lesson")).to_have_count(0)


def test_a_typed_text_is_described_at_every_key(shared_page: Page) -> None:
    begin(shared_page, "6-positions")
    predict(shared_page)
    expect(shared_page.locator(".lesson .told p").first).to_contain_text("“Mary hit Tom.”")
    shared_page.locator(".st-key-source textarea").fill("She saw Tom.")
    expect(shared_page.locator(".lesson .told p").first).to_contain_text("“She saw Tom.”")
    expect(shared_page.locator(".lesson .away")).to_contain_text("another text")
    expect(shared_page.locator(".lesson .told dt").last).to_have_text("In this run")
    shared_page.get_by_role("button", name="Show again").click()
    expect(shared_page.locator(".lesson .told p").first).to_contain_text("“Mary hit Tom.”")
    expect(shared_page.locator(".lesson .away")).to_be_empty()
    expect(shared_page.locator(".lesson .told dt").last).to_have_text("And it was")


def test_back_undoes_a_prediction_and_a_link_restores_it(shared_page: Page) -> None:
    begin(shared_page, "6-positions")
    predict(shared_page)
    link = shared_page.url
    back(shared_page)
    expect(shared_page.locator(".lesson .commit")).to_be_visible()
    expect(shared_page.locator(".lesson .told")).to_be_empty()
    shared_page.goto(link)
    expect(shared_page.locator(".lesson .said")).to_have_text("Yes, it changes")
    expect(shared_page.locator(".lesson .told p").first).to_contain_text("“Mary hit Tom.”")


def test_a_lesson_is_left_and_the_page_stays(shared_page: Page) -> None:
    begin(shared_page, "6-positions")
    shared_page.locator(".lesson .leave").click()
    expect(shared_page.locator(".lesson")).to_have_count(0)
    in_url(shared_page, "lesson", "")
    expect(shared_page.locator(".st-key-source textarea")).to_have_value("Tom hit Mary.")


def test_a_newcomer_finds_the_first_lesson(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "", ".head[data-painted]")
    door = shared_page.get_by_role("button", name="New here?")
    place, headline = boxes(shared_page, door, ".headline h1")
    assert place["bottom"] <= 720
    assert abs(place["top"] - headline["top"]) < 20
    door.click()
    in_url(shared_page, "lesson", NAMES[0])
    expect(shared_page.locator(".lesson .commit")).to_be_visible()


@pytest.mark.parametrize(("size", "least"), [((420, 900), 14), ((1280, 720), 18)])
def test_its_letters_are_legible_on_a_phone_and_in_a_lecture_hall(
    shared_page: Page, size: tuple[int, int], least: int
) -> None:
    resize(shared_page, *size)
    begin(shared_page, "2-alignment")
    if size[0] > 1000:
        shared_page.get_by_role("button", name="Present").click()
        shared_page.wait_for_selector("html[data-present]", state="attached")
    predict(shared_page)
    for part in (".question", ".told p", ".said"):
        size_of = "(e) => parseFloat(getComputedStyle(e).fontSize)"
        assert shared_page.locator(f".lesson {part}").first.evaluate(size_of) >= least
    found = AXE.run(shared_page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [one["id"] for one in found] == []
    if size[0] > 1000:
        shared_page.keyboard.press("p")
    else:
        for button in shared_page.locator(".lesson button:visible").all():
            box = button.bounding_box()
            assert min(box["width"], box["height"]) >= 40, button.inner_text()
        question, page_below = boxes(shared_page, ".lesson .question", ".headline")
        assert question["bottom"] < page_below["top"]
