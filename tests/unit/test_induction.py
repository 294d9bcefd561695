"""Induction: the scores of planted heads, and both measures by a second route."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
import torch

from models.analysis.direct_logits import logit_parts
from models.analysis.induction import (
    MAX_BETWEEN,
    MAX_REPEATED,
    MIN_JUMP,
    Jump,
    Repeats,
    find_jump,
    induction,
    is_measurable,
    repeated_texts,
)
from models.architectures.bert import BERT, BERTConfig
from models.architectures.gpt import GPT, GPTConfig
from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer

LETTERS = Tokenizer.characters("abcdefghijklmnopq")
IDS = LETTERS.encode("abcdefghijklmnopq").ids
N_HEADS = 3


def language_model(**settings) -> GPT:
    torch.manual_seed(7)
    sizes = {"d_model": 33, "n_heads": N_HEADS, "n_layers": 2, "n_ctx": 29, "dropout": 0.0}
    return GPT(GPTConfig(LETTERS.vocab_size, **sizes | settings)).eval()


def repeats_for(model: GPT, n_texts: int = 2) -> Repeats:
    return repeated_texts(IDS, model.config.n_ctx, model.config.start_id, n_texts=n_texts, seed=5)


def test_a_block_of_distinct_letters_recurs_at_every_distance():
    repeats = repeats_for(language_model(), 3)
    assert repeats.ids.shape == (3 * (MAX_BETWEEN + 1), 1 + 2 * MAX_REPEATED + MAX_BETWEEN)
    assert repeats.gaps.tolist() == [gap for gap in range(MAX_BETWEEN + 1) for _ in range(3)]
    for (start, *row), gap in zip(repeats.ids.tolist(), repeats.gaps.tolist(), strict=True):
        assert start == LETTERS.start_id
        assert row[:MAX_REPEATED] == row[MAX_REPEATED + gap : 2 * MAX_REPEATED + gap]
        assert len(set(row)) == len(row) - MAX_REPEATED
        assert set(row) <= set(IDS)
    assert len({tuple(row[: 1 + MAX_REPEATED]) for row in repeats.ids.tolist()}) > 2 * MAX_BETWEEN


@pytest.mark.parametrize(
    ("n_tokens", "n_ctx", "n", "most"),
    [(17, 29, 4, 8), (6, 29, 4, 2), (3, 29, 2, 1), (17, 12, 4, 3), (17, 6, 2, 1)],
)
def test_few_tokens_and_positions_make_shorter_texts(n_tokens, n_ctx, n, most):
    repeats = repeated_texts(IDS[:n_tokens], n_ctx, 1, n_texts=1)
    assert (repeats.n, int(repeats.gaps.max())) == (n, most)
    assert repeats.ids.shape == (most + 1, 1 + 2 * n + most)
    assert repeats.ids.shape[1] <= n_ctx


@pytest.mark.parametrize(("n_tokens", "n_ctx"), [(2, 29), (17, 5)])
def test_too_few_of_either_are_refused(n_tokens, n_ctx):
    with pytest.raises(ValueError, match=f"3 tokens and 6 positions, not {n_tokens} and {n_ctx}"):
        repeated_texts(IDS[:n_tokens], n_ctx, 1)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_both_measures_are_their_formulas(activation):
    """Weights are read cell by cell, and logits added up from the parts of each difference (direct_logits)."""
    model = language_model(activation=activation)
    for part in (model.decoder, model.embedding):  # logits large enough for rounding not to matter
        for parameter in part.parameters():
            parameter.data.mul_(2)
    repeats = repeats_for(model, 2)
    found = induction(model, repeats)
    scope = Scope(Checkpoint(Path(), model, LETTERS, {}), torch.device("cpu"))
    traces = [scope.run(LETTERS.decode(row)) for row in repeats.ids.tolist()]
    again = [second_block(trace.streams["text"].ids) for trace in traces]
    for layer in range(2):
        path = f"decoder.layers.{layer}.self_attn"
        for head in range(N_HEADS):
            cells = defaultdict(list)
            for trace, places in zip(traces, again, strict=True):
                weights = trace.attention[path].weights(head)
                for query, before in places:
                    cells[query - before] += [float(weights[query, before + 1])]
            least = min(sum(each) / len(each) for each in cells.values())
            assert len(cells) == MAX_BETWEEN + 1
            matching = float(found.prefix_matching[layer, head])
            assert matching == pytest.approx(least, rel=1e-4)
    layer, head, raised = 1, 2, []
    for trace, places in zip(traces, again, strict=True):
        tokens = trace.streams["text"].ids
        for query, before in places:
            wanted = tokens[before + 1]
            for other in set(tokens[1 : MAX_REPEATED + 1]) - {wanted}:
                parts = logit_parts(model, trace, wanted, other, query)
                raised.append(float(parts.heads[f"decoder.layers.{layer}.self_attn"][head]))
    copying = float(found.copying[layer, head])
    assert copying == pytest.approx(sum(raised) / len(raised), rel=1e-3, abs=1e-5)


def second_block(tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Return the positions of tokens that occurred before together with their successors, and where they did."""
    last = {token: i for i, token in reversed(list(enumerate(tokens)))}
    pairs = [(i, last[token]) for i, token in enumerate(tokens) if last[token] < i]
    return [(i, j) for i, j in pairs if i + 1 < len(tokens) and tokens[i + 1] == tokens[j + 1]]


@pytest.mark.parametrize("distance", [MAX_REPEATED, MAX_REPEATED + 3])
def test_a_head_that_looks_back_by_a_fixed_distance_is_no_induction_head(distance):
    """With a single period it would pass: it matches at that distance, so its mean is not 0, but at no other."""
    n_ctx = 1 + 2 * MAX_REPEATED + MAX_BETWEEN
    model = language_model(n_layers=1, n_heads=1, d_model=32, n_ctx=n_ctx)
    attention = model.decoder.layers[0].self_attn
    with torch.no_grad():
        model.embedding.weight.zero_()
        model.positions.table.copy_(torch.eye(32)[:n_ctx] * 100)
        projections = dict(attention.named_parameters())
        projections["W_K.weight"].copy_(torch.eye(32))
        projections["W_Q.weight"].zero_()
        for i in range(distance - 1, n_ctx):
            projections["W_Q.weight"][i - distance + 1, i] = 10.0
        for name, parameter in projections.items():
            if name.endswith("bias"):
                parameter.zero_()
    repeats = repeats_for(model)
    here = repeats.gaps == distance - MAX_REPEATED
    there = Repeats(repeats.ids[here], repeats.n, repeats.gaps[here])
    assert induction(model, there).score == pytest.approx(1, abs=1e-3)
    assert induction(model, repeats).score < 0.05


def test_measuring_changes_neither_the_model_nor_the_random_numbers():
    model = language_model().train()
    before, state = {n: p.clone() for n, p in model.named_parameters()}, torch.get_rng_state()
    found = induction(model, repeats_for(model))
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[n], p) for n, p in model.named_parameters())
    assert 0 < found.score < 1
    assert found.prefix_matching[found.head] == found.prefix_matching.max()


def test_other_models_are_refused():
    bert = BERT(BERTConfig(31, d_model=12, n_heads=3, n_layers=1, n_ctx=29, dropout=0.0))
    for model in (bert, language_model(norm="post")):
        assert not is_measurable(model)
        with pytest.raises(ValueError, match="pre-norm language model"):
            induction(model, repeats_for(language_model()))


def test_a_jump_is_the_shortest_stretch_with_half_of_the_rise():
    scores = {0: 0.05, 100: 0.07, 200: 0.11, 300: 0.71, 400: 0.92, 500: 0.9}
    assert find_jump(scores) == Jump(200, 300, 0.71 - 0.11)
    assert find_jump(dict(reversed(scores.items()))) == find_jump(scores)
    assert find_jump({step: -score for step, score in scores.items()}) is None  # it only falls
    assert find_jump({0: 0.05, 100: 0.14, 200: 0.2}) is None
    assert find_jump({0: 0.3}) is find_jump({}) is None


@pytest.mark.parametrize("every", [1, 7, 20])
def test_a_jump_is_found_however_close_the_steps_are(every):
    curve = {step: 0.1 + 0.8 / (1 + math.exp((300 - step) / 20)) for step in range(0, 601, every)}
    found = find_jump(curve)
    assert found.before < 300 < found.after
    assert found.after - found.before <= 60
    assert found.rise == pytest.approx(curve[found.after] - curve[found.before])
    assert found.rise >= 0.4


def test_a_jump_is_the_best_of_all_pairs_of_steps():
    rng = Random(5)
    for _ in range(200):
        scores = {step: rng.random() for step in rng.sample(range(99), rng.randint(2, 20))}
        pairs = [Jump(a, b, scores[b] - scores[a]) for a, b in combinations(sorted(scores), 2)]
        whole = max(each.rise for each in pairs)
        enough = [each for each in pairs if each.rise >= whole / 2]
        best = min(enough, key=lambda each: (each.after - each.before, -each.rise), default=None)
        assert find_jump(scores) == (best if whole >= MIN_JUMP else None)


def test_a_jump_in_a_long_record_of_others_is_found_at_once():
    """200,000 steps have 2 · 10¹⁰ pairs."""
    scores = {step: 0.5 * (step >= 150_000) for step in range(200_000)}
    assert find_jump(scores) == Jump(149_999, 150_000, 0.5)
