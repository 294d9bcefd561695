"""A layer, step by step: the residual stream of one token before and behind every part of every layer."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from viz_app import ui, words
from viz_app.components.catalogue import LAYER
from viz_app.components.mounting import show
from viz_app.drawing.stamp import Facts, facts
from viz_app.session import live, reference_models
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.layer import files, text
from viz_app.views.layer.controls import choose, choose_layer, choose_token
from viz_app.views.layer.payloads import payloads, unkept
from viz_app.views.layer.token_view import Choices, TokenView, token_view


def layer(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    ui.headline(text.QUESTION, text.answer(run.scope.model.sublayers))
    ui.run_strip(run.trace, run.terms, run.stale)
    if not run.scope.model.sublayers:
        instead = reference_models.one_that(run, lambda scope: bool(scope.model.sublayers))
        with st.container(key="explanation"):
            st.markdown(
                text.no_layers(run.scope.model.is_recurrent, instead.name if instead else "")
            )
        return None
    if said := unkept(run):
        with st.container(key="explanation"):
            st.markdown(said)
        return None
    choices = choose(run)
    _lay_out(payloads(run, choices), run, choices)
    return partial(payloads, choices=choices)


def _lay_out(drawn: Pictures, run: CurrentRun, choices: Choices) -> None:
    show(LAYER, drawn["layer"], on_layer=choose_layer, on_token=partial(choose_token, choices))
    left, right = st.columns([1.2, 1], gap="medium")
    with left, st.container(key="explanation"):
        view = token_view(run, choices)
        sublayers = [part.sublayer for part in view.parts]
        st.markdown(text.explain(sublayers, view.output, run.scope.model.can_write))
        session = live.session()

        def of(make: Callable[[TokenView], str | bytes]) -> Callable[[], str | bytes]:
            return lambda: make(token_view(session.shown, choices))

        def about() -> Facts:
            return facts(token_view(session.shown, choices).run.trace)

        with st.container(horizontal=True, gap="small", key="downloads"):
            ui.download(
                "This token, CSV", of(files.layers_csv), files.name(view, "csv"), "text/csv", about
            )
            ui.download(
                "Its vectors, npz", of(files.layers_npz), files.name(view, "npz"), about=about
            )
    with right:
        ui.checks_panel(drawn["checks"], words.training_summary(run.scope.training))
