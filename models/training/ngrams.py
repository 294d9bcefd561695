"""Language models that count, by Kneser & Ney's smoothing (1995) in its interpolated form (Chen & Goodman 1998): what a trained
model has to be better than."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

BEFORE = -1  # no token: what stands before the first of a row


class KneserNey:
    """p(w | the last order−1 tokens), counted over training rows; each row begins after order−1 times BEFORE.

    p_k(w | h) = max(c(hw) − D_k, 0)/c(h) + D_k·n(h)/c(h) · p_k−1(w | h'), where n(h) is how many different tokens follow h and
    D_k = n₁/(n₁ + 2n₂). Below the highest order c counts how many different tokens come before; below order 1 every token is
    as probable."""

    def __init__(self, rows: Sequence[Sequence[int]], vocab_size: int, order: int) -> None:
        self.order, self.vocab_size = order, vocab_size
        highest = Counter(gram for row in rows for gram in self._grams(row))
        self._counts = {order: highest}
        for k in range(order - 1, 0, -1):
            self._counts[k] = Counter(gram[1:] for gram in self._counts[k + 1])
        self._discounts = {k: _discount(counts) for k, counts in self._counts.items()}
        self._totals: dict[tuple[int, ...], int] = defaultdict(
            int
        )  # context → how often it is followed by something
        self._followers: dict[tuple[int, ...], int] = defaultdict(
            int
        )  # context → by how many different tokens
        for counts in self._counts.values():
            for gram, count in counts.items():
                self._totals[gram[:-1]] += count
                self._followers[gram[:-1]] += 1

    def _grams(self, row: Sequence[int]) -> list[tuple[int, ...]]:
        whole = [BEFORE] * (self.order - 1) + list(row)
        return list(zip(*(whole[i:] for i in range(self.order)), strict=False))

    def prob(self, token: int, context: tuple[int, ...] = ()) -> float:
        """Of a token after at most order−1 tokens; BEFORE may be among them."""
        total, k = self._totals.get(context, 0), len(context) + 1
        lower = self.prob(token, context[1:]) if context else 1 / self.vocab_size
        if not total:
            return lower
        count, discount = self._counts[k].get((*context, token), 0), self._discounts[k]
        return (
            max(count - discount, 0) / total + discount * self._followers[context] / total * lower
        )

    def log_prob(self, row: Sequence[int]) -> float:
        """ln p of a row from its first token on."""
        return sum(math.log(self.prob(gram[-1], gram[:-1])) for gram in self._grams(row))


def _discount(counts: Counter) -> float:
    """n₁/(n₁ + 2n₂), of how many grams were seen once and twice (Ney et al. 1994); ½ where none was."""
    times = Counter(counts.values())
    return times[1] / (times[1] + 2 * times[2]) if times[1] else 0.5
