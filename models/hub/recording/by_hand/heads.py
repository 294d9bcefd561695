"""Join heads that are separate modules or calls into one attention of a layer.

Heads are consecutive calls that read the same rows and are made by one module or by
neighbouring modules of a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from models.hub.recording.context import AttentionOutput, HeadPlace
from models.hub.recording.masks import BIAS, BiasTerm, sum_of_terms
from models.hub.recording.projections import same_view, versions_of
from models.layers.masks import Mask, MaskLayer, SiteKind
from models.trace import AttentionSite
from models.trace.lazy import read_lazy
from models.trace.site import Projection
from models.trace.terms import ScoreTerm


@dataclass(frozen=True)
class FollowedHead:
    """One finished attention, which may be one head of several; its site if it is recorded."""

    name: str
    path: str  # of the module that it is called in
    kind: SiteKind
    number: int
    x: Tensor
    memory: Tensor
    head_out: Float[Tensor, "batch head query d_v"]
    site: AttentionSite | None

    def precedes(self, other: FollowedHead) -> bool:
        """Return True if the other is the next head of the same attention."""
        same_rows = same_view(self.x, other.x) and same_view(self.memory, other.memory)
        single = self.head_out.shape[1] == other.head_out.shape[1] == 1
        alike = self.kind == other.kind and self.head_out.shape == other.head_out.shape
        return same_rows and single and alike and _container(self.path, other.path) is not None


class FollowedHeads:
    """The heads of a pass: those that are one attention so far, and where each belongs."""

    def __init__(self) -> None:
        self._group: list[FollowedHead] = []
        self._places: dict[str, tuple[list[FollowedHead], int]] = {}

    def add(self, head: FollowedHead) -> list[FollowedHead]:
        """Return the heads of the attention that this one belongs to, this one last."""
        has_output = (
            self._group and self._group[-1].site and "W_O" in self._group[-1].site.projections
        )
        if not self._group or has_output or not self._group[-1].precedes(head):
            self._group = []
        self._group.append(head)
        self._places[head.name] = self._group, len(self._group) - 1
        return self._group

    def places(self) -> dict[str, HeadPlace]:
        """Return the name of each single head → its place in an attention of several."""
        return {
            name: HeadPlace(attention_name(group), index, len(group), group[0].number)
            for name, (group, index) in self._places.items()
            if len(group) > 1
        }


def attention_name(heads: Sequence[FollowedHead]) -> str:
    """Return the name of the attention that these heads form: the list's, or the module's."""
    if len(heads) == 1:
        return heads[0].name
    return _container(heads[0].path, heads[1].path) or heads[0].name


def finish_heads(heads: Sequence[FollowedHead], site: AttentionSite | None) -> AttentionOutput:
    """Return these heads as one finished attention."""
    out = torch.cat([head.head_out for head in heads], dim=1)
    name, stream = attention_name(heads), heads[0].kind.query_stream
    return AttentionOutput(name, stream, out, site, versions_of(out))


def join_heads(heads: Sequence[FollowedHead]) -> AttentionSite | None:
    """Return the recorded heads as one site."""
    sites = [head.site for head in heads if head.site is not None]
    if len(sites) < len(heads):
        return None
    first, name = sites[0], attention_name(heads)
    similar = all(
        s.similarity.name == first.similarity.name
        and all(
            torch.equal(n, first.similarity.learned[k]) for k, n in s.similarity.learned.items()
        )
        for s in sites
    )
    if not similar:
        return None
    given_weights = [site.given_weights for site in sites if site.given_weights is not None]
    return replace(
        first,
        name=name,
        lazy_q=torch.cat([read_lazy(site.lazy_q) for site in sites], 1),
        lazy_k=torch.cat([read_lazy(site.lazy_k) for site in sites], 1),
        lazy_v=torch.cat([read_lazy(site.lazy_v) for site in sites], 1),
        out=torch.cat([site.out for site in sites], 1),
        mask=_join_masks([site.mask for site in sites]),
        projections=_join_projections(sites),
        terms=_join_terms(sites),
        given_weights=torch.cat(given_weights, 1) if len(given_weights) == len(sites) else None,
    )


def _join_projections(sites: Sequence[AttentionSite]) -> dict[str, Projection]:
    """Return the matrices of all heads, one below the other."""
    result: dict[str, Projection] = {}
    for name in ("W_Q", "W_K", "W_V"):
        parts = [site.projections[name] for site in sites if name in site.projections]
        if len(parts) < len(sites):
            return {}
        biases = [bias for _, bias in parts if bias is not None]
        bias = torch.cat(biases) if len(biases) == len(parts) else None
        if biases and bias is None:
            return {}
        result[name] = torch.cat([weight for weight, _ in parts]), bias
    return result


def _join_masks(masks: Sequence[Mask]) -> Mask:
    """Return the masks of all heads as one, layer by layer."""
    names = list(dict.fromkeys(layer.name for mask in masks for layer in mask.layers))
    layers = []
    for name in names:
        parts = [_intersect(mask, name) for mask in masks]
        shape = torch.broadcast_shapes(*(part.shape for part in parts))
        allowed = torch.cat([part.expand(shape) for part in parts], 1)
        alike = all(torch.equal(part, parts[0]) for part in parts[1:])
        layers.append(MaskLayer(name, parts[0] if alike else allowed))
    return Mask(layers, masks[0].start)


def _intersect(mask: Mask, name: str) -> Tensor:
    """Return what the layers of this name allow together; everything if there is none."""
    parts = [layer.allowed for layer in mask.layers if layer.name == name]
    return reduce(torch.logical_and, parts) if parts else torch.ones(1, 1, 1, 1, dtype=torch.bool)


def _join_terms(sites: Sequence[AttentionSite]) -> tuple[ScoreTerm, ...]:
    if not any(site.terms for site in sites):
        return ()
    n_query, n_key = sites[0].n_query, sites[0].n_key
    queries = torch.arange(n_key - n_query, n_key)
    n_rows = sites[0].out.shape[0]
    values = [
        sum_of_terms(site.terms, queries, n_key, n_rows).expand(n_rows, 1, n_query, n_key)
        if site.terms
        else torch.zeros(n_rows, 1, n_query, n_key)
        for site in sites
    ]
    return (BiasTerm(BIAS, torch.cat(values, 1)),)


def _container(path: str, other: str) -> str | None:
    """Return the path of the list in which one head follows the other, or of both if it is one."""
    if path == other:
        return path
    ours, theirs = path.split("."), other.split(".")
    differ = [i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]]
    if len(ours) != len(theirs) or len(differ) != 1:
        return None
    one, next_ = ours[differ[0]], theirs[differ[0]]
    follows = one.isdigit() and next_.isdigit() and int(next_) == int(one) + 1
    return ".".join(ours[: differ[0]]) if follows else None
