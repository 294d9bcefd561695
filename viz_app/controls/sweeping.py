"""The effect of every head over held-out texts.

It is recorded with the checkpoint, or measured here in the background.
"""

from dataclasses import dataclass
from time import perf_counter

import streamlit as st

from models import InputError, Scope
from models.runs.sweep import Sweep, Swept
from viz_app.controls import pick
from viz_app.controls.text_box import text_box
from viz_app.session import url_state
from viz_app.session.parameters import Text

FEWEST = 8  # texts of a sweep
MOST = 256
BATCH = 8  # texts in one pass, so that it can be stopped soon
SLICE, PAUSE = 0.3, 0.05  # seconds of measuring in one run of the fragment, and until the next
TEXTS = Text("if-texts")
TEXTS_LABEL = "Held-out texts, one a line (the fields of a pair apart by a tab)"
_RUNNING = "if-sweep running"
_FINISHED = "if-sweeps finished"  # by weights and baseline


@dataclass
class Running:
    """A sweep in progress or stopped."""

    key: tuple[str, str]
    texts: list[list[str]]
    sweep: Sweep
    done: int = 0
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.steps = self.sweep.steps()

    def advance(self, seconds: float) -> None:
        """Measure for about this long; the results are kept when all is done."""
        deadline = perf_counter() + seconds
        while perf_counter() < deadline:
            done = next(self.steps, None)
            if done is None:
                st.session_state.setdefault(_FINISHED, {})[self.key] = self.sweep.swept()
                return
            self.done = done


def swept(scope: Scope, baseline: str) -> Swept | None:
    """Return the results for these weights, recorded with the checkpoint or measured here."""
    record = scope.training.get("ablation")
    if record and record["baseline"] == baseline:
        return Swept.of_record(record)
    return st.session_state.get(_FINISHED, {}).get((scope.fingerprint, baseline))


def sweeping(scope: Scope, baseline: str) -> None:
    """Draw the button and the texts, or the progress and its stop.

    Draws nothing where results are recorded.
    """
    if swept(scope, baseline) is not None:
        return
    running = st.session_state.get(_RUNNING)
    if running is not None and running.key != (scope.fingerprint, baseline):
        running = st.session_state[_RUNNING] = None  # of another model
    texts, error = _texts(scope)
    with pick.row("sweep", "small"):
        pick.button(
            f"Measure over {len(texts)} texts",
            "if-sweep-start",
            lambda: _start(scope, baseline, texts),
            type="primary",
            icon=":material/play_arrow:",
            disabled=len(texts) < FEWEST or (running is not None and not running.is_stopped),
        )
        pick.button(
            "Stop", "if-sweep-stop", _stop, icon=":material/stop:", disabled=running is None
        )
    if error:
        st.error(error)
    elif running is not None:
        goes_on = not running.is_stopped
        st.fragment(_progress, run_every=PAUSE if goes_on else None)()


def _texts(scope: Scope) -> tuple[list[list[str]], str]:
    """Return the texts to measure over, and what is wrong with those that were typed."""
    if len(scope.held_out) >= FEWEST:
        return scope.held_out[:MOST], ""
    typed, error = text_box(TEXTS_LABEL, TEXTS, url_state.get(TEXTS) or "")
    texts = [line.split("\t") for line in typed.splitlines() if line.strip()][:MOST]
    for i, fields in enumerate(texts, 1):
        try:
            scope.encode(*fields)
        except (InputError, TypeError) as error:
            return [], f"Line {i}: {error}"
    if 0 < len(texts) < FEWEST:
        return texts, f"{len(texts)} texts are too few; at least {FEWEST} are needed."
    return texts, error


def _start(scope: Scope, baseline: str, texts: list[list[str]]) -> None:
    running = st.session_state.get(_RUNNING)
    if running is not None and running.texts == texts:
        running.is_stopped = False
        return
    streams = [scope.encode(*text) for text in texts]
    sweep = Sweep(scope, streams, baseline=baseline, batch=BATCH)
    st.session_state[_RUNNING] = Running((scope.fingerprint, baseline), texts, sweep)


def _stop() -> None:
    if (running := st.session_state.get(_RUNNING)) is not None:
        running.is_stopped = True


def _progress() -> None:
    """Draw the progress, and measure a slice at each run until all is done or it is stopped."""
    running: Running = st.session_state[_RUNNING]
    if not running.is_stopped:
        running.advance(SLICE)
        if running.key in st.session_state.get(_FINISHED, {}):
            st.session_state[_RUNNING] = None
            st.rerun()  # ends the periodic reruns of the fragment
    n = running.sweep.n_passes
    status = "stopped; press the button to go on" if running.is_stopped else "measuring"
    st.progress(running.done / n, f"{running.done} of {n} passes: {status}")
