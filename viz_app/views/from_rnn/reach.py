"""What can reach what: the Jacobian norms of four layers over the sidebar's sentence."""

from functools import partial

import streamlit as st

from viz_app import ui, words
from viz_app.components.catalogue import MAPS
from viz_app.components.mounting import show
from viz_app.drawing.labels import labels
from viz_app.drawing.look import look
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import caption, facts, of_model, saving
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice
from viz_app.session.url_state import bound, get
from viz_app.ui import download
from viz_app.views.from_rnn import charts as charts
from viz_app.views.from_rnn import files as files
from viz_app.views.from_rnn import maps as draw
from viz_app.views.from_rnn import reach_text
from viz_app.views.from_rnn.parts import layers

SCALE = Choice("from-rnn-scale", "root", options=tuple(draw.SCALES))


def reach(run: CurrentRun) -> None:
    """Draw the section."""
    four_layers = layers(run)
    scale = st.segmented_control(
        "Colour scale",
        list(draw.SCALES),
        required=True,
        format_func=lambda one: draw.SCALES[one][0],
        **bound(SCALE, get(SCALE)),
    )
    if four_layers is None:
        return
    name = file_name(run.trace, "what-reaches-what")
    about = partial(facts, run.trace)
    show(
        MAPS,
        draw.influence(four_layers.layers, four_layers.source, scale, saving(name, about())),
        key="from-rnn-maps",
    )
    left, right = st.columns([1.15, 1], gap="medium")
    with left:
        title = "Influence by distance: mean over the pairs that a layer can reach"
        note = caption(of_model(run.trace, "source"))
        figure = charts.fading(four_layers.reaches, look(st.context.theme.type), title, note)
        st.plotly_chart(
            ui.presented(figure),
            theme=None,
            key="from-rnn-fading",
            config=ui.camera(f"{name}.by-distance"),
        )
        ui.checks_panel(
            ui.check_rows(reach_text.checks(four_layers.reaches)),
            words.training_summary(run.scope.training),
        )
    with right, st.container(key="explanation"):
        st.markdown(reach_text.explanation(four_layers.reaches))
        st.markdown(reach_text.HOW)
        tokens, reached = [label.text for label in labels(four_layers.source)], four_layers.layers
        with st.container(horizontal=True, gap="small", key="downloads"):
            download(
                "The norms, CSV",
                lambda: files.influence_csv(reached, tokens),
                f"{name}.csv",
                "text/csv",
                about,
            )
            download(
                "The norms, npz",
                lambda: files.influence_npz(reached, tokens),
                f"{name}.npz",
                about=about,
            )
            download(
                "By distance, CSV",
                lambda: files.distance_csv(reached),
                f"{name}.by-distance.csv",
                "text/csv",
                about,
            )
