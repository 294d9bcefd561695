"""From the states of the last layer to a model's answer: the ways that transformers' models take, of which one counts that a run
bears out (probe.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Head = Callable[[Float[Tensor, "*places d_model"]], Float[Tensor, "*places logit"]]


def class_heads(module: nn.Module) -> list[Head]:
    """Return the ways to classes that are tried: one matrix (GPT-2, Llama and others that look back); a head that reads one
    vector (BART, T5); a pooler and a matrix (BERT) or a layer of the classifier's own (RoBERTa, ELECTRA), which both read the
    first of a row of tokens; a layer beside the classifier (DistilBERT)."""
    return [
        lambda x: module.score(x),
        lambda x: module.classification_head(x),
        lambda x: module.cls(module.base_model.pooler(x[:, None])),
        lambda x: module.classifier(module.base_model.pooler(x[:, None])),
        lambda x: module.classifier(x[:, None]),
        lambda x: module.classifier(F.relu(module.pre_classifier(x))),
    ]


def masked_heads(module: nn.Module) -> list[Head]:
    """Return the ways to the guess for a mask that are tried: one head (BERT, DeBERTa; RoBERTa; ALBERT), one part of it (BERT
    with both pretraining tasks), or a transform and a matrix beside it (ELECTRA, ModernBERT, DistilBERT)."""
    return [
        lambda x: module.cls(x),
        lambda x: module.lm_head(x),
        lambda x: module.predictions(x),
        lambda x: module.cls.predictions(x),
        lambda x: module.generator_lm_head(module.generator_predictions(x)),
        lambda x: module.decoder(module.head(x)),
        lambda x: module.vocab_projector(
            module.vocab_layer_norm(module.activation(module.vocab_transform(x)))
        ),
    ]
