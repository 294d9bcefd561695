"""Scores on held-out cases: corpus BLEU (sacrebleu) for translation, exact match for dates. Greedy decoding."""

from collections.abc import Callable, Iterator, Sequence

import sacrebleu
import torch

from models.architectures import Model
from models.decoding import greedy_batch
from models.tasks.base import Case
from models.tokenizer import END, PAD, Tokenizer


def written_texts(
    model: Model, tokenizer: Tokenizer, sources: Sequence[str], batch_size: int = 64
) -> Iterator[tuple[int, str]]:
    """(number of the source, what the model writes for it), shortest sources first, in batches of like length."""
    ids = [(*i, END) for i in tokenizer.encode_many(sources)]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    device = model.embedding.weight.device
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        rows = [torch.tensor(ids[i]) for i in part]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        for i, row in zip(part, greedy_batch(model, padded.to(device)), strict=True):
            yield i, tokenizer.decode(row)


def score(
    model: Model,
    tokenizer: Tokenizer,
    cases: Sequence[Case],
    metric: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The metric over all cases, in percent. `progress(done, total)` is called after each."""
    model.eval()
    hypotheses = [""] * len(cases)
    for done, (i, text) in enumerate(written_texts(model, tokenizer, [c.source for c in cases]), 1):
        hypotheses[i] = text
        progress(done, len(cases))
    return METRICS[metric](hypotheses, cases)


def bleu(hypotheses: Sequence[str], cases: Sequence[Case]) -> float:
    """Corpus BLEU (Papineni et al. 2002), sacrebleu's 13a tokens, every reference of a source counted."""
    n_references = max(len(c.references) for c in cases)
    streams = [[c.references[k] if k < len(c.references) else None for c in cases] for k in range(n_references)]
    return sacrebleu.corpus_bleu(list(hypotheses), streams).score


def exact_match(hypotheses: Sequence[str], cases: Sequence[Case]) -> float:
    """Share of cases written exactly as a reference, in percent."""
    return 100 * sum(h in c.references for h, c in zip(hypotheses, cases, strict=True)) / len(cases)


METRICS = {"BLEU": bleu, "exact match": exact_match}
