"""What a run goes on from: the trained weights of a checkpoint, and which numbers of the new model they do not hold."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from models.architectures import Model
from models.architectures.base import Config

OWN = (
    "vocab_size",
    "dropout",
    "head",
    "classes",
    "n_texts",
)  # of a configuration: what each run says for itself
GROWS = "embedding.weight"  # by a row for each token that the new vocabulary has behind the old one


@dataclass(frozen=True)
class Start:
    """The weights of a checkpoint, by their names; `digest` tells them from all others (models.fingerprint)."""

    name: str
    digest: str
    state: dict[str, Tensor]

    def record(self) -> dict[str, str]:
        """What a training record says of it."""
        return {"name": self.name, "weights": self.digest}

    @torch.no_grad()
    def initialise(self, model: Model) -> dict[str, int]:
        """Give the model these weights where it has parameters of their names; returns name → how many rows were given.

        Raises ValueError where a parameter is of another size."""
        initialised = {}
        for name, own in model.named_parameters():
            if (old := self.state.get(name)) is None:
                continue
            n = len(old)
            if old.shape[1:] != own.shape[1:] or n > len(own) or (n < len(own) and name != GROWS):
                raise ValueError(
                    f"{name} should have shape {tuple(own.shape)}, but in {self.name} it has {tuple(old.shape)}"
                )
            own[:n] = old
            initialised[name] = n
        return initialised


def freeze(model: Model, initialised: dict[str, int]) -> None:
    """Train only what was not given: parameters, and the last rows of one that has grown. All else stays bit-equal."""
    for name, parameter in model.named_parameters():
        n = initialised.get(name, 0)
        if n == len(parameter):
            parameter.requires_grad_(False)
        elif n:
            parameter.register_hook(partial(_only_behind, n))


def _only_behind(n: int, gradient: Tensor) -> Tensor:
    """The gradient without that of the first n rows."""
    kept = gradient.clone()
    kept[:n] = 0.0
    return kept


def sizes_of(config: Config) -> dict[str, Any]:
    """The sizes that a model continuing from one of this configuration must share."""
    return {
        name: value
        for name, value in vars(config).items()
        if name not in OWN and not name.endswith("_id")
    }
