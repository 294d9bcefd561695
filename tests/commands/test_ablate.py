"""`attnscope ablate`: a sweep over held-out pairs, stopped and continued."""

import json
from pathlib import Path

import pytest
from small import Reversal

from models import cli
from models.runs.sweep import Sweep


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Words and their reversals, of which the model has never seen any."""
    file = tmp_path / "pairs.tsv"
    words = Reversal().held_out_words
    file.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return file


def ablate(folder: Path, pairs: Path, *more: str) -> int:
    flags = ["--data", str(pairs), "--orders", "2", "--device", "cpu", *more]
    return cli.main(["ablate", str(folder), *flags])


def test_every_head_is_listed_and_a_stopped_sweep_goes_on(
    trained_folder, pairs, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "sweep.json"
    assert ablate(trained_folder, pairs, "--out", str(out)) == 0
    whole, stored = capsys.readouterr().out, json.loads(out.read_text())
    rows = [line for line in whole.splitlines() if " head " in line and "layer" in line]
    assert len(rows) == 9
    effects = [float(row.split("head")[1].split()[1]) for row in rows]
    assert effects == sorted(effects, reverse=True)
    assert max(effects) > 0.1  # without cross attention it cannot write a word backwards
    assert "after Holm's correction" in whole
    assert {f"{kind} importance 1" for kind in ("encoder_self", "decoder_self", "cross")} <= set(
        stored["losses"]
    )

    names = list(stored["losses"])
    kept = {name: stored["losses"][name] for name in names[: len(names) // 2]}
    out.write_text(json.dumps({**stored, "losses": kept}))
    made, losses = [], Sweep._losses
    monkeypatch.setattr(Sweep, "_losses", lambda self, *a: made.append(a) or losses(self, *a))
    assert ablate(trained_folder, pairs, "--out", str(out)) == 0
    assert len(made) == len(names) - len(kept)
    assert json.loads(out.read_text()) == stored
    assert capsys.readouterr().out == f"continues {out}\n{whole}"


def test_a_sweep_that_is_stopped_keeps_what_it_has(
    trained_folder, pairs, tmp_path, monkeypatch, capsys
):
    out, losses, made = tmp_path / "sweep.json", Sweep._losses, []

    def stopped(self, *given):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(given)
        return losses(self, *given)

    monkeypatch.setattr(Sweep, "_losses", stopped)
    assert ablate(trained_folder, pairs, "--out", str(out)) == 130
    assert "stopped" in capsys.readouterr().err
    assert len(json.loads(out.read_text())["losses"]) == 3


def test_what_cannot_be_swept(trained_folder, pairs, tmp_path, capsys):
    out = tmp_path / "sweep.json"
    short = tmp_path / "short.tsv"
    short.write_text("ab\tba\n")
    assert ablate(trained_folder, short, "--out", str(out)) == 1
    assert "holds 1 texts" in capsys.readouterr().err
    out.write_text('{"of": {}, "losses": {}}')
    assert ablate(trained_folder, pairs, "--out", str(out)) == 1
    assert "holds another sweep" in capsys.readouterr().err
    assert cli.main(["ablate", str(trained_folder), "--device", "cpu"]) == 1
    assert "name a file with --data" in capsys.readouterr().err
