"""Measures of a model in training run without dropout, and leave it in training mode however they end."""

import pytest
import torch
from small import random_gpt, random_model

from models.analysis.induction import induction, repeated_texts
from models.tokenizers.base import Tokenizer
from models.training.evaluation import hypotheses
from models.training.likelihood import likelihoods
from models.training.task import Case, Passage


class Stopped(Exception):
    """An error in the middle of a measure."""


def stop(*_: object) -> None:
    raise Stopped


def test_a_likelihood_is_taken_without_dropout() -> None:
    model, passages = random_gpt(dropout=0.5), [Passage((7, 8, 9, 2), 3, 6)]
    alone = likelihoods(model, passages)
    assert likelihoods(model.train(), passages) == alone
    assert all(part.training for part in model.modules())


def test_a_measure_leaves_a_model_of_the_library_without_dropout(hub_scope) -> None:
    model = hub_scope("GPT2LMHeadModel").model
    likelihoods(model, [Passage((7, 8, 9, 2), 3, 6)])
    assert not any(part.training for part in model.modules())


def test_a_measure_that_fails_leaves_a_model_in_training() -> None:
    model = random_gpt(dropout=0.5).train()
    with pytest.raises(Stopped):
        likelihoods(model, [Passage((7, 8, 9, 2), 3, 6)], stop)
    assert model.training
    writer, letters = random_model().train(), Tokenizer.characters("abcdefghijklmnopqrstuvwxyz")
    with pytest.raises(Stopped):
        hypotheses(writer, letters, [Case("abc", ("cba",))], stop)
    assert writer.training


def test_induction_that_fails_leaves_a_model_in_training() -> None:
    model = random_gpt(dropout=0.5).train()
    repeats = repeated_texts(range(5, 17), model.config.n_ctx, model.config.start_id)
    model.register_forward_hook(stop)
    with pytest.raises(Stopped), torch.no_grad():
        induction(model, repeats)
    assert model.training
