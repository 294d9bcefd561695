"""Weights applied to more than one tensor of values: the second use is named, and no edit is applied to one use only."""

import pytest
import torch
from by_hand import HEADS, LETTERS, TEXT, WIDTH, blocked, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.errors import InputError
from models.trace.edits import HeadOff, MaskChange, SetWeights, Where, ZeroValue

N, SIZE = len(TEXT), WIDTH // HEADS


class Reader(nn.Module):
    """Weights that are used once, or again in one of several ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.embedding, self.how = nn.Embedding(len(LETTERS), WIDTH), how
        self.q, self.k, self.v, self.u, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.distance, self.dropout = nn.Embedding(2 * N, SIZE), nn.Dropout(0.1)

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        weights = (q @ k.mT / SIZE**0.5).masked_fill(blocked(N), -torch.inf).softmax(-1)
        made = weights @ v
        if self.how == "gate":
            made = made * torch.sigmoid(self.dropout(weights) @ split(self.u(x)))
        elif self.how == "relative values":
            places = torch.arange(N)
            values = self.distance(places[None] - places[:, None] + N)
            made = made + torch.einsum("bhqk,qkd->bhqd", weights, values)
        x = x + self.out(joined(made))
        if self.how == "next layer":
            x = x + joined(weights.contiguous() @ split(self.u(x)))
        return x


@pytest.mark.parametrize("how", ["gate", "relative values", "next layer"])
@pytest.mark.parametrize(
    "edit",
    [
        HeadOff(Where(site=""), head=0),
        ZeroValue(Where(site=""), token=1),
        MaskChange(Where(), block=((5, 0),)),
        SetWeights(Where(site="", queries=(5,), heads=(0,)), cells=((1, 0.5),)),
    ],
    ids=["head", "value", "mask", "weights"],
)
def test_a_second_use_is_named_and_an_edit_of_the_first_alone_is_refused(
    how: str, edit: HeadOff
) -> None:
    scope = models.watch(drawn(Reader(how)), encode=ids)
    trace = scope.run(TEXT)
    assert len(trace.attention) == len(trace.unrecorded) == 1
    assert "weights of the module itself again" in next(iter(trace.unrecorded.values()))
    with pytest.raises(InputError, match="whose weights are used twice"):
        scope.run(TEXT, edits=[edit])


def test_weights_that_are_used_once_are_edited_and_nothing_else_is_named() -> None:
    scope = models.watch(drawn(Reader("once")), encode=ids)
    assert scope.run(TEXT).unrecorded == {}
    trace = scope.run(TEXT, edits=[MaskChange(Where(), block=((5, 0),))])
    assert next(iter(trace.attention.values())).weights()[:, 5, 0].eq(0).all()
