"""What the sections of "From RNN to attention" share: the four layers over the shown sentence, and their knobs."""

from dataclasses import dataclass

import streamlit as st

from models.analysis.jacobian_reach import CNN, LAYER_KINDS, LayerChoice, has_layer
from models.tokenizers.base import Encoding
from viz_app import ui
from viz_app.session import cache, parameters, reference_models, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.views.from_rnn import reach_text
from viz_app.views.from_rnn.maps import LayerReach

LONGEST = 64  # tokens; the Jacobian grows with their square
WIDTHS, DEPTHS = (1, 3, 5, 7), tuple(range(1, 7))
WIDTH = parameters.Choice("from-rnn-width", 3, options=WIDTHS)
DEPTH = parameters.Choice("from-rnn-depth", 3, options=DEPTHS)
SEED = parameters.Whole("from-rnn-seed", 1)
_KEPT = "from-rnn last good"


@dataclass(frozen=True)
class Layers:
    """The four layers over one source."""

    source: Encoding
    layers: list[LayerReach]

    @property
    def reaches(self) -> list:
        return [one.reach for one in self.layers]


def layers(run: CurrentRun) -> Layers | None:
    """The knobs, and the layers they ask for; with a note and this model's last good ones where the sentence is too long."""
    width, depth, seed = _knobs()
    slot, n = st.empty(), len(run.trace.streams["source"].ids)
    if n > LONGEST:
        ui.note(slot, reach_text.too_long(n, LONGEST), bad=True, key="from-rnn")
        model, last = st.session_state.get(_KEPT, ("", None))
        return last if model == run.scope.fingerprint else None
    four = Layers(
        run.trace.streams["source"],
        [_layer_reach(run, kind, width, depth, seed) for kind in LAYER_KINDS],
    )
    st.session_state[_KEPT] = run.scope.fingerprint, four
    return four


def _knobs() -> tuple[int, int, int]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        width = st.segmented_control(
            "CNN: width k (tokens)",
            WIDTHS,
            required=True,
            **url_state.bound(WIDTH, url_state.get(WIDTH)),
        )
        depth = st.segmented_control(
            "CNN: layers",
            DEPTHS,
            required=True,
            **url_state.bound(DEPTH, url_state.get(DEPTH)),
        )
        seed = st.number_input(
            "Seed of untrained layers",
            SEED.low,
            SEED.high,
            width=170,
            **url_state.bound(SEED, url_state.get(SEED)),
            help="A layer that no model at hand has trained is newly initialised with this seed, and says so.",
        )
    return width, depth, int(seed)


def _layer_reach(run: CurrentRun, kind: str, width: int, depth: int, seed: int) -> LayerReach:
    """Trained where the shown model, or a shipped one of its task, has such a layer."""
    host = (
        None
        if kind == CNN
        else reference_models.one_that(run, lambda scope: has_layer(scope.model, kind))
    )
    choice = LayerChoice(kind, seed if host is None else None, width, depth)
    scope = host or run.scope
    return LayerReach(
        cache.reach(scope, run.trace.streams["source"].ids, choice),
        reach_text.weights(scope, choice),
    )
