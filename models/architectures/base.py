"""What every architecture offers, so that scopes, decoding and pages ask for an ability and never for a class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from models.layers.cache import Cache
from models.layers.dropout import Dropout
from models.layers.masks import Masks, SiteKind
from models.layers.positions import Positions
from models.layers.rotation import Rotation
from models.layers.sublayers import Sublayer
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import Placed, tap
from models.trace.outputs import NextToken, Output, first_choices

NEXT_TOKEN = "next token"  # the output of every model that writes
CLASSES = "classes"  # that of one which says what kind of text it reads
MASKED = "masked token"  # that of one which guesses the token in place of each mask

TEXT, POSITIONS, ORDER = "text", "positions", "order"  # kinds of fields

# What tells a model the order of its tokens: vectors of places that are added, a term of each score, queries and keys turned by
# their places, a state that carries the past; nothing but the mask, if there is one; or something that a run does not show.
BY_VECTORS, BY_SCORES, BY_TURNING, BY_STATES = "vectors", "scores", "turning", "states"
BY_MASK, UNSEEN = "mask", "unseen"


@dataclass(frozen=True)
class Family:
    """What kind of model a configuration is of, in a few words with its paper, and the year that places it in history."""

    name: str
    year: int


@runtime_checkable
class Config(Protocol):
    """The sizes of one model: a frozen dataclass that each architecture defines for itself.

    A model that is not in ARCHITECTURES names its own in a field `architecture`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def vocab_size(self) -> int: ...

    @property
    def d_model(self) -> int: ...

    @property
    def n_ctx(self) -> int:
        """The longest stream, in tokens."""
        ...

    @property
    def pad_id(self) -> int: ...

    @property
    def family(self) -> Family: ...


@dataclass(frozen=True)
class Field:
    """One thing that a person gives a model: a text, and the stream its tokens stand on; or positions of tokens there, some to be
    hidden or all of them in an order."""

    name: str
    stream: str
    optional: bool = False
    before: str = ""  # the special token that stands before the text, by its name in the tokenizer ("start", "cls")
    after: str = ""  # the one behind it
    closing: str = ""  # the one behind all that stands on its stream
    segment: int | None = (
        None  # of several texts on one stream, which this is; None where a model does not mark them
    )
    kind: str = TEXT

    @property
    def title(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ")


Answers = Mapping[str, Tensor]  # name of an output → its logits, batch first


class _Named(type):
    """Makes a model and then tells its parts their paths, so that no subclass has to."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        model = super().__call__(*args, **named)
        for path, part in model.named_modules():
            if isinstance(part, Placed):
                part.path = path
        return model


class Architecture(nn.Module, metaclass=_Named):
    """One embedding matrix for input and logits, and what lies between.

    `forward` takes what `inputs` makes of encoded texts: the ids of each stream, in the order of `streams`, and what else a model
    reads of them. Of a model that writes it gives logits over `writes`, one row a position; of another its Answers."""

    fields: tuple[Field, ...]  # texts first
    streams: ClassVar[tuple[str, ...]]
    writes: ClassVar[str] = (
        ""  # the stream whose next token is predicted; "" in a model that predicts none
    )
    kinds: tuple[SiteKind, ...]  # of its attentions, in the order a reader meets them
    of_two: str = ""  # the output that it gives of two texts and not of one; "" in a model without
    relative_positions: ClassVar[bool] = (
        False  # each score is told how far apart two tokens are; no vector is added
    )
    can_cache: bool = (
        True  # of a model that writes: keys and values of earlier positions can be kept
    )
    can_go_back: bool = True  # whether positions read into its cache can be taken out again
    masks_can_change: bool = True  # whether an edit reaches its attention
    activations_can_change: bool = True  # whether an edit reaches its other intermediates
    positions_can_go: bool = True  # whether a copy of it without position vectors can be made
    what_it_answers: str = (
        ""  # in words, of a model that somebody else made; "" where its task says it
    )
    pads: bool = True  # rows of different lengths can be padded to one batch
    is_recurrent: bool = False  # a state carries the past: it has no keys to cache

    def __init__(self, config: Any, *, positions: bool, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = (
            Positions(config.positions, config.n_ctx, config.d_model) if positions else None
        )
        self.dropout = Dropout(dropout)

    @property
    def read_stream(self) -> str:
        """The stream whose states `readout` reads: the one that it writes."""
        return self.writes

    @property
    def read_outputs(self) -> tuple[str, ...]:
        """The outputs that `readout` makes of the states of `read_stream`."""
        return (NEXT_TOKEN,) if self.writes else ()

    def rotation(self, n: int) -> Rotation | None:
        """By which angles queries and keys are turned at positions 0…n−1; None in a model that is not known to turn them."""
        return None

    @property
    def order_from(self) -> str:
        """The means by which it tells the order of its tokens."""
        if self.is_recurrent:
            return BY_STATES
        if self.relative_positions:
            return BY_SCORES
        return BY_MASK if self.config.positions == "none" else BY_VECTORS

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
        """Return True if it predicts the next token of a stream that is open behind, and so can write one."""
        return bool(self.writes)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The tokens that end what it writes."""
        return (self.config.end_id,)

    def always_taken(self, limit: int) -> dict[int, int]:
        """Position → the token that stands there in every text it writes of at most `limit` tokens."""
        return {}

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
        """Return True if what it writes goes on on the stream of what was asked, as a language model's does."""
        return self.fields[0].stream == self.writes

    @property
    def reads_itself(self) -> bool:
        """True if the tokens of what is asked attend to each other."""
        asked = self.fields[0].stream
        return any(kind.query_stream == kind.key_stream == asked for kind in self.kinds)

    @property
    def translates(self) -> bool:
        """Return True if it reads one text and writes another."""
        return self.can_write and not self.continues

    @property
    def first_reads_sum(self) -> bool:
        """Return True if what the first layer's W_Q, W_K and W_V read is embedding + position and nothing else."""
        return getattr(self.config, "norm", "post") == "post"

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def masks(self, *ids: Int[Tensor, "batch _"]) -> Masks:
        """The model's own mask of each kind of attention, for the ids of each stream."""
        raise NotImplementedError

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """The streams of a run, with those that the model makes of the typed ones."""
        return dict(streams)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """What `forward` takes of these rows, filled up to the longest."""
        return tuple(
            self.padded([row[stream].ids for row in rows], self.config.pad_id)
            for stream in self.streams
        )

    def padded(self, rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "batch n"]:
        """Rows of numbers as one tensor on the model's device, the shorter ones filled up."""
        return pad_sequence(
            [torch.tensor(row) for row in rows], batch_first=True, padding_value=value
        ).to(self.device)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        """The typed answers to one row, of its logits without the batch axis; what a page shows first comes first."""
        row, logits = streams[self.writes], answers[NEXT_TOKEN][: len(streams[self.writes].ids)]
        end = () if self.continues else (self.config.end_id,)
        predicted = tokenizer.tokens(first_choices(logits))
        return {NEXT_TOKEN: NextToken(self.writes, (*row.ids[1:], *end), logits, predicted)}

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """What these outputs say, as a text: of a model that writes its first choice after each position."""
        return tokenizer.decode(first_choices(outputs[NEXT_TOKEN].logits))

    def opening(self, given: Int[Tensor, "batch n"]) -> Int[Tensor, "batch m"]:
        """The row on `writes` before a token is written, where `given` is what was asked: a source, or the text so far."""
        raise NotImplementedError

    def written_masks(
        self, given: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """The masks of a run that has come to `row`; on the stream it writes, of the queries from position `start` on."""
        raise NotImplementedError

    def encode(self, given: Int[Tensor, "batch n"], masks: Masks) -> Tensor | None:
        """What is worked out of `given` once for all steps; None if nothing is."""
        raise NotImplementedError

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: Tensor | None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        """Logits after each position of `row`, whose first token stands at position `start` (>0 with a cache)."""
        raise NotImplementedError

    def longest(self, n_given: int) -> int:
        """How many tokens a run may write before it is stopped, after so many given ones."""
        raise NotImplementedError

    def _embed(
        self,
        ids: Int[Tensor, "batch n"],
        stream: str,
        stack: str,
        start: int = 0,
        factor: float = 1.0,
        formula: str = "embedding(token)",
    ) -> Float[Tensor, "batch n d_model"]:
        """factor·embedding + position, from position `start` on; marked under `stack`. Raises ValueError beyond n_ctx."""
        n = ids.shape[1]
        if start + n > self.config.n_ctx:
            raise ValueError(
                f"{start + n} tokens, but this model reads at most {self.config.n_ctx} (n_ctx)"
            )
        x = tap(stack, "embedding", self.embedding(ids) * factor, stream, "d_model", formula)
        if self.positions is None:
            return self.dropout(x)
        formula = f"{self.config.positions} position vectors"
        position = self.positions(n, start)[None]  # (1, n, d_model)
        return self.dropout(x + tap(stack, "position", position, stream, "d_model", formula))

    def readout(
        self, x: Float[Tensor, "*places d_model"], output: str = NEXT_TOKEN
    ) -> Float[Tensor, "*places logit"]:
        """The logits that the model's own path to one of its outputs makes of its stream `writes`; asked of a layer that is not the
        last, what it would say if it stopped there (nostalgebraist 2020, "the logit lens"). Raises ValueError for an output that
        it does not read from there."""
        if output != NEXT_TOKEN:
            raise ValueError(f"{output!r} is not read from the stream {self.writes!r}")
        return F.linear(self.last_norm(x), self.embedding.weight)

    def _logits(
        self, x: Float[Tensor, "batch m d_model"], formula: str
    ) -> Float[Tensor, "batch m vocab"]:
        """What the last layer made, times the embedding matrix; `formula` says so in symbols."""
        logits = F.linear(x, self.embedding.weight)
        return tap("", "logits", logits, self.writes, "vocab", formula)
