"""The attention of a run's fixed example under the weights that it keeps."""

import threading
import time
from dataclasses import dataclass, field

import numpy as np

import models
from models import Trace
from models.architectures.base import Field
from models.checkpoint_files import WEIGHTS, snapshots
from models.errors import CheckpointError
from models.training.fixed_example import MAX_WATCHED_WEIGHTS
from viz_app.trainers.run import TrainingRun
from viz_app.trainers.watched import WatchedRun, without_folder

N_KEPT_STEPS = 100  # steps whose pictures are kept
RETRY_SECONDS = 2.0  # s until weights that could not be read are tried again
MAX_SNAPSHOT_BYTES = 2**27  # bytes of weights


@dataclass(eq=False)
class ExamplePictures:
    """Pictures of a run's example at each step; the weights of each are read once."""

    run: TrainingRun | WatchedRun
    trace: Trace | None = None  # at the first kept step: tokens, sites and masks
    fields: tuple[Field, ...] = ()  # of the model that are typed
    problem: str = ""  # why the last weights could not be drawn
    _begun: int = 0  # which run of the folder they belong to
    _weights: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    _again: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def first(self) -> Trace | None:
        """Return the example under the first weights; None if there is none that can be read."""
        with self._lock:
            if self._begun != self.run.begun:
                self._begun, self.trace, self._again = self.run.begun, None, 0.0
                self._weights.clear()
            if self.trace is None and self.run.can_be_opened:
                self.trace = self._tried(self.run.snapshots[0])
        return self.trace

    def weights(self, step: int, site: str) -> np.ndarray | None:
        """Return the weights (head, query, key) of a site by those kept at a step.

        None where it has too many, or where they cannot be read: then `problem` says why.
        """
        with self._lock:
            if step not in self._weights:
                if (trace := self._tried(step)) is None:
                    return None
                self._weights[step] = {
                    name: each.weights().float().numpy()
                    for name, each in trace.attention.items()
                    if each.n_heads * each.n_query * each.n_key <= MAX_WATCHED_WEIGHTS
                }
                while len(self._weights) > N_KEPT_STEPS:
                    self._weights.pop(next(iter(self._weights)))
        return self._weights[step].get(site)

    def _tried(self, step: int) -> Trace | None:
        if time.monotonic() < self._again:
            return None
        try:
            trace = self._run(step)
        except (CheckpointError, ValueError, TypeError, RuntimeError, OSError) as error:
            self._again = time.monotonic() + RETRY_SECONDS
            message = without_folder(str(error), self.run.folder) if self.run.folder else str(error)
            self.problem = f"The weights of step {step:,} cannot be drawn: {message}"
            return None
        self.problem = ""
        return trace

    def _run(self, step: int) -> Trace:
        """Return the example under the weights of a step.

        Raises:
            CheckpointError: They cannot be read, or were replaced by those of another step.
        """
        folder = self.run.folder
        assert folder is not None
        snapshot = step if step in snapshots(folder) else None
        if snapshot is None and (folder / WEIGHTS).stat().st_size > MAX_SNAPSHOT_BYTES:
            raise CheckpointError(f"they are larger than {MAX_SNAPSHOT_BYTES:,} bytes")
        scope = models.load(folder, device="cpu", snapshot=snapshot)
        if scope.training.get("step") != step:
            raise CheckpointError("they have been replaced by newer ones")
        self.fields = tuple(scope.model.text_fields)
        return scope.run(*self.run.example(scope.model))
