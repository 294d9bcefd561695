"""Heads of scaled_dot_product_attention are found on any axis before the token axis."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from by_hand import HEADS, LETTERS, TEXT, WIDTH, blocked, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.errors import InputError
from models.trace.edits import HeadOff, MaskChange, Where
from models.trace.edits.active import editing


def _on_the_batch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).unflatten(0, (-1, HEADS))


def _masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.flatten(0, 1)[:, None] for t in (q, k, v))
    mask = torch.zeros(len(q), 1, *[q.shape[2]] * 2).masked_fill(blocked(q.shape[2]), -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[:, 0].unflatten(0, (-1, HEADS))


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t[:, None] for t in (q, k[:, :1], v[:, :1]))
    k, v = (t.expand(-1, -1, HEADS, -1, -1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0]


FORMS = {"heads on the batch": _on_the_batch, "with a mask": _masked, "five axes": _grouped}


class Reader(nn.Module):
    """An attention layer in one of the forms; `allowed` and `factors` change it without an edit."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.embedding, self.attend = nn.Embedding(len(LETTERS), WIDTH), attend
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        return self.out(joined(self.attend(*(split(each(x)) for each in (self.q, self.k, self.v)))))

    def by_other_means(self, row: Tensor, allowed: Tensor, factors: Tensor) -> Tensor:
        x, shared = self.embedding(row), self.attend is _grouped
        q, k, v = (each(x).unflatten(-1, (HEADS, -1)) for each in (self.q, self.k, self.v))
        outs = []
        for head in range(HEADS):
            of = 0 if shared else head
            scores = q[:, :, head] @ k[:, :, of].mT / (WIDTH // HEADS) ** 0.5
            self.weights = torch.where(allowed, scores.exp(), 0.0)
            self.weights /= self.weights.sum(-1, keepdim=True)
            outs.append(factors[head] * (self.weights @ v[:, :, of]))
        return self.out(torch.cat(outs, -1))


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_all_heads_are_recorded_and_edited(form: str) -> None:
    module = drawn(Reader(FORMS[form]))
    scope, row, n = models.watch(module, encode=ids), torch.tensor([ids(TEXT)]), len(TEXT)
    trace = scope.run(TEXT)
    (site,) = trace.attention.values()
    module.by_other_means(row, ~blocked(n), torch.ones(HEADS))
    assert (site.n_heads, trace.unrecorded) == (HEADS, {})
    torch.testing.assert_close(site.weights()[-1], module.weights[0], atol=1e-6, rtol=0)
    off, painted = torch.ones(HEADS), ~blocked(n)
    off[1], painted[3, 1] = 0, False
    for edit, changed in (
        (HeadOff(Where(site=site.name), head=1), (~blocked(n), off)),
        (MaskChange(Where(site=site.name), block=((3, 1),)), (painted, torch.ones(HEADS))),
    ):
        expected = module.by_other_means(row, *changed)
        with editing([edit]):
            made = scope.model(row)["numbers"]
        torch.testing.assert_close(made, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("form", FORMS)
def test_the_heads_of_several_texts_are_kept_apart(form: str) -> None:
    scope = models.watch(drawn(Reader(FORMS[form])), encode=ids)
    texts = TEXT, TEXT[::-1], "cabbage fa"
    for text, trace in zip(texts, scope.run_batch([[text] for text in texts]), strict=True):
        (site,), (alone,) = trace.attention.values(), scope.run(text).attention.values()
        torch.testing.assert_close(site.weights(), alone.weights(), atol=1e-6, rtol=0)


def test_two_directions_on_the_batch_axis_are_not_shown_as_one_text() -> None:
    def both(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    class Two(Reader):
        def forward(self, row: Tensor) -> Tensor:
            forwards, backwards = super().forward(torch.cat([row, row.flip(1)])).chunk(2)
            return forwards + backwards.flip(1)

    with pytest.raises(InputError, match="2 rows, where the run has 1 text"):
        models.watch(drawn(Two(both)), encode=ids).run(TEXT)
