"""The page Task in a real browser: a token is clicked, and every number shown is the model's own, recomputed here."""

import math

import pytest
from playwright.sync_api import Page, expect
from served_app import boxes, go, in_url, resize, wait_until_idle

import models

SOURCE, TARGET, SITE = "3 May 1999", "1999-12-03", "decoder.layers.1.cross_attn"


def test_a_click_on_a_token_shows_the_prediction_there(shared_page: Page) -> None:
    scope = models.load("dates", device="cpu")
    trace = scope.run(SOURCE, TARGET)
    p = trace.next_token.logits.double().softmax(-1)
    go(
        shared_page,
        "task",
        ".answers[data-painted]",
        checkpoint="dates",
        source=SOURCE,
        target=TARGET,
        site=SITE,
        head="1",
        **{"task-position": "0"},
    )
    for position in (5, 9):
        shared_page.locator(f'.answers .place[data-position="{position}"]').click()
        in_url(shared_page, "task-position", str(position))
        shared_page.wait_for_selector(f'.answers[data-position="{position}"]')
        label, before = (
            trace.streams["target"].ids[position + 1 : position + 2],
            trace.streams["target"].ids[position],
        )
        expect(shared_page.locator(".answer h3")).to_have_text(
            f"Predicted after “{scope.tokenizer.token(before)}”"
        )
        for bar, (mine, token) in zip(
            shared_page.locator(".answers .bar").all(),
            zip(*p[position].topk(10), strict=True),
            strict=False,
        ):
            assert float(bar.get_attribute("data-p")) == pytest.approx(float(mine), rel=1e-4)
            assert int(bar.get_attribute("data-id")) == int(token)
        (follows,) = label
        marked = shared_page.locator(".answers .bar.taken")
        expect(marked).to_have_count(1)
        assert float(marked.get_attribute("data-p")) == pytest.approx(
            float(p[position, follows]), rel=1e-3
        )
        expect(shared_page.locator(".answer .fact")).to_contain_text(
            f"{-math.log2(float(p[position, follows])):.2f} bits"
        )
        weights = trace.attention[SITE].weights(1)[position].tolist()
        shown = shared_page.locator(".answers .read").all()
        assert [float(box.get_attribute("data-weight")) for box in shown] == pytest.approx(
            weights, abs=1e-6
        )
    shared_page.keyboard.press("ArrowLeft")
    in_url(shared_page, "task-position", "8")
    shared_page.go_back()
    shared_page.wait_for_selector('.answers[data-position="9"]')


@pytest.mark.parametrize("width", [1280, 420])
def test_the_picture_fits_the_window(shared_page: Page, width: int) -> None:
    resize(shared_page, width)
    go(
        shared_page,
        "task",
        ".answers[data-painted]",
        source="The little dog that I saw yesterday was very hungry.",
    )
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 1280:
        (box,) = boxes(shared_page, ".answers")
        assert 300 < box["bottom"] <= 720
    for box in shared_page.locator(
        ".answers small, .answers .number, .answers .mark, .answers em"
    ).all()[:40]:
        assert box.evaluate("(e) => parseFloat(getComputedStyle(e).fontSize)") >= 12
    resize(shared_page, 1280)


def test_a_click_on_another_lambda_opens_that_run(shared_page: Page) -> None:
    """The bars and the row of [extract] are those of the chosen run."""
    said, names = (
        "The film was long and I nearly fell asleep.",
        ("gpt-sentiment-0", "gpt-sentiment", "gpt-sentiment-1"),
    )
    site, head = "decoder.layers.2.self_attn", 3
    runs = {name: models.load(name, device="cpu").run(said) for name in names}
    p = {
        name: run.outputs["classes"].logits.double().softmax(-1).tolist()
        for name, run in runs.items()
    }

    def shown(box: str, value: str) -> list[float]:
        return [float(one.get_attribute(value)) for one in shared_page.locator(box).all()]

    go(
        shared_page,
        "task",
        ".classes[data-painted]",
        checkpoint="gpt-sentiment",
        text=said,
        site=site,
        head=str(head),
    )
    for chosen in ("gpt-sentiment", "gpt-sentiment-1", "gpt-sentiment-0"):
        if chosen != "gpt-sentiment":
            shared_page.locator(f'.classes .run[data-name="{chosen}"] .choose').click()
            in_url(shared_page, "checkpoint", chosen)
        expect(shared_page.locator('.classes .run[data-chosen="true"] .choose span')).to_have_text(
            chosen
        )
        assert [
            one.get_attribute("data-name") for one in shared_page.locator(".classes .run").all()
        ] == list(names)
        for name in names:
            assert shown(f'.classes .run[data-name="{name}"] .bar', "data-p") == pytest.approx(
                p[name], abs=1e-5
            )
        expect(shared_page.locator(".pair .list .bar")).to_have_count(0)  # above, once
        wait_until_idle(shared_page)
        row = runs[chosen].attention[site].weights(head)[-1].tolist()
        assert shown(".pair .read", "data-weight") == pytest.approx(row, abs=1e-5)
    assert len({round(each[0], 3) for each in p.values()}) == 3
