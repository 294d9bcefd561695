"""Starting checkpoint of a run: its weights, and the parameters it does not have."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from models.architectures import Model
from models.architectures.base import Config

# settings that a run need not share with its starting checkpoint
FREE_SETTINGS = ("vocab_size", "dropout", "head", "classes", "n_texts")
GROWS = "embedding.weight"  # by one row for each token that the new vocabulary appends


@dataclass(frozen=True)
class Start:
    """Weights of a checkpoint by parameter name; `digest` identifies them (models.weights)."""

    name: str
    digest: str
    state: dict[str, Tensor]

    def record(self) -> dict[str, str]:
        """Return the entry for the training record."""
        return {"name": self.name, "weights": self.digest}

    @torch.no_grad()
    def initialise(self, model: Model) -> dict[str, int]:
        """Copy these weights into the parameters of the same names; return name → rows copied.

        Raises:
            ValueError: A parameter has another size.
        """
        initialised = {}
        for name, parameter in model.named_parameters():
            if (old := self.state.get(name)) is None:
                continue
            n = len(old)
            if (
                old.shape[1:] != parameter.shape[1:]
                or n > len(parameter)
                or (n < len(parameter) and name != GROWS)
            ):
                raise ValueError(
                    f"{name} must have shape {tuple(parameter.shape)}, "
                    f"but in {self.name} it has {tuple(old.shape)}"
                )
            parameter[:n] = old
            initialised[name] = n
        return initialised


def freeze(model: Model, initialised: dict[str, int]) -> None:
    """Train only the parameters that were not copied, and the appended rows of those that grew.

    All else stays bit-equal.
    """
    for name, parameter in model.named_parameters():
        n = initialised.get(name, 0)
        if n == len(parameter):
            parameter.requires_grad_(False)
        elif n:
            parameter.register_hook(partial(_zero_first_rows, n))


def _zero_first_rows(n: int, gradient: Tensor) -> Tensor:
    """Return the gradient with its first n rows set to zero."""
    result = gradient.clone()
    result[:n] = 0.0
    return result


def shared_sizes(config: Config) -> dict[str, Any]:
    """Return the sizes that a model continuing from this configuration must share."""
    return {
        name: value
        for name, value in vars(config).items()
        if name not in FREE_SETTINGS and not name.endswith("_id")
    }
