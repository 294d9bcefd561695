"""Two runs beside each other: how far apart their heads are, layer by head, and signed differences.

A row of weights is compared with its counterpart by the Jensen-Shannon divergence (Lin 1991), in
bits: 0 for equal rows, 1 for rows without a common key. A head counts by the mean over the rows of
its queries in which either run attends to anything. Where a library leaves a part of a row to a
sink (gpt-oss), that part counts as one more key.

Runs over the same tokens are compared token by token. Over the same text split into different
tokens they are compared by words: the mean over a word's queries, the sum over its keys (Clark et
al. 2019, 4), with the weight on all tokens outside the text in one column of its own. Over
different texts of equally many tokens of one vocabulary they are compared by position.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.analysis.divergence import jensen_shannon
from models.images.patches import PatchGrid, PatchRow
from models.sounds import PatchedSound, SoundRow
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import AttentionSite, Trace

TOKENS, WORDS, POSITIONS = "tokens", "words", "positions"  # how two rows of tokens are compared
WEIGHTS_AT_ONCE = 2**22  # weights worked on at once
MIN_SHARE_LEFT = 0.002  # of a row; less than this is rounding
OUTSIDE = -1  # the unit of a token that has no counterpart
_WORD = re.compile(r"\S+")

WordSpan = tuple[int, int]


@dataclass(frozen=True)
class Axis:
    """The tokens, words or positions that two maps are compared by along one axis.

    `how` is TOKENS, WORDS or POSITIONS. By words, `units` holds for each token of both rows the
    index of its word, or OUTSIDE, and `spans` the place of each word in the text.
    """

    how: str
    n: int
    units: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    spans: tuple[WordSpan, ...] = ()


@dataclass(frozen=True)
class KindPair:
    """The attentions of one kind in two runs, layer by layer, over comparable queries and keys.

    The layers and heads that only one run has are left out.
    """

    first: tuple[AttentionSite, ...]
    second: tuple[AttentionSite, ...]
    queries: Axis
    keys: Axis

    @property
    def kind(self) -> str:
        """The kind's name in the first run."""
        return self.first[0].kind

    @property
    def how(self) -> str:
        """TOKENS, or how the axis that is not compared by tokens is compared."""
        return self.keys.how if self.queries.how == TOKENS else self.queries.how

    @property
    def n_layers(self) -> int:
        return min(len(self.first), len(self.second))

    @property
    def n_heads(self) -> int:
        """Number of heads that every compared layer of both runs has."""
        return min(site.n_heads for site in (*self.first, *self.second))

    @property
    def is_partial(self) -> bool:
        """True if one run has layers or heads that the other lacks."""
        counts = {site.n_heads for site in (*self.first, *self.second)}
        return len(self.first) != len(self.second) or len(counts) > 1

    def maps(
        self, side: int, layer: int, head: int | None = None
    ) -> Float[Tensor, "*head query key"]:
        """Return the weights of one head, or (None) of all, over the compared axes.

        `side` is 0 for the first run and 1 for the second. Rows sum to 1, or to 0 where nothing is
        attended to.
        """
        site = (self.first, self.second)[side][layer]
        if head is None and site.n_heads * site.n_query * site.n_key > WEIGHTS_AT_ONCE:
            return torch.stack([self.maps(side, layer, one) for one in range(site.n_heads)])
        return _over(site.weights(head), side, self.queries, self.keys)

    def allowed(self, side: int, layer: int, head: int) -> Bool[Tensor, "query key"]:
        """Return which cells a head may attend to: those in which any pair of tokens may."""
        site = (self.first, self.second)[side][layer]
        return _over(site.allowed(head=head).float(), side, self.queries, self.keys) > 0

    def difference(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        """Return the weights of the first run minus those of the second."""
        return self.maps(0, layer, head) - self.maps(1, layer, head)

    def rows(self, layer: int, head: int) -> Float[Tensor, " query"]:
        """Return the divergence of each row; NaN where neither run attends to anything."""
        return row_distances(self.maps(0, layer, head), self.maps(1, layer, head))

    @cached_property
    def distances(self) -> Float[Tensor, "layer head"]:
        """The distance of each head from its counterpart."""
        layers = []
        for layer in range(self.n_layers):
            both = (self.maps(side, layer)[: self.n_heads] for side in (0, 1))
            layers.append(_mean(row_distances(*both)))
        return torch.stack(layers)

    def to_head(self, layer: int, head: int) -> Float[Tensor, "layer head"]:
        """Return the distance of each head of the first run from one head of the second.

        NaN fills a layer with fewer heads than another.
        """
        other = self.maps(1, layer, head)
        most = max(site.n_heads for site in self.first)
        grid = torch.full((len(self.first), most), torch.nan)
        for i, site in enumerate(self.first):
            grid[i, : site.n_heads] = head_distances(self.maps(0, i), other[None])[:, 0]
        return grid


@dataclass(frozen=True)
class Comparison:
    """Two runs, the kinds of attention that can be compared, and why each other kind cannot."""

    first: Trace
    second: Trace
    kinds: tuple[KindPair, ...]
    reasons: dict[str, str] = field(default_factory=dict)  # by the kind's name in the first run

    @property
    def by_words(self) -> bool:
        """True if some of it is compared by words."""
        return any(pair.how == WORDS for pair in self.kinds)

    @cached_property
    def largest_difference(self) -> float:
        """The largest difference of two weights, over all heads that both runs have."""
        largest = 0.0
        for pair in self.kinds:
            for layer in range(pair.n_layers):
                first, second = (pair.maps(side, layer)[: pair.n_heads] for side in (0, 1))
                largest = max(largest, float((first - second).abs().max()))
        return largest

    def of(self, site: str) -> tuple[KindPair, int] | None:
        """Return the kinds and the layer of a site of the first run; None if it has none."""
        for pair in self.kinds:
            for layer, one in enumerate(pair.first[: pair.n_layers]):
                if one.name == site:
                    return pair, layer
        return None

    def most_different(self) -> tuple[KindPair, int, int]:
        """Return the pair of kinds, layer and head that are furthest apart."""
        best = [(float(pair.distances.max()), i) for i, pair in enumerate(self.kinds)]
        pair = self.kinds[max(best, key=lambda one: one[0])[1]]
        layer, head = divmod(int(pair.distances.argmax()), pair.n_heads)
        return pair, layer, head


def compare(first: Trace, second: Trace) -> Comparison:
    """Compare the attention of two runs, kind by kind.

    Kinds of the same name are paired first, then those that read the same texts.

    Raises:
        ValueError: nothing of the two runs can be compared.
    """
    for trace in (first, second):
        if not trace.attention:
            raise ValueError(f"no heads can be compared: {trace.model.name} has no attention")
    ours, theirs = _by_kind(first), _by_kind(second)
    pairs: dict[str, KindPair] = {}
    reasons: dict[str, str] = {}
    for name in [name for name in ours if name in theirs]:
        pair = _pair(first, second, ours[name], theirs[name])
        if isinstance(pair, KindPair):
            pairs[name] = pair
            del theirs[name]
        else:
            reasons[name] = pair
    for name in [name for name in ours if name not in pairs]:
        for other, sites in theirs.items():
            pair = _pair(first, second, ours[name], sites)
            if isinstance(pair, KindPair) and pair.how != POSITIONS:
                pairs[name] = pair
                reasons.pop(name, None)
                del theirs[other]
                break
        else:
            reasons.setdefault(name, f"{second.model.name} has no attention of this kind")
    if not pairs:
        titles = [f"{ours[name][0].site_kind.title}: {reasons[name]}" for name in ours]
        raise ValueError(
            f"the two runs, {first.model.name} and {second.model.name}, cannot be compared. "
            + "; ".join(titles)
        )
    kinds = tuple(pairs[name] for name in ours if name in pairs)
    return Comparison(
        first, second, kinds, {name: reasons[name] for name in ours if name in reasons}
    )


def row_distances(
    first: Float[Tensor, "*head query key"], second: Float[Tensor, "*head query key"]
) -> Float[Tensor, "*head query"]:
    """Return the Jensen-Shannon divergence of each row in bits; NaN where both rows are empty.

    What rows leave to a sink counts as one more key, the same for both.
    """
    p, q = first.double(), second.double()
    left = [left_to_sink(rows) for rows in (p, q)]
    if any(bool(part.any()) for part in left):
        p, q = (
            torch.cat([rows, part[..., None]], -1) for rows, part in zip((p, q), left, strict=True)
        )
    bits = jensen_shannon(p, q).clamp(max=1)
    empty = (first.sum(-1) == 0) & (second.sum(-1) == 0)
    return bits.masked_fill(empty, torch.nan).float()


def left_to_sink(rows: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """Return the part of each row of weights that goes to no token; 0 for a row without weights."""
    sums = rows.sum(-1)
    left = 1 - sums
    return left.where((left > MIN_SHARE_LEFT) & (sums > 0), torch.zeros_like(left))


def head_distances(
    first: Float[Tensor, "head query key"], second: Float[Tensor, "other query key"]
) -> Float[Tensor, "head other"]:
    """Return the mean divergence of every head of one run from every head of another."""
    n = max(1, WEIGHTS_AT_ONCE // max(1, second.numel()))
    return torch.cat(
        [
            _mean(row_distances(*torch.broadcast_tensors(part[:, None], second[None])))
            for part in first.split(n)
        ]
    )


def _mean(rows: Float[Tensor, "*head query"]) -> Float[Tensor, "*head"]:
    """Return the mean over rows that are not empty; 0 if all are."""
    return rows.nanmean(-1).nan_to_num(0.0)


def _by_kind(trace: Trace) -> dict[str, tuple[AttentionSite, ...]]:
    kinds: dict[str, list[AttentionSite]] = {}
    for site in trace.attention.values():
        kinds.setdefault(site.kind, []).append(site)
    return {name: tuple(sorted(some, key=lambda site: site.layer)) for name, some in kinds.items()}


def _pair(
    first: Trace,
    second: Trace,
    ours: tuple[AttentionSite, ...],
    theirs: tuple[AttentionSite, ...],
) -> KindPair | str:
    """Return both kinds over comparable axes, or why they have none."""
    axes = []
    for a, b in zip(first.axes(ours[0]), second.axes(theirs[0]), strict=True):
        axis = axis_of(a, b)
        if axis is None or axis.how == POSITIONS:
            if reason := _why_unlike(a, b):
                return reason
            if isinstance(a, SoundRow):
                if a.text == b.text:
                    return f"the two runs cut the sound into {len(a.ids)} and {len(b.ids)} frames"
                return (
                    f"the two runs read different sounds, of {len(a.ids)} and {len(b.ids)} frames"
                )
            if not same_vocabulary(first.model.tokenizer, second.model.tokenizer):
                return "the two runs read different texts in different vocabularies"
        if axis is None:
            n, m = len(a.ids), len(b.ids)
            return f"the two runs read different texts, of {n} and {m} tokens"
        axes.append(axis)
    return KindPair(ours, theirs, *axes)


def _why_unlike(first: Encoding, second: Encoding) -> str:
    """Return why the tokens of two rows are not of the same kind; "" if they may be."""
    kinds = [_kind_of(row) for row in (first, second)]
    if kinds[0] != kinds[1]:
        return f"one run reads {kinds[0]} and the other {kinds[1]}"
    for kind, cut in ((PatchRow, "images"), (PatchedSound, "spectrograms")):
        if isinstance(first, kind) and isinstance(second, kind):
            return _why_unlike_patches(first.grid, second.grid, cut)
    if isinstance(first, PatchedSound) != isinstance(second, PatchedSound):
        return "one run reads frames of its sound and the other patches of a spectrogram"
    if isinstance(first, SoundRow) and isinstance(second, SoundRow) and first.step != second.step:
        steps = f"{1000 * first.step:g} and {1000 * second.step:g} ms"
        return f"the two runs cut their sounds into frames of {steps}"
    return ""


def _kind_of(row: Encoding) -> str:
    """Return the kind of input that a row of tokens stands for, with its article."""
    if isinstance(row, SoundRow):
        return "a sound"
    return "an image" if isinstance(row, PatchRow) else "a text"


def _why_unlike_patches(first: PatchGrid, second: PatchGrid, cut: str) -> str:
    sizes = [f"{grid.rows} × {grid.columns}" for grid in (first, second)]
    if sizes[0] != sizes[1]:
        return f"the two runs cut their {cut} into different patches, {' and '.join(sizes)}"
    if (first.before, first.after) == (second.before, second.after):
        return f"the two runs cut their {cut} into different patches"
    return f"the two runs have different special tokens beside the patches of their {cut}"


def same_vocabulary(first: Tokenizer | None, second: Tokenizer | None) -> bool:
    """Return True if two tokenizers have the same tokens."""
    if first is second:
        return first is not None
    if first is None or second is None or first.vocab_size != second.vocab_size:
        return False
    return first.vocabulary == second.vocabulary


def axis_of(first: Encoding, second: Encoding) -> Axis | None:
    """Return the axis that two rows of tokens share; None if they have nothing in common."""
    if first.tokens == second.tokens:
        return Axis(TOKENS, len(first.ids))
    if first.text == second.text and first.text:
        return _words(first, second)
    if len(first.ids) == len(second.ids):
        return Axis(POSITIONS, len(first.ids))
    return None


def _words(first: Encoding, second: Encoding) -> Axis | None:
    """Return the words that both rows have tokens of.

    A word is what lies between spaces, or more if a token reaches over a space.
    """
    rows = [[s if s and s[0] < s[1] else None for s in row.offsets] for row in (first, second)]
    spans = [s for row in rows for s in row if s] + [m.span() for m in _WORD.finditer(first.text)]
    joint: list[WordSpan] = []
    for start, end in sorted(spans):
        if joint and start < joint[-1][1]:
            joint[-1] = joint[-1][0], max(joint[-1][1], end)
        else:
            joint.append((start, end))
    owners = [
        [bisect_right(joint, s[0], key=lambda w: w[0]) - 1 if s else None for s in row]
        for row in rows
    ]
    both = sorted({o for o in owners[0] if o is not None} & {o for o in owners[1] if o is not None})
    if not both:
        return None
    index: dict[int | None, int] = {owner: i for i, owner in enumerate(both)}
    units = [tuple(index.get(owner, OUTSIDE) for owner in row) for row in owners]
    return Axis(WORDS, len(both), (units[0], units[1]), tuple(joint[owner] for owner in both))


def _over(
    weights: Float[Tensor, "*head query key"], side: int, queries: Axis, keys: Axis
) -> Float[Tensor, "*head row column"]:
    """Return token weights over the units of both axes, without padding."""
    n_query, n_key = (len(axis.units[side]) or axis.n for axis in (queries, keys))
    weights = weights[..., :n_query, :n_key]
    if keys.how == WORDS:  # the last column holds what is outside the text
        weights = _sum_by_unit(weights, keys.units[side], keys.n + 1)
    if queries.how == WORDS:
        rows = weights.transpose(-1, -2)
        total = _sum_by_unit(rows, queries.units[side], queries.n + 1)[..., :-1].transpose(-1, -2)
        full = (weights.sum(-1) > 0).to(weights.dtype)  # a row that may attend to nothing is all 0
        counts = _sum_by_unit(full, queries.units[side], queries.n + 1)[..., :-1]
        weights = total / counts.clamp(min=1)[..., None]
    return weights


def _sum_by_unit(
    t: Float[Tensor, "*_ token"], units: Sequence[int], n: int
) -> Float[Tensor, "*_ unit"]:
    """Sum the last axis over the tokens of each unit; OUTSIDE is the last of n."""
    index: Int[Tensor, " token"] = torch.tensor([unit % n for unit in units])
    return torch.zeros(*t.shape[:-1], n, dtype=t.dtype).index_add(-1, index, t)
