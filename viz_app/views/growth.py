"""The trace of training, on the Attention page: the same text under the weights of an earlier step."""

from dataclasses import replace

import streamlit as st

from models import CheckpointError, Trace
from models.trace import AttentionSite
from viz_app import cache, words
from viz_app.figures import growth
from viz_app.figures.labels import labels
from viz_app.figures.look import look
from viz_app.figures.sites import blocked_bits, token_rows
from viz_app.parts import note
from viz_app.sidebar import Shown

_SHOWN, _STEP = "growth", "growth-step"


def at_step(shown: Shown) -> Shown:
    """Draw the switch and the slider over the checkpoint's snapshots; returns the run at the chosen step."""
    steps = shown.scope.snapshots
    if not steps or not st.toggle("Show how it learned", key=_SHOWN, bind="query-params"):
        return shown
    left, right = st.columns([1, 1.3], gap="medium")
    with left:
        if st.session_state.get(_STEP) not in steps:
            st.session_state[_STEP] = steps[-1]
        step = st.select_slider(
            "Training step of the weights", steps, key=_STEP, format_func=lambda s: f"{s:,}", bind="query-params",
            help="The whole page shows the same text under the weights of this step.",
        )
        said = st.empty()
    with right:
        colours = look(st.context.theme.type)
        chart = growth.loss_curve(shown.scope.training.get("curve", []), step, colours.accent, colours.quiet)
        st.altair_chart(chart, key="growth-loss")
    try:
        trace = cache.snapshot_trace(shown.scope, step, shown.trace)
    except CheckpointError as error:
        note(said, str(error), bad=True, key=_SHOWN)
        return shown
    note(said, words.at_step(step, trace), key=_SHOWN)
    return replace(shown, scope=cache.snapshot(shown.scope, step), trace=trace)


def download(shown: Shown, trace: Trace, site: AttentionSite, head: int) -> None:
    """Offer this head over all snapshots as an animated picture, where there are any."""
    if not shown.scope.snapshots:
        return
    st.download_button(
        "This head through training, animated GIF", lambda: _animation(shown, trace, site, head),
        f"{words.file_name(site, head)}.training.gif", "image/gif", key="download growth", on_click="ignore",
        icon=":material/download:",
    )


def _animation(shown: Shown, trace: Trace, site: AttentionSite, head: int) -> bytes:
    frames = []
    for step in shown.scope.snapshots:
        then = cache.snapshot_trace(shown.scope, step, trace)
        frames.append(growth.Frame(step, then.attention[site.name].weights(head).numpy()))
    query, key = token_rows(trace, site)
    title = words.head_title(site, head, shown.terms)
    return growth.head_gif(frames, labels(query), labels(key), blocked_bits(site).numpy(), title)
