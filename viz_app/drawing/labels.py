"""Display labels of tokens: text as typed, spaces as ·, special tokens in brackets."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.analysis.joined_words import WordRow
from models.images import PatchRow
from models.printable import printable
from models.runs.inputs import MASK
from models.sounds import PatchedSound, SoundRow
from models.tokenizers.base import Encoding, Tokenizer
from models.tokenizers.special_tokens import UNKNOWN_TOKENS
from models.trace import AttentionSite, Trace
from models.trace.outputs import NextToken, TokenClasses

SPACE_MARK = "·"
LONELY = {
    " ": "␣",
    "\n": "↵",
}  # alone in a token, SPACE_MARK would look like a full stop
# between the token read and the token written; spaces in a token are shown as SPACE_MARK
ARROW = " → "
OR = " | "  # between the tokens that two runs have at one position
END_LABEL = "[end]"
_SPECIAL = {"<s>": "[start]", "</s>": END_LABEL, "<pad>": "[padding]", "<unk>": "[unknown]"}
_SPECIAL |= {
    "[PAD]": "[padding]",
    "[UNK]": "[unknown]",
    "[CLS]": "[CLS]",
    "[SEP]": "[SEP]",
    "[MASK]": "[MASK]",
}
_SPECIAL |= {"<mask>": "<mask>", "<$>": "[delimiter]", "<e>": "[extract]"}
_MASKS = (MASK, "<mask>")
SPECIAL_NAMES = frozenset(_SPECIAL.values())


@dataclass(frozen=True)
class Label:
    """A token's label: `text` on the axis, `note` on hover; `special` for tokens without text."""

    text: str
    note: str = ""
    special: bool = False

    def as_json(self) -> list:
        return [self.text, self.note, self.special]


def mask_token(trace: Trace) -> str:
    """Return the mask as the vocabulary of the run's model spells it; "" if it has none."""
    tokenizer = trace.model.tokenizer
    return MASK if tokenizer is None else tokenizer.mask_token


def labels(encoding: Encoding) -> list[Label]:
    """Return one label for each token, in order."""
    if isinstance(encoding, PatchedSound):
        return [_patch_label(encoding, i) for i in range(len(encoding.tokens))]
    if isinstance(encoding, SoundRow):
        return [Label(token) for token in encoding.tokens]
    if isinstance(encoding, PatchRow):
        places = [encoding.grid.patch(i) for i in range(len(encoding.tokens))]
        pairs = zip(encoding.tokens, places, strict=True)
        return [special_label(token) if place is None else Label(token) for token, place in pairs]
    pairs = zip(encoding.tokens, encoding.offsets, strict=True)
    plain = [
        special_label(token)
        if token in encoding.special and not _has_text(offset)
        else _label(token, offset, encoding.text)
        for token, offset in pairs
    ]
    return (
        list(map(_with_pieces, plain, encoding.pieces)) if isinstance(encoding, WordRow) else plain
    )


def _has_text(offset: tuple[int, int] | None) -> bool:
    """Return True if a token with this place has text, unlike a special token that is written."""
    return offset is not None and offset[0] < offset[1]


def answer_labels(trace: Trace, output: TokenClasses) -> list[Label]:
    """Return one label for each row of an answer: its token, or its part of the sound."""
    return [Label(part) for part in output.parts] or labels(trace.streams[output.stream])


def _patch_label(row: PatchedSound, i: int) -> Label:
    """Return the label of a patch, with all that it reads in the note, or of a special token."""
    note = row.grid.described(i)
    return Label(row.tokens[i], note) if note else special_label(row.tokens[i])


def _with_pieces(word: Label, pieces: Sequence[str]) -> Label:
    """Return a word's label, with its tokens in the note if there are several."""
    if len(pieces) == 1:
        return word
    return Label(word.text, f"{len(pieces)} tokens: {', '.join(map(token_text, pieces))}")


def is_word(label: Label) -> bool:
    """Return True if a label is neither a special token nor punctuation."""
    return not label.special and any(c.isalnum() for c in label.text)


def axes_labels(trace: Trace, site: AttentionSite) -> tuple[list[Label], list[Label]]:
    """Return the labels of a site's query axis and of its key axis.

    Queries on the stream that the model writes show the token read and the token written ("Elle →
    ·lit"), since the token read does not tell what the query looks for. The last token of an
    unfinished text, and streams that are only read, have plain labels.
    """
    query, key = trace.axes(site)
    output = _written(trace, site)
    return labels(query) if output is None else step_labels(query, output.is_closed), labels(key)


def queries_are_written(trace: Trace, site: AttentionSite) -> bool:
    """Return True if a site's queries are on the stream that the model writes."""
    return _written(trace, site) is not None


def _written(trace: Trace, site: AttentionSite) -> NextToken | None:
    output = next(iter(trace.outputs.values()), None)
    return output if isinstance(output, NextToken) and output.stream == site.query_stream else None


def step_labels(row: Encoding, is_closed: bool) -> list[Label]:
    """Return a label for each step of writing this row.

    `is_closed` is True if the last step writes the end of the text.
    """
    inputs, outputs = labels(row), written_labels(row, is_closed)
    return [*(_step(*both) for both in zip(inputs, outputs, strict=False)), *inputs[len(outputs) :]]


def written_labels(row: Encoding, is_closed: bool) -> list[Label]:
    """Return the labels of the tokens written at each step: the second token onwards.

    If the row `is_closed`, the end token follows. The last step of a word writes the first token of
    the next word.
    """
    openings = labels(row.openings if isinstance(row, WordRow) else row)
    return [*openings[1:], *[Label(END_LABEL, "special token </s>", special=True)] * is_closed]


def _step(read: Label, output: Label) -> Label:
    notes = (
        note for label in (read, output) if (note := label.note and f"{label.text}: {label.note}")
    )
    note = "; ".join((f"reading {read.text}, writing {output.text}", *notes))
    return Label(f"{read.text}{ARROW}{output.text}", note, read.special and output.special)


def of_two_runs(first: Label, second: Label, *names: str) -> Label:
    """Return the label of a position with the tokens of two runs where they differ.

    `names` are those of the runs, for the note.
    """
    if first.text == second.text:
        return first
    parts = [one.text.split(ARROW) for one in (first, second)]
    if len(parts[0]) == len(parts[1]):
        text = ARROW.join(a if a == b else f"{a}{OR}{b}" for a, b in zip(*parts, strict=True))
    else:
        text = f"{first.text}{OR}{second.text}"
    both = zip((first.text, second.text), names, strict=True)
    return Label(text, ", ".join(f"{token} in {name}" for token, name in both))


def shorten(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters by cutting its middle; in a step, the longer token's."""
    parts = text.split(ARROW)
    limits = [len(part) for part in parts]
    while sum(limits) + len(ARROW) * (len(parts) - 1) > limit and max(limits) > 2:
        limits[limits.index(max(limits))] -= 1
    return ARROW.join(_cut(part, n) for part, n in zip(parts, limits, strict=True))


def _cut(text: str, limit: int) -> str:
    tail = (limit - 1) // 2
    return text if len(text) <= limit else f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def _label(token: str, offset: tuple[int, int] | None, text: str) -> Label:
    if (offset is None and token in _SPECIAL) or token in _MASKS:
        return special_label(token)
    if token in UNKNOWN_TOKENS:
        piece = text[slice(*offset)] if offset else ""
        return Label(
            visible(piece) or "[unknown]",
            f"not in this model's vocabulary, read as {token}",
            special=not piece,
        )
    return _piece(token, offset is not None and offset[0] == 0)


def _piece(token: str, is_first: bool) -> Label:
    """Return the label of an ordinary token, without the leading space at the start of a text."""
    text = visible(token.replace("▁", " "))
    return Label(text[1:] if is_first and token.startswith("▁") and len(text) > 1 else text)


def special_label(token: str) -> Label:
    """Return the label of a special token, by its name in brackets."""
    return Label(
        _SPECIAL.get(token, f"[{token.strip('<|[]>')}]"), f"special token {token}", special=True
    )


def token_text(token: str) -> str:
    """Return the displayed text of a single token outside any text."""
    return _label(token, None, "").text


def visible(piece: str) -> str:
    """Return the text with spaces and control characters made visible.

    A space is shown as ·, or as ␣ or ↵ where the text is nothing else, a control character as its
    code.
    """
    if piece in LONELY:
        return LONELY[piece]
    return "".join(SPACE_MARK if c.isspace() else printable(c) for c in piece)


def token_label(tokenizer: Tokenizer, i: int, first: bool = False) -> Label:
    """Return the label of a single token; `first` if it begins a text."""
    token = tokenizer.token(i)
    return special_label(token) if tokenizer.is_special(i) else _piece(token, first)


def token_labels(tokenizer: Tokenizer, ids: Sequence[int], start: int = 0) -> list[Label]:
    """Return the labels of tokens at positions start, start + 1 … of a text."""
    return [token_label(tokenizer, i, first=start + n == 0) for n, i in enumerate(ids)]


def number_labels(tokens: Sequence[str]) -> list[str]:
    """Return tokens numbered by position, from 0, which makes them distinct."""
    return [f"{i} {token}" for i, token in enumerate(tokens)]


def quote(label: Label) -> str:
    """Quote a token or a step for a sentence: “cat”, [start], “Elle” (writing “lit”).

    The tokens of two runs are separated by a slash: “cat”/“dog”.
    """
    read, *outputs = (
        "/".join(
            token
            if label.special or token in SPECIAL_NAMES
            else f"“{token.lstrip(SPACE_MARK) or token}”"
            for token in part.split(OR)
        )
        for part in label.text.split(ARROW)
    )
    return f"{read} (writing {outputs[0]})" if outputs else read
