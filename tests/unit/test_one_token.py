"""The layout that a model is written with: the same numbers, and always those of the weights as they are."""

import gc
import weakref

import pytest
import torch
from small import random_attention_only, random_gpt, random_ids, random_model, random_seq2seq

from models.decoding import greedy
from models.decoding.one_token import for_one_token, in_columns

MODELS = [random_model, random_gpt, random_seq2seq, random_attention_only]


def test_in_columns_a_matrix_is_the_same_but_lies_otherwise():
    for shape, stride in (((7, 5), (1, 7)), ((5, 5), (1, 5)), ((3, 5), (5, 1))):
        matrix = torch.randn(shape)
        assert in_columns(matrix).equal(matrix)
        assert in_columns(matrix).stride() == stride  # a wide one is read row by row


@pytest.mark.parametrize("make", MODELS)
def test_a_laid_out_model_is_the_same_model(make):
    model = make()
    laid_out = for_one_token(model)
    assert laid_out is not model
    assert for_one_token(model) is laid_out
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
def test_it_writes_what_the_weights_say_now(make):
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
    assert for_one_token(model.train()).training


def test_it_goes_with_its_model():
    model = random_gpt()
    laid_out = weakref.ref(for_one_token(model))
    assert laid_out() is not None
    del model
    gc.collect()
    assert laid_out() is None
