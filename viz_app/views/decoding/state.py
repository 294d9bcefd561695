"""Where the Decoding page stands: the step, the forced tokens, the beam node and the mean over heads, also in the URL.

Positions are counted from 0 here and from 1 in the URL. Forced tokens belong to one source or prompt of one checkpoint; when
it is edited or another checkpoint opened they are cleared, and the page says so.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from models.runs.scope import Scope
from viz_app.session import url_state
from viz_app.session.parameters import Notation, Parameter, Switch, Whole
from viz_app.session.run_changes import FORCED, pairs
from viz_app.views.decoding.payloads import Place

_SOURCE, _CLEARED = "decoding source", "decoding cleared"


def _read_node(text: str) -> tuple[int, int] | None:
    return next(((step - 1, rank - 1) for step, rank in pairs(text) if step and rank), None)


def _write_node(node: tuple[int, int]) -> str:
    return f"{node[0] + 1}:{node[1] + 1}"


STEP = Whole("step", 1, low=1, high=99_999)
NODE = Notation("node", None, True, read=_read_node, write=_write_node)
MEAN = Switch("heads", on="mean")


def place(scope: Scope, given: tuple[int, ...]) -> Place:
    """Where this session stands on these given tokens: a source, or a prompt."""
    found = _place()
    source, previous = (str(scope.path), given), st.session_state.get(_SOURCE)
    st.session_state[_SOURCE] = source
    if url_state.follows():
        st.session_state[_CLEARED] = False
    elif previous not in (None, source):
        st.session_state[_CLEARED] = bool(found.forced)
        found = Place(mean=found.mean)
    found = found.within(scope)
    keep(found, url_state.put_right)
    return found


def _place() -> Place:
    get = url_state.get
    return Place(get(STEP) - 1, get(FORCED), get(NODE), get(MEAN))


def keep(place: Place, how: Callable[[Parameter, Any], None] = url_state.keep) -> None:
    """Remember it."""
    for parameter, value in (
        (STEP, place.step + 1),
        (FORCED, place.forced),
        (NODE, place.node),
        (MEAN, place.mean),
    ):
        how(parameter, value)


def cleared() -> bool:
    """Return True if forced tokens were let go because the source changed, and none has been forced since."""
    return bool(st.session_state.get(_CLEARED))


def go(position: int) -> None:
    """The reader stands at this position."""
    url_state.keep(STEP, max(0, position) + 1)


def force(position: int, token: int) -> None:
    """Take this token at this position and forget what was forced behind it; the same token again lets it go."""
    old = _place()
    before = tuple(pair for pair in old.forced if pair[0] < position)
    again = (position, token) in old.forced
    st.session_state[_CLEARED] = False
    keep(
        replace(
            old, step=position, forced=before if again else (*before, (position, token)), node=None
        )
    )


def let_go() -> None:
    """No token is forced any more."""
    st.session_state[_CLEARED] = False
    keep(replace(_place(), forced=(), node=None))


def choose_node(step: int, rank: int) -> None:
    """A node of the beam, both counted from 0."""
    url_state.keep(NODE, (step, rank))


def choose_mean(mean: bool) -> None:
    """The mean over heads instead of one head."""
    url_state.keep(MEAN, mean)
