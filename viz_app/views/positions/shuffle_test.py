"""The shuffle test of the text that is read: the tokens change places, with positions and with positions switched off."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from models import Scope
from models.analysis.shuffle import ORDERS
from models.architectures import Model
from models.decoding import greedy
from viz_app import ui, words
from viz_app.components.catalogue import PLAIN, SHUFFLE
from viz_app.components.mounting import show
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Switch, Whole
from viz_app.views.positions import order_text as say
from viz_app.views.positions import shuffle as draw_shuffle
from viz_app.views.positions import shuffle_payloads as payloads

ORDER = Choice("positions-order", "shuffled", options=tuple(ORDERS))
SEED, WRITING = Whole("positions-seed", 0), Switch("positions-write")


def shuffle(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """The shuffle test on what is read, with positions and with positions switched off, and of a model that does not write on its
    answer; of an RNN, whose order is in its recurrence, on its encoder's states. Returns how the pictures are made of another
    run."""
    scope = run.scope
    if not payloads.can_shuffle(scope.model):
        ui.run_strip(run.trace, run.terms, run.stale)
        st.markdown(say.not_shuffled(scope.model))
        return None
    how, seed, writing = _order_controls(scope.model)
    ui.run_strip(run.trace, run.terms, run.stale)
    models: dict[str, Model] = {draw_shuffle.WITH: scope.model}
    if not scope.model.is_recurrent:
        models[draw_shuffle.WITHOUT] = payloads.without_positions(run).model
    made = partial(payloads.pictures, models=models, how=how, seed=seed)
    drawn = made(run)
    show(SHUFFLE, drawn["positions-shuffle"], "positions-shuffle")
    left, right = st.columns([1.3, 1], gap="medium")
    with left:
        if "positions-stages" in drawn:
            show(SHUFFLE, drawn["positions-stages"], "positions-stages")
        else:
            show(PLAIN, drawn["positions-explained"], key="positions-explained")
        if writing:
            _writes(
                scope,
                payloads.row_of(run).ids,
                payloads.order_of(payloads.row_of(run), how, seed),
                models,
            )
    with right:
        if "positions-stages" in drawn:
            show(PLAIN, drawn["positions-explained"], key="positions-explained")
        session = live.session()
        with st.container(horizontal=True, gap="small", key="downloads"):
            tests = partial(payloads.tests_of, models=models, how=how, seed=seed)
            ui.download(
                "The changes, CSV",
                lambda: payloads.csv_of(session.shown, *tests(session.shown).values()),
                f"{file_name(run.trace, payloads.FILE)}.csv",
                "text/csv",
                lambda: facts(session.shown.trace),
            )
        ui.checks_panel(drawn["checks"], words.training_summary(scope.training))
    return None if writing else made


def _order_controls(model: Model) -> tuple[str, int, bool]:
    """How the tokens are reordered, which of the shuffles, and whether the model, if it writes, is to write from them."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        how = st.segmented_control(
            "New order of the tokens",
            list(ORDERS),
            required=True,
            **url_state.bound(ORDER, url_state.get(ORDER)),
            help=say.order_help(model),
        )
        seed = st.number_input(
            "Which shuffle",
            SEED.low,
            SEED.high,
            width=150,
            disabled=how != "shuffled",
            **url_state.bound(SEED, url_state.get(SEED)),
        )
        writing = model.can_write and st.toggle(
            "Let the model write from each",
            **url_state.bound(WRITING, url_state.get(WRITING)),
            help="Greedy decoding, as typed and reordered; where positions can be switched off, without them too, in the decoder "
            "as well.",
        )
    return how, int(seed), writing


def _writes(
    scope: Scope, source: tuple[int, ...], order: tuple[int, ...], named: dict[str, Model]
) -> None:
    """What each of these models writes from the text as typed and reordered."""
    reordered = [source[i] for i in order]
    for where, model in named.items() if len(named) > 1 else [("the model", *named.values())]:
        for what, ids in (("as typed", source), ("reordered", reordered)):
            text = scope.tokenizer.decode([step.token for step in greedy(model, ids)])
            ui.note(st.empty(), f"{where}, {what}: {text}", key=f"{where} {what}")
