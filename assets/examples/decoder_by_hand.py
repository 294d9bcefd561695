# attnscope --module assets/examples/decoder_by_hand.py:make_scope
"""A small decoder as nanoGPT and minGPT arrange it.

One matrix for queries, keys and values, a lower triangle in a buffer, softmax, dropout. It is
untrained: its weights are random, drawn with a fixed seed.
"""

import math

import torch
from torch import Tensor, nn

import models

LETTERS = " .abcdefghijklmnopqrstuvwxyz"
LONGEST, WIDTH, HEADS, LAYERS = 64, 48, 4, 3


class Attention(nn.Module):
    """Causal self-attention, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("lower", torch.ones(LONGEST, LONGEST).tril())

    def forward(self, x: Tensor) -> Tensor:
        batch, n, width = x.shape
        q, k, v = (
            t.view(batch, n, HEADS, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2)
        )  # (batch, head, token, d_head)
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        scores = scores.masked_fill(self.lower[:n, :n] == 0, float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out((weights @ v).transpose(1, 2).contiguous().view(batch, n, width))


class Block(nn.Module):
    """Attention and feed-forward, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2, self.attention = (
            nn.LayerNorm(WIDTH),
            nn.LayerNorm(WIDTH),
            Attention(),
        )
        self.feed_forward = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


class UntrainedDecoder(nn.Module):
    """Letters in, logits of the next letter out."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.positions = (
            nn.Embedding(len(LETTERS), WIDTH),
            nn.Embedding(LONGEST, WIDTH),
        )
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS), bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def encode(text: str) -> list[int]:
    """Return one id per letter; an unknown letter becomes a space."""
    return [max(0, LETTERS.find(letter)) for letter in text.lower()]


def make_scope() -> models.Scope:
    """Return the decoder with random weights."""
    torch.manual_seed(3)
    module = UntrainedDecoder()
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.2)
    return models.watch(
        module.eval(),
        encode=encode,
        decode=lambda ids: "".join(LETTERS[i] for i in ids),
        name="decoder by hand, untrained (random weights)",
        example="the little dog was hungry.",
        n_ctx=LONGEST,
    )
