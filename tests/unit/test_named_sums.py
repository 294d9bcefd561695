"""Only what weighs values is named, in the module that does it, and as what it is."""

import torch
import torch.nn.functional as F
from by_hand import HEADS, LETTERS, TEXT, WIDTH, blocked, drawn, ids, joined, split
from torch import Tensor, nn

import models

N, SIZE = len(TEXT), WIDTH // HEADS


class Part(nn.Module):
    def __init__(self, how: str = "softmax") -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.mix, self.how = nn.Parameter(torch.rand(HEADS, HEADS)), how

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        if self.how == "linear":
            q, k = F.elu(q) + 1, F.elu(k) + 1
            total = (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)
            return self.out(joined(q @ (k.mT @ v) / total))
        scores = q @ k.mT / SIZE**0.5
        if self.how == "talking heads":
            scores = torch.einsum("hg,bgqk->bhqk", self.mix, scores)
        return self.out(joined(scores.masked_fill(blocked(N), -torch.inf).softmax(-1) @ v))


class Stream(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.embedding, self.parts = nn.Embedding(len(LETTERS), WIDTH), nn.ModuleList(parts)

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        for part in self.parts:
            x = x + part(x)
        return x


def test_linear_attention_in_one_layer_names_nothing_in_the_next() -> None:
    trace = models.watch(drawn(Stream(Part("linear"), Part())), encode=ids).run(TEXT)
    assert (list(trace.attention), trace.unrecorded) == (["parts.1"], {})
    assert trace.attention["parts.1"].has_causes


def test_scores_that_are_mixed_over_heads_are_no_sum_over_tokens() -> None:
    trace = models.watch(drawn(Stream(Part("talking heads"))), encode=ids).run(TEXT)
    assert (list(trace.attention), trace.unrecorded) == (["parts.0"], {})
