"""Tell texts from heads on the axes that scaled_dot_product_attention takes before the tokens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jaxtyping import Float, Shaped
from torch import Tensor

if TYPE_CHECKING:
    from models.hub.recording.forward_pass import ForwardPass


def by_text_and_head(
    forward_pass: ForwardPass,
    query: Float[Tensor, "*lead query d_head"],
    key: Float[Tensor, "*key_lead key d_head"],
    value: Float[Tensor, "*value_lead key d_v"],
    attn_mask: Shaped[Tensor, ...] | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return q, k, v and the mask with one axis of texts and one of heads.

    Heads on the first axis, those of a text side by side, are recognised by the products that make
    q or v. If these do not confirm heads, every index on the first axis is a row.
    """
    n_rows, lead = forward_pass.context.n_rows, query.shape[:-2]
    first = lead[0] if lead else 1
    grouped = query.dim() == 4 and key.shape[1] != lead[1]

    def arranged(t: Tensor, rows: int) -> Tensor:
        t = t if grouped else t.expand(*lead, *t.shape[-2:])
        return t.reshape(rows, -1, *t.shape[-2:])

    rows = first if first == n_rows else math.prod(lead[:-1]) if len(lead) > 1 else first
    if first > n_rows and not first % n_rows and forward_pass.has_lengths(query, key):
        q, v = arranged(query, n_rows), arranged(value, n_rows)
        if any(forward_pass.linears.makes_rows(t) for t in (q, v)):
            rows = n_rows
    q, k, v = (arranged(t, rows) for t in (query, key, value))
    if attn_mask is not None and attn_mask.shape[:-2].numel() > 1:
        attn_mask = attn_mask.expand(*lead, *attn_mask.shape[-2:])
        attn_mask = attn_mask.reshape(rows, -1, *attn_mask.shape[-2:])
    elif attn_mask is not None:
        attn_mask = attn_mask.reshape(1, 1, *attn_mask.shape[-2:])
    return q, k, v, attn_mask
