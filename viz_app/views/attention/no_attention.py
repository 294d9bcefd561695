"""What the pages about attention show of a model that has none: the states its encoder passes through."""

import streamlit as st

from models.analysis.fixed_vector import check_fixed_vector
from viz_app import ui, words
from viz_app.drawing import states
from viz_app.drawing.look import look
from viz_app.drawing.provenance import file_name
from viz_app.session.current_run import CurrentRun


def no_attention(shown: CurrentRun) -> None:
    """The encoder's states instead of attention, why there is none, and the check that only h_m passes."""
    trace, config, terms = shown.trace, shown.scope.config, shown.terms
    title = f"The encoder's states; framed: h(m), all that the decoder is given of {terms.source}"
    name = file_name(trace, "encoder-states")
    figure = states.encoder_states(trace, config, look(st.context.theme.type), title)
    st.plotly_chart(figure, theme=None, key="encoder-states", config=ui.camera(name))
    explained, checked = st.columns([1.4, 1], gap="medium")
    with explained, st.container(key="explanation"):
        st.markdown(states.says(config, terms))
        with st.container(horizontal=True, gap="small", key="downloads"):
            ui.download("The states, CSV", lambda: states.states_csv(trace), f"{name}.csv", "text/csv")
            ui.download("All states, npz", lambda: states.states_npz(trace), f"{name}.npz")
    with checked:
        ui.checks_panel(ui.checked(check_fixed_vector(shown.scope.model, trace)), words.trained(shown.scope.training))
