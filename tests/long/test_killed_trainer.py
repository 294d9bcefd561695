"""A trainer of the app that is killed and continued trains the model of the command line."""

import os
import signal

import pytest
import torch
from small_runs import assert_same_run, until

from models import cli
from viz_app.trainers.example_pictures import ExamplePictures
from viz_app.trainers.pool import Pool
from viz_app.trainers.run import DONE, STOPPED
from viz_app.trainers.settings import RunSettings

pytestmark = pytest.mark.usefixtures("own_trainers")


def test_killed_and_gone_on_with_it_is_the_run_of_the_command_line(tmp_path, monkeypatch):
    """Train in the app's way, kill -9, go on; and the same settings by `attnscope train`."""
    settings = RunSettings("copy", "transformer").having(d_model=8, n_heads=2, seed=3)
    flags = ["--steps=60", "--save-every=7", "--score-cases=5", "--validate-every=30"]
    arguments = RunSettings.arguments
    monkeypatch.setattr(RunSettings, "arguments", lambda self, to: [*arguments(self, to), *flags])
    trainers = Pool(1, lambda owner: True)
    run = trainers.begin(settings, "a", "decoder.layers.0.cross_attn")
    run.set_speed(40)
    until(lambda: run.step > 16)
    assert run.latest is not None
    assert run.latest[1] == "decoder.layers.0.cross_attn"
    os.kill(run.process._process.pid, signal.SIGKILL)
    until(lambda: run.state == STOPPED)
    pictures = ExamplePictures(run)
    assert pictures.first() is not None
    before = pictures.weights(0, "decoder.layers.0.cross_attn")
    run.go_on()
    trainers.submit(run)
    until(lambda: run.state == DONE)
    after = pictures.weights(60, "decoder.layers.0.cross_attn")
    assert before.shape == after.shape
    assert (before != after).any()
    alone = tmp_path / "alone"
    assert cli.main([*settings.arguments(alone)]) == 0
    torch.set_num_threads(1)
    records = [run.folder / "training.json", alone / "training.json"]
    for path in records:  # the command names the folder
        path.write_text(path.read_text().replace(str(path.parent), "X"))
    assert_same_run(run.folder, alone)
