"""Tokens as a reader should see them: like the text they came from, spaces as ·, special tokens in brackets."""

from dataclasses import dataclass

from models.tokenizers.base import Encoding

SPACE = "·"
_SPECIAL = {"<s>": "[start]", "</s>": "[end]", "<pad>": "[padding]", "<unk>": "[unknown]"}


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
    return [_label(token, place, encoding.text) for token, place in places]


def _label(token: str, place: tuple[int, int] | None, text: str) -> Label:
    if place is None and token in _SPECIAL:
        return Label(_SPECIAL[token], f"special token {token}", special=True)
    if token == "<unk>":
        piece = text[slice(*place)] if place else ""
        return Label(visible(piece) or "[unknown]", "not in this model's vocabulary, read as <unk>", special=not piece)
    shown = visible(token.replace("▁", " "))
    starts_the_text = place is not None and place[0] == 0
    return Label(shown[1:] if starts_the_text and token.startswith("▁") and len(shown) > 1 else shown)


def token_text(token: str) -> str:
    """A token that stands by itself, in no text."""
    return _label(token, None, "").text


def visible(piece: str) -> str:
    """The piece with every space shown as · and control characters as their code."""
    return "".join(SPACE if c.isspace() else c if c.isprintable() else f"U+{ord(c):04X}" for c in piece)
