"""The weights of one run imposed on another model that reads the same tokens."""

import pytest
import torch
from forward_by_hand import ByHand
from small import random_gpt, random_model, random_seq2seq
from small_scopes import LETTERS, as_scope, fields, scope_of

import models
from models.analysis.metrics import logits_of
from models.runs.frozen_weights import is_other_seed, mean_weights, read_by, transplant
from models.trace.edits import SetWeights, Where

KIND = {"transformer": "cross", "seq2seq": "cross", "gpt": "self"}
MAKE = {"transformer": random_model, "seq2seq": random_seq2seq, "gpt": random_gpt}


def pair(family: str):
    """Return a run of a random model, and another random model of the same shape."""
    scope = scope_of(family)
    torch.manual_seed(7)
    other = as_scope(MAKE[family](vocab_size=LETTERS.vocab_size), LETTERS, "other")
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return scope.run(*fields(scope, "ab cd ef")), scope, other


@pytest.mark.parametrize("family", KIND)
def test_a_model_given_its_own_weights_answers_the_same(family) -> None:
    run, scope, _ = pair(family)
    given = transplant(scope, run, KIND[family])
    assert given.is_by_head
    assert given.n_kept == len(given.before)
    torch.testing.assert_close(given.logits, logits_of(run.outputs), atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", KIND)
def test_each_weight_is_that_of_the_other_run(family) -> None:
    run, _, other = pair(family)
    given = transplant(other, run, KIND[family])
    assert [row.ids for row in given.own.streams.values()] == [r.ids for r in run.streams.values()]
    edits = [
        SetWeights(
            Where(site=name, heads=(head,), queries=(query,)),
            cells=tuple(
                (key, float(w))
                for key, w in enumerate((row.double() / row.double().sum()).tolist())
            ),
        )
        for name, site in run.attention.items()
        if site.kind == KIND[family]
        for head in range(site.n_heads)
        for query, row in enumerate(site.weights(head))
    ]
    by_hand = logits_of(other.outputs_batch([given.own.streams], edits)[0])
    torch.testing.assert_close(given.logits, by_hand, atol=1e-4, rtol=1e-4)
    assert (given.logits - given.before).abs().max() > 1e-3
    kept = sum(
        int(a.argmax() == b.argmax()) for a, b in zip(given.before, given.logits, strict=True)
    )
    assert given.n_kept == kept
    if family != "seq2seq":
        ids = [one.ids for one in run.streams.values()]
        numbers = torch.tensor(ByHand(other.model, ids, edits).logits)
        torch.testing.assert_close(given.logits.double(), numbers, atol=1e-3, rtol=1e-3)


def test_models_of_other_shapes_get_the_mean_over_heads() -> None:
    run, _, _ = pair("transformer")
    other = scope_of("seq2seq")
    given = transplant(other, run, "cross")
    assert not given.is_by_head
    sites = [site for site in run.attention.values() if site.kind == "cross"]
    every = [site.weights(head) for site in sites for head in range(site.n_heads)]
    mean = sum(every) / len(every)
    torch.testing.assert_close(mean_weights(run, "cross"), mean)
    edits = [
        SetWeights(
            Where(kind="cross", queries=(query,)),
            cells=tuple(enumerate((row / row.sum() * 0.9999999).tolist())),
        )
        for query, row in enumerate(mean.double())
    ]
    by_hand = logits_of(other.outputs_batch([given.own.streams], edits)[0])
    torch.testing.assert_close(given.logits, by_hand, atol=1e-4, rtol=1e-4)


def test_models_that_read_other_tokens_are_refused() -> None:
    run, _, _ = pair("transformer")
    with pytest.raises(ValueError, match="reads different fields"):
        transplant(scope_of("gpt"), run, "cross")
    with pytest.raises(ValueError, match="share no self attention"):
        transplant(scope_of("seq2seq"), run, "self")
    dates = models.load("dates-bahdanau", device="cpu")
    with pytest.raises(ValueError, match="into different tokens"):
        read_by(models.load("eng-fra", device="cpu"), dates.run("12 March 1999"))
    assert read_by(dates, dates.run("12 March 1999")).streams.keys() == {"source", "target"}


def test_a_seed_differs_in_the_seed_alone() -> None:
    recipe = {"steps": 10, "seed": 1}
    scope, other = (scope_of("transformer", recipe={**recipe, "seed": seed}) for seed in (1, 2))
    assert is_other_seed(scope, other)
    kept = {**recipe, "seed": 2, "snapshots": True, "patience": 0}
    assert is_other_seed(scope, scope_of("transformer", recipe=kept))
    assert not is_other_seed(scope, scope)
    assert not is_other_seed(scope, scope_of("transformer", recipe={"steps": 11, "seed": 2}))
    assert not is_other_seed(scope, scope_of("seq2seq", recipe={**recipe, "seed": 2}))
    assert not is_other_seed(scope, scope_of("transformer"))


def test_the_five_seeds_of_dates_are_known_as_such() -> None:
    dates = models.load("dates", device="cpu")
    others = [
        name for name in models.shipped() if is_other_seed(dates, models.load(name, device="cpu"))
    ]
    assert others == [f"dates-seed-{seed}" for seed in (2, 3, 4, 5)]
