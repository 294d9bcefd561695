"""Pictures of a run at a training step that pages share: the line that was read and written, and
the encoder's states of a model without attention."""

from models.analysis.fixed_vector import check_fixed_vector
from viz_app import words
from viz_app.drawing.notes import answer_line, check_rows, small_print, strip
from viz_app.drawing.states import encoder_states
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures


def without_attention(run: CurrentRun) -> Pictures:
    """Return the pictures of a model without attention: the states of its encoder."""
    title = (
        f"The encoder's states; framed: h(m), all that the decoder is given of {run.terms.source}"
    )
    return {
        **step_notes(run),
        "states": encoder_states(run.trace, run.scope.config, title),
        "checks": check_rows(check_fixed_vector(run.scope.model, run.trace)),
    }


def step_notes(run: CurrentRun) -> Pictures:
    """Return the line that was read and written, and at an earlier training step the scores of its weights."""
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
    """Name the training step shown and the scores of its weights."""
    return words.at_step(run.spec.model.step, run.scope.training["scores"])
