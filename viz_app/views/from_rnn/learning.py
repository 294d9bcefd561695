"""What each step from the fixed vector to the Transformer wins on one task, and what the similarity has to do with it."""

import streamlit as st

import models
from models import Scope
from viz_app import ui
from viz_app.drawing.look import look
from viz_app.drawing.stamp import caption
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.sidebar.examples import examples
from viz_app.ui import download
from viz_app.views.from_rnn import learners as from_rnn_learners
from viz_app.views.from_rnn import learners_text as say

TASK = "dates"


def stages(run: CurrentRun) -> None:
    """One date through every stage, and how each learned."""
    found = from_rnn_learners.stages(_shipped())
    text = run.trace.streams["source"].text if run.scope.task == TASK else examples(TASK)[0]
    st.markdown(say.STAGES)
    st.text(say.stage_text(text, run.scope.task == TASK))
    _show(
        found,
        [cache.trace(cache.scope(one.checkpoint), (text, "")).output for one in found],
        "stages",
    )


def similarities(run: CurrentRun) -> None:
    """The same Transformer trained under each similarity."""
    found = from_rnn_learners.similarities(_shipped())
    if found:
        st.markdown(say.similarities(found))
    _show(found, [], "similarities")


def _shipped() -> list[Scope]:
    return [scope for name in models.shipped() if (scope := cache.scope(name)).task == TASK]


def _show(learners: list[from_rnn_learners.Learner], outputs: list[str], name: str) -> None:
    if not learners:
        st.markdown(say.NOT_SHIPPED)
        return
    st.markdown(say.fastest(learners))
    about = {"task": TASK, "checkpoints": ", ".join(one.checkpoint for one in learners)}
    counted = {
        column: st.column_config.NumberColumn(format="localized")
        for column in ("Steps", "Parameters")
    }
    st.dataframe(
        from_rnn_learners.table(learners, outputs),
        hide_index=True,
        key=f"from-rnn-{name}-table",
        column_config=counted,
    )
    figure = from_rnn_learners.chart(
        learners, look(st.context.theme.type), "How fast each learns", caption(about)
    )
    st.plotly_chart(
        ui.presented(figure),
        theme=None,
        key=f"from-rnn-{name}",
        config=ui.camera(f"{TASK}.learning-{name}"),
    )
    with st.container(horizontal=True, gap="small", key="downloads"):
        file = f"{TASK}.learning-{name}.csv"
        download(
            "These curves, CSV",
            lambda: from_rnn_learners.learning_csv(learners),
            file,
            "text/csv",
            lambda: about,
        )
