"""The controls of the page Inside a head: which picture, of which head and weight, and under which similarity."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.analysis.head_measures import MEASURES
from viz_app import which_head
from viz_app.controls.similarity import choose_similarity
from viz_app.drawing.sites import by_kind
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus, lock_token, pick_head
from viz_app.session.parameters import Choice, Several, Whole
from viz_app.views.inside import text
from viz_app.views.inside.payloads import Choices, head_group
from viz_app.views.inside.several import FIRST, MOST, toggle

VIEW, CONVENTION = Choice("inside-view"), Choice("inside-convention")
KEY, STAGE = Whole("inside-key"), Whole("inside-stage", 0)
HEADS, MEASURE = (
    Several("inside-heads", most=MOST),
    Choice("inside-measure", FIRST, options=tuple(MEASURES)),
)
WIDER = 290  # px of a control beside the tokens


def choose(run: CurrentRun) -> tuple[Choices, DeltaGenerator]:
    """Draw the controls: a row that wraps where the page is narrow, and below it, beside room for the tokens, what is chosen less
    often. What they and the other pages' choices say, and that room."""
    row = which_head.row()
    below = st.container(
        horizontal=True, gap="medium", key="inside-tokens", vertical_alignment="top"
    )
    tokens = below.container(key="inside-token-rows")
    several = url_state.get(VIEW) == "several"  # which has no tokens to choose
    with row if several else below:
        choose_similarity(run)
    site, focus = chosen_focus(run.trace)
    kinds = dict(by_kind(run.trace))
    with row:
        which_head.which_head(
            kinds,
            run.trace.attention[focus.site],
            focus.head,
            partial(_move, site.kind),
            heads=not several,
        )
        view = _pick("Show", VIEW, text.views(site, sum(s.n_heads for s in kinds[site.kind])))
    conventions = text.conventions(site)
    convention = next(iter(conventions))
    if view == "matrices":
        with below:
            chosen = url_state.one_of(CONVENTION, list(conventions), convention)
            convention = st.selectbox(
                "Convention",
                list(conventions),
                format_func=conventions.get,
                width=WIDER,
                **url_state.bound(CONVENTION, chosen),
            )
    lock = int(focus.lock[1:]) if focus.lock else None
    query, key = (None, lock) if focus.lock.startswith("k") else (lock, url_state.get(KEY))
    heads, measure = (
        (url_state.get(HEADS), url_state.get(MEASURE)) if view == "several" else (None, FIRST)
    )
    stage = url_state.get(STAGE) if view == "walk" else 0
    return Choices(
        view, convention, site.name, focus.head, query, key, stage, heads, measure
    ), tokens


def _move(kind: str, site: str, head: int) -> None:
    """Look at this head. One of another `kind` reads other tokens, among other heads."""
    if live.session().shown.trace.attention[site].kind != kind:
        url_state.keep(KEY, None)
        url_state.keep(HEADS, None)
    pick_head(site, head)


def _pick(label: str, choice: Choice, names: dict[str, str]) -> str:
    """One of several by its short name, which is what stands in the URL; the first is where one starts."""
    return st.segmented_control(
        label,
        list(names),
        required=True,
        format_func=names.get,
        **url_state.bound(choice, url_state.one_of(choice, list(names), next(iter(names)))),
    )


def choose_weight(query: int, key: int) -> None:
    """Look at another weight; a negative key means the strongest."""
    lock_token(f"q{query}")
    url_state.keep(KEY, key if key >= 0 else None)


def choose_head(choices: Choices, number: int) -> None:
    """Draw another head's lines, or no longer this one's."""
    url_state.keep(HEADS, toggle(head_group(live.session().shown, choices).drawn_heads, number))


def choose_measure(name: str) -> None:
    """Put the heads in the order of this measure."""
    url_state.keep(MEASURE, name)


def hold_query(query: int) -> None:
    """Draw the lines of this token alone, or with a negative one of all."""
    lock_token(f"q{query}" if query >= 0 else "")


def keep_stage(stage: int) -> None:
    """The walk has come to rest at this stage."""
    url_state.keep(STAGE, stage)
