"""Masks as named layers, so that a blocked cell can say who blocked it.

A mask is boolean, True = may attend. The mask of a site is the intersection of its layers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, reduce

import torch
from jaxtyping import Bool, Int
from torch import Tensor

PADDING = "padding"
LOOK_AHEAD = "look-ahead"
ORDER = "factorisation order"
DRAWN = "drawn by hand"
LARGEST_ADDED = 2**15  # cells, 128 kB as numbers


@dataclass(frozen=True)
class SiteKind:
    """What the attentions that share one mask have in common. An architecture declares its kinds."""

    name: str  # of their mask, unique in the model
    stack: str  # "encoder" or "decoder"
    role: str  # of ROLES, or another: the model says what it is for
    query_stream: str  # the stream whose tokens ask
    key_stream: str  # the stream that is read
    title: str = ""  # by default one made from stack, role and streams
    short: str = ""  # the title where there is little room

    def __post_init__(self) -> None:
        title, short = _TITLES.get((self.stack, self.role)) or _generic_title(self)
        object.__setattr__(self, "title", self.title or title)
        object.__setattr__(self, "short", self.short or short)

    @property
    def between_streams(self) -> bool:
        """True if one stream reads another."""
        return self.query_stream != self.key_stream


# self: a stream reads itself; cross: it reads another; alignment: Bahdanau's, whose query is the state s(i−1);
# content and query: XLNet's two streams of states, of which the second may not see the token it stands for
ROLES = ("self", "cross", "alignment", "content", "query")

# (stack, role) → title and short title
_TITLES = {
    ("encoder", "self"): ("Encoder self-attention", "Encoder self"),
    ("decoder", "self"): ("Decoder masked self-attention", "Decoder self"),
    ("decoder", "cross"): ("Cross-attention", "Cross"),
    ("decoder", "alignment"): ("Alignment", "Alignment"),
    ("encoder", "content"): ("Content stream", "Content"),
    ("encoder", "query"): ("Query stream", "Query"),
}


def _generic_title(kind: SiteKind) -> tuple[str, str]:
    """Return a title and a short title for a stack and role that have none of their own."""
    short = f"{kind.stack} {kind.role}"
    short = short[:1].upper() + short[1:]
    reads = f": {kind.query_stream} → {kind.key_stream}" if kind.between_streams else ""
    joint = "-" if kind.role in ("self", "cross") else " "
    return f"{short}{joint}attention{reads}", short


@dataclass(frozen=True)
class MaskLayer:
    """One reason to forbid attention. `allowed` broadcasts to (batch, head, query, key); True = may attend."""

    name: str
    allowed: Bool[Tensor, "#batch #head #query #key"]

    @cached_property
    def blocks(self) -> bool:
        """Return True if it forbids anything."""
        return not self.allowed.all()


class _Padding(MaskLayer):
    """Its tensor is made when it is read: a run that writes asks at each step whether there is padding, and mostly none is."""

    def __init__(self, ids: Int[Tensor, "batch key"], pad_id: int) -> None:
        vars(self).update(name=PADDING, ids=ids, pad_id=pad_id)

    @cached_property
    def allowed(self) -> Bool[Tensor, "batch 1 1 key"]:
        return (self.ids != self.pad_id).view(len(self.ids), 1, 1, -1)

    @cached_property
    def blocks(self) -> bool:
        return self.pad_id in self.ids.tolist()[0] if len(self.ids) == 1 else not self.allowed.all()


class Mask:
    """The layers of one attention site, and their union of prohibitions. Its first query stands at position `start`, which is
    above 0 where earlier positions come from a cache."""

    def __init__(self, layers: Iterable[MaskLayer] = (), start: int = 0) -> None:
        self.layers = tuple(layers)
        self.start = start

    @cached_property
    def allowed(self) -> Tensor | None:
        """Where every layer allows attention, still in broadcast shape; None if there is no layer."""
        return _together(self.layers)

    @cached_property
    def blocking(self) -> Tensor | None:
        """The same of the layers that forbid anything, or None if none does: the fused kernel is quicker without a mask."""
        return _together(layer for layer in self.layers if layer.blocks)

    @cached_property
    def _additive(self) -> Tensor:
        return torch.zeros(self.blocking.shape, device=self.blocking.device).masked_fill_(
            ~self.blocking, -torch.inf
        )

    def additive(self, dtype: torch.dtype) -> Tensor | None:
        """`blocking` as what is added to the scores, 0 or −∞, made once for all layers; a large one as it is, because the fused
        kernel makes its own and lets go of it."""
        if self.blocking is None or self.blocking.numel() > LARGEST_ADDED:
            return self.blocking
        return self._additive.to(dtype)

    def expanded(
        self, batch: int, head: int | None, n_query: int, n_key: int
    ) -> Bool[Tensor, "*#head query key"]:
        """The whole mask of one batch row and head as a (query, key) matrix; of all heads if `head` is None."""
        if self.allowed is None:
            return torch.ones(n_query, n_key, dtype=torch.bool)
        return _cut(self.allowed, batch, head, n_query, n_key)

    def blocked_by(
        self, query: int, key: int, n_query: int, n_key: int, batch: int = 0, head: int = 0
    ) -> list[str]:
        """Names of the layers that forbid `query` to see `key`; empty if the cell is allowed."""
        return [
            layer.name
            for layer in self.layers
            if not _cut(layer.allowed, batch, head, n_query, n_key)[query, key]
        ]

    def row(self, batch: int, n_query: int, n_key: int) -> "Mask":
        """The mask of one batch row for its first queries and keys, on the CPU; the batch axis stays, of size 1."""
        return Mask(
            (
                MaskLayer(
                    layer.name,
                    layer.allowed.detach()[
                        min(batch, len(layer.allowed) - 1), None, :, :n_query, :n_key
                    ].cpu(),
                )
                for layer in self.layers
            ),
            self.start,
        )


Masks = Mapping[str, Mask]  # name of a SiteKind → its mask; no entry, no such attention


def _together(layers: Iterable[MaskLayer]) -> Tensor | None:
    allowed = [layer.allowed for layer in layers]
    return reduce(torch.logical_and, allowed) if allowed else None


def _cut(allowed: Tensor, batch: int, head: int | None, n_query: int, n_key: int) -> Tensor:
    row = allowed[min(batch, allowed.shape[0] - 1)]
    if head is not None:
        row = row[min(head, row.shape[0] - 1)]
    return row.expand(*row.shape[:-2], n_query, n_key)


def padding(ids: Int[Tensor, "batch key"], pad_id: int) -> MaskLayer:
    """No query may see a padding token."""
    return _Padding(ids, pad_id)


def look_ahead(n_query: int, n_key: int, device: torch.device | None = None) -> MaskLayer:
    """Query i sees keys 0 … i, counted from the end when keys come from a cache (Vaswani et al. 2017, §3.2.3)."""
    if n_query == 1:
        return _nothing_ahead(device)
    ones = torch.ones(n_query, n_key, dtype=torch.bool, device=device)
    return MaskLayer(LOOK_AHEAD, ones.tril_(n_key - n_query).view(1, 1, n_query, n_key))


@cache
def _nothing_ahead(device: torch.device | None) -> MaskLayer:
    """The look-ahead mask of the last query alone, made once: while a run writes it would be made at every step."""
    with torch.inference_mode(False):  # it may be read anywhere
        return MaskLayer(LOOK_AHEAD, torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device))


def in_order(rank: Int[Tensor, "batch n"], *, itself: bool) -> MaskLayer:
    """A query sees the keys that come before it in a factorisation order, and its own token if `itself` (Yang et al. 2019,
    fig. 1); `rank` is when the token at each position is predicted."""
    query, key = rank[:, None, :, None], rank[:, None, None, :]
    return MaskLayer(ORDER, key <= query if itself else key < query)


def hand_drawn(allowed: Bool[Tensor, "query key"]) -> MaskLayer:
    """Cells a person forbade (False) or left (True)."""
    return MaskLayer(DRAWN, allowed[None, None])
