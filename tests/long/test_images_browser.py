"""A vision model in a browser: a patch and a head are clicked, and a user's file is read or refused."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from image_models import save
from PIL import Image
from playwright.sync_api import Page, expect
from served_app import visit

from models.images import decoded, example

MAP, SAYS, BOX = ".image-map", ".own-file .says", ".image-map .plain"
FIRST = "vit.layers.0.attention"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    save("ViTForImageClassification", folder)
    return folder


def weights(folder: Path, image: Image.Image) -> torch.Tensor:
    """Return the library's weights of the first layer: (head, query, key)."""
    module = transformers.ViTForImageClassification.from_pretrained(
        folder, attn_implementation="eager"
    )
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)(image, return_tensors="pt")
    with torch.no_grad():
        return module.eval()(**pixels, output_attentions=True).attentions[0][0]


def at(page: Page, row: int, column: int) -> dict[str, float]:
    """Return the middle of one of the 4 × 4 patches of the image."""
    box = page.locator(BOX).bounding_box()
    assert box
    return {"x": box["width"] * (column + 0.5) / 4, "y": box["height"] * (row + 0.5) / 4}


def strongest(page: Page) -> float:
    """Return the first weight in the sentence under the picture."""
    return float(page.locator(f"{MAP} .reading span").nth(3).inner_text().strip(" ,."))


def test_a_clicked_patch_is_the_query_and_a_small_head_the_chosen_one(
    page: Page, folder: Path
) -> None:
    visit(
        page,
        "attention",
        f"{MAP}[data-painted]",
        checkpoint=str(folder),
        site=FIRST,
        head="0",
        lock="q0",
    )
    wanted = weights(folder, decoded(example()))
    patches = slice(1, None)
    assert abs(strongest(page) - float(wanted[0, 0, patches].max())) < 6e-4
    page.hover(BOX, position=at(page, 2, 3))  # type: ignore[arg-type]
    expect(page.locator(MAP)).to_have_attribute("data-shown", "12")
    assert abs(strongest(page) - float(wanted[0, 12, patches].max())) < 6e-4
    page.click(BOX, position=at(page, 2, 3))  # type: ignore[arg-type]
    expect(page.locator(MAP)).to_have_attribute("data-query", "12")
    page.wait_for_url("**lock=q12*")
    page.click(f"{MAP} .small button >> nth=2")
    expect(page.locator(MAP)).to_have_attribute("data-head", "2")
    assert abs(strongest(page) - float(wanted[2, 12, patches].max())) < 6e-4
    page.focus(BOX)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(MAP)).to_have_attribute("data-query", "11")
    page.locator(f"{MAP} .cells").hover(position=at(page, 0, 1))  # type: ignore[arg-type]
    shown = float(page.locator(f"{MAP} .tip").get_attribute("data-weight") or "nan")
    assert abs(shown - float(wanted[2, 11, 2])) < 1e-6
    special = page.locator(f"{MAP} .specials button")
    expect(special).to_have_count(1)
    special.click()
    expect(page.locator(MAP)).to_have_attribute("data-query", "0")


def test_a_file_is_read_and_one_that_is_no_image_leaves_the_picture(
    page: Page, folder: Path
) -> None:
    visit(
        page,
        "attention",
        f"{MAP}[data-painted]",
        checkpoint=str(folder),
        site=FIRST,
        head="0",
        lock="q5",
    )
    files = page.locator(".own-file input")
    image = Image.fromarray(np.random.default_rng(2).integers(0, 256, (31, 29, 3), np.uint8))
    content = io.BytesIO()
    image.save(content, "PNG")
    own = {"name": "<b>mine.png", "mimeType": "image/png", "buffer": content.getvalue()}
    files.set_input_files([own])  # type: ignore[list-item]
    expect(page.locator(SAYS)).to_contain_text("<b>mine.png: 29 × 31 pixels")
    page.wait_for_url("**image-image=own-*")
    wanted = float(weights(folder, image)[0, 5, 1:].max())
    expect(page.locator(f"{MAP} .reading span").nth(3)).to_contain_text(f"{wanted:.3f}")
    bad = {"name": "<i>bad.png", "mimeType": "image/png", "buffer": b"<svg onload=alert(1)>"}
    files.set_input_files([bad])  # type: ignore[list-item]
    expect(page.locator(f"{SAYS}.bad")).to_contain_text("<i>bad.png: the file is damaged")
    assert page.locator(".own-file i, .own-file b, .own-file svg").count() == 0
    assert abs(strongest(page) - wanted) < 6e-4, "the last picture stays"
    large = {"name": "large.png", "mimeType": "image/png", "buffer": bytes(5_000_001)}
    files.set_input_files([large])  # type: ignore[list-item]
    expect(page.locator(f"{SAYS}.bad")).to_contain_text("large.png: more than 5 MB")
    page.reload()
    page.wait_for_selector(f"{MAP}[data-painted]")
    expect(page.locator(".stMain")).to_contain_text("a link cannot hold an image file")
    own_weight = float(weights(folder, decoded(example()))[0, 5, 1:].max())
    assert abs(strongest(page) - own_weight) < 6e-4
