# attnscope --module assets/examples/one_head_per_module.py:make_scope
"""A decoder whose heads are separate modules, as in a first lesson on attention.

It is untrained: its weights are random, drawn with a fixed seed.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import models

LETTERS = " .abcdefghijklmnopqrstuvwxyz"
LONGEST, WIDTH, HEADS, LAYERS = 64, 40, 4, 2


class Head(nn.Module):
    """One head of causal self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            nn.Linear(WIDTH, WIDTH // HEADS, bias=False) for _ in range(3)
        )
        self.register_buffer("lower", torch.ones(LONGEST, LONGEST).tril())

    def forward(self, x: Tensor) -> Tensor:
        n, q, k = x.shape[1], self.query(x), self.key(x)
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5  # (batch, token, token)
        scores = scores.masked_fill(self.lower[:n, :n] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ self.value(x)


class Heads(nn.Module):
    """All heads side by side, and W_O."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.out = nn.ModuleList(Head() for _ in range(HEADS)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([head(x) for head in self.heads], dim=-1))


class UntrainedDecoder(nn.Module):
    """Letters in, logits of the next letter out."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.positions = (
            nn.Embedding(len(LETTERS), WIDTH),
            nn.Embedding(LONGEST, WIDTH),
        )
        self.layers = nn.ModuleList(Heads() for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return self.head(x)


def encode(text: str) -> list[int]:
    """Return one id per letter; an unknown letter becomes a space."""
    return [max(0, LETTERS.find(letter)) for letter in text.lower()]


def make_scope() -> models.Scope:
    """Return the decoder with random weights."""
    torch.manual_seed(5)
    module = UntrainedDecoder()
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.25)
    return models.watch(
        module.eval(),
        encode=encode,
        decode=lambda ids: "".join(LETTERS[i] for i in ids),
        name="one head per module, untrained (random weights)",
        example="she reads a book.",
        n_ctx=LONGEST,
    )
