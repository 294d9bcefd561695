"""The parts of the Positions page about turned queries and keys: the rotation itself, and scores by distance."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from viz_app import ui, which_head, words
from viz_app.components.catalogue import BY_DISTANCE, CHOICE, PLAIN
from viz_app.components.mounting import show
from viz_app.drawing.look import look
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import caption, facts, of_model
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.parameters import Whole
from viz_app.views.positions import charts as draw
from viz_app.views.positions import files as files
from viz_app.views.positions import rotation_claims as claims
from viz_app.views.positions import rotation_text as say
from viz_app.views.positions.distance_payloads import Choices, DistanceView, payloads, sites_by_kind
from viz_app.views.positions.tables import LENGTH

QUERY, KEY = Whole("positions-query"), Whole("positions-key", 0)
HEIGHT = 280  # px: what the pictures mean is in sight with them


def rotation(run: CurrentRun) -> None:
    """By which angle each pair of dimensions is turned at each position, and how long its waves are."""
    model, trace = run.scope.model, run.trace
    if model.rotation(2) is None:
        st.markdown(say.no_rotation(model))
        return
    n = st.slider(
        "Length (positions)",
        LENGTH.low,
        LENGTH.high,
        step=4,
        **url_state.bound(LENGTH, url_state.get(LENGTH)),
    )
    turns = model.rotation(n)
    about = {"size": say.size(n, turns.n_pairs)} | of_model(trace)
    name = file_name(trace, "rotation")
    left, right = st.columns([1.3, 1], gap="medium")
    title = f"By which angle each pair is turned at each position: {run.scope.name}"
    figure = draw.heatmap(
        say.within_half_a_turn(turns.angles),
        look(st.context.theme.type),
        title,
        ("position", "pair of dimensions"),
        HEIGHT,
        0.5,
        note=caption(about),
        value="turns",
    )
    left.plotly_chart(
        ui.presented(figure), theme=None, key="positions-rotation", config=ui.camera(name)
    )
    title = "How many positions one full turn takes, by pair of dimensions"
    waves = turns.wavelengths
    top = max([100_000, *waves[waves < draw.NEVER].tolist()])
    chart = draw.wavelength_chart(waves, (), n, title, "pair of dimensions", top).properties(
        height=HEIGHT
    )
    right.altair_chart(ui.presented(chart), key="positions-rotation-waves")
    site = next(site for site in trace.attention.values() if site.has_causes)
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(say.rotation(turns, site.d_head, n))
        with st.container(horizontal=True, gap="small", key="downloads"):
            ui.download(
                "The angles in radians, CSV",
                lambda: files.angles_csv(turns),
                f"{name}.csv",
                "text/csv",
                lambda: about,
            )
    with right:
        ui.checks_panel(ui.check_rows(claims.rotation(turns, site.dtype)), "")


def distances(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """The scores of one head by distance; and of one query and one key, what turning alone makes of their score. Returns how the
    pictures are made of another run."""
    kinds = sites_by_kind(run)
    if not kinds:
        ui.run_strip(run.trace, run.terms, run.stale)
        st.markdown(say.NO_SCORES)
        return None
    site, focus = chosen_focus(run.trace)
    site = site if site.kind in kinds else next(iter(kinds.values()))[0]
    choices = Choices(
        site.name, min(focus.head, site.n_heads - 1), url_state.get(QUERY), url_state.get(KEY)
    )
    with which_head.row():
        which_head.which_head(kinds, site, choices.head)
    ui.run_strip(run.trace, run.terms, run.stale)
    _lay_out(payloads(run, choices), run, choices)
    return partial(payloads, choices=choices)


def _lay_out(drawn: Pictures, run: CurrentRun, choices: Choices) -> None:
    if "choice" in drawn:
        show(CHOICE, drawn["choice"], on_choose=_choose_pair)
    left, right = st.columns(2, gap="medium")
    with left:
        show(BY_DISTANCE, drawn["positions-distance"], key="positions-distance")
        st.caption(say.BAND)
    with right:
        if "positions-carried" in drawn:
            show(BY_DISTANCE, drawn["positions-carried"], key="positions-carried")
            st.caption(say.CARRIED)
        else:
            st.markdown(say.no_rotation(run.scope.model))
    left, right = st.columns(2, gap="medium")
    session = live.session()
    with left:
        show(PLAIN, drawn["positions-explained"], key="positions-explained")
        with st.container(horizontal=True, gap="small", key="downloads"):
            ui.download(
                "Scores by distance, CSV",
                lambda: _csv(DistanceView(session.shown, choices)),
                f"{DistanceView(run, choices).file}.csv",
                "text/csv",
                lambda: facts(session.shown.trace),
            )
    with right:
        ui.checks_panel(drawn["checks"], words.training_summary(run.scope.training))


def _choose_pair(query: int, key: int) -> None:
    """Look at another query, or at this key."""
    url_state.keep(QUERY, query)
    if key >= 0:
        url_state.keep(KEY, key)


def _csv(view: DistanceView) -> str:
    return files.distances_csv(view.all_pairs, view.one_pair)
