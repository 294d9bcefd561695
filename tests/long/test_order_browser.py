"""The order of prediction in a real browser: a token is dragged, and every number is the model's own in the new order."""

import pytest
from playwright.sync_api import Page
from served_app import boxes, in_url, resize, visit, wait_until_idle, wait_until_still

import models
from models.runs.scope import Scope

TEXT = "She is reading a book."


@pytest.fixture(scope="module")
def xlnet() -> Scope:
    return models.load("xlnet", device="cpu")


def compare(page: Page, scope: Scope, order: list[int]) -> None:
    """Compare the bits under every token, the listed probabilities and the row of attention with a run made here."""
    trace = scope.run(TEXT, order=order)
    output, position = (
        trace.outputs["token in order"],
        int(page.locator(".order").get_attribute("data-position")),
    )
    shown = page.locator(".order .row .place").evaluate_all(
        "all => all.map((e) => [e.dataset.position, e.dataset.bits])"
    )
    assert [int(place) for place, _ in shown] == order
    assert [float(bits) for _, bits in shown] == pytest.approx(
        output.surprisal[order].tolist(), rel=1e-4
    )
    bars = page.locator(".order .bar").evaluate_all(
        "all => all.map((e) => [e.dataset.id, e.dataset.p])"
    )
    p = output.log_probs[position].exp()
    assert [float(value) for _, value in bars] == pytest.approx(
        [float(p[int(token)]) for token, _ in bars], rel=1e-4
    )
    site = trace.attention["encoder.layers.3.query_attn"]
    read = page.locator(".order .read").evaluate_all("all => all.map((e) => e.dataset.weight)")
    weights = [float(weight) if weight else 0.0 for weight in read]
    assert weights == pytest.approx(site.weights(1)[position].tolist(), rel=1e-4, abs=1e-6)
    cells = page.locator(".order .seen section").evaluate_all(
        "all => all.map((e) => e.dataset.allowed)"
    )
    masks = [
        trace.attention[f"encoder.layers.0.{stream}_attn"].allowed().int()
        for stream in ("content", "query")
    ]
    assert cells == ["".join(map(str, mask.flatten().tolist())) for mask in masks]


@pytest.mark.parametrize(
    "text", [TEXT, "I am eighteen years old.", "She is reading a book about the sea by the sea."]
)
def test_the_tokens_in_order_and_both_masks_are_on_one_screen(page, text):
    resize(page, 1280)
    visit(page, "task", ".order[data-painted]", checkpoint="xlnet", text=text)
    wait_until_idle(page)
    wait_until_still(page)
    ends = page.locator(
        ".st-key-which, .order .row, .order .seen canvas, .order .seen .who"
    ).evaluate_all("all => all.map((e) => e.getBoundingClientRect().bottom)")
    assert len(ends) == 6
    assert max(ends) <= 720, ends
    cut = page.locator(".order h3").evaluate_all(
        "all => all.filter((e) => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 2)"
        ".map((e) => e.textContent)"
    )
    assert cut == []


def test_a_token_is_dragged_and_all_pictures_follow(page, xlnet):
    n = len(xlnet.encode(TEXT)["text"].ids)
    visit(
        page,
        "task",
        ".order[data-painted]",
        checkpoint="xlnet",
        text=TEXT,
        site="encoder.layers.3.query_attn",
        head="1",
    )
    compare(page, xlnet, list(range(n)))
    places = page.locator(".order .row .place")
    wait_until_idle(page)
    first, third = boxes(page, places.nth(0), places.nth(2))
    page.mouse.move(first["x"] + 20, first["y"] + 20)
    page.mouse.down()
    page.mouse.move(third["x"] + 20, third["y"] + 20, steps=9)
    page.mouse.up()
    order = [1, 2, 0, *range(3, n)]
    in_url(page, "order", "-".join(str(i + 1) for i in order))
    page.wait_for_selector(f".order[data-order='{' '.join(map(str, order))}']")
    wait_until_idle(page)
    compare(page, xlnet, order)
    page.go_back()
    page.wait_for_selector(f".order[data-order='{' '.join(map(str, range(n)))}']")
