"""The score of a run's edits over held-out texts: button, progress, result with its interval."""

from dataclasses import dataclass
from time import perf_counter

import streamlit as st

from models.trace.edits import Edits
from models.training.edited_score import EditedScore, EditedScoring
from viz_app.controls import pick
from viz_app.session.current_run import CurrentRun

SLICE, PAUSE = 0.3, 0.05  # seconds of scoring in one run of the fragment, and until the next
HELP = (
    "Scores the held-out texts of this model without and with your edits, on the same texts: what it writes if it translates, "
    "the loss of the texts otherwise. The interval is a 95 % paired bootstrap."
)
NO_EDITS = "Switch a head off first."
_RUNNING, _FINISHED = "if-score running", "if-scores finished"  # results by weights and edits

Key = tuple[str, Edits]


@dataclass
class Running:
    """A scoring in progress or stopped."""

    key: Key
    scoring: EditedScoring
    done: int = 0
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.steps = self.scoring.steps()

    def advance(self, seconds: float) -> None:
        """Score for about this long; the result, or why there is none, is kept at the end."""
        deadline = perf_counter() + seconds
        while perf_counter() < deadline:
            try:
                done = next(self.steps, None)
                result = self.scoring.found() if done is None else None
            except ValueError as error:
                _keep(self.key, str(error))
                return
            if result is not None:
                _keep(self.key, result)
                return
            self.done = done or self.done


def _keep(key: Key, result: EditedScore | str) -> None:
    st.session_state.setdefault(_FINISHED, {})[key] = result


def scoring(run: CurrentRun) -> None:
    """Draw the button, and the progress or the result of the run's edits.

    Draws nothing without held-out texts.
    """
    scope = run.scope
    if not scope.held_out:
        return
    key = (scope.fingerprint, run.spec.edits)
    running: Running | None = st.session_state.get(_RUNNING)
    if running is not None and running.key != key:
        running = st.session_state[_RUNNING] = None  # of other edits
    result = st.session_state.get(_FINISHED, {}).get(key)
    is_running = running is not None and not running.is_stopped
    with pick.row("score", "small"):
        if is_running:
            pick.button("Stop", "if-score-stop", _stop, icon=":material/stop:")
        else:
            pick.button(
                f"Score over {len(scope.held_out)} held-out texts",
                "if-score-start",
                lambda: _start(run, key),
                icon=":material/play_arrow:",
                disabled=not run.spec.edits or result is not None,
                help=HELP if run.spec.edits else f"{HELP} {NO_EDITS}",
            )
    if isinstance(result, str):
        st.error(result)
    elif result is not None:
        st.markdown(sentence(result))
    elif running is not None:
        st.fragment(_progress, run_every=PAUSE if is_running else None)()


def _start(run: CurrentRun, key: Key) -> None:
    running = st.session_state.get(_RUNNING)
    if running is not None and running.key == key:
        running.is_stopped = False
        return
    try:
        st.session_state[_RUNNING] = Running(key, EditedScoring(run.scope, run.spec.edits))
    except ValueError as error:
        _keep(key, str(error))


def _stop() -> None:
    if (running := st.session_state.get(_RUNNING)) is not None:
        running.is_stopped = True


def _progress() -> None:
    running: Running = st.session_state[_RUNNING]
    if not running.is_stopped:
        running.advance(SLICE)
        if running.key in st.session_state.get(_FINISHED, {}):
            st.session_state[_RUNNING] = None
            st.rerun()  # ends the periodic reruns of the fragment
    n = running.scoring.n
    status = "stopped; press the button to go on" if running.is_stopped else "scoring"
    st.progress(running.done / n, f"{running.done} of {n} texts: {status}")


def sentence(found: EditedScore) -> str:
    """Say how the score changes, and whether the interval holds 0."""
    change = found.change
    digits = 3 if found.is_loss else 1
    was, now = (f"{value:.{digits}f}" for value in (found.before, found.after))
    low, high, mean = (
        f"{value:+.{digits}f}".replace("-", "−") for value in (change.low, change.high, change.mean)
    )
    metric = found.metric if found.is_loss else f"{found.metric} in %"
    if change.low <= 0 <= change.high:
        verdict = "no clear change, since the interval holds 0"
    else:
        is_better = (change.mean < 0) == found.is_loss
        verdict = "**better** with your edits" if is_better else "**worse** with your edits"
    return (
        f"{metric[:1].upper()}{metric[1:]}: {was} → {now}, {mean} (95 % interval {low} to {high}, {found.n} held-out texts): "
        f"{verdict}."
    )
