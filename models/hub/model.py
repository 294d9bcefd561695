"""A third-party model as an Architecture: its inputs, its answers and its kinds of attention.

Each subclass (readers.py, writers.py) is one task of such models, and none is made for one family.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from models.architectures.base import (
    NEXT_TOKEN,
    UNSEEN,
    Answers,
    Architecture,
    Field,
    LogitsProcessor,
)
from models.errors import InputError
from models.hub.generation import GenerationSettings
from models.hub.layer_map import LayerMap
from models.hub.logits import UNCHANGED
from models.hub.recording import given_weights
from models.hub.recording.context import PassContext, Tap, Taps
from models.hub.recording.watch import Marks, watching
from models.hub.sizes import HubConfig, settings_of
from models.hub.token_types import TYPES_INPUT, TokenTypes
from models.hub.tokenizer import CLOSING, OPENING, frames_of
from models.layers.masks import Masks, SiteKind
from models.layers.rotation import Rotation
from models.layers.sublayers import MIXER, Sublayer
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import current
from models.trace.outputs import Numbers, Output

NUMBERS_OUTPUT = "numbers"
BIDIRECTIONAL_SELF = SiteKind("self", "encoder", "self", "text", "text")
CAUSAL_SELF = SiteKind(
    "self", "decoder", "self", "text", "text"
)  # each token reads itself and the tokens before it


class RotaryPositions(Protocol):
    """The rotary positions of a model (models.hub.positions)."""

    def rotation(self, n: int) -> Rotation | None: ...


@runtime_checkable
class ExpertLayer(Protocol):
    """The experts of one feed-forward (models.hub.routing)."""

    def taps(self) -> Iterator[tuple[str, Tap]]: ...


class HubModel(Architecture):
    """A transformers model that reads one row of tokens.

    `pairs` says whether its tokenizer can put a second text after the first.
    """

    fields = (Field("text", "text", before=OPENING, after=CLOSING),)
    streams: ClassVar[tuple[str, ...]] = ("text",)
    kinds = (BIDIRECTIONAL_SELF,)
    order_source: str = UNSEEN  # set by positions.find_order_source
    can_drop_positions = False
    module: Any  # an instance of a library class, whose attributes differ
    answer_description = "vectors, for other programs to read"

    def __init__(
        self,
        module: nn.Module,
        config: HubConfig,
        *,
        pairs: bool = True,
    ) -> None:
        nn.Module.__init__(self)  # not Architecture's: its parts are all in the module
        self.config, self.module = config, module.eval()
        self.positions: nn.Module | None = None  # set by positions.position_table
        self.settings = settings_of(module)
        self.token_types: TokenTypes | None = None  # passed along with each text
        self.taps = Taps()
        self.limits: Mapping[str, int] = {}  # longest row by stream (lengths.stream_limits)
        self.rotary: RotaryPositions | None = None
        self.misfits: dict[
            str, str
        ] = {}  # name of an attention → the reason (probe.check_recorded)
        self.generation = GenerationSettings()
        self.unused: Sequence[str] = ()  # unused tensors in its files (weights.open_module)
        self.shows_causes = (
            False  # True if each attention has q, k and scores (probe.check_recorded)
        )
        self.by_functions = False  # watching a few functions is enough (probe_route.py)
        self.eval()  # as its module is
        self.record_layers(None)
        self.fields = (
            type(self).fields
            if pairs
            else tuple(f for f in type(self).fields if not (f.segment and f.optional))
        )
        self.marks = Marks(module, self.taps)

    @classmethod
    def needs_pair(cls) -> bool:
        """Return True if it reads a second text in the same row, and requires it."""
        return any(field.segment and not field.optional for field in cls.fields)

    @property
    def stack(self) -> str:
        """The stack that its attention was measured to be (probe.looks_ahead)."""
        return self.kinds[0].stack

    def stream_limit(self, stream: str) -> int:
        return self.limits.get(stream, self.config.n_ctx)

    def record_layers(self, layer_map: LayerMap | None) -> None:
        """Record the intermediates of these layers in later runs; attention alone if None."""
        self.logit_change = UNCHANGED
        self.routings: dict[str, ExpertLayer] = {}  # by the path of a feed-forward
        self.layer_map, self._sublayers = (
            layer_map,
            () if layer_map is None else layer_map.sublayers(self.kinds),
        )
        numbered = (part for part in self._sublayers if part.layer is not None)
        self._layers = {part.path: part.layer for part in numbered}  # of an attention, by its path
        self.taps.update(Taps() if layer_map is None else layer_map.taps())

    def record_experts(self, routings: Mapping[str, ExpertLayer]) -> None:
        """In later runs, also record which experts each token goes to."""
        self.routings = dict(routings)
        for experts in routings.values():
            for path, tap in experts.taps():
                self.taps.add(path, tap)

    def mark_mixers(self, paths: Collection[str]) -> None:
        """Mark the sublayers at these paths as mixers, which have no attention weights."""
        self._sublayers = tuple(
            replace(part, role=MIXER) if part.path in paths else part for part in self._sublayers
        )

    def rescale(self, scales: Sequence[float]) -> None:
        """Set the factor of each sublayer's output."""
        pairs = zip(self._sublayers, scales, strict=True)
        self._sublayers = tuple(replace(part, scale=scale) for part, scale in pairs)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return self._sublayers

    def rotation(self, n: int) -> Rotation | None:
        """Return the rotation that the model's own module computes."""
        return None if self.rotary is None else self.rotary.rotation(n)

    @property
    def first_reads_sum(self) -> bool:
        return False

    @property
    def last_norm(self) -> nn.Module:
        return (self.layer_map and self.layer_map.last_norm()) or nn.Identity()

    def readout(
        self, x: Float[Tensor, "*places d_model"], output: str = NEXT_TOKEN
    ) -> Float[Tensor, "*places vocab"]:
        """Return next-token logits by the model's own last norm, matrix, bias, scale and cap."""
        if output != NEXT_TOKEN:
            raise ValueError(f"{output!r} is not read from the stream {self.writes!r}")
        x = self.last_norm(x)
        if self.layer_map and (product := self.layer_map.last_product()):
            x = product(x)
        logits, bias = (
            self.module.get_output_embeddings()(x),
            getattr(self.module, "final_logits_bias", None),
        )
        return self.logit_change(logits if bias is None else logits + bias[0])

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def can_edit_masks(self) -> bool:
        return not self.config.gives_weights or self.shows_causes

    @property
    def end_ids(self) -> tuple[int, ...]:
        return self.config.end_ids or (self.config.end_id,)

    def logits_processor(
        self, inputs: Shaped[Tensor, " batch *size"], n_opening: int
    ) -> LogitsProcessor | None:
        return self.generation.logits_processor(inputs, n_opening, self.config.pad_id)

    def forced_by_position(self, limit: int) -> dict[int, int]:
        """Return the forced tokens: a translation's language first, the end of a text last."""
        first = {0: self.config.first_id} if self.config.first_id >= 0 else {}
        return first | ({limit - 1: self.config.last_id} if self.config.last_id >= 0 else {})

    @property
    def similarity(self) -> str:
        """Empty: the similarity of a third-party model cannot be swapped."""
        return ""

    def forward(
        self, text: Int[Tensor, "batch n"], types: Int[Tensor, "batch n"] | None = None
    ) -> Tensor | Answers:
        output = self.ask(self.pass_context(text), **self.row(text), **self._type_inputs(types))
        return self.answers_of(output)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        ids = super().inputs(rows)
        if self.token_types is None or "text" not in self.streams:
            return ids
        return (*ids, self.padded(self.types_of([row["text"] for row in rows]), 0))

    def types_of(self, rows: Sequence[Encoding]) -> list[list[int]]:
        """Return the token types of rows; empty if the model takes none."""
        types = self.token_types
        return [] if types is None else [types.of(row.segments, len(row.ids)) for row in rows]

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        """Return example inputs: texts, or ids for a model without a tokenizer."""
        if not frames_of(tokenizer):
            return [" ".join(str(i) for i in range(3, 11) if i < self.config.vocab_size)]
        return self._examples(tokenizer)

    def _examples(self, tokenizer: Tokenizer) -> list[Any]:
        return [
            "The little dog was very hungry because it had not eaten.",
            "She is reading a book about the sea.",
        ]

    def answers_of(self, output: Any) -> Answers:
        """Return the answers in an output of the module, batch first."""
        return {NUMBERS_OUTPUT: next(t for t in output.values() if isinstance(t, Tensor))}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        stream = self.streams[0]
        n, shape = len(streams[stream].ids), tuple(answers[NUMBERS_OUTPUT].shape)
        return {NUMBERS_OUTPUT: Numbers(stream, (n, *shape[1:]) if len(shape) > 1 else shape)}

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return ""

    def masks(self, *ids: Int[Tensor, "batch _"]) -> Masks:
        """Return no masks: the model makes its own, which the recorder takes apart."""
        return {}

    def ask(self, context: PassContext, **inputs: Any) -> Any:
        """Run the module, watched, and return its output.

        Raises InputError if none of its attentions can be recorded for this text.
        """
        output = self._ask(self.module, context, {"attentions": self.kinds[0]}, **inputs)
        recording = current()
        if recording is not None and recording.unrecorded and not recording.attention:
            reason = next(iter(recording.unrecorded.values()))
            raise InputError(f"its attention cannot be shown: {reason}", self.fields[0].name)
        return output

    def _ask(
        self,
        module: Callable[..., Any],
        context: PassContext,
        returned: Mapping[str, SiteKind],
        **inputs: Any,
    ) -> Any:
        """Run the module, or a part or method of it, watched, and return its output.

        `returned` maps the names under which the library returns finished weights to their kinds
        of attention.
        """
        gives = self.config.gives_weights
        context = replace(
            context,
            returns_weights=gives,
            misfits=self.misfits,
            layers=self._layers,
            taps=self.taps,
        )
        with watching(context, self.by_functions) as forward_pass:
            output = module(**inputs, output_attentions=True) if gives else module(**inputs)
            if gives:
                weights = {
                    kind: given_weights.attention_weights(output, name)
                    for name, kind in returned.items()
                }
                given_weights.record_given_weights(forward_pass, weights)
        for reason in forward_pass.unreached.values():
            raise InputError(reason, self.fields[0].name)
        return output

    def repeated(self, ids: Int[Tensor, "batch n"]) -> tuple[Tensor, ...]:
        """Return arguments of `forward` with these ids on every stream, without types."""
        return tuple(ids for _ in self.streams)

    def trial_inputs(self, ids: Int[Tensor, "batch n"]) -> Tensor:
        """Return the input of `encode` in trial runs of these rows."""
        return ids

    @property
    def reader(self) -> nn.Module:
        """The module that reads the first stream."""
        return self.module

    def pass_context(
        self, text: Int[Tensor, "batch n"], start: int = 0, kind: SiteKind | None = None
    ) -> PassContext:
        """Return the context of a pass over this row; `kind` is the first kind if None."""
        kind, n = kind or self.kinds[0], text.shape[1]
        is_token = text != self.config.pad_id
        padding = {} if start else {kind.key_stream: is_token}
        return PassContext(
            lambda frame: kind,
            n,
            start,
            {kind.key_stream: start + n},
            padding,
            self.groups,
            n_rows=len(text),
            token_table=self.token_table,
        )

    @property
    def token_table(self) -> Tensor | None:
        """The embedding matrix."""
        return self.module.get_input_embeddings().weight

    @property
    def groups(self) -> int:
        """Number of query heads per key head, the largest of any layer."""
        return max(1, self.config.n_heads // self.config.n_key_heads)

    def row(
        self, ids: Int[Tensor, "batch n"], name: str = "input_ids", mask: str = "attention_mask"
    ) -> dict[str, Tensor]:
        """Return a row as the module takes it, with a mask only if short rows were padded."""
        is_token = ids != self.config.pad_id
        filled = {name: ids.masked_fill(~is_token, self.config.fill_id)}
        return filled if bool(is_token.all()) else filled | {mask: is_token.long()}

    def _type_inputs(self, types: Tensor | None) -> dict[str, Tensor]:
        return {} if types is None else {TYPES_INPUT: types}
