"""Scores on held-out cases: corpus BLEU (sacrebleu) for translation, exact match for dates. Greedy decoding.

Also by the length of the source, as in Bahdanau et al. 2015, figure 2: what a fixed vector loses grows with the sentence.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sacrebleu
import torch

from models.architectures import Model
from models.decoding import greedy_batch
from models.tokenizers.base import Tokenizer
from models.training.task import Case


def written_texts(
    model: Model, tokenizer: Tokenizer, sources: Sequence[str], batch_size: int = 64
) -> Iterator[tuple[int, str]]:
    """(number of the source, what the model writes for it), shortest sources first, in batches of like length."""
    ids = [(*i, tokenizer.end_id) for i in tokenizer.encode_many(sources)]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    device = model.embedding.weight.device
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        rows = [torch.tensor(ids[i]) for i in part]
        padded = torch.nn.utils.rnn.pad_sequence(
            rows, batch_first=True, padding_value=tokenizer.pad_id
        )
        for i, row in zip(part, greedy_batch(model, padded.to(device)), strict=True):
            yield i, tokenizer.decode(row)


def hypotheses(
    model: Model,
    tokenizer: Tokenizer,
    cases: Sequence[Case],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[str]:
    """What the model writes for each case. `progress(done, total)` is called after each."""
    model.eval()
    texts = [""] * len(cases)
    for done, (i, text) in enumerate(written_texts(model, tokenizer, [c.source for c in cases]), 1):
        texts[i] = text
        progress(done, len(cases))
    return texts


def score(model: Model, tokenizer: Tokenizer, cases: Sequence[Case], metric: str) -> float:
    """The metric over all cases, in percent."""
    return METRICS[metric](hypotheses(model, tokenizer, cases), cases)


@dataclass(frozen=True)
class LengthScore:
    """The metric over the cases whose source has `least` … `most` words (parted by spaces)."""

    least: int
    most: int
    cases: int
    score: float


def by_length(
    texts: Sequence[str], cases: Sequence[Case], metric: str, n_groups: int = 6
) -> list[LengthScore]:
    """The metric in groups of like source length: each holds two lengths, the last all that are longer.

    `texts` are the hypotheses; groups without a case are left out."""
    lengths = [len(c.source.split()) for c in cases]
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
    """Corpus BLEU (Papineni et al. 2002), sacrebleu's 13a tokens, every reference of a source counted."""
    return sacrebleu.BLEU().corpus_score(list(texts), _streams(cases)).score


def signature(metric: str, cases: Sequence[Case]) -> str:
    """What sacrebleu wants said beside a BLEU, so that it can be repeated (Post 2018); empty for exact match."""
    if metric != "BLEU":
        return ""
    measure = sacrebleu.BLEU()
    measure.corpus_score(
        [""] * len(cases), _streams(cases)
    )  # it counts the references as it scores
    return str(measure.get_signature())


def _streams(cases: Sequence[Case]) -> list[list[str | None]]:
    """The first reference of every case, the second, …; None where a case has no more."""
    n_references = max(len(c.references) for c in cases)
    return [
        [c.references[k] if k < len(c.references) else None for c in cases]
        for k in range(n_references)
    ]


def exact_match(texts: Sequence[str], cases: Sequence[Case]) -> float:
    """Share of cases written exactly as a reference, up to outer spaces, in percent."""
    return (
        100 * sum(h.strip() in c.references for h, c in zip(texts, cases, strict=True)) / len(cases)
    )


METRICS = {"BLEU": bleu, "exact match": exact_match}
