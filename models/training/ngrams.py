"""N-gram language models with interpolated Kneser-Ney smoothing: baselines for trained models.

Kneser & Ney 1995, in the interpolated form of Chen & Goodman 1998.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

NGRAM_PADDING = -1  # not a token: pads the context before the first one


class KneserNey:
    """p(w | the last order−1 tokens), from counts over rows padded by order−1 NGRAM_PADDING.

    p_k(w | h) = max(c(hw) − D_k, 0)/c(h) + D_k·n(h)/c(h) · p_k−1(w | h'), where n(h) is the number
    of distinct tokens after h and D_k = n₁/(n₁ + 2n₂). Below the highest order, c counts the
    distinct tokens that come before; below order 1, the distribution is uniform.
    """

    def __init__(self, rows: Sequence[Sequence[int]], vocab_size: int, order: int) -> None:
        self.order, self.vocab_size = order, vocab_size
        highest = Counter(gram for row in rows for gram in self._grams(row))
        self._counts = {order: highest}
        for k in range(order - 1, 0, -1):
            self._counts[k] = Counter(gram[1:] for gram in self._counts[k + 1])
        self._discounts = {k: _discount(counts) for k, counts in self._counts.items()}
        # context → number of following tokens, all and distinct
        self._totals: dict[tuple[int, ...], int] = defaultdict(int)
        self._followers: dict[tuple[int, ...], int] = defaultdict(int)
        for counts in self._counts.values():
            for gram, count in counts.items():
                self._totals[gram[:-1]] += count
                self._followers[gram[:-1]] += 1

    def _grams(self, row: Sequence[int]) -> list[tuple[int, ...]]:
        whole = [NGRAM_PADDING] * (self.order - 1) + list(row)
        return list(zip(*(whole[i:] for i in range(self.order)), strict=False))

    def prob(self, token: int, context: tuple[int, ...] = ()) -> float:
        """Return the probability of a token after at most order−1 tokens (or NGRAM_PADDING)."""
        total, k = self._totals.get(context, 0), len(context) + 1
        lower = self.prob(token, context[1:]) if context else 1 / self.vocab_size
        if not total:
            return lower
        count, discount = self._counts[k].get((*context, token), 0), self._discounts[k]
        return (
            max(count - discount, 0) / total + discount * self._followers[context] / total * lower
        )

    def log_prob(self, row: Sequence[int]) -> float:
        """Return ln p of a row from its first token on."""
        return sum(math.log(self.prob(gram[-1], gram[:-1])) for gram in self._grams(row))


def _discount(counts: Counter) -> float:
    """Return n₁/(n₁ + 2n₂), with n₁ and n₂ n-grams seen once and twice (Ney et al. 1994).

    It is ½ if none was seen once.
    """
    times = Counter(counts.values())
    return times[1] / (times[1] + 2 * times[2]) if times[1] else 0.5
