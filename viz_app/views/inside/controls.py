"""The controls of the page Inside a head: which picture, of which head and weight, and under which similarity."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.analysis.head_measures import MEASURES
from models.layers.similarity import SIMILARITIES
from viz_app import which_head, words
from viz_app.components.catalogue import PLAIN
from viz_app.components.mounting import show
from viz_app.drawing.notes import small_print
from viz_app.drawing.sites import by_kind
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus, lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Several, Whole
from viz_app.views.inside import similarity, text
from viz_app.views.inside.payloads import Choices, head_group
from viz_app.views.inside.several import FIRST, MOST, toggle

VIEW, CONVENTION = Choice("inside-view"), Choice("inside-convention")
KEY, STAGE = Whole("inside-key"), Whole("inside-stage", 0)
HEADS, MEASURE = (
    Several("inside-heads", most=MOST),
    Choice("inside-measure", FIRST, options=tuple(MEASURES)),
)
SIMILARITY = Choice("similarity")  # none is the model's own
WIDE, WIDER = 190, 290  # px of a control beside the tokens
_SIMILARITY = "similarity-choice"


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
        name = choose_similarity(run)
    site, focus = chosen_focus(similarity.under(run, name).trace)
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
        name, view, convention, site.name, focus.head, query, key, stage, heads, measure
    ), tokens


def _move(kind: str, site: str, head: int) -> None:
    """Look at this head. One of another `kind` reads other tokens, among other heads."""
    if live.session().run.trace.attention[site].kind != kind:
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
    url_state.keep(HEADS, toggle(head_group(live.session().run, choices)[1].drawn_heads, number))


def choose_measure(name: str) -> None:
    """Put the heads in the order of this measure."""
    url_state.keep(MEASURE, name)


def hold_query(query: int) -> None:
    """Draw the lines of this token alone, or with a negative one of all."""
    lock_token(f"q{query}" if query >= 0 else "")


def keep_stage(stage: int) -> None:
    """The walk has come to rest at this stage."""
    url_state.keep(STAGE, stage)


def other_similarity(run: CurrentRun) -> str:
    """The similarity asked for instead of the model's own; empty for its own, and where it cannot be exchanged."""
    chosen = url_state.get(SIMILARITY)
    if (
        not run.scope.model.similarity
        or chosen not in SIMILARITIES
        or chosen == run.scope.model.similarity
    ):
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
        "Similarity",
        list(SIMILARITIES),
        key=_SIMILARITY,
        on_change=keep,
        width=WIDE,
        format_func=lambda name: (
            f"{name} (own)" if name == own else f"{name}: {SIMILARITIES[name].formula}"
        ),
        help="How query and key are compared. Under any other than the model's own, the weights are used in a way they were not "
        "trained for; what that similarity has to learn besides (t, M, or W, U and v) starts as in a new model.",
    )
    name = other_similarity(run)
    if name:
        st.badge("not trained this way", icon=":material/warning:", color="orange")
    return name


def note_similarity(drawn: Pictures) -> None:
    """Draw what `similarity.note` has put among the pictures."""
    if similarity.NOTE in drawn:
        show(PLAIN, drawn[similarity.NOTE], key=similarity.NOTE)


def drop_similarity(run: CurrentRun) -> None:
    """On a page that shows a model with its own similarity: say so where another was chosen, and let that go."""
    if name := other_similarity(run):
        with st.container(horizontal=True, gap="small", vertical_alignment="center", key="dropped"):
            show(
                PLAIN,
                small_print(words.similarity_dropped(name, run.scope.model.similarity)),
                key="note dropped",
            )
            st.button("Let it go", key="drop", on_click=url_state.keep, args=(SIMILARITY, None))
