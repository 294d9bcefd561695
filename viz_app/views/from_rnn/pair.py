"""The same pair, two alignments: Bahdanau's, and one cross-attention head of a Transformer."""

from functools import partial

import streamlit as st

from models import Scope
from models.analysis.divergence import jensen_shannon
from models.trace import AttentionSite, Trace
from viz_app import ui, which_head, words
from viz_app.components.catalogue import MAPS
from viz_app.components.mounting import show
from viz_app.drawing.labels import labels, step_labels
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, facts, saving
from viz_app.session import cache, reference_models
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice
from viz_app.session.url_state import bound, one_of
from viz_app.ui import download
from viz_app.views.from_rnn import files as files
from viz_app.views.from_rnn import maps as draw
from viz_app.views.from_rnn import pair_maps as heads
from viz_app.views.from_rnn import text as say

NEAREST = "nearest"  # the head of all layers that is least apart from the alignment
LAYER, HEAD = Choice("from-rnn-layer", NEAREST), Choice("from-rnn-head", 1)
_HELP = "“Nearest head” is the one, among those of all layers, whose rows are on average closest to Bahdanau's."


def pair(run: CurrentRun) -> None:
    """Draw the section."""
    found = [
        reference_models.one_that(run, suits) for suits in (heads.has_alignment, heads.has_heads)
    ]
    ui.run_strip(run.trace, run.terms, run.stale)
    if None in found:
        st.markdown(
            say.no_pair(
                reference_models.named(run.scope.task), found[0] is not None, found[1] is not None
            )
        )
        return
    traces = [_read(scope, run) for scope in found]
    if not heads.same_rows(*traces):
        st.markdown(say.DIFFERENT_ROWS)
        return
    _draw(found, traces)


def _read(scope: Scope, run: CurrentRun) -> Trace:
    """The shown pair under this model, teacher-forced on the shown target."""
    if scope is run.scope:
        return run.trace
    return cache.given_trace(scope, run.trace.streams["source"].text, run.trace.streams["target"])


def _draw(scopes: list[Scope], traces: list[Trace]) -> None:
    first, second = traces
    alignment = heads.cross(first)[0].weights(0)
    site, head = _chosen(heads.cross(second), heads.nearest(alignment, heads.cross(second)))
    two = [
        draw.AlignmentMap(
            "Bahdanau's alignment",
            say.provenance(scopes[0], "α_i = softmax(v·tanh(W s_{i−1} + U h_j))"),
            alignment,
        ),
        draw.AlignmentMap(
            f"Cross-attention, layer {site.layer + 1}, head {head + 1}",
            say.provenance(scopes[1], f"softmax({site.similarity.formula})"),
            site.weights(head),
        ),
    ]
    apart = jensen_shannon(two[0].weights, two[1].weights)
    name = file_name(
        first,
        "and",
        file_name(second, f"layer{site.layer + 1}", f"head{head + 1}", "two-alignments"),
    )
    source, target, saved = (
        first.streams["source"],
        first.streams["target"],
        saving(name, _both(first, second)),
    )
    show(MAPS, draw.alignments(two, source, target, saved), key="from-rnn-pair")
    steps = [label.text for label in step_labels(target, is_closed=True)]
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        unequal = words.unequal_training(
            {scope.name: int(scope.training.get("step", 0)) for scope in scopes}
        )
        st.markdown(
            say.divergence(float(apart.mean()), int(apart.argmax()), float(apart.max()), unequal)
        )
        st.markdown(say.JENSEN_SHANNON)
        tokens = [label.text for label in labels(source)]
        with st.container(horizontal=True, gap="small", key="downloads"):
            about = partial(_both, first, second)
            make = partial(files.alignments_csv, two, tokens, steps, apart)
            download("Both alignments, CSV", make, f"{name}.csv", "text/csv", about)
    with right:
        ui.checks_panel(ui.check_rows(heads.checks(traces, two, apart)), "")


def _both(first: Trace, second: Trace) -> Facts:
    """What is to be known of both runs."""
    return {
        f"{name} ({place})": said
        for place, run in (("first", first), ("second", second))
        for name, said in facts(run).items()
    }


def _chosen(sites: list[AttentionSite], nearest: tuple[int, int]) -> tuple[AttentionSite, int]:
    """The head picked, at first the one nearest to the alignment."""
    layers, heads = [NEAREST, *range(1, len(sites) + 1)], list(range(1, sites[0].n_heads + 1))
    layer, head = one_of(LAYER, layers, NEAREST), one_of(HEAD, heads, 1)
    of_layer, of_head = bound(LAYER, layer), bound(HEAD, head)
    with which_head.row():
        which_head.one_of(
            "Transformer's layer",
            of_layer["key"],
            layers,
            layer,
            of_layer["on_change"],
            lambda o: "nearest head" if o == NEAREST else str(o),
            help=_HELP,
        )
        which_head.one_of(
            "Head", of_head["key"], heads, head, of_head["on_change"], disabled=layer == NEAREST
        )
    return (sites[nearest[0]], nearest[1]) if layer == NEAREST else (sites[layer - 1], head - 1)
