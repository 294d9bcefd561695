"""A tokenizer.json that stores padding and truncation, as those of sentence encoders do: neither is applied to a text."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from hub_models import BY_NAME, library_tokenizer

import models
from models import Scope

TEXTS = ("The dog was hungry.", "She had a book about the sea.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT whose tokenizer stores padding to 47 tokens and truncation to 5."""
    folder, case = tmp_path_factory.mktemp("hub") / "padded", BY_NAME["BertForMaskedLM"]
    folder.mkdir()
    library = library_tokenizer(folder, 53)
    replace(case, sizes=case.sizes | {"vocab_size": len(library)}).save(folder)
    stored = library.backend_tokenizer
    stored.enable_padding(length=47, pad_id=library.pad_token_id, pad_token="[PAD]")
    stored.enable_truncation(5)
    stored.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def scope(folder: Path) -> Scope:
    return models.load(folder, device="cpu")


@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS])
def test_the_tokens_are_those_of_the_library(
    folder: Path, scope: Scope, texts: tuple[str, ...]
) -> None:
    library = transformers.AutoTokenizer.from_pretrained(folder)
    assert library.backend_tokenizer.padding["length"] == 47  # it is still in the file
    wanted, row = library(*texts, return_token_type_ids=True), scope.run(*texts).streams["text"]
    assert list(row.ids) == wanted["input_ids"]
    assert list(row.segments) == wanted["token_type_ids"]
    assert "[PAD]" not in row.tokens


def test_the_weights_are_those_of_the_library(folder: Path, scope: Scope) -> None:
    library = transformers.AutoTokenizer.from_pretrained(folder)
    module = transformers.AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        wanted = module(**library(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    sites = scope.run(TEXTS[0]).attention.values()
    for site, weights in zip(sites, wanted, strict=True):
        torch.testing.assert_close(site.weights(), weights[0], atol=1e-6, rtol=0)
