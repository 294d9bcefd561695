"""Sensitivity of each output to each input: ‖∂y_i/∂x_j‖, the Frobenius norm of a Jacobian block.

Autograd through a whole layer takes n·d_out backward passes. Here autograd gives the derivatives of
the small parts (the gates of a cell, the scores of a head) and the chain rule multiplies them,
which is exact and some ten times as fast. `by_autograd` is the plain route for one output, for
comparison.
"""

from functools import singledispatch

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from models.analysis.sequence_layers import (
    BACKWARD,
    Convolutional,
    Direction,
    Layer,
    Recurrent,
    SelfAttention,
)
from models.layers.similarity import AttentionSimilarity
from models.trace import record

Norms = Float[Tensor, "n n"]  # [i, j] = ‖∂y_i/∂x_j‖


@singledispatch
def norms(layer: Layer, x: Float[Tensor, "n d_in"]) -> Norms:
    """Return ‖∂y_i/∂x_j‖ at [i, j] of `layer` at x; exactly 0 where y_i cannot see x_j."""
    raise TypeError(f"no Jacobian for {type(layer).__name__}")


@norms.register
def _recurrent(layer: Recurrent, x: Tensor) -> Tensor:
    """Return the norms of both directions: their outputs are concatenated, so squares add."""
    squares = []
    for name, direction in layer.directions.items():
        turned = (
            _one_direction(direction, x.flip(0)).flip(0, 1)
            if name == BACKWARD
            else _one_direction(direction, x)
        )
        squares.append(turned.square())
    return torch.stack(squares).sum(0).sqrt()


def _one_direction(direction: Direction, x: Tensor) -> Tensor:
    """∂h_i/∂x_j = A_i A_{i−1} … A_{j+1} B_j with A_t = ∂h_t/∂h_{t−1} and B_t = ∂h_t/∂x_t.

    Pascanu et al. 2013, eq. 5.
    """
    n, d_in = x.shape
    result, jacobian = x.new_zeros(n, n), x.new_zeros(direction.d_hidden, 0)
    for t, (A, B) in enumerate(zip(*cell_jacobians(direction, x), strict=True)):
        # (d_hidden, (t+1)·d_in): ∂h_t/∂x_0 … ∂h_t/∂x_t
        jacobian = torch.cat([A @ jacobian, B], dim=1)
        result[t, : t + 1] = jacobian.view(len(jacobian), t + 1, d_in).square().sum((0, 2)).sqrt()
    return result


def cell_jacobians(
    direction: Direction, x: Float[Tensor, "n d_in"]
) -> tuple[Float[Tensor, "n d_hidden d_hidden"], Float[Tensor, "n d_hidden d_in"]]:
    """Return ∂h_t/∂h_{t−1} and ∂h_t/∂x_t at every t.

    A unit's gates act on it alone, so one backward pass of their sum gives the derivative of each,
    and the matrices are those times U and W: diag(1 − h²)·U in Elman's case.
    """
    with torch.no_grad():
        before = torch.cat([x.new_zeros(1, direction.d_hidden), direction.states(x)[:-1]])
        wx, uh = (
            F.linear(x, direction.W, direction.b_W),
            F.linear(before, direction.U, direction.b_U),
        )
    with torch.enable_grad():
        inputs = [part.clone().requires_grad_() for part in (wx, uh, before)]
        by_wx, by_uh, by_h = torch.autograd.grad(
            direction.step(*inputs).sum(), inputs, allow_unused=True
        )
    A, B = (
        _through_gates(by_uh, direction.U, direction.d_hidden),
        _through_gates(by_wx, direction.W, direction.d_hidden),
    )
    return (A if by_h is None else A + torch.diag_embed(by_h)), B


def _through_gates(by_gate: Tensor, matrix: Tensor, d_hidden: int) -> Tensor:
    """Σ over the gates of diag(∂h/∂gate)·matrix.

    (n, gates·d_hidden) and (gates·d_hidden, d) → (n, d_hidden, d).
    """
    total = by_gate.new_zeros(len(by_gate), d_hidden, matrix.shape[1])
    for slope, part in zip(by_gate.split(d_hidden, dim=1), matrix.split(d_hidden), strict=True):
        total.addcmul_(slope[:, :, None], part)
    return total


@norms.register
def _convolutional(layer: Convolutional, x: Tensor) -> Tensor:
    """Go backwards from each output through the stack, over its receptive field only."""
    n, side = len(x), layer.field // 2
    slopes, y = [], x.T[None]
    for kernel, bias in zip(layer.kernels, layer.biases, strict=True):
        y = F.conv1d(y, kernel, bias, padding=layer.width // 2).tanh()
        slopes.append(1 - y.square())  # tanh', (1, d_out, n)
    result = x.new_zeros(n, n)
    for i in range(n):
        near = slice(max(0, i - side), min(n, i + side + 1))
        back = torch.zeros(slopes[0].shape[1], slopes[0].shape[1], near.stop - near.start)
        back[:, :, i - near.start] = torch.eye(len(back))  # ∂y_i/∂y_i, (d_out, d_out, field)
        for kernel, slope in zip(reversed(layer.kernels), reversed(slopes), strict=True):
            back = F.conv_transpose1d(back * slope[:, :, near], kernel, padding=layer.width // 2)
        result[i, near] = back.square().sum((0, 1)).sqrt()
    return result


@norms.register
def _self_attention(layer: SelfAttention, x: Tensor) -> Tensor:
    """∂y_i/∂x_j = Σ_h α_h W_O^h W_V^h + Σ_h (W_O^h u_h) w_hᵀ for j ≠ i.

    x_i also moves its own queries. Here u_h = ∂head_out_i/∂score_ij, w_h = ∂score_ij/∂x_j, and α_h
    is the weight of (i, j) in head h. The squared norm is three small sums, so that only the
    diagonal needs a d_model × d_model matrix. In double precision, because the sums may almost
    cancel.
    """
    with torch.no_grad(), record() as recording:
        layer(x)
    site = recording.attention[layer.module.path]
    by_q, by_k = score_gradients(site.similarity, site.q[0], site.k[0])
    v, weights, heads, by_q, by_k = (
        t.double() for t in (site.v[0], site.weights(), site.head_out(), by_q, by_k)
    )
    W_Q, W_K, W_V = (
        site.projections[name][0].double().unflatten(0, (site.n_heads, -1))
        for name in ("W_Q", "W_K", "W_V")
    )
    W_O = (
        site.projections["W_O"][0].double().unflatten(1, (site.n_heads, -1)).transpose(0, 1)
    )  # (head, d_model, d_head)
    through_v = (W_O @ W_V).flatten(1)
    products = through_v @ through_v.T  # (head, head): W_O W_V of two heads, multiplied
    rows = []
    for i in range(len(x)):
        alpha = weights[:, i]  # (head, n)
        u = alpha[..., None] * (v - heads[:, i, None])  # (head, n, d_head)
        w, a = by_k[:, i] @ W_K, u @ W_O.transpose(1, 2)  # (head, n, d_model)
        p, r = torch.einsum("gnd,hde->gnhe", a, W_O), torch.einsum("gnd,hed->gnhe", w, W_V)
        square = (alpha * (products @ alpha)).sum(0) + 2 * torch.einsum(
            "gnhe,gnhe,hn->n", p, r, alpha
        )
        square += torch.einsum("gnd,hnd,gne,hne->n", a, a, w, w)
        row = square.clamp(min=0).sqrt()
        jacobian = (
            alpha[:, i, None, None] * W_V
            + u[:, i, :, None] * w[:, i, None]
            + u.transpose(1, 2) @ (by_q[:, i] @ W_Q)
        )
        row[i] = (W_O @ jacobian).sum(0).norm()
        rows.append(row)
    return torch.stack(rows).to(x.dtype)


def score_gradients(
    similarity: AttentionSimilarity, q: Float[Tensor, "head n d"], k: Float[Tensor, "head n d"]
) -> tuple[Float[Tensor, "head n n d"], Float[Tensor, "head n n d"]]:
    """Return ∂score_ij/∂q_i and ∂score_ij/∂k_j at [head, i, j], for any similarity.

    score_ij depends on no other q and k.
    """
    with torch.enable_grad():
        q, k = q.detach().requires_grad_(), k.detach().requires_grad_()
        scores, positions = similarity(q, k), range(q.shape[1])
        by_q = [
            torch.autograd.grad(scores[:, :, j].sum(), q, retain_graph=True)[0] for j in positions
        ]
        by_k = [torch.autograd.grad(scores[:, i].sum(), k, retain_graph=True)[0] for i in positions]
    return torch.stack(by_q, dim=2), torch.stack(by_k, dim=1)


def by_autograd(layer: Layer, x: Float[Tensor, "n d_in"], i: int) -> Float[Tensor, "n"]:
    """Return ‖∂y_i/∂x_j‖ for every j, by autograd through the whole layer.

    One batched backward pass for all elements of y_i.
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = layer(x)[i]
        # (d_out, n, d_in)
        (jacobian,) = torch.autograd.grad(y, x, torch.eye(len(y)), is_grads_batched=True)
    return jacobian.square().sum((0, 2)).sqrt()


def by_offset(values: Norms, counted: Bool[Tensor, "n n"]) -> list[tuple[int, float, int]]:
    """Return (j − i, mean over the counted pairs with that offset, their number), ascending.

    Offset −1 is the token just before the output's own, +1 the one just after. Offsets without
    pairs are left out.
    """
    rows = []
    for offset in range(1 - len(values), len(values)):
        norms = values.diagonal(offset)[counted.diagonal(offset)]
        if norms.numel():
            rows.append((offset, float(norms.mean()), norms.numel()))
    return rows


def norms_by_distance(values: Norms, counted: Bool[Tensor, "n n"]) -> list[tuple[int, float, int]]:
    """Return (|i − j|, mean over the counted pairs at that distance, their number), nearest first.

    Distances without pairs are left out.
    """
    n = len(values)
    apart = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    rows = []
    for distance in range(n):
        norms = values[counted & (apart == distance)]
        if norms.numel():
            rows.append((distance, float(norms.mean()), norms.numel()))
    return rows
