"""Tokens as a reader should see them: like the text they came from, spaces as ·, special tokens in brackets."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.analysis.joined_words import WordRow
from models.printable import printable
from models.runs.inputs import MASK
from models.tokenizers.base import Encoding, Tokenizer
from models.tokenizers.special_tokens import UNKNOWN_TOKENS
from models.trace import AttentionSite, Trace
from models.trace.outputs import NextToken

SPACE = "·"
ARROW = (
    " → "  # between what a row has read and what it writes; a label's own spaces are shown as SPACE
)
END = "[end]"
_SPECIAL = {"<s>": "[start]", "</s>": END, "<pad>": "[padding]", "<unk>": "[unknown]"}
_SPECIAL |= {
    "[PAD]": "[padding]",
    "[UNK]": "[unknown]",
    "[CLS]": "[CLS]",
    "[SEP]": "[SEP]",
    "[MASK]": "[MASK]",
}
_SPECIAL |= {"<$>": "[delimiter]", "<e>": "[extract]"}
SPECIAL_NAMES = frozenset(_SPECIAL.values())


@dataclass(frozen=True)
class Label:
    """`text` stands on an axis, `note` is added on hover; `special` tokens have no text of their own."""

    text: str
    note: str = ""
    special: bool = False

    def as_json(self) -> list:
        return [self.text, self.note, self.special]


def labels(encoding: Encoding) -> list[Label]:
    """One label a token, in order."""
    places = zip(encoding.tokens, encoding.offsets, strict=True)
    found = [_label(token, place, encoding.text) for token, place in places]
    return list(map(_of_tokens, found, encoding.pieces)) if isinstance(encoding, WordRow) else found


def _of_tokens(word: Label, pieces: Sequence[str]) -> Label:
    """A word's label, with the tokens that it is made of where it is of several."""
    if len(pieces) == 1:
        return word
    return Label(word.text, f"{len(pieces)} tokens: {', '.join(map(token_text, pieces))}")


def axes_labels(trace: Trace, site: AttentionSite) -> tuple[list[Label], list[Label]]:
    """The labels of a site's query axis and of its key axis. A query on the stream that the model writes is named by what is
    read and what is written there ("Elle → ·lit"): the token read alone says nothing of what is looked for. The last token of a
    text that goes on, and a stream that is only read, keep their own names."""
    query, key = trace.axes(site)
    output = _written(trace, site)
    return labels(query) if output is None else step_labels(query, output.is_closed), labels(key)


def writes(trace: Trace, site: AttentionSite) -> bool:
    """Return True if a site's queries stand on the stream that the model writes."""
    return _written(trace, site) is not None


def _written(trace: Trace, site: AttentionSite) -> NextToken | None:
    output = next(iter(trace.outputs.values()), None)  # what the model answers first of all
    return output if isinstance(output, NextToken) and output.stream == site.query_stream else None


def step_labels(row: Encoding, is_closed: bool) -> list[Label]:
    """One label a step of writing this row; `is_closed` if the last step writes the end of the text."""
    read, written = labels(row), written_labels(row, is_closed)
    return [*(_step(*both) for both in zip(read, written, strict=False)), *read[len(written) :]]


def written_labels(row: Encoding, is_closed: bool) -> list[Label]:
    """What each step of writing this row writes: its tokens from the second on, and the end if it `is_closed`. The last step of a
    word writes the first token of the next one."""
    opened = labels(row.openings if isinstance(row, WordRow) else row)
    return [*opened[1:], *[Label(END, "special token </s>", special=True)] * is_closed]


def _step(read: Label, written: Label) -> Label:
    notes = (
        note for label in (read, written) if (note := label.note and f"{label.text}: {label.note}")
    )
    said = "; ".join((f"reading {read.text}, writing {written.text}", *notes))
    return Label(f"{read.text}{ARROW}{written.text}", said, read.special and written.special)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, the middle left out; of a step what is longer, so that both its tokens stay."""
    parts = text.split(ARROW)
    limits = [len(part) for part in parts]
    while sum(limits) + len(ARROW) * (len(parts) - 1) > limit and max(limits) > 2:
        limits[limits.index(max(limits))] -= 1
    return ARROW.join(_cut(part, n) for part, n in zip(parts, limits, strict=True))


def _cut(text: str, limit: int) -> str:
    tail = (limit - 1) // 2
    return text if len(text) <= limit else f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def _label(token: str, place: tuple[int, int] | None, text: str) -> Label:
    if (place is None and token in _SPECIAL) or token == MASK:
        return special_label(token)
    if token in UNKNOWN_TOKENS:
        piece = text[slice(*place)] if place else ""
        return Label(
            visible(piece) or "[unknown]",
            f"not in this model's vocabulary, read as {token}",
            special=not piece,
        )
    return _piece(token, place is not None and place[0] == 0)


def _piece(token: str, starts_the_text: bool) -> Label:
    """A token of words; at the start of a text its leading space is not shown."""
    shown = visible(token.replace("▁", " "))
    return Label(
        shown[1:] if starts_the_text and token.startswith("▁") and len(shown) > 1 else shown
    )


def special_label(token: str) -> Label:
    """The label of a special token, which has no text of its own."""
    return Label(
        _SPECIAL.get(token, f"[{token.strip('<|[]>')}]"), f"special token {token}", special=True
    )


def token_text(token: str) -> str:
    """A token that stands by itself, in no text."""
    return _label(token, None, "").text


def visible(piece: str) -> str:
    """The piece with every space shown as · and control characters as their code."""
    return "".join(SPACE if c.isspace() else printable(c) for c in piece)


def token_label(tokenizer: Tokenizer, i: int, first: bool = False) -> Label:
    """A token on its own; `first` where it begins a text."""
    token = tokenizer.token(i)
    return special_label(token) if tokenizer.is_special(i) else _piece(token, first)


def token_labels(tokenizer: Tokenizer, ids: Sequence[int], start: int = 0) -> list[Label]:
    """Labels of tokens that stand at positions start, start + 1 … of a text."""
    return [token_label(tokenizer, i, first=start + n == 0) for n, i in enumerate(ids)]


def numbered(tokens: Sequence[str]) -> list[str]:
    """Number tokens by position, from 0, which makes them distinct."""
    return [f"{i} {token}" for i, token in enumerate(tokens)]


def quoted(label: Label) -> str:
    """Quote a token or a step for a sentence: “cat”, [start], “Elle” (writing “lit”)."""
    read, *written = (
        part if label.special or part in SPECIAL_NAMES else f"“{part.lstrip(SPACE) or part}”"
        for part in label.text.split(ARROW)
    )
    return f"{read} (writing {written[0]})" if written else read
