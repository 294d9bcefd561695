"""How well a model predicts held-out text: perplexity, and what does not depend on its tokens, bits per byte."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from models.architectures import Model
from models.training.batches import collate_windows
from models.training.ngrams import KneserNey
from models.training.objectives import label_smoothed_loss
from models.training.task import Passage

BATCH_TOKENS = 8192  # padded positions read at once
PERPLEXITY, BITS, NATS = "perplexity", "bits per byte", "nats per character"


def likelihoods(
    model: Model, passages: Sequence[Passage], progress: Callable[[int], None] = lambda done: None
) -> dict[str, float]:
    """The model's measures over all passages. `progress(done)` is called with the number of passages read."""
    nats, done = 0.0, 0
    for part in _of_like_length(passages):
        nats += _nats(model, part)
        progress(done := done + len(part))
    return measures(nats, passages)


def measures(nats: float, passages: Iterable[Passage]) -> dict[str, float]:
    """Perplexity a token (</s> counted), bits a byte and nats a character of text, from −ln p of all of it."""
    tokens, n_bytes, characters = (
        sum(column)
        for column in zip(
            *((len(passage.labels), passage.n_bytes, passage.n_characters) for passage in passages),
            strict=True,
        )
    )
    return {
        PERPLEXITY: math.exp(nats / tokens),
        BITS: nats / math.log(2) / n_bytes,
        NATS: nats / characters,
    }


def baselines(
    training: Sequence[Sequence[int]], passages: Sequence[Passage], vocab_size: int
) -> dict[str, float]:
    """Perplexity and bits a byte of a model that counts tokens, and of one that counts three in a row."""
    found = {}
    for name, order in (("unigram", 1), ("trigram", 3)):
        counted = KneserNey(training, vocab_size, order)
        measured = measures(
            -sum(counted.log_prob(passage.labels) for passage in passages), passages
        )
        found |= {f"{name} {PERPLEXITY}": measured[PERPLEXITY], f"{name} {BITS}": measured[BITS]}
    return found


def _of_like_length(passages: Sequence[Passage]) -> Iterator[list[Passage]]:
    """Batches of at most BATCH_TOKENS padded positions, the shortest first."""
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
    """−ln p of the passages, each read from <s> on."""
    windows = [
        ([model.config.start_id, *passage.labels[:-1]], passage.labels) for passage in passages
    ]
    batch = collate_windows(windows, model.config.pad_id).to(model.device)
    return float(label_smoothed_loss(model(*batch.inputs), batch.labels))
