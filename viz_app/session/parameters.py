"""Typed URL parameters: the valid values of each, and its default.

Every page declares its own parameters, once, where it uses them; `declared_parameters` lists them
all. `is_step` marks parameters whose change is a deliberate step, such as choosing another head,
which the browser's Back button undoes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

ParameterValue = TypeVar("ParameterValue")
MAX_TEXT_LENGTH = 200_000  # characters; tens of thousands of tokens


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD, as no file, message or tokenizer accepts them.

    A browser may send half of an emoji while the user types.
    """
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def typed_text_too_long(n: int) -> str:
    """Return the message for a text of `n` characters that is longer than a session keeps."""
    return f"must be at most {MAX_TEXT_LENGTH:,} characters long, not {n:,}"


@dataclass(frozen=True)
class Parameter(Generic[ParameterValue]):
    """A parameter of the URL; its `parse` raises ValueError for an invalid value."""

    name: str
    default: ParameterValue
    is_step: bool = False
    _declared: ClassVar[dict[str, "Parameter"]] = {}

    def __post_init__(self) -> None:
        if self._declared.setdefault(self.name, self) != self:
            raise ValueError(
                f"the parameter {self.name!r} is declared twice with different definitions"
            )

    def from_url(self, texts: list[str]) -> ParameterValue:
        """Return the value of the URL's texts under this name, or the default if invalid."""
        return self.default if self.why_invalid(texts) else self.parse(texts)

    def from_query(self, query: Mapping[str, Sequence[str]]) -> ParameterValue:
        """Return the value in an address, given its texts by name; the default if it has none."""
        return self.from_url(list(query[self.name])) if query.get(self.name) else self.default

    def why_invalid(self, texts: list[str]) -> str:
        """Return the error message for the URL's texts; "" if they are valid."""
        try:
            self.parse(texts)
        except ValueError as error:
            return str(error)
        return ""

    def left_out(self, texts: list[str]) -> str:
        """Return the message for the parts of valid URL texts that are not read; "" if all are."""
        return ""

    def in_url(self, value: ParameterValue) -> list[str]:
        """Return the URL's texts for this value: none for the default."""
        return [] if value == self.default else self.format(value)

    def parse(self, texts: list[str]) -> ParameterValue:
        if len(texts) != 1:
            raise ValueError(f"{self.name} is one value, not {len(texts)}")
        return self.parse_one(replace_surrogates(texts[0]))

    def limited(self, value: ParameterValue) -> ParameterValue:
        """Return a widget's value, cut to the length that a session keeps."""
        return value

    def parse_one(self, text: str) -> ParameterValue:
        raise NotImplementedError

    def format(self, value: ParameterValue) -> list[str]:
        return [replace_surrogates(str(value))]


def declared_parameters() -> Mapping[str, Parameter]:
    """Return all parameters declared by the imported modules, by name."""
    return MappingProxyType(Parameter._declared)


@dataclass(frozen=True)
class Text(Parameter[str | None]):
    """A text, optionally one that matches `pattern` in full; `form` describes such a text."""

    default: str | None = ""
    pattern: str = r"[\s\S]*"
    form: str = ""

    def limited(self, value: str | None) -> str | None:
        return value[:MAX_TEXT_LENGTH] if value else value

    def parse_one(self, text: str) -> str:
        if len(text) > MAX_TEXT_LENGTH:
            raise ValueError(f"{self.name} {typed_text_too_long(len(text))}")
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"{self.name} must be {self.form}")
        return text


@dataclass(frozen=True)
class Whole(Parameter[int | None]):
    """An integer from `low` to `high`, both included."""

    default: int | None = None
    low: int = 0
    high: int = 9_999

    def parse_one(self, text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,9}", text) or not self.low <= int(text) <= self.high:
            raise ValueError(f"{self.name} must be a whole number from {self.low} to {self.high}")
        return int(text)


@dataclass(frozen=True)
class Number(Parameter[float]):
    """A number from `low` to `high`, both included."""

    low: float = 0.0
    high: float = 1.0

    def parse_one(self, text: str) -> float:
        if (
            not re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", text)
            or not self.low <= float(text) <= self.high
        ):
            raise ValueError(f"{self.name} must be a number from {self.low:g} to {self.high:g}")
        return float(text)

    def format(self, value: float) -> list[str]:
        return [f"{value:.9f}".rstrip("0").rstrip(".")]


@dataclass(frozen=True)
class Choice(Parameter[Any]):
    """One of several options.

    `options` is empty if they depend on the model or its run: then any text is accepted, and the
    caller names the options when it reads the value (url_state.one_of).
    """

    default: Any = None
    is_step: bool = True
    options: tuple = ()

    def parse_one(self, text: str) -> object:
        if not self.options:
            return text
        matches = [option for option in self.options if str(option) == text]
        if not matches:
            raise ValueError(f"{self.name} must be one of {', '.join(map(str, self.options))}")
        return matches[0]


@dataclass(frozen=True)
class Switch(Parameter[bool]):
    """A boolean, "true" or "false" in the URL; `on` replaces the word for True."""

    default: bool = False
    is_step: bool = True
    on: str = "true"

    def parse_one(self, text: str) -> bool:
        if text not in (self.on, "false"):
            raise ValueError(f"{self.name} must be {self.on} or false")
        return text == self.on

    def format(self, value: bool) -> list[str]:
        return [self.on if value else "false"]


@dataclass(frozen=True)
class Several(Parameter[tuple[int, ...] | None]):
    """A set of integers from 0 to `high`, at most `max_items` of them.

    In the URL the name is repeated for each number, or given once without a value for the empty
    set.
    """

    default: tuple[int, ...] | None = None
    high: int = 9_999
    max_items: int = 8

    def in_url(self, value: tuple[int, ...] | None) -> list[str]:
        return super().in_url(None if value is None else tuple(sorted(value)))

    def parse(self, texts: list[str]) -> tuple[int, ...]:
        if texts == [""]:
            return ()
        if (
            not all(re.fullmatch(r"[0-9]{1,9}", text) and int(text) <= self.high for text in texts)
            or len(texts) > self.max_items
        ):
            raise ValueError(
                f"{self.name} must be at most {self.max_items} whole numbers from 0 to {self.high}"
            )
        return tuple(sorted({int(text) for text in texts}))

    def format(self, value: tuple[int, ...]) -> list[str]:
        return [str(number) for number in value] or [""]


@dataclass(frozen=True)
class Order(Parameter[tuple[int, ...] | None]):
    """Distinct integers in an order, from 0; in the URL they count from 1: 3-2-4-1."""

    default: tuple[int, ...] | None = None
    high: int = 9_999

    def parse_one(self, text: str) -> tuple[int, ...]:
        numbers = text.split("-")
        if not all(
            re.fullmatch(r"[1-9][0-9]{0,8}", number) and int(number) <= self.high + 1
            for number in numbers
        ):
            raise ValueError(
                f"{self.name} must be whole numbers from 1 to {self.high + 1:,}, separated by hyphens"
            )
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"{self.name} must not repeat a number")
        return tuple(int(number) - 1 for number in numbers)

    def format(self, value: tuple[int, ...]) -> list[str]:
        return ["-".join(str(number + 1) for number in value)]


def _nothing(text: str) -> str:
    return ""


@dataclass(frozen=True)
class Notation(Parameter[Any]):
    """A value with its own short notation; `read` ignores what it cannot parse.

    `unread` returns the message for what it ignores of a text.
    """

    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    unread: Callable[[str], str] = _nothing

    def parse_one(self, text: str) -> object:
        value = self.read(text)
        if text and value == self.default:
            raise ValueError(f"{self.name} could not be read")
        return value

    def left_out(self, texts: list[str]) -> str:
        message = self.unread(replace_surrogates(texts[0]))
        return f"{self.name} {message}" if message else ""

    def format(self, value: object) -> list[str]:
        return [replace_surrogates(self.write(value))]


Of = Callable[[Parameter], Parameter]  # maps a parameter to the one that is read instead


def itself(parameter: Parameter) -> Parameter:
    """Return the parameter: nothing is read instead of it."""
    return parameter
