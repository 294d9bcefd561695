"""The parts of the Positions page that run on the sidebar's text: the shuffle test, and adding beside concatenating."""

import streamlit as st
import torch
from torch import Tensor

from models import Scope
from models.architectures import Model
from models.decoding import greedy
from models.position_measures import add_or_concatenate
from models.positions import sinusoidal
from models.seq2seq import Seq2Seq
from models.shuffle import ORDERS, encoder_stages, new_order, shuffle_test, without_positions
from viz_app import parts, words
from viz_app.figures import positions as draw
from viz_app.figures import positions_claims as claims
from viz_app.figures import positions_files as files
from viz_app.figures import positions_shuffle as draw_shuffle
from viz_app.figures import positions_words as say
from viz_app.figures.labels import labels
from viz_app.figures.look import look
from viz_app.shown import Shown

_FIRST = "encoder.layers.0.self_attn"


def shuffle(shown: Shown) -> None:
    """The shuffle test on the source text, with positions and with positions switched off."""
    scope, trace = shown.scope, shown.trace
    how, seed, writing = _order_controls()
    parts.written(trace, shown.terms, shown.stale)
    order = new_order(len(trace.source.ids), how, seed)
    if isinstance(scope.model, Seq2Seq):
        _shuffle_recurrent(shown, order, writing)
        return
    bare_model = without_positions(scope.model)
    positioned = shuffle_test(scope.model, trace.source.ids, order)
    bare = shuffle_test(bare_model, trace.source.ids, order)
    tokens, colours = [label.text for label in labels(trace.source)], look(st.context.theme.type)
    pictures = {
        "tangle": draw_shuffle.tangle(tokens, order, colours, "The tokens change places"),
        "with": draw_shuffle.change_map(positioned, tokens, colours, "With positions: how far each vector moved"),
        "without": draw_shuffle.change_map(bare, tokens, colours, "Positions switched off: how far each moved"),
    }
    for column, (name, figure) in zip(st.columns(3, gap="medium"), pictures.items(), strict=True):
        column.plotly_chart(figure, theme=None, key=f"positions-{name}", config=parts.camera(f"shuffle-{name}"))
    left, right = st.columns([1.3, 1], gap="medium")
    with left:
        title = "Mean change at the encoder's input and after each layer"
        figure = draw_shuffle.change_by_stage(positioned, bare, colours, title)
        st.plotly_chart(figure, theme=None, key="positions-stages", config=parts.camera("shuffle-stages"))
        if writing:
            _writes(scope, trace.source.ids, order, {draw_shuffle.WITH: scope.model, draw_shuffle.WITHOUT: bare_model})
    with right, st.container(key="explanation"):
        st.markdown(say.shuffled(positioned, bare, scope.config.positions))
        with st.container(horizontal=True, gap="small", key="downloads"):
            parts.download("The changes, CSV", lambda: files.shuffle_csv(tokens, positioned, bare), "shuffle.csv", "text/csv")
        last = list(encoder_stages(scope.model, trace.activations).values())[-1][0]
        parts.checks_panel(parts.checked(claims.shuffled(positioned, bare, last)), words.trained(scope.training))


def _shuffle_recurrent(shown: Shown, order: tuple[int, ...], writing: bool) -> None:
    """The same test on the encoder of an RNN, whose order is in its recurrence."""
    scope, trace = shown.scope, shown.trace
    test = shuffle_test(scope.model, trace.source.ids, order)
    tokens, colours = [label.text for label in labels(trace.source)], look(st.context.theme.type)
    recorded = torch.cat(list(encoder_stages(scope.model, trace.activations).values()))
    left, middle, right = st.columns([1, 1, 1.2], gap="medium")
    pictures = {
        "tangle": draw_shuffle.tangle(tokens, order, colours, "The tokens change places"),
        "states": draw_shuffle.change_map(test, tokens, colours, "The encoder's states: how far each moved"),
    }
    for column, (name, figure) in zip((left, middle), pictures.items(), strict=True):
        column.plotly_chart(figure, theme=None, key=f"positions-{name}", config=parts.camera(f"shuffle-{name}"))
    with right, st.container(key="explanation"):
        st.markdown(say.recurrent(test))
        if writing:
            _writes(scope, trace.source.ids, order, {"the model": scope.model})
        with st.container(horizontal=True, gap="small", key="downloads"):
            parts.download("The changes, CSV", lambda: files.states_csv(tokens, test), "shuffle.csv", "text/csv")
        parts.checks_panel(parts.checked(claims.recurrent(test, recorded)), words.trained(scope.training))


def _order_controls() -> tuple[str, int, bool]:
    """How the tokens are reordered, which of the shuffles, and whether the model is to write from them."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        how = st.segmented_control(
            "New order of the tokens", list(ORDERS), default="shuffled", required=True, key="positions-order",
            bind="query-params", help="The end mark keeps its place: it marks where the text ends and is no word.",
        )
        seed = st.number_input(
            "Which shuffle", 0, 9999, 0, key="positions-seed", bind="query-params", width=150,
            disabled=how != "shuffled",
        )
        writing = st.toggle(
            "Let the model write from each", key="positions-write", bind="query-params",
            help="Greedy decoding, four times. Switched off means: in the decoder too.",
        )
    return how, int(seed), writing


def _writes(scope: Scope, source: tuple[int, ...], order: tuple[int, ...], named: dict[str, Model]) -> None:
    """What each of these models writes from the text as typed and reordered."""
    reordered = [source[i] for i in order]
    for where, model in named.items():
        for what, ids in (("as typed", source), ("reordered", reordered)):
            text = scope.tokenizer.decode([step.token for step in greedy(model, ids)])
            parts.note(st.empty(), f"{where}, {what}: {text}", key=f"{where} {what}")


def added(shown: Shown) -> None:
    """(x + p)·W beside [x; p]·[W; W], with the model's embeddings, positions and its first W_Q."""
    trace, config = shown.trace, shown.scope.config
    if isinstance(shown.scope.model, Seq2Seq) or _FIRST not in trace.attention:
        parts.written(trace, shown.terms, shown.stale)
        st.markdown(say.NOT_ADDED if isinstance(shown.scope.model, Seq2Seq) else say.NOT_ATTENDED)
        return
    tokens = [label.text for label in labels(trace.source)]
    token = st.selectbox(
        "Token", range(len(tokens)), format_func=draw_shuffle.numbered(tokens).__getitem__, key="positions-token",
        bind="query-params", width=320,
    )
    parts.written(trace, shown.terms, shown.stale)
    x, p = _vectors(shown)
    site = trace.attention[_FIRST]
    weight, bias = site.projections["W_Q"]
    both = add_or_concatenate(x, p, weight.T)
    colours = look(st.context.theme.type)
    sums = {"token x": x, f"position p({token})": p, "x + p": x + p, "[x; p]·[I; I]": both.folded}
    products = {"(x + p)·W": both.added, "[x; p]·[W; W]": both.concatenated}
    left, right = st.columns(2, gap="medium")
    for column, rows, key, title, axis in (
        (left, sums, "sum", f"“{tokens[token]}” at place {token}: its vector, the place's, and their sum", "dimension"),
        (right, products, "product", "Both through the model's first W_Q: the same query", "dimension of the query"),
    ):
        figure = draw.strips({name: values[token] for name, values in rows.items()}, colours, title, axis)
        column.plotly_chart(figure, theme=None, key=f"positions-{key}", config=parts.camera(f"added-{key}"))
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(say.adding(x, p, config.positions))
        with st.container(horizontal=True, gap="small", key="downloads"):
            numbers = {"x": x, "p": p, "W": weight.T, "added": both.added, "concatenated": both.concatenated}
            parts.download("x, p, W and both products, npz", lambda: files.tensors_npz(numbers), "added.npz")
    with right:
        checks = claims.adding(both, x + p)
        if config.positions != "none" and getattr(config, "norm", "post") == "post":     # under pre-LN, W_Q reads LayerNorm(x + p)
            checks.append(claims.queries(both, bias, site.q[0]))
        parts.checks_panel(parts.checked(checks), words.trained(shown.scope.training))


def _vectors(shown: Shown) -> tuple[Tensor, Tensor]:
    """The source's embeddings and positions as the encoder adds them; a model without positions lends the paper's."""
    x, p = (shown.trace.activations[f"encoder.{name}"].value[0] for name in ("embedding", "position"))
    return x, p if shown.scope.config.positions != "none" else sinusoidal(*x.shape)
