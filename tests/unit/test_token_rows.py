"""Weights drawn from tokens to tokens are over tokens, in their order: not over features, nor tokens that the module has moved."""

import pytest
import torch
import torch.nn.functional as F
from by_hand import HEADS, LETTERS, WIDTH, blocked, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.analysis.metrics import logits_of
from models.errors import InputError
from models.trace.edits import HeadOff, Where

SIZE = WIDTH // HEADS
TEXT = "badge cafe fading dig"
AS_LONG = TEXT[:SIZE]  # as many tokens as a head has features


class Usual(nn.Module):
    """Attention over tokens; `last_weights` are those of its last pass."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return split(self.q(x)), split(self.k(x)), split(self.v(x))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        self.last_weights = (q @ k.mT / SIZE**0.5).softmax(-1)
        return self.out(joined(self.last_weights @ v))


class Normed(Usual):
    """Normalised queries and keys, which are no products with a matrix."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return self.out(joined((q @ k.mT).softmax(-1) @ v))


class Features(Usual):
    """Features attend to features (XCiT)."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.mT for t in self.heads(x))
        return self.out(joined(((q @ k.mT / SIZE**0.5).softmax(-1) @ v).mT))


class FusedFeatures(Usual):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.mT for t in self.heads(x))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v).mT))


class Efficient(Usual):
    """Keys are softmaxed over the tokens, queries over the features (Shen et al. 2021)."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        return self.out(joined(q.softmax(-1) @ (k.softmax(-2).mT @ v)))


class Moved(Usual):
    """Tokens are moved before the attention, and back after it."""

    def __init__(self, order: list[int] | None = None) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        order = torch.arange(n).flip(0)
        if self.order is not None:
            order = torch.tensor([*self.order, *range(len(self.order), n)])
        x = x[:, order]
        q, k, v = self.heads(x)
        weights = (q @ k.mT).masked_fill(blocked(n), -torch.inf).softmax(-1)
        return self.out(joined(weights @ v))[:, order.argsort()]


class FusedMoved(Usual):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x.roll(1, 1))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v))).roll(-1, 1)


class MovedRenormalised(Usual):
    """Attention over reversed tokens, of which only the weights are known."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x.flip(1))
        weights = (q @ k.mT).softmax(-1) ** 2
        return self.out(joined(weights / weights.sum(-1, keepdim=True) @ v)).flip(1)


class ReversedKeys(Usual):
    """Queries in the order of the tokens, keys and values in reverse."""

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().heads(x)
        return q, k.flip(2), v.flip(2)


class Shifted(Usual):
    """Each token is followed by its position."""

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().heads(F.pad(x, (0, 0, 1, 0))[:, :-1])


class Stream(nn.Module):
    def __init__(self, *parts: nn.Module, n: int | None = None) -> None:
        super().__init__()
        self.embedding, self.parts = nn.Embedding(len(LETTERS), WIDTH), nn.ModuleList(parts)
        self.places = None if n is None else nn.Parameter(torch.zeros(n, WIDTH))
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        x = x if self.places is None else x + self.places
        for part in self.parts:
            x = x + part(x)
        return self.head(x)


def scope_of(*parts: nn.Module, n: int | None = None) -> models.Scope:
    module = drawn(Stream(*parts, n=n))
    return models.watch(module, encode=ids, decode=lambda row: "".join(LETTERS[i] for i in row))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("make", [Features, FusedFeatures, Efficient])
@pytest.mark.parametrize("n", [SIZE, SIZE - 1])
def test_weights_of_features_are_not_drawn_as_weights_of_tokens(make: type, n: int) -> None:
    trace = scope_of(Usual(), make()).run(TEXT[:n])
    assert list(trace.attention) == ["parts.0"]
    assert list(trace.unrecorded) == ["parts.1"]
    assert "text" not in trace.unrecorded["parts.1"]  # an image has tokens, too
    with pytest.raises(InputError):
        scope_of(make()).run(TEXT[:n])


@pytest.mark.parametrize("make", [Usual, Normed, lambda: Moved(list(range(5)))])
def test_a_text_with_as_many_tokens_as_features_is_shown_like_any_other(make: type) -> None:
    scope = scope_of(make(), make())
    for text in (AS_LONG, TEXT):
        trace = scope.run(text)
        assert (list(trace.attention), trace.unrecorded) == (["parts.0", "parts.1"], {})


def test_a_module_that_reads_texts_of_one_length_only_is_shown() -> None:
    trace = scope_of(Normed(), Normed(), n=SIZE).run(AS_LONG)
    assert (list(trace.attention), trace.unrecorded) == (["parts.0", "parts.1"], {})


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(
    "make",
    [
        Moved,
        FusedMoved,
        Shifted,
        ReversedKeys,
        lambda: Moved([1, 0]),
        lambda: Moved([0, 1, 2, 4, 3]),
    ],
)
@pytest.mark.parametrize("text", ["badge", TEXT])
def test_tokens_that_the_module_moves_are_not_shown_as_the_texts(make: type, text: str) -> None:
    """This holds in the first layer, and after a layer that has mixed all tokens."""
    trace = scope_of(make(), Usual(), make()).run(text)
    assert list(trace.attention) == ["parts.1"]
    assert list(trace.unrecorded) == ["parts.0", "parts.2"]
    assert {"not at the positions" in reason for reason in trace.unrecorded.values()} == {True}


def test_moved_tokens_are_not_shown_if_only_weights_are_known() -> None:
    trace = scope_of(Usual(), MovedRenormalised()).run(TEXT)
    assert list(trace.attention) == ["parts.0"]
    assert "not at the positions" in trace.unrecorded["parts.1"]


def test_an_edit_does_not_reach_attention_that_is_not_shown() -> None:
    scope = scope_of(Usual(), Features())
    edit = HeadOff(Where(kind="self", heads=(0,)))
    plain, edited = scope.run(AS_LONG), scope.run(AS_LONG, edits=[edit])
    only = HeadOff(Where(site="parts.0", heads=(0,)))
    expected = scope.run(AS_LONG, edits=[only])
    assert list(edited.attention) == list(plain.attention) == ["parts.0"]
    assert torch.equal(logits_of(edited.outputs), logits_of(expected.outputs))


def test_the_last_pass_of_the_module_is_that_of_the_text() -> None:
    part = Usual()
    (site,) = scope_of(part).run(TEXT).attention.values()
    assert torch.equal(site.weights(), part.last_weights[0])
