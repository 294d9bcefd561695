"""The same trained weights under another similarity: a choice in the controls, and what it does to the run shown."""

from dataclasses import replace

import streamlit as st

from models.seq2seq import Seq2Seq
from models.similarity import KINDS
from models.trace import AttentionSite, Trace
from viz_app import cache, parts, state, words
from viz_app.sidebar import Shown

SIMILARITY = "similarity"
_WIDGET = "similarity-choice"


def other(shown: Shown) -> str:
    """The similarity asked for instead of the model's own; empty for its own, and where it cannot be exchanged."""
    kept = state.kept(SIMILARITY)
    if isinstance(shown.scope.model, Seq2Seq) or kept not in KINDS or kept == shown.scope.config.similarity:
        return ""
    return kept


def choose(shown: Shown) -> Shown:
    """Draw the choice; returns the run under the similarity chosen, of the same source and target. An RNN has none to choose."""
    if isinstance(shown.scope.model, Seq2Seq):
        return shown
    own = shown.scope.config.similarity
    st.session_state[_WIDGET] = other(shown) or own

    def chosen() -> None:
        name = st.session_state[_WIDGET]
        state.keep(SIMILARITY, None if name == own else name)

    st.selectbox(
        "Similarity", list(KINDS), key=_WIDGET, on_change=chosen, width=230,
        format_func=lambda name: f"{name} (trained with)" if name == own else f"{name}: {KINDS[name].formula}",
        help="How query and key are compared. Any but the model's own runs the same weights as they were never trained.",
    )
    name = other(shown)
    if not name:
        return shown
    st.badge("not trained so", icon=":material/warning:", color="orange")
    return replace(shown, trace=cache.swapped_trace(shown.scope, name, shown.trace))


def say(shown: Shown, then: Shown, site: AttentionSite, head: int) -> None:
    """What the exchange has done to this head and to what the model says; nothing if there was none."""
    if name := other(shown):
        parts.note(st.empty(), swapped(shown.trace, then.trace, site, head, name, shown.scope.config.similarity), key="swapped")


def swapped(own: Trace, then: Trace, site: AttentionSite, head: int, name: str, trained: str) -> str:
    """How far this head's weights have moved, and how many next tokens the model would still say."""
    apart = (own.attention[site.name].weights(head) - site.weights(head)).abs().sum(-1).mean() / 2
    same = sum(a == b for a, b in zip(own.predicted, then.predicted, strict=True))
    return (
        f"{words.place(site, head)} of a model trained with the {trained} similarity, here scored by {name}: on average "
        f"{100 * float(apart):.0f} % of a row's attention goes elsewhere. Given the same text, {same} of {len(own.predicted)} next "
        f"tokens are as before: {then.output or '(nothing)'}"
    )
