"""What runs in parallel, and what it costs: the paper's Table 1 beside counts on this sentence and times on this machine."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter

import streamlit as st
import torch

from models.analysis.layer_timing import LENGTHS, Timing, machine, measure
from models.analysis.reach import LAYER_KINDS
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice, Whole
from viz_app.session.url_state import bound, get
from viz_app.ui import download, presented
from viz_app.views.from_rnn import charts as charts
from viz_app.views.from_rnn import cost_text
from viz_app.views.from_rnn import files as files
from viz_app.views.from_rnn.parts import WIDTH, Layers, layers

SIZES = (16, 32, 64, 128, 256, 512)
D, REPETITIONS = Choice("from-rnn-d", 128, False, SIZES), Whole("from-rnn-repetitions", 7, low=1, high=25)
SLICE, PAUSE = 0.3, 0.05     # seconds of measuring in one run of the fragment, and until the next
_MEASURED = "from-rnn measured"


@dataclass
class Measured:
    """A measurement under way or ended, with what it has found so far."""

    name: str
    settings: str
    where: str
    left: Iterator[Timing] | None
    timings: list[Timing] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.left is not None

    def go_on(self, seconds: float) -> None:
        """Measure for about so long."""
        until = perf_counter() + seconds
        while self.left is not None and perf_counter() < until:
            timing = next(self.left, None)
            if timing is None:
                self.left = None
            else:
                self.timings.append(timing)


def cost(run: CurrentRun) -> None:
    """Draw the section."""
    there = layers(run)
    if there is None:
        return
    st.markdown(cost_text.counted_and_timed(run.scope.device.type, torch.get_num_threads()))
    left, right = st.columns([1.15, 1], gap="medium")
    with left:
        chart = charts.schedule(there.reaches, "Who must wait: the positions each sequential step computes")
        st.altair_chart(presented(chart), width="content", key="from-rnn-schedule")
    with right:
        chart = charts.path_lengths(there.reaches, "How many steps from one token to another")
        st.altair_chart(presented(chart), key="from-rnn-paths")
    _measuring(run, there)


def _measuring(run: CurrentRun, there: Layers) -> None:
    """The button and its knobs; the times below run on by themselves."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        d = st.select_slider("d (features), the same for all", SIZES, width=260, **bound(D, get(D)))
        repetitions = st.slider(
            "Repetitions", REPETITIONS.low, REPETITIONS.high, width=200, **bound(REPETITIONS, get(REPETITIONS))
        )
        st.button("Measure on this machine", key="from-rnn-measure", type="primary", icon=":material/timer:",
                  on_click=_begin, args=(run, d, get(WIDTH), repetitions))
        st.button("Stop", key="from-rnn-stop", on_click=_stop, icon=":material/stop:")
    measured: Measured | None = st.session_state.get(_MEASURED)
    running = measured is not None and measured.running
    st.fragment(_times, run_every=PAUSE if running else None)(there)


def _begin(run: CurrentRun, d: int, width: int, repetitions: int) -> None:
    device = run.scope.device
    settings = (
        f"d = {d}, one layer each, CNN width {width}, one sequence of random vectors a pass, median of {repetitions} after one "
        "pass to warm up"
    )
    name = f"d{d}.width{width}.median-of-{repetitions}"
    st.session_state[_MEASURED] = Measured(name, settings, machine(device), measure(d, width, repetitions, device))


def _stop() -> None:
    if (measured := st.session_state.get(_MEASURED)) is not None:
        measured.left = None


def _times(there: Layers) -> None:
    """Progress, the plot, the table; measures a little each time it runs, until all is measured or it is stopped."""
    measured: Measured | None = st.session_state.get(_MEASURED)
    timings = measured.timings if measured else []
    if measured is None:
        st.progress(0.0, "Nothing is measured before the button is pressed: every time below is taken on this machine, then.")
    elif measured.running:
        measured.go_on(SLICE)
        if not measured.running:
            st.rerun()                # so that nothing runs on by itself any more
    if measured is not None:
        whole = len(LENGTHS) * len(LAYER_KINDS)
        state = "measuring" if measured.running else "done" if len(timings) == whole else "stopped; what was measured stays"
        st.progress(len(timings) / whole, f"{len(timings)} of {whole}: {state}. {measured.where}. {measured.settings}.")
    left, right = st.columns([1.2, 1], gap="medium")
    with left:
        title = "Forward time of one layer against length, both logarithmic"
        st.altair_chart(presented(charts.forward_times(timings, title)), key="from-rnn-times")
    with right, st.container(key="explanation"):
        st.markdown(cost_text.grew(timings) if timings else cost_text.UNMEASURED)
        st.markdown(cost_text.TABLE_NOTE)
        with st.container(horizontal=True, gap="small", key="downloads"):
            if timings:
                name, about = f"forward-times.{measured.name}.csv", {"timed": measured.settings, "machine": measured.where}
                download("The times, CSV", lambda: files.timings_csv(timings, measured.where), name, "text/csv", lambda: about)
    st.markdown(cost_text.compared(there.reaches, timings))
