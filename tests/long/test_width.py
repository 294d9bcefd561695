"""No section of the pages with charts is wider than the screen, and each renders, with a model for whose task nothing is shipped."""

from pathlib import Path

import pytest
from playwright.sync_api import Page
from served_app import go
from small import Reversal, random_model

from models.checkpoint import save_checkpoint
from viz_app.views.positions.page import POSITIONS_SECTIONS

PLACES = [
    *[("positions", section) for section in POSITIONS_SECTIONS],
    *[("from-rnn", section) for section in ("What reaches what", "Parallel and cost", "Sentence length", "Two alignments")],
]  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Transformer with random weights and learned positions."""
    folder = tmp_path_factory.mktemp("browser") / "small"
    model = random_model(vocab_size=9, n_encoder_layers=2, n_ctx=97, positions="learned")
    save_checkpoint(folder, model, Reversal().tokenizer, {"step": 0, "task": "reversal"})
    return folder


@pytest.mark.parametrize(("path", "section"), PLACES)
def test_nothing_is_wider_than_the_screen(
    shared_page: Page, checkpoint: Path, path: str, section: str
) -> None:
    go(
        shared_page,
        path,
        ".headline",
        checkpoint=str(checkpoint),
        source="abcde",
        **{f"{path}-section": section},
    )
    for width in (420, 1280, 1600):
        shared_page.set_viewport_size({"width": width, "height": 800})
        shared_page.wait_for_function(
            "width => innerWidth === width && document.documentElement.scrollWidth <= width + 1",
            arg=width,
        )
    assert not shared_page.locator("[data-testid=stException]").count()
