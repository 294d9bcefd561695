"""How strongly a weight is drawn: one function for the colour of its cell and for the strength of its line."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.tokenizers.base import END, START, Encoding

# what has the strongest colour; components/head/scale.js has the same functions
NAMES = {
    "weight": "1  attention weight", "row": "the largest attention weight of its row",
    "root": "1  attention weight, by its square root: the middle is 0.25",
}  # fmt: skip
WEIGHT, ROW, ROOT = NAMES


@dataclass(frozen=True)
class Scale:
    """One of NAMES, and whether the keys that take what a head has no use for, [start] and [end], are left out of the picture."""

    name: str = WEIGHT
    hides_sinks: bool = False

    def strengths(self, weights: np.ndarray, sinks: Sequence[int] = ()) -> np.ndarray:
        """(query, key), 0 … 1. Of a hidden key 0, and the largest of a row is that of the others."""
        shown = np.array(weights, np.float32)
        if self.hides_sinks:
            shown[:, list(sinks)] = 0
        if self.name == ROW:
            largest = shown.max(1, keepdims=True)
            return np.divide(shown, largest, out=np.zeros_like(shown), where=largest > 0)
        return np.sqrt(shown) if self.name == ROOT else shown

    def key(self, sinks: Sequence[int] = ()) -> str:
        """What the strongest colour stands for, and what is left out."""
        return f"{NAMES[self.name]}{'; [start] and [end] left out' * bool(self.hides_sinks and sinks)}"


def sinks(row: Encoding) -> list[int]:
    """The places of <s> and </s> in a row of keys."""
    places = zip(row.ids, row.offsets, strict=True)
    return [i for i, (token, offset) in enumerate(places) if offset is None and token in (START, END)]
