"""One run at a time writes into a folder, and a new one begins without the files of an old one."""

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from models import cli
from models.checkpoint import load_checkpoint, seal
from models.checkpoint_files import snapshots
from models.commands import train as train_command
from models.tasks.dates import DatesTask
from models.training.run_folder import claim_folder, clear, leftovers
from models.training.trainer import Trainer

TINY = "--d-model 21 --n-heads 3 --d-ff 23 --n-encoder-layers 1 --n-decoder-layers 1 --batch-size 5 --device cpu".split()
RUN = [*TINY, "--validate-every", "3", "--score-cases", "0", "--save-every", "2"]
HOLDER = """
import sys, time
from pathlib import Path
from models.training.run_folder import claim_folder

with claim_folder(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    held_out = DatesTask.held_out
    monkeypatch.setattr(
        DatesTask, "held_out", lambda self, n=None, **how: held_out(self, n or 3, **how)
    )


def train(folder: Path, *more: str) -> int:
    return cli.main(["train", "dates", "--out", str(folder), *RUN, *more])


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != ".lock"
    }


@pytest.mark.slow
def test_two_runs_never_share_a_folder_and_a_killed_one_releases_it(tmp_path, capsys):
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "claimed\n"
        for more in (
            ["--steps", "3"],
            ["--steps", "3", "--overwrite"],
            ["--steps", "3", "--resume"],
        ):
            assert train(tmp_path, *more) == 1
            said = capsys.readouterr().err.splitlines()
            assert said == [
                f"attnscope: {tmp_path}: another run is writing there; wait until it ends or choose another folder"
            ]
        assert not files(tmp_path)
        other.send_signal(signal.SIGKILL)
    assert train(tmp_path, "--steps", "3") == 0


def test_the_folder_is_claimed_for_as_long_as_the_run_lasts(tmp_path, monkeypatch):
    tried = []

    def seen(trainer: Trainer, *args: object) -> object:
        with (
            pytest.raises(ValueError, match="another run is writing there"),
            claim_folder(tmp_path),
        ):
            pass
        tried.append(trainer.step)
        return update(trainer, *args)

    update = Trainer._update
    monkeypatch.setattr(Trainer, "_update", seen)
    assert train(tmp_path, "--steps", "3") == 0
    assert tried == [0, 1, 2]
    with claim_folder(tmp_path):
        pass


def test_only_the_first_of_several_processes_claims_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(train_command, "joined_processes", lambda device: nullcontext(1))
    with claim_folder(tmp_path):
        assert train(tmp_path, "--steps", "3") == 0


def test_a_new_run_into_an_old_folder_needs_a_flag(tmp_path, capsys):
    assert train(tmp_path, "--steps", "5") == 0
    before = files(tmp_path)
    assert snapshots(tmp_path) == [0, 1, 2, 3, 5]
    assert train(tmp_path, "--steps", "4") == 1
    assert "(state.pt); --resume continues it, --overwrite" in capsys.readouterr().err
    (tmp_path / "state.pt").unlink()  # a finished checkpoint, as it is passed on to others
    assert train(tmp_path, "--steps", "4") == 1
    assert "holds a run (config.json); --overwrite removes it" in capsys.readouterr().err
    assert files(tmp_path) == {
        name: content for name, content in before.items() if name != "state.pt"
    }


@pytest.mark.slow
def test_overwriting_removes_the_old_run_and_nothing_else(tmp_path):
    assert train(tmp_path / "fresh", "--steps", "4") == 0
    old = tmp_path / "old"
    assert train(old, "--steps", "13") == 0
    (old / ".state.pt.77.partial").touch()
    (old / "snapshots" / ".000007.safetensors.77.partial").touch()
    (old / "notes.txt").write_text("mine")
    (old / "snapshots" / "notes.txt").write_text("mine too")
    assert train(old, "--steps", "4", "--overwrite") == 0
    assert snapshots(old) == [0, 1, 2, 4]
    assert files(old).keys() == files(tmp_path / "fresh").keys() | {
        "notes.txt",
        "snapshots/notes.txt",
    }
    for name in ("model.safetensors", "snapshots/000002.safetensors"):
        assert (old / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()
    record = json.loads((old / "training.json").read_text())
    assert record["step"] == 4
    assert record["checksums"].keys() == {
        "config.json", "tokenizer.json", "model.safetensors", *(f"snapshots/{step:06d}.safetensors" for step in (0, 1, 2, 4)),
    }  # fmt: skip
    for step in (None, *snapshots(old)):
        load_checkpoint(old, step)


def test_clearing_a_folder_leaves_no_leftovers(tmp_path):
    assert leftovers(tmp_path) == []
    assert train(tmp_path, "--steps", "2") == 0
    assert len(leftovers(tmp_path)) == 5 + 3
    clear(tmp_path)
    assert leftovers(tmp_path) == []


def test_a_checkpoint_is_sealed_by_its_command(tmp_path, capsys):
    assert train(tmp_path, "--steps", "2") == 0
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"dropout": 0.5}))
    capsys.readouterr()
    assert cli.main(["inspect", str(tmp_path)]) == 1
    assert (
        f"attnscope: {tmp_path}/config.json: changed since the checkpoint was saved"
        in capsys.readouterr().err
    )
    assert cli.main(["seal", str(tmp_path)]) == 0
    assert (
        f"{tmp_path}: 6 files sealed: config.json, tokenizer.json, model.safetensors, snap"
        in capsys.readouterr().out
    )
    assert cli.main(["inspect", str(tmp_path)]) == 0
    assert "dropout            0.5" in capsys.readouterr().out
    before = (tmp_path / "training.json").read_bytes()
    seal(tmp_path)
    assert (tmp_path / "training.json").read_bytes() == before
