"""The session's place on the page Decoding: step, forced tokens, beam node and mean over heads.

It is stored in the URL, where positions count from 1; here they count from 0. The place belongs to
one source or prompt of one checkpoint, as forced tokens do (run_changes.clear_forced).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from models.runs.scope import Scope
from viz_app.session import url_state
from viz_app.session.parameters import Notation, Parameter, Switch, Whole
from viz_app.session.remembered import recall, remember
from viz_app.session.run_changes import FORCED_CHANGE, force_anew, parse_pairs
from viz_app.views.decoding.payloads import DecodingPosition

_SOURCE = "decoding source"


def _read_node(text: str) -> tuple[int, int] | None:
    return next(((step - 1, rank - 1) for step, rank in parse_pairs(text) if step and rank), None)


def _write_node(node: tuple[int, int]) -> str:
    return f"{node[0] + 1}:{node[1] + 1}"


DECODING_STEP = Whole("step", 1, low=1, high=99_999)
NODE = Notation("node", None, True, read=_read_node, write=_write_node)
MEAN_OF_HEADS = Switch("heads", on="mean")


def current_state(scope: Scope, inputs: tuple[int, ...]) -> DecodingPosition:
    """Return the session's place in these given tokens, a source or a prompt."""
    current = _place()
    source, previous = (str(scope.path), inputs), recall(_SOURCE)
    remember(_SOURCE, source)
    if not url_state.is_url_driven() and previous not in (None, source):
        current = DecodingPosition(forced=current.forced, mean=current.mean)
    current = current.within(scope)
    store_state(current, url_state.correct_value)
    return current


def _place() -> DecodingPosition:
    get = url_state.get
    return DecodingPosition(
        get(DECODING_STEP) - 1, get(FORCED_CHANGE), get(NODE), get(MEAN_OF_HEADS)
    )


def store_state(
    place: DecodingPosition, how: Callable[[Parameter, Any], None] = url_state.set_value
) -> None:
    """Store a place with `how`."""
    for parameter, value in (
        (DECODING_STEP, place.step + 1),
        (FORCED_CHANGE, place.forced),
        (NODE, place.node),
        (MEAN_OF_HEADS, place.mean),
    ):
        how(parameter, value)


def go_to_position(position: int) -> None:
    """Go to this position."""
    url_state.set_value(DECODING_STEP, max(0, position) + 1)


def force_token(position: int, token: int) -> None:
    """Force this token and discard those forced after it; undo if it was forced already."""
    current = _place()
    before = tuple(pair for pair in current.forced if pair[0] < position)
    is_forced = (position, token) in current.forced
    force_anew()
    store_state(
        replace(
            current,
            step=position,
            forced=before if is_forced else (*before, (position, token)),
            node=None,
        )
    )


def discard_forced() -> None:
    """Discard all forced tokens."""
    force_anew()
    store_state(replace(_place(), forced=(), node=None))


def choose_node(step: int, rank: int) -> None:
    """Choose a node of the beam, both numbers from 0."""
    url_state.set_value(NODE, (step, rank))


def choose_mean(mean: bool) -> None:
    """Choose the mean over heads, or one head."""
    url_state.set_value(MEAN_OF_HEADS, mean)
