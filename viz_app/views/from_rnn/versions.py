"""The texts of three models side by side: the pieces that each lost and invented, against a reference or against each other, above
the one vector that the first of them writes from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from viz_app.drawing.difference import shared
from viz_app.drawing.extent import OWN, Extent, widened
from viz_app.drawing.labels import Label
from viz_app.drawing.payload import pack

N_OTHERS = 24  # tokens that each token of the source becomes in turn
BOTTLENECK = "The bottleneck: all that the first of them is given of the text"
VECTOR = "h(m)"
BARS = f"How much of h(m) each token changes: ‖h(m)′ − h(m)‖ / ‖h(m)‖ when it becomes another, mean of {N_OTHERS} tokens drawn once."


@dataclass(frozen=True)
class Version:
    """The text of one model, with its kind and its weights' name."""

    title: str
    owner: str
    text: str


@dataclass(frozen=True)
class MarkedText:
    """A text in pieces, each with True if it is in none of the texts it was held against, and what all of those have and it
    has not."""

    pieces: list[tuple[str, bool]]
    lost: list[str]


@dataclass(frozen=True)
class Bottleneck:
    """The one vector of a source, h(m), and by how much of its length each of these tokens changes it."""

    owner: str
    vector: Tensor
    labels: list[Label]
    change: Tensor
    rewritten: tuple[
        int, int
    ]  # trials with the least telling token replaced: texts that changed, and all


def pieces(text: str, whole: bool) -> list[str]:
    """Return the words of a text, or its characters."""
    return text.split() if whole else list(text.strip())


def in_words(*texts: str) -> bool:
    """Return True if texts are compared word by word: those without a space, such as dates, are not."""
    return any(" " in text.strip() for text in texts)


def common(first: Sequence[str], second: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Return the pieces of each that are in the other too, in one order; a word is the same in capitals and before a full stop."""
    return shared(
        *([piece.strip(".,!?;:").casefold() or piece for piece in row] for row in (first, second))
    )


def mark(text: str, others: Sequence[str]) -> MarkedText:
    """Compare a text with others: a reference, or those of the other models."""
    whole = in_words(text, *others)
    marked, rows = pieces(text, whole), [pieces(other, whole) for other in others]
    if not rows:
        return MarkedText([(piece, False) for piece in marked], [])
    compared = [common(marked, row) for row in rows]
    invented = [not any(there[i] for there, _ in compared) for i in range(len(marked))]
    first, (_, kept) = rows[0], compared[0]
    everywhere = [all(common(first, row)[0][i] for row in rows[1:]) for i in range(len(first))]
    lost = [
        piece
        for piece, there, all_have in zip(first, kept, everywhere, strict=True)
        if all_have and not there
    ]
    return MarkedText(list(zip(marked, invented, strict=True)), lost)


def nearest(references: Sequence[str], versions: Sequence[Version]) -> str:
    """Return the reference that these texts have most pieces in common with; "" where there is none."""

    def agreeing(reference: str) -> int:
        whole = in_words(reference)
        return sum(
            sum(common(pieces(one.text, whole), pieces(reference, whole))[0]) for one in versions
        )

    return max(references, key=agreeing, default="")


def _bottleneck(whose: str, n: int) -> str:
    """Say what the vector is."""
    return f"The encoder of {whose} reads everything, and hands on {n} numbers, the same {n} for three words as for thirty."


def _legend(has_reference: bool, n_texts: int) -> str:
    """Say how differences are marked, and against what; empty where there is nothing to compare a text with."""
    if not has_reference and n_texts < 2:
        return ""
    against = (
        "what it should say"
        if has_reference
        else "what the others write, because what it should say is not known"
    )
    return (
        f"Compared with {against}: underlined, what it has beyond that (invented); struck through, what it lacks (lost). Other "
        "words for the same thing are marked too."
    )


def verdict(has_reference: bool, invented: bool, lost: bool) -> str:
    """Return the sentence that introduces the pieces one text lost."""
    if lost:
        return "Lost: "
    if invented:
        return "Nothing lost."
    return (
        "Word for word what it should say."
        if has_reference
        else "Nothing that the others do not have."
    )


def versions(
    source: str,
    outputs: Sequence[Version],
    reference: str,
    named: str,
    bottleneck: Bottleneck | None,
    extent: Extent = OWN,
) -> bytes:
    """Return the payload of the component `versions`; `named` is what the reference is called. The scales of the bottleneck cover
    `extent`."""
    cards = []
    for one in outputs:
        others = [reference] if reference else [other.text for other in outputs if other is not one]
        text = mark(one.text, others)
        cards.append(
            {
                "title": one.title,
                "whose": one.owner,
                "words": [list(piece) for piece in text.pieces],
                "lost": text.lost,
                "gap": " " if in_words(one.text, *others) else "",
                "verdict": verdict(
                    bool(reference), any(invented for _, invented in text.pieces), bool(text.lost)
                )
                if others
                else "",
            }
        )
    header = {
        "source": source,
        "reference": {"name": named, "text": reference} if reference else None,
        "cards": cards,
        "legend": _legend(bool(reference), len(outputs)),
        "bottleneck": None,
    }
    if bottleneck is None:
        return pack(header | {"extent": {}})
    vector, change = (
        values.numpy().astype(np.float32) for values in (bottleneck.vector, bottleneck.change)
    )
    own = {"vector": float(np.abs(vector).max()), "change": float(change.max())}
    scales = widened(own, extent)
    header["extent"] = own
    header["bottleneck"] = {
        "title": BOTTLENECK,
        "note": _bottleneck(bottleneck.owner, len(vector)),
        "vector": VECTOR,
        "bars": BARS,
        "scale": scales["vector"],
        "largest": scales["change"],
        "labels": [label.as_json() for label in bottleneck.labels],
    }
    return pack(header, vector=vector, change=change)
