"""Record `F.multi_head_attention_forward`, which nn.MultiheadAttention and nn.Transformer call.

Its inner call cannot be seen, so q, k and v are computed from its arguments. Its output before
W_O comes from the function itself, called with the identity in place of W_O, which changes no
number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from models.hub.recording.context import AttentionCall
from models.hub.recording.projections import Origin

if TYPE_CHECKING:
    from models.hub.recording.forward_pass import ForwardPass


def record_multi_head(
    forward_pass: ForwardPass,
    func: Callable,
    query: Float[Tensor, "query *batch d_model"],
    key: Float[Tensor, "key *batch d_key"],
    value: Float[Tensor, "key *batch d_value"],
    embed_dim: int,
    n_heads: int,
    in_proj_weight: Float[Tensor, "*matrix"] | None,
    in_proj_bias: Float[Tensor, " d_qkv"] | None,
    bias_k: Float[Tensor, "1 1 d_model"] | None,
    bias_v: Float[Tensor, "1 1 d_model"] | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Float[Tensor, "d_model d_model"],
    out_proj_bias: Float[Tensor, " d_model"] | None,
    **how: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return the function's own result, recording its attention.

    Arguments are as torch documents them, tokens first.
    """
    inputs = (query, key, value, embed_dim, n_heads, in_proj_weight, in_proj_bias)
    if how.get("is_causal") and not _is_causal(how.get("attn_mask"), query):
        how["is_causal"] = False  # if True, the function would drop the mask, unlike its module
    if bias_k is not None or how.get("static_k") is not None or add_zero_attn:
        forward_pass.skip("it adds keys that belong to no token")
        return func(
            *inputs, bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, **how
        )
    copies = [forward_pass.linears.copy(t) for t in (query, key, value)]
    matrices = _matrices(in_proj_weight, in_proj_bias, how)
    origins = _origins(copies, matrices)
    q, k, v = (  # not of the copies, which no gradient reaches
        _by_head(F.linear(o.x, o.weight, o.bias), n_heads)
        for o in _origins((query, key, value), matrices)
    )
    weights: list[Tensor | None] = []

    def run(mask: Tensor | None, causal: bool) -> Tensor:
        settings = how if mask is attn_mask else how | _as_arguments(mask, q, k)
        identity = torch.eye(embed_dim, dtype=query.dtype, device=query.device)
        concat, averaged = func(*inputs, None, None, False, dropout_p, identity, None, **settings)
        weights.append(averaged)
        concat = concat.transpose(0, 1) if concat.dim() == 3 else concat[None]
        return _by_head(concat, n_heads)

    def take_weights(edited: Tensor) -> None:
        if weights[0] is not None:  # they are returned, too
            edited = edited.mean(1) if how.get("average_attn_weights", True) else edited
            weights[0] = edited if query.dim() == 3 else edited[0]

    attn_mask = _mask(how, q, k, n_heads)
    output = out_proj_weight.detach(), _detach(out_proj_bias)
    call = AttentionCall(q, k, v, attn_mask, False, None, origins, output)
    out = forward_pass.attend(call, run, take_weights)
    concat = out.transpose(1, 2).flatten(2).transpose(0, 1)  # (query, batch, d_model)
    projected = F.linear(concat.reshape(-1, embed_dim), out_proj_weight, out_proj_bias).view(
        *concat.shape[:2], -1
    )
    return (projected if query.dim() == 3 else projected[:, 0]), weights[0]


def _origins(
    inputs: Sequence[Tensor], matrices: Sequence[tuple[Tensor, Tensor | None]]
) -> tuple[Origin, Origin, Origin]:
    """Return the origins of q, k and v; inputs are tokens first, with or without a batch."""
    of_q, of_k, of_v = (
        Origin(x.transpose(0, 1) if x.dim() == 3 else x[None], weight, bias)
        for x, (weight, bias) in zip(inputs, matrices, strict=True)
    )
    return of_q, of_k, of_v


def _by_head(t: Float[Tensor, "batch token d"], n_heads: int) -> Tensor:
    return t.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (batch, head, token, d_head)


def _matrices(
    weight: Tensor | None, bias: Tensor | None, how: dict[str, Any]
) -> list[tuple[Tensor, Tensor | None]]:
    """Return W_Q, W_K and W_V with their biases."""
    parts: Sequence[Tensor] = (
        [how[f"{part}_proj_weight"] for part in "qkv"]
        if weight is None or how.get("use_separate_proj_weight")
        else weight.chunk(3)
    )
    biases = [None] * 3 if bias is None else bias.chunk(3)
    return [(w.detach(), _detach(b)) for w, b in zip(parts, biases, strict=True)]


def _detach(t: Tensor | None) -> Tensor | None:
    return None if t is None else t.detach()


def _mask(how: dict[str, Any], q: Tensor, k: Tensor, n_heads: int) -> Tensor | None:
    """Return both masks as one for scaled_dot_product_attention.

    In the function's own masks True means that a key is not read.
    """
    mask, padding = how.get("attn_mask"), how.get("key_padding_mask")
    added = (
        []
        if mask is None
        else [
            _as_additive(
                mask.view(-1, n_heads, *mask.shape[-2:]) if mask.dim() == 3 else mask[None, None], q
            )
        ]
    )
    if padding is not None:
        added.append(_as_additive(padding.view(-1, 1, 1, k.shape[2]), q))
    return torch.stack(torch.broadcast_tensors(*added)).sum(0) if added else None


def _as_additive(mask: Tensor, q: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill_(mask, -torch.inf)


def _is_causal(mask: Tensor | None, query: Tensor) -> bool:
    """Return True if a mask blocks the keys after each query and nothing else, or if it is None."""
    if mask is None:
        return True
    added = _as_additive(mask, query)
    return torch.equal(added, torch.full_like(added, -torch.inf).triu(1))


def _as_arguments(mask: Tensor | None, q: Tensor, k: Tensor) -> dict[str, Any]:
    """Return an edited mask as the function's arguments, in which True blocks a key."""
    if mask is not None:
        blocked = ~mask if mask.dtype == torch.bool else mask
        mask = blocked.expand(*q.shape[:3], k.shape[2]).flatten(0, 1)
    return {"attn_mask": mask, "key_padding_mask": None, "is_causal": False}
