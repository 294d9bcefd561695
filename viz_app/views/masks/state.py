"""What the page Masks has changed, kept in the session and in the URL: a short text for each kind of attention."""

from collections.abc import Iterable

import streamlit as st

from models.trace import AttentionSite, Trace
from models.trace.edits import MaskChange, MaskChanges
from viz_app.session import url_state
from viz_app.views.masks import notation as masks_notation

SECOND, WHICH = "masks-second", "masks-shown"
_PARAMS = {"encoder_self": "encoder-mask", "decoder_self": "decoder-mask", "cross": "cross-mask"}
_CHANGES, _PUBLISHED = "masks changes", "masks published"
_VIEW, _VIEW_PARAM, _FIRST = "masks view", "mask", "decoder_self"


def changes(trace: Trace) -> MaskChanges:
    """The changes of this session to the kinds of attention that this trace has; a pasted URL is followed."""
    params = {name: st.query_params[name] for name in _PARAMS.values() if name in st.query_params}
    if params and params != st.session_state.get(_PUBLISHED):
        texts = {kind: params.get(name, "") for kind, name in _PARAMS.items()}
        st.session_state[_CHANGES] = MaskChanges(**{kind: masks_notation.from_text(text) for kind, text in texts.items()})
    found = st.session_state.setdefault(_CHANGES, MaskChanges())
    _publish(found)
    there = {site.kind for site in trace.attention.values()}
    return MaskChanges(**{kind: found.of(kind) for kind in there})


def _publish(found: MaskChanges) -> None:
    texts = {name: masks_notation.to_text(found.of(kind)) for kind, name in _PARAMS.items()}
    params = {name: text for name, text in texts.items() if text}
    st.session_state[_PUBLISHED] = params
    for name in _PARAMS.values():
        if name in params and st.query_params.get(name) != params[name]:
            st.query_params[name] = params[name]
        elif name not in params and name in st.query_params:
            del st.query_params[name]


def _keep(kind: str, change: MaskChange) -> None:
    found: MaskChanges = st.session_state.get(_CHANGES, MaskChanges()).replaced(kind, change)
    st.session_state[_CHANGES] = found
    _publish(found)


def _of(kind: str) -> MaskChange:
    return st.session_state.get(_CHANGES, MaskChanges()).of(kind)


def choose(kind: str, ready: str, k: int) -> None:
    """Take a ready-made mask."""
    _keep(kind, masks_notation.choose(kind, _of(kind), ready, k))


def mask_padding(kind: str, on: bool) -> None:
    """Mask padding, or let it be read."""
    _keep(kind, masks_notation.mask_padding(_of(kind), on))


def paint(kind: str, cells: Iterable[tuple[int, int, int]]) -> None:
    """Have exactly these painted cells: (query, key, 0 = forbidden or 1 = allowed)."""
    _keep(kind, masks_notation.paint(_of(kind), cells))


def undo() -> None:
    """The model's own masks again, everywhere."""
    st.session_state[_CHANGES] = MaskChanges()
    _publish(MaskChanges())


def view(trace: Trace) -> tuple[str, AttentionSite, int]:
    """The kind whose mask is painted, and the site and head shown with it: those chosen on the other pages if they are
    of that kind or were chosen here, else that kind's of the same layer."""
    asked = st.session_state.get(_VIEW) or st.query_params.get(_VIEW_PARAM, "")
    kind, _, own = asked.partition(".")
    there = {site.kind for site in trace.attention.values()}
    kind = next(k for k in (kind, _FIRST, *_PARAMS) if k in there)
    site, focus = url_state.focus(trace)
    if site.kind != kind and not own:
        sites = [s for s in trace.attention.values() if s.kind == kind]
        site = sites[min(site.layer, len(sites) - 1)]
    _look(kind, bool(own))
    return kind, site, min(focus.head, site.n_heads - 1)


def _look(kind: str, own: bool) -> None:
    st.session_state[_VIEW] = st.query_params[_VIEW_PARAM] = kind + (".own" if own else "")


def show_kind(kind: str) -> None:
    """Paint on this kind's mask, and look at one of its heads."""
    if kind in _PARAMS:
        _look(kind, own=False)


def look_at(kind: str, site: str, head: int) -> None:
    """Look at this head, of whatever kind it is, while painting on this kind's mask."""
    url_state.pick(site, head)
    _look(kind, own=True)
