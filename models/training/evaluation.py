"""Scores on held-out cases: corpus BLEU (sacrebleu) or exact match, by the task.

Texts are decoded greedily. Scores are also split by source length, as in Bahdanau et al. 2015,
figure 2: a fixed vector loses more of longer sentences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sacrebleu
import torch

from models.architectures import Model
from models.decoding import greedy_batch
from models.evaluation_mode import evaluating
from models.tokenizers.base import Tokenizer
from models.training.task import Case, Evaluation, Progress, no_progress


def generate_texts(
    model: Model, tokenizer: Tokenizer, sources: Sequence[str], batch_size: int = 64
) -> Iterator[tuple[int, str]]:
    """Yield (index of the source, generated text), in batches of similar length, shortest first.

    A source ends with </s>; a prompt that the model continues begins with <s>, and those of a batch
    are equally long, since the text continues right after them.
    """
    start_id, end_id = tokenizer.start_id, tokenizer.end_id
    if start_id is None or end_id is None:
        raise ValueError("generating needs a vocabulary with <s> and </s>")
    every = tokenizer.encode_many(sources)
    ids = [(start_id, *i) if model.continues else (*i, end_id) for i in every]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    device = model.embedding.weight.device
    for part in _batches(order, ids, batch_size, same_length=model.continues):
        rows = [torch.tensor(ids[i]) for i in part]
        padded = torch.nn.utils.rnn.pad_sequence(
            rows, batch_first=True, padding_value=tokenizer.pad_id
        )
        for i, row in zip(part, greedy_batch(model, padded.to(device)), strict=True):
            yield i, tokenizer.decode(row)


def _batches(
    order: Sequence[int], ids: Sequence[Sequence[int]], size: int, *, same_length: bool
) -> Iterator[list[int]]:
    """Yield this order in batches of at most `size`, each of one length if `same_length`."""
    for _, group in groupby(order, lambda i: len(ids[i]) if same_length else 0):
        part = list(group)
        yield from (part[start : start + size] for start in range(0, len(part), size))


def hypotheses(
    model: Model,
    tokenizer: Tokenizer,
    cases: Sequence[Case],
    progress: Progress = no_progress,
) -> list[str]:
    """Generate a text for each case; `progress(done, total)` is called after each."""
    texts = [""] * len(cases)
    sources = [single_source(case) for case in cases]
    with evaluating(model):
        for done, (i, text) in enumerate(generate_texts(model, tokenizer, sources), 1):
            texts[i] = text
            progress(done, len(cases))
    return texts


def single_source(case: Case) -> str:
    """Return the source of a case of one text."""
    if not isinstance(case.source, str):
        raise ValueError(f"expected a source of one text, got {len(case.source)}")
    return case.source


@dataclass(frozen=True)
class TextCases:
    """Held-out cases, for each of which a model generates a text."""

    cases: Sequence[Case]
    tokenizer: Tokenizer
    metric: str  # of METRICS

    def evaluate(
        self,
        model: Model,
        n: int | None = None,
        *,
        validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:
        """Score the texts of the first n cases."""
        cases = self.cases[:n]
        texts = hypotheses(model, self.tokenizer, cases, progress)
        measures = {self.metric: METRICS[self.metric](texts, cases)}
        return Evaluation(measures, len(cases), digits=2, cases=cases, texts=texts)


class TextTask:
    """A task whose models generate a text for each held-out case."""

    tokenizer: Tokenizer
    metric: str  # of METRICS

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return the first n cases of the test or validation split."""
        raise NotImplementedError

    def evaluate(
        self,
        model: Model,
        n: int | None = None,
        *,
        validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:
        """Score the texts that a model generates for the first n cases."""
        cases = self.held_out(n, validation=validation)
        return TextCases(cases, self.tokenizer, self.metric).evaluate(model, progress=progress)


@dataclass(frozen=True)
class LengthScore:
    """Metric over the cases whose source has `least` to `most` space-separated words."""

    least: int
    most: int
    cases: int
    score: float


def scores_by_length(
    texts: Sequence[str], cases: Sequence[Case], metric: str, n_groups: int = 6
) -> list[LengthScore]:
    """Return the metric in groups of similar source length.

    Each group holds two lengths, the last one all longer ones; empty groups are left out. `texts`
    are the hypotheses.
    """
    lengths = [len(single_source(case).split()) for case in cases]
    shortest = min(lengths)
    groups: dict[int, list[int]] = {}
    for i, length in enumerate(lengths):
        groups.setdefault(min((length - shortest) // 2, n_groups - 1), []).append(i)
    return [
        LengthScore(
            min(lengths[i] for i in group),
            max(lengths[i] for i in group),
            len(group),
            METRICS[metric]([texts[i] for i in group], [cases[i] for i in group]),
        )
        for _, group in sorted(groups.items())
    ]


def bleu(texts: Sequence[str], cases: Sequence[Case]) -> float:
    """Return corpus BLEU (Papineni et al. 2002) with sacrebleu's 13a tokens and all references."""
    return sacrebleu.BLEU().corpus_score(list(texts), _reference_streams(cases)).score


def signature(metric: str, cases: Sequence[Case]) -> str:
    """Return sacrebleu's signature, to be reported beside a BLEU score (Post 2018).

    It is empty for exact match.
    """
    if metric != "BLEU":
        return ""
    measure = sacrebleu.BLEU()
    # the number of references is counted while scoring
    measure.corpus_score([""] * len(cases), _reference_streams(cases))
    return str(measure.get_signature())


def _reference_streams(cases: Sequence[Case]) -> Any:
    """Return the first reference of every case, the second, …; None if a case has fewer.

    sacrebleu accepts None here, but its annotations do not say so.
    """
    n_references = max(len(c.references) for c in cases)
    return [
        [c.references[k] if k < len(c.references) else None for c in cases]
        for k in range(n_references)
    ]


def exact_match(texts: Sequence[str], cases: Sequence[Case]) -> float:
    """Return the percentage of cases that equal a reference up to outer spaces."""
    return (
        100 * sum(h.strip() in c.references for h, c in zip(texts, cases, strict=True)) / len(cases)
    )


METRICS = {"BLEU": bleu, "exact match": exact_match}
