"""Colour strength of weights, for cells and lines alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.tokenizers.encoding import Encoding
from models.tokenizers.special_tokens import SPECIAL_SETS

# scale → the meaning of the strongest colour; components/head/scale.js has the same functions
SCALE_NAMES = {
    "weight": "1  attention weight", "row": "the largest attention weight of its row",
    "root": "1  attention weight, by its square root: the middle is 0.25",
}  # fmt: skip
WEIGHT_SCALE, ROW_SCALE, ROOT_SCALE = SCALE_NAMES
# WEIGHT_SCALE, or ROW_SCALE where each row has so many keys that most weights would be too pale
AUTO = "auto"
MAX_DRAWN_KEYS = 128  # of a row that is drawn by its weights

# tokens that enclose every text
_ENCLOSING = {
    names[name]
    for names in SPECIAL_SETS
    for name in ("start", "end", "cls", "sep")
    if name in names
}


@dataclass(frozen=True)
class Scale:
    """One of SCALE_NAMES or AUTO.

    `hides_sinks` leaves out keys that collect unused weight, such as [start] and [end].
    """

    name: str = WEIGHT_SCALE
    hides_sinks: bool = False

    def of(self, n_key: int) -> "Scale":
        """Return the scale for rows of this many keys: one of SCALE_NAMES."""
        return replace(self, name=automatic(n_key)) if self.name == AUTO else self

    def strengths(
        self, weights: np.ndarray, sinks: Sequence[int] = (), largest: np.ndarray | None = None
    ) -> np.ndarray:
        """Return (query, key) colour strengths in 0 … 1.

        A hidden key is 0 and does not count towards a row's largest weight. `largest` gives the
        largest weight of each whole row, if `weights` are only a part of it.
        """
        values = np.array(weights, np.float32)
        if self.hides_sinks:
            values[:, list(sinks)] = 0
        if self.name == ROW_SCALE:
            largest = values.max(1, keepdims=True) if largest is None else largest[:, None]
            return np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
        return np.sqrt(values) if self.name == ROOT_SCALE else values

    def key(self, sinks: Sequence[str] = ()) -> str:
        """Return the meaning of the strongest colour, naming the keys that are left out."""
        names = " and ".join(dict.fromkeys(sinks))
        return (
            f"{SCALE_NAMES[self.name]}; {names} left out"
            if self.hides_sinks and names
            else SCALE_NAMES[self.name]
        )


def automatic(n_key: int) -> str:
    """Return the scale that shows rows of this many keys best."""
    return ROW_SCALE if n_key > MAX_DRAWN_KEYS else WEIGHT_SCALE


def sinks(row: Encoding) -> list[int]:
    """Return the positions of <s> and </s>, or of [CLS] and [SEP], in a row of keys."""
    pairs = zip(row.tokens, row.offsets, strict=True)
    return [i for i, (token, offset) in enumerate(pairs) if offset is None and token in _ENCLOSING]
