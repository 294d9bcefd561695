"""Timing of forward passes on this machine: a button, its settings, and results as they arrive."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import altair as alt
import streamlit as st
import torch

from models.analysis.jacobian_reach import LAYER_KINDS
from models.analysis.layer_timing import TIMED_LENGTHS, Timing, machine, time_layers
from viz_app import ui
from viz_app.controls import pick
from viz_app.session.downloads import Download
from viz_app.session.live import noted
from viz_app.session.parameters import Choice, Whole
from viz_app.session.url_state import get

TIMED_SIZES = (16, 32, 64, 128, 256, 512)
D, REPETITIONS = (
    Choice("from-rnn-d", 128, False, TIMED_SIZES),
    Whole("from-rnn-repetitions", 7, low=1, high=25),
)
TIMING_SLICE, TIMING_PAUSE = (
    0.3,
    0.05,
)  # seconds of measuring in one run of the fragment, and until the next
NOTHING_TIMED = (
    "Nothing is measured before you press the button. All times are measured on this machine."
)
_MEASUREMENT = "from-rnn measured"


@dataclass(frozen=True)
class TimingPresentation:
    """The presentation of timings: a chart, a text beside it, and a CSV file."""

    chart: Callable[[Sequence[Timing]], alt.Chart]
    text: Callable[[Sequence[Timing]], str]
    csv: Callable[[Sequence[Timing], str], str]


@dataclass
class Measurement:
    """A measurement in progress or ended, with its timings so far."""

    name: str
    settings: str
    where: str
    remaining: Iterator[Timing] | None
    timings: list[Timing] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.remaining is not None

    @property
    def total(self) -> int:
        """The number of timings in a complete measurement."""
        return len(TIMED_LENGTHS) * len(LAYER_KINDS)

    @property
    def state(self) -> str:
        """The progress, the machine and the settings in one line."""
        n = len(self.timings)
        status = "done" if n == self.total else "stopped; its times remain"
        status = "measuring" if self.running else status
        return f"{n} of {self.total}: {status}. {self.where}. {self.settings}."

    def advance(self, seconds: float) -> None:
        """Measure for about this long."""
        deadline = perf_counter() + seconds
        while self.remaining is not None and perf_counter() < deadline:
            timing = next(self.remaining, None)
            if timing is None:
                self.remaining = None
            else:
                self.timings.append(timing)


def measuring(device: torch.device, width: int, presentation: TimingPresentation) -> None:
    """Draw the button, its settings and the timings; `width` is that of the convolution."""
    with pick.control_row():
        d = pick.step("d (features), the same for all", D, TIMED_SIZES, get(D), width=260)
        repetitions = pick.pick_whole("Repetitions", REPETITIONS, width=200)
        st.button(
            "Measure on this machine",
            key="from-rnn-measure",
            type="primary",
            icon=":material/timer:",
            on_click=noted(_begin),
            args=(device, d, width, repetitions),
        )
        st.button("Stop", key="from-rnn-stop", on_click=noted(_stop), icon=":material/stop:")
    measurement = _measurement()
    running = measurement is not None and measurement.running
    ui.redraw_alone(_times, presentation, every=TIMING_PAUSE if running else None)


def timings() -> Sequence[Timing]:
    """Return what this session has measured so far."""
    measurement = _measurement()
    return measurement.timings if measurement else []


def _measurement() -> Measurement | None:
    return st.session_state.get(_MEASUREMENT)


def _begin(device: torch.device, d: int, width: int, repetitions: int) -> None:
    settings = f"d = {d}, one layer each, CNN width {width}, one sequence a pass, median of {repetitions} after a warm-up"
    name = f"d{d}.width{width}.median-of-{repetitions}"
    st.session_state[_MEASUREMENT] = Measurement(
        name, settings, machine(device), time_layers(d, width, repetitions, device)
    )


def _stop() -> None:
    if (measurement := _measurement()) is not None:
        measurement.remaining = None


def _times(presentation: TimingPresentation) -> None:
    """Draw progress, chart and table; measure a slice at each run until done or stopped."""
    measurement = _measurement()
    if measurement is None:
        st.progress(0.0, NOTHING_TIMED)
    elif measurement.running:
        measurement.advance(TIMING_SLICE)
        if not measurement.running:
            st.rerun()  # ends the periodic reruns of the fragment
    timed = timings()
    if measurement is not None:
        st.progress(len(timed) / measurement.total, measurement.state)
    left, right = st.columns([1.2, 1], gap="medium")
    with left:
        st.altair_chart(ui.fit_to_screen(presentation.chart(timed)), key="from-rnn-times")
    with right, st.container(key="measured"):
        st.markdown(presentation.text(timed))
        if measurement and timed:
            ui.downloads([_file(measurement, presentation)])


def _file(measured: Measurement, presentation: TimingPresentation) -> Download:
    about = {"timed": measured.settings, "machine": measured.where}
    return Download(
        "The times, CSV",
        f"forward-times.{measured.name}.csv",
        lambda: presentation.csv(measured.timings, measured.where),
        lambda: about,
    )
