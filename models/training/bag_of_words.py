"""Multinomial naive Bayes: a text classified without its word order.

Its items are words or a model's own tokens; a model that reads word order must beat it.
"""

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence

_WORD = re.compile(r"\w+(?:'\w+)?")


def text_words(text: str) -> list[str]:
    """Return the words in lower case, without punctuation."""
    return _WORD.findall(text.casefold().replace("’", "'"))


class NaiveBayes:
    """p(class | row) ∝ p(class)·∏ p(item | class), with add-one (Laplace) smoothing.

    Items outside the training rows are ignored.
    """

    def __init__(
        self, rows: Sequence[Sequence[Hashable]], labels: Sequence[int], n_classes: int
    ) -> None:
        counts: list[Counter[Hashable]] = [Counter() for _ in range(n_classes)]
        for row, label in zip(rows, labels, strict=True):
            counts[label].update(row)
        self.vocabulary = frozenset(item for count in counts for item in count)
        frequencies = Counter(labels)
        self._class = [
            math.log((frequencies[label] + 1) / (len(labels) + n_classes))
            for label in range(n_classes)
        ]
        totals = [count.total() + len(self.vocabulary) for count in counts]
        self._item = [
            {item: math.log((count[item] + 1) / total) for item in self.vocabulary}
            for count, total in zip(counts, totals, strict=True)
        ]

    def log_probs(self, row: Sequence[Hashable]) -> list[float]:
        """Return ln p(class, items of the row) for each class."""
        items = [item for item in row if item in self.vocabulary]
        return [
            prior + sum(item_log_probs[item] for item in items)
            for prior, item_log_probs in zip(self._class, self._item, strict=True)
        ]

    def predicted(self, row: Sequence[Hashable]) -> int:
        """Return the most probable class; ties go to the first."""
        log_probs = self.log_probs(row)
        return log_probs.index(max(log_probs))
