"""The trace of training, on the Attention page: the same text under the weights of an earlier step."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from models import CheckpointError
from models.trace import AttentionSite
from viz_app import checkpoints, words
from viz_app.drawing.labels import labels
from viz_app.drawing.look import look
from viz_app.drawing.sites import blocked_bits, token_rows
from viz_app.session import cache
from viz_app.session.current_run import Shown
from viz_app.session.live import Pictures
from viz_app.ui import note, small_print
from viz_app.views.attention import growth_files

_SHOWN, _STEP = "growth", "growth-step"


def choose(shown: Shown) -> int | None:
    """Draw the switch and the slider over the checkpoint's snapshots; returns the chosen step, if there is one to show."""
    steps = shown.scope.snapshots
    if not steps or not st.toggle("Show how it learned", key=_SHOWN, bind="query-params"):
        return None
    left, right = st.columns([1, 1.3], gap="medium")
    with left:
        if st.session_state.get(_STEP) not in steps:
            st.session_state[_STEP] = steps[-1]
        step = st.select_slider(
            "Training step of the weights", steps, key=_STEP, format_func=lambda s: f"{s:,}", bind="query-params",
            help="The pictures below show the same text under the weights of this step.",
        )
        said = st.empty()
    with right:
        colours = look(st.context.theme.type)
        record = shown.scope.training
        chart = growth_files.loss_curve(record.get("curve", []), step, colours.accent, colours.quiet)
        st.caption(growth_files.LOSSES)       # above the picture: in it, where it is wider than the picture, it is cut off
        st.altair_chart(chart, key="growth-loss")
        st.caption(growth_files.two_losses(record, shown.scope.config.dropout))
    try:
        then = at(shown, step)
    except CheckpointError as error:
        note(said, checkpoints.told(error), bad=True, key=_SHOWN)
        return None
    note(said, _line(step, then), key=_SHOWN)
    return step


def at(shown: Shown, step: int | None) -> Shown:
    """The same texts under the weights of this step. Raises models.CheckpointError."""
    if step is None:
        return shown
    return replace(shown, scope=cache.snapshot(shown.scope, step), trace=cache.snapshot_trace(shown.scope, step, shown.trace))


def said(step: int | None, then: Shown) -> Pictures:
    """What stands under the slider, for another text."""
    return {f"note {_SHOWN}": small_print(_line(step, then))} if step is not None else {}


def _line(step: int, then: Shown) -> str:
    return words.at_step(step, then.trace, then.scope.training["scores"])


def download(seen: Callable[[], Shown], site: AttentionSite, head: int) -> None:
    """Offer this head over all snapshots as an animated picture, where there are any."""
    if not seen().scope.snapshots:
        return
    st.download_button(
        "This head through training, animated GIF", lambda: _animation(seen(), site.name, head),
        f"{words.file_name(site, head)}.training.gif", "image/gif", key="download growth", on_click="ignore",
        icon=":material/download:",
    )


def _animation(shown: Shown, name: str, head: int) -> bytes:
    frames, trace, site = [], shown.trace, shown.trace.attention[name]
    for step in shown.scope.snapshots:
        then = cache.snapshot_trace(shown.scope, step, trace)
        frames.append(growth_files.Frame(step, then.attention[name].weights(head).numpy()))
    query, key = token_rows(trace, site)
    title = words.head_title(site, head, shown.terms)
    return growth_files.head_gif(frames, labels(query), labels(key), blocked_bits(site).numpy(), title)
