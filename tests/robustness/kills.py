"""Kill training with SIGKILL at random moments, continue with --resume, and compare the result with an undisturbed run, bit by bit.

    python -m tests.robustness.kills [--runs 12] [--kills 3] [--seed 1]

Each run is the real command in a separate process, forked so that torch is imported once.
"""

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import torch

from models import cli
from models.tasks.dates import DatesTask
from models.training.run_folder import STATE

SETTINGS = (
    "--d-model 33 --n-heads 3 --d-ff 409 --n-encoder-layers 1 --n-decoder-layers 1 --batch-size 7 --device cpu --dropout 0.2 "
    "--steps 40 --validate-every 9 --save-every 3 --score-cases 0 --average-last 0.5"
).split()
LONGEST = 0.6  # seconds from a start to its kill; a whole run takes a little longer


def train(folder: Path, *more: str) -> int:
    return cli.main(["train", "dates", "--out", str(folder), *SETTINGS, *more])


def until_done(folder: Path, moments: Sequence[float]) -> int:
    """Train in `folder`, killed after each of these times and then left alone; return how many kills came before its end."""
    kills = 0
    for moment in (*moments, None):
        more = ["--resume"] if (folder / STATE).exists() else ["--overwrite"]
        child = _forked(lambda more=more: train(folder, *more))
        if moment is not None:
            time.sleep(moment)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        elif status:
            raise RuntimeError(f"the run ended with status {os.waitstatus_to_exitcode(status)}")
    return kills


def same(one: Path, other: Path) -> bool:
    """Return whether two runs left the same weights, snapshots and record, apart from their duration and the folder's name."""

    def remains(folder: Path) -> dict[str, object]:
        paths = sorted(
            p
            for p in folder.rglob("*")
            if p.is_file() and p.name not in (".lock", STATE, "training.json")
        )
        record = json.loads((folder / "training.json").read_text()) | {
            "training_seconds": 0,
            "command": "",
        }
        return {
            str(p.relative_to(folder)): p.read_bytes() for p in paths if p.suffix != ".partial"
        } | {"record": record}

    return remains(one) == remains(other)


def measure(runs: int, kills: int, seed: int) -> tuple[int, int]:
    """Return how often training was killed, and how many of the runs ended like the undisturbed one."""
    rng, killed, equal = Random(seed), 0, 0
    held_out = DatesTask.held_out
    DatesTask.held_out = lambda self, n=None, **how: held_out(
        self, n or 3, **how
    )  # the score does not matter here
    try:
        with tempfile.TemporaryDirectory() as temporary:
            whole = Path(temporary) / "whole"
            os.waitpid(_forked(lambda: train(whole)), 0)
            for run in range(runs):
                folder = Path(temporary) / str(run)
                killed += until_done(folder, [rng.uniform(0.02, LONGEST) for _ in range(kills)])
                equal += same(whole, folder)
    finally:
        DatesTask.held_out = held_out
    return killed, equal


def _forked(work: Callable[[], int]) -> int:
    """Start a child that does the work silently, and return its process id."""
    if child := os.fork():
        return child
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1), os.dup2(nothing, 2)
        torch.set_num_threads(1)
        status = work()
    finally:
        os._exit(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--kills", type=int, default=3, help="of each run")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    killed, equal = measure(options.runs, options.kills, options.seed)
    print(
        f"{killed} kills during training; {equal} of {options.runs} resumed runs are bit-equal to an undisturbed run"
    )


if __name__ == "__main__":
    main()
