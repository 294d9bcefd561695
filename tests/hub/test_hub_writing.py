"""Hugging Face models generate the text of `generate`, whatever start and end tokens and settings their folders name."""

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
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
from viz_app.views.decoding.text import not_applied, passed_over

UNENDED = {"eos_token_id": 52}  # which these weights do not generate
GIVEN, MOST = "5 6 7 8 9 10 11 12 14 16 18", 9
# architecture, its folder's settings, and the (first token, last token) that a text must have, None where it is the model's choice
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


def open_scope(folder: Path, architecture: str, says: dict[str, Any]) -> Scope:
    case = BY_NAME[architecture]
    module = replace(case, sizes=case.sizes | UNENDED).make()
    for name, value in says.items():
        setattr(module.generation_config, name, value)
    module.save_pretrained(folder)
    return models.load(folder, device="cpu")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scope]:
    """A function that opens an architecture whose folder has no generation settings, on first use."""
    return functools.cache(lambda name: open_scope(tmp_path_factory.mktemp("plain"), name, {}))


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
def test_greedy_text_equals_that_of_generate(tmp_path: Path, name: str) -> None:
    architecture, says, (first, last) = CASES[name]
    scope = open_scope(tmp_path, architecture, says)
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


@pytest.mark.parametrize("architecture", ["MarianMTModel", "BartForConditionalGeneration"])
def test_a_text_ends_at_the_same_token_alone_and_beside_a_longer_one(
    tmp_path: Path, architecture: str
) -> None:
    """Its last token is forced at its own limit: twice its length plus 20."""
    scope = open_scope(tmp_path, architecture, {"forced_eos_token_id": 2})
    texts = [(GIVEN,), ("5 9 3",), ("7 8",)]
    for (text,), trace in zip(texts, scope.run_each(texts), strict=True):
        row = trace.streams["target"].ids
        assert row == scope.run(text).streams["target"].ids
        assert row[-1] == 2
        assert len(row) == 1 + 2 * len(trace.streams["source"].ids) + 20  # after the start token


@pytest.mark.parametrize(
    ("architecture", "says"),
    [("GPT2LMHeadModel", {}), ("MarianMTModel", {"forced_bos_token_id": 31})],
)
def test_each_of_several_end_tokens_ends_a_text(
    tmp_path: Path, architecture: str, says: dict[str, Any]
) -> None:
    """A token that the model generates is made one of them, after one that it does not generate."""
    free = greedy(
        plain := open_scope(tmp_path / "plain", architecture, says), plain.input_ids(GIVEN)
    )
    at = next(i for i in range(1, MOST) if free[i] not in free[:i])
    unused = next(i for i in range(3, 53) if i not in free)
    scope = open_scope(
        tmp_path / "several", architecture, says | {"eos_token_id": [unused, free[at]]}
    )
    given = scope.input_ids(GIVEN)
    own = greedy(scope, given)
    assert own == generated(scope, given) == free[: at + 1]
    assert scope.model.end_ids == (unused, free[at])
    assert runs.autoregressive(scope.model, given, runs.Method(max_new=MOST)).run.ended


def test_a_typed_target_begins_like_every_text_of_the_model(tmp_path: Path) -> None:
    """So a generated text has the same probabilities when it is typed."""
    scope = open_scope(tmp_path, "MarianMTModel", {"forced_bos_token_id": 31})
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
def test_a_suppressed_token_is_not_generated(
    plain: Callable[[str], Scope], tmp_path: Path, architecture: str, setting: str
) -> None:
    """The first token that the model would generate is suppressed, or is an end token before the least length."""
    given = plain(architecture).input_ids(GIVEN)
    free = greedy(plain(architecture), given)
    says = {"bad_words_ids": [[free[0]], [52]]}.get(setting, [free[0], 52])
    least = 4
    if setting == "min_length" and plain(architecture).model.continues:  # the prompt counts too
        least += len(given)
    ended = {setting: least, "eos_token_id": [free[0], 52]}
    scope = open_scope(
        tmp_path / "barred", architecture, ended if "min" in setting else {setting: says}
    )
    own = greedy(scope, given)
    assert own == generated(scope, given)
    assert own[0] != free[0]
    assert scope.model.not_applied == ()
    rows = torch.tensor([given, given])
    batch = models.decoding.greedy_batch(scope.model, rows)
    alone = [step.token for step in models.decoding.greedy(scope.model, given)]
    assert batch == [[i for i in alone if i not in scope.model.end_ids]] * 2


# settings that depend on the text, for a model that generates `free` after `given`
BY_TEXT: dict[str, Callable[[list[int], list[int]], dict[str, Any]]] = {
    "repetition_penalty": lambda free, given: {"repetition_penalty": 3.5},
    "encoder_repetition_penalty": lambda free, given: {"encoder_repetition_penalty": 0.2},
    "no_repeat_ngram_size": lambda free, given: {"no_repeat_ngram_size": 1},
    "encoder_no_repeat_ngram_size": lambda free, given: {"encoder_no_repeat_ngram_size": 1},
    "bad_words_ids": lambda free, given: {"bad_words_ids": [free[:2], [free[0], 7], [3, 4, 5]]},
    "sequence_bias": lambda free, given: {"sequence_bias": [[free[:3], -40.0], [[free[0]], 1.0]]},
    "several": lambda free, given: {
        "repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "bad_words_ids": [free[:2]], "min_new_tokens": 6,
    },
}  # fmt: skip
ARCHITECTURES = ["GPT2LMHeadModel", "MarianMTModel", "T5ForConditionalGeneration"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", BY_TEXT)
@unchecked()
def test_settings_that_depend_on_the_text_are_those_of_generate(
    plain: Callable[[str], Scope], tmp_path: Path, architecture: str, name: str
) -> None:
    """The text and the processed scores are compared step by step; the model's own numbers stay unchanged."""
    given = plain(architecture).input_ids(GIVEN)
    free = greedy(plain(architecture), given)
    says = BY_TEXT[name](free, list(given))
    scope = open_scope(tmp_path / "changed", architecture, says)
    assert scope.model.not_applied == ()
    steps = list(models.decoding.greedy(scope.model, given, max_new=MOST))
    own = [step.token for step in steps]
    assert own == generated(scope, given) != free
    with torch.no_grad():
        told = scope.model.module.generate(
            torch.tensor([given]), do_sample=False, max_new_tokens=MOST, output_scores=True,
            return_dict_in_generate=True, pad_token_id=scope.config.fill_id,
        )  # fmt: skip
    for step, scores in zip(steps, told.scores, strict=True):
        own_scores = step.log_probs if step.scores is None else step.scores
        torch.testing.assert_close(own_scores.softmax(-1), scores[0].softmax(-1))
    again = runs.uncached_run(scope.model, given, own)
    torch.testing.assert_close(
        torch.stack([s.log_probs for s in steps]), again.log_probs, atol=1e-5, rtol=1e-4
    )
    drafted = models.decoding.greedy(
        scope.model, given, max_new=MOST, draft_tokens=[free, own[:4], own]
    )
    assert [step.token for step in drafted] == own
    run = runs.autoregressive(scope.model, given, runs.Method(max_new=MOST)).run
    assert run.choices.argmax(-1).tolist() == own == list(run.taken)
    both = given, given[::-1]
    for row, ids in zip(
        both, models.decoding.greedy_batch(scope.model, torch.tensor(both)), strict=True
    ):
        alone = [step.token for step in models.decoding.greedy(scope.model, row)]
        assert ids == [i for i in alone if i not in scope.model.end_ids]


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "LlamaForCausalLM"])
@unchecked()
def test_a_row_that_has_ended_does_not_change_the_others(
    plain: Callable[[str], Scope], tmp_path: Path, architecture: str
) -> None:
    free_model = plain(architecture).model
    given = plain(architecture).input_ids(GIVEN)
    rows = given, given[::-1]
    free = [[s.token for s in models.decoding.greedy(free_model, row)] for row in rows]
    end = next(i for i in free[1] if i not in free[0][:20])
    scope = open_scope(tmp_path / "ended", architecture, {"eos_token_id": [52, end]})
    alone = [[s.token for s in models.decoding.greedy(scope.model, row)] for row in rows]
    ends = scope.model.end_ids
    assert models.decoding.greedy_batch(scope.model, torch.tensor(rows)) == [
        [i for i in text if i not in ends] for text in alone
    ]
    assert len(alone[0]) > len(alone[1]) + 1


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "MarianMTModel"])
def test_a_beam_is_scored_by_the_settings_and_keeps_the_models_own_sum(
    tmp_path: Path, architecture: str
) -> None:
    penalty = 1.3 if architecture == "GPT2LMHeadModel" else 2.0
    says = {"repetition_penalty": penalty, "no_repeat_ngram_size": 2}
    scope = open_scope(tmp_path, architecture, says)
    given = scope.input_ids(GIVEN)
    steps = list(models.decoding.beam(scope.model, given, width=3, alpha=0.6, max_new=6))
    opening = scope.model.opening(torch.tensor([given]))[0].tolist()
    for hypothesis in steps[-1].hypotheses:
        own = runs.uncached_run(scope.model, given, hypothesis.tokens).log_probs
        assert hypothesis.log_prob == pytest.approx(
            sum(float(own[i, token]) for i, token in enumerate(hypothesis.tokens)), abs=1e-4
        )
        total, row = 0.0, list(opening)
        for i, token in enumerate(hypothesis.tokens):
            # Keskar et al. 2019: the score of an earlier token is divided, or multiplied if negative, as here
            total += float(own[i, token]) * (penalty if token in row else 1.0)
            assert (row[-1], token) not in set(pairwise(row))
            row.append(token)
        assert hypothesis.total == pytest.approx(total, abs=1e-4)
        shorter = models.decoding.length_penalty(len(hypothesis.tokens), 0.6)
        assert hypothesis.score == pytest.approx(total / shorter, abs=1e-4)
    assert any(h.total < h.log_prob - 0.01 for step in steps for h in step.hypotheses)


def test_a_token_is_sampled_from_those_that_the_settings_leave(
    plain: Callable[[str], Scope], tmp_path: Path
) -> None:
    """In the picture's orange frames, a suppressed token has 0, though the model gives it a probability."""
    given = plain("MarianMTModel").input_ids(GIVEN)
    barred = greedy(plain("MarianMTModel"), given)[0]
    scope = open_scope(tmp_path / "barred", "MarianMTModel", {"suppress_tokens": [barred]})
    method = runs.Method("sample", temperature=0.7, top_k=5, max_new=MOST, seed=3)
    run = runs.autoregressive(scope.model, given, method).run
    drawn = torch.stack([method.filtered(row) for row in run.choices]).exp()
    assert barred not in run.taken
    assert drawn[:, barred].max() == 0
    assert run.log_probs[:, barred].exp().min() > 0
    logits = run.log_probs.clone()
    logits[:, barred] = -torch.inf
    left = (logits / 0.7).softmax(-1)
    left = left * (left >= left.topk(5).values[:, -1:])
    torch.testing.assert_close(drawn, left / left.sum(-1, keepdim=True), atol=1e-5, rtol=1e-4)


HOSTILE: list[dict[str, Any]] = [
    {"repetition_penalty": "x"},
    {"repetition_penalty": -1.0},
    {"repetition_penalty": 1e-39},
    {"repetition_penalty": 10**400},
    {"no_repeat_ngram_size": 2.5},
    {"no_repeat_ngram_size": -3},
    {"encoder_repetition_penalty": [2]},
    {"bad_words_ids": [[3, 10**12], [4, -1]]},
    {"bad_words_ids": [[5, 5], "x", [5]]},
    {"sequence_bias": [[[3, 4], "x"]]},
    {"sequence_bias": [[[3, 4]]]},
    {"sequence_bias": {"3": 1}},
    {"sequence_bias": [[[3], 1e39]]},
]


@pytest.mark.parametrize("says", HOSTILE, ids=str)
@unchecked()
def test_settings_that_cannot_be_applied_are_named(tmp_path: Path, says: dict[str, Any]) -> None:
    open_scope(tmp_path, "MarianMTModel", {})
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | says))
    scope = models.load(tmp_path, device="cpu")
    assert scope.model.not_applied == tuple(says)
    assert greedy(scope, scope.input_ids(GIVEN))


@pytest.mark.parametrize("architecture", ["T5ForConditionalGeneration", "MarianMTModel"])
@pytest.mark.parametrize("name", ["encoder_no_repeat_ngram_size", "encoder_repetition_penalty"])
@unchecked()
def test_each_source_of_a_batch_has_its_own_tokens(
    plain: Callable[[str], Scope], tmp_path: Path, architecture: str, name: str
) -> None:
    """Padding of the shorter source is not among them."""
    unchanged = plain(architecture)
    given = [GIVEN, GIVEN[6:], "5 5"]
    says = BY_TEXT[name](greedy(unchanged, unchanged.input_ids(GIVEN)), [])
    scope = open_scope(tmp_path / "changed", architecture, says)
    together = [
        trace.streams["target"].ids for trace in scope.run_each([(text,) for text in given])
    ]
    alone = [scope.run(text).streams["target"].ids for text in given]
    assert together == alone
    assert alone != [unchanged.run(text).streams["target"].ids for text in given]


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "MarianMTModel"])
@unchecked()
def test_if_the_settings_bar_every_token_the_models_own_logits_count(
    plain: Callable[[str], Scope], tmp_path: Path, architecture: str
) -> None:
    unchanged = plain(architecture)
    scope = open_scope(tmp_path / "barred", architecture, {"suppress_tokens": list(range(53))})
    given = scope.input_ids(GIVEN)
    assert greedy(scope, given) == greedy(unchanged, given)
    for how in ("sample", "beam"):
        method = runs.Method(how, max_new=4, seed=2)
        both = [
            runs.autoregressive(one.model, given, method).run.taken for one in (scope, unchanged)
        ]
        assert both[0] == both[1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_without_settings_has_no_processor(tmp_path: Path, architecture: str) -> None:
    model = open_scope(tmp_path, architecture, {}).model
    assert model.logits_processor(torch.tensor([[5, 6]]), 1) is None


def test_an_n_gram_longer_than_the_source_bars_nothing(tmp_path: Path) -> None:
    says = {"encoder_no_repeat_ngram_size": 10**9, "no_repeat_ngram_size": 10**9}
    scope = open_scope(tmp_path, "MarianMTModel", says)
    assert greedy(scope, scope.input_ids(GIVEN))


def test_settings_that_are_not_applied_are_named(tmp_path: Path) -> None:
    says = {"exponential_decay_length_penalty": [0, 3.0], "guidance_scale": 1.5}
    scope = open_scope(tmp_path / "named", "MarianMTModel", says)
    named = ("exponential_decay_length_penalty", "guidance_scale")
    assert scope.model.not_applied == named
    given = scope.input_ids(GIVEN)
    assert greedy(scope, given) != generated(scope, given, guidance_scale=None)
    lines = list(capabilities(scope, scope.run(GIVEN)))
    assert any(line.endswith(f"not applied here: {', '.join(named)}") for line in lines)
    sentence = not_applied(named)
    assert all(name in sentence for name in named)
    assert not_applied(()) == ""
    stopping = open_scope(tmp_path / "stopping", "GPT2LMHeadModel", {"stop_strings": ["."]})
    assert stopping.model.not_applied == ("stop_strings",)


def test_the_positions_passed_over_are_counted_from_one_and_at_most_four() -> None:
    end = "the model's generation settings passed over the most probable token."
    assert passed_over([0]) == f"At position 1 {end}"
    assert passed_over([0, 4]) == f"At positions 1 and 5 {end}"
    assert passed_over([1, 2, 3, 5]) == f"At positions 2, 3, 4 and 6 {end}"
    assert passed_over([1, 2, 3, 5, 8, 9]) == f"At positions 2, 3, 4, 6 and 2 more {end}"


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
        ("GPT2LMHeadModel", {"eos_token_id": None, "min_new_tokens": 3}),  # no token ends a text
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


def test_a_text_leaves_room_for_the_tokens_that_the_model_adds(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, "MarianMTModel", {"forced_bos_token_id": 31})
    limit = scope.model.stream_limit("target")
    for n in (limit - 1, limit, 2 * limit):
        texts = (GIVEN, " ".join(["7"] * n))
        offer = shortening_offer(scope, texts, scope.model.fields[1])
        kept = scope.run(GIVEN, texts[1][: offer["keep"]]).streams["target"]
        assert len(kept.ids) == limit
