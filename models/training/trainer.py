"""Training as a generator of step records: the command line draws a bar from it, the app a chart, a test nothing.

Adam with the paper's warm-up schedule, label smoothing, gradient clipping, bf16 autocast on CUDA, averaged weights.
A run is a pure function of its recipe: killed at any moment and resumed, it ends with the same weights. Under torchrun
each process takes its share of every batch (DDP), so that the data order is that of one process.
"""

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

from models.architectures import Config, Model, build
from models.checkpoint import add_to_record, save_checkpoint
from models.training import progress
from models.training.batches import Batch, Example
from models.training.objectives import Losses, label_counts
from models.training.processes import Processes
from models.training.recipe import Recipe, StepRecord, scheduled_rate, snapshot_steps
from models.training.run_folder import STATE, read_state, write_snapshot, write_state
from models.training.run_identity import check_same_run, run_identity
from models.training.start import Start, freeze
from models.training.task import Task
from models.training.validation import validation_losses, validation_scores

N_EXAMPLES = 5  # held-out sources that a checkpoint brings along to be tried on


class Trainer:
    """One run in one process. `train()` yields a record a step; the folder holds the checkpoint and the resumable state."""

    def __init__(
        self, task: Task, config: Config, recipe: Recipe, folder: Path, device: torch.device, command: str = "",
        start: Start | None = None,
    ) -> None:  # fmt: skip
        self.task, self.recipe, self.folder, self.device, self.command = (
            task,
            recipe,
            Path(folder),
            device,
            command,
        )
        (
            task.validation(),
            task.held_out(1),
        )  # a split without cases raises DataError now, not after hours
        self.processes = Processes.current()
        torch.manual_seed(recipe.seed)
        self.model, self.start = build(config).to(device), start
        initialised = start.initialise(self.model) if start else {}
        if recipe.new_only and not initialised:
            raise ValueError(
                "new_only wants a checkpoint to go on from; without one, all weights are new"
            )
        self.averaged = AveragedModel(self.model)
        if recipe.new_only:
            freeze(self.model, initialised)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.step = 0
        self.seconds = 0.0
        self.curve: list[dict[str, float]] = []

    def train(self) -> Iterator[StepRecord]:
        """Run to the recipe's last step, or until it has lost patience. Raises FloatingPointError when the loss is no
        longer a number."""
        wrapped = self.processes.wrap(self.model)
        if self.step == 0:
            self._snapshot()
        for batch in islice(self.task.batches(self.recipe.seed), self.step, self.recipe.steps):
            if self.stopped_early:
                return
            start = time.perf_counter()
            loss, tokens = self._update(wrapped, batch)
            seconds = time.perf_counter() - start
            self.seconds += seconds
            self.step += 1
            if self.step > self.recipe.steps * (1 - self.recipe.average_last):
                self.averaged.update_parameters(self.model)
            validation = self._validate() if self._is_due(self.recipe.validate_every) else {}
            rate = self.optimizer.param_groups[0]["lr"]
            yield self._keep(
                StepRecord(self.step, loss, rate, tokens, tokens / seconds, validation)
            )

    @property
    def stopped_early(self) -> bool:
        """Whether the recipe's patience is at its end."""
        return 0 < self.recipe.patience <= progress.since_best(self.curve)

    @property
    def best_step(self) -> int:
        """The validated step with the smallest validation loss."""
        return int(progress.best(self.curve)["step"])

    def _update(self, wrapped: torch.nn.Module, examples: Sequence[Example]) -> tuple[float, int]:
        """One gradient step on a global batch; returns the mean loss and the number of target tokens, over all processes."""
        wrapped.train()
        torch.manual_seed(self._dropout_seed())
        whole = self.task.collate(examples)
        counts, mine = label_counts(whole), examples[self.processes.rank :: self.processes.n]
        # a process without a share still joins, weighing nothing
        batch = (whole if self.processes.n == 1 else self.task.collate(mine or examples[:1])).to(
            self.device
        )
        for group in self.optimizer.param_groups:
            rate = scheduled_rate(self.step + 1, self.model.config.d_model, self.recipe.warmup)
            group["lr"] = self.recipe.learning_rate * rate
        losses = self._losses(wrapped, batch, self.recipe.label_smoothing)
        loss = sum(value / counts[name] for name, value in losses.items()) * (1.0 if mine else 0.0)
        self.optimizer.zero_grad()
        (
            loss * self.processes.n
        ).backward()  # DDP averages over processes; the loss is a sum over them
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip))
        value = float(self.processes.sum(loss.detach()))
        if not math.isfinite(value + norm):  # before the step: weights and files stay as they were
            where = f"the loss is {value} and its gradient's norm {norm} at step {self.step + 1}"
            raise FloatingPointError(f"{where}; try a smaller --learning-rate")
        self.optimizer.step()
        torch.autograd.graph.increment_version(
            self.model.parameters()
        )  # fused Adam does not; see models/trace/deferred.py
        return value, whole.n_labels

    def _dropout_seed(self) -> int:
        """Dropout is a function of seed, step and process, so a resumed run needs no generator state."""
        return random.Random(f"{self.recipe.seed}/{self.step}/{self.processes.rank}").getrandbits(
            63
        )

    def _losses(self, model: torch.nn.Module, batch: Batch, smoothing: float) -> Losses:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            answers = model(*batch.inputs)
        return self.task.objective(answers, batch, smoothing)

    def _is_due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.recipe.steps

    @property
    def best_model(self) -> Model:
        """The averaged weights once averaging has begun, the current ones before."""
        return self.averaged.module if int(self.averaged.n_averaged) else self.model

    @torch.inference_mode()
    def _validate(self) -> dict[str, float]:
        model = self.best_model.eval()
        result = validation_losses(model, self.task, self._losses, self.device)
        result[progress.LOSS] = self.processes.broadcast(result[progress.LOSS], self.device)
        return result | (
            validation_scores(model, self.task, self.recipe.score_cases)
            if self.recipe.score_cases
            else {}
        )

    def _keep(self, record: StepRecord) -> StepRecord:
        """Write down what this step brought; returns the record, with warnings if there is reason for any."""
        if self.step % 20 == 0 or record.validation:
            row = {"step": self.step, "loss": round(record.loss, 4)}
            self.curve.append(row | {k: round(v, 4) for k, v in record.validation.items()})
        if record.validation:
            record = replace(record, warnings=progress.warnings(self.curve, self.recipe.warmup))
        if not self.processes.is_first:
            return record
        if self.step in snapshot_steps(self.recipe):
            self._snapshot()
        if record.validation:
            self._keep_weights()
        if self._is_due(self.recipe.save_every) or self.stopped_early:
            self.save_state()
        return record

    def _keep_weights(self) -> None:
        """A recipe with patience keeps the weights of the smallest validation loss, another one the last."""
        if not self.recipe.patience or self.best_step == self.step:
            self.save_checkpoint()
        else:
            add_to_record(
                self.folder,
                curve=self.curve,
                trained_to=self.step,
                training_seconds=round(self.seconds),
            )

    def _snapshot(self) -> None:
        if self.recipe.snapshots and self.processes.is_first:
            write_snapshot(
                self.folder,
                self.best_model if self.step == self.recipe.steps else self.model,
                self.step,
            )

    def save_checkpoint(self) -> None:
        save_checkpoint(self.folder, self.best_model, self.task.tokenizer, self.record())

    def record(self) -> dict[str, Any]:
        """What training.json holds: how these weights came to be."""
        return {
            "task": self.task.name,
            "command": self.command,
            "step": self.step,
            "trained_to": self.step,
            "recipe": asdict(self.recipe),
            **({"start": self.start.record()} if self.start else {}),
            "averaged_steps": int(self.averaged.n_averaged),
            "data": self.task.data(),
            "licence": self.task.licence,
            "examples": [
                case.as_example() for case in self.task.held_out(N_EXAMPLES, validation=True)
            ],
            "training_seconds": round(self.seconds),
            "device": str(self.device),
            "processes": self.processes.n,
            "torch": torch.__version__,
            "scores": {},
            "curve": self.curve,
        }

    def save_state(self) -> None:
        """Everything a resumed run needs, in one file, replaced whole. The first process alone writes it."""
        if not self.processes.is_first:
            return
        state = {
            "model": self.model.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        write_state(self.folder / STATE, state | self._identity)

    def resume(self) -> int:
        """Go back to the last saved state; returns its step. Raises CheckpointError if there is none that fits."""
        path = self.folder / STATE
        state = read_state(path, self.device)
        check_same_run(path, state, self._identity)
        self.model.load_state_dict(state["model"])
        self.averaged.load_state_dict(state["averaged"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.curve = state["step"], state["seconds"], state["curve"]
        return self.step

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return run_identity(self.task, self.model.config, self.recipe, self.start)
