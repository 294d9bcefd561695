"""The section "Is attention explanation?": its numbers are those of edited runs, and its sentences follow from them."""

import math
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hub_kinds import BY_NAME as KINDS
from hub_kinds import SIZE
from hub_models import BY_NAME as CASES
from hub_models import library_tokenizer
from test_own_module import Written, watched
from test_own_module import text as text_of

import models
from models.runs.explanation import adversary
from models.trace.edits import Edit, MaskChange, SetWeights, Where
from viz_app.input_bar.examples import readable_examples
from viz_app.session.cache import changed_run, row_finding
from viz_app.session.current_run import CurrentRun
from viz_app.session.other_seeds import other_seeds
from viz_app.views.interventions import explanation, explanation_payload
from viz_app.views.interventions import explanation_text as text
from viz_app.views.interventions.explanation_payload import (
    ADVERSARY,
    MAX_EXPLAINED_TOKENS,
    RowChoices,
    asked_row,
    explanation_payloads,
)

ROWS = {
    "dates-bahdanau": ("decoder.alignment", "dates-cosine"),
    "eng-fra-bahdanau": ("decoder.alignment", "eng-fra"),
    "eng-fra": ("decoder.layers.2.cross_attn", "eng-fra-bahdanau"),
    "gpt": ("decoder.layers.2.self_attn", "gpt-char"),
    "bert": ("encoder.layers.1.self_attn", None),
    "gpt-sentiment": ("decoder.layers.1.self_attn", "gpt-sentiment-0"),
}


@cache
def run_of(name: str) -> CurrentRun:
    scope = models.load(name, device="cpu")
    return CurrentRun(scope, scope.run(*readable_examples(scope)[0]))


def usual(name: str, position: int | None = None) -> RowChoices:
    site, other = ROWS[name]
    return RowChoices(position, site, 0, other, ())


def with_edits(run: CurrentRun, *edits: Edit) -> CurrentRun:
    return changed_run(run, replace(run.spec, edits=edits))


def columns(run: CurrentRun, choices: RowChoices) -> dict[str, dict]:
    return {one["name"]: one for one in explanation_payloads(run, choices)["row_tests"]["columns"]}


def probabilities(run: CurrentRun, row: int) -> np.ndarray:
    logits = next(iter(run.trace.outputs.values())).logits.double().numpy()
    numbers = np.atleast_2d(logits)[row]
    return np.exp(numbers - np.logaddexp.reduce(numbers))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", ROWS)
def test_each_column_is_the_run_with_its_weights(name: str) -> None:
    run, choices = run_of(name), usual(name)
    what, row = asked_row(run, choices)
    row_finding(row, ADVERSARY, partial(adversary, row, n_steps=3))
    before = probabilities(run, what.chosen)
    for column in list(columns(run, choices).values())[1:]:
        if column["weights"] is None:
            assert column["name"] == "other"
            continue
        edit = row.edit(torch.tensor(column["weights"], dtype=torch.float64))
        after = with_edits(run, edit)
        now = probabilities(after, what.chosen)
        assert column["tv"] == pytest.approx(np.abs(before - now).sum() / 2, abs=1e-4)
        assert 0 <= column["js"] <= math.log(2)
        same = now.argmax() == before.argmax()
        assert column["says"][0].startswith("Still") == same
        assert ("becomes" in column["says"][0]) != same
        made = after.trace.attention[row.site].weights(row.head)[row.query]
        np.testing.assert_allclose(made.numpy(), column["weights"], atol=1e-5)
        if column["name"] == ADVERSARY:
            assert same
            assert column["tv"] <= 0.0501
        shown = columns(after, choices)
        assert shown[column["name"]]["used"]
        assert shown["own"]["edited"]
        np.testing.assert_allclose(shown["own"]["weights"], column["weights"], atol=1e-5)
        assert shown["own"]["own"] == row.weights.tolist()
        assert shown["own"]["js"] == pytest.approx(column["js"], abs=1e-4)
        assert shown[column["name"]]["weights"] == column["weights"]  # of the previous run


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", ROWS)
def test_all_checks_pass(name: str) -> None:
    lines = explanation_payloads(run_of(name), usual(name))["checks"]["rows"]
    assert len([line for look, line in lines if look == "passed"]) == 6
    assert not [line for look, line in lines if look == "failed"]


def test_an_adversary_is_shown_only_after_a_search() -> None:
    scope = models.load("dates-bahdanau", device="cpu")
    run, choices = CurrentRun(scope, scope.run("24 May 2007")), usual("dates-bahdanau", 4)
    column = columns(run, choices)[ADVERSARY]
    assert column["search"]
    assert column["weights"] is None
    _, row = asked_row(run, choices)
    found = row_finding(row, ADVERSARY, partial(adversary, row))
    column = columns(run, choices)[ADVERSARY]
    assert "search" not in column
    assert column["weights"] == found.trial.weights.tolist()
    assert f"{found.corners} of {found.n_keys}" in column["says"][1] or not found.corners


def test_a_row_with_one_key_says_so() -> None:
    told = columns(run_of("gpt"), usual("gpt", 0))
    assert {one["says"][0] for one in list(told.values())[1:]} == {text.ONE_KEY}
    assert not told["own"]["moves"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("eng-fra-rnn", "no attention head"),
        ("bert-where", "No single row"),
        ("dates-bahdanau", ""),
        ("xlnet", ""),
        ("gpt-sentiment", ""),
    ],
)
def test_a_model_without_such_a_row_says_why(name: str, why: str) -> None:
    found = explanation.find_explanation(run_of(name))
    assert (why in found) if isinstance(found, str) else not why


def test_a_long_text_is_refused_in_words() -> None:
    scope = models.load("eng-fra", device="cpu")
    found = explanation.find_explanation(
        CurrentRun(scope, scope.run("the cat " * MAX_EXPLAINED_TOKENS, "le chat"))
    )
    assert str(MAX_EXPLAINED_TOKENS) in found


def test_another_model_that_reads_other_tokens_says_so_and_the_rest_stays() -> None:
    told = columns(run_of("gpt"), usual("gpt"))
    assert told["other"]["says"] == ["gpt-char splits the texts into different tokens."]
    assert told["uniform"]["weights"]
    gone = replace(usual("gpt"), other="no-such-model")
    assert "no-such-model" in columns(run_of("gpt"), gone)["other"]["says"][0]


def test_other_weights_under_the_same_name_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that is trained further keeps its name."""
    run, choices, drawn = run_of("dates-bahdanau"), usual("dates-bahdanau"), []
    for step in (500, 4000):
        other = models.load("dates", snapshot=step, device="cpu")
        monkeypatch.setattr(explanation_payload.cache, "scope", lambda _, other=other: other)
        drawn.append(columns(run, choices)["other"])
    assert drawn[0]["weights"] != drawn[1]["weights"]
    assert drawn[0]["tv"] != drawn[1]["tv"]


def test_a_row_that_no_edit_changes_is_the_model_under_its_masks() -> None:
    run, choices = run_of("gpt"), usual("gpt")
    masked = with_edits(run, MaskChange(Where(kind="self"), block=((1, 0),)))
    own = columns(masked, choices)["own"]
    assert own["title"] == text.OWN_MODEL
    what, row = asked_row(masked, choices)
    best = probabilities(masked, what.chosen).max()
    assert own["says"][0].startswith("Predicts")
    assert text.probability_text(best) in own["says"][0]
    edited = with_edits(run, *masked.spec.edits, row.edit(torch.eye(len(row.weights))[0]))
    assert columns(edited, choices)["own"]["title"] == text.NOW
    for one, is_edited in ((masked, False), (edited, True)):
        about = explanation_payloads(one, choices)["row_tests"]["about"]
        assert (f"{text.OTHER_COLUMNS}: {text.WITHOUT_EDITS}" in about) == is_edited


def test_the_file_is_named_by_the_head_of_the_row() -> None:
    run, choices = run_of("gpt"), replace(usual("gpt"), head=1)
    assert "decoder.layer3.self_attn.head2.row-tests" in str(
        explanation_payloads(run, choices)["row_tests"]
    )


def test_seeds_are_told_apart_by_recipe_and_compared() -> None:
    run = run_of("dates-bahdanau")
    assert "dates-cosine" in explanation._others(run)
    assert other_seeds(run.scope, models.shipped()) == ()
    told = columns(run, replace(usual("dates-bahdanau"), seeds=("dates-dot", "dates-cosine")))
    assert told["other"]["says"][2].startswith("2 other seeds: JS 0.")


def test_sentences_follow_reversed_numbers() -> None:
    assert text.outcome_sentence("a", "a", 0.5, 0.4) == "Still “a” (p 0.500 → 0.400)."
    assert text.outcome_sentence("a", "b", 0.5, 0.1) == "“a” becomes “b” (p 0.500 → 0.100)."
    assert [text.probability_text(p) for p in (0, 1e-4, 0.5, 0.9999, 1)] == ["0.000", "<0.001", "0.500", ">0.999", "1.000"]  # fmt: skip
    stay = {
        0: "none of 5 predictions stay",
        5: "all 5 predictions stay",
        1: "1 of 5 predictions stays",
        3: "3 of 5",
    }
    for n_kept, said in stay.items():
        assert said in text.uniform_outcome(n_kept, 5)
        assert said in text.transplant_outcome("x", n_kept, 5, True)
    assert "stays" in text.uniform_outcome(1, 1)
    assert "changes" in text.uniform_outcome(0, 1)
    assert text.permutations(0, 9, 0, 0, 0).startswith("None of 9")
    assert text.permutations(9, 9, 0, 0, 0).startswith("All 9 permutations")
    assert text.permutations(1, 9, 0, 0, 0).startswith("1 of 9 permutations keeps")
    assert "No token alone" in text.adversary_outcome(0.1, 0.01, 0, 4, 4)
    assert "2 of 4 tokens can" in text.adversary_outcome(0.1, 0.01, 2, 4, 4)
    assert "None of the 4 tokens tried" in text.adversary_outcome(0.1, 0.01, 0, 4, 9)
    assert "2 of the 4 tokens tried can" in text.adversary_outcome(0.1, 0.01, 2, 4, 9)
    assert "mean" in text.transplant_outcome("x", 1, 5, False)
    assert "mean" not in text.transplant_outcome("x", 1, 5, True)


def test_a_row_set_by_hand_keeps_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    run, choices = run_of("gpt"), usual("gpt", 2)
    _, row = asked_row(run, choices)
    kept: list[tuple[Where, Edit | None]] = []
    monkeypatch.setattr(explanation, "_shown_row", lambda choices: row)
    monkeypatch.setattr(
        explanation.state, "keep_edit", lambda where, edit: kept.append((where, edit))
    )
    n = len(row.weights)
    for weights in (
        [1.0] * n,
        [float("nan")] * n,
        [-1.0, 2.0],
        [],
        [0.0] * n,
        [0.0] * (n - 1) + [1.0],
    ):
        explanation._set(choices, weights)
    (where, even), (_, some), (_, none) = (
        kept  # no weight, or one on blocked keys alone, changes nothing
    )
    assert where == row.where
    assert isinstance(even, SetWeights)
    allowed = row.allowed.nonzero()[:, 0].tolist()
    assert [key for key, _ in even.cells] == allowed
    assert sum(weight for _, weight in even.cells) == pytest.approx(1, abs=1e-9)
    assert some == SetWeights(row.where, cells=((1, 1.0),))
    assert none is None


HUB = {
    "GPT2LMHeadModel": "7 11 5 23 41 3 19",
    "LlamaForCausalLM": "7 11 5 23 41 3 19",
    "BertForTokenClassification": "The little dog was hungry.",
}


@pytest.mark.parametrize("name", [*HUB, "own module"])
def test_a_third_party_model_is_tried_like_one_of_ours(name: str, tmp_path: Path) -> None:
    """Each column is a run with its weights as an edit, and its sentence says what that run predicts."""
    if name == "own module":
        scope, words = watched(Written(), decode=text_of, n_ctx=31), "abc de"
    else:
        (KINDS if name in KINDS else CASES)[name].save(tmp_path)
        if name in KINDS:
            library_tokenizer(tmp_path, SIZE)
        scope, words = models.load(tmp_path, device="cpu"), HUB[name]
    run = CurrentRun(scope, scope.run(words))
    assert not isinstance(explanation.find_explanation(run), str)
    (*_, site) = (one for sites in explanation._kinds(run.trace).values() for one in sites)
    choices = RowChoices(None, site.name, 0, None, ())
    what, row = asked_row(run, choices)
    row_finding(row, ADVERSARY, partial(adversary, row, n_steps=3))
    before = probabilities(run, what.chosen)
    drawn = explanation_payloads(run, choices)
    tried = [one for one in drawn["row_tests"]["columns"][1:] if one["weights"] is not None]
    assert [one["name"] for one in tried] == ["uniform", "permuted", ADVERSARY]
    assert not [line for look, line in drawn["checks"]["rows"] if look == "failed"]
    for column in tried:
        edit = row.edit(torch.tensor(column["weights"], dtype=torch.float64))
        now = probabilities(with_edits(run, edit), what.chosen)
        assert column["tv"] == pytest.approx(np.abs(before - now).sum() / 2, abs=1e-4)
        assert column["says"][0].startswith("Still") == (now.argmax() == before.argmax())


@pytest.mark.parametrize("name", ["eng-fra", "gpt", "xlnet"])
def test_no_message_from_a_browser_sets_an_invalid_row(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever weights arrive, the row that is kept is on allowed keys, sums to 1 and can be run by the model."""
    run = run_of(name)
    kinds = explanation._kinds(run.trace)
    site = list(kinds.values())[-1][-1]
    choices = RowChoices(
        len(asked_row(run, RowChoices(None, site.name, 0, None, ()))[0].all) - 1,
        site.name,
        0,
        None,
        (),
    )
    _, row = asked_row(run, choices)
    kept: list[Edit | None] = []
    monkeypatch.setattr(explanation, "_shown_row", lambda choices: row)
    monkeypatch.setattr(explanation.state, "keep_edit", lambda where, edit: kept.append(edit))
    n, inf, nan = len(row.weights), float("inf"), float("nan")
    hostile = [
        [inf] * n, [-inf] * n, [nan, inf, 1.0], [1e308] * n, [5e-324] * n, [1e-12] * n, [1.0] * 100_000, [1.0], [-0.0] * n,
        [inf] + [nan] * (n - 1), [0.0] * n + [1.0], [1e-7] * (n - 1) + [1.0],
    ]  # fmt: skip
    for weights in hostile:
        explanation._set(choices, weights)
    assert kept
    for edit in kept:
        assert isinstance(edit, SetWeights)
        cells = dict(edit.cells)
        assert sum(cells.values()) == pytest.approx(1, abs=1e-9)
        assert all(weight > 0 and row.allowed[key] for key, weight in cells.items())
        after = with_edits(run, edit)
        assert np.isfinite(probabilities(after, row.decision)).all()
    drawn = explanation_payloads(run, RowChoices(10**9, site.name, 10**9, "../../etc/passwd", ()))[
        "row_tests"
    ]
    assert drawn["columns"][0]["name"] == "own"
