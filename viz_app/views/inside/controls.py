"""The controls of the page Inside a head: which picture, of which head and weight, and under which similarity."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.analysis.head_measures import MEASURES
from models.layers.similarity import KINDS
from models.trace import Trace
from viz_app import words
from viz_app.components.plain import plain
from viz_app.drawing.sites import by_kind
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Several, Whole
from viz_app.session.url_state import Focus
from viz_app.views.inside import similarity, text
from viz_app.views.inside.payloads import Choices, compared_heads
from viz_app.views.inside.several import FIRST, MOST, toggled

VIEW, CONVENTION = Choice("inside-view"), Choice("inside-convention")
KEY, STAGE = Whole("inside-key"), Whole("inside-stage", 0)
HEADS, MEASURE = Several("inside-heads", most=MOST), Choice("inside-measure", FIRST, options=tuple(MEASURES))
SIMILARITY = Choice("similarity")       # none is the model's own
WIDE = 190      # px of a control beside the tokens
_KIND, _LAYER, _HEAD, _SIMILARITY = "inside-kind", "inside-layer", "inside-head", "similarity-choice"


def choose(run: CurrentRun) -> tuple[Choices, DeltaGenerator]:
    """Draw the controls: a row that wraps where the page is narrow, and below it, beside room for the tokens, what is chosen less
    often. What they and the other pages' choices say, and that room."""
    row = st.container(horizontal=True, gap="small", key="inside-controls", vertical_alignment="bottom")
    below = st.container(horizontal=True, gap="medium", key="inside-tokens", vertical_alignment="top")
    tokens = below.container(key="inside-token-rows")
    with row if url_state.get(VIEW) == "several" else below:       # which has no tokens to choose
        name = choose_similarity(run)
    site, focus = url_state.focus(similarity.under(run, name).trace)
    with row:
        view = _pick("Show", VIEW, text.views(site, sum(s.n_heads for s in dict(by_kind(run.trace))[site.kind])))
        _head_controls(run.trace, focus, only_kind=view == "several")
    conventions = text.conventions(site)
    convention = next(iter(conventions))
    if view == "matrices":
        with below:
            chosen = url_state.one_of(CONVENTION, list(conventions), convention)
            convention = st.selectbox(
                "Convention", list(conventions), format_func=conventions.get, width=WIDE, **url_state.bound(CONVENTION, chosen)
            )
    lock = int(focus.lock[1:]) if focus.lock else None
    query, key = (None, lock) if focus.lock.startswith("k") else (lock, url_state.get(KEY))
    heads, measure = (url_state.get(HEADS), url_state.get(MEASURE)) if view == "several" else (None, FIRST)
    stage = url_state.get(STAGE) if view == "walk" else 0
    return Choices(name, view, convention, site.name, focus.head, query, key, stage, heads, measure), tokens


def _head_controls(trace: Trace, focus: Focus, only_kind: bool) -> None:
    """Which head: the same choice as on the Attention page."""
    kinds, site = dict(by_kind(trace)), trace.attention[focus.site]
    st.session_state[_KIND], st.session_state[_LAYER], st.session_state[_HEAD] = site.kind, site.layer + 1, focus.head + 1

    def move() -> None:
        if st.session_state[_KIND] != site.kind:
            url_state.keep(KEY, None)                        # another kind reads other tokens, with other heads
            url_state.keep(HEADS, None)
        chosen = kinds[st.session_state[_KIND]]
        layer = min(st.session_state[_LAYER], len(chosen)) - 1
        url_state.pick(chosen[layer].name, min(st.session_state[_HEAD], chosen[layer].n_heads) - 1)

    for label, key, options, named in (
        ("Attention", _KIND, list(kinds), lambda kind: words.kind_short(kinds[kind][0])),
        ("Layer", _LAYER, [s.layer + 1 for s in kinds[site.kind]], str), ("Head", _HEAD, list(range(1, site.n_heads + 1)), str),
    )[: 3 if (site.n_heads > 1 or len(kinds[site.kind]) > 1) and not only_kind else 1]:
        help_ = words.GLOSSARY.get(label.lower())
        st.segmented_control(label, options, required=True, key=key, format_func=named, on_change=move, help=help_)


def _pick(label: str, choice: Choice, names: dict[str, str]) -> str:
    """One of several by its short name, which is what stands in the URL; the first is where one starts."""
    return st.segmented_control(
        label, list(names), required=True, format_func=names.get,
        **url_state.bound(choice, url_state.one_of(choice, list(names), next(iter(names)))),
    )


def choose_weight(query: int, key: int) -> None:
    """Look at another weight; a negative key means the strongest."""
    url_state.lock(f"q{query}")
    url_state.keep(KEY, key if key >= 0 else None)


def choose_head(choices: Choices, number: int) -> None:
    """Draw another head's lines, or no longer this one's."""
    url_state.keep(HEADS, toggled(compared_heads(live.session().shown, choices)[1].drawn, number))


def choose_measure(name: str) -> None:
    """Put the heads in the order of this measure."""
    url_state.keep(MEASURE, name)


def hold_query(query: int) -> None:
    """Draw the lines of this token alone, or with a negative one of all."""
    url_state.lock(f"q{query}" if query >= 0 else "")


def keep_stage(stage: int) -> None:
    """The walk has come to rest at this stage."""
    url_state.keep(STAGE, stage)


def other_similarity(run: CurrentRun) -> str:
    """The similarity asked for instead of the model's own; empty for its own, and where it cannot be exchanged."""
    chosen = url_state.get(SIMILARITY)
    if not run.scope.model.similarity or chosen not in KINDS or chosen == run.scope.model.similarity:
        return ""
    return chosen


def choose_similarity(run: CurrentRun) -> str:
    """Draw the choice; returns what `other_similarity` does. An RNN has none to choose."""
    if not run.scope.model.similarity:
        return ""
    own = run.scope.model.similarity
    st.session_state[_SIMILARITY] = other_similarity(run) or own

    def keep() -> None:
        name = st.session_state[_SIMILARITY]
        url_state.keep(SIMILARITY, None if name == own else name)

    st.selectbox(
        "Similarity", list(KINDS), key=_SIMILARITY, on_change=keep, width=WIDE,
        format_func=lambda name: f"{name} (trained with)" if name == own else f"{name}: {KINDS[name].formula}",
        help="How query and key are compared. Under any but the model's own the same weights do what they were never "
        "trained for; what it has to learn besides (t, M, or W, U and v) starts as in a new model.",
    )
    name = other_similarity(run)
    if name:
        st.badge("not trained this way", icon=":material/warning:", color="orange")
    return name


def note_similarity(drawn: Pictures) -> None:
    """Draw what `similarity.note` has put among the pictures."""
    if similarity.NOTE in drawn:
        plain(drawn[similarity.NOTE], key=similarity.NOTE)
