"""Rows that sum to less than 1 because their library gives a part to a sink (gpt-oss): sentences, checks, merged words."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hub_models import BY_NAME, library_tokenizer

import models
from models.analysis.comparison import OUTSIDE, WORDS, Axis, _over, compare, row_distances
from models.analysis.joined_words import join_words
from models.trace import Trace
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.compare.payloads import CompareChoices, compare_payloads
from viz_app.views.task.presentations import task_payloads
from viz_app.views.task.reading import TaskChoices


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CurrentRun:
    case, folder = BY_NAME["GptOssForCausalLM"], tmp_path_factory.mktemp("sink")
    replace(case, sizes=case.sizes | {"vocab_size": 97}).save(folder)
    library_tokenizer(folder, 89)
    scope = models.load(folder, device="cpu")
    return CurrentRun(scope, scope.run("She is reading"))


@pytest.fixture
def trace(run: CurrentRun) -> Trace:
    return run.trace


@pytest.mark.slow
def test_a_row_is_said_to_add_up_to_1_only_if_all_of_it_is_shown(
    trace: Trace, hub_scope: Callable[[str], models.Scope]
) -> None:
    for site in trace.attention.values():
        sums = site.weights().sum(-1)
        assert 0 < sums.min() < 0.9
        said = words.how_to_read(site)
        assert "add up to at most 1. Some rows leave part of their weight to no token" in said
    whole = hub_scope("BertForMaskedLM").run("3 4 5")
    for site in whole.attention.values():
        assert "they add up to 1." in words.how_to_read(site)


def test_no_check_of_the_page_task_fails(run: CurrentRun) -> None:
    checks = task_payloads(run, TaskChoices(None, Focus()))["checks"]["rows"]
    assert not [told for style, told in checks if style == "failed"]
    assert ["passed", "✓ the attention row sums to at most 1"] in checks


def test_a_words_row_is_the_mean_of_its_tokens_rows(trace: Trace) -> None:
    """Recomputed by hand: no row counts less because a part of it goes to the sink."""
    joined = join_words(trace)
    for name, site in joined.attention.items():
        tokens, starts = (
            trace.attention[name].weights(),
            [*site.rows, trace.attention[name].n_query],
        )
        assert len(site.rows) < trace.attention[name].n_query
        rows = list(pairwise(starts))
        means = torch.stack([tokens[:, first:end].mean(1) for first, end in rows], 1)
        wanted = torch.stack([means[..., first:end].sum(-1) for first, end in rows], -1)
        torch.testing.assert_close(site.weights(), wanted)
        assert site.weights().sum(-1).max() < 1 + 1e-5


def test_words_of_two_runs_are_means_over_rows_that_may_attend_to_something() -> None:
    weights = torch.tensor([[[0.3, 0.0, 0.1], [0.2, 0.0, 0.0], [0.0, 0.0, 0.0], [0.1, 0.2, 0.6]]])
    queries = Axis(WORDS, 2, ((0, 0, 1, 1), (0, 1)))
    keys = Axis(WORDS, 2, ((0, 0, OUTSIDE), (0, 1)))
    found = _over(weights, 0, queries, keys)
    torch.testing.assert_close(found, torch.tensor([[[0.25, 0.0, 0.05], [0.3, 0.0, 0.6]]]))


def test_the_sink_counts_as_one_more_key(run: CurrentRun) -> None:
    """Computed by hand over the keys and the sink, for rows that differ in nothing else and for those of a run."""
    p, q = torch.tensor([[0.5, 0.2]]), torch.tensor([[0.1, 0.1]])  # 0.3 and 0.8 go to the sink
    assert float(row_distances(p, q)) == pytest.approx(bits([0.5, 0.2, 0.3], [0.1, 0.1, 0.8]))
    assert float(row_distances(p, p)) == 0
    whole = torch.arange(7.0).softmax(0)
    even = torch.full_like(whole, 1 / 7)
    assert float(row_distances(whole[None], even[None])) == pytest.approx(
        bits(whole.tolist(), even.tolist())
    )
    first, second = run.trace, run.scope.run("She is hearing")
    pair = compare(first, second).kinds[0]
    sites = [trace.attention[pair.first[0].name] for trace in (first, second)]
    rows = [site.weights(1)[2].double() for site in sites]
    by_hand = bits(*([*row.tolist(), 1 - float(row.sum())] for row in rows))
    assert float(pair.rows(0, 1)[2]) == pytest.approx(by_hand, abs=1e-6)


@pytest.mark.parametrize("name", ["sink", "gpt"])
def test_a_comparison_names_the_sink_where_there_is_one(run: CurrentRun, name: str) -> None:
    if name != "sink":
        scope = models.load(name, device="cpu")
        run = CurrentRun(scope, scope.run("She is reading"))
    drawn = compare_payloads(run, CompareChoices(None, Focus(), None))
    header, _ = unpack(drawn["difference"])
    assert ("counts as one more key" in header["how"]) == (name == "sink")
    assert "failed" not in [look for look, _ in drawn["checks"]["rows"]]


def bits(p: list[float], q: list[float]) -> float:
    """Return the Jensen-Shannon divergence from its definition by Kullback–Leibler divergences."""
    half = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return sum(
        a * math.log2(a / m) / 2 for row in (p, q) for a, m in zip(row, half, strict=True) if a
    )
