"""The effect of every head over held-out texts.

It is recorded with the checkpoint, or measured here in the background.
"""

from collections.abc import Generator

import streamlit as st

from models import InputError, Scope
from models.number_text import how_many
from models.runs.sweep import Sweep, SweepResult
from models.runs.text_loss import complete_streams
from viz_app.controls import pick
from viz_app.controls.slices import SlicedWork, Slices
from viz_app.controls.text_box import text_box
from viz_app.session import url_state
from viz_app.session.parameters import Text

MIN_SWEPT_TEXTS = 8  # texts of a sweep
MAX_SWEPT_TEXTS = 256
LIVE_SWEPT_PER_PASS = 8  # texts in one pass, so that it can be stopped soon
SWEPT_TEXTS = Text("if-texts")
TEXTS_LABEL = "Held-out texts, one per line (a tab between the two texts of a pair)"
_SWEEPS = Slices("if-sweep")  # by weights and baseline


def sweep_results(scope: Scope, baseline: str) -> SweepResult | None:
    """Return the results for these weights, recorded with the checkpoint or measured here."""
    record = scope.training.get("ablation")
    if record and record["baseline"] == baseline:
        return SweepResult.of_record(record)
    return _SWEEPS.result((scope.fingerprint, baseline))


def sweeping(scope: Scope, baseline: str) -> None:
    """Draw the buttons and the texts or the progress.

    Draws nothing where results are recorded.
    """
    if sweep_results(scope, baseline) is not None:
        return
    is_running = _SWEEPS.is_running((scope.fingerprint, baseline))
    texts, error = _texts(scope)
    with pick.control_row("sweep", "small"):
        pick.button(
            f"Measure over {len(texts)} texts",
            "if-sweep-start",
            lambda: _SWEEPS.start(
                (scope.fingerprint, baseline), texts, lambda: _sweep(scope, baseline, texts)
            ),
            type="primary",
            icon=":material/play_arrow:",
            disabled=is_running or len(texts) < MIN_SWEPT_TEXTS,
        )
        pick.button(
            "Stop", "if-sweep-stop", _SWEEPS.stop, icon=":material/stop:", disabled=not is_running
        )
    if error:
        st.error(error)
    else:
        _SWEEPS.draw()


def _texts(scope: Scope) -> tuple[list[list[str]], str]:
    """Return the texts to measure over, and the error in those that were typed."""
    if len(scope.held_out) >= MIN_SWEPT_TEXTS:
        return scope.held_out[:MAX_SWEPT_TEXTS], ""
    value, error = text_box(TEXTS_LABEL, SWEPT_TEXTS, url_state.get(SWEPT_TEXTS) or "")
    texts = [line.split("\t") for line in value.splitlines() if line.strip()][:MAX_SWEPT_TEXTS]
    for i, fields in enumerate(texts, 1):
        try:
            complete_streams(scope, fields)
        except (InputError, TypeError) as error:
            return [], f"Line {i}: {error}"
    if 0 < len(texts) < MIN_SWEPT_TEXTS:
        few = how_many(len(texts), "text")
        return texts, f"{few}, too few: at least {MIN_SWEPT_TEXTS} are needed."
    return texts, error


def _sweep(scope: Scope, baseline: str, texts: list[list[str]]) -> SlicedWork:
    streams = [complete_streams(scope, text) for text in texts]
    sweep = Sweep(scope, streams, baseline=baseline, batch=LIVE_SWEPT_PER_PASS)

    def steps() -> Generator[int, None, SweepResult]:
        yield from sweep.steps()
        return sweep.swept()

    key = (scope.fingerprint, baseline)
    return SlicedWork(key, texts, steps(), sweep.n_passes, "passes", "measuring")
