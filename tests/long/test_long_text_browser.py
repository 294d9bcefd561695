"""The page Attention with a text of 4,096 tokens, in a browser: little data is sent, and exact weights are one click away."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from served_app import cell_of, in_url, open_details, visit, wait_until_idle
from small import random_gpt

import models
from models.checkpoint import save_checkpoint
from models.tokenizers.base import Tokenizer
from models.trace import AttentionSite

N, BLOCK, TILE = 4096, 16, 64
NAME, HEAD = "decoder.layers.1.self_attn", 1
TEXT = "".join(Random(5).choices("abcde", k=N - 1))  # <s> comes before it


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained checkpoint that reads such a long text."""
    folder, tokenizer = tmp_path_factory.mktemp("models") / "long", Tokenizer.characters("abcde")
    model = random_gpt(vocab_size=tokenizer.vocab_size, n_ctx=N, n_heads=2, d_model=10)
    save_checkpoint(folder, model, tokenizer, {"step": 0, "task": "language", "examples": ["abc"]})
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> AttentionSite:
    return models.load(folder, device="cpu").run(TEXT, None).attention[NAME]


def shape(page: Page) -> tuple[str, ...]:
    head = page.locator(".head")
    return tuple(head.get_attribute(f"data-{name}") for name in ("rows", "cols", "block", "first"))


def point(page: Page, query: int, key: int) -> None:
    """Move the pointer onto a cell of the picture."""
    cells = page.locator(".head canvas.cells")
    cells.hover(position=cell_of(cells, query, key))


def test_a_long_text_is_sent_in_blocks_and_a_click_shows_exact_weights(
    page: Page, folder: Path, site: AttentionSite
) -> None:
    sizes: list[int] = []
    page.on("websocket", lambda ws: ws.on("framereceived", lambda frame: sizes.append(len(frame))))
    visit(page, "attention", checkpoint=str(folder), text=TEXT, site=NAME, head=str(HEAD))
    wait_until_idle(page)
    assert shape(page) == ("256", "256", str(BLOCK), "0 0")
    assert (
        "largest of 16 × 16 weights; the other 255 are hidden"
        in page.locator(".head .map .note").text_content()
    )
    assert sum(sizes) < 4_000_000  # all 4,096² weights of one head are 67 MB
    weights = site.weights(HEAD, rows=slice(96 * BLOCK, 97 * BLOCK)).numpy()
    point(page, 96, 40)
    said = page.locator(".head .tip")
    block = np.float32(said.get_attribute("data-weight"))
    assert int(said.get_attribute("data-query")) == 96
    column = int(said.get_attribute("data-key"))
    assert block == pytest.approx(weights[:, column * BLOCK : (column + 1) * BLOCK].max(), abs=1e-6)

    sizes.clear()
    cells = page.locator(".head canvas.cells")
    cells.click(position=cell_of(cells, 96, 40))
    expect(page.locator(".head")).to_have_attribute("data-block", "1")
    wait_until_idle(page)
    middle = [96 * BLOCK + BLOCK // 2, column * BLOCK + BLOCK // 2]
    in_url(page, "tile", f"{middle[0]}.{middle[1]}")
    first = [place - TILE // 2 for place in middle]
    assert shape(page) == ("64", "64", "1", f"{first[0]} {first[1]}")
    assert sum(sizes) < 1_000_000
    exact = site.weights(HEAD, rows=slice(first[0], first[0] + TILE)).numpy()[
        :, first[1] : first[1] + TILE
    ]
    for query, key in ((0, 0), (7, 41), (63, 63)):
        point(page, query, key)
        expect(said).to_have_attribute("data-key", str(key))
        assert int(said.get_attribute("data-query")) == query
        assert np.float32(said.get_attribute("data-weight")) == pytest.approx(
            exact[query, key], abs=1e-6
        )
        assert said.locator(".token.key").text_content() == TEXT[first[1] + key - 1]
        read, written = TEXT[first[0] + query - 1 : first[0] + query + 1]
        assert said.locator(".token.query").text_content() == f"{read} → {written}"

    page.go_back()
    expect(page.locator(".head")).to_have_attribute("data-block", str(BLOCK))
    in_url(page, "tile", "")


def test_the_files_of_a_long_text_arrive_while_they_are_made(
    page: Page, folder: Path, site: AttentionSite
) -> None:
    visit(page, "attention", checkpoint=str(folder), text=TEXT, site=NAME, head=str(HEAD))
    wait_until_idle(page)
    open_details(page)
    buttons = page.locator(".st-key-files")
    expect(buttons.get_by_text("This head, npz")).to_be_visible()
    assert (
        "all 16,777,216 weights"
        in page.locator("[data-testid=stCaptionContainer]", has_text="For this head").text_content()
    )
    link = buttons.locator("a", has_text="This head, npz")
    with page.expect_download() as saved:
        link.click()
    with np.load(saved.value.path()) as held:
        assert held["weights"].shape == (N, N)
        some = slice(1000, 1064)
        np.testing.assert_allclose(
            held["weights"][some], site.weights(HEAD, rows=some).numpy(), atol=1e-6
        )
        assert held["about"].tolist()[0] == "model: long"
