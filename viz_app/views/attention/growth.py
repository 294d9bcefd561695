"""The trace of training, on the Attention page: the same text under the weights of an earlier step."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from models import CheckpointError
from models.trace import AttentionSite
from viz_app import checkpoints, ui, words
from viz_app.components.player import player
from viz_app.drawing.labels import axes_labels
from viz_app.drawing.look import look
from viz_app.drawing.provenance import head_name
from viz_app.drawing.scale import Scale, sinks
from viz_app.drawing.sites import blocked_bits
from viz_app.drawing.stamp import facts
from viz_app.session import cache, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice, Switch
from viz_app.views.attention import growth_files
from viz_app.views.attention.payloads import at_step, learned_line

_SHOWN, _STEP = Switch("growth"), Choice("growth-step", is_step=False)


def choose(shown: CurrentRun) -> int | None:
    """Draw the switch and the slider over the checkpoint's snapshots; returns the chosen step, if there is one to show."""
    steps = shown.scope.snapshots
    if not steps or not st.toggle("Show how it learned", **url_state.bound(_SHOWN, url_state.get(_SHOWN))):
        return None
    left, right = st.columns([1, 1.3], gap="medium")
    with left:
        step = st.select_slider(
            "Training step of the weights", steps, format_func=lambda s: f"{s:,}",
            **url_state.bound(_STEP, url_state.one_of(_STEP, steps, steps[-1])),
            help="The pictures below show the same text under the weights of this step.",
        )
        player(steps, step, partial(url_state.keep, _STEP), key="growth-player")
        slot = st.empty()
    with right:
        colours = look(st.context.theme.type)
        record = shown.scope.training
        chart = growth_files.loss_curve(record.get("curve", []), step, colours.accent, colours.quiet)
        st.caption(growth_files.LOSSES)       # above the picture: in it, where it is wider than the picture, it is cut off
        st.altair_chart(chart, key="growth-loss")
        st.caption(growth_files.two_losses(record, shown.scope.config.dropout))
    try:
        line = learned_line(step, at_step(shown, step))
    except CheckpointError as error:
        ui.note(slot, checkpoints.told(error), bad=True, key=_SHOWN.name)
        return None
    ui.note(slot, line, key=_SHOWN.name)
    return step


def download(now: Callable[[], CurrentRun], site: AttentionSite, head: int, scale: Scale) -> None:
    """Offer this head over all snapshots as an animated picture, where there are any."""
    if not now().scope.snapshots:
        return
    file = head_name(now().trace, site, head, "training")
    ui.download(
        "This head through training, animated GIF", lambda: _animation(now(), site.name, head, scale), f"{file}.gif", "image/gif",
        lambda: facts(now().trace, steps=", ".join(map(str, now().scope.snapshots))),
    )


def _animation(shown: CurrentRun, name: str, head: int, scale: Scale) -> bytes:
    frames, trace, site = [], shown.trace, shown.trace.attention[name]
    hidden = sinks(trace.axes(site)[1])
    for step in shown.scope.snapshots:
        snapshot = cache.snapshot_trace(shown.scope, step, trace)
        weights = snapshot.attention[name].weights(head).numpy()
        frames.append(growth_files.Frame(step, scale.strengths(weights, hidden)))
    title = words.head_title(site, head, shown.terms)
    queries, keys = axes_labels(trace, site)
    legend = scale.key([keys[i].text for i in hidden])
    return growth_files.head_gif(frames, queries, keys, blocked_bits(site).numpy(), title, legend)
