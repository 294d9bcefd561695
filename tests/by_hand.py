"""Attention written out in the usual ways, all on the same weights, and recomputed by an independent route."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LETTERS, HEADS, WIDTH = "abcdefghijklmnop ", 2, 22
TEXT = "badge cafe"


def ids(text: str) -> list[int]:
    return [LETTERS.index(letter) for letter in text]


def split(t: Tensor) -> Tensor:
    return t.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def joined(t: Tensor) -> Tensor:
    return t.transpose(1, 2).flatten(2)


def blocked(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def _matmul(part: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = split(q) @ split(k).transpose(-2, -1) / part.root
    weights = part.dropout(F.softmax(scores.masked_fill(blocked(q.shape[1]), -torch.inf), dim=-1))
    return joined(weights @ split(v)), weights


def _batched(part: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = (split(t).flatten(0, 1) for t in (q, k, v))
    added = torch.zeros(q.shape[1], q.shape[1]).masked_fill(blocked(q.shape[1]), -1e4)
    weights = torch.baddbmm(added.expand(len(q), -1, -1), q, k.mT, alpha=1 / part.root).softmax(-1)
    return joined(torch.bmm(weights, v).unflatten(0, (-1, HEADS))), weights.unflatten(
        0, (-1, HEADS)
    )


def _einsum(part: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = (t.unflatten(-1, (HEADS, -1)) for t in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * part.root**-1
    scores = torch.where(blocked(q.shape[1]), torch.finfo(scores.dtype).min, scores)
    weights = torch.softmax(scores, dim=3)
    return torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2), weights


def _without_batch(part: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = (t[0].unflatten(-1, (HEADS, -1)) for t in (q, k, v))
    scores = torch.einsum("i h d, j h d -> h i j", q / part.root, k)
    scores[:, blocked(len(q))] = -torch.inf
    weights = nn.Softmax(dim=-1)(scores)
    return torch.einsum("hij,jhd->ihd", weights, v).flatten(1)[None], weights[None]


def _scaled_queries(part: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.matmul(split(q * part.root**-1), split(k).transpose(2, 3).contiguous())
    scores += torch.full_like(scores, -1e9).triu(1)
    scores = scores.float().softmax(-1).type_as(scores)
    return torch.matmul(scores, split(v)).permute(0, 2, 1, 3).reshape(q.shape), scores


def _keys_first(part: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = split(k) @ split(q).transpose(-2, -1) / part.root
    weights = scores.masked_fill_(blocked(q.shape[1]).T, -torch.inf).softmax(-2)
    return (split(v).mT @ weights).permute(0, 3, 1, 2).flatten(2), weights.mT


def _by_exp(part: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = split(q) @ split(k).mT / part.root
    scores = scores.masked_fill(blocked(q.shape[1]), -torch.inf)
    raised = torch.exp(scores - scores.max(-1, keepdim=True).values)
    weights = raised / raised.sum(-1, keepdim=True)
    return joined(weights @ split(v)), weights


FORMS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "matmul": _matmul, "baddbmm": _batched, "einsum": _einsum, "no batch": _without_batch,
    "scaled queries": _scaled_queries, "keys first": _keys_first, "exp": _by_exp,
}  # fmt: skip


class Layer(nn.Module):
    """An attention layer in one of the forms; `weights` are those of its last pass."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout, self.form, self.root = nn.Dropout(0.1), form, (WIDTH // HEADS) ** 0.5

    def forward(self, x: Tensor) -> Tensor:
        mixed, self.weights = FORMS[self.form](self, *self.qkv(x).chunk(3, -1))
        return self.out(mixed)


class Decoder(nn.Module):
    """Two attention layers that predict the next letter."""

    def __init__(self, form: str = "matmul") -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(17, WIDTH), nn.Linear(WIDTH, 17)
        self.places = nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList(Layer(form) for _ in range(2))

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row) + self.places(torch.arange(row.shape[1]))
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def drawn(module: nn.Module) -> nn.Module:
    """Draw the module's parameters, so that heads differ by more than rounding."""
    torch.manual_seed(1)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
    return module.eval()


def weights_by_other_means(layer: Layer, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Compute weights and head outputs (head, query, key or d_head) from a layer's own matrices, one head at a time."""
    pairs = zip(layer.qkv.weight.chunk(3), layer.qkv.bias.chunk(3), strict=True)
    q, k, v = (torch.addmm(bias, x, weight.T) for weight, bias in pairs)
    size, all_weights, outs = WIDTH // HEADS, [], []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        scores = torch.tensor([[float(a @ b) for b in k[:, part]] for a in q[:, part]]) / size**0.5
        raised = torch.where(allowed, scores.exp(), 0.0)
        all_weights.append(raised / raised.sum(-1, keepdim=True))
        outs.append(all_weights[-1] @ v[:, part])
    return torch.stack(all_weights), torch.stack(outs)
