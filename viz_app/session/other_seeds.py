"""Checkpoints of the same recipe with other seeds, a yardstick for how much models differ."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from models import CheckpointError, Scope
from models.checkpoint import read_config
from models.opening import folder_of
from models.runs.frozen_weights import is_other_seed
from viz_app import checkpoints
from viz_app.session import cache


@dataclass(frozen=True)
class _Record:
    """The configuration and the training record of a checkpoint that is not opened."""

    config: Any
    training: dict[str, Any]


def other_seeds(scope: Scope, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the checkpoints of these names, or of all, that differ from this in the seed alone."""
    seeds = []
    menu = checkpoints.offered()
    for name in menu if names is None else filter(menu.__contains__, names):
        folder = menu[name]
        with suppress(CheckpointError):
            record = _Record(read_config(folder_of(folder)), cache.description(folder).training)
            if is_other_seed(scope, record):
                seeds.append(name)
    return tuple(seeds)
