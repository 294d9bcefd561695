"""Pictures of a run at a training step that pages share: the line that was read and written, and
the encoder's states of a model without attention."""

from models.analysis.fixed_vector import check_fixed_vector
from models.trace import Trace
from viz_app import words
from viz_app.drawing.notes import answer_line, check_rows, small_print, strip
from viz_app.drawing.states import encoder_states
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.run_variants import at_step


def without_attention(run: CurrentRun, step: int | None) -> Pictures:
    """Return the pictures of a model without attention: the states of its encoder."""
    own = at_step(run, step)
    title = (
        f"The encoder's states; framed: h(m), all that the decoder is given of {run.terms.source}"
    )
    return {
        **step_notes(run, own, own.trace, step),
        "states": encoder_states(own.trace, own.scope.config, title),
        "checks": check_rows(check_fixed_vector(own.scope.model, own.trace)),
    }


def step_notes(run: CurrentRun, own: CurrentRun, trace: Trace, step: int | None) -> Pictures:
    """Return the line that was read and written, and the scores of the weights at a training step."""
    label, output = answer_line(trace)
    whose = "" if step is None else f"{words.after_steps(step)}: "
    learned = {} if step is None else {"note growth": small_print(learned_line(step, own))}
    return {"written": strip(trace, run.terms, run.stale, (f"{whose}{label}", output)), **learned}


def learned_line(step: int, run: CurrentRun) -> str:
    """Name the training step shown and the scores of its weights."""
    return words.at_step(step, run.scope.training["scores"])
