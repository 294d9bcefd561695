"""The attention of a run's fixed example, with the weights that the run has saved."""

import threading
import time
from dataclasses import dataclass, field

import numpy as np

import models
from models import Trace
from models.architectures.base import Field
from models.checkpoint_files import WEIGHTS, snapshots
from models.errors import CheckpointError, InputError
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
    fields: tuple[Field, ...] = ()  # the text fields of the model
    problem: str = ""  # why the last weights could not be drawn
    _begun: int = 0  # `begun` of the run that the pictures belong to
    _weights: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    _retry_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def first(self) -> Trace | None:
        """Return the run of the example with the first weights; None if none can be read."""
        with self._lock:
            if self._begun != self.run.begun:
                self._begun, self.trace, self._retry_at = self.run.begun, None, 0.0
                self._weights.clear()
            if self.trace is None and self.run.can_be_opened:
                self.trace = self._try_run(self.run.snapshots[0])
        return self.trace

    def weights(self, step: int, site: str) -> np.ndarray | None:
        """Return the attention weights (head, query, key) of a site at a saved step.

        None if there are too many, or if the step cannot be read: `problem` then says why.
        """
        with self._lock:
            if step not in self._weights:
                if (trace := self._try_run(step)) is None:
                    return None
                self._weights[step] = {
                    name: each.weights().float().numpy()
                    for name, each in trace.attention.items()
                    if each.n_heads * each.n_query * each.n_key <= MAX_WATCHED_WEIGHTS
                }
                while len(self._weights) > N_KEPT_STEPS:
                    self._weights.pop(next(iter(self._weights)))
        return self._weights[step].get(site)

    def _try_run(self, step: int) -> Trace | None:
        if time.monotonic() < self._retry_at:
            return None
        try:
            trace = self._run(step)
        except (CheckpointError, ValueError, TypeError, RuntimeError, OSError) as error:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            message = without_folder(str(error), self.run.folder) if self.run.folder else str(error)
            what = "run's example" if isinstance(error, InputError) else f"weights of step {step:,}"
            self.problem = f"The {what} cannot be drawn: {message}"
            return None
        self.problem = ""
        return trace

    def _run(self, step: int) -> Trace:
        """Run the example with the weights of a step.

        Raises:
            CheckpointError: The weights cannot be read, or others have replaced them.
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
