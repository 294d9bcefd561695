"""The controls of the page Masks: the batch, the mask that is painted, and the head that is shown with it."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import models
from models.layers.masks import PADDING, SiteKind
from models.runs.scope import Scope
from models.trace.edits import READY_MADE, MaskChange, mask_change
from viz_app import which_head
from viz_app.controls.text_box import text_box
from viz_app.controls.tile import tile
from viz_app.drawing.sites import by_kind
from viz_app.session import mask_notation as notation
from viz_app.session import run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.sidebar.examples import suited
from viz_app.views.masks import state, text
from viz_app.views.masks.mask_view import kinds, own_layers
from viz_app.views.masks.payloads import Choices, others
from viz_app.views.masks.state import SECOND, WHICH

_TASK = "masks task"
_READY, _K, _PADDED = "masks-ready-{}", "masks-k-{}", "masks-padding-{}"


def choose(run: CurrentRun) -> tuple[Choices, DeltaGenerator]:
    """Draw the controls, two rows; what they say, and where the note on the batch belongs."""
    trace, changes = run.unchanged.trace, run.spec.edits
    kind, site, head = state.view(trace)
    painted = state.kinds(trace)[kind]
    with which_head.row():
        which_head.which_head(dict(by_kind(trace)), site, head, partial(state.look_at, kind))
        _ready_controls(
            painted,
            kinds(trace)[painted],
            mask_change(changes, kind),
            own_layers(trace, kind),
        )
    with st.container(horizontal=True, gap="small", key="masks-batch", vertical_alignment="bottom"):
        second, problem, row = _batch(run)
        _padding_control(painted, mask_change(changes, kind))
        everywhere = {
            "on_click": run_changes.undo,
            "args": ("edits", tuple(state.kinds(trace))),
            "disabled": changes == (),
        }
        st.button("Undo all changes", **everywhere, key="masks-undo")
        slot = st.container(
            key="masks-note", width=225
        )  # not emptied first: the picture below would jump
    return Choices(second, problem, row, kind, site.name, head, tile()), slot


def _batch(run: CurrentRun) -> tuple[str, str, int]:
    """The second text of the batch, or "" and why it cannot be read, and which of the two is shown. A model that reads one row at
    a time has no second text."""
    scope = run.scope
    if not scope.model.pads:
        return "", "", 0
    if st.session_state.get(_TASK, scope.task) != scope.task and not url_state.follows():
        url_state.keep(SECOND, None)
    st.session_state[_TASK] = scope.task
    chosen = url_state.get(SECOND)
    second, cut = text_box(
        "Second text of the batch",
        SECOND,
        default_second(scope) if chosen is None else chosen,
        height=68,
        width=270,
        help=text.second_help(scope.model),
    )
    which = st.segmented_control(
        "Shown",
        list(WHICH.options),
        required=True,
        **url_state.bound(WHICH, url_state.get(WHICH)),
    )
    problem = cut or _unreadable(run, second)
    if problem or not second.strip():
        return "", problem, 0
    return second, "", WHICH.options.index(which)


def default_second(scope: Scope) -> str:
    """Of the examples this model can read, the next longer one than the first, so that the first is padded."""
    offered = suited(scope)
    lengths = {text: len(scope.given_ids(text)) for text in offered}
    longer = [text for text in offered if lengths[text] > lengths[offered[0]]]
    return min(longer, key=lengths.get) if longer else offered[-1]


def _unreadable(run: CurrentRun, second: str) -> str:
    try:
        if second.strip():
            run.scope.encode(second, *others(run))
    except models.InputError as error:
        return f"{str(error).replace(f'the {error.field}', 'This text')}."
    return ""


def _ready_controls(kind: SiteKind, name: str, change: MaskChange, own: list[str]) -> None:
    """The ready-made mask of this kind, and its k; `own` are the layers of the model's mask."""
    own_choice = notation.own_choice(kind)
    ready, k = (name.format(kind.name) for name in (_READY, _K))
    st.session_state[ready], st.session_state[k] = notation.choice(kind, change), change.k

    def take() -> None:
        state.choose(kind, st.session_state[ready], st.session_state[k], own)

    st.selectbox(
        f"Ready-made, {name.lower()}",
        READY_MADE,
        key=ready,
        on_change=take,
        width=300,
        format_func=lambda name: text.ready_label(kind, name, own_choice, own),
    )
    st.number_input(
        "k",
        1,
        512,
        key=k,
        on_change=take,
        disabled=change.ready not in ("window", "block-diagonal"),
        width=60,
    )


def _padding_control(kind: SiteKind, change: MaskChange) -> None:
    """Return True if padding is masked."""
    padded = _PADDED.format(kind.name)
    st.session_state[padded] = PADDING not in change.lifted
    st.toggle(
        "Mask padding",
        key=padded,
        on_change=lambda: state.mask_padding(kind.name, st.session_state[padded]),
    )
