"""The parameters of the URL, typed: what each may say there, and what it is where the URL does not say it, or says it unfit.

Every page declares its own, once, where it makes use of them; `declared` has them all. A deliberate step, such as another
head, is one that the browser's Back takes back; `is_step` says of which parameters a change is one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

Value = TypeVar("Value")
LONGEST_TEXT = 200_000  # characters; tens of thousands of tokens


def whole(text: str) -> str:
    """The text without halves of characters (lone surrogates), such as a browser may send of an emoji while one types, and
    which no file, message or tokenizer takes: U+FFFD in their place."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def too_long(n: int) -> str:
    """Say of a text of `n` characters that it is longer than a session keeps."""
    return f"must be at most {LONGEST_TEXT:,} characters long, not {n:,}"


@dataclass(frozen=True)
class Parameter(Generic[Value]):
    """One parameter of the URL. Its `parse` raises ValueError for a text that says no such value."""

    name: str
    default: Value
    is_step: bool = False
    _declared: ClassVar[dict[str, "Parameter"]] = {}

    def __post_init__(self) -> None:
        if self._declared.setdefault(self.name, self) != self:
            raise ValueError(
                f"the parameter {self.name!r} is declared twice, as two different things"
            )

    def from_url(self, texts: list[str]) -> Value:
        """The value of what the URL says under this name, each time it says it; the default if that is unfit."""
        return self.default if self.unfit(texts) else self.parse(texts)

    def unfit(self, texts: list[str]) -> str:
        """Why what the URL says is no such value; "" if it is one."""
        try:
            self.parse(texts)
        except ValueError as error:
            return str(error)
        return ""

    def in_url(self, value: Value) -> list[str]:
        """What the URL says for this value: nothing for the default."""
        return [] if value == self.default else self.format(value)

    def parse(self, texts: list[str]) -> Value:
        if len(texts) != 1:
            raise ValueError(f"{self.name} is one value, not {len(texts)}")
        return self.parse_one(whole(texts[0]))

    def limited(self, value: Value) -> Value:
        """Return as much of a widget's value as a session keeps."""
        return value

    def parse_one(self, text: str) -> Value:
        raise NotImplementedError

    def format(self, value: Value) -> list[str]:
        return [whole(str(value))]


def declared() -> Mapping[str, Parameter]:
    """All parameters by name, of the modules that have been imported."""
    return MappingProxyType(Parameter._declared)


@dataclass(frozen=True)
class Text(Parameter[str | None]):
    """Any text, or any that the `pattern` matches."""

    default: str | None = ""
    pattern: str = r"[\s\S]*"

    def limited(self, value: str | None) -> str | None:
        return value[:LONGEST_TEXT] if value else value

    def parse_one(self, text: str) -> str:
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"{self.name} {too_long(len(text))}")
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"{self.name} must be of the form {self.pattern}")
        return text


@dataclass(frozen=True)
class Whole(Parameter[int | None]):
    """A whole number from `low` to `high`, both included."""

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
        return [f"{value:.9g}"]


@dataclass(frozen=True)
class Choice(Parameter[Any]):
    """One of several options. Which there are may depend on the model or its run; then there are none here, any text is
    taken, and who asks for the value names them (url_state.one_of)."""

    default: Any = None
    is_step: bool = True
    options: tuple = ()

    def parse_one(self, text: str) -> object:
        if not self.options:
            return text
        found = [option for option in self.options if str(option) == text]
        if not found:
            raise ValueError(f"{self.name} must be one of {', '.join(map(str, self.options))}")
        return found[0]


@dataclass(frozen=True)
class Switch(Parameter[bool]):
    """On or off, as "true" or "false"; `on` is another word for on."""

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
    """Several whole numbers from 0 to `high`, the name once for each, or once with nothing for none; at most `most` of them."""

    default: tuple[int, ...] | None = None
    high: int = 9_999
    most: int = 8

    def in_url(self, value: tuple[int, ...] | None) -> list[str]:
        return super().in_url(None if value is None else tuple(sorted(value)))

    def parse(self, texts: list[str]) -> tuple[int, ...]:
        if texts == [""]:
            return ()
        if (
            not all(re.fullmatch(r"[0-9]{1,9}", text) and int(text) <= self.high for text in texts)
            or len(texts) > self.most
        ):
            raise ValueError(
                f"{self.name} must be at most {self.most} whole numbers from 0 to {self.high}"
            )
        return tuple(sorted({int(text) for text in texts}))

    def format(self, value: tuple[int, ...]) -> list[str]:
        return [str(number) for number in value] or [""]


@dataclass(frozen=True)
class Order(Parameter[tuple[int, ...] | None]):
    """Different whole numbers in an order, held from 0; in the URL they count from 1, with a hyphen between them: 3-2-4-1."""

    default: tuple[int, ...] | None = None
    high: int = 9_999

    def parse_one(self, text: str) -> tuple[int, ...]:
        numbers = text.split("-")
        if not all(
            re.fullmatch(r"[1-9][0-9]{0,8}", number) and int(number) <= self.high + 1
            for number in numbers
        ):
            raise ValueError(
                f"{self.name} must be whole numbers from 1 to {self.high + 1:,}, hyphens between them"
            )
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"{self.name} must name no number twice")
        return tuple(int(number) - 1 for number in numbers)

    def format(self, value: tuple[int, ...]) -> list[str]:
        return ["-".join(str(number + 1) for number in value)]


@dataclass(frozen=True)
class Notation(Parameter[Any]):
    """A value with a short notation of its own: `read` leaves out of a text what it cannot read."""

    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str

    def parse_one(self, text: str) -> object:
        value = self.read(text)
        if text and value == self.default:
            raise ValueError(f"{self.name} says nothing that can be read")
        return value

    def format(self, value: object) -> list[str]:
        return [self.write(value)]
