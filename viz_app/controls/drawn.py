"""The controls that a page draws, for pages that need no server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DrawnChoice:
    """A choice of one of a few options: their names, and `choose`, which takes a number."""

    key: str
    label: str
    help: str
    names: tuple[str, ...]
    chosen: int
    choose: Callable[[int], None]


@dataclass(frozen=True)
class DrawnControls:
    """The choices among a few options, and the texts of the boxes by label."""

    choices: list[DrawnChoice] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)


_drawn: ContextVar[DrawnControls | None] = ContextVar("drawn controls", default=None)


@contextmanager
def drawn_controls() -> Iterator[DrawnControls]:
    """Collect the controls that are drawn in the block."""
    controls = DrawnControls()
    token = _drawn.set(controls)
    try:
        yield controls
    finally:
        _drawn.reset(token)


def note_choice(choice: DrawnChoice) -> None:
    """Add a choice to the controls that are collected, if any are."""
    if controls := _drawn.get():
        controls.choices.append(choice)


def note_text(label: str, text: str) -> None:
    """Add the text of a box to the controls that are collected, if any are."""
    if controls := _drawn.get():
        controls.texts[label] = text
