"""The attention of a run's fixed example under the weights of its snapshots."""

import threading
from dataclasses import dataclass, field

import numpy as np

import models
from models import Trace
from models.architectures.base import Field
from models.training.fixed_example import LARGEST, example_fields
from viz_app.trainers.run import TrainingRun


@dataclass(eq=False)
class ExamplePictures:
    """What a run's example looks like at each step; each snapshot is read once."""

    run: TrainingRun
    trace: Trace | None = None  # at the first snapshot: tokens, sites and masks
    fields: tuple[Field, ...] = ()  # of the model that are typed
    _weights: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def first(self) -> Trace | None:
        """Return the example under the first weights; None while the run has not begun."""
        if self.trace is None and self.run.can_be_opened:
            self.trace = self._run(self.run.snapshots[0])
        return self.trace

    def weights(self, step: int, site: str) -> np.ndarray | None:
        """Return the weights (head, query, key) of a site by the snapshot of a step.

        None where it has too many.

        Raises:
            CheckpointError: The snapshot cannot be read.
        """
        with self._lock:
            if step not in self._weights:
                attention = self._run(step).attention
                self._weights[step] = {
                    name: each.weights().float().numpy()
                    for name, each in attention.items()
                    if each.n_heads * each.n_query * each.n_key <= LARGEST
                }
        return self._weights[step].get(site)

    def _run(self, step: int) -> Trace:
        assert self.run.folder is not None
        scope = models.load(self.run.folder, device="cpu", snapshot=step)
        self.fields = tuple(scope.model.text_fields)
        return scope.run(*example_fields(self.run.settings.opened, scope.model))
