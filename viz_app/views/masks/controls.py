"""The controls of the page Masks: the batch, the mask that is painted, and the head that is shown with it."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import models
from models.layers.masks import PADDING, SiteKind
from models.scope import Scope
from models.trace import AttentionSite, Trace
from models.trace.edits import READY_MADE, Edits, MaskChange
from viz_app import words
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.sidebar.examples import suited
from viz_app.views.masks import notation, state, text
from viz_app.views.masks.mask_view import first_site, kinds
from viz_app.views.masks.payloads import Choices, others
from viz_app.views.masks.state import SECOND, WHICH

_TASK = "masks task"
_READY, _K, _PADDED, _SITE, _HEAD = "masks-ready-{}", "masks-k-{}", "masks-padding-{}", "masks-site", "masks-head"


def choose(run: CurrentRun) -> tuple[Choices, DeltaGenerator]:
    """Draw the controls, two rows; what they say, and where the note on the batch belongs."""
    trace, changes = run.trace, state.changes(run.trace)
    columns = st.columns([2.2, 1, 1.8, 0.9], gap="small", vertical_alignment="bottom")
    second, problem, shown = _batch(run, *columns[:2])
    slot = columns[2].container(key="masks-note").empty()
    everywhere = {"on_click": state.undo, "args": ([*state.kinds(trace)],), "disabled": changes == Edits()}
    columns[3].button("Undo all changes", **everywhere, key="masks-undo")
    kind, site, head = state.view(trace)
    columns = st.columns([2.4, 0.8, 1.5, 1.8, 1], gap="small", vertical_alignment="bottom")
    painted = first_site(trace, kind).site_kind
    own = [layer.name for layer in first_site(trace, kind).mask.layers]
    _mask_controls(painted, kinds(trace)[painted], changes.of(kind), own, *columns[:3])
    _attention_controls(trace, kind, site, head, *columns[3:])
    return Choices(second, problem, shown, changes, kind, site.name, head), slot


def _batch(run: CurrentRun, left: DeltaGenerator, right: DeltaGenerator) -> tuple[str, str, int]:
    """The second text of the batch, or "" and why it cannot be read, and which of the two is shown."""
    scope = run.scope
    if st.session_state.get(_TASK, scope.task) != scope.task and not url_state.follows():
        url_state.keep(SECOND, None)
    st.session_state[_TASK] = scope.task
    chosen = url_state.get(SECOND)
    second = left.text_area(
        "Second text of the batch", height="content",
        **url_state.bound(SECOND, default_second(scope) if chosen is None else chosen),
        help=text.second_help(scope.model),
    )
    which = right.segmented_control(
        "Shown", list(WHICH.options), required=True, **url_state.bound(WHICH, url_state.get(WHICH)),
    )
    problem = _unreadable(run, second)
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


def _mask_controls(
    kind: SiteKind, name: str, change: MaskChange, own: list[str],
    left: DeltaGenerator, middle: DeltaGenerator, right: DeltaGenerator,
) -> None:  # fmt: skip
    """The ready-made mask of this kind, its k, and whether padding is masked; `own` are the layers of the model's mask."""
    own_choice = notation.own_choice(kind)
    ready, k, padded = (name.format(kind.name) for name in (_READY, _K, _PADDED))
    st.session_state[ready], st.session_state[k] = notation.choice(kind, change), change.k
    st.session_state[padded] = PADDING not in change.lifted

    def take() -> None:
        state.choose(kind, st.session_state[ready], st.session_state[k], own)

    left.selectbox(
        f"Ready-made, {name.lower()}", READY_MADE, key=ready, on_change=take,
        format_func=lambda name: text.ready_label(kind, name, own_choice),
    )
    middle.number_input("k", 1, 512, key=k, on_change=take, disabled=change.ready not in ("window", "block-diagonal"))
    right.toggle("Mask padding", key=padded, on_change=lambda: state.mask_padding(kind.name, st.session_state[padded]))


def _attention_controls(
    trace: Trace, kind: str, site: AttentionSite, head: int, left: DeltaGenerator, right: DeltaGenerator
) -> None:
    """Whose attention is shown before and after."""
    st.session_state[_SITE], st.session_state[_HEAD] = site.name, head + 1

    def pick() -> None:
        state.look_at(kind, st.session_state[_SITE], st.session_state[_HEAD] - 1)

    left.selectbox(
        "Attention shown", list(trace.attention), key=_SITE, on_change=pick,
        format_func=lambda name: text.site_label(trace.attention[name]),
    )
    right.selectbox("Head", range(1, site.n_heads + 1), key=_HEAD, on_change=pick, help=words.GLOSSARY["head"])
