"""Going back over the steps whose weights a run keeps, and opening one on the other pages."""

import streamlit as st

from models.checkpoint import CheckpointError
from models.checkpoint_files import snapshots
from viz_app import checkpoints
from viz_app.components.catalogue import PLAYER
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.session import url_state
from viz_app.session.focus import FOCUS_HEAD
from viz_app.session.focus import FOCUS_SITE as SHOWN_SITE
from viz_app.session.live import live_session
from viz_app.session.run_changes import SHOWS_SNAPSHOT, SNAPSHOT_STEP
from viz_app.session.training import AT, TrainingPictures
from viz_app.session.url_state import CHECKPOINT, parameter_of

STEP_PAGE = "attention"  # the page on which a step is opened


def kept_steps(one: TrainingPictures, site: str, shown_step: int) -> None:
    """Draw the slider over the kept steps, its player, and the way to the other pages."""
    steps = one.run.snapshots
    with st.container(key="train-scrub", horizontal=True, vertical_alignment="bottom"):
        if len(steps) > 1:
            st.select_slider(
                "Step of the weights", steps, shown_step, format_func=lambda n: f"{n:,}",
                **url_state.bound(AT, shown_step),
            )  # fmt: skip
            playing = {"steps": steps, "step": shown_step}
            show(
                PLAYER, playing, "train-player", on_step=lambda step: url_state.set_value(AT, step)
            )
        pick.button(
            f"Open step {shown_step:,} on the other pages",
            "train-open",
            lambda: open_elsewhere(one, site, shown_step),
            icon=":material/open_in_new:",
        )


def open_elsewhere(one: TrainingPictures, site: str, step: int) -> None:
    """Open a run at a step, with its example, on the page Attention."""
    trace, live = one.pictures.trace, live_session()
    if trace is None or one.run.folder is None:
        return
    try:
        checkpoints.folder(one.run.name)
    except CheckpointError:  # its folder made room for newer runs
        return
    url_state.reset_untyped()
    url_state.set_value(CHECKPOINT, one.run.name)
    if step in snapshots(one.run.folder):
        url_state.set_value(SHOWS_SNAPSHOT, True)
        url_state.set_value(SNAPSHOT_STEP, step)
    url_state.set_value(SHOWN_SITE, site)
    url_state.set_value(FOCUS_HEAD, 0)
    for field in one.pictures.fields:
        url_state.set_value(parameter_of(field), trace.fields.get(field.name) or "")
    live.texts_are_set, live.leaves_for = True, STEP_PAGE
