"""What makes two runs the same one: recipe, sizes, data, and what they go on from. Only the same run is resumed."""

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
    """What a training state says of its run."""
    return {
        "recipe": asdict(recipe),
        "config": asdict(config),
        "start": start.record() if start else {},
        "first_batch": _first_batch(task, recipe.seed),
    }


def check_same_run(path: Path, state: Any, own: dict[str, Any]) -> None:
    """Raises CheckpointError if the state in this file is of another run than one's own."""
    if not isinstance(state, dict) or not {"recipe", "config", "model"} <= state.keys():
        raise CheckpointError(f"{path}: not a training state of this program")
    for what in ("recipe", "config"):
        odd = [name for name, value in own[what].items() if state[what].get(name) != value]
        if odd:
            was, now = state[what].get(odd[0]), own[what][odd[0]]
            raise CheckpointError(
                f"{path}: that run had {odd[0]} = {was}, this one has {now}; keep the settings"
            )
    if (was := state.get("start", {})) != (now := own["start"]):
        raise CheckpointError(
            f"{path}: that run went on from {was.get('name', 'nothing')}, not {now.get('name', 'nothing')}"
        )
    if state.get("first_batch", own["first_batch"]) != own["first_batch"]:
        raise CheckpointError(
            f"{path}: that run began with another batch; keep the data and its settings"
        )


def _first_batch(task: Task, seed: int) -> str:
    """A fingerprint of data, vocabulary and batch size, by what they make of the first batch."""
    first = next(iter(task.batches(seed)))
    return hashlib.sha256(
        repr([tuple(map(list, example)) for example in first]).encode()
    ).hexdigest()
