"""The trace of training, on the Attention page: the same text under the weights of an earlier step."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import streamlit as st

from models.trace import AttentionSite, Trace
from viz_app import ui, words
from viz_app.components.catalogue import PLAYER
from viz_app.components.mounting import show
from viz_app.controls.step_payloads import learned_line
from viz_app.drawing.cells import Tile, cells, strengths
from viz_app.drawing.export import legend, what_is_drawn
from viz_app.drawing.look import look
from viz_app.drawing.provenance import head_name
from viz_app.drawing.scale import Scale, sinks
from viz_app.drawing.stamp import facts
from viz_app.session import cache, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.run_changes import SHOWS_STEP, STEP
from viz_app.views.attention import growth_files


def choose(run: CurrentRun) -> None:
    """Draw the switch and, if it is on, the slider over the checkpoint's training steps."""
    steps = run.scope.snapshots
    if not steps or not st.toggle(
        "Show training steps", **url_state.bound(SHOWS_STEP, url_state.get(SHOWS_STEP))
    ):
        return
    left, right = st.columns([1, 1.3], gap="medium")
    with left:
        step = st.select_slider(
            "Training step of the weights",
            steps,
            format_func=lambda s: f"{s:,}",
            **url_state.bound(STEP, url_state.one_of(STEP, steps, steps[-1])),
            help="The pictures below show the same text under the weights of this step.",
        )
        show(
            PLAYER,
            {"steps": list(steps), "step": step},
            "growth-player",
            on_step=partial(url_state.keep, STEP),
        )
        slot = st.container(key="growth-note")
    with right:
        colours = look(st.context.theme.type)
        record = run.unchanged.scope.training
        chart = growth_files.loss_curve(
            record.get("curve", []), step, colours.accent, colours.quiet
        )
        st.caption(
            growth_files.LOSSES
        )  # above the picture: in it, where it is wider than the picture, it is cut off
        st.altair_chart(ui.presented(chart), key="growth-loss")
        st.caption(growth_files.two_losses(record, run.scope.config.dropout))
    if run.spec.model.step == step:  # else it could not be opened, which the list of changes says
        ui.note(slot, learned_line(run), key=SHOWS_STEP.name)


def download(
    now: Callable[[], CurrentRun],
    site: AttentionSite,
    head: int,
    scale: Scale,
    shown_as: Callable[[Trace], Trace],
    tile: Tile = None,
) -> None:
    """Offer this head over all snapshots as an animated picture, where there are any; each run is `shown_as` tokens or words."""
    if not now().scope.snapshots:
        return
    file = head_name(shown_as(now().trace), site, head, "training")
    ui.download(
        "This head through training, animated GIF",
        lambda: _animation(now(), site.name, head, scale, shown_as, tile),
        f"{file}.gif",
        "image/gif",
        lambda: facts(shown_as(now().trace), steps=", ".join(map(str, now().scope.snapshots))),
    )


def _animation(
    run: CurrentRun,
    name: str,
    head: int,
    scale: Scale,
    shown_as: Callable[[Trace], Trace],
    tile: Tile = None,
) -> bytes:
    frames, trace = [], shown_as(run.trace)
    site = trace.attention[name]
    hidden = sinks(trace.axes(site)[1])
    for step in run.scope.snapshots:
        spec = replace(run.spec, model=replace(run.spec.model, step=step))
        snapshot = shown_as(cache.changed_run(run.unchanged, spec).trace)
        drawn = cells(
            snapshot, snapshot.attention[name], head, tile, hidden if scale.hides_sinks else ()
        )
        frames.append(growth_files.Frame(step, strengths(drawn, scale, hidden)))
    title = words.head_title(site, head, run.terms)
    unit = "; ".join(filter(None, (legend(trace, site, scale), what_is_drawn(drawn, site))))
    return growth_files.head_gif(frames, drawn.queries, drawn.keys, drawn.blocked, title, unit)
