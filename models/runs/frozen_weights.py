"""The weights of one model given to another that reads the same tokens (Wiegreffe and Pinter 2019).

Heads of two models have no common order. Where the attentions have the same paths and shapes, head
h of one goes to head h of the other; elsewhere the mean over heads and layers goes to every head.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.metrics import logits_of
from models.runs.scope import Scope
from models.runs.spec import read_values
from models.trace import AttentionSite, Trace
from models.trace.edits import Where
from models.trace.edits.gradients import GivenWeights


@dataclass(frozen=True, eq=False)
class Transplant:
    """The run of a model with its own weights, and its logits under those of another."""

    own: Trace
    logits: Float[Tensor, "row option"]  # of the main answer, under the other model's weights
    is_by_head: bool  # head to head; False: each head gets the mean over heads and layers

    @property
    def before(self) -> Float[Tensor, "row option"]:
        """The logits under its own weights."""
        return logits_of(self.own.outputs)

    @property
    def n_kept(self) -> int:
        """The number of decisions whose most probable option is the same."""
        return int((self.before.argmax(-1) == self.logits.argmax(-1)).sum())


def read_by(other: Scope, trace: Trace) -> Trace:
    """Return the run of another model on the same tokens, generated ones included.

    Raises:
        ValueError: it splits the texts into different tokens.
    """
    values = tuple(
        value if isinstance(value, str) or value is None else getattr(value, "text", value)
        for value in read_values(other, trace)
    )
    if len(trace.streams) != len(other.model.streams):
        raise ValueError(f"{other.name} reads different fields")
    rows = other.model.completed(other.encode(*values), other.tokenizer)
    same = rows.keys() == trace.streams.keys() and all(
        row.ids == trace.streams[name].ids and row.tokens == trace.streams[name].tokens
        for name, row in rows.items()
    )
    if not same:
        raise ValueError(f"{other.name} splits the texts into different tokens")
    return other.run_batch([values])[0]


def mean_weights(trace: Trace, kind: str) -> Float[Tensor, "query key"]:
    """Return the mean over all heads and layers of a kind of attention.

    Raises:
        ValueError: the run has no such attention.
    """
    sites = _sites(trace, kind)
    if not sites:
        raise ValueError(f"{trace.model.name} has no attention of kind {kind!r}")
    return torch.cat([site.weights().float() for site in sites]).mean(0)


def transplant(other: Scope, trace: Trace, kind: str) -> Transplant:
    """Give another model the weights of this run, on the same tokens.

    Raises:
        ValueError: it reads different tokens, or has no such attention.
    """
    their_run = read_by(other, trace)
    theirs, ours = _sites(their_run, kind), _sites(trace, kind)
    if not theirs or not ours:
        raise ValueError(f"{other.name} and {trace.model.name} share no {kind} attention")
    by_head = [(one.name, one.n_heads) for one in theirs] == [
        (one.name, one.n_heads) for one in ours
    ]
    mean = mean_weights(trace, kind)[None]
    tensors = {
        one.name: (trace.attention[one.name].weights() if by_head else mean)[None] for one in theirs
    }
    edit = GivenWeights(Where(kind=kind), tensors=tensors)
    outputs = other.outputs_batch([their_run.streams], [edit])[0]
    return Transplant(their_run, logits_of(outputs), by_head)


@runtime_checkable
class TrainedModel(Protocol):
    """A configuration and a training record, such as those of a Scope."""

    @property
    def config(self) -> Any: ...
    @property
    def training(self) -> Mapping[str, Any]: ...


def is_other_seed(one: TrainedModel, other: TrainedModel) -> bool:
    """Return True if two checkpoints share a recipe, model and data, but not the seed.

    Snapshot settings are ignored, because they do not affect the weights.
    """
    mine, others = one.training.get("recipe"), other.training.get("recipe")
    if not isinstance(mine, dict) or not isinstance(others, dict):
        return False
    return (
        one.config == other.config
        and one.training.get("data") == other.training.get("data")
        and mine.get("seed") != others.get("seed")
        and _as_trained(mine) == _as_trained(others)
    )


def _as_trained(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that determine the weights; older records may lack one that is off."""
    return {
        name: value
        for name, value in recipe.items()
        if value and name != "seed" and "snapshot" not in name
    }


def _sites(trace: Trace, kind: str) -> list[AttentionSite]:
    return [site for site in trace.attention.values() if site.kind == kind]
