"""How strongly a weight is drawn: one function for the colour of its cell and for the strength of its line."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.tokenizers.encoding import Encoding
from models.tokenizers.special_tokens import SETS

# what has the strongest colour; components/head/scale.js has the same functions
NAMES = {
    "weight": "1  attention weight", "row": "the largest attention weight of its row",
    "root": "1  attention weight, by its square root: the middle is 0.25",
}  # fmt: skip
WEIGHT, ROW, ROOT = NAMES

# stand round every text
_FRAME = {names[name] for names in SETS for name in ("start", "end", "cls", "sep") if name in names}


@dataclass(frozen=True)
class Scale:
    """One of NAMES, and whether the keys that take what a head has no use for, as [start] and [end] do, are left out."""

    name: str = WEIGHT
    hides_sinks: bool = False

    def strengths(
        self, weights: np.ndarray, sinks: Sequence[int] = (), largest: np.ndarray | None = None
    ) -> np.ndarray:
        """(query, key), 0 … 1. Of a hidden key 0, and the largest of a row is that of the others; `largest` says it where the row
        is longer than what is there."""
        shown = np.array(weights, np.float32)
        if self.hides_sinks:
            shown[:, list(sinks)] = 0
        if self.name == ROW:
            largest = shown.max(1, keepdims=True) if largest is None else largest[:, None]
            return np.divide(shown, largest, out=np.zeros_like(shown), where=largest > 0)
        return np.sqrt(shown) if self.name == ROOT else shown

    def key(self, sinks: Sequence[str] = ()) -> str:
        """What the strongest colour stands for, and the names of what is left out."""
        names = " and ".join(dict.fromkeys(sinks))
        return (
            f"{NAMES[self.name]}; {names} left out"
            if self.hides_sinks and names
            else NAMES[self.name]
        )


def sinks(row: Encoding) -> list[int]:
    """The places of <s> and </s>, or of [CLS] and [SEP], in a row of keys."""
    places = zip(row.tokens, row.offsets, strict=True)
    return [i for i, (token, offset) in enumerate(places) if offset is None and token in _FRAME]
