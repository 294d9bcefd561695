"""What three models write for one text: what each lost and what it invented, against a reference or against each other, and the
payload that shows it above the one vector that the first of them has to write from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from viz_app.drawing.difference import shared
from viz_app.drawing.labels import Label
from viz_app.drawing.payload import pack
from viz_app.views.from_rnn import versions_text as say


@dataclass(frozen=True)
class Version:
    """What one model writes: what kind of model it is, whose weights these are, and its text."""

    title: str
    owner: str
    text: str


@dataclass(frozen=True)
class MarkedText:
    """One text in pieces, each with whether it stands in none of the texts it was held against, and what all of those have and it
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
    """The words of a text, or its characters."""
    return text.split() if whole else list(text.strip())


def in_words(*texts: str) -> bool:
    """Return True if texts are compared word by word: those without a space, such as dates, are not."""
    return any(" " in text.strip() for text in texts)


def common(first: Sequence[str], second: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Which pieces of each stand in the other too, in one order; a word is the same in capitals and before a full stop."""
    return shared(
        *([piece.strip(".,!?;:").casefold() or piece for piece in row] for row in (first, second))
    )


def mark(text: str, others: Sequence[str]) -> MarkedText:
    """A text held against others: a reference, or what the other models write."""
    whole = in_words(text, *others)
    own, rows = pieces(text, whole), [pieces(other, whole) for other in others]
    if not rows:
        return MarkedText([(piece, False) for piece in own], [])
    compared = [common(own, row) for row in rows]
    invented = [not any(there[i] for there, _ in compared) for i in range(len(own))]
    first, (_, kept) = rows[0], compared[0]
    everywhere = [all(common(first, row)[0][i] for row in rows[1:]) for i in range(len(first))]
    lost = [
        piece
        for piece, there, all_have in zip(first, kept, everywhere, strict=True)
        if all_have and not there
    ]
    return MarkedText(list(zip(own, invented, strict=True)), lost)


def nearest(references: Sequence[str], versions: Sequence[Version]) -> str:
    """The reference that these texts have most pieces in common with; "" where there is none."""

    def agreeing(reference: str) -> int:
        whole = in_words(reference)
        return sum(
            sum(common(pieces(one.text, whole), pieces(reference, whole))[0]) for one in versions
        )

    return max(references, key=agreeing, default="")


def versions(
    source: str,
    outputs: Sequence[Version],
    reference: str,
    named: str,
    bottleneck: Bottleneck | None,
) -> bytes:
    """The payload of the component `versions`; `named` is what the reference is called."""
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
                "verdict": say.verdict(
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
        "legend": say.legend(bool(reference), len(outputs)),
        "bottleneck": None,
    }
    if bottleneck is None:
        return pack(header)
    vector, change = (
        values.numpy().astype(np.float32) for values in (bottleneck.vector, bottleneck.change)
    )
    header["bottleneck"] = {
        "title": say.BOTTLENECK,
        "note": say.bottleneck(bottleneck.owner, len(vector)),
        "vector": say.VECTOR,
        "bars": say.BARS,
        "scale": float(np.abs(vector).max()),
        "labels": [label.as_json() for label in bottleneck.labels],
    }
    return pack(header, vector=vector, change=change)
