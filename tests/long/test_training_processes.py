"""Training runs that are killed and resumed, or shared by two processes."""

import json
import os
import subprocess
import sys
from random import SystemRandom

import pytest
import torch
from small import Reversal, reversal_trainer
from small_runs import RUN, assert_same_run, run, state

from models.checkpoint import load_checkpoint
from models.checkpoint_files import snapshots

KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from small import reversal_trainer

folder, settings, delays = Path(sys.argv[1]), eval(sys.argv[2]), eval(sys.argv[3])

def train():
    trainer = reversal_trainer(folder, **settings)
    if (folder / "state.pt").exists():
        trainer.resume()
    (folder / "started").touch()
    for record in trainer.train():
        pass

folder.mkdir()
for delay in [*delays, None]:            # fork: torch is imported once
    (folder / "started").unlink(missing_ok=True)
    if not (child := os.fork()):
        try:
            train()
        finally:
            os._exit(0)
    while delay is not None and not (folder / "started").exists():
        time.sleep(0.001)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "ended", flush=True)
"""


def test_kill_9_at_random_moments_then_resume(tmp_path):
    """Killed five times, in the middle of steps and of files, the run ends like one left alone."""
    settings = RUN | {"steps": 59, "d_ff": 1009}
    delays = [round(SystemRandom().uniform(0.01, 0.5), 3) for _ in range(5)]
    command = [sys.executable, "-c", KILLED, str(tmp_path / "cut"), repr(settings), repr(delays)]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.split()[-1:] == ["ended"], done.stderr
    assert "killed" in done.stdout
    run(tmp_path / "whole", **settings)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


TWO = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from models.training.processes import joined_processes
from small import Reversal, reversal_trainer

with joined_processes(torch.device("cpu")) as rank:
    for batch_size in (1, 17):
        trainer = reversal_trainer(Path(sys.argv[1]) / str(batch_size), Reversal(batch_size), save_every=1, snapshots=True)
        records = [(r.loss, r.labels) for r in trainer.train()]
        Path(sys.argv[1], f"{batch_size}-{rank}.json").write_text(json.dumps(records))
"""


def test_two_processes_are_one_with_the_combined_batch(tmp_path):
    """With torchrun, gloo and two processes on the CPU, the data order, losses and weights are the same within float tolerance."""
    script = tmp_path / "two.py"
    script.write_text(TWO)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        script,
        tmp_path,
    ]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(part) for part in command], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for batch_size in (1, 17):
        alone = reversal_trainer(
            tmp_path / f"alone-{batch_size}", Reversal(batch_size), save_every=1, snapshots=True
        )
        losses, tokens = zip(*[(r.loss, r.labels) for r in alone.train()], strict=True)
        for rank in (0, 1):
            records = json.loads((tmp_path / f"{batch_size}-{rank}.json").read_text())
            assert [r[0] for r in records] == pytest.approx(
                losses, rel=1e-4
            )  # sums in another order
            assert [r[1] for r in records] == list(tokens)
        shared = state(tmp_path / str(batch_size))
        for name, value in alone.model.state_dict().items():
            if not name.endswith(
                "W_K.bias"
            ):  # its gradient is 0 except for rounding, which Adam turns into full steps
                torch.testing.assert_close(shared["model"][name], value, rtol=1e-3, atol=2e-4)
        assert snapshots(tmp_path / str(batch_size)) == snapshots(tmp_path / f"alone-{batch_size}")
        assert load_checkpoint(tmp_path / str(batch_size)).training["processes"] == 2
