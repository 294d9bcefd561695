"""Where the Decoding page stands: the step, the forced tokens, the beam node and the mean over heads, also in the URL.

Positions are counted from 0 here and from 1 in the URL. Forced tokens belong to one source of one checkpoint; when the
source is edited or another checkpoint opened they are cleared, and the page says so.
"""

import re
from dataclasses import dataclass, replace

import streamlit as st

from models.scope import Scope
from models.tokenizers.base import PAD, START
from models.trace import Trace

_PLACE, _OF, _CLEARED = "decoding place", "decoding place of", "decoding cleared"
_NAMES = ("step", "force", "node", "heads")


@dataclass(frozen=True)
class Place:
    """The step; the forced (position, token) pairs in order; the node of the beam as (step, rank); all heads or one."""

    step: int = 0
    forced: tuple[tuple[int, int], ...] = ()
    node: tuple[int, int] | None = None
    mean: bool = False

    def as_params(self) -> dict[str, str]:
        params = {
            "step": str(self.step + 1) if self.step else "",
            "force": ",".join(f"{position + 1}:{token}" for position, token in self.forced),
            "node": f"{self.node[0] + 1}:{self.node[1] + 1}" if self.node else "",
            "heads": "mean" if self.mean else "",
        }
        return {name: value for name, value in params.items() if value}

    @classmethod
    def from_params(cls, params: dict[str, str]) -> "Place":
        """What a URL asks for; anything unreadable in it is left out."""
        pairs = _pairs(params.get("force", ""))
        step, node = params.get("step", ""), _pairs(params.get("node", ""))
        return cls(
            int(step) - 1 if re.fullmatch(r"[1-9]\d{0,4}", step) else 0,
            tuple(sorted({position - 1: token for position, token in pairs if position}.items())),
            next(((s - 1, rank - 1) for s, rank in node if s and rank), None),
            params.get("heads") == "mean",
        )

    def within(self, scope: Scope) -> "Place":
        """Without forced tokens that this model does not have, or may not write."""
        legal = tuple(
            (p, t) for p, t in self.forced if p < scope.n_ctx and t < scope.config.vocab_size and t not in (PAD, START)
        )
        return replace(self, forced=legal)


def _pairs(text: str) -> list[tuple[int, int]]:
    found = (re.fullmatch(r"(\d{1,5}):(\d{1,6})", part) for part in text.split(",")[:200])
    return [(int(m[1]), int(m[2])) for m in found if m]


def place(scope: Scope, trace: Trace) -> Place:
    """Where this session stands on this source; a pasted URL is followed once, when the page first opens."""
    of = (str(scope.path), trace.source.ids)
    found: Place | None = st.session_state.get(_PLACE)
    if found is None:
        found = Place.from_params({name: st.query_params[name] for name in _NAMES if name in st.query_params})
        st.session_state[_CLEARED] = False
    elif st.session_state.get(_OF) != of:
        st.session_state[_CLEARED] = bool(found.forced)
        found = replace(found, forced=(), node=None, step=0)
    st.session_state[_OF] = of
    found = found.within(scope)
    keep(found)
    return found


def keep(found: Place) -> None:
    """Remember it and write it to the URL."""
    st.session_state[_PLACE] = found
    params = found.as_params()
    for name in _NAMES:
        if name in params and st.query_params.get(name) != params[name]:
            st.query_params[name] = params[name]
        elif name not in params and name in st.query_params:
            del st.query_params[name]


def _change(**parts: object) -> None:
    st.session_state[_PLACE] = replace(st.session_state.get(_PLACE, Place()), **parts)


def cleared() -> bool:
    """Whether forced tokens were let go because the source changed, and none has been forced since."""
    return bool(st.session_state.get(_CLEARED))


def go(position: int) -> None:
    """The reader stands at this position."""
    _change(step=max(0, position))


def force(position: int, token: int) -> None:
    """Take this token at this position and forget what was forced behind it; the same token again lets it go."""
    old = st.session_state.get(_PLACE, Place())
    before = tuple(pair for pair in old.forced if pair[0] < position)
    again = (position, token) in old.forced
    st.session_state[_CLEARED] = False
    _change(step=position, forced=before if again else (*before, (position, token)), node=None)


def let_go() -> None:
    """No token is forced any more."""
    st.session_state[_CLEARED] = False
    _change(forced=(), node=None)


def choose_node(step: int, rank: int) -> None:
    """A node of the beam, both counted from 0."""
    _change(node=(step, rank))


def choose_mean(mean: bool) -> None:
    """The mean over heads instead of one head."""
    _change(mean=mean)
