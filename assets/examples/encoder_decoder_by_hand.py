# attnscope --module assets/examples/encoder_decoder_by_hand.py:make_scope
"""An encoder-decoder from the equations of Vaswani et al. 2017, laid out as in annotated versions.

Four matrices, masks of 0 and 1, −10⁹ where a mask is 0. It is untrained: its weights are random,
drawn with a fixed seed.
"""

import math

import torch
from torch import Tensor, nn

import models

LETTERS = "?<>abcdefghijklmnopqrstuvwxyz .'éèêçà"
START, END = 1, 2  # <begin> and <end>, written < and >
WIDTH, HEADS, LAYERS = 48, 4, 2


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(q·kᵀ/√d)·v, eq. 1; the mask is 0 where a key may not be read."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return torch.matmul(scores.softmax(dim=-1), v)


class MultiHead(nn.Module):
    """Several heads of attention, and W_O."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            linear(t).view(t.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2)
            for linear, t in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        heads = attention(q, k, v, mask)
        return self.out(heads.transpose(1, 2).contiguous().view(x.shape[0], -1, WIDTH))


class Layer(nn.Module):
    """An encoder layer, or with `reads` a decoder layer, which also reads the encoder."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.self_attention = MultiHead()
        self.cross_attention = MultiHead() if reads else None
        self.feed_forward = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = self.norms[0](x + self.self_attention(x, x, mask))
        if self.cross_attention is not None and memory is not None:
            x = self.norms[1](x + self.cross_attention(x, memory))
        return self.norms[2](x + self.feed_forward(x))


class UntrainedTranslator(nn.Module):
    """A source and the target so far in, logits of the next target letter out."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.head = nn.Embedding(len(LETTERS), WIDTH), nn.Linear(WIDTH, len(LETTERS))
        self.encoder = nn.ModuleList(Layer(reads=False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(reads=True) for _ in range(LAYERS))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, x = self.embedded(source), self.embedded(target)
        for layer in self.encoder:
            memory = layer(memory)
        lower = torch.ones(target.shape[1], target.shape[1], device=target.device).tril()
        for layer in self.decoder:
            x = layer(x, memory, lower)
        return self.head(x)

    def embedded(self, ids: Tensor) -> Tensor:
        """Return the letters' vectors plus sines and cosines of their positions."""
        position = torch.arange(ids.shape[1], device=ids.device)[:, None]
        angle = position * torch.exp(
            torch.arange(0, WIDTH, 2, device=ids.device) * (-math.log(10_000.0) / WIDTH)
        )
        code = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return self.letters(ids) * math.sqrt(WIDTH) + code


def encode(source: str, target: str) -> tuple[list[int], list[int]]:
    """Return the letter ids of both texts; the target begins with <."""
    source_ids, target_ids = (
        [max(0, LETTERS.find(letter)) for letter in text.lower()] for text in (source, target)
    )
    return source_ids, [START, *target_ids]


def make_scope() -> models.Scope:
    """Return the model with random weights."""
    torch.manual_seed(7)
    module = UntrainedTranslator()
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.15)
    return models.watch(
        module.eval(),
        encode=encode,
        decode=lambda ids: "".join(LETTERS[i] for i in ids),
        end=END,
        fields=("source", "target"),
        name="encoder-decoder by hand, untrained (random weights)",
        example="the dog is hungry.",
        n_ctx=64,
    )
