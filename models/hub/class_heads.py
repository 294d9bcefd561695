"""From the vector of the token that answers to a model's classes: the ways that transformers' classifiers take, of which one counts
that a run bears out (probe.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Head = Callable[[Float[Tensor, "n d_model"]], Float[Tensor, "n n_classes"]]


def heads(module: nn.Module) -> list[Head]:
    """One matrix (GPT-2, Llama and others that look back); through a pooler (BERT) or a layer of the classifier's own (RoBERTa,
    ELECTRA), which both read the first of a row of tokens; through a layer beside it (DistilBERT)."""
    return [
        lambda x: module.score(x),
        lambda x: module.classifier(module.base_model.pooler(x[:, None])),
        lambda x: module.classifier(x[:, None]),
        lambda x: module.classifier(F.relu(module.pre_classifier(x))),
    ]
