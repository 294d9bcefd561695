"""Orders of prediction as they are typed, and the one of the paper's figure with a text of four tokens for it."""

import re
from collections.abc import Iterator, Sequence

from models import Scope
from models.architectures.base import ORDER
from models.errors import InputError
from models.trace import Trace
from viz_app.sidebar.examples import readable, readable_examples

FIGURE = (2, 1, 3, 0)  # 3 → 2 → 4 → 1, of Yang et al. 2019, figure 1


def read_order(typed: str, n: int) -> tuple[int, ...]:
    """The order that is typed, positions from 1, as positions from 0. Raises InputError for what is no order of n positions."""
    parts = re.findall(r"[^\s,;→>-]+", typed)
    if odd := [part for part in parts if not re.fullmatch(r"[0-9]{1,9}", part)]:
        raise InputError(f"“{odd[0][:20]}” is no position; an order is written like 3 2 4 1", ORDER)
    numbers = [int(part) for part in parts]
    if wrong := list(_wrong(numbers, n)):
        raise InputError(
            f"The order must name each of the {n} positions once, from 1 to {n}: {', '.join(wrong)}",
            ORDER,
        )
    return tuple(number - 1 for number in numbers)


def unlike(chosen: Sequence[int], n: int) -> str:
    """What a chosen order, positions from 0, has to do with a text of n tokens that it was not made for; "" if it names each."""
    wrong = list(_wrong([position + 1 for position in chosen], n))
    if not wrong:
        return ""
    kept = "What it names is kept in its turn, and the others follow from left to right."
    return f"This order was made for another text than this one of {n} tokens: {', '.join(wrong)}. {kept}"


def _wrong(numbers: Sequence[int], n: int) -> Iterator[str]:
    beyond = sorted({number for number in numbers if not 1 <= number <= n})
    twice = sorted({number for number in numbers if 1 <= number <= n and numbers.count(number) > 1})
    missing = [number for number in range(1, n + 1) if number not in numbers]
    for found, one, several in (
        (beyond, "is not there", "are not there"),
        (twice, "stands twice", "stand twice"),
        (missing, "is missing", "are missing"),
    ):
        if found:
            yield f"{' '.join(map(str, found[:8]))}{' …' * (len(found) > 8)} {one if len(found) == 1 else several}"


def figure_text(scope: Scope, trace: Trace) -> str:
    """A text of four tokens to show the paper's figure on: the beginning of the one that stands there, or of an example."""
    candidates = (
        trace.fields[scope.model.fields[0].name],
        *(first for first, *_ in readable_examples(scope)),
    )
    return next((found for text in candidates if (found := _four(scope, text))), "")


def _four(scope: Scope, text: str) -> str:
    """The text up to its fourth token; "" if that has not four tokens."""
    row = scope.encode(text)[scope.model.fields[0].stream] if readable(scope, text) else None
    if row is None or len(row.ids) < len(FIGURE):
        return ""
    found = row.text[: row.offsets[len(FIGURE) - 1][1]]
    return (
        found if len(scope.encode(found)[scope.model.fields[0].stream].ids) == len(FIGURE) else ""
    )
