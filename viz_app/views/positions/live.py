"""The parts of the Positions page that run on the sidebar's text: the shuffle test, and adding beside concatenating."""

from collections.abc import Callable
from functools import partial

import streamlit as st
import torch
from torch import Tensor

from models import Scope
from models.analysis.checks import Check
from models.analysis.permutation_test import (
    ORDERS,
    ShuffleTest,
    encoder_stages,
    movable,
    new_order,
    reordered,
    shuffle_test,
    without_positions,
)
from models.analysis.position_measures import add_or_concatenate
from models.analysis.said_of_both import compared
from models.architectures import Model
from models.decoding import greedy
from models.layers.positions import sinusoidal
from models.tokenizers.encoding import Encoding
from viz_app import ui, words
from viz_app.components.plain import plain
from viz_app.components.shuffle import shuffle as draw
from viz_app.drawing import notes
from viz_app.drawing.labels import labels
from viz_app.drawing.look import look
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import caption, facts, of_model, saving
from viz_app.session import cache, live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Switch, Whole
from viz_app.views.positions import charts as figures
from viz_app.views.positions import claims as claims
from viz_app.views.positions import files as files
from viz_app.views.positions import order_text as say
from viz_app.views.positions import shuffle as draw_shuffle

ORDER = Choice("positions-order", "shuffled", options=tuple(ORDERS))
SEED, WRITING = Whole("positions-seed", 0), Switch("positions-write")
TOKEN = Whole("positions-token", 0)


def shuffle(shown: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """The shuffle test on what is read, with positions and with positions switched off, and of a model that does not write on its
    answer; of an RNN, whose order is in its recurrence, on its encoder's states. Returns how the pictures are made of another
    run."""
    scope = shown.scope
    if not can_shuffle(scope.model):
        ui.written(shown.trace, shown.terms, shown.stale)
        st.markdown(say.not_shuffled(scope.model))
        return None
    how, seed, writing = _order_controls(scope.model)
    ui.written(shown.trace, shown.terms, shown.stale)
    models: dict[str, Model] = {draw_shuffle.WITH: scope.model}
    if not scope.model.is_recurrent:
        models[draw_shuffle.WITHOUT] = without_positions(scope.model)

    file = file_name(shown.trace, "shuffle-test")

    def pictures(shown: CurrentRun) -> Pictures:
        source, tests, about = _row(shown), _tests(shown, models, how, seed), facts(shown.trace)
        titled = dict(zip(_titles(tests), tests.values(), strict=True))
        stages = {}
        if len(tests) > 1:
            stages["positions-stages"] = draw_shuffle.by_stage(source, tests, saving(f"{file}.stages", about))
        return {
            "positions-shuffle": draw_shuffle.shuffle(source, titled, saving(file, about)),
            "positions-explained": notes.rows("explained", *_found(shown, *tests.values()), *_answers(shown, how, seed)),
            "checks": ui.checked(_checks(shown, *tests.values())),
            **stages,
        }

    drawn = pictures(shown)
    draw(drawn["positions-shuffle"], key="positions-shuffle")
    left, right = st.columns([1.3, 1], gap="medium")
    with left:
        if "positions-stages" in drawn:
            draw(drawn["positions-stages"], key="positions-stages")
        else:
            plain(drawn["positions-explained"], key="positions-explained")
        if writing:
            _writes(scope, _row(shown).ids, _order(_row(shown), how, seed), models)
    with right:
        if "positions-stages" in drawn:
            plain(drawn["positions-explained"], key="positions-explained")
        session = live.session()
        with st.container(horizontal=True, gap="small", key="downloads"):
            tests = partial(_tests, models=models, how=how, seed=seed)
            ui.download(
                "The changes, CSV", lambda: _csv(session.shown, *tests(session.shown).values()), f"{file}.csv", "text/csv",
                lambda: facts(session.shown.trace),
            )
        ui.checks_panel(drawn["checks"], words.trained(scope.training))
    return None if writing else pictures


def _tests(shown: CurrentRun, models: dict[str, Model], how: str, seed: int) -> dict[str, ShuffleTest]:
    row = _row(shown)
    order = _order(row, how, seed)
    return {name: shuffle_test(model, row.ids, order, row.segments) for name, model in models.items()}


def can_shuffle(model: Model) -> bool:
    """Whether it reads a text all at once and tells the order of its tokens by vectors of their places, or by a recurrence."""
    reads_all = not model.can_write and not model.continues
    return model.positions_can_go and (model.translates or (reads_all and model.positions is not None))


def _row(shown: CurrentRun) -> Encoding:
    """The row of tokens that change places."""
    return shown.trace.streams[shown.scope.model.fields[0].stream]


def _order(row: Encoding, how: str, seed: int) -> tuple[int, ...]:
    return new_order(len(row.ids), how, seed, movable(row))


def _answers(shown: CurrentRun, how: str, seed: int) -> list[tuple[str, str]]:
    """What a model that does not write answers to the row as typed and reordered, with positions and without."""
    if shown.scope.model.can_write:
        return []
    if not compared(shown.trace, shown.trace).names:
        return [("line", say.NOTHING_ASKED)]
    row, lines = _row(shown), []
    other = reordered(row, _order(row, how, seed))
    for where, scope in ((draw_shuffle.WITH, shown.scope), (draw_shuffle.WITHOUT, cache.without_positions(shown.scope))):
        for what, asked in (("as typed", row), ("reordered", other)):
            lines.append(("line", say.answered(where, what, *notes.answered(cache.again(scope, asked)))))
    return lines


def _titles(tests: dict[str, ShuffleTest]) -> list[str]:
    if len(tests) == 1:
        return ["The encoder's states: how far each moved"]
    return ["With positions: how far each vector moved", "Positions switched off: how far each moved"]


def _found(shown: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None) -> list[tuple[str, str]]:
    if bare:
        fixed = "the end mark" if shown.scope.model.translates else "special tokens"
        return [("line", say.shuffled(test, bare, shown.scope.config.positions, fixed))]
    _, lead, rest = say.recurrent(test).split("**")
    return [("lead", lead), ("line", rest)]


def _checks(shown: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None) -> list[Check]:
    stages = list(encoder_stages(shown.scope.model, shown.trace.activations).values())
    return claims.shuffled(test, bare, stages[-1][0]) if bare else claims.recurrent(test, torch.cat(stages))


def _csv(shown: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None) -> str:
    tokens = [label.text for label in labels(_row(shown))]
    return files.shuffle_csv(tokens, test, bare) if bare else files.states_csv(tokens, test)


def _order_controls(model: Model) -> tuple[str, int, bool]:
    """How the tokens are reordered, which of the shuffles, and whether the model, if it writes, is to write from them."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        how = st.segmented_control(
            "New order of the tokens", list(ORDERS), required=True, **url_state.bound(ORDER, url_state.get(ORDER)),
            help=say.order_help(model),
        )
        seed = st.number_input(
            "Which shuffle", SEED.low, SEED.high, width=150, disabled=how != "shuffled",
            **url_state.bound(SEED, url_state.get(SEED)),
        )
        writing = model.can_write and st.toggle(
            "Let the model write from each", **url_state.bound(WRITING, url_state.get(WRITING)),
            help="Greedy decoding, as typed and reordered; where positions can be switched off, without them too, in the decoder "
            "as well.",
        )
    return how, int(seed), writing


def _writes(scope: Scope, source: tuple[int, ...], order: tuple[int, ...], named: dict[str, Model]) -> None:
    """What each of these models writes from the text as typed and reordered."""
    reordered = [source[i] for i in order]
    for where, model in named.items() if len(named) > 1 else [("the model", *named.values())]:
        for what, ids in (("as typed", source), ("reordered", reordered)):
            text = scope.tokenizer.decode([step.token for step in greedy(model, ids)])
            ui.note(st.empty(), f"{where}, {what}: {text}", key=f"{where} {what}")


def added(shown: CurrentRun) -> None:
    """(x + p)·W beside [x; p]·[W; W], with the model's embeddings, positions and its first W_Q."""
    trace, config = shown.trace, shown.scope.config
    model = shown.scope.model
    first = f"{model.stack}.layers.0.self_attn"
    if model.is_recurrent or first not in trace.attention:
        ui.written(trace, shown.terms, shown.stale)
        st.markdown(_why_not_added(model))
        return
    tokens = [label.text for label in labels(trace.streams[model.fields[0].stream])]
    token = st.selectbox(
        "Token", range(len(tokens)), format_func=draw_shuffle.numbered(tokens).__getitem__, width=320,
        **url_state.bound(TOKEN, min(url_state.get(TOKEN), len(tokens) - 1)),
    )
    ui.written(trace, shown.terms, shown.stale)
    x, p = _vectors(shown)
    site = trace.attention[first]
    weight, bias = site.projections["W_Q"]
    both = add_or_concatenate(x, p, weight.T)
    colours = look(st.context.theme.type)
    sums = {"token x": x, f"position p({token})": p, "x + p": x + p, "[x; p]·[I; I]": both.folded}
    products = {"(x + p)·W": both.added, "[x; p]·[W; W]": both.concatenated}
    file, note = file_name(shown.trace, "added"), caption(of_model(trace, model.fields[0].name))
    left, right = st.columns(2, gap="medium")
    for column, rows, key, title, axis in (
        (left, sums, "sum", f"“{tokens[token]}” at place {token}: its vector, the place's, and their sum", "dimension"),
        (right, products, "product", say.through(config), "dimension of the product"),
    ):
        figure = figures.strips({name: values[token] for name, values in rows.items()}, colours, title, axis, note)
        column.plotly_chart(figure, theme=None, key=f"positions-{key}", config=ui.camera(f"{file}.{key}"))
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(say.adding(x, p, config.positions))
        with st.container(horizontal=True, gap="small", key="downloads"):
            numbers = {"x": x, "p": p, "W": weight.T, "added": both.added, "concatenated": both.concatenated}
            about = partial(facts, shown.trace)
            ui.download("x, p, W and both products, npz", lambda: files.tensors_npz(numbers), f"{file}.npz", about=about)
    with right:
        checks = claims.adding(both, x + p)
        if config.positions != "none" and model.first_reads_sum:
            checks.append(claims.queries(both, bias, site.q[0]))
        ui.checks_panel(ui.checked(checks), words.trained(shown.scope.training))


def _why_not_added(model: Model) -> str:
    if model.is_recurrent:
        return say.NOT_ADDED
    return say.RELATIVE_ONLY if model.relative_positions else say.NOT_ATTENDED


def _vectors(shown: CurrentRun) -> tuple[Tensor, Tensor]:
    """The embeddings and positions of what was asked, as the model adds them; a model without positions lends the paper's."""
    stack = shown.scope.model.stack
    x, p = (shown.trace.activations[f"{stack}.{name}"].value[0] for name in ("embedding", "position"))
    return x, p if shown.scope.config.positions != "none" else sinusoidal(*x.shape)
