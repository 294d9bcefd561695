"""Going back over the steps whose weights a run keeps, and opening one, or two runs, elsewhere."""

from typing import Any

import streamlit as st

from models.checkpoint import CheckpointError
from models.checkpoint_files import snapshots
from viz_app import checkpoints
from viz_app.components.catalogue import PLAYER
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.session import pinned, url_state
from viz_app.session.focus import FOCUS_HEAD
from viz_app.session.focus import FOCUS_SITE as SHOWN_SITE
from viz_app.session.live import live_session
from viz_app.session.parameters import Parameter
from viz_app.session.run_changes import SHOWS_SNAPSHOT, SNAPSHOT_STEP
from viz_app.session.training import AT, TrainingPictures
from viz_app.session.url_state import CHECKPOINT, parameter_of

STEP_PAGE, RUNS_PAGE = "attention", "compare"  # where a step is opened, where two runs are


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


def compare_button(one: TrainingPictures, before: TrainingPictures, site: str, step: int) -> None:
    """Draw the way to the differences of two runs, each at a kept step."""
    pick.button(
        "Compare the two runs",
        "train-compare",
        lambda: open_both(one, before, site, step),
        icon=":material/compare_arrows:",
        help="Every head and the answers of both, at these steps, on the page Compare.",
    )


def nearest_step(one: TrainingPictures, step: int) -> int:
    """Return the kept step of a run that is nearest to a step."""
    return min(one.run.snapshots or [0], key=lambda snapshot: abs(snapshot - step))


def open_both(one: TrainingPictures, before: TrainingPictures, site: str, step: int) -> None:
    """Open a run at a step on the page Compare, with the run before pinned at its nearest."""
    if not (_is_kept(one) and _is_kept(before)):
        return
    open_elsewhere(one, site, step, RUNS_PAGE)
    pinned.unpin()
    for parameter, value in _model(before, nearest_step(before, step)).items():
        url_state.set_value(pinned.of_pinned(parameter), value)


def open_elsewhere(one: TrainingPictures, site: str, step: int, page_name: str = STEP_PAGE) -> None:
    """Open a run at a step, with its example, on a page."""
    trace, live = one.pictures.trace, live_session()
    if trace is None or not _is_kept(one):
        return
    url_state.reset_untyped()
    for parameter, value in _model(one, step).items():
        url_state.set_value(parameter, value)
    url_state.set_value(SHOWN_SITE, site)
    url_state.set_value(FOCUS_HEAD, 0)
    for field in one.pictures.fields:
        url_state.set_value(parameter_of(field), trace.fields.get(field.name) or "")
    live.texts_are_set, live.leaves_for = True, page_name


def _is_kept(one: TrainingPictures) -> bool:
    """Return False once the folder of a run has made room for newer runs."""
    try:
        checkpoints.folder(one.run.name)
    except CheckpointError:
        return False
    return one.run.folder is not None


def _model(one: TrainingPictures, step: int) -> dict[Parameter, Any]:
    """Return what the URL holds of a run at a step; one without a snapshot is the last."""
    at_step = one.run.folder is not None and step in snapshots(one.run.folder)
    snapshot = {SHOWS_SNAPSHOT: at_step, SNAPSHOT_STEP: step if at_step else None}
    return {CHECKPOINT: one.run.name, **snapshot}
