"""The encoder of BERT (Devlin et al. 2019) and its heads. Read top to bottom.

Every token of a row of one or two texts attends to every other. The heads predict masked tokens and
the next sentence, the span of an answer, or classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import (
    CLASSES_OUTPUT,
    MASKED_OUTPUT,
    NEXT_TOKEN,
    POSITIONS_FIELD,
    Answers,
    Architecture,
    Family,
    Field,
)
from models.architectures.config_checks import check_classes, check_fields, class_names
from models.layers import masks
from models.layers.blocks import ACTIVATIONS, NORMAL_STD, SelfLayer, Stack
from models.layers.masks import Mask, Masks, SiteKind
from models.layers.positions import Positions
from models.layers.sublayers import Sublayer
from models.tokenizers.base import Encoding, Tokenizer
from models.tokenizers.wordpiece import CONTINUATION
from models.trace import tap
from models.trace.outputs import ClassProbabilities, MaskedToken, Output, Span, best_span

BERT_SELF = SiteKind("self", "encoder", "self", "text", "text")
NEXT_SENTENCE, SPAN_HEAD = "next sentence", "span"
IS_NEXT = ("next", "not next")  # of NEXT_SENTENCE, by its class

_FIRST = {"before": "cls", "after": "sep", "segment": 0}
_SECOND = {"after": "sep", "segment": 1}
_TEXTS = (Field("text", "text", **_FIRST), Field("second_text", "text", optional=True, **_SECOND))
_HIDDEN = Field("masked", "text", optional=True, kind=POSITIONS_FIELD)
BERT_FIELDS = {  # by head
    "pretraining": (*_TEXTS, _HIDDEN),
    "span": (Field("question", "text", **_FIRST), Field("context", "text", **_SECOND)),
    "classes": _TEXTS,
}


@dataclass(frozen=True)
class BERTConfig:
    """The sizes of one BERT."""

    vocab_size: int
    d_model: int = 768  # H
    n_heads: int = 12  # A
    n_layers: int = 12  # L
    n_ctx: int = 512  # longest row, in tokens, [CLS] and [SEP] counted
    d_ff: int = 0  # 0 becomes 4·d_model, as in the paper
    n_segments: int = 2  # texts in a row that are distinguished
    dropout: float = 0.1  # on each sublayer's output and on what the first layer reads
    positions: str = "learned"  # "sinusoidal" or "none" too
    activation: str = "gelu"  # of models.layers.blocks.ACTIVATIONS
    similarity: str = "scaled dot"  # or another of models.layers.similarity.SIMILARITIES
    init: str = "normal"  # the paper's; see Stack
    head: str = "pretraining"  # masked tokens and next sentence; "span" or "classes"
    classes: str = ""  # the names of the head "classes", separated by commas
    pad_id: int = 0

    def __post_init__(self) -> None:
        if self.d_ff == 0:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        check_fields(self)
        check_classes(self.head, self.classes)

    @property
    def family(self) -> Family:
        return Family("BERT (Devlin et al. 2019)", 2019)

    @property
    def class_names(self) -> tuple[str, ...]:
        return class_names(self.classes)

    @classmethod
    def base(cls, vocab_size: int = 30_522) -> "BERTConfig":
        """BERT-base (Devlin et al. 2019, §3): 110 M parameters."""
        return cls(vocab_size)


class BERT(Architecture):
    """h₀ = LayerNorm(token + segment + position); hₗ = layer(hₗ₋₁), post-LN; heads read h_n (§3).

    LayerNorm's ε is torch's 1e-5; the released code has 1e-12.
    """

    streams = ("text",)
    kinds = (BERT_SELF,)
    positions: Positions

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config, positions=True, dropout=config.dropout)
        self.fields = BERT_FIELDS[config.head]
        self.pair_output = NEXT_SENTENCE if config.head == "pretraining" else ""
        self.segments = nn.Embedding(config.n_segments, config.d_model)
        self.embedding_norm = nn.LayerNorm(config.d_model)
        sizes = (
            config.d_model,
            config.n_heads,
            config.d_ff,
            config.dropout,
            "post",
            config.similarity,
        )

        def make() -> SelfLayer:
            return SelfLayer(*sizes, kind=BERT_SELF, activation=config.activation)

        self.encoder = Stack(make, config.n_layers, config.d_model, "post", config.init)
        self.heads = nn.ModuleDict(_heads(config))
        for table in (self.embedding.weight, self.positions.table, self.segments.weight):
            if isinstance(table, nn.Parameter):
                nn.init.normal_(table, std=NORMAL_STD)

    @property
    def first_reads_sum(self) -> bool:
        """False: a LayerNorm follows the sum of embedding, segment and position."""
        return False

    @classmethod
    def possible_fields(cls) -> tuple[Field, ...]:
        """Return the fields of all heads."""
        return tuple(dict.fromkeys(field for fields in BERT_FIELDS.values() for field in fields))

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return self.encoder.sublayers

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """Return the ids of the rows and the segment of each token."""
        return (*super().inputs(rows), self.padded([row["text"].segments for row in rows], 0))

    def forward(
        self,
        text: Int[Tensor, "batch n"],
        segments: Int[Tensor, "batch n"] | None = None,
        positions: Int[Tensor, "batch k"] | None = None,
    ) -> Answers:
        """Return the logits of the model's head.

        Without `segments` the row is one text. Masked tokens are predicted at `positions`, by
        default at all.
        """
        h = self.encode(text, self.masks(text), segments)  # (batch, n, d_model)
        if self.config.head == "span":
            start, end = self.heads["span"](h).unbind(-1)  # (batch, n) each
            return {"start": start, "end": end}
        pooled = torch.tanh(
            self.heads["pooler"](h[:, 0])
        )  # (batch, d_model): what [CLS] has gathered
        if self.config.head == "classes":
            return {CLASSES_OUTPUT: self.heads["classes"](pooled)}
        if positions is not None:
            h = h.gather(1, positions[..., None].expand(-1, -1, h.shape[2]))
        guesses = self.heads["masked"](h, self.embedding.weight)  # (batch, k, vocab)
        if positions is None:
            guesses = tap(
                "", "logits", guesses, "text", "vocab", "LayerNorm(gelu(h·W + b))·embeddingᵀ + bias"
            )
        return {MASKED_OUTPUT: guesses, NEXT_SENTENCE: self.heads["next"](pooled)}

    def masks(self, text: Int[Tensor, "batch n"]) -> Masks:
        """Return padding alone: every token attends to every other."""
        return {BERT_SELF.name: Mask([masks.padding(text, self.config.pad_id)])}

    def encode(
        self,
        inputs: Int[Tensor, "batch n"],
        masks: Masks,
        segments: Int[Tensor, "batch n"] | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        """Return the last layer's vectors.

        Raises:
            ValueError: the row is longer than n_ctx.
        """
        n = inputs.shape[1]
        if n > self.config.n_ctx:
            raise ValueError(
                f"{n} tokens, but this model reads at most {self.config.n_ctx} (n_ctx)"
            )
        token, position = self.embedding(inputs), self.positions(n)
        segment = self.segments(torch.zeros_like(inputs) if segments is None else segments)
        token = tap("encoder", "embedding", token, "text", "d_model", "embedding(token)")
        formula = f"{self.config.positions} position vectors"
        position = tap("encoder", "position", position[None], "text", "d_model", formula)
        segment = tap("encoder", "segment", segment, "text", "d_model", "embedding(segment)")
        x = self.embedding_norm(token + position + segment)
        formula = "LayerNorm(token + position + segment)"
        x = tap("encoder", "embedded", x, "text", "d_model", formula)
        return self.encoder(self.dropout(x), masks[BERT_SELF.name])

    @property
    def read_stream(self) -> str:
        """The row itself, if its masked tokens are predicted."""
        return "text" if self.read_outputs else ""

    @property
    def read_outputs(self) -> tuple[str, ...]:
        return (MASKED_OUTPUT,) if self.config.head == "pretraining" else ()

    def readout(
        self, x: Float[Tensor, "*places d_model"], output: str = NEXT_TOKEN
    ) -> Float[Tensor, "*places vocab"]:
        """Apply the head for masked tokens.

        Raises:
            ValueError: any other output.
        """
        if output not in self.read_outputs:
            raise ValueError(f"{output!r} is not read from the stream 'text'")
        return self.heads["masked"](x, self.embedding.weight)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        """Return the outputs of the head: masked tokens and next sentence, a span, or classes."""
        row = streams["text"]
        if self.config.head == "span":
            return {SPAN_HEAD: _span(answers, row)}
        if self.config.head == "classes":
            return {
                CLASSES_OUTPUT: ClassProbabilities(
                    "text", 0, self.config.class_names, answers[CLASSES_OUTPUT]
                )
            }
        positions = tuple(i for i, token in enumerate(row.ids) if token == tokenizer.mask_id)
        logits, originals = answers[MASKED_OUTPUT][list(positions)], dict(row.hidden)
        predicted = tokenizer.tokens(logits.argmax(-1).tolist())
        outputs: dict[str, Output] = {
            MASKED_OUTPUT: MaskedToken(
                "text", positions, tuple(originals.get(i) for i in positions), logits, predicted
            )
        }
        if 1 in row.segments:
            outputs[NEXT_SENTENCE] = ClassProbabilities("text", 0, IS_NEXT, answers[NEXT_SENTENCE])
        return outputs

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """Return the answer, the text with its masks filled in, or the most probable class."""
        if SPAN_HEAD in outputs:
            return cast(Span, outputs[SPAN_HEAD]).text
        masked = outputs.get(MASKED_OUTPUT)
        if isinstance(masked, MaskedToken) and masked.positions:
            return _fill_masks(streams["text"], masked)
        return next(
            (
                output.predicted
                for output in outputs.values()
                if isinstance(output, ClassProbabilities)
            ),
            "",
        )


class MaskedHead(nn.Module):
    """LayerNorm(gelu(h·W + b))·embeddingᵀ + bias: logits with the embedding matrix."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.activate, _ = ACTIVATIONS[config.activation]
        self.layer_norm = nn.LayerNorm(config.d_model)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(
        self, h: Float[Tensor, "*places d_model"], embedding: Float[Tensor, "vocab d_model"]
    ) -> Float[Tensor, "*places vocab"]:
        return nn.functional.linear(
            self.layer_norm(self.activate(self.transform(h))), embedding, self.bias
        )


def _heads(config: BERTConfig) -> dict[str, nn.Module]:
    """Return the modules of the configuration's head; matrices start N(0, 0.02²), biases 0."""
    d = config.d_model
    heads: dict[str, nn.Module] = {
        "pretraining": lambda: {
            "pooler": nn.Linear(d, d),
            "masked": MaskedHead(config),
            "next": nn.Linear(d, len(IS_NEXT)),
        },
        "span": lambda: {"span": nn.Linear(d, 2)},
        "classes": lambda: {
            "pooler": nn.Linear(d, d),
            "classes": nn.Linear(d, len(config.class_names)),
        },
    }[config.head]()
    for module in (
        part for head in heads.values() for part in head.modules() if isinstance(part, nn.Linear)
    ):
        nn.init.normal_(module.weight, std=NORMAL_STD)
        nn.init.zeros_(module.bias)
    return heads


def _span(answers: Answers, row: Encoding) -> Span:
    """Return the most probable span within the context."""
    n = len(row.ids)
    outside = torch.tensor(
        [
            segment != 1 or offset is None
            for segment, offset in zip(row.segments, row.offsets, strict=True)
        ]
    )
    start, end = (answers[name][:n].masked_fill(outside, -torch.inf) for name in ("start", "end"))
    first, last = best_span(start, end)
    (begin, _), (_, stop) = _offset(row, first), _offset(row, last)
    return Span("text", start, end, first, last, row.text[begin:stop])


def _offset(row: Encoding, token: int) -> tuple[int, int]:
    """Return where a token begins and ends in the text."""
    if (offset := row.offsets[token]) is None:
        raise ValueError(f"token {token} must come from the text, not be a special one")
    return offset


def _fill_masks(row: Encoding, output: MaskedToken) -> str:
    """Return the text with the most probable token at each mask."""
    places = [_offset(row, i) for i in output.positions]
    parts = [row.text[a[1] : b[0]] for a, b in pairwise([(0, 0), *places, (len(row.text), 0)])]
    text = parts[0]
    for token, part in zip(output.predicted, parts[1:], strict=True):
        text = (
            text.rstrip() + token.removeprefix(CONTINUATION)
            if token.startswith(CONTINUATION)
            else text + token
        ) + part
    return text
