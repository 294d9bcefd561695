"""Attention written out in half precision, against the same module in float32."""

from copy import deepcopy

import by_hand_modules as written
import pytest
import torch
import torch.nn.functional as F
from by_hand import TEXT, blocked, drawn, ids
from torch import Tensor

import models
from models.analysis.checks import check_site
from models.trace.edits import Edit, HeadOff, MaskChange, SetWeights, Where, ZeroValue

HALF = torch.bfloat16, torch.float16


class SoftmaxInFloat32(written.Plain):
    """A softmax that casts its scores to float32, as in transformers."""

    def weigh(self, scores: Tensor) -> Tensor:
        scores = scores.masked_fill(blocked(scores.shape[-1]), torch.finfo(scores.dtype).min)
        return F.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)


class RaisedScores(written.Plain):
    """Scores cast to float32 before the softmax, as in Llama's own code."""

    def weigh(self, scores: Tensor) -> Tensor:
        scores = (scores / written.SIZE**0.5).masked_fill(blocked(scores.shape[-1]), -torch.inf)
        return scores.float().softmax(-1).type_as(scores)


class RaisedQueries(written.Plain):
    """Queries and keys cast to float32 before their product, as in GPT-Neo."""

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().heads(x)
        return q.float(), k.float(), v

    def weigh(self, scores: Tensor) -> Tensor:
        scores = scores.masked_fill(blocked(scores.shape[-1]), -torch.inf)
        return scores.softmax(-1).type_as(self.v.weight)


class Biased(written.Plain):
    """A bias by distance and a softmax, both in the module's own precision."""

    def weigh(self, scores: Tensor) -> Tensor:
        n = torch.arange(scores.shape[-1])
        scores = scores - 0.5 * (n[:, None] - n).abs().type_as(scores)
        return scores.masked_fill(blocked(len(n)), -torch.inf).softmax(-1)


class Capped(written.Plain):
    """Scores kept below 4 by tanh."""

    def weigh(self, scores: Tensor) -> Tensor:
        scores = 4 * torch.tanh(scores / 4)
        scores = scores.masked_fill(blocked(scores.shape[-1]), -torch.inf)
        return F.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)


PARTS = SoftmaxInFloat32, RaisedScores, RaisedQueries, Biased, Capped
EDITS = [
    MaskChange(Where(site="part"), block=((7, 2),)),
    ZeroValue(Where(site="part"), token=1),
    SetWeights(Where(site="part", heads=(0,), queries=(5,)), cells=((0, 1.0),)),
    HeadOff(Where(site="part", heads=(1,)), baseline="uniform"),
]


def scopes_of(part: type[written.Plain], dtype: torch.dtype) -> tuple[models.Scope, models.Scope]:
    """Return a module in half precision, and one with the same numbers in float32."""
    module = drawn(written.Read(part())).to(dtype)
    return tuple(models.watch(m, encode=ids) for m in (module, deepcopy(module).float()))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("part", PARTS)
@torch.no_grad()
def test_it_is_recorded_with_the_same_causes_as_in_float32(
    part: type[written.Plain], dtype: torch.dtype
) -> None:
    half, exact = (scope.run(TEXT).attention["part"] for scope in scopes_of(part, dtype))
    assert half.has_causes
    assert half.similarity.name == exact.similarity.name
    assert half.similarity.learned == exact.similarity.learned
    assert [layer.name for layer in half.mask.layers] == ["look-ahead"]
    assert len(half.terms) == len(exact.terms)
    assert (half.weights() - exact.weights()).abs().max() < 16 * torch.finfo(dtype).eps
    assert [check for check in check_site(half) if not check.passed] == []


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: type(edit).__name__)
@torch.no_grad()
def test_an_edit_changes_it_as_in_float32(
    part: type[written.Plain], dtype: torch.dtype, edit: Edit
) -> None:
    half, exact = (
        scope.run_batch([[TEXT]], edits=[edit])[0].attention["part"]
        for scope in scopes_of(part, dtype)
    )
    assert (half.out.float() - exact.out).abs().max() < 16 * torch.finfo(dtype).eps
