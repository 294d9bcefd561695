"""Sentences with places for readings of the live run.

`{run.output}` is a reading, `{run.loss - unchanged.loss}` the difference of two (or / their ratio),
and `{run.output = unchanged.output ? stays | changes}` chooses words by a comparison (=, < or
>). A reading may take arguments: `{run.weight(encoder.layers.0.self_attn, 1, 3, 0)}`. Numbers and
'quoted texts' are allowed on either side. Only these forms are evaluated.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_PLACE = re.compile(r"\{([^{}]*)\}")
_READING = re.compile(r"([a-z]+)\.([a-z_]+)(?:\(([^()]*)\))?")
_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_RATIO = "{:.2f}".format
_TEXT = re.compile(r"'([^']*)'")
# a sign is between spaces, so no sign is part of a name or a number
_PAIR = re.compile(r"(?P<left>'[^']*'|[^'?|]+?) (?P<sign>[-/=<>]) (?P<right>'[^']*'|[^'?|]+)")


@dataclass(frozen=True)
class ReadingValue:
    """The result of a reading: a value to compare, and its words."""

    value: Any
    words: str
    # formats a difference of two such numbers; None if the value is not a number
    write: Callable[[float], str] | None = None
    stream: str = ""  # whose token the value is, if it is the position of one

    def equals(self, other: "ReadingValue") -> bool:
        """Return True for equal values; a text is compared with the words of another value."""
        if isinstance(self.value, str) != isinstance(other.value, str):
            return self.words == other.words
        return self.value == other.value


@dataclass(frozen=True)
class Reading:
    """A name to look up: of the run, the unchanged run or the pinned one (`whose`)."""

    whose: str
    name: str
    arguments: tuple[str, ...] = ()


Operand = Reading | float | str
FindReading = Callable[[Reading], ReadingValue]


@dataclass(frozen=True)
class Placeholder:
    """A place in a sentence: a reading, a sum, or a choice of words.

    A sum has two operands with a sign between them; a choice compares them.
    """

    left: Operand
    sign: str = ""
    right: Operand = 0.0
    if_so: str = ""
    if_not: str = ""
    chooses: bool = False

    def value(self, find: FindReading) -> ReadingValue:
        """Return the value of this placeholder.

        Raises:
            ValueError: the operands cannot be compared or subtracted.
        """
        left = _value(self.left, find)
        if not self.sign:
            return left
        right = _value(self.right, find)
        if not self.chooses:
            write = left.write or right.write
            if write is None:
                raise ValueError("only numbers can be subtracted or divided")
            if self.sign == "-":
                difference = left.value - right.value
                return ReadingValue(difference, write(difference), write)
            if not right.value:
                raise ValueError("a number is divided by 0")
            ratio = left.value / right.value
            return ReadingValue(ratio, _RATIO(ratio), _RATIO)
        if self.sign != "=" and not all(isinstance(s.value, int | float) for s in (left, right)):
            raise ValueError("only numbers can be compared")
        is_so = {
            "=": lambda: left.equals(right),
            "<": lambda: left.value < right.value,
            ">": lambda: left.value > right.value,
        }[self.sign]()
        chosen = self.if_so if is_so else self.if_not
        return ReadingValue(chosen, chosen)


SentencePart = str | Placeholder


@dataclass(frozen=True)
class Sentence:
    """Words and places, in order."""

    parts: tuple[SentencePart, ...] = ()

    @property
    def places(self) -> tuple[Placeholder, ...]:
        """The places, in order."""
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Every reading that it names."""
        operands = [one for place in self.places for one in (place.left, place.right)]
        return tuple(one for one in operands if isinstance(one, Reading))

    def words(self, find: FindReading) -> str:
        """Return the sentence with its places filled in.

        Raises:
            ValueError: a reading is missing in the run, or does not fit its place.
        """
        return "".join(
            part if isinstance(part, str) else part.value(find).words for part in self.parts
        )


def _value(operand: Operand, find: FindReading) -> ReadingValue:
    if isinstance(operand, Reading):
        return find(operand)
    return ReadingValue(operand, f"{operand:.15g}" if isinstance(operand, float) else operand)


def read_sentence(text: str) -> Sentence:
    """Parse a sentence.

    Raises:
        ValueError: a place has none of the forms.
    """
    parts: list[SentencePart] = []
    end = 0
    for match in _PLACE.finditer(text):
        parts += [text[end : match.start()], _place(match[1])]
        end = match.end()
    parts.append(text[end:])
    if any(brace in part for part in parts if isinstance(part, str) for brace in "{}"):
        raise ValueError("a brace has no counterpart")
    return Sentence(tuple(part for part in parts if part != ""))


def _place(text: str) -> Placeholder:
    condition, asks, words = text.partition("?")
    chosen = _either(words, text) if asks else ("", "")
    pair = _PAIR.fullmatch(condition.strip())
    if pair is None:
        if asks:
            raise ValueError(f"{{{text}}} has no comparison: =, < or > with a space on each side")
        return Placeholder(_operand(condition.strip()))
    sign = pair["sign"]
    if (sign in "-/") == bool(asks):
        raise ValueError(
            f"{{{text}}} is neither a difference, a ratio nor a choice between two wordings"
        )
    left, right = _operand(pair["left"].strip()), _operand(pair["right"].strip())
    return Placeholder(left, sign, right, *chosen, chooses=bool(asks))


def _either(words: str, text: str) -> Sequence[str]:
    parts = [each.strip() for each in words.split("|")]
    if len(parts) != 2:
        raise ValueError(f"{{{text}}} needs two wordings with | between them")
    return parts


def _operand(text: str) -> Operand:
    if match := _READING.fullmatch(text):
        arguments = [each.strip() for each in match[3].split(",")] if match[3] else []
        return Reading(match[1], match[2], tuple(arguments))
    if _NUMBER.fullmatch(text):
        return float(text)
    if match := _TEXT.fullmatch(text):
        return match[1]
    raise ValueError(f"{{{text}}} is not a reading, a number or a 'text'")
