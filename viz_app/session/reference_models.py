"""Which trained model stands in where the shown one lacks a part: a shipped checkpoint of the same task and tokens."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import models
from models import Scope
from models.checkpoint import CheckpointError
from viz_app import checkpoints
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun

SHIPPED = {"translation": ("eng-fra-bahdanau", "eng-fra"), "dates": ("dates-bahdanau", "dates")}


def named(task: str) -> tuple[str, ...]:
    """The names looked for, the recurrent one first."""
    return SHIPPED.get(task, ())


def one_that(run: CurrentRun, suits: Callable[[Scope], bool]) -> Scope | None:
    """The shown model if it suits; else the first shipped one of its task that does and reads the text as the same tokens."""
    if suits(run.scope):
        return run.scope
    for name in named(run.scope.task):
        if (
            name in models.shipped()
            and suits(scope := cache.scope(name))
            and same_tokens(scope, run)
        ):
            return scope
    return None


def of_same_data(run: CurrentRun, suits: Callable[[Scope], bool]) -> Scope | None:
    """The shown model if it suits; else, of the shipped ones that learned from the same data and read the text as the same tokens,
    the longest trained that does."""
    if suits(run.scope):
        return run.scope
    task, data = run.scope.task, run.scope.training.get("data")
    found = [
        cache.scope(name) for name in models.shipped() if data and _record(name) == (task, data)
    ]
    able = [scope for scope in found if suits(scope) and same_tokens(scope, run)]
    return max(able, key=lambda scope: scope.training.get("step", 0), default=None)


def _record(name: str) -> tuple[str, object]:
    """Which task a shipped checkpoint learned, and from what data, without opening it."""
    record = json.loads(
        (models.opening.shipped_folder() / name / "training.json").read_text("utf-8")
    )
    return record.get("task", ""), record.get("data")


LAMBDA = "lm_weight"  # λ of L3 = L2 + λ·L1, in the record of the data


def alike_but_for_lambda(scope: Scope) -> dict[str, tuple[str, float]]:
    """The offered checkpoints that were trained as this one but for λ, it among them: name → folder and λ, by λ. None where its
    record has no λ."""
    if (own := _but_for_lambda(scope.training)) is None:
        return {}
    found = {}
    for name in checkpoints.available():
        with suppress(CheckpointError):
            training = cache.description(folder := checkpoints.folder(name)).training
            if _but_for_lambda(training) == own:
                found[name] = folder, float(training["data"][LAMBDA])
    return dict(sorted(found.items(), key=lambda item: item[1][1]))


def _but_for_lambda(training: dict[str, Any]) -> tuple[object, ...] | None:
    """Everything that a record says of a run with a λ, but that."""
    data = training.get("data")
    if not isinstance(data, dict) or not isinstance(data.get(LAMBDA), int | float):
        return None
    rest = {name: value for name, value in data.items() if name != LAMBDA}
    return training.get("task"), rest, training.get("recipe"), training.get("start")


def same_tokens(scope: Scope, run: CurrentRun) -> bool:
    """Return True if this model reads the shown source as the same row of tokens, under the same ids."""
    own, there = (
        scope.encode(source=run.trace.streams["source"].text)["source"],
        run.trace.streams["source"],
    )
    return own.ids == there.ids and own.tokens == there.tokens
