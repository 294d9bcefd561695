"""A text as what it holds, whatever its order: multinomial naive Bayes on words, or on a model's own tokens; what a model that
reads must beat."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence

_WORD = re.compile(r"\w+(?:'\w+)?")


def words(text: str) -> list[str]:
    """The words in small letters, without signs."""
    return _WORD.findall(text.casefold().replace("’", "'"))


class NaiveBayes:
    """p(class | row) ∝ p(class)·∏ p(item | class), an item counted once more than it was seen (Laplace); items that no row of the
    training had say nothing."""

    def __init__(
        self, rows: Sequence[Sequence[Hashable]], labels: Sequence[int], n_classes: int
    ) -> None:
        counts: list[Counter[Hashable]] = [Counter() for _ in range(n_classes)]
        for row, label in zip(rows, labels, strict=True):
            counts[label].update(row)
        self.vocabulary = frozenset(item for count in counts for item in count)
        seen = Counter(labels)
        self._class = [
            math.log((seen[label] + 1) / (len(labels) + n_classes)) for label in range(n_classes)
        ]
        totals = [count.total() + len(self.vocabulary) for count in counts]
        self._item = [
            {item: math.log((count[item] + 1) / total) for item in self.vocabulary}
            for count, total in zip(counts, totals, strict=True)
        ]

    def log_probs(self, row: Sequence[Hashable]) -> list[float]:
        """ln p(class, items of the row), one a class."""
        known = [item for item in row if item in self.vocabulary]
        return [
            own + sum(each[item] for item in known)
            for own, each in zip(self._class, self._item, strict=True)
        ]

    def predicted(self, row: Sequence[Hashable]) -> int:
        """The most probable class; of equals the first."""
        log_probs = self.log_probs(row)
        return log_probs.index(max(log_probs))
