"""From the vector of the token that answers to a model's classes: the ways that transformers' classifiers take, of which one counts
that a run bears out (probe.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Head = Callable[[Float[Tensor, "n d_model"]], Float[Tensor, "n n_classes"]]


def heads(module: nn.Module) -> list[Head]:
    """Return the ways that are tried: one matrix (GPT-2, Llama and others that look back); a head that reads one vector (BART,
    T5); a pooler and a matrix (BERT) or a layer of the classifier's own (RoBERTa, ELECTRA), which both read the first of a row
    of tokens; a layer beside the classifier (DistilBERT)."""
    return [
        lambda x: module.score(x),
        lambda x: module.classification_head(x),
        lambda x: module.cls(module.base_model.pooler(x[:, None])),
        lambda x: module.classifier(module.base_model.pooler(x[:, None])),
        lambda x: module.classifier(x[:, None]),
        lambda x: module.classifier(F.relu(module.pre_classifier(x))),
    ]
