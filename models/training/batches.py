"""Padded batches, cut by token count so that a batch of long sentences holds fewer of them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from models.tokenizers.base import Tokenizer

NO_LABEL = -100  # where nothing is to be said; torch's cross_entropy leaves it out

Pair = tuple[Sequence[int], Sequence[int]]  # source and target ids, without special tokens
Window = tuple[
    Sequence[int], Sequence[int]
]  # a text's inputs, and the label at each: special tokens among them
# ids and segments of a row, the positions at which a token is to be guessed, the tokens there, and the row's class
Masked = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int], tuple[int]]
Question = tuple[
    Sequence[int], Sequence[int], tuple[int, int]
]  # ids and segments of a row, first and last token of the answer
Labelled = tuple[
    Sequence[int], Sequence[int], tuple[int]
]  # ids and segments (if it has any) of a row, its class
# ids of a row, when the turn of each position comes, segments, and the label at each position
Ordered = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]
Example = Pair | Window | Masked | Question | Labelled | Ordered


@dataclass(frozen=True)
class Batch:
    """`inputs` are what the model's `forward` takes. `labels` are what it should say, a row each: at the positions of what it
    writes, at masked places, or where an answer begins and ends; `classes` is what each row is. NO_LABEL where nothing is
    asked."""

    inputs: tuple[Int[Tensor, "batch _"], ...]
    labels: Int[Tensor, "batch m"]
    classes: Int[Tensor, "batch"] | None = None

    @property
    def n_labels(self) -> int:
        return int((self.labels != NO_LABEL).sum())

    @property
    def n_classes(self) -> int:
        """How many rows have a class."""
        return 0 if self.classes is None else int((self.classes != NO_LABEL).sum())

    def to(self, device: torch.device) -> "Batch":
        classes = None if self.classes is None else self.classes.to(device)
        return Batch(tuple(ids.to(device) for ids in self.inputs), self.labels.to(device), classes)


def collate(pairs: Sequence[Pair], tokenizer: Tokenizer) -> Batch:
    """Pad to the longest; source gets </s>, target, the decoder's input, <s> in front, labels </s> behind."""
    start, end, pad = tokenizer.start_id, tokenizer.end_id, tokenizer.pad_id
    source, target = (
        _stack([[*s, end] for s, _ in pairs], pad),
        _stack([[start, *t] for _, t in pairs], pad),
    )
    return Batch((source, target), _stack([[*t, end] for _, t in pairs], NO_LABEL))


def collate_windows(windows: Sequence[Window], pad_id: int) -> Batch:
    """Pad to the longest."""
    return Batch(
        (_stack([inputs for inputs, _ in windows], pad_id),),
        _stack([labels for _, labels in windows], NO_LABEL),
    )


def collate_masked(rows: Sequence[Masked], pad_id: int) -> Batch:
    """Pad to the longest; the model reads ids, segments and the positions at which it is to guess."""
    ids, segments, positions, labels, classes = zip(*rows, strict=True)
    inputs = _stack(ids, pad_id), _stack(segments, 0), _stack(positions, 0)
    return Batch(inputs, _stack(labels, NO_LABEL), torch.tensor(classes).flatten())


def collate_questions(rows: Sequence[Question], pad_id: int) -> Batch:
    """Pad to the longest; the labels are the first and the last token of each answer."""
    ids, segments, answers = zip(*rows, strict=True)
    return Batch((_stack(ids, pad_id), _stack(segments, 0)), torch.tensor(answers))


def collate_labelled(rows: Sequence[Labelled], pad_id: int) -> Batch:
    """Pad to the longest; the labels are the token after each position."""
    ids, segments, classes = zip(*rows, strict=True)
    inputs = (_stack(ids, pad_id), *([_stack(segments, 0)] if segments[0] else []))
    return Batch(
        inputs,
        _stack([[*row[1:], NO_LABEL] for row in ids], NO_LABEL),
        torch.tensor(classes).flatten(),
    )


def collate_ordered(rows: Sequence[Ordered], pad_id: int) -> Batch:
    """Pad to the longest, behind the last of every order."""
    ids, ranks, segments, labels = zip(*rows, strict=True)
    inputs = _stack(ids, pad_id), _stack(ranks, max(map(len, ids))), _stack(segments, 0)
    return Batch(inputs, _stack(labels, NO_LABEL))


def _stack(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=fill)


def bucketed(
    lengths: Sequence[tuple[int, ...]], max_tokens: int, rng: random.Random
) -> list[list[int]]:
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


def _cut(
    order: list[int], lengths: Sequence[tuple[int, ...]], max_tokens: int
) -> Iterator[list[int]]:
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
