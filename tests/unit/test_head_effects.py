"""All heads in one batch, against one run per head; and heads made necessary or idle by hand."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from small import random_gpt
from small_scopes import LETTERS, MAKERS, as_scope, fields, scope_of

from models.analysis import (
    Divergence,
    LogitDifference,
    LogProbability,
    Loss,
    Metric,
    best_offset,
    cell_effects,
    head_effects,
)
from models.analysis.effects import HeadEffects
from models.analysis.metrics import logits_of
from models.runs.scope import Scope
from models.trace.edits import HeadOff, HeadScale, Patch, SetWeights, Where

TEXT = "ab cd ef"
METRICS = [LogProbability(5), LogitDifference(5, 6, 0), Divergence(), Divergence(-1)]


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    return {family: scope_of(family, task="mlm") for family in MAKERS}


def text_of(scope: Scope) -> tuple[str, ...]:
    """Return a text for which the model has something to answer."""
    masked = scope.tokenizer.mask_id is not None
    return ("ab [MASK] ef",) if masked else fields(scope, TEXT)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("family", MAKERS)
@pytest.mark.parametrize(
    "make", [HeadOff, partial(HeadOff, baseline="uniform"), partial(HeadScale, factor=-1.0)]
)
def test_every_head_of_the_batch_equals_an_edited_run(scopes, family, make):
    scope = scopes[family]
    texts = text_of(scope)
    run, largest = scope.run(*texts), 0.0
    for metric in METRICS:
        effects = head_effects(scope, run, metric, make)
        assert set(effects.values) == {site.kind for site in run.attention.values()}
        for kind, paths in effects.sites.items():
            for layer, path in enumerate(paths):
                assert run.attention[path].layer == layer
                for head in range(run.attention[path].n_heads):
                    edit = make(Where(site=path, heads=(head,)))
                    assert effects.edits[path, head] == edit
                    alone = scope.run(*texts, edits=[edit])
                    wanted = metric(logits_of(run.outputs), logits_of(alone.outputs))
                    torch.testing.assert_close(
                        effects.values[kind][layer, head], wanted, atol=1e-4, rtol=1e-3
                    )
        largest = max(largest, *(float(values.abs().max()) for values in effects.values.values()))
    assert largest > 1e-3


def test_a_head_that_a_layer_lacks_has_no_effect_and_layers_are_in_order():
    sites = [SimpleNamespace(kind="self", name=f"layers.{i}", layer=i) for i in (10, 2)]
    found = {("layers.10", 0): 1.0, ("layers.2", 0): 2.0, ("layers.2", 1): 3.0}
    by_head = {place: torch.tensor(effect) for place, effect in found.items()}
    effects = HeadEffects.of(by_head, sites, LogProbability(5))
    assert effects.sites == {"self": ("layers.2", "layers.10")}
    wanted = torch.tensor([[2.0, 3.0], [1.0, torch.nan]])
    torch.testing.assert_close(effects.values["self"], wanted, equal_nan=True)


def test_the_edits_of_the_run_stay_in_force(scopes):
    scope, off = scopes["gpt"], HeadOff("decoder.layers.0.self_attn", head=1)
    run = scope.run("abcdef", edits=[off])
    effects = head_effects(scope, run, LogProbability(5)).values["self"]
    assert float(effects[0, 1]) == pytest.approx(0, abs=1e-5)
    both = scope.run("abcdef", edits=[off, HeadOff("decoder.layers.1.self_attn", head=2)])
    change = both.next_token.log_probs[-1, 5] - run.next_token.log_probs[-1, 5]
    torch.testing.assert_close(effects[1, 2], change, atol=1e-5, rtol=1e-4)


def test_a_pass_that_is_too_large_is_split(scopes, monkeypatch):
    scope = scopes["transformer"]
    run = scope.run(*fields(scope, TEXT))
    whole = head_effects(scope, run, Divergence())
    monkeypatch.setattr("models.analysis.effects.MAX_BATCH_LOGITS", 2 * 11 * 9)
    for kind, values in head_effects(scope, run, Divergence()).values.items():
        torch.testing.assert_close(values, whole.values[kind], atol=1e-5, rtol=1e-4)


def test_cells_patched_from_another_run(scopes):
    scope = scopes["gpt"]
    run, other = scope.run("abcdef"), scope.run("abgdef")
    names = [f"decoder.layers.{layer}.resid_pre" for layer in range(2)]
    effects = cell_effects(scope, run, LogProbability(5), other, names)
    assert effects.shape == (2, 7)
    whole = other.next_token.log_probs[-1, 5] - run.next_token.log_probs[-1, 5]
    assert torch.equal(effects[0] != 0, torch.tensor([i == 3 for i in range(7)]))  # after <s> a b
    torch.testing.assert_close(effects[0, 3], whole, atol=1e-5, rtol=1e-4)
    assert not effects[1, :3].any()
    assert effects[1, 3:].all()


def planted() -> Scope:
    """A GPT in which only head 1 of layer 0 adds anything: W_O of the other heads and the feed-forward layers are 0."""
    model = random_gpt(vocab_size=LETTERS.vocab_size)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "W_O" in name or "W_2" in name:
                kept = parameter.clone()
                parameter.zero_()
                if name == "decoder.layers.0.self_attn.W_O.weight":
                    parameter[:, 5:10] = kept[:, 5:10]
    return as_scope(model, LETTERS, "planted")


@pytest.mark.parametrize("baseline", ["zero", "uniform", "mean", "resample", "offset"])
def test_a_head_made_necessary_is_found_and_idle_ones_are_not(baseline):
    scope = planted()
    run = scope.run("abcdef")
    make = partial(HeadOff, baseline=baseline)
    for metric in (LogitDifference(5, 6), LogitDifference(7, 4, 4), Divergence()):
        effects = head_effects(scope, run, metric, make).values["self"]
        found = effects.abs().amax(-1) if effects.ndim == 3 else effects.abs()
        assert found[0, 1] > 1e-3
        found[0, 1] = 0
        assert found.max() < 1e-6


def test_uniform_weights_never_see_the_future(scopes):
    scope, off = scopes["gpt"], HeadOff(baseline="uniform")
    a, b = (scope.run(text, edits=[off]) for text in ("abcdef", "abcdgg"))
    torch.testing.assert_close(a.next_token.logits[:5], b.next_token.logits[:5])
    for site in a.attention.values():
        n = torch.arange(1, site.n_query + 1)[:, None]
        wanted = torch.ones(site.n_query, site.n_key).tril() / n
        for head in range(site.n_heads):
            torch.testing.assert_close(site.weights(head), wanted)


def test_the_best_offset_of_a_head(scopes):
    scope, name = scopes["gpt"], "decoder.layers.0.self_attn"
    previous = scope.run("abcdef", edits=[HeadOff(name, head=1, baseline="offset", offset=-1)])
    site = previous.attention[name]
    assert site.weights(1).argmax(-1).tolist() == [0, 0, 1, 2, 3, 4, 5]
    offset, weight = best_offset(site, 1)
    assert offset == -1
    assert weight == pytest.approx(6 / 7)


def test_the_best_offset_of_a_cross_head_by_hand(scopes):
    """It is a mean over queries, whose number differs from that of keys; of equal sums the nearest offset wins."""
    scope = scopes["transformer"]
    name = "decoder.layers.0.cross_attn"
    site = scope.run(*fields(scope, "ab cd ef", "ba")).attention[name]
    assert site.n_query != site.n_key
    for head in range(site.n_heads):
        weights, sums = site.weights(head).tolist(), {}
        for query, row in enumerate(weights):
            for key, weight in enumerate(row):
                sums[key - query] = sums.get(key - query, 0.0) + weight
        found = best_offset(site, head)
        assert found.weight == pytest.approx(max(sums.values()) / site.n_query, abs=1e-6)
        assert sums[found.offset] == pytest.approx(max(sums.values()), abs=1e-6)
    edits = [
        SetWeights(Where(site=name, heads=(0,), queries=(query,)), cells=((key, 1.0),))
        for query, key in enumerate((1, 3, 0))  # offsets 1, 2 and −2
    ]
    site = scope.run(*fields(scope, "ab cd ef", "ba"), edits=edits).attention[name]
    assert site.n_query == 3
    assert best_offset(site, 0).offset == 1


def test_metrics_by_hand():
    before, after = (
        torch.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 1.0]]),
        torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 1.0]]),
    )
    p, q = before.softmax(-1), after.softmax(-1)
    assert float(LogProbability(1, 0)(before, after)) == pytest.approx(float((q / p).log()[0, 1]))
    assert float(LogitDifference(1, 0, 0)(before, after)) == -2
    assert float(LogitDifference(1, 2)(before, after)) == 1
    wanted = (p * (p / q).log()).sum(-1)
    torch.testing.assert_close(Divergence()(before, after), wanted)
    torch.testing.assert_close(Divergence(1)(before, after), wanted[1])
    both = (p / q).log()[[0, 1], [1, 2]].mean()
    torch.testing.assert_close(Loss((1, 2))(before, after), both)
    metrics: list[Metric] = [*METRICS, Loss((1,))]
    assert all(metric.name and metric.unit for metric in metrics)


def test_noising_and_denoising_of_heads(scopes):
    """Heads are patched from another run, in both directions."""
    scope = scopes["gpt"]
    clean, other = scope.run("abcdef"), scope.run("abgdef")
    metric = LogitDifference(5, 6)
    for run, source in ((clean, other), (other, clean)):
        effects = head_effects(scope, run, metric, partial(Patch, from_run=source)).values["self"]
        alone = scope.run(
            run.fields["text"], edits=[Patch("decoder.layers.1.self_attn", head=0, from_run=source)]
        )
        wanted = metric(run.next_token.logits, alone.next_token.logits)
        torch.testing.assert_close(effects[1, 0], wanted, atol=1e-5, rtol=1e-4)
