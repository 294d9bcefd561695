"""The protocol of an edit: where it applies, and the five parts of a run that it may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from operator import index

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.masks import Mask

WHOLE_MODULE = "the module itself"  # the name for an attention outside all parts of a module
FARTHEST = 10**6  # tokens: the largest position or offset of an edit

LayerNumbers = tuple[int, ...] | None  # None for all of them


@dataclass(frozen=True)
class Where:
    """The part of a run that an edit applies to; None means no restriction."""

    site: str | None = None  # path of one attention, as in `trace.attention`
    kind: str | None = None  # name of a SiteKind
    layers: LayerNumbers = None  # from 0 within their stack
    heads: LayerNumbers = None  # from 0
    queries: LayerNumbers = None  # query positions; of an activation, token positions
    rows: LayerNumbers = None  # of the batch
    activation: str | None = None  # name of an intermediate, as in `trace.activations`

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "queries", "rows"):
            if (numbers := getattr(self, name)) is not None:
                object.__setattr__(self, name, _numbers(name, numbers))
        if wrong := [position for position in self.queries or () if position < 0]:
            raise ValueError(f"positions are counted from 0, got {wrong[0]}")

    def meets(self, kind: str, site: str, layer: int) -> bool:
        """Return True if this attention is selected."""
        return (
            self.activation is None
            and self.site in (None, site)
            and self.kind in (None, kind)
            and (self.layers is None or layer in self.layers)
        )

    def describe(self, first: int = 0) -> tuple[str, list[str]]:
        """Name the attention or intermediate, and list the restrictions.

        Layers and heads are counted from `first`, positions from 0.
        """
        site = None if self.site is None else path_or_module(self.site)
        place = self.activation or site or (self.kind or "every attention").replace("_", " ")
        limits = {
            ("in layer", "in layers"): (self.layers, first),
            ("in head", "in heads"): (self.heads, first),
            ("at position", "at positions"): (self.queries, 0),
            ("in batch row", "in batch rows"): (self.rows, first),
        }
        return place, [
            f"{names[len(numbers) > 1]} {', '.join(str(n + begin) for n in numbers)}"
            for names, (numbers, begin) in limits.items()
            if numbers is not None
        ]


@dataclass(frozen=True, eq=False)
class AttentionPart:
    """The batch rows, heads and query positions of an attention that a tensor covers.

    It covers all keys. `site` is the path of the attention. `weights` (rows, heads, queries, key)
    are those in use before head outputs are edited, `values` (rows, heads, key, d_head) the vectors
    they average; both are worked out when read, and neither exists while a mask is edited.
    `allowed` is the mask, None if it allows everything.
    """

    rows: Sequence[int]
    heads: Sequence[int]
    queries: Sequence[int]
    n_key: int
    device: torch.device
    read_weights: Callable[[], Tensor] | None = None
    read_values: Callable[[], Tensor] | None = None
    allowed: Bool[Tensor, "#rows #heads #queries key"] | None = None
    site: str = ""

    @cached_property
    def weights(self) -> Float[Tensor, "rows heads queries key"]:
        if self.read_weights is None:
            raise RuntimeError("weights cannot be read while the mask is edited")
        return self.read_weights()

    @cached_property
    def values(self) -> Float[Tensor, "rows heads key d_head"]:
        if self.read_values is None:
            raise RuntimeError("values cannot be read while the mask is edited")
        return self.read_values()

    def chosen(self, where: Where) -> Bool[Tensor, "#rows #heads #queries 1"]:
        """Mark the (row, head, query) that an edit applies to."""
        axes = ((self.rows, where.rows), (self.heads, where.heads), (self.queries, where.queries))
        return _mark_positions(axes, self.device)


@dataclass(frozen=True, eq=False)
class ActivationPart:
    """The name, stream, batch rows and token positions of an intermediate (row, token, feature)."""

    name: str
    stream: str
    rows: Sequence[int]
    tokens: Sequence[int]
    device: torch.device

    def chosen(self, where: Where) -> Bool[Tensor, "#rows #tokens 1"]:
        """Mark the (row, token) that an edit applies to."""
        marked = _mark_positions(
            ((self.rows, where.rows), (self.tokens, where.queries)), self.device
        )
        return marked & (where.activation in (None, self.name))


def _mark_positions(
    axes: Sequence[tuple[Sequence[int], LayerNumbers]], device: torch.device
) -> Bool[Tensor, ...]:
    marked = torch.ones([1] * (len(axes) + 1), dtype=torch.bool)
    for axis, (present, limits) in enumerate(axes):
        if limits is not None:
            shape = [len(present) if i == axis else 1 for i in range(marked.dim())]
            marked = marked & torch.tensor([i in limits for i in present]).view(shape)
    return marked.to(device)


def _numbers(name: str, numbers: Iterable[int]) -> tuple[int, ...]:
    """Return a user's numbers as a tuple."""
    try:
        return tuple(index(number) for number in numbers)
    except TypeError:
        raise ValueError(f"{name} must be whole numbers in a list, got {numbers!r:.60}") from None


def path_or_module(site: str) -> str:
    """Return the path of an attention for display, also of one outside all parts of a module."""
    has_path = site and not site.startswith(" (")  # of several, from the second on
    return site if has_path else f"{WHOLE_MODULE}{site}"


TYPES: dict[str, type[Edit]] = {}  # by the type name in a stored edit


@dataclass(frozen=True)
class Edit:
    """A change to a run. A subclass is a frozen dataclass that overrides what it changes.

    `where` may be the path of an attention, and `head` is short for one head of it. Each (batch
    row, head, query) is changed independently: a run edits a whole attention, a trace later replays
    the same edit on one head and a few queries.
    """

    where: Where = Where()
    head: InitVar[int | None] = None

    def __init_subclass__(cls, stored: bool = True) -> None:
        if stored:
            TYPES[cls.__name__] = cls

    def __post_init__(self, head: int | None) -> None:
        where = Where(site=self.where) if isinstance(self.where, str) else self.where
        where = where if head is None else replace(where, heads=(head,))
        object.__setattr__(self, "where", where)

    def mask(self, mask: Mask, part: AttentionPart) -> Mask:
        """Change the mask, before anything is computed under it."""
        return mask

    def weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Change the weights; the mask is applied again, and changed rows are made to sum to 1."""
        return weights

    def value_weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Change the factors of the values in the head output; rows are not rescaled."""
        return weights

    def head_out(
        self, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
    ) -> Float[Tensor, "row head query d_head"]:
        """Change the head outputs, before W_O."""
        return head_out

    def activation(
        self, value: Float[Tensor, "row token feature"], part: ActivationPart
    ) -> Float[Tensor, "row token feature"]:
        """Change a named intermediate.

        The states and contexts of a recurrence that it `may_change` come one token at a time, and
        the next step starts from what it returns. In a bidirectional encoder each direction asks
        for its own half; the other half is that of the run without the change.
        """
        return value

    @property
    def is_none(self) -> bool:
        """True if it changes nothing anywhere."""
        return False

    @property
    def opens_ahead(self) -> bool:
        """True if it may let a position see a later one."""
        return False

    @property
    def names_positions(self) -> bool:
        """True if its description names token positions."""
        return self.where.queries is not None

    @property
    def depends_on_positions(self) -> bool:
        """True if what it does to a token may depend on the token's position."""
        return self.names_positions

    @property
    def is_differentiated(self) -> bool:
        """True if the head output has to be worked out from the weights, for their derivatives."""
        return False

    def forget(self) -> None:
        """Drop what it has collected in a pass that is about to be repeated."""

    def changes(self, what: str) -> bool:
        """Return True if it may change one of the five.

        These are "mask", "weights", "value_weights", "head_out" and "activation".
        """
        return getattr(type(self), what) is not getattr(Edit, what)

    def may_change(self, name: str) -> bool:
        """Return True if it may change the intermediate of this name.

        One that only looks at intermediates returns False, and is offered each of them whole.
        """
        return self.changes("activation") and self.where.activation in (None, name)

    def of_row(self, row: int) -> Edit | None:
        """Return the edit as it applies to one batch row alone; None if it does not."""
        if self.where.rows is None:
            return self
        if row not in self.where.rows:
            return None
        return replace(self, where=replace(self.where, rows=None))

    def describe(self, first: int = 0) -> str:
        """Describe what it does and where, with layers and heads counted from `first`."""
        place, limits = self.where.describe(first)
        return f"{place}: {', '.join([*self.effects(), *limits])}"

    def effects(self) -> list[str]:
        """Describe each of its effects in a few words, with tokens counted from 0."""
        return [type(self).__name__]

    def __str__(self) -> str:
        return self.describe()


Edits = tuple[Edit, ...]  # of one run, in the order in which they apply


def edited_weights(
    edits: Edits, weights: Float[Tensor, "row head query key"], part: AttentionPart
) -> Float[Tensor, "row head query key"]:
    """Apply edits to the weights of a part; blocked keys stay at 0, and changed rows sum to 1."""
    for edit in edits:
        if edit.changes("weights"):
            weights = _as_weights(edit.weights(weights, part), weights, part)
    return weights


def _as_weights(after: Tensor, before: Tensor, part: AttentionPart) -> Tensor:
    """Keep blocked keys at 0, and rescale the rows that an edit has changed to sum to 1."""
    if after is before:
        return before
    is_scaled = (after != before).any(-1, keepdim=True)
    if part.allowed is not None:
        after = after.masked_fill(~part.allowed, 0.0)
    total = after.sum(-1, keepdim=True)
    return torch.where(is_scaled, torch.where(total > 0, after / total, after), before)


def edited_value_weights(
    edits: Edits, weights: Float[Tensor, "row head query key"], part: AttentionPart
) -> Float[Tensor, "row head query key"]:
    """Return the factors of the values: the edited weights, unless an edit changes them alone."""
    for edit in edits:
        if edit.changes("value_weights"):
            weights = edit.value_weights(weights, part)
    return weights


def edited_head_out(
    edits: Edits, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
) -> Float[Tensor, "row head query d_head"]:
    """Apply edits to the head outputs of a part."""
    for edit in edits:
        if edit.changes("head_out"):
            head_out = edit.head_out(head_out, part)
    return head_out
