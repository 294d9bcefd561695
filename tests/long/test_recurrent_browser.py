"""A recurrent model in the real browser: its alignment while it decodes, and its states if it has no attention."""

import pytest
from playwright.sync_api import Page
from served_app import in_url, visit, wait_until_idle

import models

DATE = "5 March 2021"

WATCH = """() => {      // what the picture of the states looks like, frame by frame: its heights, and whether it has colours
  Object.assign(window, { looks: new Map(), paintings: new Set() });
  const look = () => {
    const host = [...document.querySelectorAll(".st-key-states *")].find((e) => e.shadowRoot);
    const root = host?.shadowRoot.querySelector(".states"), canvas = root?.querySelector("canvas");
    const { left, top, side, tall, painted } = root?.dataset ?? {};
    const colour = (c) => canvas.getContext("2d")
      .getImageData((c + 0.5) * side + Number(left), Number(top) + tall / 2, 1, 1).data.join();
    const colours = new Set(canvas ? [...Array(40).keys()].map(colour) : []);
    const found = [root?.offsetHeight, canvas?.offsetHeight, colours.size > 5];
    looks.set(found.join(), found);
    paintings.add(painted);
    requestAnimationFrame(look);
  };
  look();
}"""


def test_the_steps_of_a_recurrent_decoder_show_its_alignment(page: Page) -> None:
    visit(
        page,
        "decoding",
        ready=".stepper .panel.serial canvas.vector",
        checkpoint="dates-bahdanau",
        source=DATE,
    )
    trace = models.load("dates-bahdanau", device="cpu").run(DATE)
    strip = page.locator('.stepper .panel.serial canvas[data-vector="decoder.states"]')
    first = trace.activations["decoder.states"].value[0, 0, 0]
    assert float(strip.get_attribute("data-first")) == pytest.approx(
        float(first), rel=1e-4, abs=1e-5
    )


@pytest.mark.parametrize("path", ["", "inside"])
def test_the_states_of_a_model_without_attention_stay_while_typing(page: Page, path: str) -> None:
    """In no frame of the browser is the picture missing, empty or of another height; each letter is drawn, the last one, too."""
    visit(page, path, ready=".states[data-painted]", checkpoint="eng-fra-rnn", source="I")
    wait_until_idle(page)
    page.evaluate(WATCH)
    box = page.locator(".st-key-source :is(input, textarea)").first
    box.click()
    box.press("End")
    for letter in " saw a cat":  # on a slow machine letters typed together are drawn together
        n = page.evaluate("paintings.size")
        box.press_sequentially(letter)
        if letter != " ":
            page.wait_for_function("(n) => paintings.size > n", arg=n)
    page.wait_for_selector(".states[data-rows='5']")
    in_url(page, "source", "I saw a cat")  # by the rerun that follows when typing pauses
    wait_until_idle(page)
    ((height, canvas, filled),) = page.evaluate("[...looks.values()]")
    assert (height > canvas > 400, filled) == (True, True)
