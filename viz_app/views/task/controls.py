"""The controls of the page Task: the position whose answer is shown, the tokens that are hidden, the order of the predictions,
and the head whose row is shown with an answer."""

import random
from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.architectures.base import ORDER, POSITIONS, Field
from models.errors import InputError
from models.tokenizers.encoding import hidable
from models.trace.outputs import Output, TokenInOrder
from viz_app import ui, which_head
from viz_app.drawing.notes import first_output
from viz_app.drawing.sites import by_kind
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus, chosen_focus
from viz_app.session.parameters import Whole
from viz_app.views.task.choices import Choices
from viz_app.views.task.next_token import chosen_position
from viz_app.views.task.reading import answering, answering_sites
from viz_app.views.task.typed_order import FIGURE, figure_text, read_order, unlike

POSITION = Whole("task-position", is_step=True)
LONGEST_ORDER = 10_000  # characters
_TYPED, _REFUSED = "task-order", "task-order-refused"


def choose(run: CurrentRun) -> tuple[Choices, DeltaGenerator]:
    """Draw the row of controls; what is chosen, and where above them there is room for what was read and written."""
    strip, output = st.container(), first_output(run.trace)
    focus = _attention(run, output)
    if isinstance(output, TokenInOrder):
        _note_order(len(output.order))
    return Choices(url_state.get(POSITION), focus), strip


def choose_position(position: int) -> None:
    """Show the answer at this position of the run that stands on the page."""
    url_state.keep(POSITION, chosen_position(first_output(live.session().shown.trace), position))


def hide(positions: Sequence[int]) -> None:
    """Hide these tokens of the row that stands on the page, and no others of it. What is hidden beyond its end stays so."""
    run = live.session().shown
    field = next(field for field in run.scope.model.fields if field.kind == POSITIONS)
    row, parameter = run.trace.streams[field.stream], url_state.parameter_of(field)
    beyond = [position for position in url_state.get(parameter) or () if position >= len(row.ids)]
    places = hidable(row, run.scope.tokenizer.mask_id)
    chosen = sorted({*beyond, *(position for position in positions if position in places)})[
        : url_state.MOST_POSITIONS
    ]
    url_state.keep(parameter, tuple(chosen) or None)


def choose_run(name: str) -> None:
    """Open the checkpoint of this name in the place of the one that stands on the page."""
    url_state.keep(url_state.CHECKPOINT, name)


def _attention(run: CurrentRun, output: Output) -> Focus:
    """Whose attention is shown beside the answer; nothing to choose in a model without. In its row, too, an order of prediction."""
    trace = run.trace
    sites = answering_sites(trace, output.stream)
    if not sites:
        return Focus()
    site, head = answering(trace, output.stream, chosen_focus(trace)[1])
    kinds = {
        kind: found
        for kind, each in by_kind(trace)
        if (found := [one for one in each if one.name in sites])
    }
    with which_head.row():
        which_head.which_head(kinds, site, head)
        if isinstance(output, TokenInOrder):
            _choose_order(run, output)
    return Focus(site.name, head)


def _choose_order(run: CurrentRun, output: TokenInOrder) -> None:
    refused = st.session_state.get(_REFUSED)
    if refused is None or refused[0] != st.session_state.get(_TYPED):
        st.session_state[_TYPED] = " ".join(str(position + 1) for position in output.order)
        st.session_state.pop(_REFUSED, None)
    n, figure = len(output.order), figure_text(run.scope, run.trace)
    st.text_input(
        "Order, positions from 1", key=_TYPED, on_change=_take, width=180, max_chars=LONGEST_ORDER
    )
    for label, order in (("Left to right", tuple(range(n))), ("Reverse", output.order[::-1])):
        st.button(label, key=f"order {label}", on_click=put_order, args=(order,))
    st.button("Shuffle", key="order shuffle", on_click=_shuffle)
    st.button(
        "The paper's 3 → 2 → 4 → 1",
        key="order figure",
        on_click=_put_figure,
        args=(figure,),
        help=f"The figure of Yang et al. 2019, on a text of four tokens: “{figure}”",
    )


def _note_order(n: int) -> None:
    """What is wrong with an order, typed or of the address, or that it was made for another text than this one of n tokens."""
    refused = st.session_state.get(_REFUSED)
    wrong = refused[1] if refused else _linked()
    chosen = url_state.get(url_state.parameter_of(_field()))
    ui.note(
        st.empty(), wrong or (unlike(chosen, n) if chosen else ""), bad=bool(wrong), key="order"
    )


def _linked() -> str:
    """That an address asked for an order, and why it is none."""
    why = url_state.unfit(url_state.parameter_of(_field()))
    return (
        f"In this page's address the {why[0]}. The tokens are predicted from left to right."
        if why
        else ""
    )


def put_order(order: Sequence[int]) -> None:
    """Predict in this order from now on."""
    st.session_state.pop(_REFUSED, None)
    url_state.keep(url_state.parameter_of(_field()), tuple(order))


def _field() -> Field:
    return next(field for field in live.session().shown.scope.model.fields if field.kind == ORDER)


def _output() -> TokenInOrder:
    return first_output(live.session().shown.trace)


def _take() -> None:
    typed = st.session_state[_TYPED]
    try:
        put_order(read_order(typed, len(_output().order)))
    except InputError as error:
        st.session_state[_REFUSED] = typed, f"{error}."


def _shuffle() -> None:
    n = len(_output().order)
    put_order(random.sample(range(n), n))


def _put_figure(text: str) -> None:
    first, *others = live.session().shown.scope.model.text_fields
    url_state.keep(url_state.parameter_of(first), text)
    for field in others:
        url_state.keep(url_state.parameter_of(field), "")
    put_order(FIGURE)
