"""Processor time of a training run whose attention is watched, over the same run left alone.

    python -m tests.benchmarks.watching

The steps are those of the small task `copy`; the watched run also reports each redraw as JSON.
"""

import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from models.commands.train import planned_config
from models.tasks import open_task
from models.training.controlled import ControlledTraining
from models.training.recipes import plan_for
from models.training.trainer import Trainer
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table

SITE = "decoder.layers.0.cross_attn"
STEPS, ROUNDS = 400, 5


def _trainer(folder: str, steps: int) -> Trainer:
    plan = plan_for("copy", "transformer")
    task = open_task("copy", **plan.data)
    settings = {"validate_every": steps, "save_every": steps, "score_cases": 0, "snapshots": False}
    recipe = replace(plan.recipe, steps=steps, **settings)
    return Trainer(task, planned_config(plan, task), recipe, Path(folder), torch.device("cpu"))


def _alone(steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for _ in _trainer(folder, steps).train():
            pass


def _watched(steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as reports:
        read, write = os.pipe()
        with os.fdopen(read) as commands:
            os.write(write, f"watch {SITE}\n".encode())
            ControlledTraining(_trainer(folder, steps), commands, reports).follow()
            os.close(write)


def measure(short: bool = False) -> list[Result]:
    """Return the ratio."""
    torch.set_num_threads(1)
    steps, rounds = (20, 1) if short else (STEPS, ROUNDS)
    seconds = in_turns(partial(_watched, steps), partial(_alone, steps), rounds)
    what = f"training, watched over left alone, {steps} steps"
    return [Result(what, over(*seconds), "≤ 1.10")]


if __name__ == "__main__":
    print_table(measure())
