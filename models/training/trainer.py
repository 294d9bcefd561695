"""Training as a generator of step records, from which each caller draws its own progress.

Adam with the paper's warm-up schedule, label smoothing, gradient clipping, bf16 autocast on CUDA
and averaged weights. A run is a pure function of its recipe: killed at any moment and resumed, it
ends with the same weights. Under torchrun each process takes its share of every batch (DDP), so the
data order is that of one process.
"""

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from models.architectures import Config, Model, build
from models.checkpoint import add_to_record, save_checkpoint
from models.trace.compiled import run_uncompiled
from models.training import progress
from models.training.batches import Batch, TrainingExample
from models.training.compiled_layers import compile_layers, compiling_pays
from models.training.fixed_example import example_fields
from models.training.objectives import Losses, label_counts
from models.training.processes import Processes
from models.training.recipe import Recipe, StepRecord, scheduled_rate, snapshot_steps
from models.training.run_folder import STATE, read_state, write_snapshot, write_state
from models.training.run_identity import check_same_run, run_identity
from models.training.start import Start, freeze
from models.training.task import SnapshotMeasured, Task, validation_texts
from models.training.validation import validation_losses, validation_scores


@dataclass(frozen=True)
class _Share:
    """One process's part of a global batch."""

    batch: Batch
    weight: float  # 0 for a process whose share is empty
    counts: dict[str, int]  # of the labels of each loss, in the global batch


N_EXAMPLES = 5  # held-out sources stored in a checkpoint as examples


class Trainer:
    """A run in one process.

    `train()` yields one record per step; the folder gets the checkpoint and the resumable state.
    """

    def __init__(
        self, task: Task, config: Config, recipe: Recipe, folder: Path, device: torch.device, command: str = "",
        start: Start | None = None, languages: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.task, self.recipe, self.folder = task, recipe, Path(folder)
        self.device, self.command, self.languages = device, command, list(languages)
        task.validation()  # an empty split raises DataError now instead of after hours
        task.held_out(1)
        self.processes = Processes.current()
        torch.manual_seed(recipe.seed)
        self.model, self.start = build(config).to(device), start
        initialised = start.initialise(self.model) if start else {}
        if recipe.new_only and not initialised:
            raise ValueError(
                "new_only needs a starting checkpoint; without one, all weights are new"
            )
        self.averaged = AveragedModel(self.model)
        if recipe.new_only:
            freeze(self.model, initialised)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self._objective = task.objective
        self.step = 0
        self.seconds = 0.0
        self.curve: list[dict[str, float]] = []

    def train(self) -> Iterator[StepRecord]:
        """Run to the recipe's last step, or until its patience runs out.

        Raises:
            FloatingPointError: The loss is not finite.
        """
        if compiling_pays(self.model.config.d_model, self.recipe.steps, self.device):
            self.compile()
        wrapped = self.processes.wrap(self.model)
        if self.step == 0:
            self._snapshot()
        examples = islice(self.task.batches(self.recipe.seed), self.step, self.recipe.steps)
        shares = map(self._share, examples)
        share = next(shares, None)
        while share and not self.stopped_early:
            start = time.perf_counter()
            loss, labels = self._gradients(wrapped, share)
            share = next(shares, None)  # made while a GPU is still working
            loss = self._update(loss)
            seconds = time.perf_counter() - start
            self.seconds += seconds
            self.step += 1
            if self.step > self.recipe.steps * (1 - self.recipe.average_last):
                self.averaged.update_parameters(self.model)
            validation = self._validate() if self._is_due(self.recipe.validate_every) else {}
            rate = self.optimizer.param_groups[0]["lr"]
            yield self._record_step(
                StepRecord(self.step, loss, rate, labels, labels / seconds, validation)
            )

    def compile(self) -> None:
        """Compile the layers and the loss for the steps that follow."""
        compile_layers(self.model)
        self._objective = torch.compile(self.task.objective, dynamic=True)

    @property
    def stopped_early(self) -> bool:
        """True once the recipe's patience has run out."""
        return 0 < self.recipe.patience <= progress.since_best(self.curve)

    @property
    def best_step(self) -> int:
        """Validated step with the smallest validation loss."""
        if (best := progress.best(self.curve)) is None:
            raise ValueError("no step of this run has been validated yet")
        return int(best["step"])

    def _share(self, examples: Sequence[TrainingExample]) -> "_Share":
        """Return this process's share of a global batch, on the device."""
        whole = self.task.collate(examples)
        share = examples[self.processes.rank :: self.processes.n]
        # a process without a share still joins, with weight 0
        batch = whole if self.processes.n == 1 else self.task.collate(share or examples[:1])
        weight = 1.0 if share else 0.0
        return _Share(batch.to(self.device), weight, label_counts(whole))

    def _gradients(
        self, wrapped: torch.nn.Module, share: "_Share"
    ) -> tuple[Float[Tensor, ""], int]:
        """Compute the gradients of a global batch.

        Return this process's part of the mean loss, and the number of labels in the whole batch.
        """
        wrapped.train()
        torch.manual_seed(self._dropout_seed())
        losses = self._losses(wrapped, share.batch, self.recipe.label_smoothing)
        mean_losses = [value / max(1, share.counts[name]) for name, value in losses.items()]
        loss = sum(mean_losses[1:], mean_losses[0]) * share.weight
        self.optimizer.zero_grad()
        # DDP averages over processes; the loss is a sum over them
        (loss * self.processes.n).backward()
        return loss.detach(), sum(share.counts[name] for name in losses)

    def _update(self, loss: Float[Tensor, ""]) -> float:
        """Take one gradient step; return the mean loss over all processes."""
        for group in self.optimizer.param_groups:
            rate = scheduled_rate(self.step + 1, self.model.config.d_model, self.recipe.warmup)
            group["lr"] = self.recipe.learning_rate * rate
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        loss = self.processes.sum(loss)
        # The fused kernel changes no weight where this is 1. Nothing is read from a GPU before it
        # has been given the whole step, so it does not wait for the host.
        self.optimizer.found_inf = (loss + norm).isfinite().logical_not().float()  # type: ignore
        self.optimizer.step()
        # fused Adam does not do it; see models/trace/lazy.py
        torch.autograd.graph.increment_version(self.model.parameters())
        value = float(loss)
        if not math.isfinite(value + float(norm)):  # before any file is written
            where = f"the loss is {value} and its gradient's norm {float(norm)}"
            raise FloatingPointError(
                f"{where} at step {self.step + 1}; try a smaller learning rate"
            )
        return value

    def _dropout_seed(self) -> int:
        """Return the dropout seed, a function of seed, step and process.

        A resumed run therefore needs no generator state.
        """
        return random.Random(f"{self.recipe.seed}/{self.step}/{self.processes.rank}").getrandbits(
            63
        )

    def _losses(self, model: torch.nn.Module, batch: Batch, smoothing: float) -> Losses:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            answers = model(*batch.inputs)
        return self._objective(answers, batch, smoothing)

    def _is_due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.recipe.steps

    @property
    def best_model(self) -> Model:
        """Averaged weights once averaging has started, current ones before."""
        return cast(Model, self.averaged.module) if int(self.averaged.n_averaged) else self.model

    @run_uncompiled()
    @torch.inference_mode()
    def _validate(self) -> dict[str, float]:
        model = self.best_model.eval()
        result = validation_losses(model, self.task, self._losses, self.device)
        result[progress.VALIDATION_LOSS] = self.processes.broadcast(
            result[progress.VALIDATION_LOSS], self.device
        )
        return result | (
            validation_scores(model, self.task, self.recipe.score_cases)
            if self.recipe.score_cases
            else {}
        )

    def _record_step(self, record: StepRecord) -> StepRecord:
        """Store the results of this step; return the record, with warnings if any."""
        is_kept = self.step in snapshot_steps(self.recipe)
        measures = record.validation | (self._snapshot() if is_kept else {})
        if self.step % 20 == 0 or measures:
            row = {"step": self.step, "loss": round(record.loss, 4)}
            self.curve.append(row | {k: round(v, 4) for k, v in measures.items()})
        if record.validation:
            warnings = progress.training_warnings(self.curve, self.recipe.warmup)
            record = replace(record, validation=measures, warnings=warnings)
        if not self.processes.is_first:
            return record
        if record.validation:
            self._save_weights()
        if self._is_due(self.recipe.save_every) or self.stopped_early:
            self.save_state()
        return record

    def _save_weights(self) -> None:
        """Save the weights; with patience, only those of the smallest validation loss."""
        if not self.recipe.patience or self.best_step == self.step:
            self.save_checkpoint()
        else:
            add_to_record(
                self.folder,
                curve=self.curve,
                trained_to=self.step,
                training_seconds=round(self.seconds),
            )

    @run_uncompiled()
    def _snapshot(self) -> dict[str, float]:
        """Keep the weights of this step, if the recipe asks for it; return their measures."""
        if not (self.recipe.snapshots and self.processes.is_first):
            return {}
        model = self.best_model if self.step == self.recipe.steps else self.model
        write_snapshot(self.folder, model, self.step)
        task = self.task
        return task.snapshot_measures(model) if isinstance(task, SnapshotMeasured) else {}

    def save_beginning(self) -> None:
        """Save the weights before the first step, so that the run can be opened from then on."""
        self._snapshot()
        self.save_checkpoint()

    def save_checkpoint(self) -> None:
        save_checkpoint(self.folder, self.best_model, self.task.tokenizer, self.record())

    def record(self) -> dict[str, Any]:
        """Return the content of training.json: the origin of these weights."""
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
            **({"languages": self.languages} if self.languages else {}),
            "examples": [
                case.as_example() for case in self.task.held_out(N_EXAMPLES, validation=True)
            ],
            "example": self._example,
            "held_out": validation_texts(self.task, self.model.config.n_ctx),
            "training_seconds": round(self.seconds),
            "device": str(self.device),
            "processes": self.processes.n,
            "torch": torch.__version__,
            "scores": {},
            "curve": self.curve,
        }

    @cached_property
    def _example(self) -> list[str]:
        return example_fields(self.task, self.model)

    def save_state(self) -> None:
        """Save all that a resumed run needs, in one file, from the first process only."""
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
        """Return to the last saved state; return its step.

        Raises:
            CheckpointError: The state is missing, damaged or of another run.
        """
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
