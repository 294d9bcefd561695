"""Modules with unusual attention: heads as modules or in a loop, temperatures, shared keys, softmaxes that are no attention."""

import torch
from by_hand import HEADS, LETTERS, WIDTH, blocked, split
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

SIZE = WIDTH // HEADS


class Read(nn.Module):
    """Embed letters, attend with `part`, and keep the weights that the part returns."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.embedding, self.part = nn.Embedding(len(LETTERS), WIDTH), part

    def forward(self, row: Tensor) -> Tensor:
        return self.part(self.embedding(row))


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, SIZE, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).mT / SIZE**0.5
        self.weights = scores.masked_fill(blocked(x.shape[1]), -torch.inf).softmax(-1)
        return self.weights @ self.v(x)


class HeadModules(nn.Module):
    """Heads that are separate modules in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.out = nn.ModuleList(Head() for _ in range(HEADS)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([head(x) for head in self.heads], -1))


class HeadLoop(nn.Module):
    """Heads computed in a loop over slices of the matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        self.weights, outs = [], []
        for q, k, v in zip(*(m(x).split(SIZE, -1) for m in (self.q, self.k, self.v)), strict=True):
            scores = torch.bmm(q, k.transpose(1, 2)) / SIZE**0.5
            scores = scores.masked_fill(blocked(x.shape[1]), -torch.inf)
            self.weights.append(scores.softmax(-1))
            outs.append(torch.bmm(self.weights[-1], v))
        return self.out(torch.cat(outs, -1))


class Plain(nn.Module):
    """Queries, keys and values; subclasses define what happens to the scores and the axis of the softmax."""

    key_heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.q, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(WIDTH, self.key_heads * SIZE) for _ in range(2))
        self.temperature = nn.Parameter(torch.rand(HEADS, 1, 1))

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return split(self.q(x)), split(self.k(x)), split(self.v(x))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        self.weights = self.weigh(q @ k.mT)
        return self.out((self.weights @ v).transpose(1, 2).flatten(2))


class Tempered(Plain):
    """A learned temperature for each head."""

    def weigh(self, scores: Tensor) -> Tensor:
        return (scores * self.temperature.exp()).softmax(-1)


class Capped(Plain):
    """Scores kept below 2 by tanh, then masked."""

    def weigh(self, scores: Tensor) -> Tensor:
        scores = 2 * torch.tanh(0.3 * scores / 2)
        return scores.masked_fill(blocked(scores.shape[-1]), -1e9).softmax(-1)


class Sloped(Plain):
    """ALiBi: a slope for each head times the distance."""

    def weigh(self, scores: Tensor) -> Tensor:
        n = torch.arange(scores.shape[-1])
        slopes = torch.tensor([0.5, 0.25])[:, None, None]
        scores = scores / SIZE**0.5 - slopes * (n[:, None] - n).abs()
        return scores.masked_fill(blocked(len(n)), -torch.inf).softmax(-1)


class Squared(Plain):
    """Squared scores, which no scale, bias or mask explains."""

    def weigh(self, scores: Tensor) -> Tensor:
        return (scores / 4).square().softmax(-1)


class Logged(Plain):
    """A softmax computed as exp(log_softmax)."""

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.log_softmax(-1).exp()


class RaisedInPlace(Plain):
    """A softmax computed with exp and a division, both in place."""

    def weigh(self, scores: Tensor) -> Tensor:
        scores = scores - scores.amax(-1, keepdim=True)
        scores.exp_()
        scores /= scores.sum(-1, keepdim=True)
        return scores


class EmptyAdded(Plain):
    """Scores from one call that adds 0 times a tensor, whatever its numbers."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.flatten(0, 1) for t in self.heads(x))
        nothing = torch.full((len(q), q.shape[1], k.shape[1]), torch.nan)
        weights = torch.baddbmm(nothing, q, k.mT, beta=0, alpha=0.5).softmax(-1)
        self.weights = weights.unflatten(0, (-1, HEADS))
        return self.out((weights @ v).unflatten(0, (-1, HEADS)).transpose(1, 2).flatten(2))


class Conjugate(Plain):
    """Scores as the real part of a complex product."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        self.weights = (torch.complex(q, q) @ torch.complex(k, -k).mT).real.softmax(-1)
        return self.out((self.weights @ v).transpose(1, 2).flatten(2))


class Mapped(Plain):
    """Each head of each text computed separately, under torch.vmap."""

    def forward(self, x: Tensor) -> Tensor:
        attend = torch.vmap(torch.vmap(lambda q, k, v: (q @ k.mT).softmax(-1) @ v))
        return self.out(attend(*self.heads(x)).transpose(1, 2).flatten(2))


class OverQueries(Plain):
    """A softmax over the queries, by mistake."""

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2)


class OverHeads(Plain):
    """A softmax over the heads, its default axis when none is given."""

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(1)


class Renormalised(Plain):
    """The two largest weights of each row, rescaled to sum to 1."""

    def weigh(self, scores: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        kept = weights >= weights.topk(2).values[..., -1:]
        return weights * kept / (weights * kept).sum(-1, keepdim=True)


class SharedKeys(Plain):
    """One key head, read by all heads."""

    key_heads = 1

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return split(self.q(x)), self.k(x)[:, None], self.v(x)[:, None]


class UnusedHead(Plain):
    """The second head is multiplied by 0 before W_O."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        self.weights = self.weigh(q @ k.mT)
        outs = (self.weights @ v) * torch.tensor([1.0, 0.0])[:, None, None]
        return self.out(outs.transpose(1, 2).flatten(2))


class Router(nn.Module):
    """A mixture of four experts, as many as a text of four has tokens, and a soft choice of letters: no attention."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.seen = nn.Linear(WIDTH, 4), Plain()
        self.experts, self.table = (
            nn.Parameter(torch.rand(4, WIDTH, WIDTH)),
            nn.Parameter(torch.rand(17, WIDTH)),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.seen(x)
        made = torch.einsum("bnd,edw->bnew", x, self.experts)
        x = torch.einsum("bne,bned->bnd", self.gate(x).softmax(-1), made)
        return (x @ self.table.T).softmax(-1) @ self.table


class Checkpointed(nn.Module):
    """An attention layer under torch's checkpoint, in a Sequential, without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(nn.LayerNorm(WIDTH), Plain(), nn.Identity())

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.parts, x, use_reentrant=False)


class Linear(Plain):
    """Scores without a softmax."""

    def weigh(self, scores: Tensor) -> Tensor:
        return scores / scores.shape[-1]
