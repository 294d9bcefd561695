"""The controls of an order of prediction: typed, from left to right, reversed, shuffled, or the one of the paper's figure."""

import random
import re
from collections.abc import Iterator, Sequence

import streamlit as st

from models import Scope
from models.architectures.base import ORDER
from models.asked import InputError
from models.trace import Trace
from models.trace.outputs import TokenInOrder
from viz_app import ui
from viz_app.drawing.notes import first_output
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.sidebar.examples import readable, readable_examples

FIGURE = (2, 1, 3, 0)       # 3 → 2 → 4 → 1, of Yang et al. 2019, figure 1
_TYPED, _REFUSED = "task-order", "task-order-refused"


def choose_order(run: CurrentRun) -> None:
    """Draw the row of controls, with what is wrong with a typed order under it."""
    output = first_output(run.trace)
    refused = st.session_state.get(_REFUSED)
    if refused is None or refused[0] != st.session_state.get(_TYPED):
        st.session_state[_TYPED], refused = " ".join(str(position + 1) for position in output.order), None
    n, figure = len(output.order), figure_text(run.scope, run.trace)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="order-controls"):
        st.text_input("Order of prediction, positions from 1", key=_TYPED, on_change=_take, width=320)
        for label, order in (("Left to right", tuple(range(n))), ("Reverse", output.order[::-1])):
            st.button(label, key=f"order {label}", on_click=put_order, args=(order,))
        st.button("Shuffle", key="order shuffle", on_click=_shuffle)
        st.button(
            "The paper's 3 → 2 → 4 → 1", key="order figure", on_click=_put_figure, args=(figure,),
            help=f"The figure of Yang et al. 2019, on a text of four tokens: “{figure}”",
        )
    ui.note(st.empty(), refused[1] if refused else "", bad=bool(refused), key="order")


def put_order(order: Sequence[int]) -> None:
    """Predict in this order from now on."""
    st.session_state.pop(_REFUSED, None)
    url_state.keep(url_state.CHOSEN[_field()], tuple(order))


def read_order(typed: str, n: int) -> tuple[int, ...]:
    """The order that is typed, positions from 1, as positions from 0. Raises InputError for what is no order of n positions."""
    parts = re.findall(r"[^\s,;→>-]+", typed)
    if odd := [part for part in parts if not re.fullmatch(r"[0-9]{1,9}", part)]:
        raise InputError(f"“{odd[0][:20]}” is no position; an order is written like 3 2 4 1", ORDER)
    numbers = [int(part) for part in parts]
    if wrong := list(_wrong(numbers, n)):
        raise InputError(f"The order must name each of the {n} positions once, from 1 to {n}: {', '.join(wrong)}", ORDER)
    return tuple(number - 1 for number in numbers)


def _wrong(numbers: Sequence[int], n: int) -> Iterator[str]:
    beyond = sorted({number for number in numbers if not 1 <= number <= n})
    twice = sorted({number for number in numbers if 1 <= number <= n and numbers.count(number) > 1})
    missing = [number for number in range(1, n + 1) if number not in numbers]
    for found, one, several in ((beyond, "is not there", "are not there"), (twice, "stands twice", "stand twice"),
                                (missing, "is missing", "are missing")):
        if found:
            yield f"{' '.join(map(str, found[:8]))}{' …' * (len(found) > 8)} {one if len(found) == 1 else several}"


def figure_text(scope: Scope, trace: Trace) -> str:
    """A text of four tokens to show the paper's figure on: the beginning of the one that stands there, or of an example."""
    candidates = (trace.fields[scope.model.fields[0].name], *(first for first, *_ in readable_examples(scope)))
    return next((found for text in candidates if (found := _four(scope, text))), "")


def _four(scope: Scope, text: str) -> str:
    """The text up to its fourth token; "" if that has not four tokens."""
    row = scope.encode(text)[scope.model.fields[0].stream] if readable(scope, text) else None
    if row is None or len(row.ids) < len(FIGURE):
        return ""
    found = row.text[: row.offsets[len(FIGURE) - 1][1]]
    return found if len(scope.encode(found)[scope.model.fields[0].stream].ids) == len(FIGURE) else ""


def _field() -> str:
    return next(field.name for field in live.session().shown.scope.model.fields if field.kind == ORDER)


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
    url_state.keep(url_state.FIELDS[first.name], text)
    for field in others:
        url_state.keep(url_state.FIELDS[field.name], "")
    put_order(FIGURE)
