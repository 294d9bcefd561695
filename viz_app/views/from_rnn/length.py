"""Score against sentence length, as the checkpoints' own records have it."""

import streamlit as st

import models
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.ui import download, presented
from viz_app.views.from_rnn import charts as charts
from viz_app.views.from_rnn import files as files
from viz_app.views.from_rnn import text as say


def length(run: CurrentRun) -> None:
    """Draw the section."""
    scopes = [
        scope for name in models.shipped() if (scope := cache.scope(name)).task == "translation"
    ]
    records = {scope.name: found for scope in scopes if (found := scope.training.get("by_length"))}
    missing = [scope.name for scope in scopes if scope.name not in records]
    if missing:
        st.markdown(say.unrecorded(missing))
    if not records:
        return
    st.markdown(say.SCORED)
    left, right = st.columns([1.4, 1], gap="medium")
    with left:
        chart = charts.by_length(records, "Does a longer sentence lose more?")
        st.altair_chart(presented(chart), key="from-rnn-lengths")
    with right, st.container(key="explanation"):
        st.markdown(
            say.score_drop(
                records, {scope.name: int(scope.training.get("step", 0)) for scope in scopes}
            )
        )
        st.markdown(say.FIGURE_2)
        with st.container(horizontal=True, gap="small", key="downloads"):
            name = f"{'.'.join(records)}.score-by-length.csv"
            download("These scores, CSV", lambda: files.lengths_csv(records), name, "text/csv")
