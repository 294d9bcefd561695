"""Likelihood of held-out text: perplexity, and the tokenizer-independent bits per byte."""

import math
from collections.abc import Iterable, Iterator, Sequence

import torch

from models.architectures import Model
from models.evaluation_mode import evaluating
from models.training.batches import collate_windows
from models.training.ngrams import KneserNey
from models.training.objectives import label_smoothed_loss
from models.training.task import Passage, Progress, no_progress

BATCH_TOKENS = 8192  # padded positions per batch
TOKEN_PERPLEXITY, BITS, NATS = "perplexity", "bits per byte", "nats per character"


def likelihoods(
    model: Model, passages: Sequence[Passage], progress: Progress = no_progress
) -> dict[str, float]:
    """Return the model's measures over all passages."""
    nats, done = 0.0, 0
    with evaluating(model):
        for part in _batches_by_length(passages):
            nats += _nats(model, part)
            progress(done := done + len(part), len(passages))
    return likelihood_measures(nats, passages)


def likelihood_measures(nats: float, passages: Iterable[Passage]) -> dict[str, float]:
    """Return perplexity per token (with </s>), bits per byte and nats per character from −ln p."""
    tokens, n_bytes, characters = (
        sum(column)
        for column in zip(
            *((len(passage.labels), passage.n_bytes, passage.n_characters) for passage in passages),
            strict=True,
        )
    )
    return {
        TOKEN_PERPLEXITY: perplexity_of(nats / tokens),
        BITS: nats / math.log(2) / n_bytes,
        NATS: nats / characters,
    }


def perplexity_of(nats: float) -> float:
    """Return e to the nats per token; infinite beyond the largest float, as of a diverged model."""
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def baselines(
    training: Sequence[Sequence[int]], passages: Sequence[Passage], vocab_size: int
) -> dict[str, float]:
    """Return perplexity and bits per byte of a unigram and a trigram model."""
    result = {}
    for name, order in (("unigram", 1), ("trigram", 3)):
        model = KneserNey(training, vocab_size, order)
        values = likelihood_measures(
            -sum(model.log_prob(passage.labels) for passage in passages), passages
        )
        result |= {
            f"{name} {TOKEN_PERPLEXITY}": values[TOKEN_PERPLEXITY],
            f"{name} {BITS}": values[BITS],
        }
    return result


def _batches_by_length(passages: Sequence[Passage]) -> Iterator[list[Passage]]:
    """Yield batches of at most BATCH_TOKENS padded positions, shortest first."""
    batch: list[Passage] = []
    for passage in sorted(passages, key=lambda passage: len(passage.labels)):
        if batch and (len(batch) + 1) * len(passage.labels) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(passage)
    if batch:
        yield batch


@torch.inference_mode()
def _nats(model: Model, passages: Sequence[Passage]) -> float:
    """Return −ln p of the passages, each read from <s>."""
    windows = [
        ([model.config.start_id, *passage.labels[:-1]], passage.labels) for passage in passages
    ]
    batch = collate_windows(windows, model.config.pad_id).to(model.device)
    return float(label_smoothed_loss(model(*batch.inputs), batch.labels))
