"""The controls of the page Task: position, hidden tokens, prediction order, and shown head."""

import random
import re
from collections.abc import Iterator, Sequence
from functools import partial

from models import Scope
from models.architectures.base import ORDER_FIELD, POSITIONS_FIELD, Field
from models.errors import InputError
from models.tokenizers.encoding import positions_to_hide
from models.trace import Trace
from models.trace.outputs import Output, TokenInOrder
from viz_app.components.catalogue import PLAIN
from viz_app.components.mounting import show
from viz_app.controls import pick, which_head
from viz_app.drawing.notes import first_output, small_print
from viz_app.drawing.sites import by_kind
from viz_app.input_bar.examples import readable_examples, reads_text
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus, chosen_focus
from viz_app.session.parameters import Choice, Whole
from viz_app.session.remembered import forget, recall, remember
from viz_app.views.task.next_token import clicked_position
from viz_app.views.task.presentations import outputs_with_picture
from viz_app.views.task.reading import TaskChoices, answering_sites, has_row, reading_site

OUTPUT = Choice("task-output")
TASK_POSITION = Whole("task-position", is_step=True)
MAX_ORDER_TEXT = 10_000  # characters
_TYPED, _REFUSED = "task-order", "task-order-refused"


def choose_task_view(run: CurrentRun) -> TaskChoices:
    """Draw the row of controls and return the choices."""
    with which_head.head_row():
        shown = _output(run)
        output = run.trace.outputs.get(shown) or first_output(run.trace)
        focus = _attention(run, output)
    if isinstance(output, TokenInOrder):
        _note_order(len(output.order))
    return TaskChoices(url_state.get(TASK_POSITION), focus, shown)


def _output(run: CurrentRun) -> str:
    """Draw the choice of the shown output if the run has several; return its name."""
    names = outputs_with_picture(run)
    if len(names) < 2:
        return ""
    return pick.pick_few("Show", OUTPUT, names, lambda name: f"{name[:1].upper()}{name[1:]}")


def choose_position(position: int) -> None:
    """Show the answer at this position of the shown run."""
    url_state.set_value(
        TASK_POSITION, clicked_position(first_output(live.live_session().shown.trace), position)
    )


def choose_query(token: str) -> None:
    """Show the answer of a query that is held in the picture of a head: "q3".

    A browser can send anything; only a query has an effect.
    """
    if token.startswith("q") and (position := TASK_POSITION.from_url([token[1:]])) is not None:
        choose_position(position)


def hide(positions: Sequence[int]) -> None:
    """Hide exactly these tokens of the shown row.

    Hidden positions beyond the end of the row remain chosen.
    """
    run, field = live.live_session().shown, _field(POSITIONS_FIELD)
    if field is None:
        return
    row, parameter = run.trace.streams[field.stream], url_state.parameter_of(field)
    beyond = [position for position in url_state.get(parameter) or () if position >= len(row.ids)]
    hidable_positions = positions_to_hide(row, run.scope.tokenizer.mask_id)
    chosen = sorted(
        {*beyond, *(position for position in positions if position in hidable_positions)}
    )[: url_state.MAX_POSITIONS]
    url_state.set_value(parameter, tuple(chosen) or None)


def choose_run(name: str) -> None:
    """Open the checkpoint of this name."""
    url_state.set_value(url_state.CHECKPOINT, name)


def _attention(run: CurrentRun, output: Output) -> Focus:
    """Draw the choice of the head shown beside the answer, and the order of prediction if any.

    Without an attention row there is nothing to choose.
    """
    trace = run.trace
    sites = answering_sites(trace, output.stream)
    if not sites or not has_row(trace, output):
        return Focus()
    site, head = reading_site(trace, output.stream, chosen_focus(trace)[1])
    kinds = {
        kind: answering_in_kind
        for kind, kind_sites in by_kind(trace)
        if (answering_in_kind := [candidate for candidate in kind_sites if candidate.name in sites])
    }
    which_head.which_head(kinds, site, head)
    if isinstance(output, TokenInOrder):
        _choose_order(run, output)
    return Focus(site.name, head)


def _choose_order(run: CurrentRun, output: TokenInOrder) -> None:
    refused = recall(_REFUSED)
    if refused is None or refused[0] != recall(_TYPED):
        remember(_TYPED, " ".join(str(position + 1) for position in output.order))
        forget(_REFUSED)
    n, figure = len(output.order), figure_text(run.scope, run.trace)
    pick.pick_text(
        "Order, positions from 1", _TYPED, partial(_take, n), width=180, max_chars=MAX_ORDER_TEXT
    )
    for label, order in (("Left to right", tuple(range(n))), ("Reverse", output.order[::-1])):
        pick.button(label, f"order {label}", partial(put_order, order))
    pick.button("Shuffle", "order shuffle", partial(_shuffle, n))
    pick.button(
        "The paper's 3 → 2 → 4 → 1",
        "order figure",
        partial(_put_figure, figure),
        help=f"The figure of Yang et al. 2019, on a text of four tokens: “{figure}”",
    )


def _note_order(n: int) -> None:
    """Show the error of an order, typed or from the URL, or that it was made for another text."""
    refused = recall(_REFUSED)
    wrong = refused[1] if refused else _linked()
    chosen = url_state.get(url_state.parameter_of(_field(ORDER_FIELD)))
    note = wrong or (order_mismatch(chosen, n) if chosen else "")
    show(PLAIN, small_print(note, bad=bool(wrong)), key="note order")


def _linked() -> str:
    """Return the error of an order in the URL; "" if there is none."""
    messages = url_state.invalid_messages(url_state.parameter_of(_field(ORDER_FIELD)))
    return (
        f"In this link the {messages[0]}. The tokens are predicted from left to right."
        if messages
        else ""
    )


def put_order(order: Sequence[int]) -> None:
    """Predict in this order from now on."""
    forget(_REFUSED)
    if field := _field(ORDER_FIELD):
        url_state.set_value(url_state.parameter_of(field), tuple(order))


def _field(kind: str) -> Field | None:
    """Return the model's field of this kind; None if the model has changed meanwhile."""
    fields = live.live_session().shown.scope.model.fields
    return next((field for field in fields if field.kind == kind), None)


def _take(n: int) -> None:
    value = recall(_TYPED)
    try:
        put_order(read_order(value, n))
    except InputError as error:
        remember(_REFUSED, (value, f"{error}."))


def _shuffle(n: int) -> None:
    put_order(random.sample(range(n), n))


def _put_figure(text: str) -> None:
    if _field(ORDER_FIELD) is None:
        return
    first, *other_fields = live.live_session().shown.scope.model.text_fields
    url_state.set_value(url_state.parameter_of(first), text)
    for field in other_fields:
        url_state.set_value(url_state.parameter_of(field), "")
    put_order(FIGURE)


FIGURE = (2, 1, 3, 0)  # 3 → 2 → 4 → 1, of Yang et al. 2019, figure 1


def read_order(value: str, n: int) -> tuple[int, ...]:
    """Parse a typed order, positions from 1, to positions from 0.

    Raises:
        InputError: it is not an order of n positions.
    """
    parts = re.findall(r"[^\s,;→>-]+", value)
    if odd := [part for part in parts if not re.fullmatch(r"[0-9]{1,9}", part)]:
        raise InputError(
            f"“{odd[0][:20]}” is not a position; an order is written like 3 2 4 1", ORDER_FIELD
        )
    numbers = [int(part) for part in parts]
    if wrong := list(_wrong(numbers, n)):
        raise InputError(
            f"The order must name each of the {n} positions once, from 1 to {n}: {', '.join(wrong)}",
            ORDER_FIELD,
        )
    return tuple(number - 1 for number in numbers)


def order_mismatch(chosen: Sequence[int], n: int) -> str:
    """Describe how an order made for another text applies to n tokens; "" if it fits.

    Positions in the order are counted from 0.
    """
    wrong = list(_wrong([position + 1 for position in chosen], n))
    if not wrong:
        return ""
    explanation = (
        "The positions it names keep their turn, and the others follow from left to right."
    )
    return f"This order belongs to a different text; this one has {n} tokens: {', '.join(wrong)}. {explanation}"


def _wrong(numbers: Sequence[int], n: int) -> Iterator[str]:
    beyond = sorted({number for number in numbers if not 1 <= number <= n})
    repeated = sorted(
        {number for number in numbers if 1 <= number <= n and numbers.count(number) > 1}
    )
    missing = [number for number in range(1, n + 1) if number not in numbers]
    for positions, singular, plural in (
        (beyond, "does not exist", "do not exist"),
        (repeated, "appears twice", "appear twice"),
        (missing, "is missing", "are missing"),
    ):
        if positions:
            yield f"{' '.join(map(str, positions[:8]))}{' …' * (len(positions) > 8)} {singular if len(positions) == 1 else plural}"


def figure_text(scope: Scope, trace: Trace) -> str:
    """Return four tokens' text for the paper's figure: the current text's first, or an example."""
    candidates = (
        trace.fields[scope.model.fields[0].name],
        *(first for first, *_ in readable_examples(scope)),
    )
    return next((beginning for text in candidates if (beginning := _four(scope, text))), "")


def _four(scope: Scope, text: str) -> str:
    """Return a text's first four tokens; "" if it is shorter or they are encoded differently."""
    row = scope.encode(text)[scope.model.fields[0].stream] if reads_text(scope, text) else None
    if row is None or len(row.ids) < len(FIGURE):
        return ""
    beginning = row.text[: row.offsets[len(FIGURE) - 1][1]]
    return (
        beginning
        if len(scope.encode(beginning)[scope.model.fields[0].stream].ids) == len(FIGURE)
        else ""
    )
