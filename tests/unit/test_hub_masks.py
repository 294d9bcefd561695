"""Tensors added to scores in other libraries' models: a bias, however strong, or a mask in any of its usual forms."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from drawn import letters
from torch import Tensor

import models
from models.hub.recording.masks import BiasTerm, as_attn_mask, explain_mask
from models.layers.masks import LOOK_AHEAD, PADDING, Mask
from models.trace import DistanceTerm
from models.trace.run import _BatchRow
from viz_app import words
from viz_app.views.inside.cell import WeightCell, cell_stages

TERMS = words.terms("translation")

CPU = torch.device("cpu")
N, HEADS = 7, 3
SLOPES = torch.tensor(
    [0.7, 0.031, 1000.0]
)  # of ALiBi, and one so steep that 6 tokens act like 6,000
DISTANCE = torch.arange(N)[None] - torch.arange(N)[:, None]  # for keys after the query
BEHIND = DISTANCE <= 0


def alibi() -> Tensor:
    """Return (1, head, query, key): lower the further away a key is, down to −6,000."""
    return -(SLOPES[:, None, None] * DISTANCE.abs())[None]


def forbidding(value: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 1, N, N, dtype=dtype).masked_fill(~BEHIND, value)


def weights(added: Tensor, scores: Tensor) -> Tensor:
    return (scores + added.float()).softmax(-1)


@pytest.mark.parametrize("value", [-1e4, -1e9, -torch.inf, torch.finfo(torch.float32).min])
def test_a_strong_bias_is_told_from_a_mask(value: float) -> None:
    """Every cell is recomputed from scores to which the tensor is added unchanged."""
    given, scores = alibi() + forbidding(value), torch.randn(HEADS, N, N)
    found = explain_mask(given, False, N, N, None, CPU)
    assert [layer.name for layer in found.mask.layers] == [LOOK_AHEAD]
    assert torch.equal(found.mask.expanded(0, 0, N, N), BEHIND)
    (term,) = found.terms
    added = term.scores(None, torch.arange(N), N)
    torch.testing.assert_close(added[:, BEHIND], alibi()[0][:, BEHIND])
    shown = (scores + added).masked_fill(~BEHIND, -torch.inf).softmax(-1)
    torch.testing.assert_close(shown, weights(given, scores)[0])


@pytest.mark.parametrize("k", range(1, 4))
def test_each_layer_of_a_mask_is_named_by_what_it_blocks(k: int) -> None:
    window, holds_token = DISTANCE.abs() <= k, torch.arange(N) < N - 2
    for mask, names in (
        (window, [f"window of {k}"]),
        (window & BEHIND, [LOOK_AHEAD, f"window of {k}"]),
        (BEHIND & holds_token, [PADDING, LOOK_AHEAD]),
    ):
        found = explain_mask(mask[None, None], False, N, N, None, CPU).mask
        assert [layer.name for layer in found.layers] == names
        assert torch.equal(found.expanded(0, 0, N, N), mask)


def test_a_bias_alone_blocks_nothing() -> None:
    for given in (alibi(), alibi()[:, :1], -alibi(), alibi()[:, 2:]):
        found = explain_mask(given, False, N, N, None, CPU)
        assert found.mask.layers == ()
        torch.testing.assert_close(found.terms[0].scores(0, torch.arange(N), N), given[0, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [-1e4, None, -torch.inf])
def test_a_mask_is_recognised_in_every_dtype(value: float | None, dtype: torch.dtype) -> None:
    """In bfloat16, −10,000 becomes −9,984; a small bias on top raises it further."""
    lowest = torch.finfo(dtype).min if value is None else value
    for bias in (0.0, 5.0):
        given = forbidding(lowest, dtype) + torch.full((1, HEADS, 1, 1), bias, dtype=dtype)
        found = explain_mask(given, False, N, N, None, CPU)
        assert [layer.name for layer in found.mask.layers] == [LOOK_AHEAD]
        assert torch.equal(found.mask.expanded(0, 0, N, N), BEHIND)
        assert len(found.terms) == (bias != 0)
        for term in found.terms:
            assert (term.scores(None, torch.arange(N), N)[:, BEHIND] == bias).all()


def test_beyond_the_open_distances_a_bias_keeps_its_end_values() -> None:
    """The open cells are a band, −3 … 1; the bias outside it counts once the mask is lifted."""
    table = torch.randn(HEADS, 2 * N - 1)
    allowed = (DISTANCE >= -3) & (DISTANCE <= 1)
    given = table[:, DISTANCE + N - 1].masked_fill(~allowed, -torch.inf)[None]
    (term,) = explain_mask(given, False, N, N, None, CPU).terms
    assert isinstance(term, DistanceTerm)
    held = table[:, DISTANCE.clamp(-3, 1) + N - 1]
    torch.testing.assert_close(term.scores(None, torch.arange(N), N), held)
    torch.testing.assert_close(term.scores(1, torch.tensor([5, 2]), N), held[1, [5, 2]])
    lifted = as_attn_mask(Mask(), (term,), N, N, torch.float32)
    torch.testing.assert_close(lifted[0], held)
    later = as_attn_mask(Mask(), (term,), 2, N, torch.float32)  # the last two queries of a cache
    torch.testing.assert_close(later[0], held[:, -2:])
    (cached,) = explain_mask(given[:, :, -2:], False, 2, N, None, CPU).terms
    is_open, found = allowed[-2:], cached.scores(None, torch.arange(N - 2, N), N)
    torch.testing.assert_close(found[:, is_open], held[:, -2:][:, is_open])


def test_a_bias_is_kept_for_every_row_head_and_query_of_its_own() -> None:
    """It differs in each row of a batch and in each head; the two queries come after five in a cache."""
    for shape in ((2, HEADS, N, N), (2, 1, N, N), (1, HEADS, 1, N), (2, HEADS, 2, N)):
        given = torch.randn(shape)
        n_query = shape[2]
        (term,) = explain_mask(given, False, n_query, N, None, CPU).terms
        queries = torch.arange(N)[-n_query:]
        for batch in range(2):
            whole = given[min(batch, len(given) - 1)]
            added = term.scores(None, queries, N, batch)
            torch.testing.assert_close(added, whole)
            for head in range(HEADS):
                one = term.scores(head, queries[-1:], N, batch)
                torch.testing.assert_close(one, whole[min(head, len(whole) - 1)][-1:])


def test_what_one_head_may_read_is_neither_padding_nor_closed_to_a_bias() -> None:
    """No query reads the last key. Head 0 reads its neighbours alone, head 1 does not read key 4; the bias by distance is shared."""
    allowed = torch.ones(1, HEADS, N, N, dtype=torch.bool)
    allowed[0, 0] = DISTANCE.abs() <= 1
    allowed[0, 1, :, 4] = False
    allowed[..., N - 1] = False
    found = explain_mask(allowed, False, N, N, None, CPU)
    (padding,) = (layer.allowed for layer in found.mask.layers if layer.name == PADDING)
    assert padding.flatten().tolist() == [True] * (N - 1) + [False]
    other = alibi()
    other[0, 1, 5, 0] = 3.5  # unlike any other cell at this distance
    for bias, kind in ((alibi(), DistanceTerm), (other, BiasTerm)):
        found = explain_mask(bias.masked_fill(~allowed, -torch.inf), False, N, N, None, CPU)
        (term,) = found.terms
        assert type(term) is kind
        for head in range(HEADS):
            may = allowed[0, head]
            assert torch.equal(found.mask.expanded(0, head, N, N), may)
            added = term.scores(head, torch.arange(N), N)
            torch.testing.assert_close(added[may], bias[0, head][may])


@pytest.mark.parametrize("n_query", [1, N])
def test_a_bias_of_a_batch_is_cut_to_the_row_and_its_length(n_query: int) -> None:
    """Runs of a batch cut it: values differ from row to row, and end with padding."""
    values, n = torch.randn(2, HEADS, n_query, N), N - 2
    for row in range(2):
        cut = _BatchRow(row, {"text": ("x",) * n})
        term = BiasTerm("bias", values).map_tensors(
            lambda t, axis, cut=cut: cut.per_token(t, "text", axis), cut.shared
        )
        wanted = values[row].expand(-1, N, -1)[:, :n, :n]
        torch.testing.assert_close(term.scores(None, torch.arange(n), n), wanted)
        torch.testing.assert_close(term.scores(1, torch.tensor([2]), n), wanted[1, 2:3])


def test_texts_of_a_batch_under_a_bias_by_position_equal_those_run_alone(tmp_path: Path) -> None:
    """Falcon adds ALiBi by the key's own position, so it is no term by distance."""
    config = transformers.FalconConfig(
        vocab_size=97, hidden_size=24, num_attention_heads=3, num_hidden_layers=2, alibi=True,
        multi_query=False, parallel_attn=False,
    )  # fmt: skip
    torch.manual_seed(1)
    transformers.FalconForCausalLM(config).save_pretrained(tmp_path)
    scope, texts = models.load(tmp_path, device="cpu"), ["3 4 5", "7 8 9 10 11 12"]
    for trace, text in zip(scope.run_each([[text] for text in texts]), texts, strict=True):
        for name, site in scope.run(text).attention.items():
            assert isinstance(site.terms[0], BiasTerm)
            torch.testing.assert_close(trace.attention[name].weights(), site.weights())


@pytest.mark.parametrize("by_distance", [True, False])
def test_the_walk_speaks_of_distance_only_where_the_bias_is_one_of_distance(
    by_distance: bool,
) -> None:
    trace = letters().run("abcde", "edc")
    site = trace.attention["encoder.layers.0.self_attn"]
    n = site.n_query
    table = torch.randn(HEADS, n, n)
    if by_distance:
        table = table[:, 0, (torch.arange(n)[None] - torch.arange(n)[:, None]).abs()]
    (term,) = explain_mask(table[None], False, n, n, None, CPU).terms
    cell = WeightCell(replace(site, terms=(term,)), 1, 2, 4)
    (told,) = (s for s in cell_stages(trace, cell, TERMS) if s.name == term.name)
    added = f"{float(table[1, 2, 4]):.2f}".replace("-", "−")
    assert told.sentence.endswith(f"adds {added}.")
    assert ("distance" in told.title) == by_distance
    assert ("only on their distance" in told.sentence) == by_distance
    assert ("j−i" in told.formula) == by_distance
