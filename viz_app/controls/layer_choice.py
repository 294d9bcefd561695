"""Settings for comparing layers over one source text: CNN width and depth, seed of new layers."""

from dataclasses import dataclass

import streamlit as st

from models.tokenizers.encoding import Encoding
from viz_app import ui
from viz_app.controls import pick
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice, Whole

MAX_JACOBIAN_TOKENS = 64  # tokens; the Jacobian grows with their square
WIDTHS, DEPTHS = (1, 3, 5, 7), tuple(range(1, 7))
COMPARED_WIDTH = Choice("from-rnn-width", 3, options=WIDTHS)
COMPARED_DEPTH = Choice("from-rnn-depth", 3, options=DEPTHS)
COMPARED_SEED = Whole("from-rnn-seed", 1)
_LAST_RUN = "from-rnn last good"


@dataclass(frozen=True)
class Layers:
    """The CNN's width and depth, the seed of untrained layers, and the run whose source they read.

    `run` is None if no text was short enough.
    """

    width: int
    depth: int
    seed: int
    run: CurrentRun | None

    @property
    def source(self) -> Encoding | None:
        return short_source(self.run) if self.run else None


def choose_layers(run: CurrentRun) -> Layers:
    """Draw the settings into the current row.

    If the text is too long, show an error and use this model's last shorter text.
    """
    width = pick.pick_few("CNN: width k (tokens)", COMPARED_WIDTH, WIDTHS)
    depth = pick.pick_few("CNN: layers", COMPARED_DEPTH, DEPTHS)
    seed = pick.pick_typed(
        "Seed of untrained layers",
        COMPARED_SEED,
        width=170,
        help="A layer that no model here has trained gets random weights from this seed and is marked untrained.",
    )
    if short_source(run) is None:
        n = len(run.trace.streams["source"].ids)
        ui.show_note(st.container(), layer_text_too_long(n), bad=True, key="from-rnn")
        model, last = st.session_state.get(_LAST_RUN, ("", None))
        return Layers(width, depth, seed, last if model == run.scope.fingerprint else None)
    st.session_state[_LAST_RUN] = run.scope.fingerprint, run
    return Layers(width, depth, seed, run)


def short_source(run: CurrentRun) -> Encoding | None:
    """Return the source of a run; None if it is too long."""
    source = run.trace.streams["source"]
    return source if len(source.ids) <= MAX_JACOBIAN_TOKENS else None


def layer_text_too_long(n: int) -> str:
    """Return the error message for a text that is too long."""
    return (
        f"This sentence has {n} tokens; the Jacobian is computed for at most {MAX_JACOBIAN_TOKENS}."
    )
