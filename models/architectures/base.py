"""What every architecture offers, so that scopes, decoding and pages ask for an ability and never for a class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from models.layers.cache import Cache
from models.layers.dropout import Dropout
from models.layers.masks import Masks, SiteKind
from models.layers.positions import Positions
from models.layers.sublayers import Sublayer
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import tap
from models.trace.outputs import NextToken, Output

NEXT_TOKEN = "next token"       # the output of every model that writes
CLASSES = "classes"             # that of one which says what kind of text it reads

TEXT, POSITIONS, ORDER = "text", "positions", "order"      # kinds of fields


@dataclass(frozen=True)
class Family:
    """What kind of model a configuration is of, in a few words with its paper, and the year that places it in history."""

    name: str
    year: int


@dataclass(frozen=True)
class Field:
    """One thing that a person gives a model: a text, and the stream its tokens stand on; or positions of tokens there, some to be
    hidden or all of them in an order."""

    name: str
    stream: str
    optional: bool = False
    before: str = ""          # the special token that stands before the text, by its name in the tokenizer ("start", "cls")
    after: str = ""           # the one behind it
    closing: str = ""         # the one behind all that stands on its stream
    segment: int | None = None    # of several texts on one stream, which this is; None where a model does not mark them
    kind: str = TEXT

    @property
    def title(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ")


Answers = Mapping[str, Tensor]      # name of an output → its logits, batch first


class Architecture(nn.Module):
    """One embedding matrix for input and logits, and what lies between. Subclasses call `_set_paths` when they are made.

    `forward` takes what `inputs` makes of encoded texts: the ids of each stream, in the order of `streams`, and what else a model
    reads of them. Of a model that writes it gives logits over `writes`, one row a position; of another its Answers."""

    fields: tuple[Field, ...]            # texts first
    streams: ClassVar[tuple[str, ...]]
    writes: ClassVar[str] = ""           # the stream whose next token is predicted; "" in a model that predicts none
    kinds: tuple[SiteKind, ...]          # of its attentions, in the order a reader meets them
    of_two: str = ""                     # the output that it gives of two texts and not of one; "" in a model without
    relative_positions: ClassVar[bool] = False      # each score is told how far apart two tokens are; no vector is added
    can_cache: bool = True               # of a model that writes: keys and values of earlier positions can be kept
    masks_can_change: bool = True        # whether an edit of a mask reaches its attention
    positions_can_go: bool = True        # whether a copy of it without position vectors can be made
    what_it_answers: str = ""            # in words, of a model that somebody else made; "" where its task says it
    is_recurrent: bool = False           # a state carries the past: it has no keys to cache and no way back

    def __init__(self, config: Any, *, positions: bool, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = Positions(config.positions, config.n_ctx, config.d_model) if positions else None
        self.dropout = Dropout(dropout)

    @property
    def stack(self) -> str:
        """Where what was asked is embedded: "encoder", or "decoder" in a model that has no other."""
        return "decoder" if self.continues else "encoder"

    @property
    def similarity(self) -> str:
        """The similarity that another can be put in the place of; "" in a model that learned its own alignment, or has none."""
        return getattr(self.config, "similarity", "")

    @classmethod
    def possible_fields(cls) -> tuple[Field, ...]:
        """The fields of all models of this architecture."""
        return cls.fields

    @property
    def text_fields(self) -> tuple[Field, ...]:
        """The fields that are typed as texts."""
        return tuple(field for field in self.fields if field.kind == TEXT)

    @property
    def can_write(self) -> bool:
        """Whether it predicts the next token of a stream that is open behind, and so can write one."""
        return bool(self.writes)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """Its attentions and feed-forwards along each stream, in the order of the pass; none in a model without such layers."""
        return ()

    @property
    def last_norm(self) -> nn.Module:
        """What stands between its last sublayer and the logits: a LayerNorm, or nothing."""
        return nn.Identity()

    @property
    def continues(self) -> bool:
        """Whether what it writes goes on on the stream of what was asked, as a language model's does."""
        return self.fields[0].stream == self.writes

    @property
    def translates(self) -> bool:
        """Whether it reads one text and writes another."""
        return self.can_write and not self.continues

    @property
    def first_reads_sum(self) -> bool:
        """Whether what the first layer's W_Q, W_K and W_V read is embedding + position and nothing else."""
        return getattr(self.config, "norm", "post") == "post"

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def masks(self, *ids: Int[Tensor, "batch _"]) -> Masks:
        """The model's own mask of each kind of attention, for the ids of each stream."""
        raise NotImplementedError

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """What `forward` takes of these rows, filled up to the longest."""
        return tuple(self.padded([row[stream].ids for row in rows], self.config.pad_id) for stream in self.streams)

    def padded(self, rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "batch n"]:
        """Rows of numbers as one tensor on the model's device, the shorter ones filled up."""
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value).to(self.device)

    def outputs(self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> dict[str, Output]:
        """The typed answers to one row, of its logits without the batch axis; what a page shows first comes first."""
        row, logits = streams[self.writes], answers[NEXT_TOKEN][: len(streams[self.writes].ids)]
        end = () if self.continues else (self.config.end_id,)
        predicted = tokenizer.tokens(logits.argmax(-1).tolist())
        return {NEXT_TOKEN: NextToken(self.writes, (*row.ids[1:], *end), logits, predicted)}

    def answer(self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> str:
        """What these outputs say, as a text: of a model that writes its first choice after each position."""
        return tokenizer.decode(outputs[NEXT_TOKEN].logits.argmax(-1).tolist())

    def opening(self, given: Int[Tensor, "batch n"]) -> Int[Tensor, "batch m"]:
        """The row on `writes` before a token is written, where `given` is what was asked: a source, or the text so far."""
        raise NotImplementedError

    def written_masks(self, given: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0) -> Masks:
        """The masks of a run that has come to `row`; on the stream it writes, of the queries from position `start` on."""
        raise NotImplementedError

    def encode(self, given: Int[Tensor, "batch n"], masks: Masks) -> Tensor | None:
        """What is worked out of `given` once for all steps; None if nothing is."""
        raise NotImplementedError

    def decode(
        self, row: Int[Tensor, "batch m"], memory: Tensor | None, masks: Masks, cache: Cache | None = None, start: int = 0
    ) -> Float[Tensor, "batch m vocab"]:
        """Logits after each position of `row`, whose first token stands at position `start` (>0 with a cache)."""
        raise NotImplementedError

    def longest(self, n_given: int) -> int:
        """How many tokens a run may write before it is stopped, after so many given ones."""
        raise NotImplementedError

    def _set_paths(self) -> None:
        """Tell every part that marks something its place in the module tree."""
        for path, module in self.named_modules():
            if hasattr(module, "path"):
                module.path = path

    def _embed(
        self, ids: Int[Tensor, "batch n"], stream: str, stack: str, start: int = 0,
        factor: float = 1.0, formula: str = "embedding(token)",
    ) -> Float[Tensor, "batch n d_model"]:
        """factor·embedding + position, from position `start` on; marked under `stack`. Raises ValueError beyond n_ctx."""
        n = ids.shape[1]
        if start + n > self.config.n_ctx:
            raise ValueError(f"{start + n} tokens, but this model reads at most {self.config.n_ctx} (n_ctx)")
        x = self.embedding(ids) * factor
        tap(stack, "embedding", x, stream, "d_model", formula)
        if self.positions is not None:
            position = self.positions(n, start)
            tap(stack, "position", position[None], stream, "d_model", f"{self.config.positions} position vectors")
            x = x + position
        return self.dropout(x)

    def readout(self, x: Float[Tensor, "*places d_model"]) -> Float[Tensor, "*places vocab"]:
        """The logits that the model's own output path makes of its stream `writes`; asked of a layer that is not the last, what it
        would say if it stopped there (nostalgebraist 2020, "the logit lens")."""
        return F.linear(self.last_norm(x), self.embedding.weight)

    def _logits(self, x: Float[Tensor, "batch m d_model"], formula: str) -> Float[Tensor, "batch m vocab"]:
        """What the last layer made, times the embedding matrix; `formula` says so in symbols."""
        logits = F.linear(x, self.embedding.weight)
        tap("", "logits", logits, self.writes, "vocab", formula)
        return logits


# field → its least and largest value; the largest are far beyond any model of this kind and keep a mistyped one from being built
SIZES = {
    "vocab_size": (1, 2**20), "d_model": (1, 2**16), "d_ff": (1, 2**18), "d_hidden": (1, 2**16), "d_align": (1, 2**16),
    "n_encoder_layers": (0, 256), "n_decoder_layers": (0, 256), "n_self_layers": (0, 256), "n_layers": (0, 256),
    "n_ctx": (2, 2**16), "window": (0, 2**16), "n_segments": (1, 16), "n_texts": (1, 2),
}  # fmt: skip
CHOICES = {"init": ("xavier", "scaled", "normal"), "head": ("pretraining", "span", "classes")}
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def check_types(kind: type, values: dict[str, Any]) -> None:
    """Raises ValueError for a value of another type than the configuration's field of that name has; True is no number here."""
    for field in fields(kind):
        value = values.get(field.name)
        if field.name in values and type(value) is not field.type and not (field.type is float and type(value) is int):
            raise ValueError(f"{field.name} must be {KINDS[field.type]}, not {value!r:.60}")


def check_fields(config: object) -> None:
    """Raises ValueError for a field of a configuration that is of another type than it says or out of its range."""
    check_types(type(config), vars(config))
    for name, value in vars(config).items():
        least, largest = SIZES.get(name, (value, value))
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")
        if value > largest:
            raise ValueError(f"{name} must be at most {largest:,}, not {value:,}")
    for name, values in CHOICES.items():
        if (value := getattr(config, name, values[0])) not in values:
            raise ValueError(f"{name} must be one of {', '.join(values)}, not {value!r}")
    if not 0 <= getattr(config, "dropout", 0) < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {config.dropout}")
    if not 0 <= config.pad_id < config.vocab_size:
        raise ValueError(f"pad_id must be a token of the vocabulary, 0 to {config.vocab_size - 1}, not {config.pad_id}")


def class_names(classes: str) -> tuple[str, ...]:
    """The names in a configuration's `classes`, which commas separate."""
    return tuple(name.strip() for name in classes.split(",") if name.strip())


def check_classes(head: str, classes: str) -> None:
    """Raises ValueError for a head that classifies and has no classes to choose from, or one that has and does not."""
    if (head == CLASSES) != (len(class_names(classes)) > 1):
        raise ValueError(f"classes must be two names or more for the head classes, and none for another, not {classes!r}")
