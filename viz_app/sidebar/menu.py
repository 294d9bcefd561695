"""The models to pick from, in the order of their tasks and of history, each with a line of what it is and how good it is."""

from contextlib import suppress
from pathlib import Path

from models.checkpoint import CheckpointError, Description
from models.printable import printable
from viz_app import checkpoints, words
from viz_app.session import cache


def options() -> dict[str, str]:
    """The name of each checkpoint that can be picked → its line in the menu."""
    found = {name: description(name) for name in checkpoints.available()}
    return {
        name: line(name, found[name])
        for name in sorted(found, key=lambda name: _place(name, found[name]))
    }


def description(name: str) -> Description | None:
    """What a checkpoint that is offered says of itself; None if it cannot be read, which is said when it is picked."""
    with suppress(CheckpointError):
        return cache.description(checkpoints.folder(name))
    return None


def line(name: str, description: Description | None) -> str:
    """One line of the menu: the name, what it is for, what kind of model it is, and its first score."""
    if description is None:
        own = name == checkpoints.module()
        return printable(f"{Path(name).name} — own module" if own else f"{name} — cannot be read")
    task, first = _task(description), list(description.training.get("scores", {}).items())[:1]
    score = words.score_summary(dict(first)).removeprefix("held-out ")
    said = filter(None, [words.TASKS.get(task, task), description.family.name, score])
    return printable(f"{name} — {'; '.join(said)}")


def _task(description: Description) -> str:
    return description.training.get("task", "")


def _place(name: str, description: Description | None) -> tuple[bool | int | str, ...]:
    """What the menu is sorted by: known tasks, other ones, what cannot be read; then history."""
    if description is None:
        return True, 0, "", 0, "", name
    task, known, family = _task(description), list(words.TASKS), description.family
    return (
        False,
        known.index(task) if task in known else len(known),
        task,
        family.year,
        family.name,
        name,
    )
