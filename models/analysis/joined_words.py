"""Sub-words joined into words: attention from word to word, A·W·B of the token weights W.

A averages over the rows of a word's tokens, B sums over its columns, so that a row sums to what its
tokens' rows do on average: 1, or less where a library leaves a part of them to no token.
The tokenizer defines the words; a special token, and one in place of a masked token, is a word of
its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.masks import Mask, MaskLayer
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import Encoding
from models.tokenizers.words import CharSpan
from models.trace import AttentionSite, Trace
from models.trace.site import RowSlice

UNKNOWN_WORDS = "its tokenizer does not say which tokens belong to one word"


@dataclass(frozen=True)
class WordRow(Encoding):
    """A row of words.

    `pieces` are the tokens of each, `openings` the first tokens as a row of their own. Equal words
    have equal `ids`, which are not token ids.
    """

    pieces: tuple[tuple[str, ...], ...] = ()
    openings: Encoding | None = None


@dataclass(frozen=True)
class WordSite(AttentionSite):
    """Attention from word to word, derived from `of`, the one from token to token.

    `rows` and `columns` are the first tokens of the words. A row without allowed keys is not part
    of its word's mean.
    """

    of: AttentionSite = field(kw_only=True)
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    @property
    def has_causes(self) -> bool:
        """False: words have weights, but no queries or keys of their own."""
        return False

    @property
    def n_query(self) -> int:
        return len(self.rows)

    @property
    def n_key(self) -> int:
        return len(self.columns)

    def weights(
        self, head: int | None = None, batch: int = 0, rows: RowSlice = None
    ) -> Float[Tensor, "*head query key"]:
        """Return A·W·B for the words of a slice, from the rows of W that it needs."""
        words = range(self.n_query)[rows or slice(None)]
        edges = [*self.rows, self.of.n_query]
        tokens = slice(edges[words[0]], edges[words[-1] + 1]) if words else slice(0, 0)
        starts = np.array(edges[words[0] : words[-1] + 1] if words else [], int) - (
            tokens.start or 0
        )
        summed = np.add.reduceat(
            self.of.weights(head, batch, tokens).numpy(), self.columns, axis=-1
        )
        counts = np.add.reduceat((summed.sum(-1) > 0).astype(np.float32), starts, axis=-1)
        means = np.add.reduceat(summed, starts, axis=-2) / np.maximum(counts, 1)[..., None]
        return torch.from_numpy(means[..., :: words.step, :])

    def _need_causes(self, what: str) -> None:
        raise ValueError(f"{self.name} between words has no {what}: they belong to tokens")


def knows_words(trace: Trace) -> bool:
    """Return True if the tokenizer of a run groups its tokens into words."""
    return _word_tokenizer(trace) is not None


def _word_tokenizer(trace: Trace) -> Tokenizer | None:
    tokenizer = trace.model.tokenizer
    return None if tokenizer is None or tokenizer.words("") is None else tokenizer


def _known_words(trace: Trace) -> Tokenizer:
    if (tokenizer := _word_tokenizer(trace)) is None:
        raise ValueError(f"{trace.model.name}: {UNKNOWN_WORDS}")
    return tokenizer


def is_joined(trace: Trace) -> bool:
    """Return True if a run's tokens have been joined into words."""
    return any(isinstance(row, WordRow) for row in trace.streams.values())


def recounted(trace: Trace, stream: str, index: int, in_words: bool) -> int | None:
    """Return the word of a token if `in_words`, else the first token of a word, both from 0.

    Returns None if the stream is too short.

    Raises:
        ValueError: The tokenizer has no notion of words.
    """
    row = trace.streams[stream]
    starts = word_starts(row, _known_words(trace))
    if in_words:
        return bisect_right(starts, index) - 1 if index < len(row.ids) else None
    return starts[index] if index < len(starts) else None


def join_words(trace: Trace) -> Trace:
    """Return the run with words in place of tokens on its streams and in its attention.

    Outputs and activations remain those of tokens.

    Raises:
        ValueError: The tokenizer has no notion of words.
    """
    tokenizer = _known_words(trace)
    starts = {name: word_starts(row, tokenizer) for name, row in trace.streams.items()}
    numbers: dict[tuple[int, ...], int] = {}
    streams = {name: _words(row, starts[name], numbers) for name, row in trace.streams.items()}
    masks: dict[int, Mask] = {}  # layers share theirs

    def site(s: AttentionSite) -> WordSite:
        rows, columns = starts[s.query_stream], starts[s.key_stream]
        if id(s.mask) not in masks:
            masks[id(s.mask)] = _join_mask(s, rows, columns)
        fields_of_site = {f.name: getattr(s, f.name) for f in fields(AttentionSite)}
        fields_of_site |= {
            "mask": masks[id(s.mask)],
            "query_tokens": streams[s.query_stream].tokens,
            "key_tokens": streams[s.key_stream].tokens,
        }
        return WordSite(**fields_of_site, of=s, rows=rows, columns=columns)

    return replace(
        trace, streams=streams, attention={name: site(s) for name, s in trace.attention.items()}
    )


def word_starts(row: Encoding, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the first token of each word, counting standalone tokens as words."""
    words, segments = tokenizer.words(row.text) or [], row.segments or (0,) * len(row.ids)
    owners: list[object] = []
    for i, (token, span) in enumerate(zip(row.ids, row.offsets, strict=True)):
        word = None
        if span is not None and token != tokenizer.mask_id:
            word = _word_containing(words, span)
        owners.append(("standalone", i) if word is None else (word, segments[i]))
    return tuple(i for i, owner in enumerate(owners) if i == 0 or owner != owners[i - 1])


def _word_containing(words: Sequence[CharSpan], place: CharSpan) -> int | None:
    """Return the index of the word that contains a token's span, None if there is none."""
    i = bisect_right(words, place[0], key=lambda word: word[0]) - 1
    return i if i >= 0 and place[1] <= words[i][1] else None


def _words(row: Encoding, starts: Sequence[int], numbers: dict[tuple[int, ...], int]) -> WordRow:
    edges = [*starts, len(row.ids)]
    each = [slice(*both) for both in pairwise(edges)]
    each_name = [_name_word(row, one) for one in each]

    def of_first(values: Sequence) -> tuple:
        return tuple(values[i] for i in starts)

    openings = Encoding(
        row.text,
        of_first(row.ids),
        of_first(row.tokens),
        of_first(row.offsets),
        special=row.special,
    )
    return WordRow(
        row.text,
        tuple(numbers.setdefault(row.ids[one], len(numbers)) for one in each),
        tuple(token for token, _ in each_name),
        tuple(place for _, place in each_name),
        of_first(row.segments) if row.segments else (),
        tuple((starts.index(position), token) for position, token in row.hidden),
        special=row.special,
        pieces=tuple(row.tokens[one] for one in each),
        openings=openings,
    )


def _name_word(row: Encoding, word: slice) -> tuple[str, CharSpan | None]:
    """Return a word in readable form and its span in the text.

    ▁ is the space before it, if its first token has one.
    """
    tokens, places = row.tokens[word], row.offsets[word]
    if len(tokens) == 1:
        return tokens[0], places[0]
    spans = [span for span in places if span is not None]
    whole = min(start for start, _ in spans), max(end for _, end in spans)
    return "▁" * tokens[0].startswith("▁") + row.text[slice(*whole)], whole


def _join_mask(site: AttentionSite, rows: Sequence[int], columns: Sequence[int]) -> Mask:
    """Return the mask between words: allowed where any pair of their tokens is.

    Where none is, each layer that blocks any of the pairs is a reason.
    """
    if site.mask.allowed is None:
        return Mask()
    allowed = _any(site.mask.allowed, site, rows, columns)
    layers = [
        MaskLayer(layer.name, allowed | ~_any(~layer.allowed, site, rows, columns))
        for layer in site.mask.layers
    ]
    return Mask(layers)


def _any(
    cells: Bool[Tensor, "batch head _ _"],
    site: AttentionSite,
    rows: Sequence[int],
    columns: Sequence[int],
) -> Bool[Tensor, "batch head query key"]:
    """Return where any cell between the tokens of two words is True."""
    whole = cells.expand(*cells.shape[:2], site.n_query, site.n_key).numpy()
    return torch.from_numpy(
        np.logical_or.reduceat(np.logical_or.reduceat(whole, rows, axis=-2), columns, axis=-1)
    )
