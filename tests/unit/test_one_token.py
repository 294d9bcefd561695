"""The memory layout for generating: the same results, always from the current weights."""

import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from jaxtyping import Float
from small import random_attention_only, random_gpt, random_ids, random_model, random_seq2seq

from models.decoding import greedy
from models.decoding.incremental import Incremental
from models.decoding.one_token import column_major, for_single_token
from models.layers.attention import MultiHeadAttention
from models.layers.similarity import SIMILARITIES
from models.trace import record
from models.trace.edits import HeadOff

MODELS = [random_model, random_gpt, random_seq2seq, random_attention_only]


def test_in_columns_a_matrix_is_equal_with_other_strides():
    for shape, stride in (((7, 5), (1, 7)), ((5, 5), (1, 5)), ((3, 5), (5, 1))):
        matrix = torch.randn(shape)
        assert column_major(matrix).equal(matrix)
        assert column_major(matrix).stride() == stride  # a wide matrix is read row by row


@pytest.mark.parametrize("make", MODELS)
def test_a_laid_out_model_is_the_same_model(make):
    model = make()
    laid_out = for_single_token(model)
    assert laid_out is not model
    assert for_single_token(model) is laid_out
    for (name, own), (other, copied) in zip(
        model.named_parameters(), laid_out.named_parameters(), strict=True
    ):
        assert (name, own.shape) == (other, copied.shape)
        assert torch.equal(own, copied)
        assert own.is_contiguous()
    assert laid_out.embedding.weight.stride() == (1, model.config.vocab_size)
    assert [getattr(m, "path", "") for m in laid_out.modules()] == [
        getattr(m, "path", "") for m in model.modules()
    ]


@pytest.mark.parametrize("make", MODELS)
def test_it_uses_the_current_weights(make):
    model, given = make(), random_ids(1, 5)[0].tolist()

    def log_probs(**how: bool) -> torch.Tensor:
        return torch.stack([s.log_probs for s in greedy(model, given, max_new=9, **how)])

    before = log_probs()
    torch.testing.assert_close(before, log_probs(use_cache=False), atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.mul_(-0.7)
    after = log_probs()
    torch.testing.assert_close(after, log_probs(use_cache=False), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(after[0], before[0])
    model.load_state_dict(make(seed=2).state_dict())
    torch.testing.assert_close(log_probs(), log_probs(use_cache=False), atol=1e-4, rtol=1e-4)
    assert for_single_token(model.train()).training


SETTINGS = [
    (random_model, {"norm": "pre"}),
    *((random_model, {"similarity": name}) for name in SIMILARITIES),
    (random_gpt, {}),
    (random_gpt, {"norm": "pre", "activation": "gelu tanh"}),
]


@pytest.mark.parametrize(("make", "settings"), SETTINGS)
def test_the_fast_path_of_a_step_equals_the_layers(make, settings, monkeypatch):
    """This holds after a <pad> in the source or among the tokens, too; the fast path calls no module of a layer."""
    model = make(**settings)
    pad = model.config.pad_id
    given = torch.tensor([[5, 7, pad, 6, 4]])
    calls = []
    forward = MultiHeadAttention.forward

    def counted(*args: object) -> Float[torch.Tensor, "..."]:
        calls.append(args)
        return forward(*args)

    monkeypatch.setattr(MultiHeadAttention, "forward", counted)
    for written in ([4, 6, 5, 3, 7], [4, pad, 5, 3, 7]):
        short, long = Incremental(model, given), Incremental(model, given)
        long.one_token = model
        row = short.opening
        for token in written:
            expected = long.next_log_probs(row)
            calls.clear()
            found = short.next_log_probs(row)
            assert bool(calls) == (
                row.shape[1] == short.opening.shape[1]
            )  # the first step fills the cache
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            row = torch.cat([row, torch.tensor([[token]])], dim=1)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("edited", [False, True])
def test_recording_and_editing_use_the_layers_themselves(recorded, edited):
    model, given = random_model(), random_ids(1, 5)
    edits = (HeadOff("decoder.layers.0.self_attn", head=1, baseline="zero"),) if edited else ()
    run, plain, unedited = (Incremental(model, given, edits=e) for e in (edits, edits, ()))
    plain.one_token = unedited.one_token = model
    for row in (run.opening, torch.cat([run.opening, torch.tensor([[5]])], dim=1)):
        with record() if recorded else nullcontext() as recording:
            found = run.next_log_probs(row)
        torch.testing.assert_close(found, plain.next_log_probs(row), atol=1e-5, rtol=1e-5)
        assert torch.allclose(found, unedited.next_log_probs(row), atol=1e-4) != edited
        if recording is not None:
            assert {"decoder.layers.1.self_attn", "decoder.layers.1.cross_attn"} <= {
                *recording.attention
            }


def test_it_is_released_with_its_model():
    model = random_gpt()
    laid_out = weakref.ref(for_single_token(model))
    assert laid_out() is not None
    del model
    gc.collect()
    assert laid_out() is None
