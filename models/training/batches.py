"""Padded batches, filled by token count, so that a batch of long sentences holds fewer."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from models.tokenizers.base import Tokenizer

NO_LABEL = -100  # position without a label; torch's cross_entropy ignores it

Pair = tuple[Sequence[int], Sequence[int]]  # source and target ids, without special tokens
# a text's inputs and the label at each, special tokens included
Window = tuple[Sequence[int], Sequence[int]]
# ids and segments of a row, the positions to predict, their tokens, and the row's class
Masked = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int], tuple[int]]
# ids and segments of a row, first and last token of the answer
Question = tuple[Sequence[int], Sequence[int], tuple[int, int]]
# ids and segments (if any) of a row, and its class
Labelled = tuple[Sequence[int], Sequence[int], tuple[int]]
# ids of a row, rank of each position in the prediction order, segments, and labels
Ordered = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]
TrainingExample = Pair | Window | Masked | Question | Labelled | Ordered


@dataclass(frozen=True)
class Batch:
    """A padded batch.

    `inputs` are the arguments of the model's `forward`. `labels` has a row per example: the tokens
    to predict, at the positions to generate or the masked ones, or the first and last token of an
    answer. `classes` is the class of each row. NO_LABEL marks what is not scored.
    """

    inputs: tuple[Int[Tensor, "batch _"], ...]
    labels: Int[Tensor, "batch m"]
    classes: Int[Tensor, "batch"] | None = None

    @property
    def n_labels(self) -> int:
        return int((self.labels != NO_LABEL).sum())

    @property
    def n_classes(self) -> int:
        """Number of rows with a class."""
        return 0 if self.classes is None else int((self.classes != NO_LABEL).sum())

    def to(self, device: torch.device) -> "Batch":
        """Return it on the device; a GPU copies it while it works on something else."""

        def move(ids: Tensor) -> Tensor:
            ids = ids.pin_memory() if device.type == "cuda" else ids
            return ids.to(device, non_blocking=True)

        classes = None if self.classes is None else move(self.classes)
        return Batch(tuple(map(move, self.inputs)), move(self.labels), classes)


def collate(pairs: Sequence[Pair], tokenizer: Tokenizer) -> Batch:
    """Pad pairs to the longest.

    The source gets </s>; the target, which the decoder reads, <s> in front; the labels </s> at the
    end.
    """
    start, end, pad = tokenizer.start_id, tokenizer.end_id, tokenizer.pad_id
    if start is None or end is None:
        raise ValueError("sentence pairs need a vocabulary with <s> and </s>")
    source = _stack([[*s, end] for s, _ in pairs], pad)
    target = _stack([[start, *t] for _, t in pairs], pad)
    return Batch((source, target), _stack([[*t, end] for _, t in pairs], NO_LABEL))


def collate_windows(windows: Sequence[Window], pad_id: int) -> Batch:
    """Pad windows of text to the longest."""
    return Batch(
        (_stack([inputs for inputs, _ in windows], pad_id),),
        _stack([labels for _, labels in windows], NO_LABEL),
    )


def collate_masked(rows: Sequence[Masked], pad_id: int) -> Batch:
    """Pad to the longest; the model reads ids, segments and the positions to predict."""
    ids, segments, positions, labels, classes = zip(*rows, strict=True)
    inputs = _stack(ids, pad_id), _stack(segments, 0), _stack(positions, 0)
    return Batch(inputs, _stack(labels, NO_LABEL), torch.tensor(classes).flatten())


def collate_questions(rows: Sequence[Question], pad_id: int) -> Batch:
    """Pad to the longest; the labels are the first and last token of each answer."""
    ids, segments, answers = zip(*rows, strict=True)
    return Batch((_stack(ids, pad_id), _stack(segments, 0)), torch.tensor(answers))


def collate_labelled(rows: Sequence[Labelled], pad_id: int) -> Batch:
    """Pad to the longest; the labels are the next token at each position."""
    ids, segments, classes = zip(*rows, strict=True)
    inputs = (_stack(ids, pad_id), *([_stack(segments, 0)] if segments[0] else []))
    return Batch(
        inputs,
        _stack([[*row[1:], NO_LABEL] for row in ids], NO_LABEL),
        torch.tensor(classes).flatten(),
    )


def collate_ordered(rows: Sequence[Ordered], pad_id: int) -> Batch:
    """Pad to the longest, with the padding last in every order."""
    ids, ranks, segments, labels = zip(*rows, strict=True)
    inputs = _stack(ids, pad_id), _stack(ranks, max(map(len, ids))), _stack(segments, 0)
    return Batch(inputs, _stack(labels, NO_LABEL))


def _stack(rows: Sequence[Sequence[int]], fill: int) -> Int[Tensor, "batch _"]:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), int(lengths.max())), fill, np.int64)
    is_filled = np.arange(padded.shape[1]) < lengths[:, None]
    padded[is_filled] = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return torch.from_numpy(padded)


def bucket_by_length(
    lengths: Sequence[tuple[int, ...]], max_tokens: int, rng: random.Random
) -> list[list[int]]:
    """Return one epoch of example indices in batches of similar length.

    Each batch has at most `max_tokens` padded tokens over all inputs; an input is one token longer
    than `lengths` says, by its special token. Examples are shuffled, sorted by length within pools
    of 20,000, split, and the batches shuffled again.
    """
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    for pool in range(0, len(order), 20_000):
        part = sorted(order[pool : pool + 20_000], key=lambda i: lengths[i][::-1])
        batches += _cut(part, lengths, max_tokens)
    rng.shuffle(batches)
    return batches


def _cut(
    order: list[int], lengths: Sequence[tuple[int, ...]], max_tokens: int
) -> Iterator[list[int]]:
    batch: list[int] = []
    longest: list[int] = []
    for i in order:
        padded_lengths = [length + 1 for length in lengths[i]]
        new_longest = list(map(max, longest, padded_lengths)) if batch else padded_lengths
        if batch and (len(batch) + 1) * sum(new_longest) > max_tokens:
            yield batch
            batch, new_longest = [], padded_lengths
        batch.append(i)
        longest = new_longest
    if batch:
        yield batch
