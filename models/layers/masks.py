"""Masks as named layers, so that a blocked cell can name what blocks it.

A mask is boolean, True = may attend. The mask of a site is the intersection of its layers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

PADDING = "padding"
LOOK_AHEAD = "look-ahead"
ORDER_MASK = "factorisation order"
DRAWN = "drawn by hand"
MAX_ADDED_CELLS = 2**15  # cells of a stored additive mask (128 kB)


@dataclass(frozen=True)
class SiteKind:
    """The common properties of attentions that share one mask, declared by the architecture."""

    name: str  # of their mask, unique in the model
    stack: str  # "encoder" or "decoder"
    role: str  # one of ROLES, or a role of the model's own
    query_stream: str  # stream of the queries
    key_stream: str  # stream of the keys
    title: str = ""  # default: made from stack, role and streams
    short: str = ""  # short form of the title
    is_causal: bool | None = None  # look-ahead is masked; default: in a decoder's self-attention
    side: str = ""  # what its layers belong to, for display; default: the stack

    def __post_init__(self) -> None:
        if self.is_causal is None:
            object.__setattr__(self, "is_causal", (self.stack, self.role) == ("decoder", "self"))
        title, short = _TITLES.get((self.stack, self.role)) or _generic_title(self)
        object.__setattr__(self, "title", self.title or title)
        object.__setattr__(self, "short", self.short or short)
        object.__setattr__(self, "side", self.side or self.stack.capitalize())

    @property
    def between_streams(self) -> bool:
        """True if one stream reads another."""
        return self.query_stream != self.key_stream


# self: within a stream; cross: between streams; alignment: Bahdanau's, with the state s(i−1) as
# query; content and query: XLNet's two streams of states, the second blind to its own token
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
    """One reason to block attention.

    `allowed` broadcasts to (batch, head, query, key); True = may attend.
    """

    name: str
    allowed: Bool[Tensor, "#batch #head #query #key"]

    @cached_property
    def blocks(self) -> bool:
        """True if it blocks anything."""
        return not self.allowed.all()


class _Padding(MaskLayer):
    """A padding layer whose tensor is built when read: most decoding steps have no padding."""

    ids: Int[Tensor, "batch key"]
    pad_id: int

    def __init__(self, ids: Int[Tensor, "batch key"], pad_id: int) -> None:
        vars(self).update(name=PADDING, ids=ids, pad_id=pad_id)

    @cached_property
    def allowed(self) -> Bool[Tensor, "batch 1 1 key"]:
        return (self.ids != self.pad_id).view(len(self.ids), 1, 1, -1)

    @cached_property
    def blocks(self) -> bool:
        return self.pad_id in self.ids.tolist()[0] if len(self.ids) == 1 else not self.allowed.all()


class Mask:
    """The layers of one attention site and the intersection of what they allow.

    `start` is the position of the first query, above 0 if earlier positions come from a cache.
    """

    def __init__(self, layers: Iterable[MaskLayer] = (), start: int = 0) -> None:
        self.layers = tuple(layers)
        self.start = start

    @cached_property
    def allowed(self) -> Bool[Tensor, "#batch #head #query #key"] | None:
        """Cells that all layers allow, in broadcast shape; None without layers."""
        return _intersection(self.layers)

    @cached_property
    def blocking(self) -> Bool[Tensor, "#batch #head #query #key"] | None:
        """The intersection of the layers that block anything, None if none does.

        The fused kernel is faster without a mask.
        """
        return _intersection(layer for layer in self.layers if layer.blocks)

    @cached_property
    def _additive(self) -> Float[Tensor, "#batch #head #query #key"]:
        blocking = self.blocking
        if blocking is None:
            raise RuntimeError("a mask that blocks nothing has no additive form")
        return torch.zeros(blocking.shape, device=blocking.device).masked_fill_(
            ~blocking, -torch.inf
        )

    def additive(self, dtype: torch.dtype) -> Tensor | None:
        """Return `blocking` as 0 or −∞ to add to the scores, made once for all layers.

        A large mask stays boolean: the fused kernel converts it, and frees the result.
        """
        if self.blocking is None or self.blocking.numel() > MAX_ADDED_CELLS:
            return self.blocking
        return self._additive.to(dtype)

    def expanded(
        self, batch: int, head: int | None, n_query: int, n_key: int
    ) -> Bool[Tensor, "*#head query key"]:
        """Return the mask of one batch row and one head (None: all heads), without broadcasting."""
        if self.allowed is None:
            return torch.ones(n_query, n_key, dtype=torch.bool)
        return _slice(self.allowed, batch, head, n_query, n_key)

    def blocked_by(
        self, query: int, key: int, n_query: int, n_key: int, batch: int = 0, head: int = 0
    ) -> list[str]:
        """Return the names of the layers that block this cell; empty if it is allowed."""
        return [
            layer.name
            for layer in self.layers
            if not _slice(layer.allowed, batch, head, n_query, n_key)[query, key]
        ]

    def row(self, batch: int, n_query: int, n_key: int) -> "Mask":
        """Return the mask of one batch row for its first queries and keys, on the CPU.

        The batch axis stays, of size 1.
        """
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


Masks = Mapping[str, Mask]  # by the name of a SiteKind; no entry: no such attention


def _intersection(layers: Iterable[MaskLayer]) -> Tensor | None:
    allowed = [layer.allowed for layer in layers]
    return reduce(torch.logical_and, allowed) if allowed else None


def _slice(allowed: Tensor, batch: int, head: int | None, n_query: int, n_key: int) -> Tensor:
    row = allowed[min(batch, allowed.shape[0] - 1)]
    if head is not None:
        row = row[min(head, row.shape[0] - 1)]
    return row.expand(*row.shape[:-2], n_query, n_key)


def padding(ids: Int[Tensor, "batch key"], pad_id: int) -> MaskLayer:
    """Block padding tokens for all queries."""
    return _Padding(ids, pad_id)


def look_ahead(n_query: int, n_key: int, device: torch.device | None = None) -> MaskLayer:
    """Block keys after the query (Vaswani et al. 2017, §3.2.3).

    With cached keys the queries are the last positions.
    """
    if n_query == 1:
        return _nothing_ahead(device)
    ones = torch.ones(n_query, n_key, dtype=torch.bool, device=device)
    return MaskLayer(LOOK_AHEAD, ones.tril_(n_key - n_query).view(1, 1, n_query, n_key))


@cache
def _nothing_ahead(device: torch.device | None) -> MaskLayer:
    """Return the look-ahead mask of the last query, built once for all decoding steps."""
    with torch.inference_mode(False):  # it may be used outside inference mode
        return MaskLayer(LOOK_AHEAD, torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device))


def before_in_order(rank: Int[Tensor, "batch n"], *, itself: bool) -> MaskLayer:
    """Allow keys that come before the query in a factorisation order (Yang et al. 2019, fig. 1).

    `rank` is the step at which the token at each position is predicted; `itself` allows the query's
    own token too.
    """
    query, key = rank[:, None, :, None], rank[:, None, None, :]
    return MaskLayer(ORDER_MASK, key <= query if itself else key < query)


def custom_layer(allowed: Bool[Tensor, "query key"]) -> MaskLayer:
    """Return the layer of the cells that a user blocked (False)."""
    return MaskLayer(DRAWN, allowed[None, None])
