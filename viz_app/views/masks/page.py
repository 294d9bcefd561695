"""Masks: who may see whom, and why? Every mask in layers, one to paint on, and what the model then does."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz_app import ui, words
from viz_app.components.catalogue import MASK_PAINTER, PLAIN
from viz_app.components.mounting import show
from viz_app.controls.tile import choose_tile
from viz_app.drawing import provenance
from viz_app.drawing.cells import is_long
from viz_app.drawing.stamp import facts
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.masks import controls, files, state, text
from viz_app.views.masks.mask_view import MaskView
from viz_app.views.masks.payloads import Choices, payloads, views


def masks(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    ui.headline(
        text.QUESTION,
        text.ANSWER if run.trace.attention and run.scope.model.masks_can_change else "",
    )
    if not run.trace.attention:
        ui.run_strip(run.trace, run.terms, run.stale)
        with st.container(key="explanation"):
            st.markdown(text.NO_MASK)
        return None
    if not run.scope.model.masks_can_change:
        ui.run_strip(run.trace, run.terms, run.stale)
        with st.container(key="explanation"):
            st.markdown(text.GIVEN)
        return None
    strip = st.container()
    choices, slot = controls.choose(run)
    _lay_out(payloads(run, choices), run, choices, strip, slot)
    return partial(payloads, choices=choices)


def _lay_out(
    drawn: Pictures, run: CurrentRun, choices: Choices, strip: DeltaGenerator, slot: DeltaGenerator
) -> None:
    with slot:
        show(PLAIN, drawn["note masks"], key="note masks")
    with strip:
        show(PLAIN, drawn["written"], key="written")
    show(
        MASK_PAINTER,
        drawn["mask_painter"],
        on_paint=_if_there(run, state.paint),
        on_kind=_if_there(run, state.show_kind),
        on_tile=choose_tile,
    )
    session, (_, view) = live.session(), views(run, choices)
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        sublayers = run.scope.model.sublayers
        has_stream = any(sublayer.adds for sublayer in sublayers) if sublayers else None
        can_write, note = run.scope.model.can_write, view.layer_note(view.kind)
        st.markdown(text.rules(view.sites[1], has_stream, can_write, note))
        _downloads(view, lambda: views(session.shown, choices)[1])
    with right:
        ui.checks_panel(drawn["checks"], words.training_summary(run.scope.training))


def _if_there(run: CurrentRun, act: Callable[..., None]) -> Callable[..., None]:
    """The same for the kinds of attention that this model has; what a browser says of another is left."""
    kinds = state.kinds(run.trace)
    return lambda kind, *more: act(kind, *more) if kind in kinds else None


def _downloads(view: MaskView, now: Callable[[], MaskView]) -> None:
    """Files of what is shown `now`, when one is asked for."""
    name = provenance.head_name(view.after.trace, view.sites[1], view.head)
    long = any(map(is_long, view.after.trace.attention.values()))
    whose = provenance.file_name(view.after.trace)
    offered = {
        "Masks and head, SVG": (files.masks_svg, f"{name}.masks.svg", "image/svg+xml"),
        "This head, CSV": (files.head_csv, f"{name}.masks.csv", "text/csv"),
        "Log-probabilities, CSV": (
            files.log_probs_csv,
            f"{whose}.log-probabilities.csv",
            "text/csv",
        ),
        "Everything, npz": (files.everything_npz, f"{whose}.masks.npz", "application/octet-stream"),
    }
    if long:  # a cell a weight, of which there are too many
        del offered["Masks and head, SVG"]
    with st.container(horizontal=True, gap="small", key="downloads"):
        for label, (make, file_name, mime) in offered.items():
            ui.download(
                label,
                partial(_file, make, now),
                file_name,
                mime,
                lambda: facts(now().after.trace),
                long,
            )
    if long:
        st.caption(text.LONG_TEXT)


def _file(
    make: Callable[[MaskView], ui.FileContent], now: Callable[[], MaskView]
) -> ui.FileContent:
    return make(now())
