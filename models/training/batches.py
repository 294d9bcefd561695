"""Padded batches, cut by token count so that a batch of long sentences holds fewer of them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from models.tokenizers.base import END, PAD, START

Pair = tuple[Sequence[int], Sequence[int]]   # source and target ids, without special tokens


@dataclass(frozen=True)
class Batch:
    """`target` is the decoder's input, shifted right; `labels` is what it should say at each position, PAD-filled."""

    source: Int[Tensor, "batch n"]
    target: Int[Tensor, "batch m"]
    labels: Int[Tensor, "batch m"]

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.source.to(device), self.target.to(device), self.labels.to(device))


def collate(pairs: Sequence[Pair]) -> Batch:
    """Pad to the longest; source gets </s>, target gets <s> in front, labels </s> behind."""

    def stack(rows: list[list[int]]) -> Tensor:
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)

    return Batch(
        stack([[*s, END] for s, _ in pairs]),
        stack([[START, *t] for _, t in pairs]),
        stack([[*t, END] for _, t in pairs]),
    )


def bucketed(lengths: Sequence[tuple[int, int]], max_tokens: int, rng: random.Random) -> list[list[int]]:
    """One epoch: example numbers in batches of like length, each at most `max_tokens` padded source + target tokens.

    Examples are shuffled, sorted by length within pools of some thousands, cut, and the batches shuffled again."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = []
    for pool in range(0, len(order), 20_000):
        part = sorted(order[pool : pool + 20_000], key=lambda i: (lengths[i][1], lengths[i][0]))
        batches += _cut(part, lengths, max_tokens)
    rng.shuffle(batches)
    return batches


def _cut(order: list[int], lengths: Sequence[tuple[int, int]], max_tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    longest = [0, 0]
    for i in order:
        grown = [max(longest[0], lengths[i][0] + 1), max(longest[1], lengths[i][1] + 1)]
        if batch and (len(batch) + 1) * sum(grown) > max_tokens:
            yield batch
            batch, grown = [], [lengths[i][0] + 1, lengths[i][1] + 1]
        batch.append(i)
        longest = grown
    if batch:
        yield batch
