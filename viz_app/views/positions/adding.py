"""A token's vector and its place's, added and concatenated, of the text that is read."""

from functools import partial

import streamlit as st
from torch import Tensor

from models.analysis.position_measures import add_or_concatenate
from models.layers.positions import sinusoidal
from viz_app import ui, which_head, words
from viz_app.drawing.labels import labels, numbered
from viz_app.drawing.look import look
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import caption, facts, of_model
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.parameters import Whole
from viz_app.views.positions import charts as figures
from viz_app.views.positions import claims as claims
from viz_app.views.positions import files as files
from viz_app.views.positions import order_text as say

TOKEN = Whole("positions-token", 0)


def added(run: CurrentRun) -> None:
    """(x + p)·W beside [x; p]·[W; W], with the model's embeddings, positions and its first W_Q."""
    trace, config, model = run.trace, run.scope.config, run.scope.model
    first = f"{model.stack}.layers.0.self_attn"
    if model.is_recurrent or first not in trace.attention:
        ui.run_strip(trace, run.terms, run.stale)
        reads = model.fields[0].stream
        attends = any(s.query_stream == s.key_stream == reads for s in trace.attention.values())
        st.markdown(say.not_added(model, attends))
        return
    tokens = [label.text for label in labels(trace.streams[model.fields[0].stream])]
    site, written = trace.attention[first], st.container()
    head = min(chosen_focus(trace)[1].head, site.n_heads - 1)
    with which_head.row():
        which_head.which_head({site.kind: [site]}, site, head)
        token = st.selectbox(
            "Token",
            range(len(tokens)),
            format_func=numbered(tokens).__getitem__,
            width=320,
            **url_state.bound(TOKEN, min(url_state.get(TOKEN), len(tokens) - 1)),
        )
    with written:
        ui.run_strip(trace, run.terms, run.stale)
    x, p = _vectors(run)
    weight, bias = site.projections["W_Q"]
    both = add_or_concatenate(x, p, weight.T)
    sums = {"token x": x, f"position p({token})": p, "x + p": x + p, "[x; p]·[I; I]": both.folded}
    own = slice(
        head * site.d_head, (head + 1) * site.d_head
    )  # the columns of W_Q that make this head's queries
    products = {"(x + p)·W": both.added[:, own], "[x; p]·[W; W]": both.concatenated[:, own]}
    _strips(
        run,
        token,
        {
            "sum": (
                sums,
                f"“{tokens[token]}” at place {token}: its vector, the place's, and their sum",
                "dimension",
            ),
            "product": (
                products,
                say.through(config, words.place(site, head)),
                "dimension of the query",
            ),
        },
    )
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(say.adding(x, p, config.positions))
        with st.container(horizontal=True, gap="small", key="downloads"):
            numbers = {
                "x": x,
                "p": p,
                "W": weight.T,
                "added": both.added,
                "concatenated": both.concatenated,
            }
            file, about = f"{file_name(run.trace, 'added')}.npz", partial(facts, run.trace)
            ui.download(
                "x, p, W and both products, npz",
                lambda: files.tensors_npz(numbers),
                file,
                about=about,
            )
    with right:
        sums_up = config.positions != "none" and model.first_reads_sum
        checks = [
            *claims.adding(both, x + p),
            *([claims.queries(both, bias, site.q[0])] if sums_up else []),
        ]
        ui.checks_panel(ui.check_rows(checks), words.training_summary(run.scope.training))


def _strips(
    run: CurrentRun, token: int, pictures: dict[str, tuple[dict[str, Tensor], str, str]]
) -> None:
    """The pictures side by side, each the vectors of one token, with a title and the name of its axis."""
    colours, file = look(st.context.theme.type), file_name(run.trace, "added")
    note = caption(of_model(run.trace, run.scope.model.fields[0].name))
    for column, (key, (rows, title, axis)) in zip(
        st.columns(2, gap="medium"), pictures.items(), strict=True
    ):
        figure = figures.strips(
            {name: values[token] for name, values in rows.items()}, colours, title, axis, note
        )
        column.plotly_chart(
            ui.presented(figure),
            theme=None,
            key=f"positions-{key}",
            config=ui.camera(f"{file}.{key}"),
        )


def _vectors(run: CurrentRun) -> tuple[Tensor, Tensor]:
    """The embeddings and positions of what was asked, as the model adds them; a model without positions lends the paper's."""
    stack = run.scope.model.stack
    x, p = (run.trace.activations[f"{stack}.{name}"].value[0] for name in ("embedding", "position"))
    return x, p if run.scope.config.positions != "none" else sinusoidal(*x.shape)
