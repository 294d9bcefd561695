"""Which trained model stands in where the shown one lacks a part: a shipped checkpoint of the same task and tokens."""

import json
from collections.abc import Callable

import models
from models import Scope
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun

SHIPPED = {"translation": ("eng-fra-bahdanau", "eng-fra"), "dates": ("dates-bahdanau", "dates")}


def named(task: str) -> tuple[str, ...]:
    """The names looked for, the recurrent one first."""
    return SHIPPED.get(task, ())


def one_that(shown: CurrentRun, suits: Callable[[Scope], bool]) -> Scope | None:
    """The shown model if it suits; else the first shipped one of its task that does and reads the text as the same tokens."""
    if suits(shown.scope):
        return shown.scope
    for name in named(shown.scope.task):
        if name in models.shipped() and suits(scope := cache.scope(name)) and same_tokens(scope, shown):
            return scope
    return None


def of_same_data(shown: CurrentRun, suits: Callable[[Scope], bool]) -> Scope | None:
    """The shown model if it suits; else, of the shipped ones that learned from the same data and read the text as the same tokens,
    the longest trained that does."""
    if suits(shown.scope):
        return shown.scope
    task, data = shown.scope.task, shown.scope.training.get("data")
    found = [cache.scope(name) for name in models.shipped() if data and _record(name) == (task, data)]
    able = [scope for scope in found if suits(scope) and same_tokens(scope, shown)]
    return max(able, key=lambda scope: scope.training.get("step", 0), default=None)


def _record(name: str) -> tuple[str, object]:
    """Which task a shipped checkpoint learned, and from what data, without opening it."""
    record = json.loads((models.scope.shipped_folder() / name / "training.json").read_text("utf-8"))
    return record.get("task", ""), record.get("data")


def same_tokens(scope: Scope, shown: CurrentRun) -> bool:
    """Whether this model reads the shown source as the same row of tokens, under the same ids."""
    own, there = scope.encode(source=shown.trace.streams["source"].text)["source"], shown.trace.streams["source"]
    return own.ids == there.ids and own.tokens == there.tokens
