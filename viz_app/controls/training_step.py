"""The choice of an earlier training step, with the loss curve."""

from functools import partial

import streamlit as st

from viz_app import ui
from viz_app.components.catalogue import PLAYER
from viz_app.components.mounting import show
from viz_app.controls.step_payloads import learned_line
from viz_app.drawing.loss_curve import LOSSES_CAPTION, loss_curve, two_losses
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.run_changes import SHOWS_SNAPSHOT, SNAPSHOT_STEP


def choose_step(run: CurrentRun) -> None:
    """Draw the switch and, if it is on, the slider over the checkpoint's training steps."""
    steps = run.scope.snapshots
    if not steps:
        return
    left, right = st.columns([1, 1.3], gap="medium")
    with left:
        row = st.container(horizontal=True, gap="small", vertical_alignment="center")
        bound = url_state.bound(SHOWS_SNAPSHOT, url_state.get(SHOWS_SNAPSHOT))
        if not row.toggle("Show training steps", **bound):
            return
        step = st.select_slider(
            "Training step of the weights",
            steps,
            format_func=lambda s: f"{s:,}",
            **url_state.bound(
                SNAPSHOT_STEP, url_state.chosen_option(SNAPSHOT_STEP, steps, steps[-1])
            ),
            label_visibility="collapsed",
        )
        record = run.unchanged.scope.training
        with row:
            playing = {"steps": list(steps), "step": step}
            show(
                PLAYER,
                playing,
                "growth-player",
                on_step=partial(url_state.set_value, SNAPSHOT_STEP),
            )
            with st.popover("What the losses are", type="tertiary"):
                st.caption(LOSSES_CAPTION)
                st.caption(two_losses(record, getattr(run.scope.config, "dropout", 0.0)))
        slot = st.container(key="growth-note")
    with right:
        colours = ui.page_look()
        chart = loss_curve(record.get("curve", []), step, colours.accent, colours.quiet)
        st.altair_chart(ui.fit_to_screen(chart, grows=False), key="growth-loss")
    if run.spec.model.step == step:  # else it could not be opened; the change bar shows the error
        ui.show_note(slot, learned_line(run), key=SHOWS_SNAPSHOT.name)
