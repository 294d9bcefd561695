"""The page "From RNN to attention" in a real browser: hover on a cell, type a text, measure times, save pictures."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from served_app import go, in_url, open_details, save_picture, wait_until_idle
from small import Reversal, random_model

import models
from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    LAYER_KINDS,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    Reach,
    layer_reach,
)
from models.checkpoint import save_checkpoint

TEXT = "abcde"
SEED = 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Transformer with random weights, of a task for which nothing is shipped."""
    folder = tmp_path_factory.mktemp("browser") / "small"
    save_checkpoint(
        folder,
        random_model(vocab_size=9, n_ctx=97),
        Reversal().tokenizer,
        {"step": 0, "task": "reversal"},
    )
    return folder


def url_parameters(folder: Path, **params: str) -> dict[str, str]:
    """Return the URL parameters of this page."""
    link = {
        f"from-rnn-{name}": value
        for name, value in {"section": "What reaches what", "seed": str(SEED), **params}.items()
    }
    return {"checkpoint": str(folder), "source": TEXT, **link}


def open_page(page: Page, folder: Path, ready: str = ".maps[data-painted]", **params: str) -> None:
    """Open the page at this link."""
    go(page, "from-rnn", ready, **url_parameters(folder, **params))


def computed(folder: Path, kind: str, text: str = TEXT, **sizes: int) -> Reach:
    scope = models.load(folder, device="cpu")
    return layer_reach(
        scope.model,
        scope.input_ids(text),
        LayerChoice(kind, None if kind == SELF_ATTENTION else SEED, **sizes),
    )


def point(page: Page, which: int, row: int, column: int) -> dict:
    """Return the tip of a cell of one of the maps."""
    room = page.locator(".maps").evaluate("root => ({...root.dataset})")
    left, top, side, tall = (float(room[name]) for name in ("left", "top", "side", "tall"))
    cells = page.locator(".maps canvas.cells").nth(which)
    cells.scroll_into_view_if_needed()
    cells.hover(position={"x": left + (column + 0.5) * side, "y": top + (row + 0.5) * tall})
    tip = page.locator(".maps .tip")
    expect(tip).to_be_visible()
    expect(tip).to_have_attribute("data-row", str(row))
    expect(tip).to_have_attribute("data-col", str(column))
    return {"value": float(tip.get_attribute("data-value")), "text": tip.inner_text()}


def test_a_cell_shows_its_exact_norm_in_every_layer(shared_page, checkpoint):
    open_page(shared_page, checkpoint)
    for which, kind in enumerate(LAYER_KINDS):
        norms = computed(checkpoint, kind).norms
        told = point(shared_page, which, 4, 1)
        assert told["value"] == pytest.approx(float(norms[4, 1]), rel=1e-4, abs=1e-9)
    assert "output y(i): 5 e, input x(j): 2 b" in told["text"]
    assert "0: nothing arrives" in point(shared_page, 0, 1, 4)["text"]
    said = shared_page.locator(".maps figcaption span").all_inner_texts()
    assert [text.startswith(f"random weights, seed {SEED}") for text in said] == [
        True,
        True,
        True,
        False,
    ]


def test_typing_and_the_controls_redraw(shared_page, checkpoint):
    open_page(shared_page, checkpoint)
    shared_page.locator(".st-key-source textarea").fill("edcbabc")
    in_url(shared_page, "source", "edcbabc")
    expect(shared_page.locator(".maps")).to_have_attribute("data-rows", "8")
    norms = computed(checkpoint, SELF_ATTENTION, "edcbabc").norms
    assert point(shared_page, 3, 6, 0)["value"] == pytest.approx(float(norms[6, 0]), rel=1e-4)
    shared_page.locator(".st-key-from-rnn-depth").get_by_text("1", exact=True).click()
    in_url(shared_page, "from-rnn-depth", "1")
    expect(shared_page.locator(".maps figcaption b").nth(2)).to_have_text("CNN, width 3, 1 layer")
    norms = computed(checkpoint, CNN, "edcbabc", depth=1).norms
    assert point(shared_page, 2, 3, 2)["value"] == pytest.approx(float(norms[3, 2]), rel=1e-4)


def test_a_long_text_keeps_the_picture_and_says_why(shared_page, checkpoint):
    open_page(shared_page, checkpoint)
    shared_page.locator(".st-key-source textarea").fill("ab" * 40)
    expect(shared_page.get_by_text("This sentence has 81 tokens")).to_be_visible()
    assert point(shared_page, 0, 4, 1)["value"] == pytest.approx(
        float(computed(checkpoint, RNN).norms[4, 1]), rel=1e-4
    )


def test_times_are_measured_on_request_and_can_be_downloaded(shared_page, checkpoint):
    open_page(
        shared_page,
        checkpoint,
        ".st-key-from-rnn-measure button",
        section="Parallel and cost",
        cost="Times",
        d="16",
        repetitions="1",
    )
    expect(shared_page.get_by_text("Nothing is measured before")).to_be_visible()
    shared_page.get_by_text("Measure on this machine").click()
    expect(shared_page.get_by_text("32 of 32: done")).to_be_visible()
    expect(
        shared_page.get_by_text("In the upper half of the lengths time grows as")
    ).to_be_visible()
    wait_until_idle(shared_page)  # the button of the previous run has no file any more
    with shared_page.expect_download() as table:
        shared_page.get_by_text("The times, CSV").click()
    rows = [
        row
        for row in table.value.path().read_text().splitlines()
        if not row.startswith(("# ", '"# '))
    ]
    assert len(rows) == 1 + 32
    assert rows[1].startswith("RNN,8,0,")


def test_measuring_can_be_stopped_and_results_stay(shared_page, checkpoint):
    open_page(
        shared_page,
        checkpoint,
        ".st-key-from-rnn-measure button",
        section="Parallel and cost",
        cost="Times",
        d="512",
        repetitions="25",
    )
    shared_page.get_by_text("Measure on this machine").click()
    expect(shared_page.get_by_text(": measuring")).to_be_visible()
    shared_page.locator(".st-key-from-rnn-stop button").click()
    expect(shared_page.get_by_text("stopped; its times remain")).to_be_visible()


def test_a_picture_and_the_norms_can_be_downloaded(shared_page, checkpoint):
    open_page(shared_page, checkpoint)
    with shared_page.expect_download() as picture:
        save_picture(shared_page, ".maps", "PNG")
    scope = models.load(checkpoint)
    assert (
        picture.value.suggested_filename
        == f"{scope.name}.step{scope.training['step']}.what-reaches-what.png"
    )
    assert picture.value.path().read_bytes()[:4] == b"\x89PNG"
    open_details(shared_page)
    wait_until_idle(shared_page)
    with shared_page.expect_download() as numbers:
        shared_page.get_by_text("The norms, npz").click()
    held = np.load(numbers.value.path())
    np.testing.assert_allclose(
        held["bidirectional-RNN.norms"],
        computed(checkpoint, BIDIRECTIONAL).norms.numpy(),
        rtol=1e-4,
    )
