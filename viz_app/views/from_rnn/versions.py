"""The texts of three models side by side, above the vector that the first writes from.

Pieces that each lost and invented are marked, against a reference or against each other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from viz_app.drawing.difference import common_items
from viz_app.drawing.extent import OWN_EXTENT, Extent, widen_scales
from viz_app.drawing.labels import Label
from viz_app.drawing.payload import pack

N_OTHERS = 24  # tokens that replace each token of the source in turn
BOTTLENECK = "The bottleneck: all that the RNN decoder gets from the text"
VECTOR = "h(m)"
BARS_TITLE = (
    f"Change in h(m) when a token is replaced: ‖h(m)′ − h(m)‖ / ‖h(m)‖, mean over {N_OTHERS} "
    "random tokens."
)


@dataclass(frozen=True)
class ModelText:
    """The text of one model, with its kind and its weights' name."""

    title: str
    owner: str
    text: str


@dataclass(frozen=True)
class MarkedText:
    """A text in pieces, each with True if it is in none of the texts that it is compared with.

    `lost` are the pieces that all of those have and this one lacks.
    """

    pieces: list[tuple[str, bool]]
    lost: list[str]


@dataclass(frozen=True)
class Bottleneck:
    """The one vector of a source, h(m), and by how much of its length each token changes it."""

    owner: str
    vector: Tensor
    labels: list[Label]
    change: Tensor
    rewritten: tuple[
        int, int
    ]  # with the least influential token replaced: trials that changed the text, and all


def text_pieces(text: str, whole: bool) -> list[str]:
    """Return the words of a text, or its characters."""
    return text.split() if whole else list(text.strip())


def compares_words(*texts: str) -> bool:
    """Return True if texts are compared word by word; dates and others without a space are not."""
    return any(" " in text.strip() for text in texts)


def common(first: Sequence[str], second: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Return, for each piece of both rows, True if they share it, in one order.

    Case and the punctuation around a word are ignored.
    """
    return common_items(
        *([piece.strip(".,!?;:").casefold() or piece for piece in row] for row in (first, second))
    )


def mark(text: str, others: Sequence[str]) -> MarkedText:
    """Compare a text with others: a reference, or those of the other models."""
    whole = compares_words(text, *others)
    marked, rows = text_pieces(text, whole), [text_pieces(other, whole) for other in others]
    if not rows:
        return MarkedText([(piece, False) for piece in marked], [])
    compared = [common(marked, row) for row in rows]
    invented = [not any(in_common[i] for in_common, _ in compared) for i in range(len(marked))]
    first, (_, is_held) = rows[0], compared[0]
    everywhere = [all(common(first, row)[0][i] for row in rows[1:]) for i in range(len(first))]
    lost = [
        piece
        for piece, in_common, all_have in zip(first, is_held, everywhere, strict=True)
        if all_have and not in_common
    ]
    return MarkedText(list(zip(marked, invented, strict=True)), lost)


def closest_reference(references: Sequence[str], text: str) -> str:
    """Return the reference that a text has most pieces in common with; "" if there is none."""

    def overlap(reference: str) -> float:
        whole = compares_words(reference)
        row, other = text_pieces(text, whole), text_pieces(reference, whole)
        return sum(map(sum, common(row, other))) / max(1, len(row) + len(other))

    return max(references, key=overlap, default="")


def is_same(first: str, second: str) -> bool:
    """Return True if two texts have the same words in the same order."""
    rows = [text_pieces(text, compares_words(first, second)) for text in (first, second)]
    return all(map(all, common(*rows)))


def _bottleneck(whose: str, n: int) -> str:
    """Describe the vector."""
    return f"The encoder of {whose} passes on {n} numbers, however long the text is."


def _legend(n_references: int, n_texts: int, gaps: Collection[str]) -> str:
    """Describe how texts are compared and marked; "" if there is nothing to compare with.

    `gaps` are the separators of pieces in the texts: " " between words, "" between characters.
    """
    if not n_references and n_texts < 2:
        return ""
    against = "the nearest of the correct texts" if n_references > 1 else "the correct text"
    if not n_references:
        against = "the other models' texts, because no correct one is known"
    units = {" ": "word by word", "": "character by character"}
    how = " or ".join(name for gap, name in units.items() if gap in gaps)
    return (
        f"Compared with {against}, {how}: underlined = extra, struck through = missing. Valid paraphrases are "
        "marked too."
    )


def missing_pieces_sentence(text: MarkedText, has_reference: bool, whole: bool = True) -> str:
    """Return the sentence before the pieces that a text lacks.

    It says how many of the other's words, or characters, the text has.
    """
    invented = sum(is_extra for _, is_extra in text.pieces)
    has, what = len(text.pieces) - invented, "words" if whole else "characters"
    n = has + len(text.lost)
    if not has_reference:
        return "Missing, though all others have it: " if text.lost else "Nothing is missing."
    if text.lost:
        return f"{has} of {n} {what} match. Missing: "
    return f"All {n} {what} match{f', and {invented} more are extra' * bool(invented)}."


def agreement_count(n: int) -> str:
    """Say that `n` models wrote the same text, which is not among the known ones."""
    return f"Not among the known texts, but {n} models wrote just this: nothing is marked."


def _card(one: ModelText, others: Sequence[ModelText], references: Sequence[str]) -> dict[str, Any]:
    """Return a text with what differs marked.

    A sentence that another model wrote too is not marked: it may be a valid paraphrase.
    """
    compared = (
        [closest_reference(references, one.text)]
        if references
        else [other.text for other in others]
    )
    text = mark(one.text, compared)
    note = (
        missing_pieces_sentence(text, bool(references), compares_words(one.text, *compared))
        if compared
        else ""
    )
    same = 1 + sum(is_same(one.text, other.text) for other in others)
    is_wrong = bool(text.lost) or any(extra for _, extra in text.pieces)
    if references and is_wrong and same > 1 and compares_words(*references):
        text = MarkedText([(piece, False) for piece, _ in text.pieces], [])
        note = agreement_count(same)
    return {
        "title": one.title,
        "whose": one.owner,
        "words": [list(piece) for piece in text.pieces],
        "lost": text.lost,
        "gap": " " if compares_words(one.text, *compared) else "",
        "verdict": note,
    }


def versions(
    source: str,
    outputs: Sequence[ModelText],
    references: Sequence[str],
    reference_name: str,
    bottleneck: Bottleneck | None,
    extent: Extent = OWN_EXTENT,
    saved: Mapping[str, str] | None = None,
) -> bytes:
    """Return the payload of the component `versions`.

    `reference_name` is the title of the references. The scales of the bottleneck cover `extent`;
    `saved` are the fields with which the browser saves the picture.
    """
    cards = [_card(one, [o for o in outputs if o is not one], references) for one in outputs]
    header: dict[str, Any] = {
        **(saved or {}),
        "source": source,
        "reference": {"name": reference_name, "text": " / ".join(references)}
        if references
        else None,
        "cards": cards,
        "legend": _legend(len(references), len(outputs), {card["gap"] for card in cards}),
        "bottleneck": None,
    }
    if bottleneck is None:
        return pack(header | {"extent": {}})
    vector, change = (
        values.numpy().astype(np.float32) for values in (bottleneck.vector, bottleneck.change)
    )
    own_extent = {"vector": float(np.abs(vector).max()), "change": float(change.max())}
    scales = widen_scales(own_extent, extent)
    header["extent"] = own_extent
    header["bottleneck"] = {
        "title": BOTTLENECK,
        "note": _bottleneck(bottleneck.owner, len(vector)),
        "vector": VECTOR,
        "bars": BARS_TITLE,
        "scale": scales["vector"],
        "largest": scales["change"],
        "labels": [label.as_json() for label in bottleneck.labels],
    }
    return pack(header, vector=vector, change=change)
