"""Every page in the real browser with a recurrent model, with alignment and without attention: no part fails to draw."""

import re

import pytest
from playwright.sync_api import Page, expect
from served_app import browser, context, page, rested, visit  # noqa: F401 (fixtures)

import models
from viz_app.navigation import VIEWS

DATE = "5 March 2021"


@pytest.mark.parametrize("checkpoint", ["dates-bahdanau", "dates-rnn"])
def test_no_part_of_any_page_fails(page: Page, checkpoint: str) -> None:   # noqa: F811 (a fixture)
    for path in VIEWS:
        visit(page, path, ready=".headline", checkpoint=checkpoint, source=DATE)
        rested(page)
        expect(page.get_by_text(re.compile("BidiComponent Error|Traceback"))).to_have_count(0)
        expect(page.locator("[data-testid=stException]")).to_have_count(0)


def test_the_steps_of_a_recurrent_decoder_show_its_alignment(page: Page) -> None:   # noqa: F811 (a fixture)
    visit(page, "decoding", ready=".stepper .panel.serial canvas.vector", checkpoint="dates-bahdanau", source=DATE)
    trace = models.load("dates-bahdanau", device="cpu").run(DATE)
    strip = page.locator('.stepper .panel.serial canvas[data-vector="decoder.states"]')
    first = trace.activations["decoder.states"].value[0, 0, 0]
    assert float(strip.get_attribute("data-first")) == pytest.approx(float(first), rel=1e-4, abs=1e-5)
