"""Induction: the score of planted heads, and both measures by a second route."""

from pathlib import Path

import pytest
import torch

from models.analysis.direct_logits import logit_parts
from models.analysis.induction import BLOCK, Jump, induction, is_measurable, jump, repeated
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


def texts_for(model: GPT, n_texts: int = 3) -> torch.Tensor:
    return repeated(IDS, model.config.n_ctx, model.config.start_id, n_texts=n_texts, seed=5)


def test_texts_are_distinct_letters_twice():
    texts = texts_for(language_model(), 11)
    assert texts.shape == (11, 1 + 2 * BLOCK)
    for start, *row in texts.tolist():
        assert start == LETTERS.start_id
        assert row[:BLOCK] == row[BLOCK:]
        assert len(set(row)) == BLOCK
        assert set(row) <= set(IDS)
    assert len({tuple(row) for row in texts.tolist()}) == 11
    assert repeated(IDS[:3], 29, 1).shape == (16, 7)  # no more letters
    assert repeated(IDS, 8, 1).shape == (16, 7)  # no more positions
    with pytest.raises(ValueError, match="needs 2 tokens and 5 positions, not 17 and 4"):
        repeated(IDS, 4, 1)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_both_measures_are_their_formulas(activation):
    """Weights read cell by cell; logits from the parts of each difference (direct_logits)."""
    model = language_model(activation=activation)
    for part in (model.decoder, model.embedding):  # logits of a size that rounding does not reach
        for parameter in part.parameters():
            parameter.data.mul_(2)
    texts = texts_for(model, 2)
    found = induction(model, texts)
    n = BLOCK
    scope = Scope(Checkpoint(Path(), model, LETTERS, {}), torch.device("cpu"))
    traces = [scope.run(LETTERS.decode(row)) for row in texts.tolist()]
    for layer in range(2):
        path = f"decoder.layers.{layer}.self_attn"
        for head in range(N_HEADS):
            cells = []
            for trace in traces:
                tokens, weights = trace.streams["text"].ids, trace.attention[path].weights(head)
                for i in range(n + 1, 2 * n + 1):
                    last = max(j for j in range(i) if tokens[j] == tokens[i])
                    cells.append(float(weights[i, last + 1]))
            matching = float(found.prefix_matching[layer, head])
            assert matching == pytest.approx(sum(cells) / len(cells), rel=1e-4)
    layer, head, raised = 1, 2, []
    for trace in traces:
        tokens = trace.streams["text"].ids
        for i in range(n + 1, 2 * n + 1):
            wanted = tokens[i - n + 1]
            for other in set(tokens[1 : n + 1]) - {wanted}:
                parts = logit_parts(model, trace, wanted, other, i)
                raised.append(float(parts.heads[f"decoder.layers.{layer}.self_attn"][head]))
    copying = float(found.copying[layer, head])
    assert copying == pytest.approx(sum(raised) / len(raised), rel=1e-3, abs=1e-5)


def test_a_head_that_looks_back_by_one_distance_matches_only_at_that_distance():
    """The trap of one period: such a head is no induction head, and scores 0 elsewhere."""
    model = language_model(n_layers=1, n_heads=1, d_model=32, n_ctx=2 * BLOCK + 1)
    attention, n = model.decoder.layers[0].self_attn, BLOCK
    with torch.no_grad():
        model.embedding.weight.zero_()
        model.positions.table.copy_(torch.eye(32)[: 2 * n + 1] * 100)
        projections = dict(attention.named_parameters())
        projections["W_K.weight"].copy_(torch.eye(32))
        projections["W_Q.weight"].zero_()
        for i in range(n - 1, 2 * n + 1):
            projections["W_Q.weight"][i - n + 1, i] = 10.0
        for name, parameter in projections.items():
            if name.endswith("bias"):
                parameter.zero_()
    texts = texts_for(model)
    assert induction(model, texts).score == pytest.approx(1, abs=1e-3)
    shorter = torch.cat([texts[:, :n], texts[:, 1:n]], dim=1)  # blocks of one letter less
    assert induction(model, shorter).score < 0.05


def test_measuring_changes_neither_the_model_nor_the_random_numbers():
    model = language_model().train()
    before, state = {n: p.clone() for n, p in model.named_parameters()}, torch.get_rng_state()
    found = induction(model, texts_for(model))
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
            induction(model, texts_for(language_model()))


def test_a_jump_is_the_largest_rise_between_two_steps():
    scores = {0: 0.05, 100: 0.07, 200: 0.11, 300: 0.71, 400: 0.92, 500: 0.9}
    assert jump(scores) == Jump(200, 300, 0.71 - 0.11)
    assert jump(dict(reversed(scores.items()))) == jump(scores)
    assert jump({step: -score for step, score in scores.items()}) is None  # it only falls
    assert jump({0: 0.05, 100: 0.14, 200: 0.2}) is None
    assert jump({0: 0.3}) is jump({}) is None
