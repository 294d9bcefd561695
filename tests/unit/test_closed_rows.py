"""A row that finite numbers block everywhere attends uniformly, as the softmax does."""

import pytest
import torch
import torch.nn.functional as F
from by_hand import HEADS, LETTERS, TEXT, WIDTH, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.analysis.checks import check_site
from models.hub.recording.masks import explain_mask
from models.layers.masks import PADDING
from models.trace.edits import MaskChange, Where
from models.trace.edits.active import editing

N, LOW = len(TEXT), {"-1e9": -1e9, "the lowest number": torch.finfo(torch.float32).min}


class Strict(nn.Module):
    """No token attends to itself; the first, which has no token before it, attends to all uniformly."""

    def __init__(self, low: float, fused: bool) -> None:
        super().__init__()
        self.embedding, self.low, self.fused = nn.Embedding(len(LETTERS), WIDTH), low, fused
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.blocked = torch.ones(N, N, dtype=torch.bool).triu(0)

    def forward(self, row: Tensor) -> Tensor:
        q, k, v = (split(each(self.embedding(row))) for each in (self.q, self.k, self.v))
        if self.fused:
            added = torch.zeros(N, N).masked_fill(self.blocked, self.low)
            made = F.scaled_dot_product_attention(q, k, v, attn_mask=added)
        else:
            scores = q @ k.mT / (WIDTH // HEADS) ** 0.5
            made = scores.masked_fill(self.blocked, self.low).softmax(-1) @ v
        return self.out(joined(made))


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("fused", [False, True], ids=["by hand", "fused"])
@torch.no_grad()
def test_a_closed_row_is_shown_as_it_is_read_and_an_edit_elsewhere_leaves_it(
    fused: bool, low: str
) -> None:
    module, row = drawn(Strict(LOW[low], fused)), torch.tensor([ids(TEXT)])
    scope = models.watch(module, encode=ids)
    (site,) = scope.run(TEXT).attention.values()
    torch.testing.assert_close(site.weights()[:, 0], torch.full((HEADS, N), 1 / N))
    assert site.weights()[:, 1:][:, module.blocked[1:]].eq(0).all()
    derived = site.scores().masked_fill(~site.allowed(head=None), -torch.inf).softmax(-1)
    torch.testing.assert_close(derived, site.weights(), atol=1e-6, rtol=0)
    assert [check for check in check_site(site) if not check.passed] == []
    with editing([MaskChange(Where(), block=((3, 1),))]):
        made = scope.model(row)["numbers"]
    module.blocked = module.blocked.clone()
    module.blocked[3, 1] = True
    torch.testing.assert_close(made, module(row), atol=1e-5, rtol=0)


def test_rows_of_padding_open_nothing() -> None:
    is_token = torch.tensor([[False, True, True], [True, True, True]])
    allowed = torch.ones(3, 3, dtype=torch.bool).tril() & is_token[:, None, None]
    mask = torch.zeros(2, 1, 3, 3).masked_fill(~allowed, -1e9)
    explained = explain_mask(mask, False, 3, 3, is_token, mask.device).mask
    assert PADDING in [layer.name for layer in explained.layers]
    assert explained.allowed is not None
    assert torch.equal(explained.allowed.expand_as(allowed), allowed)
