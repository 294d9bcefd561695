"""Sub-words joined to words: what each word reads of each, A·W·B of the weights W from token to token. A averages over the rows
of a word's tokens, B sums over its columns, so that a row still sums to 1. What is a word the tokenizer says; a special token, and
one in the place of a hidden token, stands alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.masks import Mask, MaskLayer
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import Encoding
from models.tokenizers.words import Span
from models.trace import AttentionSite, Trace
from models.trace.site import Rows

UNKNOWN_WORDS = "its tokenizer does not say which tokens are of one word"
_ANY = 0.5  # the weights of a row sum to 1, or to 0 where it may read nothing


@dataclass(frozen=True)
class WordRow(Encoding):
    """A row of words. `pieces` are the tokens of each, `openings` its first tokens as a row of their own; equal words have equal
    `ids`, which are no token's."""

    pieces: tuple[tuple[str, ...], ...] = ()
    openings: Encoding | None = None


@dataclass(frozen=True)
class WordSite(AttentionSite):
    """An attention from word to word, `of` one from token to token; `rows` and `columns` are the first tokens of the words. A row
    that may read nothing has no part in its word's mean."""

    of: AttentionSite | None = None
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    @property
    def has_causes(self) -> bool:
        """Between words there are weights, and no queries or keys that they would come from."""
        return False

    @property
    def n_query(self) -> int:
        return len(self.rows)

    @property
    def n_key(self) -> int:
        return len(self.columns)

    def weights(
        self, head: int | None = None, batch: int = 0, rows: Rows = None
    ) -> Float[Tensor, "*head query key"]:
        """A·W·B for the words of a slice, from the rows of W that it needs."""
        words = range(self.n_query)[rows or slice(None)]
        edges = [*self.rows, self.of.n_query]
        tokens = slice(edges[words[0]], edges[words[-1] + 1]) if words else slice(0, 0)
        starts = np.array(edges[words[0] : words[-1] + 1] if words else [], int) - (
            tokens.start or 0
        )
        summed = np.add.reduceat(
            self.of.weights(head, batch, tokens).numpy(), self.columns, axis=-1
        )
        counts = np.add.reduceat((summed.sum(-1) > _ANY).astype(np.float32), starts, axis=-1)
        means = np.add.reduceat(summed, starts, axis=-2) / np.maximum(counts, 1)[..., None]
        return torch.from_numpy(means[..., :: words.step, :])

    def _need_causes(self, wanted: str) -> None:
        raise ValueError(f"{self.name} between words has no {wanted}: they belong to tokens")


def knows_words(trace: Trace) -> bool:
    """Whether the tokenizer of a run says which of its tokens are of one word."""
    tokenizer = trace.model.tokenizer
    return tokenizer is not None and tokenizer.words("") is not None


def is_joined(trace: Trace) -> bool:
    """Whether a run's tokens have been joined to words."""
    return any(isinstance(row, WordRow) for row in trace.streams.values())


def join_words(trace: Trace) -> Trace:
    """The run with words in the place of tokens on its streams and in its attention; outputs and activations stay those of
    tokens. Raises ValueError where the tokenizer knows no words."""
    if not knows_words(trace):
        raise ValueError(f"{trace.model.name}: {UNKNOWN_WORDS}")
    starts = {name: word_starts(row, trace.model.tokenizer) for name, row in trace.streams.items()}
    numbers: dict[tuple[int, ...], int] = {}
    streams = {name: _words(row, starts[name], numbers) for name, row in trace.streams.items()}
    masks: dict[int, Mask] = {}  # layers share theirs

    def site(s: AttentionSite) -> WordSite:
        rows, columns = starts[s.query_stream], starts[s.key_stream]
        if id(s.mask) not in masks:
            masks[id(s.mask)] = _joined_mask(s, rows, columns)
        kept = {
            f.name: s.deferred(f.name) if f.name in ("q", "k", "v") else getattr(s, f.name)
            for f in fields(AttentionSite)
        }
        kept |= {
            "mask": masks[id(s.mask)],
            "query_tokens": streams[s.query_stream].tokens,
            "key_tokens": streams[s.key_stream].tokens,
        }
        return WordSite(**kept, of=s, rows=rows, columns=columns)

    return replace(
        trace, streams=streams, attention={name: site(s) for name, s in trace.attention.items()}
    )


def word_starts(row: Encoding, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The first token of each word, and each token that stands alone."""
    words, segments = tokenizer.words(row.text), row.segments or (0,) * len(row.ids)
    owners: list[object] = []
    for i, (token, place) in enumerate(zip(row.ids, row.offsets, strict=True)):
        alone = place is None or token == tokenizer.mask_id
        word = None if alone else _containing(words, place)
        owners.append(("alone", i) if word is None else (word, segments[i]))
    return tuple(i for i, owner in enumerate(owners) if i == 0 or owner != owners[i - 1])


def _containing(words: Sequence[Span], place: Span) -> int | None:
    """The number of the word in which a token stands whole."""
    i = bisect_right(words, place[0], key=lambda word: word[0]) - 1
    return i if i >= 0 and place[1] <= words[i][1] else None


def _words(row: Encoding, starts: Sequence[int], numbers: dict[tuple[int, ...], int]) -> WordRow:
    edges = [*starts, len(row.ids)]
    each = [slice(*both) for both in pairwise(edges)]
    named = [_named(row, one) for one in each]

    def of_first(values: Sequence) -> tuple:
        return tuple(values[i] for i in starts)

    openings = Encoding(row.text, of_first(row.ids), of_first(row.tokens), of_first(row.offsets))
    return WordRow(
        row.text,
        tuple(numbers.setdefault(row.ids[one], len(numbers)) for one in each),
        tuple(token for token, _ in named),
        tuple(place for _, place in named),
        of_first(row.segments) if row.segments else (),
        pieces=tuple(row.tokens[one] for one in each),
        openings=openings,
    )


def _named(row: Encoding, word: slice) -> tuple[str, Span | None]:
    """A word as people read it, ▁ for the space before it where its first token has that, and its place in the text."""
    tokens, places = row.tokens[word], row.offsets[word]
    if len(tokens) == 1:
        return tokens[0], places[0]
    place = min(start for start, _ in places), max(end for _, end in places)
    return "▁" * tokens[0].startswith("▁") + row.text[slice(*place)], place


def _joined_mask(site: AttentionSite, rows: Sequence[int], columns: Sequence[int]) -> Mask:
    """A word may read another where any of its tokens may read any of the other's; where none may, each layer that forbids some
    of it is a reason."""
    allowed = _any(site.mask.allowed, site, rows, columns) if site.mask.layers else None
    layers = [
        MaskLayer(layer.name, allowed | ~_any(~layer.allowed, site, rows, columns))
        for layer in site.mask.layers
    ]
    return Mask(layers)


def _any(
    cells: Tensor, site: AttentionSite, rows: Sequence[int], columns: Sequence[int]
) -> Bool[Tensor, "batch head query key"]:
    """Where any cell between the tokens of two words is True."""
    whole = cells.expand(*cells.shape[:2], site.n_query, site.n_key).numpy()
    return torch.from_numpy(
        np.logical_or.reduceat(np.logical_or.reduceat(whole, rows, axis=-2), columns, axis=-1)
    )
