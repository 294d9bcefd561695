"""What a model of Hugging Face writes is what `generate` writes, whatever its folder says of how a text begins and ends."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from checked import unchecked
from hub_models import BY_NAME

import models
from models import CheckpointError, Scope
from models.decoding import runs
from models.hub.describe import capabilities
from models.hub.writers import CausalLM
from viz_app.drawing.notes import first_output
from viz_app.session.shortening import shortening_offer
from viz_app.views.decoding.text import not_applied

UNENDED = {"eos_token_id": 52}  # which these weights do not write
GIVEN, MOST = "5 6 7 8 9 10 11 12 14 16 18", 9
# architecture, what its folder says, and which of that a text must show: (first token, last token), None where it is the model's
CASES: dict[str, tuple[str, dict[str, Any], tuple[int | None, int | None]]] = {
    "a language comes first": ("MarianMTModel", {"forced_bos_token_id": 31}, (31, None)),
    "a long text is ended": ("MarianMTModel", {"forced_eos_token_id": 2}, (None, 2)),
    "both": (
        "BartForConditionalGeneration",
        {"forced_bos_token_id": 31, "forced_eos_token_id": 2},
        (31, 2),
    ),
    "another start": ("MarianMTModel", {"decoder_start_token_id": 17}, (None, None)),
    "a start of T5's": ("T5ForConditionalGeneration", {"decoder_start_token_id": 9}, (None, None)),
    "a language model that is ended": ("GPT2LMHeadModel", {"forced_eos_token_id": 2}, (None, 2)),
}


def opened(folder: Path, architecture: str, says: dict[str, Any]) -> Scope:
    case = BY_NAME[architecture]
    module = replace(case, sizes=case.sizes | UNENDED).make()
    for name, value in says.items():
        setattr(module.generation_config, name, value)
    module.save_pretrained(folder)
    return models.load(folder, device="cpu")


def generated(scope: Scope, given: tuple[int, ...], **how: Any) -> list[int]:
    with torch.no_grad():
        row = scope.model.module.generate(
            torch.tensor([given]),
            do_sample=False,
            num_beams=1,
            max_new_tokens=MOST,
            pad_token_id=scope.config.fill_id,
            **how,
        )[0].tolist()
    return row[len(given) if isinstance(scope.model, CausalLM) else 1 :]


def greedy(scope: Scope, given: tuple[int, ...]) -> list[int]:
    return [step.token for step in models.decoding.greedy(scope.model, given, max_new=MOST)]


@pytest.mark.parametrize("name", CASES)
@unchecked()
def test_greedy_text_is_what_generate_writes(tmp_path: Path, name: str) -> None:
    architecture, says, (first, last) = CASES[name]
    scope = opened(tmp_path, architecture, says)
    given = scope.input_ids(GIVEN)
    own = greedy(scope, given)
    assert own == generated(scope, given)
    assert first is None or own[0] == first
    assert last is None or (len(own) == MOST and own[-1] == last)
    if start := says.get("decoder_start_token_id"):
        assert scope.model.opening(torch.tensor([given])).tolist() == [[start]]
    whole = runs.autoregressive(scope.model, given, runs.Method(max_new=MOST)).run
    assert (list(whole.taken), whole.ended) == (own, own[-1] in scope.model.end_ids)
    beams = list(models.decoding.beam(scope.model, given, width=2, max_new=MOST))[-1].hypotheses
    assert all(first is None or h.tokens[0] == first for h in beams)
    rows = torch.tensor([given, given])
    batch = models.decoding.greedy_batch(scope.model, rows)
    alone = [step.token for step in models.decoding.greedy(scope.model, given)]
    assert batch == [[i for i in alone if i not in scope.model.end_ids]] * 2


@pytest.mark.parametrize(
    ("architecture", "says"),
    [("GPT2LMHeadModel", {}), ("MarianMTModel", {"forced_bos_token_id": 31})],
)
def test_each_of_several_end_tokens_ends_a_text(
    tmp_path: Path, architecture: str, says: dict[str, Any]
) -> None:
    """A token that the model writes is made one of them, behind one that it does not write."""
    free = greedy(plain := opened(tmp_path / "plain", architecture, says), plain.input_ids(GIVEN))
    at = next(i for i in range(1, MOST) if free[i] not in free[:i])
    unused = next(i for i in range(3, 53) if i not in free)
    scope = opened(tmp_path / "several", architecture, says | {"eos_token_id": [unused, free[at]]})
    given = scope.input_ids(GIVEN)
    own = greedy(scope, given)
    assert own == generated(scope, given) == free[: at + 1]
    assert scope.model.end_ids == (unused, free[at])
    assert runs.autoregressive(scope.model, given, runs.Method(max_new=MOST)).run.ended


def test_a_typed_target_begins_as_all_that_the_model_writes(tmp_path: Path) -> None:
    """So the text that it has written has the same probabilities when it is typed."""
    scope = opened(tmp_path, "MarianMTModel", {"forced_bos_token_id": 31})
    written = scope.run(GIVEN)
    row = written.streams["target"]
    assert row.ids[:2] == (scope.config.start_id, 31)
    typed = scope.run(GIVEN, " ".join(map(str, row.ids[2:])))
    assert typed.streams["target"].ids == row.ids
    assert typed.streams["target"].offsets[:2] == (None, None)
    logits = [first_output(trace).logits for trace in (written, typed)]
    torch.testing.assert_close(*logits)
    assert scope.run(GIVEN, row).streams["target"].ids == row.ids


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "MarianMTModel"])
@pytest.mark.parametrize(
    "setting", ["bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "min_new_tokens", "min_length"]
)  # fmt: skip
@unchecked()
def test_a_barred_token_is_not_written(tmp_path: Path, architecture: str, setting: str) -> None:
    """The first token that the model writes is barred, or is an end that may not be written yet."""
    free = greedy(plain := opened(tmp_path / "plain", architecture, {}), plain.input_ids(GIVEN))
    says = {"bad_words_ids": [[free[0]], [52]]}.get(setting, [free[0], 52])
    says = {setting: says} if "min" not in setting else {setting: 4, "eos_token_id": [free[0], 52]}
    scope = opened(tmp_path / "barred", architecture, says)
    given = scope.input_ids(GIVEN)
    own = greedy(scope, given)
    if setting == "min_length" and scope.model.continues:  # the prompt counts too
        assert scope.model.not_applied == ("min_length",)
        return
    assert own == generated(scope, given)
    assert own[0] != free[0]
    assert scope.model.not_applied == ()
    rows = torch.tensor([given, given])
    batch = models.decoding.greedy_batch(scope.model, rows)
    alone = [step.token for step in models.decoding.greedy(scope.model, given)]
    assert batch == [[i for i in alone if i not in scope.model.end_ids]] * 2


def test_settings_that_are_not_applied_are_named(tmp_path: Path) -> None:
    says = {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "bad_words_ids": [[3, 4], [5]]}
    scope = opened(tmp_path / "named", "MarianMTModel", says)
    named = ("bad_words_ids", "no_repeat_ngram_size", "repetition_penalty")
    assert scope.model.not_applied == named
    given = scope.input_ids(GIVEN)
    assert greedy(scope, given) != generated(scope, given)
    lines = list(capabilities(scope, scope.run(GIVEN)))
    assert any(line.endswith(f"not applied here: {', '.join(named)}") for line in lines)
    sentence = not_applied(named)
    assert all(name in sentence for name in named)
    assert not_applied(()) == ""


def test_a_translator_without_a_first_token_is_refused(tmp_path: Path) -> None:
    none = {"decoder_start_token_id": None, "bos_token_id": None}
    case = BY_NAME["T5ForConditionalGeneration"]
    module = replace(case, sizes=case.sizes | none).make()
    module.generation_config.decoder_start_token_id = None
    module.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="neither decoder_start_token_id nor bos_token_id"):
        models.load(tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("architecture", "says"),
    [
        ("GPT2LMHeadModel", {"eos_token_id": None, "min_new_tokens": 3}),  # nothing ends a text
        ("MarianMTModel", {"forced_bos_token_id": 31, "begin_suppress_tokens": [0, 5]}),
        ("MarianMTModel", {"min_new_tokens": 2, "min_length": 6, "eos_token_id": [0, 5, 24]}),
    ],
)
@unchecked()
def test_suppressed_tokens_are_those_of_generate(
    tmp_path: Path, architecture: str, says: dict[str, Any]
) -> None:
    case = BY_NAME[architecture]
    module = replace(case, sizes=case.sizes | {"eos_token_id": None} | UNENDED | says).make()
    for name, value in says.items():
        setattr(module.generation_config, name, value)
    module.save_pretrained(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    given = scope.input_ids(GIVEN)
    assert greedy(scope, given) == generated(scope, given)
    assert scope.model.not_applied == ()


def test_a_text_is_shortened_by_what_the_model_adds_to_it(tmp_path: Path) -> None:
    scope = opened(tmp_path, "MarianMTModel", {"forced_bos_token_id": 31})
    limit = scope.model.stream_limit("target")
    for n in (limit - 1, limit, 2 * limit):
        texts = (GIVEN, " ".join(["7"] * n))
        offer = shortening_offer(scope, texts, scope.model.fields[1])
        kept = scope.run(GIVEN, texts[1][: offer["keep"]]).streams["target"]
        assert len(kept.ids) == limit
