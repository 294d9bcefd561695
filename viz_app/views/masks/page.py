"""Masks: who may see whom, and why? Every mask in layers, one to paint on, and what the model then does."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import models
from models.analysis.checks import check_site
from models.analysis.head_walk import residual
from models.analysis.masked_comparison import MaskedRun
from models.layers.masks import PADDING
from models.scope import Scope
from models.trace import AttentionSite, Trace
from models.trace.edits import READY_MADE, MaskChange, MaskChanges
from viz_app import ui, words
from viz_app.components.mask_painter import mask_painter
from viz_app.session import cache, live, url_state
from viz_app.session.current_run import Shown
from viz_app.session.live import Pictures
from viz_app.sidebar.examples import suited
from viz_app.views.masks import files as masks_files
from viz_app.views.masks import notation as masks_notation
from viz_app.views.masks import payloads as figures
from viz_app.views.masks import state as masks_state
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.payloads import MaskView
from viz_app.views.masks.state import SECOND, WHICH

_TASK = "masks task"
_READY, _K, _PADDED, _SITE, _HEAD = "masks-ready-{}", "masks-k-{}", "masks-padding-{}", "masks-site", "masks-head"


def masks(shown: Shown) -> Callable[[Shown], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    scope, terms = shown.scope, shown.terms
    ui.headline(masks_text.QUESTION, masks_text.ANSWER if shown.trace.attention else "")
    if not shown.trace.attention:
        ui.written(shown.trace, terms, shown.stale)
        with st.container(key="explanation"):
            st.markdown(masks_text.NO_MASK)
        return None
    strip = st.container()
    changes = masks_state.changes(shown.trace)
    columns = st.columns([2.2, 1, 1.8, 0.9], gap="small", vertical_alignment="bottom")
    slot = columns[2].container(key="masks-note").empty()
    texts, which = _batch(scope, *columns[:2], slot)
    unchanged = changes == MaskChanges()
    columns[3].button("Undo all changes", on_click=masks_state.undo, disabled=unchanged, key="masks-undo")
    own, changed = _runs(shown, texts, changes)
    before = own[which]
    if texts:
        ui.note(slot, _filled(own), key="masks")
    with strip:
        ui.written(before.trace, terms, shown.stale)
    kind, site, head = masks_state.view(before.trace)
    columns = st.columns([2.4, 0.8, 1.5, 1.8, 1], gap="small", vertical_alignment="bottom")
    _mask_controls(kind, figures.kinds(before.trace)[kind], changes.of(kind), *columns[:3])
    _attention_controls(before.trace, kind, site, head, *columns[3:])

    def seen(shown: Shown) -> tuple[list[MaskedRun], MaskView]:
        own, changed = _runs(shown, texts, changes)
        return own, MaskView(own[which], changed[which], changes, kind, site.name, head, terms)

    def pictures(shown: Shown) -> Pictures:
        own, view = seen(shown)
        return {
            **({"note masks": ui.small_print(_filled(own))} if texts else {}),
            "written": ui.strip(view.before.trace, terms, shown.stale),
            "mask_painter": figures.masks(view),
            "checks": _checked(view),
        }

    view = MaskView(before, changed[which], changes, kind, site.name, head, terms)
    mask_painter(figures.masks(view), masks_state.paint, masks_state.show_kind)
    desk = live.desk()
    _below(view, lambda: seen(desk.shown)[1], scope)
    return pictures


def _runs(shown: Shown, texts: list[str], changes: MaskChanges) -> tuple[list[MaskedRun], list[MaskedRun]]:
    """The batch of both texts under the model's own masks and under the changed ones; one run if nothing is changed."""
    trace, scope = shown.trace, shown.scope
    pairs = (trace.source.text, trace.target.text if trace.teacher_forced else None), *((text, None) for text in texts)
    drafts = trace.target.ids[1:], *(cache.written(scope, text) for text in texts)
    own = cache.masked_runs(scope, pairs, MaskChanges(), drafts)
    if changes == MaskChanges():
        return own, own
    return own, cache.masked_runs(scope, tuple((run.trace.source.text, run.trace.target) for run in own), changes)


def _filled(own: list[MaskedRun]) -> str:
    return masks_text.batch([len(run.trace.source.ids) for run in own])


def _checked(view: MaskView) -> dict:
    return ui.checked([*check_site(view.sites[1]), *figures.checks(view)])


def _batch(scope: Scope, left: DeltaGenerator, right: DeltaGenerator, slot: DeltaGenerator) -> tuple[list[str], int]:
    """The second text of the batch, if it can be read, and which of the two is shown."""
    if st.session_state.get(_TASK, scope.task) != scope.task and not url_state.follows():
        url_state.keep(SECOND, None)
    st.session_state[_TASK] = scope.task
    second = url_state.get(SECOND)
    text = left.text_input(
        "Second text of the batch", live="0ms",
        **url_state.bound(SECOND, default_second(scope) if second is None else second),
        help="The shorter of the two is filled up with padding. The target of this one is what the model writes for it.",
    )
    which = right.segmented_control(
        "Shown", list(WHICH.options), required=True, **url_state.bound(WHICH, url_state.get(WHICH)),
    )
    error = _unreadable(scope, text)
    if error or not text.strip():
        ui.note(slot, error or "No second text: the first runs alone, without padding.", bad=bool(error), key="masks")
        return [], 0
    return [text], int(which == "second")


def default_second(scope: Scope) -> str:
    """Of the examples this model can read, the next longer one than the first, so that the first is padded."""
    offered = suited(scope)
    lengths = {text: len(scope.encode_source(text).ids) for text in offered}
    longer = [text for text in offered if lengths[text] > lengths[offered[0]]]
    return min(longer, key=lengths.get) if longer else offered[-1]


def _unreadable(scope: Scope, text: str) -> str:
    try:
        if text.strip():
            scope.encode_source(text)
    except models.InputError as error:
        return f"{str(error).replace('the source', 'This sentence')}."
    return ""


def _mask_controls(
    kind: str, name: str, change: MaskChange, left: DeltaGenerator, middle: DeltaGenerator, right: DeltaGenerator
) -> None:
    """The ready-made mask of this kind, its k, and whether padding is masked."""
    own = masks_notation.own_choice(kind)
    ready, k, padded = (name.format(kind) for name in (_READY, _K, _PADDED))
    st.session_state[ready], st.session_state[k] = masks_notation.choice(kind, change), change.k
    st.session_state[padded] = PADDING not in change.lifted

    def taken() -> None:
        masks_state.choose(kind, st.session_state[ready], st.session_state[k])

    left.selectbox(
        f"Ready-made, {name.lower()}", READY_MADE, key=ready, on_change=taken,
        format_func=lambda name: masks_text.ready_label(kind, name, own),
    )
    middle.number_input("k", 1, 512, key=k, on_change=taken, disabled=change.ready not in ("window", "block-diagonal"))
    right.toggle("Mask padding", key=padded, on_change=lambda: masks_state.mask_padding(kind, st.session_state[padded]))


def _attention_controls(
    trace: Trace, kind: str, site: AttentionSite, head: int, left: DeltaGenerator, right: DeltaGenerator
) -> None:
    """Whose attention is shown before and after."""
    st.session_state[_SITE], st.session_state[_HEAD] = site.name, head + 1

    def picked() -> None:
        masks_state.look_at(kind, st.session_state[_SITE], st.session_state[_HEAD] - 1)

    left.selectbox(
        "Attention shown", list(trace.attention), key=_SITE, on_change=picked,
        format_func=lambda name: masks_text.site_label(trace.attention[name]),
    )
    right.selectbox("Head", range(1, site.n_heads + 1), key=_HEAD, on_change=picked)


def _below(view: MaskView, now: Callable[[], MaskView], scope: Scope) -> None:
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(masks_text.rules(view.sites[1], residual(view.after.trace, view.sites[1]) is not None))
        _downloads(view, now)
    with right:
        ui.checks_panel(_checked(view), words.trained(scope.training))


def _downloads(view: MaskView, now: Callable[[], MaskView]) -> None:
    name = words.file_name(view.sites[1], view.head)
    files = {
        "Masks and head, SVG": (masks_files.masks_svg, f"{name}.masks.svg", "image/svg+xml"),
        "This head, CSV": (masks_files.head_csv, f"{name}.masks.csv", "text/csv"),
        "Log-probabilities, CSV": (masks_files.log_probs_csv, "log-probabilities.csv", "text/csv"),
        "Everything, npz": (masks_files.everything_npz, "masks.npz", "application/octet-stream"),
    }
    with st.container(horizontal=True, gap="small", key="downloads"):
        for label, (make, file_name, mime) in files.items():
            ui.download(label, partial(_made, make, now), file_name, mime)


def _made(make: Callable[[MaskView], str | bytes], now: Callable[[], MaskView]) -> str | bytes:
    return make(now())
