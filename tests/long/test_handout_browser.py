"""A handout opened from disk without a network: its pictures and numbers, no request and no error; and the PDF."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from served_app import CHROMIUM

import models
from viz_app import handout
from viz_app.controls.lesson_panel import offered_lessons

LESSON = "2-alignment"
PAINTED = """() => [...document.querySelectorAll("[data-part] > div")].map((place) =>
    [...place.shadowRoot.querySelectorAll("canvas, svg, button")].length)"""


@pytest.fixture(scope="module")
def pages() -> dict[bool, str]:
    lesson = offered_lessons().named(LESSON)
    return {answers: handout.handout(lesson, answers) for answers in (False, True)}


@pytest.mark.parametrize("has_answers", [False, True])
def test_a_handout_opens_without_a_network(
    browser: Browser, pages: dict[bool, str], tmp_path: Path, has_answers: bool
) -> None:
    file = tmp_path / "handout.html"
    file.write_text(pages[has_answers], "utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    errors, requests = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelector('[data-part] > div')?.shadowRoot")
    painted = page.evaluate(PAINTED)
    assert len(painted) == (6 if has_answers else 2)  # two steps draw their picture at the reveal
    assert all(painted)
    text = page.locator(".paper").inner_text()
    site = (
        models.load("eng-fra-bahdanau").run("The black cat is here.").attention["decoder.alignment"]
    )
    weight = f"{100 * float(site.weights(0)[2].max()):.0f} %"
    assert (weight in text) == has_answers
    assert ("It was:" in text) == has_answers
    assert requests == [file.as_uri()]
    assert errors == []
    context.close()


def test_a_handout_is_printed_as_pdf(browser: Browser, pages: dict[bool, str]) -> None:
    assert CHROMIUM
    pdf = handout._printed(pages[True].encode(), CHROMIUM)
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2
