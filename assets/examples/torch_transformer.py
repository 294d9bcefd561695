# attnscope --module assets/examples/torch_transformer.py:make_scope
"""torch's own `nn.Transformer`: source and target in, logits of the next target letter out.

It is untrained: its weights are random, drawn with a fixed seed.
"""

import torch
from torch import Tensor, nn

import models

LETTERS = "?<>abcdefghijklmnopqrstuvwxyz .'éèêçà"
START, END = 1, 2  # <begin> and <end>, written < and >
WIDTH, HEADS, LONGEST = 48, 4, 64


class UntrainedTranslator(nn.Module):
    """Embeddings, `nn.Transformer` with a look-ahead mask, and a projection to the letters."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.positions = (
            nn.Embedding(len(LETTERS), WIDTH),
            nn.Embedding(LONGEST, WIDTH),
        )
        self.net = nn.Transformer(
            WIDTH,
            HEADS,
            num_encoder_layers=2,
            num_decoder_layers=2,
            dim_feedforward=96,
            batch_first=True,
        )
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        return self.head(self.net(self.embedded(source), self.embedded(target), tgt_mask=mask))

    def embedded(self, ids: Tensor) -> Tensor:
        """Return the letters' vectors plus those of their positions."""
        return self.letters(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))


def encode(source: str, target: str) -> tuple[list[int], list[int]]:
    """Return the letter ids of both texts; the target begins with <."""
    source_ids, target_ids = (
        [max(0, LETTERS.find(letter)) for letter in text.lower()] for text in (source, target)
    )
    return source_ids, [START, *target_ids]


def make_scope() -> models.Scope:
    """Return the model with random weights."""
    torch.manual_seed(11)
    module = UntrainedTranslator()
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.2)
    return models.watch(
        module.eval(),
        encode=encode,
        decode=lambda ids: "".join(LETTERS[i] for i in ids),
        end=END,
        fields=("source", "target"),
        name="nn.Transformer, untrained (random weights)",
        example="the dog is hungry.",
        n_ctx=LONGEST,
    )
