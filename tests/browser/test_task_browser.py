# ruff: noqa: F401, F811  (pytest finds its fixtures by these names)
"""The page Task in a real browser: a token is clicked, and every number shown is the model's own, worked out a second time."""

import math

import pytest
from playwright.sync_api import Page, expect
from served_app import browser, context, in_url, page, rested, visit

import models

SOURCE, TARGET, SITE = "3 May 1999", "1999-12-03", "decoder.layers.1.cross_attn"


def test_a_click_on_a_token_shows_what_was_expected_there(page: Page) -> None:
    scope = models.load("dates", device="cpu")
    trace = scope.run(SOURCE, TARGET)
    p = trace.next_token.logits.double().softmax(-1)
    visit(
        page, "task", ".answers[data-painted]", checkpoint="dates", source=SOURCE, target=TARGET, site=SITE, head="1",
        **{"task-position": "0"},
    )
    for position in (5, 9):
        page.locator(f'.answers .place[data-position="{position}"]').click()
        in_url(page, "task-position", str(position))
        page.wait_for_selector(f'.answers[data-position="{position}"]')
        label, before = trace.streams["target"].ids[position + 1 : position + 2], trace.streams["target"].ids[position]
        expect(page.locator(".answer h4")).to_have_text(f"Expected after “{scope.tokenizer.token(before)}”")
        for bar, (mine, token) in zip(page.locator(".answers .bar").all(), zip(*p[position].topk(10), strict=True), strict=False):
            assert float(bar.get_attribute("data-p")) == pytest.approx(float(mine), rel=1e-4)
            assert int(bar.get_attribute("data-id")) == int(token)
        (follows,) = label
        marked = page.locator(".answers .bar.taken")
        expect(marked).to_have_count(1)
        assert float(marked.get_attribute("data-p")) == pytest.approx(float(p[position, follows]), rel=1e-3)
        expect(page.locator(".answer .fact")).to_contain_text(f"{-math.log2(float(p[position, follows])):.2f} bits")
        weights = trace.attention[SITE].weights(1)[position].tolist()
        shown = page.locator(".answers .read").all()
        assert [float(box.get_attribute("data-weight")) for box in shown] == pytest.approx(weights, abs=1e-6)
    page.keyboard.press("ArrowLeft")
    in_url(page, "task-position", "8")
    page.go_back()
    page.wait_for_selector('.answers[data-position="9"]')


@pytest.mark.parametrize("width", [1280, 420])
def test_the_picture_fits_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 720})
    visit(page, "task", ".answers[data-painted]", source="The little dog that I saw yesterday was very hungry.")
    rested(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 1280:
        box = page.locator(".answers").bounding_box()
        assert 300 < box["y"] + box["height"] <= 720
    for box in page.locator(".answers small, .answers .number, .answers .mark, .answers em").all()[:40]:
        assert box.evaluate("(e) => parseFloat(getComputedStyle(e).fontSize)") >= 12
