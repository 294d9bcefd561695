"""The `classify` task: labelled texts, whose class a model predicts.

Radford et al. 2018, §3.2; Devlin et al. 2019, §4.1. Each line has a text, a tab and its label, or
two texts and their label. Since such data are scarce, much of them is held out, by a hash of the
first text: a fifth for testing, a tenth for validation. Five folds test on every text once.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

import torch

from models.architectures import Config, Model, bert, gpt
from models.architectures.base import CLASSES_OUTPUT, NEXT_TOKEN, Answers
from models.evaluation_mode import evaluating
from models.number_text import how_many
from models.runs.inputs import encode_fields, no_limit
from models.tasks.pair_files import file_record, names, read_lines
from models.tasks.running_text import by_hash
from models.tasks.split import FOLDS, SPLIT_SETS, fold_of, sets_of
from models.tasks.text_files import licence_of
from models.tokenizers.base import Tokenizer
from models.training.bag_of_words import NaiveBayes, text_words
from models.training.batches import Batch, Labelled, bucket_by_length, collate_labelled
from models.training.likelihood import perplexity_of
from models.training.objectives import Losses, label_smoothed_loss, text_classes
from models.training.task import Case, DataError, Evaluation, Progress, no_progress

CLASSIFY_TOKENS = ("byte pairs", "word pieces")
CLASSIFY_EVAL_ROWS = 64  # per batch in `evaluate`
N_VALIDATION_TEXTS = 1000  # validation texts


@dataclass(frozen=True)
class LabelledText:
    """One text, or two that are classified together, and their label in the file."""

    texts: tuple[str, ...]
    label: str


class ClassifyTask:
    """Labelled texts of any files.

    The loss is L2 + `lm_weight`·L1 if the model also predicts tokens: nats per text and per token.
    `max_tokens` is the limit of padded positions in a batch; texts longer than `n_ctx` tokens are
    truncated. `tokens` is the kind of vocabulary to learn.
    """

    name, metric = "classify", "accuracy"
    purpose, pipeline_tag = "classifies text", "text-classification"
    model_settings = ("tokenizer", "n_ctx", "lm_weight", "fold")

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
        if tokens not in CLASSIFY_TOKENS:
            raise DataError(f"tokens must be {' or '.join(CLASSIFY_TOKENS)}, not {tokens!r}")
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
        if not self.labels[1:]:
            raise DataError(
                f"{names(self.paths)}: every text has the label {self.labels[0]!r}; "
                "at least two classes are needed"
            )
        belongs = sets_of((text.texts[0] for text in self._texts), {}, partial(fold_of, fold=fold))
        self._split = {
            name: [text for text in self._texts if belongs[text.texts[0]] == name]
            for name in SPLIT_SETS
        }
        self._n_left_out = len(self._texts) - sum(map(len, self._split.values()))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Vocabulary with classification tokens: given, or learned on the training texts."""
        if self._tokenizer is not None:
            return self._tokenizer.for_classes()
        texts = [text for each in self._of("train") for text in each.texts]
        learn = Tokenizer.byte_level if self._tokens == "byte pairs" else Tokenizer.wordpiece
        return learn(texts, self._vocab_size).for_classes()

    @property
    def sizes(self) -> dict[str, Any]:
        """Sizes of the model's configuration that follow from the data."""
        return {"classes": ",".join(self.labels), "n_texts": len(self._texts[0].texts)}

    def _of(self, part: str) -> list[LabelledText]:
        if not self._split[part]:
            raise DataError(
                f"{names(self.paths)}: {how_many(len(self._texts), 'text')}, "
                f"too few for a {part} split"
            )
        return self._split[part]

    def example(self, text: LabelledText) -> Labelled:
        """Return the row, truncated to what the model reads, and its class."""
        fields = (
            bert.BERT_FIELDS["classes"]
            if self.tokenizer.cls_id is not None
            else gpt.CLASSIFIER_FIELDS
        )
        row = encode_fields(fields, text.texts, self.tokenizer, no_limit)["text"]
        # the last token is special, and stays
        positions = [*range(min(len(row.ids), self.n_ctx) - 1), len(row.ids) - 1]
        segments = [row.segments[i] for i in positions] if row.segments else []
        return [row.ids[i] for i in positions], segments, (self.labels.index(text.label),)

    @cached_property
    def _train(self) -> list[Labelled]:
        return [self.example(text) for text in self._of("train")]

    def batches(self, seed: int) -> Iterator[Sequence[Labelled]]:
        """Yield batches, with the texts of every epoch in a new order."""
        lengths = [(len(ids) - 1,) for ids, *_ in self._train]
        for epoch in count():
            for batch in bucket_by_length(
                lengths, self.max_tokens, random.Random(f"{seed}/{epoch}")
            ):
                yield [self._train[i] for i in batch]

    def collate(self, examples: Sequence[Labelled]) -> Batch:
        return collate_labelled(examples, self.tokenizer.pad_id)

    def objective(self, answers: Answers, batch: Batch, smoothing: float) -> Losses:
        return text_classes(answers, batch, smoothing, self.lm_weight)

    def validation(self) -> Sequence[Labelled]:
        return [self.example(text) for text in self._of("validation")[:N_VALIDATION_TEXTS]]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return texts with their label, in the order of the first text's hash."""
        texts = self._order_texts(validation)[:n]
        return [
            Case(text.texts if text.texts[1:] else text.texts[0], (text.label,)) for text in texts
        ]

    def _order_texts(self, validation: bool) -> list[LabelledText]:
        by_first: dict[str, list[LabelledText]] = {}
        for text in self._of("validation" if validation else "test"):
            by_first.setdefault(text.texts[0], []).append(text)
        return [text for first in by_hash(list(by_first)) for text in by_first[first]]

    def check(self, config: Config) -> None:
        """Check a model's classes.

        Raises:
            DataError: The model does not have as many classes as there are labels.
        """
        class_names: tuple[str, ...] = getattr(config, "class_names", ())
        if len(class_names) != len(self.labels):
            labels, classes = ", ".join(self.labels), ", ".join(class_names)
            raise DataError(
                f"{names(self.paths)}: has the labels {labels}, but the model has the classes {classes}"
            )

    @torch.inference_mode()
    def evaluate(
        self, model: Model, n: int | None = None, *, validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:  # fmt: skip
        """Return the accuracy on the first n held-out texts, in percent, with baselines.

        These are naive Bayes on the training texts' words, on the model's tokens, and the most
        frequent class of the training. A model that also predicts tokens gets their perplexity.
        """
        self.check(model.config)
        held_out = self._order_texts(validation)[:n]
        examples = [self.example(text) for text in held_out]
        classes, n_correct, nats, n_tokens = [kind for *_, (kind,) in examples], 0, 0.0, 0
        with evaluating(model):
            for start in range(0, len(examples), CLASSIFY_EVAL_ROWS):
                batch = self.collate(examples[start : start + CLASSIFY_EVAL_ROWS]).to(model.device)
                answers = model(*batch.inputs)
                n_correct += int((answers[CLASSES_OUTPUT].argmax(-1) == batch.classes).sum())
                if NEXT_TOKEN in answers:
                    nats += float(label_smoothed_loss(answers[NEXT_TOKEN], batch.labels))
                    n_tokens += batch.n_labels
                progress(min(start + CLASSIFY_EVAL_ROWS, len(examples)), len(examples))
        measures = {self.metric: 100 * n_correct / len(classes)} | self._baselines(
            held_out, classes
        )
        if n_tokens:
            measures["text perplexity"] = perplexity_of(nats / n_tokens)
        return Evaluation(measures, len(examples))

    def _baselines(
        self, held_out: Sequence[LabelledText], classes: Sequence[int]
    ) -> dict[str, float]:
        training = self._of("train")
        measures: dict[str, float] = {}
        training_classes = [self.labels.index(text.label) for text in training]
        for name, items in (("words", self._words), ("tokens", self._ids)):
            bayes = NaiveBayes(items(training), training_classes, len(self.labels))
            n_correct = sum(
                bayes.predicted(row) == kind
                for row, kind in zip(items(held_out), classes, strict=True)
            )
            measures[f"bag-of-{name} accuracy"] = 100 * n_correct / len(classes)
        (majority, _), *_ = Counter(training_classes).most_common(1)
        return measures | {"majority accuracy": 100 * classes.count(majority) / len(classes)}

    @staticmethod
    def _words(texts: Sequence[LabelledText]) -> list[list[str]]:
        return [text_words(" ".join(text.texts)) for text in texts]

    def _ids(self, texts: Sequence[LabelledText]) -> list[list[int]]:
        return self.tokenizer.encode_many([" ".join(text.texts) for text in texts])

    def data(self) -> dict[str, Any]:
        classes = Counter(text.label for text in self._texts)
        return file_record(self.paths) | {
            "texts": {name: len(texts) for name, texts in self._split.items()},
            "left out": self._n_left_out,
            "classes": {label: classes[label] for label in self.labels},
            "lm_weight": self.lm_weight,
            "fold": self.fold,
        }


def read_labelled(paths: Sequence[Path]) -> list[LabelledText]:
    """Read the labelled texts of tab-separated files, each text once.

    Raises:
        DataError: A line is malformed; the message names file and line.
    """
    texts: dict[LabelledText, None] = {}  # ordered, without duplicates
    n_columns = 0
    for path in paths:
        for number, line in enumerate(read_lines(path), 1):
            if not line.strip():
                continue
            columns = [column.strip() for column in line.split("\t")]
            where, came = f"{path}, line {number}", f"got {line.strip()[:60]!r}"
            if len(columns) not in (2, 3):
                raise DataError(
                    f"{where}: expected text, tab, label, or two texts and a label; {came}"
                )
            if not columns[-1]:
                raise DataError(f"{where}: missing label after the text; {came}")
            if not all(columns[:-1]):
                raise DataError(f"{where}: missing text before the label; {came}")
            if "," in columns[-1]:
                raise DataError(f"{where}: a label must not contain a comma; {came}")
            if len(columns) != (n_columns := n_columns or len(columns)):
                raise DataError(
                    f"{where}: has {len(columns) - 1} texts, but the lines before have "
                    f"{n_columns - 1}; {came}"
                )
            texts[LabelledText(tuple(columns[:-1]), columns[-1])] = None
    if not texts:
        raise DataError(f"{names(paths)}: holds no labelled texts")
    return list(texts)
