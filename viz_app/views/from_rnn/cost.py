"""What runs in parallel, and what it costs: the paper's Table 1 beside counts on this sentence and times on this machine."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter

import streamlit as st
import torch

from models.analysis.jacobian_reach import LAYER_KINDS
from models.analysis.layer_timing import LENGTHS, Timing, machine, measure
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice, Whole
from viz_app.session.url_state import bound, get
from viz_app.ui import download, presented
from viz_app.views.from_rnn import charts as charts
from viz_app.views.from_rnn import cost_text
from viz_app.views.from_rnn import files as files
from viz_app.views.from_rnn.parts import WIDTH, Layers, layers

SIZES = (16, 32, 64, 128, 256, 512)
D, REPETITIONS = (
    Choice("from-rnn-d", 128, False, SIZES),
    Whole("from-rnn-repetitions", 7, low=1, high=25),
)
SLICE, PAUSE = 0.3, 0.05  # seconds of measuring in one run of the fragment, and until the next
_MEASUREMENT = "from-rnn measured"


@dataclass
class Measurement:
    """A measurement under way or ended, with what it has found so far."""

    name: str
    settings: str
    where: str
    remaining: Iterator[Timing] | None
    timings: list[Timing] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.remaining is not None

    def advance(self, seconds: float) -> None:
        """Measure for about so long."""
        until = perf_counter() + seconds
        while self.remaining is not None and perf_counter() < until:
            timing = next(self.remaining, None)
            if timing is None:
                self.remaining = None
            else:
                self.timings.append(timing)


def cost(run: CurrentRun) -> None:
    """Draw the section."""
    four_layers = layers(run)
    if four_layers is None:
        return
    st.markdown(cost_text.counted_and_timed(run.scope.device.type, torch.get_num_threads()))
    left, right = st.columns([1.15, 1], gap="medium")
    with left:
        chart = charts.schedule(
            four_layers.reaches, "Who must wait: the positions each sequential step computes"
        )
        st.altair_chart(presented(chart), width="content", key="from-rnn-schedule")
    with right:
        chart = charts.path_lengths(four_layers.reaches, "How many steps from one token to another")
        st.altair_chart(presented(chart), key="from-rnn-paths")
    _measuring(run, four_layers)


def _measuring(run: CurrentRun, four_layers: Layers) -> None:
    """The button and its knobs; the times below run on by themselves."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        d = st.select_slider("d (features), the same for all", SIZES, width=260, **bound(D, get(D)))
        repetitions = st.slider(
            "Repetitions",
            REPETITIONS.low,
            REPETITIONS.high,
            width=200,
            **bound(REPETITIONS, get(REPETITIONS)),
        )
        st.button(
            "Measure on this machine",
            key="from-rnn-measure",
            type="primary",
            icon=":material/timer:",
            on_click=_begin,
            args=(run, d, get(WIDTH), repetitions),
        )
        st.button("Stop", key="from-rnn-stop", on_click=_stop, icon=":material/stop:")
    measured: Measurement | None = st.session_state.get(_MEASUREMENT)
    running = measured is not None and measured.running
    st.fragment(_times, run_every=PAUSE if running else None)(four_layers)


def _begin(run: CurrentRun, d: int, width: int, repetitions: int) -> None:
    device = run.scope.device
    settings = (
        f"d = {d}, one layer each, CNN width {width}, one sequence of random vectors a pass, median of {repetitions} after one "
        "pass to warm up"
    )
    name = f"d{d}.width{width}.median-of-{repetitions}"
    st.session_state[_MEASUREMENT] = Measurement(
        name, settings, machine(device), measure(d, width, repetitions, device)
    )


def _stop() -> None:
    if (measured := st.session_state.get(_MEASUREMENT)) is not None:
        measured.remaining = None


def _times(four_layers: Layers) -> None:
    """Progress, the plot, the table; measures a little each time it runs, until all is measured or it is stopped."""
    measured: Measurement | None = st.session_state.get(_MEASUREMENT)
    timings = measured.timings if measured else []
    if measured is None:
        st.progress(
            0.0,
            "Nothing is measured before the button is pressed: every time below is taken on this machine, then.",
        )
    elif measured.running:
        measured.advance(SLICE)
        if not measured.running:
            st.rerun()  # so that nothing runs on by itself any more
    if measured is not None:
        whole = len(LENGTHS) * len(LAYER_KINDS)
        state = (
            "measuring"
            if measured.running
            else "done"
            if len(timings) == whole
            else "stopped; what was measured stays"
        )
        st.progress(
            len(timings) / whole,
            f"{len(timings)} of {whole}: {state}. {measured.where}. {measured.settings}.",
        )
    left, right = st.columns([1.2, 1], gap="medium")
    with left:
        title = "Forward time of one layer against length, both logarithmic"
        st.altair_chart(presented(charts.forward_times(timings, title)), key="from-rnn-times")
    with right, st.container(key="explanation"):
        st.markdown(cost_text.growth_text(timings) if timings else cost_text.UNMEASURED)
        st.markdown(cost_text.TABLE_NOTE)
        with st.container(horizontal=True, gap="small", key="downloads"):
            if timings:
                name, about = (
                    f"forward-times.{measured.name}.csv",
                    {"timed": measured.settings, "machine": measured.where},
                )
                download(
                    "The times, CSV",
                    lambda: files.timings_csv(timings, measured.where),
                    name,
                    "text/csv",
                    lambda: about,
                )
    st.markdown(cost_text.comparison_table(four_layers.reaches, timings))
