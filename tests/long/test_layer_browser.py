"""The page "A layer, step by step" in a real browser: a layer and a token are chosen, nothing moves while typing, and all of it
fits one screen."""

import numpy as np
from playwright.sync_api import Page, expect
from served_app import boxes, go, in_url, wait_for_layout, wait_until_idle

import models

SOURCE, TARGET = "3 May 1999", "1999-12-03"


def places(page: Page) -> list[str]:
    """Return the positions of the parts of the picture."""
    parts = page.locator(".layer .tokens, .layer svg, .layer .firing, .layer .note")
    return parts.evaluate_all(
        "(all) => all.map((part) => JSON.stringify(part.getBoundingClientRect()))"
    )


def test_a_layer_and_a_token_are_chosen_and_restored(shared_page: Page) -> None:
    go(
        shared_page,
        "layer",
        ".layer[data-painted]",
        checkpoint="dates",
        source=SOURCE,
        target=TARGET,
    )
    shared_page.locator('.layer .all g[aria-label="layer 1, feed-forward"] text').first.click()
    in_url(shared_page, "site", "decoder.layers.0.self_attn")
    shared_page.wait_for_selector('.layer[data-layer="Decoder layer 1, in full"]')
    shared_page.locator(".layer .tokens button").nth(5).click()
    in_url(shared_page, "lock", "q5")
    shared_page.wait_for_selector('.layer[data-position="5"]')
    trace = models.load("dates", device="cpu").run(SOURCE, TARGET)
    picture = shared_page.locator(".layer").evaluate(
        "(root) => root.view.picture.stops.map((stop) => stop.length)"
    )
    names = [
        f"decoder.layers.{n}.{name}"
        for n in (0, 1)
        for name in ("resid_mid", "resid_mid_cross", "resid_post")
    ]
    lengths = [float(trace.activations[name].value[0, 5].norm()) for name in names]
    np.testing.assert_allclose(picture[1:], lengths, rtol=1e-4)
    shared_page.get_by_role("radio", name="Encoder").click()
    shared_page.wait_for_selector('.layer[data-layer="Encoder layer 1, in full"]')
    expect(shared_page.locator(".layer .without")).to_contain_text(
        "No prediction is read from the encoder."
    )
    wait_until_idle(shared_page)  # painted before it is in the address
    shared_page.go_back()
    shared_page.wait_for_selector('.layer[data-layer="Decoder layer 1, in full"]')


def test_it_fits_one_screen_and_nothing_moves_while_typing(shared_page: Page) -> None:
    go(shared_page, "layer", ".layer[data-painted]", checkpoint="eng-fra", source="She is")
    wait_for_layout(shared_page)
    (box,) = boxes(shared_page, ".layer")
    assert box["bottom"] <= 720
    before, n_tokens = places(shared_page), shared_page.locator(".layer .tokens button").count()
    assert len(before) == 5
    field = shared_page.get_by_role("textbox", name="English sentence")
    field.focus()
    shared_page.keyboard.press("End")
    words = "reading a book about the sea that her mother gave her when she was young"
    for word in words.split():
        shared_page.keyboard.type(f" {word}")
        assert places(shared_page) == before
    in_url(shared_page, "source", f"She is {words}")
    wait_until_idle(shared_page)
    assert shared_page.locator(".layer .tokens button").count() > n_tokens + 5
    assert places(shared_page) == before
