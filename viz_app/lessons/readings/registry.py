"""The registry of readings, and the forms of the values that they return."""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from models.runs.surveys import SHARE, SHARE_DIFFERENCE
from viz_app import words
from viz_app.drawing.labels import token_text
from viz_app.lessons.sentence import ReadingValue
from viz_app.session.current_run import CurrentRun

SPACE_LABEL = "·"  # for a space, as in drawing/labels.py


@dataclass(frozen=True)
class Named:
    """A reading that lessons may name, and how it is written."""

    read: Callable[..., ReadingValue]
    kinds: Mapping[str, type]  # of its arguments
    predicted_as: str = (
        ""  # kind of the prediction whose values it has, other than words or numbers
    )

    @property
    def form(self) -> str:
        """The name as written, with its arguments."""
        arguments = ", ".join(self.kinds)
        return f"{self.read.__name__}({arguments})" if arguments else self.read.__name__

    def fits(self, arguments: tuple[str, ...]) -> bool:
        """Return True if these are the arguments that it takes."""
        return len(arguments) == len(self.kinds) and all(
            text.isdecimal() and len(text) < 7 if kind is int else text != ""
            for text, kind in zip(arguments, self.kinds.values(), strict=True)
        )

    def of(self, run: CurrentRun, arguments: tuple[str, ...]) -> ReadingValue:
        """Return its value in this run."""
        values = (kind(text) for text, kind in zip(arguments, self.kinds.values(), strict=True))
        return self.read(run, *values)


_named: dict[str, Named] = {}
READINGS: Mapping[str, Named] = MappingProxyType(_named)


def reading(
    function: Callable[..., ReadingValue], predicted_as: str = ""
) -> Callable[..., ReadingValue]:
    """Register a function as a reading under its name; a decorator."""
    _, *parameters = inspect.signature(function).parameters.values()
    kinds = {p.name: p.annotation for p in parameters}
    _named[function.__name__] = Named(function, kinds, predicted_as)
    return function


def without_changes(run: CurrentRun) -> CurrentRun:
    """Return the run of the model as trained, with no token forced."""
    return CurrentRun(run.unchanged.scope, run.unchanged.trace, run.stale)


def number_value(value: float, digits: int) -> ReadingValue:
    """Return a number with this many digits after the point, or its order of magnitude if tiny."""

    def write(number: float) -> str:
        is_tiny = number != 0 and abs(number) < 0.5 * 0.1**digits
        return f"{number:.0e}".replace("e-0", "e-") if is_tiny else f"{number:.{digits}f}"

    return ReadingValue(value, write(value), write)


def share_value(value: float) -> ReadingValue:
    """Return a share, written in percent."""
    return ReadingValue(value, words.percent(value), _points)


def _points(change: float, sign: str = "") -> str:
    """Write a change of a share; one of less than a point is not rounded to none."""
    points = 100 * change + 0.0  # not -0
    digits = f"{sign}.1g" if 0 < abs(points) <= 0.5 else f"{sign}.0f"
    number = f"{points:{digits}}"
    return f"{number} {'point' if number.lstrip('+-') == '1' else 'points'}"


def value_in_unit(value: float, unit: str) -> ReadingValue:
    """Return a surveyed value in its unit."""
    if unit == SHARE_DIFFERENCE:
        return ReadingValue(value, _points(value, "+"))
    return share_value(value) if unit == SHARE else number_value(value, 2)


def count_value(value: int) -> ReadingValue:
    """Return a count, with thousands separators."""
    return ReadingValue(value, f"{value:,}", "{:,.0f}".format)


def plain_token(token: str) -> str:
    """Return a token without the mark of a space before it."""
    text = token_text(token)
    return text.removeprefix(SPACE_LABEL) or text


def numbered(tokens: Sequence[str]) -> list[str]:
    """Return tokens, with their place from 1 where another one has the same text."""
    count = Counter(tokens)
    return [
        f"{token} (token {place})" if count[token] > 1 else token
        for place, token in enumerate(tokens, 1)
    ]


def token_value(token: str) -> ReadingValue:
    """Return a token, without the mark of a space."""
    text = plain_token(token)
    return ReadingValue(text, text)
