"""A Hugging Face folder in a real browser: picked and typed, its weights those of its library; and one that does not open."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hub_models import BY_NAME, library_tokenizer
from playwright.sync_api import Locator, Page, expect
from served_app import in_url

from tests.benchmarks.serving import APP, served
from viz_app import checkpoints

SENTENCE = "She had a book about the dog."
SITE = "bert.encoder.layer.1.attention.self"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of --models: a BERT with its tokenizer, and a copy with half of its weights missing."""
    shelf = tmp_path_factory.mktemp("hub") / "shelf"
    case = BY_NAME["BertForMaskedLM"]
    (shelf / "whole").mkdir(parents=True)
    library = library_tokenizer(shelf / "whole", 53)
    replace(case, sizes=case.sizes | {"vocab_size": len(library) + 3}).save(shelf / "whole")
    weights = Path(shutil.copytree(shelf / "whole", shelf / "cut")) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    return shelf


@pytest.fixture(scope="module")
def address(shelf: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(checkpoints.MODELS_VARIABLE, str(shelf))
        with served(APP) as address:
            yield address


def library_weights(folder: Path) -> tuple[list[str], np.ndarray]:
    """Return the tokens of SENTENCE and the weights of all layers and heads from the library itself."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    module = transformers.AutoModelForMaskedLM.from_pretrained(
        folder, local_files_only=True, attn_implementation="eager"
    ).eval()
    row = tokenizer(SENTENCE, return_tensors="pt")
    with torch.no_grad():
        weights = module(**row, output_attentions=True).attentions
    return tokenizer.convert_ids_to_tokens(row["input_ids"][0]), torch.cat(weights).numpy()


def shown_weights(page: Page) -> tuple[list[str], np.ndarray]:
    """Return the tokens and the weights of the head that the page was sent."""
    sent = page.locator(".head").evaluate(
        "({ view: { picture } }) => [picture.keys.map(([key]) => key), [...picture.weights]]"
    )
    return sent[0], np.array(sent[1]).reshape(len(sent[0]), -1)


def pick(page: Page, name: str) -> Locator:
    """Type a name, or the path of a folder, into the picker and return the note under it."""
    box = page.get_by_role("combobox", name="Model")
    box.fill(name)
    box.press("Enter")
    return page.locator(".st-key-note-checkpoint")


def test_a_folder_is_picked_and_shows_the_librarys_own_weights(
    page: Page, address: str, shelf: Path
) -> None:
    tokens, weights = library_weights(shelf / "whole")
    page.goto(f"http://{address}/?checkpoint=dates")
    page.wait_for_selector(".head[data-painted]")
    pick(page, "shelf/whole")
    expect(page.locator(".picker #detail")).to_have_text("BertForMaskedLM (Hugging Face)")
    in_url(page, "checkpoint", "shelf/whole")
    page.get_by_role("textbox", name="Text (type here)").fill(SENTENCE)
    expect(page.locator(".head")).to_have_attribute("data-cols", str(len(tokens)))
    page.locator(f'.overview [data-site="{SITE}"][data-head="1"]').click()
    expect(page.locator(".head")).to_have_attribute("data-site", SITE)
    expect(page.locator(".head")).to_have_attribute("data-head", "1")
    labels, painted = shown_weights(page)
    assert labels == tokens
    np.testing.assert_allclose(painted, weights[1, 1], atol=1e-6)
    page.get_by_role("link", name="Models", exact=True).click()
    card = page.locator("div.card")
    for line in (
        "Output: the token behind each mask.",
        "Attention: 2 layers × 2 heads of encoder self-attention.",
    ):
        expect(card.get_by_text(line, exact=True)).to_have_count(1)
    expect(page.locator(".cards .card").first).to_have_attribute("data-name", "whole")


def test_an_incomplete_folder_is_reported_beside_the_picker_and_the_picture_stays(
    page: Page, address: str, shelf: Path
) -> None:
    page.goto(
        f"http://{address}/?checkpoint={shelf / 'whole'}&text={SENTENCE}&site={SITE}&head=1"
    )  # while a path is typed
    page.wait_for_selector(".head[data-painted]")
    before = shown_weights(page)
    np.testing.assert_allclose(before[1], library_weights(shelf / "whole")[1][1, 1], atol=1e-6)
    expect(pick(page, str(shelf / "cut")).get_by_role("alert")).to_contain_text(
        "model.safetensors was cut off"
    )
    expect(page.locator(".written .stale")).not_to_have_text("")
    labels, painted = shown_weights(page)
    assert labels == before[0]
    assert (painted == before[1]).all()
