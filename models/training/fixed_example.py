"""The held-out example whose attention is watched while a model is trained."""

import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from models.architectures import Model
from models.checkpoint import Checkpoint
from models.errors import InputError
from models.evaluation_mode import evaluating
from models.runs.inputs import encode_fields
from models.runs.scope import Scope
from models.trace import record
from models.training.task import Case, Task

MAX_WATCHED_WEIGHTS = 2**15  # weights in one report; a site with more is not watched


def example_fields(task: Task, model: Model) -> list[str]:
    """Return the texts of the model's fields for a validation case, with its answer.

    It is the first one that fits into the model's context, or else the first. Empty if the
    validation split has no case, as for a very short text.
    """
    texts = [_fields_of(case, model) for case in task.held_out(validation=True)]
    fitting = (fields for fields in texts if _fits(fields, task, model))
    return next(fitting, texts[0] if texts else [])


def _fields_of(case: Case, model: Model) -> list[str]:
    fields = case.fields
    # without the answer the model would write its own, a different one at every step
    return [*fields, case.references[0]] if model.translates and len(fields) == 1 else fields


def _fits(fields: list[str], task: Task, model: Model) -> bool:
    try:
        encode_fields(model.fields, fields, task.tokenizer, model.stream_limit)
    except InputError:
        return False
    return True


class FixedExample:
    """The attention of a model in training on its task's `example_fields`."""

    def __init__(self, task: Task, model: Model) -> None:
        scope = Scope(Checkpoint(Path(), model, task.tokenizer, {}), model.device)
        self._model, self._inputs = model, None
        if fields := example_fields(task, model):
            with suppress(InputError):  # longer than the model's context
                row = model.completed(scope.encode(*fields), task.tokenizer)
                self._inputs = model.inputs([row])

    @torch.no_grad()
    def weights(self, site: str) -> dict[str, Any]:
        """Return the weights (head, query, key) of a site as a report; empty if it has none.

        Training mode and torch's generator are as before.
        """
        if self._inputs is None:
            return {}
        with evaluating(self._model), record() as recording:
            self._model(*self._inputs)
        if site not in recording.attention:
            return {}
        weights = recording.attention[site].weights(None, 0).float().cpu()
        if weights.numel() > MAX_WATCHED_WEIGHTS:
            return {}
        raw = base64.b64encode(weights.contiguous().numpy().tobytes()).decode()
        return {"site": site, "shape": list(weights.shape), "float32": raw}
