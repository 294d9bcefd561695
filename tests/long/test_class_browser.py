"""A class in Chromium: one teacher and three pupils, each with their own browser, and attempts of a pupil to cheat."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from served_app import PATIENCE, app_address, in_url, resize, wait_until_idle, watched_page

import viz_app.navigation  # noqa: F401  # declares every URL parameter
from viz_app.controls.lesson_panel import offered_lessons

LESSON = "5-one-wrong-word"
TITLE = offered_lessons().named(LESSON).title


@pytest.fixture(scope="module")
def people(browser: Browser) -> Iterator[list[Page]]:
    """The pages of four people who share no cookies."""
    with ExitStack() as stack:
        pages = []
        for width in (1280, 420, 1280, 1280):
            context = browser.new_context(
                viewport={"width": width, "height": 900}, bypass_csp=True, accept_downloads=True
            )
            context.set_default_timeout(PATIENCE)
            stack.callback(context.close)
            pages.append(stack.enter_context(watched_page(context)))
        yield pages


def start(teacher: Page) -> str:
    """Start a class by keyboard; returns its code."""
    teacher.goto(f"{app_address()}/lessons")
    box = teacher.get_by_role("combobox", name="Lesson")
    box.focus()
    teacher.keyboard.type("wrong word")
    teacher.keyboard.press("Enter")
    expect(box).to_have_value(TITLE)
    wait_until_idle(teacher)
    teacher.get_by_role("button", name="Start a class").focus()
    teacher.keyboard.press("Enter")
    expect(teacher.locator(".classroom .release")).to_be_visible()
    expect(teacher.locator(".lesson .waits p")).to_be_visible()
    return teacher.locator(".classroom .code b").inner_text()


def predict(pupil: Page, number: str) -> None:
    pupil.locator(".lesson form input").fill(number)
    pupil.locator(".lesson .commit").click()
    expect(pupil.locator(".lesson .waits .said")).to_contain_text(f"{number} word")


def fetched(page: Page, path: str, token: str = "") -> tuple[int, str]:
    """Return what a page gets from a path of the server, with its session's token or another."""
    ask = """async ([path, token]) => {
      token ||= [...window.attnscopePictures.values()].find((p) => p.data.token).data.token;
      const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` } });
      return [answer.status, await answer.text()];
    }"""
    return tuple(page.evaluate(ask, [path, token]))


def test_a_class_from_its_code_to_its_end(people: list[Page]) -> None:
    teacher, first, second, third = people
    code = start(teacher)
    first.goto(f"{app_address()}/lessons")
    first.get_by_label("Class code").fill(code)
    first.get_by_role("button", name="Join").click()
    for pupil in (second, third):
        pupil.goto(f"{app_address()}/lessons?class={code.replace(' ', '')}")
    for pupil, number in zip((first, second, third), ("1", "3", "1"), strict=True):
        predict(pupil, number)
    expect(teacher.locator(".classroom .there")).to_have_text("3 pupils, 3 predictions")
    bars = teacher.locator(".classroom .bars tr")
    expect(bars).to_have_text(["1 word2", "3 words1"])

    # a pupil's page cannot show the reveal, predict again, or read what others predict
    second.evaluate("document.querySelector('.classroom .release')?.onclick?.()")
    for pupil in (second, third):
        expect(pupil.locator(".classroom .bars")).to_have_count(0)
        expect(pupil.locator(".lesson .told")).to_be_empty()
        status, text = fetched(pupil, "class/none")
        assert status == 200
        assert "histogram" not in text
        assert "votes" not in text
        assert fetched(pupil, "class/predictions.csv")[0] == 404
        assert fetched(pupil, "class/none", "0.aaaaaaaaaaaaaaaaaaaaaa")[0] == 404
    expect(teacher.locator(".classroom .release")).to_be_visible()

    teacher.get_by_role("button", name="Show what happened").focus()
    teacher.keyboard.press("Enter")
    for page in people:
        expect(page.locator(".lesson .told p").first).to_contain_text("Un chat noir")
    for pupil in (first, second, third):
        expect(pupil.locator(".classroom .bars tr")).to_have_count(2)
    third.reload()
    expect(third.locator(".lesson .said")).to_have_text("1 word")  # still the same pupil
    expect(teacher.locator(".classroom .there")).to_have_text("3 pupils, 3 predictions")

    with teacher.expect_download() as taken:
        teacher.locator(".classroom .take").click()
    rows = Path(taken.value.path()).read_text("utf-8").split()
    assert rows[0] == "step,prediction,count"
    assert len(rows) == 5  # two of these words contain a space

    teacher.get_by_role("button", name="Next question").click()
    for pupil in (first, second, third):
        expect(pupil.locator(".lesson .commit")).to_be_visible()
        expect(pupil.locator(".lesson .question")).to_contain_text("Nous")
    teacher.reload()  # whose browser leads the class
    expect(teacher.locator(".classroom .release")).to_be_visible()
    teacher.locator(".classroom .end").click()
    teacher.locator(".classroom .end").click()
    for page in people:
        expect(page.locator(".note").filter(has_text="The class has ended")).to_be_visible()
        expect(page.locator(".lesson .on")).to_be_visible()
        in_url(page, "class", "")


def test_a_class_is_legible_and_passes_axe(people: list[Page]) -> None:
    teacher, pupil = people[:2]
    code = start(teacher)
    pupil.goto(f"{app_address()}/lessons?class={code.replace(' ', '')}")
    predict(pupil, "2")
    expect(teacher.locator(".classroom .bars tr")).to_have_count(1)
    resize(teacher, 1280, 720)
    teacher.get_by_role("button", name="Present").click()
    teacher.wait_for_selector("html[data-present]", state="attached")
    wait_until_idle(teacher)
    for part in (".code b", ".code .there", ".bars th", ".release"):
        size = "(e) => parseFloat(getComputedStyle(e).fontSize)"
        assert teacher.locator(f".classroom {part}").first.evaluate(size) >= 18, part
    for page in (teacher, pupil):
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [one["id"] for one in found] == []
    teacher.get_by_role("button", name="Show what happened").click()
    expect(pupil.locator(".classroom .bars tr")).to_have_count(1)
    for button in pupil.locator(".classroom button:visible, .lesson button:visible").all():
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 40, button.inner_text()
    teacher.locator(".classroom .end").click()
    teacher.locator(".classroom .end").click()
    expect(teacher.locator(".classroom")).to_have_count(0)
