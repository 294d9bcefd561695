"""A small Perceiver (Jaegle et al. 2021), unknown to the app: its latents read the text by cross-attention."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from models.architectures.base import CLASSES_OUTPUT, Answers, Architecture, Family, Field
from models.layers import masks
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import SelfLayer, Stack
from models.layers.masks import Mask, Masks, SiteKind
from models.layers.sublayers import Sublayer
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import ClassProbabilities, Output

CLASS_NAMES = ("statement", "question")
THINKING = SiteKind("self", "encoder", "self", "latents", "latents")


@dataclass(frozen=True)
class Ranking:
    """An output type that no page knows."""

    stream: str
    best: str


@dataclass(frozen=True)
class PerceiverConfig:
    """The sizes of a Perceiver, the role of the attention that reads the text, and the type of its output."""

    vocab_size: int
    d_model: int = 15
    n_heads: int = 3
    n_layers: int = 2
    n_latents: int = 7
    n_ctx: int = 37
    d_ff: int = 23
    role: str = "cross"
    ranks: bool = False
    positions: str = "learned"
    pad_id: int = 0

    @property
    def family(self) -> Family:
        return Family("Perceiver (Jaegle et al. 2021)", 2021)


class Perceiver(Architecture):
    """Latents attend to the text once, then to each other; the answer is read from the first."""

    fields = (Field("text", "text"),)
    streams = ("text",)

    def __init__(self, config: PerceiverConfig) -> None:
        super().__init__(config, positions=True, dropout=0.0)
        self.reading = SiteKind("reading", "encoder", config.role, "latents", "text")
        self.kinds = (self.reading, THINKING)
        sizes = (config.d_model, config.n_heads, config.d_ff, 0.0, "post", "scaled dot")
        self.latents = nn.Parameter(torch.randn(config.n_latents, config.d_model))
        self.read = MultiHeadAttention(config.d_model, config.n_heads, self.reading)
        self.encoder = Stack(
            lambda: SelfLayer(*sizes, kind=THINKING), config.n_layers, config.d_model, "post"
        )
        self.classes = nn.Linear(config.d_model, len(CLASS_NAMES))

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return self.encoder.sublayers

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        n = self.config.n_latents
        names = tuple(f"latent {i + 1}" for i in range(n))
        return {**streams, "latents": Encoding("", tuple(range(n)), names, (None,) * n)}

    def masks(self, text: Int[Tensor, "batch n"]) -> Masks:
        return {
            self.reading.name: Mask([masks.padding(text, self.config.pad_id)]),
            THINKING.name: Mask(),
        }

    def forward(self, text: Int[Tensor, "batch n"]) -> Answers:
        allowed = self.masks(text)
        x = self._embed(text, "text", "encoder")
        latents = self.latents.expand(len(text), -1, -1)
        latents = latents + self.read(latents, x, allowed[self.reading.name])
        latents = self.encoder(latents, allowed[THINKING.name])
        return {CLASSES_OUTPUT: self.classes(latents[:, 0])}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        classes = ClassProbabilities("latents", 0, CLASS_NAMES, answers[CLASSES_OUTPUT])
        return {
            CLASSES_OUTPUT: Ranking("latents", classes.predicted) if self.config.ranks else classes
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return (
            outputs[CLASSES_OUTPUT].best if self.config.ranks else outputs[CLASSES_OUTPUT].predicted
        )
