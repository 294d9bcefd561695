"""A text as the words that it holds, whatever their order: multinomial naive Bayes, what a model that reads must beat."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+(?:'\w+)?")


def words(text: str) -> list[str]:
    """The words in small letters, without signs."""
    return _WORD.findall(text.casefold().replace("’", "'"))


class BagOfWords:
    """p(class | text) ∝ p(class)·∏ p(word | class), a word counted once more than it was seen (Laplace); words that no text of the
    training had say nothing."""

    def __init__(self, texts: Sequence[str], labels: Sequence[int], n_classes: int) -> None:
        counts: list[Counter[str]] = [Counter() for _ in range(n_classes)]
        for text, label in zip(texts, labels, strict=True):
            counts[label].update(words(text))
        self.vocabulary = frozenset(word for count in counts for word in count)
        seen = Counter(labels)
        self._class = [math.log((seen[label] + 1) / (len(labels) + n_classes)) for label in range(n_classes)]
        totals = [count.total() + len(self.vocabulary) for count in counts]
        self._word = [{word: math.log((count[word] + 1) / total) for word in self.vocabulary}
                      for count, total in zip(counts, totals, strict=True)]

    def log_probs(self, text: str) -> list[float]:
        """ln p(class, words of the text), one a class."""
        known = [word for word in words(text) if word in self.vocabulary]
        return [own + sum(each[word] for word in known) for own, each in zip(self._class, self._word, strict=True)]

    def predicted(self, text: str) -> int:
        """The most probable class; of equals the first."""
        log_probs = self.log_probs(text)
        return log_probs.index(max(log_probs))
