"""nn.MultiheadAttention is recorded and edited as it runs when it is not watched."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from by_hand import HEADS, LETTERS, TEXT, WIDTH, blocked, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.trace.edits import SetWeights, Where
from models.trace.edits.active import editing

N, ROW = len(TEXT), torch.tensor([ids(TEXT)])
WINDOW = blocked(N) | ~torch.ones(N, N, dtype=torch.bool).triu(-2)


class Reader(nn.Module):
    """Multi-head attention whose returned weights, if any, are applied to another tensor, too."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.other, self.how = nn.Linear(WIDTH, WIDTH), how

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        made, weights = self.attention(x, x, x, **self.how)
        if weights is not None and weights.dim() == 4:
            weights = weights.mean(1)
        return made if weights is None else made + weights @ self.other(x)

    def by_other_means(self, changed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        part, x = self.attention, self.embedding(ROW)
        parts = F.linear(x, part.in_proj_weight, part.in_proj_bias).chunk(3, -1)
        q, k, v = (split(t) for t in parts)
        scores = q @ k.mT / (WIDTH // HEADS) ** 0.5
        weights = scores.masked_fill(self.how["attn_mask"], -torch.inf).softmax(-1)
        weights = weights if changed is None else changed
        made = part.out_proj(joined(weights @ v))
        if self.how["need_weights"]:
            made = made + weights.mean(1) @ self.other(x)
        return made, weights


@pytest.mark.parametrize("mask", [blocked(N), WINDOW], ids=["causal", "window"])
@pytest.mark.parametrize("hint", [False, True])
@torch.no_grad()
def test_the_mask_is_the_modules_own_whatever_its_hint(hint: bool, mask: Tensor) -> None:
    module = drawn(Reader(attn_mask=mask, is_causal=hint, need_weights=False))
    scope = models.watch(module, encode=ids)
    made, weights = module.by_other_means()
    torch.testing.assert_close(module(ROW), made, atol=1e-5, rtol=0)
    torch.testing.assert_close(scope.model(ROW)["numbers"], made, atol=1e-5, rtol=0)
    (site,) = scope.run(TEXT).attention.values()
    torch.testing.assert_close(site.weights(), weights[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("averaged", [True, False])
@torch.no_grad()
def test_weights_that_an_edit_sets_are_returned_too(averaged: bool) -> None:
    how = {"attn_mask": blocked(N), "need_weights": True, "average_attn_weights": averaged}
    module = drawn(Reader(**how))
    scope = models.watch(module, encode=ids)
    _, weights = module.by_other_means()
    changed = weights.clone()
    changed[0, 1, 5, 0] = 0
    changed[0, 1, 5] *= 0.5 / changed[0, 1, 5].sum()
    changed[0, 1, 5, 0] = 0.5
    expected, _ = module.by_other_means(changed)
    scope.run(TEXT)
    with editing([SetWeights(Where(queries=(5,), heads=(1,)), cells=((0, 0.5),))]):
        made = scope.model(ROW)["numbers"]
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=0)
