"""One call of attention, as a model makes it."""

from dataclasses import dataclass

from torch import Tensor

from models.hub.projections import Origin


@dataclass(frozen=True)
class Call:
    """q (batch, head, query, d_head), k and v (batch, key head, key, d_head), and how they are to meet. `attn_mask` is the one
    that scaled_dot_product_attention would take, `scale` None for 1/√d_head; `origins` of q, k and v and `output`, W_O with its
    bias, where the caller has named them."""

    q: Tensor
    k: Tensor
    v: Tensor
    attn_mask: Tensor | None
    is_causal: bool
    scale: float | None
    origins: tuple[Origin, Origin, Origin] | None = None
    output: tuple[Tensor, Tensor | None] | None = None
