"""The context of a pass: the module at work, a call of attention, the streams, the taps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from models.hub.recording.projections import Origin
from models.layers.masks import SiteKind
from models.layers.similarity import AttentionSimilarity
from models.trace import AttentionSite
from models.trace.lazy import LazyLinear


@dataclass(frozen=True)
class Tap:
    """One intermediate: the input or output of the module at a path, or the result of `make`.

    An edit of the input changes the module's argument. With `in_place` it changes the tensor
    itself, and so also the residual stream that passes beside the module.
    """

    name: str  # in the run
    of_input: bool
    formula: str
    feature: str = "d_model"
    largest: int = 0  # most numbers to keep, so that runs of long texts stay small; 0: any
    make: Callable[[Tensor], LazyLinear] | None = None
    in_place: bool = False
    copies: bool = False  # True if the model may change it in place afterwards
    which: int = 0  # index among the tensors taken or returned; only 0 is edited
    is_product: bool = False  # an attention's output; skipped if its product with W_O was seen


@dataclass(frozen=True)
class Taps:
    """The taps of a model by (path of a module, True for its input). Hooks look here at each pass.

    `exact` is used while edits change intermediates: each is tapped where it is itself the input or
    output of a module, not made from another. `number` tells models apart; a deep copy of a model
    keeps it, as its hooks do.
    """

    by_place: dict[tuple[str, bool], tuple[Tap, ...]] = field(default_factory=dict)
    exact: dict[tuple[str, bool], tuple[Tap, ...]] = field(default_factory=dict)
    number: int = field(default_factory=itertools.count().__next__)

    def add(self, path: str, tap: Tap) -> None:
        """Record this tap, too, in later passes."""
        for taps in (self.by_place, self.exact):
            taps[path, tap.of_input] = (*taps.get((path, tap.of_input), ()), tap)

    @property
    def paths(self) -> set[str]:
        """Paths of all modules where something is recorded."""
        return {path for path, _ in (*self.by_place, *self.exact)}

    def update(self, taps: Taps) -> None:
        """Record the other taps in later passes, instead of these."""
        for mine, other in ((self.by_place, taps.by_place), (self.exact, taps.exact)):
            mine.clear()
            mine.update(other)


NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
Origins = frozenset[str]
NO_ORIGINS: Origins = frozenset()


class Provenance:
    """The inputs that the tensors of one pass come from, by name."""

    def __init__(self, inputs: Mapping[str, Sequence[Tensor]]) -> None:
        self._origins = WeakTensorKeyDictionary()
        self._queries, self._keys = NO_ORIGINS, NO_ORIGINS
        for name, tensors in inputs.items():
            for tensor in tensors:
                self._origins[tensor] = self.of(tensor) | {name}

    def of(self, t: Shaped[Tensor, ...]) -> Origins:
        """Return the inputs that a tensor comes from; none if that is not known."""
        return self._origins.get(t) or NO_ORIGINS

    def note(self, result: Any, *causes: Any) -> None:
        """Note that a function has made `result` from `causes`."""
        origins = NO_ORIGINS.union(*map(self.of, _tensors(causes)))
        for t in _tensors(result) if origins else ():
            self._origins[t] = origins

    def note_call(self, query: Shaped[Tensor, ...], key: Shaped[Tensor, ...]) -> None:
        """Note the queries and keys of the attention that comes next."""
        self._queries, self._keys = self.of(query), self.of(key)

    def kind(self, n_query: int, n_key: int) -> SiteKind | str:
        """Return the kind of the attention that was noted last, or the reason why it has none."""
        raise NotImplementedError

    def lengths(self, kind: SiteKind) -> tuple[int, int] | None:
        """Return the number of queries and keys of this kind of attention, if that is known."""
        return None


class OneText(Provenance):
    """A module that reads one text, perhaps beside other inputs.

    Its tokens are those of the first attention that fits them.
    """

    def __init__(self, tensors: Sequence[Tensor], kind: SiteKind, n: int) -> None:
        distinct = {id(t): t for t in tensors}
        super().__init__({f"input {i}": [t] for i, t in enumerate(distinct.values())})
        self._kind, self._n, self._text = kind, n, NO_ORIGINS
        self._origin_known = False  # True once the origin of any queries or keys was known

    def kind(self, n_query: int, n_key: int) -> SiteKind | str:
        fits = (n_query, n_key) == (self._n, self._n)
        if not self._text and fits:
            self._text = self._queries & self._keys
        self._origin_known |= bool(self._queries or self._keys)
        if not fits or not self._origin_known:
            return self._kind  # other lengths are refused elsewhere; an unknown origin is no reason
        for what, origins in (("queries", self._queries), ("keys", self._keys)):
            if not origins:
                return f"it is not known which tokens its {what} come from"
            if not origins & self._text:
                return f"its {what} do not come from the tokens that are shown"
        return self._kind


class TextStreams(Provenance):
    """A module that reads several texts, each on a stream of its own."""

    def __init__(
        self,
        inputs: Mapping[str, Sequence[Tensor]],
        kinds: Sequence[SiteKind],
        lengths: Mapping[str, int],
    ) -> None:
        super().__init__(inputs)
        self._kinds = {(kind.query_stream, kind.key_stream): kind for kind in kinds}
        self._lengths = lengths

    def kind(self, n_query: int, n_key: int) -> SiteKind | str:
        for what, origins in (("queries", self._queries), ("keys", self._keys)):
            if not origins:
                return f"it is not known which text its {what} come from"
            if len(origins) > 1:
                return f"its {what} come from {' and '.join(sorted(origins))} together"
        return self._kinds[next(iter(self._queries)), next(iter(self._keys))]

    def lengths(self, kind: SiteKind) -> tuple[int, int]:
        return self._lengths[kind.query_stream], self._lengths[kind.key_stream]


def _tensors(values: Any) -> Iterator[Tensor]:
    """Yield all tensors in nested lists, tuples and mappings."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _tensors(value)


def rebuild(sequence: Sequence[Any], values: Iterable[Any]) -> Any:
    """Return a list or tuple of these values, of the type of `sequence`."""
    of_type: Any = type(sequence)  # a named tuple takes its fields one by one
    return of_type._make(values) if hasattr(of_type, "_make") else of_type(values)


class ModuleCall(NamedTuple):
    """A module at work: its path and arguments."""

    path: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = NO_ARGUMENTS

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it is called with."""
        return tuple(t for t in (*self.args, *self.kwargs.values()) if isinstance(t, Tensor))


def module_at_work(frames: Sequence[ModuleCall]) -> ModuleCall:
    """Return the innermost of the modules that have been entered and not left."""
    return frames[-1] if frames else ModuleCall("attention")


@dataclass(frozen=True)
class HeadPlace:
    """The place of a head that is called by itself: its attention, and its index there."""

    site: str
    head: int
    n_heads: int
    number: int  # of the layer


@dataclass(frozen=True)
class PassContext:
    """The caller's knowledge of a pass: the kind of each attention, and the streams' tokens.

    `padding` is stream → True at its tokens, absent if it has no padding; `groups` is the number
    of query heads per key head.
    """

    kind: Callable[[ModuleCall], SiteKind]
    n_query: int
    start: int = 0  # position of the first query on the generated stream
    n_key: Mapping[str, int] = field(default_factory=dict)
    padding: Mapping[str, Bool[Tensor, "batch key"]] = field(default_factory=dict)
    groups: int = 1
    n_rows: int = 1  # texts of the batch
    returns_weights: bool = False  # its library returns the finished weights of every attention
    heads: Mapping[str, HeadPlace] = field(default_factory=dict)  # by the name of a single head
    misfits: Mapping[str, str] = field(default_factory=dict)  # name of an attention → the reason
    layers: Mapping[str, int] = field(default_factory=dict)  # path of an attention → layer number
    token_table: Tensor | None = None  # the embedding matrix
    # paths at which there was an attention, where one `forward` makes several passes
    names: set[str] | None = None
    # in a decoder: the finished encoding, then its products before the first attention
    memory: list[Tensor] = field(default_factory=list)
    # in a module whose attentions are distinguished by the origin of their rows
    provenance: Provenance | None = None
    # of the running model: hooks of other models on its modules do nothing; None: all hooks count
    taps: Taps | None = None


@dataclass(frozen=True)
class AttentionCall:
    """A call of attention: q (batch, head, query, d_head), k and v (batch, key head, key, d_head).

    `attn_mask` is as for scaled_dot_product_attention, `scale` None for 1/√d_head, `similarity`
    replaces the scaled dot product. `origins` of q, k and v, and `output` (W_O and its bias), are
    given if the caller knows them.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    attn_mask: Tensor | None
    is_causal: bool
    scale: float | None
    origins: tuple[Origin | None, ...] | None = None
    output: tuple[Tensor, Tensor | None] | None = None
    similarity: AttentionSimilarity | None = None


@dataclass(frozen=True)
class AttentionOutput:
    """A finished attention: name, stream of its queries, head outputs, and its site if recorded.

    The head outputs are the model's own, at these versions (`projections.versions_of`).
    """

    name: str
    stream: str
    head_out: Float[Tensor, "batch head query d_head"]
    site: AttentionSite | None
    versions: tuple[int, ...] | None
