"""Inside a head: how one weight comes about, step by step, as matrices, with and without √d_k, and as one of many heads."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.trace import Trace
from viz_app import ui, words
from viz_app.components.catalogue import CHOICE, HEADS, MATRICES, SEVERAL, WALK
from viz_app.components.mounting import show
from viz_app.controls import similarity_text
from viz_app.controls.no_attention import no_attention
from viz_app.controls.similarity import note_similarity
from viz_app.drawing import provenance
from viz_app.drawing.stamp import facts
from viz_app.drawing.weight_cell import Cell
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import pick_head
from viz_app.session.live import Pictures
from viz_app.views.inside import files, scaling, text
from viz_app.views.inside.cell import heads_file
from viz_app.views.inside.controls import (
    choose,
    choose_head,
    choose_measure,
    choose_weight,
    hold_query,
    keep_stage,
)
from viz_app.views.inside.payloads import (
    DRAWN_BY_STREAMLIT,
    Choices,
    head_group,
    payloads,
    selection,
)
from viz_app.views.inside.several import measures_csv


def inside(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    ui.headline(
        "Inside a head: how does this one weight come about?",
        "From two tokens' vectors to the number, with this model's own values.",
    )
    if not run.trace.attention:
        return no_attention(run, st.container())
    ui.run_strip(run.trace, run.terms, run.stale)
    if why := text.not_walked(run.trace):
        with st.container(key="explanation"):
            st.markdown(why)
        return None
    choices, tokens = choose(run)
    _lay_out(payloads(run, choices), run, choices, tokens)
    return None if choices.view == DRAWN_BY_STREAMLIT else partial(payloads, choices=choices)


def _lay_out(drawn: Pictures, run: CurrentRun, choices: Choices, tokens: DeltaGenerator) -> None:
    cell = selection(run, choices)
    site, view = cell.site, choices.view
    note_similarity(drawn)
    if "choice" in drawn:
        with tokens:
            show(CHOICE, drawn["choice"], on_choose=choose_weight)
    if view == "walk":
        show(WALK, drawn["walk"], on_choose=choose_weight, on_stage=keep_stage)
    elif view == "matrices":
        show(MATRICES, drawn["matrices"], on_choose=choose_weight)
    elif view == "several":
        show(
            SEVERAL,
            drawn["several"],
            on_head=partial(choose_head, choices),
            on_measure=choose_measure,
            on_query=hold_query,
        )
    elif view == "heads":
        show(HEADS, drawn["heads"], on_pick=lambda head: pick_head(site.name, head))
    else:
        _scaling(run.trace, cell)
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        unlike = words.departures(run.scope.config) if view == "walk" else ""
        place = words.kind_title(site) if view == "several" else words.place(site, cell.head)
        explanation = f"**{place}.** {text.explain(view, site, run.terms)}"
        st.markdown("\n\n".join(part for part in (explanation, text.missing(site), unlike) if part))
        _downloads(cell, choices)
    with right:
        ui.checks_panel(drawn["checks"], similarity_text.trained(run))


def _scaling(trace: Trace, cell: Cell) -> None:
    dark = st.context.theme.type == "dark"
    curves = {
        "entropy": ("How evenly attention is spread", "entropy (nats)"),
        "product_gradient": ("How strongly weights answer to q·k", "‖∂weights/∂(q·k)‖"),
    }
    st.markdown(scaling.sentence(cell))
    left, right = st.columns([1.25, 1], gap="medium")
    with left:
        st.altair_chart(ui.presented(scaling.weights_chart(trace, cell, dark)), key="inside-bars")
        st.markdown(scaling.table(cell))
    with right:
        for field, (title, unit) in curves.items():
            chart = scaling.curve_chart(cell, field, title, unit, dark)
            st.altair_chart(ui.presented(chart), key=f"inside-{field}")


def _downloads(cell: Cell, choices: Choices) -> None:
    """The numbers of the picture that stands there when a file is asked for. Pictures have their own button."""
    session = live.session()

    def of(make: Callable[[Trace, Cell], str | bytes]) -> Callable[[], str | bytes]:
        def made() -> str | bytes:
            return make(session.shown.trace, selection(session.shown, choices))

        return made

    trace = session.shown.trace
    head = provenance.head_name(trace, cell.site, cell.head)
    name = f"{head}.query{cell.query + 1}"
    npz, csv = "application/octet-stream", "text/csv"
    offered = {
        "walk": [
            ("This walk, CSV", of(files.walk_csv), f"{name}.csv", csv),
            ("This walk, npz", of(files.walk_npz), f"{name}.npz", npz),
        ],
        "matrices": [
            (
                "The matrices, npz",
                of(lambda _, cell: files.matrices_npz(cell)),
                f"{head}.matrices.npz",
                npz,
            )
        ],
        "scaling": [("These numbers, CSV", of(files.scaling_csv), f"{name}.scaling.csv", csv)],
        "several": [
            (
                "All measures, CSV",
                lambda: measures_csv(head_group(session.shown, choices)),
                f"{provenance.file_name(trace, cell.site.kind, 'measures')}.csv",
                csv,
            )
        ],
        "heads": [("The heads, CSV", of(files.heads_csv), f"{heads_file(trace, cell)}.csv", csv)],
    }[choices.view]
    with st.container(horizontal=True, gap="small", key="downloads"):
        for label, make, file, mime in offered:
            ui.download(label, make, file, mime, lambda: facts(session.shown.trace))
