"""Warnings of a training run, its early stop, and the weights that it keeps."""

import json
import math

import pytest
import torch
from small import (
    Reversal,
    padded_ids,
    random_attention_only,
    random_model,
    random_seq2seq,
    reversal_trainer,
)

from models.architectures.transformer import TransformerConfig
from models.checkpoint import load_checkpoint
from models.training import progress, validation
from models.training.batches import NO_LABEL, Batch
from models.training.recipe import Recipe
from models.training.task import Evaluation
from models.training.validation import validation_losses, validation_scores


def curve(*losses: float) -> list[dict[str, float]]:
    """Return rows as a run writes them: each validation after a row without one."""
    pairs = [
        ({"step": 10 * n - 5, "loss": 9.0}, {"step": 10 * n, "validation loss": loss})
        for n, loss in enumerate(losses, 1)
    ]
    return [row for pair in pairs for row in pair]


def flat(value: float, *losses: float) -> list[dict[str, float]]:
    rows = curve(*losses)
    return [*rows[:-1], rows[-1] | {progress.FLATNESS: value}]


def test_the_best_validation_is_the_first_smallest():
    assert progress.best(curve(3.0, 1.5, 2.0, 1.5))["step"] == 20
    assert [
        progress.since_best(curve(*losses)) for losses in ([3.0], [3, 2], [3, 2, 2], [1, 2, 3, 4])
    ] == [0, 0, 1, 3]
    assert progress.best([]) is None
    assert progress.since_best([{"step": 20, "loss": 4.0}]) == 0


def test_a_loss_that_no_longer_falls_gives_a_warning_with_step_and_loss():
    assert progress.training_warnings(curve(3.0, 1.5, 2.0, 2.0), 1) == []
    (said,) = progress.training_warnings(curve(3.0, 1.5, 2.0, 2.0, 1.6), 1)
    assert said == "the validation loss has not been below 1.500 since step 20"
    assert progress.training_warnings(curve(3.0, 1.5, 2.0, 2.0, 1.6, 1.4), 1) == []
    assert (
        progress.training_warnings([], 1)
        == progress.training_warnings([{"step": 20, "loss": 1.0}], 1)
        == []
    )


def test_flat_cross_attention_gives_a_warning_after_the_warm_up_only():
    (said,) = progress.training_warnings(flat(0.99, 3.0, 2.0), warmup=19)
    assert "cross-attention is flat (0.990 of the largest entropy)" in said
    assert progress.training_warnings(flat(0.99, 3.0, 2.0), warmup=20) == []
    assert progress.training_warnings(flat(0.97, 3.0, 2.0), warmup=19) == []
    assert len(progress.training_warnings(flat(0.99, 1.0, 2.0, 2.0, 2.0), warmup=1)) == 2


def test_scores_in_training_are_those_of_validation_cases(monkeypatch):
    def evaluate(self, model, n, *, validation=False):
        return Evaluation({"score": 10.0 * n + validation}, n)

    monkeypatch.setattr(Reversal, "evaluate", evaluate)
    assert validation_scores(random_model(), Reversal(), 3) == {"score": 31.0}


def test_the_flatness_is_measured_on_validation_texts_of_all_lengths(monkeypatch):
    batches = []
    monkeypatch.setattr(validation, "N_WATCHED", 5)
    monkeypatch.setattr(progress, "cross_attention_entropy", lambda _, batch, pad: batches.append(batch))  # fmt: skip
    task, model = Reversal(), random_model()
    validation_losses(model, task, lambda *_: {}, torch.device("cpu"))
    (batch,) = batches
    lengths = {len(word) for word in task.held_out_words[::2]}
    assert {int(n) - 1 for n in (batch.inputs[0] != 0).sum(1)} == lengths


MODELS = {
    "Transformer": random_model,
    "alignment": random_seq2seq,
    "attention only": random_attention_only,
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_entropy_is_that_of_each_row_alone(kind):
    """By hand from runs of one unpadded pair each: Σ −w·ln w / ln n, averaged over target positions, heads and layers."""
    model = MODELS[kind]()
    source, target = padded_ids()
    labels = torch.full_like(target, 5).masked_fill(target == 0, NO_LABEL)
    shares = []
    for row, (n, m) in enumerate(((11, 13), (7, 5))):
        with progress.record() as recording, torch.no_grad():
            model(source[row : row + 1, :n], target[row : row + 1, :m])
        for site in recording.attention.values():
            if site.kind == "cross":
                weights = site.weights().double()
                shares += (-torch.xlogy(weights, weights).sum(-1) / math.log(n)).flatten().tolist()
    found = progress.cross_attention_entropy(model, Batch((source, target), labels), 0)
    assert found == pytest.approx(sum(shares) / len(shares), rel=1e-5)
    assert 0 < found < 1


def test_the_entropy_is_1_for_uniform_weights():
    model = random_model()
    for layer in model.decoder.layers:
        torch.nn.init.zeros_(layer.cross_attn.W_Q.weight)
        torch.nn.init.zeros_(layer.cross_attn.W_Q.bias)
    source, target = padded_ids()
    assert progress.cross_attention_entropy(
        model, Batch((source, target), target), 0
    ) == pytest.approx(1, abs=1e-6)


def test_a_model_without_cross_attention_has_no_such_entropy():
    source, target = padded_ids()
    assert (
        progress.cross_attention_entropy(
            random_seq2seq(attention="none"), Batch((source, target), target), 0
        )
        is None
    )


STOPS = {"steps": 40, "validate_every": 2, "save_every": 5, "patience": 3, "average_last": 0.0}


@pytest.fixture
def losses(monkeypatch) -> list[float]:
    """The validation losses that a run is made to see, in turn: the best is the third."""
    given = [5.0, 4.0, 3.0, 3.5, 3.0, 3.25, 2.0]
    monkeypatch.setattr(
        "models.training.trainer.Trainer._validate",
        lambda self: {"validation loss": given[self.step // 2 - 1]},
    )
    return given


def test_a_run_with_patience_stops_and_keeps_the_best_weights(tmp_path, losses):
    trainer, kept = reversal_trainer(tmp_path, **STOPS), {}
    for record in trainer.train():
        kept[record.step] = [p.detach().half().float() for p in trainer.model.parameters()]
    assert (
        trainer.step == 12
    )  # three validations after the best, at step 6; an equal one is no improvement
    assert trainer.stopped_early
    assert trainer.best_step == 6
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint.training["step"] == 6
    assert checkpoint.training["trained_to"] == 12
    assert all(
        torch.equal(a, b) for a, b in zip(checkpoint.model.parameters(), kept[6], strict=True)
    )
    written = json.loads((tmp_path / "training.json").read_text())
    assert [
        row["validation loss"] for row in written["curve"] if "validation loss" in row
    ] == losses[:6]
    again = reversal_trainer(tmp_path, **STOPS)
    assert again.resume() == 12
    assert list(again.train()) == []  # it has ended and is not continued


def test_without_patience_it_runs_to_the_end_and_keeps_the_last(tmp_path, losses):
    trainer = reversal_trainer(tmp_path, **STOPS | {"steps": 14, "patience": 0})
    list(trainer.train())
    assert (trainer.step, trainer.stopped_early) == (14, False)
    assert load_checkpoint(tmp_path).training["step"] == 14
    trainer = reversal_trainer(tmp_path / "last", **STOPS | {"steps": 10, "patience": 0})
    list(trainer.train())
    assert load_checkpoint(tmp_path / "last").training["step"] == 10  # not the best, which was at 6


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [5, 7, 10, 11])
def test_a_run_that_stops_early_can_be_interrupted_anywhere(tmp_path, losses, stop_at):
    """Interrupted before the best, after it, or after the last validation that was no better, it leaves the same folder."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    list(reversal_trainer(whole, **STOPS).train())
    for record in (first := reversal_trainer(cut, **STOPS)).train():
        if record.step == stop_at:
            break
    assert first.step == stop_at
    second = reversal_trainer(cut, **STOPS)
    second.resume()
    list(second.train())
    assert second.step == 12
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()
    one, other = (
        json.loads((folder / "training.json").read_text()) | {"training_seconds": 0}
        for folder in (whole, cut)
    )
    assert one == other


def test_a_run_warns_as_it_validates(tmp_path, losses):
    warned = {r.step: r.warnings for r in reversal_trainer(tmp_path, **STOPS).train() if r.warnings}
    assert warned == {12: ["the validation loss has not been below 3.000 since step 6"]}


def test_validation_measures_the_cross_attention(tmp_path):
    trainer = reversal_trainer(tmp_path, steps=2, validate_every=2)
    (last,) = [r for r in trainer.train() if r.validation]
    assert 0 < last.validation["cross-attention entropy"] < 1
    assert trainer.curve[-1]["cross-attention entropy"] == round(
        last.validation["cross-attention entropy"], 4
    )


def test_impossible_recipes_and_sizes_are_refused():
    with pytest.raises(ValueError, match="patience must be at least 0, not -1"):
        Recipe(steps=3, patience=-1)
    for setting, refused, allowed in (
        ("learning_rate", (0.0, -1.0, math.nan), 1e-9),
        ("clip", (0.0, -1.0, math.nan), 1e-9),
        ("label_smoothing", (-0.1, 1.0, math.nan), 0.0),
        ("average_last", (-0.1, 1.1, math.nan), 1.0),
        ("seed", (2**63, -(2**63) - 1), -1),
    ):
        assert Recipe(steps=3, **{setting: allowed})
        for value in refused:
            with pytest.raises(ValueError, match=f"^{setting} must be .*, not {value}$"):
                Recipe(steps=3, **{setting: value})
    with pytest.raises(ValueError, match="init must be one of xavier, scaled, normal, not 'zeros'"):
        TransformerConfig(31, init="zeros")
