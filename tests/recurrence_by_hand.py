"""The recurrent encoder-decoder by its equations, one sentence at a time, with a change applied to each state as it is computed."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from models.architectures.seq2seq import Seq2Seq

Change = Callable[[str, int, Tensor, int], Tensor]


def elman(x: Tensor, h: Tensor, cell: nn.Module, suffix: str) -> Tensor:
    """h_t = tanh(W x_t + U h_{t−1} + b), Elman 1990."""
    w, u, b_x, b_h = (
        getattr(cell, f"{name}{suffix}")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    return torch.tanh(x @ w.T + b_x + h @ u.T + b_h)


def gru(x: Tensor, h: Tensor, cell: nn.Module, suffix: str) -> Tensor:
    """Cho et al. 2014, in torch's arrangement: reset r, update z, candidate n."""
    w, u, b_x, b_h = (
        getattr(cell, f"{name}{suffix}")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    from_x, from_h = (x @ w.T + b_x).chunk(3, -1), (h @ u.T + b_h).chunk(3, -1)
    r, z = (torch.sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2], strict=True))
    n = torch.tanh(from_x[2] + r * from_h[2])
    return (1 - z) * n + z * h


STEPS = {"tanh": elman, "gru": gru}


def as_it_is(name: str, i: int, vector: Tensor, half: int) -> Tensor:
    """Return the vector of token i unchanged; `half` is the direction in `encoder.states`."""
    return vector


def encoded_by_hand(model: Seq2Seq, source: list[int], change: Change = as_it_is) -> Tensor:
    """Return h_1 … h_n of one sentence without padding, (n, d_memory), from the equations alone."""
    config, recurrence = model.config, model.encoder.recurrence
    x = model.embedding.weight[source] * math.sqrt(config.d_model)
    directions = []
    for suffix, order in (("_l0", range(len(x))), ("_l0_reverse", range(len(x) - 1, -1, -1))):
        if suffix == "_l0" or config.bidirectional:
            h, states = torch.zeros(config.d_hidden), {}
            for t in order:
                h = STEPS[config.cell](x[t], h, recurrence, suffix)
                states[t] = h = change("encoder.states", t, h, len(directions))
            directions.append(torch.stack([states[t] for t in range(len(x))]))
    return torch.cat(directions, -1)


def logits_by_hand(
    model: Seq2Seq, source: list[int], target: list[int], change: Change = as_it_is
) -> Tensor:
    """Return the logits of one sentence, (m, vocab), from the equations of Bahdanau et al. 2015."""
    c, parts = model.config, model.decoder
    h = encoded_by_hand(model, source, change)
    ends = [h[-1, : c.d_hidden], h[0, c.d_hidden :]]
    s = torch.tanh(torch.cat(ends) @ parts.W_s.weight.T + parts.W_s.bias)
    rows = []
    for i, token in enumerate(target):
        y = model.embedding.weight[token] * math.sqrt(c.d_model)
        if c.attention == "none":
            s = STEPS[c.cell](y, s, parts.recurrence, "_l0")
            s = change("decoder.states", i, s, 0)
            read = torch.cat([s, y])
        else:
            learned = parts.alignment.similarity
            energies = torch.stack(
                [learned.v @ torch.tanh(learned.W @ s + learned.U @ h_j) for h_j in h]
            )
            alpha = torch.exp(energies) / torch.exp(energies).sum()
            context = sum(a * h_j for a, h_j in zip(alpha, h, strict=True))
            context = change("decoder.contexts", i, context, 0)
            s = STEPS[c.cell](torch.cat([y, context]), s, parts.recurrence, "")
            s = change("decoder.states", i, s, 0)
            read = torch.cat([s, y, context])
        rows.append(
            torch.tanh(read @ parts.W_r.weight.T + parts.W_r.bias) @ model.embedding.weight.T
        )
    return torch.stack(rows)
