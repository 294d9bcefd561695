"""The interface of an architecture: callers ask for an ability and never for a class."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from models.layers.cache import Cache
from models.layers.dropout import Dropout
from models.layers.masks import Masks, SiteKind
from models.layers.positions import Positions
from models.layers.rotation import Rotation
from models.layers.sublayers import Sublayer
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import TracedModule, tap
from models.trace.outputs import NextToken, Output, first_choices

NEXT_TOKEN = "next token"  # output of every model that generates text
CLASSES_OUTPUT = "classes"  # output of a text classifier
MASKED_OUTPUT = "masked token"  # output of a masked language model

TEXT_FIELD, POSITIONS_FIELD, ORDER_FIELD = "text", "positions", "order"  # kinds of fields
IMAGE_FIELD, SOUND_FIELD = "image", "sound"  # whose value is a file
FILE_FIELDS = IMAGE_FIELD, SOUND_FIELD

# How a model knows the order of its tokens: by added position vectors, a term of each score,
# rotated queries and keys, a recurrent state, its mask alone, or by means that a run does not show
BY_VECTORS, BY_SCORES, BY_ROTATION, BY_STATES = "vectors", "scores", "rotation", "states"
BY_MASK, UNSEEN = "mask", "unseen"


@dataclass(frozen=True)
class Family:
    """The kind of a model, in a few words with its paper, and the year that sorts it."""

    name: str
    year: int = 9999  # after all others if the paper is not known


@runtime_checkable
class Config(Protocol):
    """The sizes of one model: a frozen dataclass defined by its architecture.

    A model that is not in ARCHITECTURES names its own in a field `architecture`.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def vocab_size(self) -> int: ...

    @property
    def d_model(self) -> int: ...

    @property
    def n_ctx(self) -> int:
        """Length of the longest stream, in tokens."""
        ...

    @property
    def pad_id(self) -> int: ...

    @property
    def family(self) -> Family: ...


@dataclass(frozen=True)
class Field:
    """One input of a model: a text and its stream, or positions of tokens there."""

    name: str
    stream: str
    optional: bool = False
    before: str = ""  # special token before the text, by its tokenizer name ("start", "cls")
    after: str = ""  # special token after the text
    closing: str = ""  # special token after the whole stream
    segment: int | None = None  # number of this text on its stream; None: not marked
    kind: str = TEXT_FIELD

    @property
    def title(self) -> str:
        """The name for display."""
        return self.name.replace("_", " ")


Answers = Mapping[str, Tensor]  # logits by the name of an output, batch first
# the row so far and the logits of the token after it → the scores by which that token is chosen
LogitsProcessor = Callable[[Tensor, Tensor], Tensor]


class _Named(type):
    """A metaclass that tells the parts of a new model their paths, so that no subclass has to."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        model = super().__call__(*args, **options)
        for path, part in model.named_modules():
            if isinstance(part, TracedModule):
                part.path = path
        return model


class Architecture(nn.Module, metaclass=_Named):
    """A model: one embedding matrix for input and logits, and what lies between.

    `forward` takes the result of `inputs`: the ids of each stream, in the order of `streams`, and
    further inputs of the model. It returns logits over `writes`, one row per position, or Answers
    if the model has other outputs.
    """

    fields: tuple[Field, ...]  # in the order of `Scope.run`
    streams: ClassVar[tuple[str, ...]]
    writes: ClassVar[str] = ""  # stream whose next token is predicted; "" if none is
    kinds: tuple[SiteKind, ...]  # of its attentions, in the order of the pass
    pair_output: str = ""  # output that needs two texts; "" if none does
    relative_positions: ClassVar[bool] = False  # scores depend on distance; no vector is added
    can_cache: bool = True  # keys and values of earlier positions can be cached
    can_go_back: bool = True  # positions can be removed from its cache
    sees_ahead: bool = False  # a written position may attend to later ones, by its own mask
    can_edit_masks: bool = True  # an edit reaches its attention
    can_drop_positions: bool = True  # it can be copied without position vectors
    answer_description: str = ""  # description of a third-party model's task
    not_applied: Sequence[str] = ()  # settings of a third-party model that change what it writes
    settings: str = ""  # of a third-party model: what its answers depend on besides `config`
    pads: bool = True  # rows of different lengths can be padded to one batch
    is_recurrent: bool = False  # a state carries the past; there are no keys to cache

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
        """Stream whose states `readout` reads."""
        return self.writes

    @property
    def read_outputs(self) -> tuple[str, ...]:
        """Outputs that `readout` computes from the states of `read_stream`."""
        return (NEXT_TOKEN,) if self.writes else ()

    def rotation(self, n: int) -> Rotation | None:
        """Return the rotation of queries and keys at positions 0…n−1, None if there is none."""
        return None

    @property
    def order_source(self) -> str:
        """The means by which the model knows the order of its tokens."""
        if self.is_recurrent:
            return BY_STATES
        if self.relative_positions:
            return BY_SCORES
        return BY_MASK if self.config.positions == "none" else BY_VECTORS

    @property
    def stack(self) -> str:
        """Stack that embeds the input: "encoder", or "decoder" in a decoder-only model."""
        return "decoder" if self.continues else "encoder"

    @property
    def similarity(self) -> str:
        """Similarity that can be replaced; "" if there is none, or Bahdanau's own alignment."""
        return getattr(self.config, "similarity", "")

    @classmethod
    def possible_fields(cls) -> tuple[Field, ...]:
        """Return the fields of all models of this architecture."""
        return cls.fields

    @property
    def text_fields(self) -> tuple[Field, ...]:
        """The fields that are texts."""
        return tuple(field for field in self.fields if field.kind == TEXT_FIELD)

    @property
    def reads_text(self) -> bool:
        """True if its first input is a text, not a file."""
        return self.fields[0].kind == TEXT_FIELD

    @property
    def can_write(self) -> bool:
        """True if it predicts the next token of a stream that may grow."""
        return bool(self.writes)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end a generated text."""
        return (self.config.end_id,)

    def forced_by_position(self, limit: int) -> dict[int, int]:
        """Return the tokens fixed in every text of at most `limit` tokens, by position."""
        return {}

    def logits_processor(
        self, inputs: Shaped[Tensor, "batch *size"], n_opening: int
    ) -> LogitsProcessor | None:
        """Return a function that changes logits before a token is chosen; None if nothing does.

        `inputs` are what `encoder_inputs` makes from the rows; the written row begins with an
        opening of `n_opening` tokens. A score of −∞ excludes a token.
        """
        return None

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """Attentions and feed-forwards in the order of the pass; empty if it has no such layers."""
        return ()

    @property
    def last_norm(self) -> nn.Module:
        """Module between the last sublayer and the logits: a LayerNorm or the identity."""
        return nn.Identity()

    @property
    def continues(self) -> bool:
        """True if generated tokens continue the input stream, as in a language model."""
        return self.fields[0].stream == self.writes

    @property
    def reads_itself(self) -> bool:
        """True if the tokens of the input attend to each other."""
        stream = self.fields[0].stream
        return any(kind.query_stream == kind.key_stream == stream for kind in self.kinds)

    @property
    def translates(self) -> bool:
        """True if it reads one text and writes another."""
        return self.can_write and not self.continues

    @property
    def first_reads_sum(self) -> bool:
        """True if the input of the first W_Q, W_K and W_V is embedding + position, nothing else."""
        return getattr(self.config, "norm", "post") == "post"

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def masks(self, *ids: Int[Tensor, "batch _"]) -> Masks:
        """Return the model's own mask of each kind of attention, for the ids of each stream."""
        raise NotImplementedError

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return the streams of a run, with those that the model derives from the typed ones."""
        return dict(streams)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """Return the arguments of `forward` for these rows, padded to the longest."""
        return tuple(
            self.padded([row[stream].ids for row in rows], self.config.pad_id)
            for stream in self.streams
        )

    def padded(self, rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "batch n"]:
        """Return rows of numbers as one tensor on the model's device, padded with `value`."""
        return pad_sequence(
            [torch.tensor(row) for row in rows], batch_first=True, padding_value=value
        ).to(self.device)

    def encoder_inputs(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the input of `encode` for these rows of the first stream: ids, padded."""
        return self.padded(rows, self.config.pad_id)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        """Return the typed answers to one row (logits without batch axis), best first."""
        row, logits = streams[self.writes], answers[NEXT_TOKEN][: len(streams[self.writes].ids)]
        end = () if self.continues else (self.config.end_id,)
        predicted = tokenizer.tokens(first_choices(logits))
        return {NEXT_TOKEN: NextToken(self.writes, (*row.ids[1:], *end), logits, predicted)}

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """Return these outputs as a text: the first choice after each position."""
        next_token = cast(NextToken, outputs[NEXT_TOKEN])
        return tokenizer.decode(first_choices(next_token.logits))

    def opening(self, inputs: Int[Tensor, "batch n"]) -> Int[Tensor, "batch m"]:
        """Return the row on `writes` before anything is generated, for a source or a prompt."""
        raise NotImplementedError

    def written_masks(
        self, inputs: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return the masks of a run that has generated `row`, for queries from `start` on."""
        raise NotImplementedError

    def encode(self, inputs: Int[Tensor, "batch n"], masks: Masks) -> Tensor | None:
        """Return the encoding of `inputs` that all steps share; None if there is none."""
        raise NotImplementedError

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_memory"] | None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        """Return the logits after each position of `row`, which begins at position `start`."""
        raise NotImplementedError

    def stream_limit(self, stream: str) -> int:
        """Return the longest row of a stream, in tokens."""
        return self.config.n_ctx

    def max_new_tokens(self, n_given: int) -> int:
        """Return the maximum number of tokens to generate after `n_given` input tokens."""
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
        """Return factor·embedding + position, from position `start` on, recorded under `stack`.

        Raises:
            ValueError: the row is longer than n_ctx.
        """
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
        """Return the logits of one of `read_outputs`, from states of `read_stream`.

        Applied to a layer before the last, this is the logit lens (nostalgebraist 2020).

        Raises:
            ValueError: the output is not read from that stream.
        """
        if output != NEXT_TOKEN:
            raise ValueError(f"{output!r} is not read from the stream {self.writes!r}")
        return F.linear(self.last_norm(x), self.embedding.weight)

    def _logits(
        self, x: Float[Tensor, "batch m d_model"], formula: str
    ) -> Float[Tensor, "batch m vocab"]:
        """Return x times the embedding matrix; `formula` describes it."""
        logits = F.linear(x, self.embedding.weight)
        return tap("", "logits", logits, self.writes, "vocab", formula)
