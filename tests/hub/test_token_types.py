"""Token types: a model gets those that its folder's tokenizer returns, whatever the template."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hub_models import _WIDE, Case, library_tokenizer
from tokenizers import processors

import models
from models.errors import CheckpointError
from models.hub.token_types import FIRST_AND_SECOND
from viz_app.drawing.notes import first_output

SIZE = 160
TEXT, SECOND = "The little dog was hungry.", "She is reading a book."
BERT = Case(
    "BertForSequenceClassification", "BertConfig", _WIDE | {"vocab_size": SIZE, "num_labels": 3}
)
XLNET = Case(
    "XLNetForSequenceClassification",
    "XLNetConfig",
    {"vocab_size": SIZE, "d_model": 22, "n_layer": 2, "n_head": 2, "d_inner": 31, "num_labels": 3},
)
TYPED = ["input_ids", "token_type_ids", "attention_mask"]


def save(case: Case, folder: Path, one: str = "", two: str = "", names: Any = None) -> Any:
    """Save a model and a tokenizer with these templates for one and two texts; `names` are the inputs that it returns."""
    case.save(folder)
    library = library_tokenizer(folder, SIZE)
    if one:
        special = [
            (name, library.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]", "[MASK]")
        ]
        library.backend_tokenizer.post_processor = processors.TemplateProcessing(
            one, two or None, special
        )
        library.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8")) | {"model_input_names": names or TYPED}
    path.write_text(json.dumps(settings), "utf-8")
    return transformers.AutoTokenizer.from_pretrained(folder)


@torch.no_grad()
def answers(folder: Path, *texts: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return our logits, and those of the library for its own tokenizer's output."""
    ours = first_output(models.load(folder, device="cpu").run(*texts)).logits
    library = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    return ours, model(**library(*texts, return_tensors="pt")).logits[0]


@pytest.mark.parametrize(
    ("case", "one", "two", "names"),
    [
        (BERT, "", "", None),
        (BERT, "", "", ["input_ids", "attention_mask"]),  # a pair then has a single type
        (BERT, "[CLS]:1 $A:1 [SEP]:1", "[CLS]:1 $A:1 [SEP]:1 $B:0 [SEP]:0", None),
        (BERT, "[CLS] $A [SEP]:1", "[CLS] $A [SEP]:1 [SEP] $B:1 [SEP]:0", None),
        (BERT, "[CLS] $A [SEP]", "[CLS] $A:1 [SEP] $B [SEP]", None),  # another type in a pair
        (XLNET, "$A [SEP] [CLS]:2", "", None),
        (XLNET, "$A [SEP] [CLS]:2", "", ["input_ids", "attention_mask"]),
    ],
)
def test_a_model_answers_as_with_the_types_of_its_own_tokenizer(
    tmp_path: Path, case: Case, one: str, two: str, names: Any
) -> None:
    save(case, tmp_path, one, two, names)
    for texts in ((TEXT,), (TEXT, SECOND))[: 1 if case is XLNET else 2]:
        ours, library = answers(tmp_path, *texts)
        assert torch.allclose(ours, library, atol=1e-5)


@torch.no_grad()
def test_the_weights_are_those_of_the_library_with_these_types(tmp_path: Path) -> None:
    save(XLNET, tmp_path, "$A [SEP] [CLS]:2")
    sites = models.load(tmp_path, device="cpu").run(TEXT).attention.values()
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    wanted = model(**library(TEXT, return_tensors="pt"), output_attentions=True).attentions
    for site, weights in zip(sites, wanted, strict=True):
        torch.testing.assert_close(site.weights(), weights[0], atol=2e-6, rtol=1e-4)


def test_types_change_the_compared_answer(tmp_path: Path) -> None:
    for case, one in ((BERT, ""), (XLNET, "$A [SEP] [CLS]:2")):
        logits, fingerprints = [], set()
        for names in (None, ["input_ids", "attention_mask"]):
            folder = tmp_path / f"{case.model}{names is None}"
            save(case, folder, one, names=names)
            texts = (TEXT, SECOND)[: 1 if one else 2]
            logits.append(answers(folder, *texts)[0])
            fingerprints.add(models.load(folder, device="cpu").fingerprint)
        assert not torch.allclose(*logits, atol=1e-3)
        assert len(fingerprints) == 2  # a run of one is never shown for the other


def test_a_python_tokenizer_gives_the_types_of_its_own_method(tmp_path: Path) -> None:
    BERT.save(tmp_path)
    library = library_tokenizer(tmp_path, SIZE)
    words = [name for name, _ in sorted(library.get_vocab().items(), key=lambda one: one[1])]
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(words), "utf-8")
    settings = {
        "tokenizer_class": "BertJapaneseTokenizer",
        "word_tokenizer_type": "basic",
        "subword_tokenizer_type": "wordpiece",
        "model_input_names": TYPED,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    for texts in ((TEXT,), (TEXT, SECOND)):
        ours, theirs = answers(tmp_path, *texts)
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_a_type_without_a_vector_in_the_model_is_refused(tmp_path: Path) -> None:
    save(BERT, tmp_path, "[CLS]:2 $A [SEP]", "[CLS]:2 $A [SEP] $B:1 [SEP]:1")
    with pytest.raises(CheckpointError, match="token type 2, but the model has only 2 types"):
        models.load(tmp_path, device="cpu")


def test_a_model_of_one_type_is_given_none(tmp_path: Path) -> None:
    one = replace(BERT, sizes=BERT.sizes | {"type_vocab_size": 1})
    save(one, tmp_path)
    ours, library = answers(tmp_path, TEXT)
    assert torch.allclose(ours, library, atol=1e-5)
    scope = models.load(tmp_path, device="cpu")
    assert scope.model.token_types is None
    assert scope.run(TEXT, SECOND).streams["text"].segments.count(1) > 3


def test_typed_ids_of_a_second_text_are_of_the_second_type(tmp_path: Path) -> None:
    BERT.save(tmp_path)
    model = models.load(tmp_path, device="cpu").model
    assert model.token_types == FIRST_AND_SECOND
    assert FIRST_AND_SECOND.of((0, 0, 1, 1, 1), 5) == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("BertForQuestionAnswering", "[CLS] $A [SEP]", "$A $B:1"),
        ("BertForNextSentencePrediction", "[CLS] $A [SEP]", "$A $B:1"),
        ("BertForMultipleChoice", "$A [SEP] [CLS]:1", "$A [SEP] $B:1 [SEP]:1 [CLS]:1"),
    ],
)
def test_a_pair_that_does_not_begin_as_one_text_is_refused_where_it_is_needed(
    tmp_path: Path, name: str, one: str, two: str
) -> None:
    save(Case(name, "BertConfig", _WIDE | {"vocab_size": SIZE}), tmp_path, one, two)
    with pytest.raises(CheckpointError, match="does not extend that for one"):
        models.load(tmp_path, device="cpu")


def test_a_language_model_that_reads_both_ways_is_given_types(tmp_path: Path) -> None:
    case = Case("XLNetLMHeadModel", "XLNetConfig", XLNET.sizes)
    module = case.save(tmp_path)
    library = save(case, tmp_path, "$A:1 [SEP] [CLS]:2")
    scope = models.load(tmp_path, device="cpu")
    ids = scope.model.inputs([scope.run(TEXT).streams])
    with torch.no_grad():
        ours = next(iter(scope.model(*ids).values()))
        expected = module(**library(TEXT, return_tensors="pt")).logits
    assert torch.allclose(ours, expected, atol=1e-4)
    assert "a logit for each token" in scope.model.answer_description


def test_types_that_a_head_passes_on_are_given(tmp_path: Path) -> None:
    sizes = {
        "vocab_size": SIZE,
        "n_embd": 22,
        "n_head": 2,
        "n_layer": 2,
        "rotary_dim": 4,
        "num_labels": 3,
        "pad_token_id": 0,
    }
    save(Case("GPTJForSequenceClassification", "GPTJConfig", sizes), tmp_path)
    ours, library = answers(tmp_path, TEXT)
    assert torch.allclose(ours, library, atol=1e-5)
