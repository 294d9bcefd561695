"""Only weighted sums of values are named, in the module that computes them, and as what they are."""

import pytest
import torch
import torch.nn.functional as F
from by_hand import HEADS, LETTERS, TEXT, WIDTH, blocked, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.errors import InputError
from models.trace.edits import HeadOff, Where

N, SIZE = len(TEXT), WIDTH // HEADS


class Part(nn.Module):
    def __init__(self, how: str = "softmax") -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.places = nn.Embedding(N, WIDTH)
        self.mix, self.how = nn.Parameter(torch.rand(HEADS, HEADS)), how

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        if self.how == "linear":
            q, k = F.elu(q) + 1, F.elu(k) + 1
            total = (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)
            return self.out(joined(q @ (k.mT @ v) / total))
        scores = q @ k.mT
        if self.how == "positions":
            scores = q @ split(self.places(torch.arange(N))[None]).mT + scores
        scores = scores / SIZE**0.5
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


def test_scores_with_a_position_term_still_count_as_scores_between_tokens() -> None:
    trace = models.watch(drawn(Stream(Part("positions"))), encode=ids).run(TEXT)
    assert (list(trace.attention), trace.unrecorded) == (["parts.0"], {})
    assert trace.attention["parts.0"].has_causes


@pytest.mark.parametrize("n_latents", [N, N - 1])
def test_latents_are_not_taken_for_tokens_whatever_their_number(n_latents: int) -> None:
    class Latents(nn.Module):
        """Learned vectors that attend to the text, and then to each other."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.latents = nn.Embedding(17, WIDTH), nn.Embedding(n_latents, WIDTH)
            self.read, self.think = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, row: Tensor) -> Tensor:
            x, z = self.embedding(row), self.latents.weight[None]
            z = z + (self.read(z) @ x.mT).softmax(-1) @ x
            return x + ((self.think(z) @ z.mT).softmax(-1) @ z).mean(1, keepdim=True)

    with pytest.raises(InputError, match="not known which tokens its queries|a softmax of 1 × 9"):
        models.watch(drawn(Latents()), encode=ids).run(TEXT)


@pytest.mark.parametrize("text", ["b", TEXT])
def test_heads_that_share_a_key_are_no_queries_of_a_single_token(text: str) -> None:
    class Shared(nn.Module):
        """Heads that share keys and values, computed by einsum."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.q = nn.Embedding(17, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.k, self.v = nn.Linear(WIDTH, SIZE), nn.Linear(WIDTH, SIZE)

        def forward(self, row: Tensor) -> Tensor:
            x = self.embedding(row)
            scores = torch.einsum("bhqd,bkd->bhqk", split(self.q(x)), self.k(x)) / SIZE**0.5
            return joined(torch.einsum("bhqk,bkd->bhqd", scores.softmax(-1), self.v(x)))

    (site,) = models.watch(drawn(Shared()), encode=ids).run(text).attention.values()
    assert (site.n_heads, site.n_query, site.n_key) == (HEADS, len(text), len(text))


class Otherwise(Part):
    """Weights that are combined with the values in another way than by one product."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        weights = (q @ k.mT / SIZE**0.5).softmax(-1)
        if self.how == "residual":
            return torch.baddbmm(x, (self.q(x) @ self.k(x).mT).softmax(-1), self.v(x))
        if self.how == "mixed":
            return self.out(joined(torch.einsum("hg,bgqk->bhqk", self.mix, weights) @ v))
        if self.how == "mean":
            return torch.einsum("bhqk,bkd->bqd", weights, self.v(x)) / HEADS
        if self.how == "three":
            matrix = self.out.weight.unflatten(1, (HEADS, SIZE))
            return torch.einsum("bhqk,bhkd,ehd->bqe", weights, v, matrix)
        if self.how == "broadcast":
            return self.out(joined((weights[..., None] * v[:, :, None]).sum(3)))
        # the library's function, and its weights computed once more beside it
        self.shown = weights.mean(1)
        return self.out(joined(F.scaled_dot_product_attention(q, k, v)))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("mean", "no product of its weights with values"),
        ("three", "no product of its weights with values"),
        ("broadcast", "no product of its weights with values"),
        ("residual", "adds something else"),
        ("mixed", "a matrix mixes its weights"),
    ],
)
def test_an_attention_that_cannot_be_shown_is_named(how: str, reason: str) -> None:
    trace = models.watch(drawn(Stream(Part(), Otherwise(how))), encode=ids).run(TEXT)
    assert (list(trace.attention), list(trace.unrecorded)) == (["parts.0"], ["parts.1"])
    assert reason in trace.unrecorded["parts.1"]


def test_weights_computed_beside_the_librarys_function_are_not_named() -> None:
    scope = models.watch(drawn(Stream(Otherwise("twice"))), encode=ids)
    for edits in ([], [HeadOff(Where(site="parts.0"), head=1)]):
        trace = scope.run(TEXT, edits=edits)
        assert (list(trace.attention), trace.unrecorded) == (["parts.0"], {})


class ByMatrix(nn.Module):
    """Queries, keys and values by einsum; or q·k by a matrix between the tokens themselves."""

    def __init__(self, general: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.randn(WIDTH, HEADS, SIZE)) for _ in range(3))
        self.between, self.general = nn.Parameter(torch.randn(WIDTH, WIDTH)), general

    def forward(self, x: Tensor) -> Tensor:
        if self.general:
            return (x @ self.between @ x.mT).softmax(-1) @ x
        q, k, v = (torch.einsum("bnd,dhs->bhns", x, w) for w in (self.q, self.k, self.v))
        return joined((q @ k.mT).softmax(-1) @ v)


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("more", [0, 1])
def test_a_product_with_a_matrix_is_no_attention_however_long_the_text(
    general: bool, more: int
) -> None:
    n = (WIDTH if general else SIZE) + more
    trace = models.watch(drawn(Stream(ByMatrix(general))), encode=ids).run((TEXT * 3)[:n])
    assert (list(trace.attention), trace.unrecorded) == (["parts.0"], {})


def test_texts_that_cannot_be_told_from_heads_are_edited_one_by_one() -> None:
    class HeadsFirst(nn.Module):
        """Heads on the batch axis, the texts of each head side by side."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(17, WIDTH)
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, row: Tensor) -> Tensor:
            x = self.embedding(row)
            q, k, v = (torch.cat(f(x).chunk(HEADS, -1)) for f in (self.q, self.k, self.v))
            made = (q @ k.mT / SIZE**0.5).softmax(-1) @ v
            return torch.cat(made.chunk(HEADS), -1)

    module, made = drawn(HeadsFirst()), []
    module.register_forward_hook(lambda *call: made.append(call[-1].detach()))
    scope = models.watch(module, encode=ids)
    trace = scope.run(TEXT)
    alone = [made[-1]]
    for head in range(HEADS):
        scope.run(TEXT, edits=[HeadOff(Where(site=""), head=head)])
        alone.append(made[-1])
    off = [HeadOff(Where(site="", heads=(head,), rows=(head + 1,))) for head in range(HEADS)]
    scope.outputs_batch([trace.streams] * (HEADS + 1), off)
    torch.testing.assert_close(made[-HEADS - 1 :], alone)
    scope.run_batch([[TEXT]] * (HEADS + 1), edits=off)
    torch.testing.assert_close(made[-HEADS - 1 :], alone)
    assert not torch.allclose(alone[1], alone[2])
