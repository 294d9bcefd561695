"""Short training runs of the small task, and a comparison of two of them."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from small import reversal_trainer

from models.checkpoint_files import snapshots
from models.trace.edits import Edits
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun

RUN = {
    "steps": 13,
    "dropout": 0.3,
    "save_every": 1,
    "validate_every": 5,
    "snapshots": True,
    "average_last": 0.5,
}


def run(folder: Path, **changes) -> list[float]:
    return [record.loss for record in reversal_trainer(folder, **changes).train()]


def state(folder: Path) -> dict:
    return torch.load(folder / "state.pt", weights_only=True)


def flat(value, path: str = "") -> dict:
    """Flatten a nested state to path → leaf."""
    if isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for name, part in items for k, v in flat(part, f"{path}/{name}").items()}
    return {path: value}


def assert_same_run(a: Path, b: Path) -> None:
    """Assert that two folders hold the same run, bit by bit."""
    one, other = flat(state(a)), flat(state(b))
    assert one.keys() == other.keys()
    assert any("exp_avg_sq" in name for name in one)
    for name, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other[name]), name
        elif name != "/seconds":
            assert value == other[name], name
    assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()
    records = [
        json.loads((folder / "training.json").read_text()) | {"training_seconds": 0}
        for folder in (a, b)
    ]
    assert records[0] == records[1]
    assert snapshots(a) == snapshots(b)
    for step in snapshots(a):
        name = f"snapshots/{step:06d}.safetensors"
        assert (a / name).read_bytes() == (b / name).read_bytes()


def edited(run: CurrentRun, edits: Edits) -> CurrentRun:
    """Return the run under these edits."""
    return cache.changed_run(run, replace(run.spec, edits=edits))


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
