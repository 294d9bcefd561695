"""The paper's schedule, learning, and runs that are stopped and resumed."""

import json
import math
import os
from itertools import count, pairwise

import pytest
import torch
from small import Reversal, reversal_trainer
from small_runs import RUN, assert_same_run, run
from torch import nn

from models.checkpoint import CheckpointError, load_checkpoint
from models.checkpoint_files import snapshots
from models.commands.train import _follow as follow
from models.training import trainer as trainer_of
from models.training.evaluation import TextCases
from models.training.processes import Processes, joined_processes
from models.training.recipe import Recipe, densely_kept, scheduled_rate, snapshot_steps
from models.training.task import DataError


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (64, 1)])
def test_the_papers_schedule(d_model, warmup):
    rates = [scheduled_rate(step, d_model, warmup) for step in range(1, 3 * warmup + 1)]
    peak = d_model**-0.5 * warmup**-0.5
    assert max(rates) == rates[warmup - 1] == pytest.approx(peak)
    for step in {1, warmup // 2, warmup}:
        if step:
            assert rates[step - 1] == pytest.approx(
                peak * step / warmup
            )  # rises in a straight line
    assert rates[2 * warmup - 1] == pytest.approx(peak / 2**0.5)  # then falls as 1/√step


def test_the_optimizer_follows_the_schedule(tmp_path):
    trainer = reversal_trainer(tmp_path, warmup=3, learning_rate=0.5)
    for record in trainer.train():
        assert record.learning_rate == 0.5 * scheduled_rate(record.step, 33, 3)
    assert trainer.optimizer.defaults["betas"] == (0.9, 0.98)
    assert trainer.optimizer.defaults["eps"] == 1e-9


def test_a_step_by_hand(tmp_path):
    """The loss is the mean over tokens, the gradient is clipped, and Adam's first step is ±rate on each weight."""
    trainer = reversal_trainer(tmp_path, clip=1e-3, label_smoothing=0.1, steps=1)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    pairs = next(trainer.task.batches(1))
    record = next(trainer.train())
    total, tokens = 0.0, 0
    again = reversal_trainer(tmp_path, steps=1).model
    for source, target in pairs:
        with torch.no_grad():
            log_probs = again(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]))[
                0
            ].log_softmax(-1)
        for row, label in zip(log_probs, [*target, 2], strict=True):
            total -= float(0.9 * row[label] + 0.1 * row.mean())
            tokens += 1
    assert record.labels == tokens
    assert record.loss == pytest.approx(total / tokens, rel=1e-4)
    norm = torch.stack([p.grad.norm() for p in trainer.model.parameters()]).norm()
    assert norm == pytest.approx(1e-3, rel=1e-3)
    for a, p in zip(before, trainer.model.parameters(), strict=True):
        moved = (p - a).abs()[p.grad.abs() > 1e-6]  # where eps does not count
        torch.testing.assert_close(
            moved, torch.full_like(moved, record.learning_rate), rtol=0.01, atol=1e-7
        )


def test_the_speed_of_a_step_excludes_the_time_between_steps(tmp_path, monkeypatch):
    clock = count(0, 0.5)  # half a second passes between two readings
    monkeypatch.setattr(trainer_of.time, "perf_counter", lambda: next(clock))
    trainer = reversal_trainer(tmp_path, steps=3)
    for record in trainer.train():
        assert record.labels_per_second == record.labels / 0.5
    assert trainer.seconds == 1.5


def test_dropout_differs_for_every_step_seed_and_process(tmp_path):
    trainer, other = (
        reversal_trainer(tmp_path, steps=1),
        reversal_trainer(tmp_path, steps=1, seed=2),
    )
    seeds = [trainer._dropout_seed(), other._dropout_seed()]
    trainer.step = 1
    seeds.append(trainer._dropout_seed())
    trainer.processes = Processes(1, 2)
    seeds.append(trainer._dropout_seed())
    assert len(set(seeds)) == 4
    assert trainer._dropout_seed() == seeds[-1]


def test_the_small_model_learns_to_write_backwards(trained_folder):
    checkpoint = load_checkpoint(trained_folder)
    cases = Reversal().held_out()
    assert len(cases) > 10
    assert (
        TextCases(cases, checkpoint.tokenizer, "exact match")
        .evaluate(checkpoint.model)
        .measures["exact match"]
        >= 90
    )
    untrained = reversal_trainer(trained_folder.parent / "none").model
    assert (
        TextCases(cases, checkpoint.tokenizer, "exact match")
        .evaluate(untrained)
        .measures["exact match"]
        < 10
    )


def test_the_files_of_a_finished_run(trained_folder):
    record = json.loads((trained_folder / "training.json").read_text())
    assert sorted(p.name for p in trained_folder.iterdir()) == [
        "config.json", "model.safetensors", "state.pt", "tokenizer.json", "training.json",
    ]  # fmt: skip
    assert record["step"] == record["recipe"]["steps"] == 199
    assert record["command"] == "made by the tests"
    assert record["licence"] == Reversal.licence
    assert record["data"] == Reversal().data()
    assert record["averaged_steps"] == 40
    losses = {row["step"]: row["loss"] for row in record["curve"]}
    assert list(losses) == [*range(20, 199, 20), 199]
    assert losses[199] < losses[20] / 3
    assert record["curve"][-1]["validation loss"] < 0.5


def test_the_last_steps_weights_are_averaged(tmp_path):
    trainer = reversal_trainer(tmp_path, steps=10, average_last=0.3, snapshots=True)
    kept = {}
    for record in trainer.train():
        assert trainer.best_model is (trainer.model if record.step < 8 else trainer.averaged.module)
        kept[record.step] = [p.detach().clone() for p in trainer.model.parameters()]
    for i, averaged in enumerate(trainer.best_model.parameters()):
        torch.testing.assert_close(averaged.data, (kept[8][i] + kept[9][i] + kept[10][i]) / 3)
    for shipped, averaged in zip(
        load_checkpoint(tmp_path).model.parameters(), trainer.best_model.parameters(), strict=True
    ):
        assert torch.equal(shipped, averaged.half().float())


@pytest.mark.parametrize("steps", [7, 97, 1200, 4000, 30_000])
def test_snapshots_are_as_close_together_as_their_number_allows(steps):
    recipe = Recipe(steps, seed=3)
    kept = snapshot_steps(densely_kept(recipe, 64))
    assert (kept[0], kept[-1]) == (0, steps)
    assert len(kept) == steps + 1 if steps < 64 else 60 <= len(kept) <= 64
    gaps = [(b - a) / b for a, b in pairwise(kept[1:])]
    assert all(gap <= 0.5 for gap in gaps), "no stretch of the run is left out"
    ends = densely_kept(recipe, 2)
    assert snapshot_steps(ends) == [0, steps]
    assert ends.snapshot_ratio < math.inf, "a ratio that JSON can hold"
    assert densely_kept(recipe, 64).seed == 3


def test_averaging_can_be_switched_off(tmp_path):
    trainer = reversal_trainer(tmp_path, average_last=0.0)
    list(trainer.train())
    assert trainer.best_model is trainer.model


def test_snapshots_at_log_spaced_steps(tmp_path):
    assert snapshot_steps(Recipe(8000)) == [0, 8, 16, 32, 63, 125, 250, 500, 1000, 2000, 4000, 8000]
    assert snapshot_steps(Recipe(1)) == [0, 1]
    assert snapshot_steps(Recipe(4001, n_snapshots=4, snapshot_ratio=8)) == [
        0,
        63,
        501,
        4001,
    ]  # 62.5 and 500.1
    trainer = reversal_trainer(tmp_path, steps=5, snapshots=True, average_last=0.6)
    start = [p.detach().half().float() for p in trainer.model.parameters()]
    list(trainer.train())
    assert snapshots(tmp_path) == [0, 1, 2, 3, 5]
    first = load_checkpoint(tmp_path, snapshot=0)
    assert first.training["step"] == 0
    assert first.training["curve"] == []
    assert all(torch.equal(a, b) for a, b in zip(first.model.parameters(), start, strict=True))
    last, whole = load_checkpoint(tmp_path, snapshot=5), load_checkpoint(tmp_path)
    assert all(
        torch.equal(a, b)
        for a, b in zip(last.model.parameters(), whole.model.parameters(), strict=True)
    )


def test_validation_uses_the_saved_weights(tmp_path):
    """It is without label smoothing, whatever the training loss uses."""
    trainer = reversal_trainer(
        tmp_path, steps=6, validate_every=3, score_cases=7, average_last=0.5, label_smoothing=0.3
    )
    results = {r.step: r.validation for r in trainer.train() if r.validation}
    assert list(results) == [3, 6]
    model, total, tokens = trainer.averaged.module.eval(), 0.0, 0
    for source, target in trainer.task.validation():
        with torch.no_grad():
            log_probs = model(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]))[
                0
            ].log_softmax(-1)
        total -= float(log_probs[range(len(target) + 1), [*target, 2]].sum())
        tokens += len(target) + 1
    assert results[6]["validation loss"] == pytest.approx(total / tokens, rel=1e-4)
    cases = trainer.task.held_out(7, validation=True)
    assert (
        results[6]["exact match"]
        == TextCases(cases, trainer.task.tokenizer, "exact match")
        .evaluate(model)
        .measures["exact match"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [4, 9])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_by_bit(tmp_path, stop_at):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    losses = run(whole, **RUN)
    first = reversal_trainer(cut, **RUN)
    for record in first.train():
        if record.step == stop_at:
            break
    torch.rand(11)  # even if other code draws random numbers in between
    second = reversal_trainer(cut, **RUN)
    assert second.resume() == stop_at
    assert second.seconds == first.seconds > 0
    assert [record.loss for record in second.train()] == losses[stop_at:]
    assert_same_run(whole, cut)


def test_a_file_that_a_killed_run_left_half_written_is_no_obstacle(tmp_path):
    run(tmp_path, save_every=1)
    (tmp_path / ".state.pt.123.partial").write_bytes(b"half")
    assert reversal_trainer(tmp_path, save_every=1).resume() == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 8}, "that run had steps = 7, this one has 8; keep the settings"),
        ({"d_ff": 67}, "that run had d_ff = 61, this one has 67"),
        (
            {"task": Reversal(batch_size=5)},
            "that run had a different first batch",
        ),
    ],
)
def test_resuming_with_other_settings_is_an_error(tmp_path, changes, message):
    run(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        reversal_trainer(tmp_path, **changes).resume()


@pytest.mark.parametrize("content", [b"", b"half a state", "truncated", "other"])
def test_resuming_from_nothing_or_from_a_damaged_state(tmp_path, content):
    trainer = reversal_trainer(tmp_path, save_every=1)
    with pytest.raises(CheckpointError, match=r"state.pt: no such file, nothing to resume"):
        trainer.resume()
    list(trainer.train())
    if content == "other":
        torch.save([1, 2], tmp_path / "state.pt")
    else:
        whole = (tmp_path / "state.pt").read_bytes()
        (tmp_path / "state.pt").write_bytes(
            whole[: len(whole) // 2] if content == "truncated" else content
        )
    with pytest.raises(CheckpointError, match=r"state.pt: not (readable as|a training state)"):
        reversal_trainer(tmp_path).resume()


def test_a_state_is_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.system, (f"touch {tmp_path}/exploded",))

    torch.save({"model": Bomb()}, tmp_path / "state.pt")
    with pytest.raises(CheckpointError, match="not readable as a training state"):
        reversal_trainer(tmp_path).resume()
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_nan_loss_ends_the_run_and_changes_neither_weights_nor_files(tmp_path, broken):
    trainer = reversal_trainer(tmp_path, save_every=1)
    records = trainer.train()
    for _ in range(3):
        next(records)
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    before = [p.detach().clone() for p in trainer.model.parameters()]
    if broken == "loss":
        whole = trainer._losses
        trainer._losses = lambda *given: {
            name: loss * float("nan") for name, loss in whole(*given).items()
        }
    else:
        trainer.model.embedding.weight.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(FloatingPointError, match="at step 4; try a smaller learning rate"):
        next(records)
    assert trainer.step == 3
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == files


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("steps", 1),
        ("warmup", 1),
        ("validate_every", 1),
        ("save_every", 1),
        ("n_snapshots", 2),
        ("snapshot_ratio", 1.01),
    ],
)
def test_an_impossible_recipe_is_refused(name, least):
    assert getattr(Recipe(**{"steps": 5} | {name: least}), name) == least
    with pytest.raises(ValueError, match=f"{name} must be at least {least}, not {least - 1}"):
        Recipe(**{"steps": 5} | {name: least - 1})


def test_a_task_without_held_out_cases_fails_before_training(tmp_path):
    class Empty(Reversal):
        def validation(self):
            raise DataError("no validation pairs")

    with pytest.raises(DataError, match="no validation pairs"):
        reversal_trainer(tmp_path, Empty())


def test_a_batch_smaller_than_the_number_of_processes(tmp_path, monkeypatch):
    """A process without a share takes part with weight 0 (alone here, as the second of two)."""
    trainer = reversal_trainer(tmp_path, Reversal(batch_size=1))
    trainer.processes = Processes(1, 2)
    monkeypatch.setattr(Processes, "sum", lambda self, value: value)
    share = trainer._share(next(trainer.task.batches(1)))
    loss, labels = trainer._gradients(trainer.model, share)
    assert trainer._update(loss) == 0
    assert labels > 1
    assert all(p.grad.abs().max() == 0 for p in trainer.model.parameters())


def test_only_the_first_process_prints_the_validations(tmp_path, capsys):
    for quiet in (True, False):
        trainer = reversal_trainer(tmp_path / str(quiet), steps=2, validate_every=1)
        assert follow(trainer, quiet=quiet)
        assert ("validation loss" in capsys.readouterr().out) is not quiet


def test_each_process_on_a_machine_takes_its_own_gpu(monkeypatch):
    calls = []
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: calls.append(number))
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend: calls.append(backend)
    )
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: calls.append("left"))
    with joined_processes(torch.device("cuda")):
        calls.append("joined")
    with pytest.raises(KeyboardInterrupt), joined_processes(torch.device("cpu")):
        raise KeyboardInterrupt
    assert calls == [1, "nccl", "joined", "left", "gloo", "left"]


def test_training_does_not_touch_a_model_that_was_loaded(trained_folder):
    loaded = load_checkpoint(trained_folder).model
    assert not loaded.training
    before = {name: value.clone() for name, value in loaded.state_dict().items()}
    run(trained_folder.parent / "another")
    assert all(torch.equal(value, before[name]) for name, value in loaded.state_dict().items())
    assert isinstance(loaded, nn.Module)
