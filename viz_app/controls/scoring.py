"""The score of a run's edits over held-out texts: button, progress, result with its interval."""

from collections.abc import Generator

import streamlit as st

from models.held_out_texts import MIN_HELD_OUT_TEXTS
from models.number_text import decimal
from models.trace.edits import Edits
from models.training.edited_score import EditedScore, EditedScoring
from viz_app.controls import pick
from viz_app.controls.slices import SlicedWork, Slices
from viz_app.session.current_run import CurrentRun

SCORING_HELP = (
    "Scores the held-out texts of this model without and with your edits, on the same texts. A translator is scored "
    "by what it writes, other models by their loss. The interval is a 95 % paired bootstrap."
)
NO_EDITS = "Switch a head off first."

ScoreKey = tuple[str, Edits]  # of the weights, and the edits
_SCORINGS = Slices("if-score")


def scoring(run: CurrentRun) -> None:
    """Draw the button, and the progress or the result of the run's edits.

    Draws nothing without held-out texts.
    """
    scope = run.scope
    if not scope.held_out:
        return
    key = (scope.fingerprint, run.spec.edits)
    is_running, result = _SCORINGS.is_running(key), _SCORINGS.result(key)
    with pick.control_row("score", "small"):
        if is_running:
            pick.button("Stop", "if-score-stop", _SCORINGS.stop, icon=":material/stop:")
        else:
            pick.button(
                f"Score over {len(scope.held_out)} held-out texts",
                "if-score-start",
                lambda: _SCORINGS.start(key, None, lambda: _scoring(run, key)),
                icon=":material/play_arrow:",
                disabled=not run.spec.edits or result is not None,
                help=SCORING_HELP if run.spec.edits else f"{SCORING_HELP} {NO_EDITS}",
            )
    if result is not None:
        st.markdown(score_sentence(result))
    else:
        _SCORINGS.draw()


def _scoring(run: CurrentRun, key: ScoreKey) -> SlicedWork:
    scoring = EditedScoring(run.scope, run.spec.edits)

    def steps() -> Generator[int, None, EditedScore]:
        yield from scoring.steps()
        return scoring.score()

    return SlicedWork(key, None, steps(), scoring.n, "texts", "scoring")


def score_sentence(score: EditedScore) -> str:
    """Say how the score changes, and whether the interval contains 0."""
    change = score.change
    digits = 3 if score.is_loss else 1
    was, now = (f"{value:.{digits}f}" for value in (score.before, score.after))
    low, high, mean = (
        decimal(value, digits, signed=True) for value in (change.low, change.high, change.mean)
    )
    metric = score.metric if score.is_loss else f"{score.metric} in %"
    if score.n < MIN_HELD_OUT_TEXTS:
        verdict = "too few texts to tell whether it changes"
    elif change.low <= 0 <= change.high:
        verdict = "no clear change, since the interval contains 0"
    else:
        is_better = (change.mean < 0) == score.is_loss
        verdict = "**better** with your edits" if is_better else "**worse** with your edits"
    texts = f"{score.n} held-out text{'s' * (score.n != 1)}"
    return (
        f"{metric[:1].upper()}{metric[1:]}: {was} → {now}, {mean} (95 % interval {low} to {high}, {texts}): "
        f"{verdict}."
    )
