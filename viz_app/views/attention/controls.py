"""What is chosen in the pictures of the page Attention: how strongly weights are drawn, and which part of a long text."""

from viz_app.controls.tile import choose_tile
from viz_app.drawing.scale import NAMES, WEIGHT, Scale
from viz_app.session import url_state
from viz_app.session.focus import lock_token
from viz_app.session.parameters import Choice, Switch

SCALE, HIDES = (
    Choice("strength", WEIGHT, is_step=False, options=tuple(NAMES)),
    Switch("hide-sinks", is_step=False),
)
WORDS = Switch("words")  # sub-words joined


def scale() -> Scale:
    """How strongly weights are drawn."""
    return Scale(url_state.get(SCALE), url_state.get(HIDES))


def choose_scale(name: str, hides_sinks: bool) -> None:
    """Draw weights on the scale of this name, with [start] and [end] or without."""
    url_state.keep(SCALE, SCALE.from_url([name]))
    url_state.keep(HIDES, hides_sinks)


def joins() -> bool:
    """Return True if sub-words are joined to words."""
    return url_state.get(WORDS)


def choose_words(joins: bool) -> None:
    """Join sub-words to words, or show tokens; a held token and a part of a long text are counted in the one or the other."""
    url_state.keep(WORDS, joins)
    lock_token("")
    choose_tile(None)
