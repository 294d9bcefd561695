"""The decoder-only Transformer of GPT (Radford et al. 2018, 2019), and its text classifier.

Every token of one text is predicted from those before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import (
    CLASSES_OUTPUT,
    NEXT_TOKEN,
    Answers,
    Architecture,
    Family,
    Field,
)
from models.architectures.config_checks import check_classes, check_fields, class_names
from models.layers import masks
from models.layers.blocks import NORMAL_STD, SelfLayer, Stack
from models.layers.cache import Cache
from models.layers.masks import Mask, MaskLayer, Masks, SiteKind
from models.layers.positions import Positions
from models.layers.sublayers import Sublayer
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.edits import MaskChange, ready_made
from models.trace.outputs import ClassProbabilities, Output

GPT_SELF = SiteKind("self", "decoder", "self", "text", "text")
GPT_HEADS = ("pretraining", CLASSES_OUTPUT)

CONTINUED_FIELDS = (
    Field("text", "text", before="start"),
    Field("continuation", "text", optional=True),
)
# one text, or two with a delimiter between them; the token after the last is classified (§3.3)
CLASSIFIER_FIELDS = (
    Field("text", "text", before="start", closing="extract"),
    Field("second_text", "text", before="delimiter", optional=True),
)
FORMULA = "decoder output · embeddingᵀ"  # of the logits


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of one GPT."""

    vocab_size: int
    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12
    n_ctx: int = 512  # longest text, in tokens
    d_ff: int = 0  # 0 becomes 4·d_model, as in both papers
    dropout: float = 0.1  # on each sublayer's output and on embedding + position
    norm: str = "pre"  # GPT-2's; "post" is GPT-1's
    positions: str = "learned"  # "sinusoidal" or "none" too
    activation: str = "gelu"  # of models.layers.blocks.ACTIVATIONS
    similarity: str = "scaled dot"  # or another of models.layers.similarity.SIMILARITIES
    init: str = "scaled"  # GPT-2's; see Stack
    window: int = 0  # number of earlier tokens that a position may attend to (k); 0: all
    head: str = "pretraining"  # predicts the next token; "classes" also classifies the text
    classes: str = ""  # names of the classes, separated by commas
    n_texts: int = 1  # number of texts that are classified together
    pad_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        if self.d_ff == 0:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        check_fields(self)
        check_classes(self.head, self.classes)
        if self.head not in GPT_HEADS:
            raise ValueError(f"head of a GPT must be {' or '.join(GPT_HEADS)}, not {self.head!r}")

    @property
    def class_names(self) -> tuple[str, ...]:
        return class_names(self.classes)

    @property
    def family(self) -> Family:
        return Family("GPT (Radford et al. 2018, 2019)", 2018)

    @classmethod
    def gpt(cls, vocab_size: int = 40_478) -> "GPTConfig":
        """Return GPT-1 (Radford et al. 2018, §4.1): 117 M parameters, tanh GELU as in its code."""
        return cls(vocab_size, norm="post", activation="gelu tanh", init="xavier")

    @classmethod
    def gpt2_small(cls, vocab_size: int = 50_257) -> "GPTConfig":
        """Return the smallest GPT-2 (Radford et al. 2019, table 2): 124 M parameters."""
        return cls(vocab_size, n_ctx=1024, activation="gelu tanh")


class GPT(Architecture):
    """h₀ = U·W_e + W_p; hₗ = layer(hₗ₋₁); P(u) = softmax(hₙ·W_eᵀ) (Radford et al. 2018, eq. 2).

    The head "classes" adds P(y) = softmax(h·W_y), with hₙ of the last token as h (eq. 4). That
    token closes the text, so nothing can be generated after it.
    """

    fields = CONTINUED_FIELDS
    streams = ("text",)
    writes = "text"
    kinds = (GPT_SELF,)

    positions: Positions

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config, positions=True, dropout=config.dropout)
        sizes = (
            config.d_model,
            config.n_heads,
            config.d_ff,
            config.dropout,
            config.norm,
            config.similarity,
        )

        def make() -> SelfLayer:
            return SelfLayer(*sizes, kind=GPT_SELF, activation=config.activation)

        self.decoder = Stack(make, config.n_layers, config.d_model, config.norm, config.init)
        self.heads = nn.ModuleDict()
        if config.head == CLASSES_OUTPUT:
            self.fields = CLASSIFIER_FIELDS[: config.n_texts]
            W_y = nn.Linear(config.d_model, len(config.class_names), bias=False)
            nn.init.normal_(W_y.weight, std=NORMAL_STD)
            self.heads[CLASSES_OUTPUT] = W_y
        # as in the papers, whatever the init of the layers
        for table in (self.embedding.weight, self.positions.table):
            if isinstance(table, nn.Parameter):
                nn.init.normal_(table, std=NORMAL_STD)

    @classmethod
    def possible_fields(cls) -> tuple[Field, ...]:
        """Return the fields of both heads."""
        return tuple(dict.fromkeys((*CONTINUED_FIELDS, *CLASSIFIER_FIELDS)))

    @property
    def can_write(self) -> bool:
        """True if its text is open at the end."""
        return self.config.head != CLASSES_OUTPUT

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return self.decoder.sublayers

    @property
    def last_norm(self) -> nn.Module:
        return self.decoder.last_norm

    def forward(
        self, text: Int[Tensor, "batch n"], masks: Masks | None = None
    ) -> Float[Tensor, "batch n vocab"] | Answers:
        """Return the logits after each position, and those of the classes if it has any."""
        h = self._states(text, self.masks(text) if masks is None else masks)  # (batch, n, d_model)
        following = self._logits(h, FORMULA)
        if self.config.head != CLASSES_OUTPUT:
            return following
        last = (text != self.config.pad_id).sum(1) - 1  # of each row
        return {
            CLASSES_OUTPUT: self.heads[CLASSES_OUTPUT](self.dropout(h[torch.arange(len(h)), last])),
            NEXT_TOKEN: following,
        }

    def masks(self, text: Int[Tensor, "batch n"]) -> Masks:
        """Return padding, look-ahead and the window, if there is one."""
        return self.written_masks(text, text)

    def opening(self, inputs: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
        """Return the text so far, which generation continues."""
        return inputs

    def written_masks(
        self, inputs: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return the masks of the row alone, which begins with `inputs`."""
        m = row.shape[1]
        layers = [
            masks.padding(row, self.config.pad_id),
            masks.look_ahead(m - start, m, row.device),
        ]
        if k := self.config.window:
            window = MaskChange(preset="window", k=k)  # the same name as the preset a user adds
            layers.append(
                MaskLayer(
                    window.preset_name,
                    ready_made(window.preset, k, m, m)[None, None, start:].to(row.device),
                )
            )
        return {GPT_SELF.name: Mask(layers, start)}

    def encode(self, inputs: Int[Tensor, "batch n"], masks: Masks) -> None:
        """Return None: there is no source."""
        return

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        """Return the logits after each position of `row`, which begins at position `start`."""
        return self._logits(self._states(row, masks, cache, start), FORMULA)

    def _states(
        self, row: Int[Tensor, "batch m"], masks: Masks, cache: Cache | None = None, start: int = 0
    ) -> Float[Tensor, "batch m d_model"]:
        """Return the last layer's vectors, hₙ."""
        return self.decoder(self._embed(row, "text", "decoder", start), masks[GPT_SELF.name], cache)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        """Return the classes, if it has any, and the next token."""
        outputs = super().outputs(answers, streams, tokenizer)
        if self.config.head != CLASSES_OUTPUT:
            return outputs
        last = len(streams["text"].ids) - 1
        return {
            CLASSES_OUTPUT: ClassProbabilities(
                "text", last, self.config.class_names, answers[CLASSES_OUTPUT]
            ),
            **outputs,
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """Return the most probable class, or the first choice after each position."""
        return (
            cast(ClassProbabilities, outputs[CLASSES_OUTPUT]).predicted
            if CLASSES_OUTPUT in outputs
            else super().answer(outputs, streams, tokenizer)
        )

    @property
    def read_outputs(self) -> tuple[str, ...]:
        return (*self.heads, NEXT_TOKEN)

    def readout(
        self, x: Float[Tensor, "*places d_model"], output: str = NEXT_TOKEN
    ) -> Float[Tensor, "*places logit"]:
        """Return the logits of the next token or of the classes."""
        return (
            self.heads[output](self.last_norm(x))
            if output in self.heads
            else super().readout(x, output)
        )

    def max_new_tokens(self, n_given: int) -> int:
        """Return the number of positions left."""
        return self.config.n_ctx - n_given
