"""What is chosen on the page Task."""

from dataclasses import dataclass

from viz_app.session.focus import Focus


@dataclass(frozen=True)
class Choices:
    """A position of the stream that an output lines up with, from 0, None for a telling one; the head whose rows are shown."""

    position: int | None
    focus: Focus
