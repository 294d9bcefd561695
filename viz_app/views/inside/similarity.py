"""The same trained weights under another similarity: a choice in the controls, and what it does to the run shown."""

from dataclasses import replace

import streamlit as st

from models.architectures.seq2seq import Seq2Seq
from models.layers.similarity import KINDS
from models.trace import AttentionSite, Trace
from viz_app import ui, words
from viz_app.components.plain import plain
from viz_app.session import cache, url_state
from viz_app.session.current_run import Shown
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice

SIMILARITY = Choice("similarity")       # none is the model's own
_WIDGET, _NOTE = "similarity-choice", "note swapped"


def other(shown: Shown) -> str:
    """The similarity asked for instead of the model's own; empty for its own, and where it cannot be exchanged."""
    kept = url_state.get(SIMILARITY)
    if isinstance(shown.scope.model, Seq2Seq) or kept not in KINDS or kept == shown.scope.config.similarity:
        return ""
    return kept


def choose(shown: Shown) -> str:
    """Draw the choice; returns what `other` does. An RNN has none to choose."""
    if isinstance(shown.scope.model, Seq2Seq):
        return ""
    own = shown.scope.config.similarity
    st.session_state[_WIDGET] = other(shown) or own

    def chosen() -> None:
        name = st.session_state[_WIDGET]
        url_state.keep(SIMILARITY, None if name == own else name)

    st.selectbox(
        "Similarity", list(KINDS), key=_WIDGET, on_change=chosen, width=230,
        format_func=lambda name: f"{name} (trained with)" if name == own else f"{name}: {KINDS[name].formula}",
        help="How query and key are compared. Any but the model's own runs the same weights as they were never trained; what it "
        "learns besides (t, M, or W, U and v) begins as in a new model.",
    )
    name = other(shown)
    if name:
        st.badge("not trained so", icon=":material/warning:", color="orange")
    return name


def under(shown: Shown, name: str) -> Shown:
    """The same source and target under the similarity of this name, "" for the model's own."""
    return replace(shown, trace=cache.swapped_trace(shown.scope, name, shown.trace)) if name else shown


def said(own: Shown, then: Shown, site: str, head: int, name: str) -> Pictures:
    """What the exchange has done to this head and to what the model says; nothing if there was none."""
    if not name:
        return {}
    text = swapped(own.trace, then.trace, then.trace.attention[site], head, name, own.scope.config.similarity)
    return {_NOTE: ui.small_print(text)}


def say(drawn: Pictures) -> None:
    """Draw what `said` has put among the pictures."""
    if _NOTE in drawn:
        plain(drawn[_NOTE], key=_NOTE)


def trained(shown: Shown, name: str) -> str:
    """How the weights came about, and how good they are under the similarity of this name, "" for the model's own."""
    record = shown.scope.training
    return words.trained_otherwise(record, shown.scope.config.similarity, name) if name else words.trained(record)


def swapped(own: Trace, then: Trace, site: AttentionSite, head: int, name: str, trained: str) -> str:
    """How far this head's weights have moved, and how many next tokens the model would still say."""
    apart = (own.attention[site.name].weights(head) - site.weights(head)).abs().sum(-1).mean() / 2
    same = sum(a == b for a, b in zip(own.predicted, then.predicted, strict=True))
    return (
        f"{words.place(site, head)} of a model trained with the {trained} similarity, here scored by {name}: on average "
        f"{100 * float(apart):.0f} % of a row's attention goes elsewhere. Given the same text, {same} of {len(own.predicted)} next "
        f"tokens are as before: {then.output or '(nothing)'}"
    )
