"""The view of a model without attention: the states of its encoder.

A check confirms that only h(m) is passed on.
"""

from collections.abc import Sequence
from functools import partial

from models.analysis.fixed_vector import check_fixed_vector
from viz_app.components.catalogue import STATES
from viz_app.controls import similarity_text
from viz_app.controls.step_payloads import step_notes
from viz_app.drawing import states
from viz_app.drawing.extent import Scaled
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.page import File, Foot, PageCell, ShownComponent, View


def encoder_state_payloads(run: CurrentRun, choices: None = None) -> Pictures:
    """Return the pictures of a model without attention: the states of its encoder."""
    title = (
        f"The encoder's states; framed: h(m), all that the decoder receives of {run.terms.source}"
    )
    return {
        **step_notes(run),
        "states": Scaled(partial(states.encoder_states, run.trace, run.scope.config, title)),
        "checks": check_rows(check_fixed_vector(run.scope.model, run.trace)),
    }


def _layout(run: CurrentRun, choices: None, pictures: Pictures) -> Sequence[PageCell]:
    return [ShownComponent(STATES), Foot((1.4, 1))]


def _text(run: CurrentRun, choices: None) -> str:
    return states.explain_states(run.scope.config, run.terms)


def _files(run: CurrentRun, choices: None) -> Sequence[File]:
    name = file_name(run.trace, "encoder-states")
    return [
        File("The states, CSV", lambda now: states.states_csv(now.trace), f"{name}.csv"),
        File("All states, npz", lambda now: states.states_npz(now.trace), f"{name}.npz"),
    ]


ENCODER_STATES = View(
    encoder_state_payloads, _layout, text=_text, files=_files, trained=similarity_text.trained
)
