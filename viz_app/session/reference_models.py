"""Trained reference models for pages that need a part which the shown model lacks.

They are shipped checkpoints of the same task and tokens.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import models
from models import Scope
from models.checkpoint import CheckpointError
from viz_app import checkpoints
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun

REFERENCE_CHECKPOINTS = {
    "translation": ("eng-fra-bahdanau", "eng-fra"),
    "dates": ("dates-bahdanau", "dates"),
}


def reference_names(task: str) -> tuple[str, ...]:
    """Return the names of the reference checkpoints of a task, the recurrent one first."""
    return REFERENCE_CHECKPOINTS.get(task, ())


def suitable_scope(run: CurrentRun, suits: Callable[[Scope], bool]) -> Scope | None:
    """Return the shown model if it suits, else the first reference model that does, or None.

    A reference model has to read the text as the same tokens.
    """
    if suits(run.scope):
        return run.scope
    for name in reference_names(run.scope.task):
        if (
            name in models.shipped()
            and suits(scope := cache.scope(name))
            and same_tokens(scope, run)
        ):
            return scope
    return None


def of_same_data(run: CurrentRun, suits: Callable[[Scope], bool]) -> Scope | None:
    """Return the shown model if it suits, else the longest trained shipped model of the same data.

    That model has to suit, too, and to read the text as the same tokens; None if there is none.
    """
    if suits(run.scope):
        return run.scope
    task, data = run.scope.task, run.scope.training.get("data")
    scopes = [
        cache.scope(name) for name in models.shipped() if data and _record(name) == (task, data)
    ]
    suitable = [scope for scope in scopes if suits(scope) and same_tokens(scope, run)]
    return max(suitable, key=lambda scope: scope.training.get("step", 0), default=None)


def _record(name: str) -> tuple[str, object]:
    """Return the task and the data of a shipped checkpoint from its record, without opening it."""
    record = cache.description(name).training
    return record.get("task", ""), record.get("data")


LAMBDA = "lm_weight"  # λ of L3 = L2 + λ·L1, in the record of the data


def alike_but_for_lambda(scope: Scope) -> dict[str, tuple[str, float]]:
    """Return all offered checkpoints that differ from this one only in λ, itself included.

    The result maps a name to (folder, λ), sorted by λ; it is empty if the record has no λ.
    """
    if (recipe := _but_for_lambda(scope.training)) is None:
        return {}
    alike = {}
    for name, folder in checkpoints.offered().items():
        with suppress(CheckpointError):
            training = cache.description(folder).training
            if _but_for_lambda(training) == recipe:
                alike[name] = folder, float(training["data"][LAMBDA])
    return dict(sorted(alike.items(), key=lambda item: item[1][1]))


def _but_for_lambda(training: dict[str, Any]) -> tuple[object, ...] | None:
    """Return the training record without λ; None if it has no λ."""
    data = training.get("data")
    if not isinstance(data, dict) or not isinstance(data.get(LAMBDA), int | float):
        return None
    rest = {name: value for name, value in data.items() if name != LAMBDA}
    return training.get("task"), rest, training.get("recipe"), training.get("start")


def same_tokens(scope: Scope, run: CurrentRun) -> bool:
    """Return True if this model encodes the shown source as the same tokens and ids."""
    row, theirs = (
        scope.encode(source=run.trace.streams["source"].text)["source"],
        run.trace.streams["source"],
    )
    return row.ids == theirs.ids and row.tokens == theirs.tokens
