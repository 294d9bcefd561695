"""Identity of a run: recipe, sizes, data and starting checkpoint. Only the same run is resumed."""

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from models.architectures import Config
from models.checkpoint import CheckpointError
from models.training.recipe import Recipe
from models.training.start import Start
from models.training.task import Task


def run_identity(task: Task, config: Config, recipe: Recipe, start: Start | None) -> dict[str, Any]:
    """Return the entries of a training state that identify its run."""
    return {
        "recipe": asdict(recipe),
        "config": asdict(config),
        "start": start.record() if start else {},
        "first_batch": _first_batch(task, recipe.seed),
    }


def check_same_run(path: Path, state: Any, current: dict[str, Any]) -> None:
    """Compare the state in a file with the current run.

    Raises:
        CheckpointError: The state belongs to another run.
    """
    if not isinstance(state, dict) or not {"recipe", "config", "model"} <= state.keys():
        raise CheckpointError(f"{path}: not a training state of this program")
    for part in ("recipe", "config"):
        differing = [
            name for name, value in current[part].items() if state[part].get(name) != value
        ]
        if differing:
            was, now = state[part].get(differing[0]), current[part][differing[0]]
            raise CheckpointError(
                f"{path}: that run had {differing[0]} = {was}, this one has {now}; keep the settings"
            )
    if (was := state.get("start", {})) != (now := current["start"]):
        raise CheckpointError(
            f"{path}: that run started from {was.get('name', 'nothing')}, not {now.get('name', 'nothing')}"
        )
    if state.get("first_batch", current["first_batch"]) != current["first_batch"]:
        raise CheckpointError(
            f"{path}: that run had a different first batch; keep the data and its settings"
        )


def _first_batch(task: Task, seed: int) -> str:
    """Return a fingerprint of data, vocabulary and batch size: the hash of the first batch."""
    first = next(iter(task.batches(seed)))
    return hashlib.sha256(
        repr([tuple(map(list, example)) for example in first]).encode()
    ).hexdigest()
