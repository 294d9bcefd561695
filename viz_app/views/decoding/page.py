"""Decoding: teacher-forced beside autoregressive, one token at a time; forced tokens, three ways to choose, a beam."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from viz_app import ui, words
from viz_app.components.catalogue import BEAM_TREE, PLAIN, STEPPER
from viz_app.components.mounting import show
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, facts
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.decoding import files, state, svg, text
from viz_app.views.decoding.controls import choose
from viz_app.views.decoding.payloads import Choices, given_ids, has_room, payloads, story
from viz_app.views.decoding.steps import HOW
from viz_app.views.decoding.story import Story


def decoding(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    recurrent = run.scope.model.is_recurrent
    ui.headline(text.QUESTION, text.answer(recurrent))
    strip = st.container()
    if not run.scope.model.can_write:
        with strip:
            ui.run_strip(run.trace, run.terms, run.stale)
        with st.container(key="explanation"):
            st.markdown(text.does_not_write(run.scope.model))
        return None
    if not recurrent and not run.trace.attention:
        with strip:
            ui.run_strip(run.trace, run.terms, run.stale)
        ui.note(
            st.empty(),
            "This model's decoder has no layers, so there is no decoding to show.",
            key="decoding",
        )
        return None
    if not has_room(run):
        with strip:
            ui.run_strip(run.trace, run.terms, run.stale)
        ui.note(st.empty(), text.no_room(run.scope.n_ctx), key="decoding")
        return None
    choices = choose(run)
    drawn = payloads(run, choices)
    with strip:
        show(PLAIN, drawn["written"], key="written")
    _lay_out(drawn, run, choices)
    return partial(payloads, choices=choices)


def _lay_out(drawn: Pictures, run: CurrentRun, choices: Choices) -> None:
    if "beam_tree" in drawn:
        show(BEAM_TREE, drawn["beam_tree"], on_node=state.choose_node)
    if "note decoding" in drawn:
        show(PLAIN, drawn["note decoding"], key="note decoding")
    show(STEPPER, drawn["stepper"], on_step=state.go, on_force=state.force, on_free=state.let_go)
    left, right = st.columns(2, gap="medium")
    with left:
        with st.container(key="explanation"):
            parts = text.why(run.scope.model), words.departures(run.scope.config)
            st.markdown("\n\n".join(part for part in parts if part))
        _downloads(run, choices)
    with right:
        ui.checks_panel(drawn["checks"], words.training_summary(run.scope.training))


def _downloads(run: CurrentRun, choices: Choices) -> None:
    """Files of what is shown when one is asked for."""
    scope, session, step = run.scope, live.session(), choices.place.step

    def now() -> Story:
        return story(session.shown, choices)[1]

    def about() -> Facts:
        return facts(now().trace, decoding=HOW[now().method.how])

    def drawing() -> str:
        both = now()
        position = min(choices.of(given_ids(session.shown)).place.step, both.n_steps - 1)
        given = both.trace.fields[scope.model.fields[0].name]
        title = f"{given} — decoding, step {position + 1}: training beside inference ({HOW[both.method.how]})"
        return svg.drawing(both, scope, choices.reading, position, title)

    name = file_name(run.trace, "decoding")
    with st.container(horizontal=True, gap="small", key="downloads"):
        ui.download(
            "Both runs, CSV", lambda: files.table(now(), scope), f"{name}.csv", "text/csv", about
        )
        ui.download(
            "This step, SVG", drawing, f"{name}.token{step + 1}.svg", "image/svg+xml", about
        )
        ui.download(
            "All steps, npz", lambda: files.arrays(now(), scope), f"{name}.npz", about=about
        )
