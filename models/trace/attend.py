"""Attention in one place: edits of the mask, the kernel, edits of its results, the record.

Our layers, XLNet's, Bahdanau's alignment and third-party models pass in their kernel. Without an
edit its result is passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from models.layers.masks import Mask, SiteKind
from models.trace.edits.active import active
from models.trace.edits.base import (
    AttentionPart,
    Edits,
    edited_head_out,
    edited_value_weights,
    edited_weights,
)
from models.trace.recorder import Recording, current
from models.trace.site import layer_of, per_head

Size = tuple[int, int, int, int]  # batch, heads, queries, keys


class Attending:
    """An attention being computed: the edited mask, and the edits that apply to it."""

    def __init__(
        self,
        kind: SiteKind,
        path: str,
        mask: Mask,
        size: Size,
        device: torch.device,
        number: int | None = None,
        heads: range | None = None,
    ) -> None:
        self.heads = range(size[1]) if heads is None else heads
        self.path, self.mask, self.size, self.device = path, mask, size, device
        self.edits: Edits = ()
        self.edited_weights: Tensor | None = None  # where edits change them
        if (in_force := active()) is not None:
            self.edits = in_force.at(kind.name, path, layer_of(path, number))
            self.mask = in_force.mask(mask, self.edits, self._part(slice(None)))

    def edited(
        self,
        head_out: Float[Tensor, "batch head query d_head"],
        weights: Callable[[], Tensor],
        values: Callable[[], Tensor],
        queries: slice = slice(None),
    ) -> Float[Tensor, "batch head query d_head"]:
        """Apply the edits to the kernel's result for these queries.

        `weights` returns (batch, head, query, key) by the readable route, `values` (batch, key
        head, key, d_head).
        """
        if not self.edits:
            return head_out
        allowed, n_heads = self.mask.allowed, self.size[1]
        if allowed is not None and allowed.shape[2] > 1:
            allowed = allowed[:, :, queries]
        part = self._part(queries, weights, lambda: per_head(values(), n_heads, 1), allowed)
        if any(edit.changes("weights") or edit.changes("value_weights") for edit in self.edits):
            before, v = part.weights, part.values
            after = self.edited_weights = edited_weights(self.edits, before, part)
            factors = edited_value_weights(self.edits, after, part)
            is_scaled = (factors != before).any(-1, keepdim=True)
            if any(edit.is_differentiated for edit in self.edits):
                is_scaled = torch.ones_like(is_scaled)
            head_out = torch.where(is_scaled, factors @ v, head_out)
            part = self._part(queries, lambda: after, lambda: v, allowed)
        return edited_head_out(self.edits, head_out, part)

    def _part(
        self,
        queries: slice,
        weights: Callable[[], Tensor] | None = None,
        values: Callable[[], Tensor] | None = None,
        allowed: Tensor | None = None,
    ) -> AttentionPart:
        batch, _, n_query, n_key = self.size
        positions = range(self.mask.start, self.mask.start + n_query)[queries]
        return AttentionPart(
            range(batch),
            self.heads,
            positions,
            n_key,
            self.device,
            weights,
            values,
            allowed,
            self.path,
        )


def attend(
    kind: SiteKind,
    path: str,
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch key_head key d_head"],
    v: Float[Tensor, "batch key_head key d_v"],
    mask: Mask,
    *,
    kernel: Callable[[Mask], Tensor],
    weights: Callable[[Mask], Tensor],
    record: Callable[[Recording, Tensor, Mask, Edits], None],
    number: int | None = None,
    heads: range | None = None,
    take_weights: Callable[[Tensor], None] | None = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Compute the attention at `path` under the edits in force, and record it.

    `kernel` returns the head outputs under a mask, `weights` the weights by the readable route,
    which only edits need; `record` stores the finished attention. `number` is the layer number, if
    the path does not contain it; `heads` are those of the attention that are computed here, if not
    all. `take_weights` gets the weights if edits change them.
    """
    edits: Edits = ()
    if active() is None:
        head_out = kernel(mask)
    else:
        batch, n_heads, n_query, _ = q.shape
        size = (batch, n_heads, n_query, k.shape[2])
        attending = Attending(kind, path, mask, size, q.device, number, heads)
        mask, edits = attending.mask, attending.edits
        head_out = attending.edited(kernel(mask), lambda: weights(mask), lambda: v)
        if take_weights is not None and attending.edited_weights is not None:
            take_weights(attending.edited_weights)
    if (recording := current()) is not None:
        record(recording, head_out, mask, edits)
    return head_out
