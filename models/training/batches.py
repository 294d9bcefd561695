"""Padded batches, cut by token count so that a batch of long sentences holds fewer of them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from models.tokenizers.base import END, PAD, START

Pair = tuple[Sequence[int], Sequence[int]]     # source and target ids, without special tokens
Window = tuple[Sequence[int], Sequence[int]]   # a text's inputs, and the label at each: special tokens among them
Example = Pair | Window


@dataclass(frozen=True)
class Batch:
    """`inputs` are the model's, one for each of its streams; `labels` is what it should say at each position of what it
    writes, PAD-filled."""

    inputs: tuple[Int[Tensor, "batch _"], ...]
    labels: Int[Tensor, "batch m"]

    @property
    def n_labels(self) -> int:
        return int((self.labels != PAD).sum())

    def to(self, device: torch.device) -> "Batch":
        return Batch(tuple(ids.to(device) for ids in self.inputs), self.labels.to(device))


def collate(pairs: Sequence[Pair]) -> Batch:
    """Pad to the longest; source gets </s>, target, the decoder's input, <s> in front, labels </s> behind."""
    source, target = _stack([[*s, END] for s, _ in pairs]), _stack([[START, *t] for _, t in pairs])
    return Batch((source, target), _stack([[*t, END] for _, t in pairs]))


def collate_windows(windows: Sequence[Window]) -> Batch:
    """Pad to the longest."""
    return Batch((_stack([inputs for inputs, _ in windows]),), _stack([labels for _, labels in windows]))


def _stack(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def bucketed(lengths: Sequence[tuple[int, ...]], max_tokens: int, rng: random.Random) -> list[list[int]]:
    """One epoch: example numbers in batches of like length, each at most `max_tokens` padded tokens over all inputs, of which
    each is one longer than `lengths` says, by its special token.

    Examples are shuffled, sorted by length within pools of some thousands, cut, and the batches shuffled again."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = []
    for pool in range(0, len(order), 20_000):
        part = sorted(order[pool : pool + 20_000], key=lambda i: lengths[i][::-1])
        batches += _cut(part, lengths, max_tokens)
    rng.shuffle(batches)
    return batches


def _cut(order: list[int], lengths: Sequence[tuple[int, ...]], max_tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    longest: list[int] = []
    for i in order:
        own = [length + 1 for length in lengths[i]]
        grown = list(map(max, longest, own)) if batch else own
        if batch and (len(batch) + 1) * sum(grown) > max_tokens:
            yield batch
            batch, grown = [], own
        batch.append(i)
        longest = grown
    if batch:
        yield batch
