"""Notes on the run at a training step, shared by several pages."""

from viz_app import words
from viz_app.drawing.notes import answer_line, small_print, strip
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures


def step_notes(run: CurrentRun) -> Pictures:
    """Return the line of texts read and written, and the scores of an earlier step's weights."""
    label, output = answer_line(run.trace)
    step = run.spec.model.step
    if step is None:
        return {"written": strip(run.trace, run.terms, run.stale, (label, output))}
    answer = f"{words.after_steps(step)}: {label}", output
    return {
        "written": strip(run.trace, run.terms, run.stale, answer),
        "note growth": small_print(learned_line(run)),
    }


def learned_line(run: CurrentRun) -> str:
    """Return the shown training step and the scores of its weights in a sentence."""
    return words.at_step(run.spec.model.step, run.scope.training["scores"])
