"""The `classify` task: labelled texts, of which a model is to say the class (Radford et al. 2018, §3.2; Devlin et al. 2019, §4.1).

A line holds a text, a tab and its label, or two texts and the label of both. Of few texts much is held out, by a hash of the
first: a fifth to test on, a tenth to validate on. Five folds test on every text once.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

import torch

from models.architectures import Config, Model, bert, gpt
from models.architectures.base import CLASSES, NEXT_TOKEN, Answers
from models.runs.inputs import encoded
from models.tasks.pair_files import fingerprint, lines, names
from models.tasks.running_text import by_hash
from models.tasks.split import FOLDS, SETS, fold_of, sets_of
from models.tasks.text_files import licence_of
from models.tokenizers.base import Tokenizer
from models.training.bag_of_words import NaiveBayes, words
from models.training.batches import Batch, Labelled, bucketed, collate_labelled
from models.training.objectives import Losses, label_smoothed_loss, text_classes
from models.training.task import Case, DataError

TOKENS = ("byte pairs", "word pieces")
ROWS = 64  # read at once
N_BEST = 1000  # validation texts


@dataclass(frozen=True)
class LabelledText:
    """One text, or two that are classified together, and their label as the file has it."""

    texts: tuple[str, ...]
    label: str


class ClassifyTask:
    """Labelled texts of any files. The loss is L2 + `lm_weight`·L1 where the model predicts tokens too: nats a text, nats a token.
    `max_tokens` bounds a batch's padded positions; what is longer than `n_ctx` tokens loses its end. `tokens` are those of a
    vocabulary that is learned."""

    name, metric = "classify", "accuracy"

    def __init__(
        self,
        files: Sequence[str | Path] | str | Path,
        *,
        tokens: str = "byte pairs",
        vocab_size: int = 4096,
        max_tokens: int = 1024,
        n_ctx: int = 128,
        lm_weight: float = 0.0,
        fold: int = 0,
        tokenizer: Tokenizer | None = None,
        licence: str | None = None,
    ) -> None:
        if tokens not in TOKENS:
            raise DataError(f"tokens must be {' or '.join(TOKENS)}, not {tokens!r}")
        if lm_weight < 0:
            raise DataError(f"lm_weight must be at least 0, not {lm_weight}")
        if fold not in range(FOLDS):
            raise DataError(f"fold must be 0 to {FOLDS - 1}, not {fold}")
        self.paths = (Path(files),) if isinstance(files, str | Path) else tuple(map(Path, files))
        self.max_tokens, self.n_ctx, self.lm_weight, self.fold = max_tokens, n_ctx, lm_weight, fold
        self._tokens, self._vocab_size, self._tokenizer = tokens, vocab_size, tokenizer
        self.licence = licence or licence_of(self.paths)
        self._texts = read_labelled(self.paths)
        self.labels = tuple(sorted({text.label for text in self._texts}))
        if len(self.labels) < 2:
            raise DataError(
                f"{names(self.paths)}: every text has the label {self.labels[0]!r}; two classes are the fewest"
            )
        belongs = sets_of((text.texts[0] for text in self._texts), {}, partial(fold_of, fold=fold))
        self._split = {
            name: [text for text in self._texts if belongs[text.texts[0]] == name] for name in SETS
        }
        self._n_left_out = len(self._texts) - sum(map(len, self._split.values()))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The given vocabulary, or one learned on the training texts; with the special tokens that a text is classified by."""
        if self._tokenizer is not None:
            return self._tokenizer.for_classes()
        texts = [text for each in self._of("train") for text in each.texts]
        learn = Tokenizer.byte_level if self._tokens == "byte pairs" else Tokenizer.wordpiece
        return learn(texts, self._vocab_size).for_classes()

    @property
    def sizes(self) -> dict[str, Any]:
        """What the data say of a model that learns them."""
        return {"classes": ",".join(self.labels), "n_texts": len(self._texts[0].texts)}

    def _of(self, part: str) -> list[LabelledText]:
        if not self._split[part]:
            raise DataError(
                f"{names(self.paths)}: {len(self._texts)} texts are too few, none of them falls into the {part} split"
            )
        return self._split[part]

    def example(self, text: LabelledText) -> Labelled:
        """The row, its end cut off where it is longer than the model reads, and its class."""
        fields = bert.FIELDS["classes"] if self.tokenizer.cls_id is not None else gpt.CLASSIFIED
        row = encoded(fields, text.texts, self.tokenizer, 10**9)["text"]
        kept = [*range(min(len(row.ids), self.n_ctx) - 1), len(row.ids) - 1]
        segments = [row.segments[i] for i in kept] if row.segments else []
        return [row.ids[i] for i in kept], segments, (self.labels.index(text.label),)

    @cached_property
    def _train(self) -> list[Labelled]:
        return [self.example(text) for text in self._of("train")]

    def batches(self, seed: int) -> Iterator[Sequence[Labelled]]:
        """Every epoch in another order."""
        lengths = [(len(ids) - 1,) for ids, *_ in self._train]
        for epoch in count():
            for batch in bucketed(lengths, self.max_tokens, random.Random(f"{seed}/{epoch}")):
                yield [self._train[i] for i in batch]

    def collate(self, examples: Sequence[Labelled]) -> Batch:
        return collate_labelled(examples, self.tokenizer.pad_id)

    def objective(self, answers: Answers, batch: Batch, smoothing: float) -> Losses:
        return text_classes(answers, batch, smoothing, self.lm_weight)

    def validation(self) -> Sequence[Labelled]:
        return [self.example(text) for text in self._of("validation")[:N_BEST]]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Texts with their label, in the order of the first text's hash."""
        found = self._ordered(validation)[:n]
        return [
            Case(each.texts if len(each.texts) > 1 else each.texts[0], (each.label,))
            for each in found
        ]

    def _ordered(self, validation: bool) -> list[LabelledText]:
        found: dict[str, list[LabelledText]] = {}
        for text in self._of("validation" if validation else "test"):
            found.setdefault(text.texts[0], []).append(text)
        return [text for first in by_hash(list(found)) for text in found[first]]

    def check(self, config: Config) -> None:
        """Raises DataError for a model that does not tell as many classes as there are labels."""
        if len(own := config.class_names) != len(self.labels):
            labels, classes = ", ".join(self.labels), ", ".join(own)
            raise DataError(
                f"{names(self.paths)}: has the labels {labels}, but the model the classes {classes}"
            )

    @torch.inference_mode()
    def evaluate(
        self, model: Model, n: int | None = None, *, validation: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:  # fmt: skip
        """Over the first n held-out texts: the share whose class is found, in percent, beside what naive Bayes on the training
        texts' words, the same on the model's tokens, and the training's most frequent class come to; where the model predicts
        tokens too, their perplexity."""
        self.check(model.config)
        model.eval()
        held_out = self._ordered(validation)[:n]
        examples = [self.example(text) for text in held_out]
        kinds, right, nats, n_tokens = [kind for *_, (kind,) in examples], 0, 0.0, 0
        for start in range(0, len(examples), ROWS):
            batch = self.collate(examples[start : start + ROWS]).to(model.device)
            answers = model(*batch.inputs)
            right += int((answers[CLASSES].argmax(-1) == batch.classes).sum())
            if NEXT_TOKEN in answers:
                nats += float(label_smoothed_loss(answers[NEXT_TOKEN], batch.labels))
                n_tokens += batch.n_labels
            progress(min(start + ROWS, len(examples)), len(examples))
        measures = {self.metric: 100 * right / len(kinds)} | self._baselines(held_out, kinds)
        return measures | (
            {"text perplexity": float(torch.tensor(nats / n_tokens).exp())} if n_tokens else {}
        )

    def _baselines(
        self, held_out: Sequence[LabelledText], kinds: Sequence[int]
    ) -> dict[str, float]:
        training, measures = self._of("train"), {}
        trained = [self.labels.index(text.label) for text in training]
        for name, items in (("words", self._words), ("tokens", self._ids)):
            counted = NaiveBayes(items(training), trained, len(self.labels))
            right = sum(
                counted.predicted(row) == kind
                for row, kind in zip(items(held_out), kinds, strict=True)
            )
            measures[f"bag-of-{name} accuracy"] = 100 * right / len(kinds)
        (majority, _), *_ = Counter(trained).most_common(1)
        return measures | {"majority accuracy": 100 * kinds.count(majority) / len(kinds)}

    @staticmethod
    def _words(texts: Sequence[LabelledText]) -> list[list[str]]:
        return [words(" ".join(text.texts)) for text in texts]

    def _ids(self, texts: Sequence[LabelledText]) -> list[list[int]]:
        return self.tokenizer.encode_many([" ".join(text.texts) for text in texts])

    def data(self) -> dict[str, Any]:
        classes = Counter(text.label for text in self._texts)
        return fingerprint(self.paths) | {
            "texts": {name: len(texts) for name, texts in self._split.items()},
            "left out": self._n_left_out,
            "classes": {label: classes[label] for label in self.labels},
            "lm_weight": self.lm_weight,
            "fold": self.fold,
        }


def read_labelled(paths: Sequence[Path]) -> list[LabelledText]:
    """The labelled texts of tab-separated files, each once. Raises DataError saying what is wrong, in which file and line."""
    found: dict[LabelledText, None] = {}
    n_columns = 0
    for path in paths:
        for number, line in enumerate(lines(path), 1):
            if not line.strip():
                continue
            columns = [column.strip() for column in line.split("\t")]
            where, came = f"{path}, line {number}", f"came {line.strip()[:60]!r}"
            if len(columns) not in (2, 3):
                raise DataError(
                    f"{where}: wanted text, tab, label, or two texts and a label; {came}"
                )
            if not columns[-1]:
                raise DataError(f"{where}: there is no label behind the text; {came}")
            if not all(columns[:-1]):
                raise DataError(f"{where}: there is no text before the label; {came}")
            if "," in columns[-1]:
                raise DataError(f"{where}: a label holds no comma; {came}")
            if len(columns) != (n_columns := n_columns or len(columns)):
                raise DataError(
                    f"{where}: has {len(columns) - 1} texts, the lines before have {n_columns - 1}; {came}"
                )
            found[LabelledText(tuple(columns[:-1]), columns[-1])] = None
    if not found:
        raise DataError(f"{names(paths)}: holds no labelled texts")
    return list(found)
