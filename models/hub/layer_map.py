"""Locate the layers of third-party models by module path.

Under pre-LN the stream goes into each norm, and what comes out of it is read; under post-LN it
comes out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from models.hub.recording.context import Tap, Taps
from models.layers.blocks import FUNCTIONS
from models.layers.masks import SiteKind
from models.layers.sublayers import FEED_FORWARD, Sublayer, norm_name
from models.trace.lazy import LazyGated, LazyLinear
from models.trace.recorder import LARGEST_KEPT

LARGEST = (
    4 * LARGEST_KEPT
)  # numbers of what stands within a layer; the streams between layers are always kept


@dataclass(frozen=True)
class AttnPaths:
    """An attention within a layer: the module that it is recorded under, and its norm."""

    path: str
    norm: str


@dataclass(frozen=True)
class FFPaths:
    """The module paths of a feed-forward within a layer.

    `path` is "" for the layer itself; `last` is the module that returns the feed-forward's output,
    `first` the product W₁, `second` the product W₂, and `other`, if any, the product that
    multiplies the activated one. Without `first` it is not known what is inside, as in a mixture
    of experts.
    """

    path: str
    norm: str
    last: str
    first: str = ""
    function: str = ""
    second: str = ""
    other: str = ""


@dataclass(frozen=True)
class LayerGroup:
    """Layers of one kind.

    `{}` in `layers` is the number of a layer, whose parts are within it; `last_norm` stands behind
    them all. In `parallel` layers every part reads what comes into the layer, and all are added to
    it at once.
    """

    layers: str
    parts: tuple[AttnPaths | FFPaths, ...]
    norm: str = "pre"
    last_norm: str = ""
    last_product: str = ""  # a matrix between the last norm and the logits
    parallel: bool = False


@dataclass(frozen=True)
class LayerPart:
    """One part of one layer of a module, with the names of what the run holds of it."""

    part: AttnPaths | FFPaths
    stack: LayerGroup
    kind: (
        int  # which of the model's kinds of attention, of a feed-forward that of the one before it
    )
    number: int  # of its layer, from 0
    layer: str  # the path of its layer
    before: str  # "" where the stream is not there by itself
    after: str
    reads: str  # what its norm is given, where that is not the stream before it
    is_first: bool
    is_last: bool
    shares_norm: bool = False  # with a part before it, which it runs beside

    @property
    def path(self) -> str:
        return self.within(self.part.path)

    @property
    def norm(self) -> str:
        return self.within(self.part.norm)

    @property
    def normed(self) -> str:
        return f"{self.norm}.normed" if self.stack.norm == "pre" else ""

    def within(self, path: str) -> str:
        return f"{self.layer}.{path}" if path else self.layer


class LayerMap:
    """The layers of one module."""

    def __init__(self, module: nn.Module, stacks: Sequence[LayerGroup]) -> None:
        self.module, self.stacks = module, tuple(stacks)

    @cached_property
    def parts(self) -> tuple[LayerPart, ...]:
        """Every part, in the order of the pass; none if a module is not at its path."""
        paths = {path for path, _ in self.module.named_modules()}
        parts: list[LayerPart] = []
        for index, stack in enumerate(self.stacks):
            number = 0
            while (layer := stack.layers.format(number)) in paths:
                parts += _of_layer(stack, index, number, layer)
                number += 1
            if number == 0:
                return ()
        wanted = {place for p in parts for place in (p.path, p.norm, *_own(p))} | {
            path for stack in self.stacks for path in (stack.last_norm, stack.last_product)
        }
        return tuple(parts) if wanted <= paths | {""} else ()

    def taps(self) -> Taps:
        """Return the taps of each module."""
        return Taps(self._by_path(exact=False), self._by_path(exact=True))

    def _by_path(self, exact: bool) -> dict[str, tuple[Tap, ...]]:
        """Return the taps by module path; with `exact`, as `Taps.exact`."""
        by_path: dict[str, tuple[Tap, ...]] = {}
        for part in self.parts:
            for path, tap in self._taps(part, exact):
                by_path[path] = (*by_path.get(path, ()), tap)
        return by_path

    def sublayers(self, kinds: Sequence[SiteKind]) -> tuple[Sublayer, ...]:
        """Return the parts as sublayers of a model with these kinds of attention."""
        return tuple(self._sublayer(p, kinds[p.kind]) for p in self.parts)

    def last_norm(self) -> nn.Module | None:
        """Return the norm after the last layer of the last stack, if there is one."""
        last = self.stacks[-1].last_norm
        return self.module.get_submodule(last) if last else None

    def last_product(self) -> nn.Module | None:
        """Return the matrix between the last norm and the logits, if there is one."""
        last = self.stacks[-1].last_product
        return self.module.get_submodule(last) if last else None

    def _taps(self, p: LayerPart, exact: bool) -> Iterator[tuple[str, Tap]]:
        """Yield the taps of a part, each with the path of its module."""
        between = "residual stream between attention and feed-forward"
        if p.is_first:
            yield p.layer, Tap(p.before, True, "residual stream before the layer")
        elif p.before and p.stack.norm == "pre":
            yield p.norm, Tap(p.before, True, between, largest=LARGEST, in_place=True)
        if p.is_last:
            yield p.layer, Tap(p.after, False, "residual stream behind the layer")
        elif p.after and p.stack.norm == "post":
            yield p.norm, Tap(p.after, False, between, largest=LARGEST)
        if p.normed and not p.shares_norm:
            yield p.norm, Tap(p.normed, False, f"{norm_name(self._norm(p))}(x)", largest=LARGEST)
        if isinstance(p.part, FFPaths):
            yield from self._feed_forward_taps(p, p.part, exact)

    def _feed_forward_taps(
        self, p: LayerPart, part: FFPaths, exact: bool
    ) -> Iterator[tuple[str, Tap]]:
        added = "the feed-forward's contribution"
        yield p.within(part.last), Tap(f"{p.path}.ff_out", False, added, largest=LARGEST)
        if not part.first:
            return
        first, function = (
            self.module.get_submodule(p.within(path)) for path in (part.first, part.function)
        )
        other = self.module.get_submodule(p.within(part.other)) if part.other else None
        pre, post = (f"{p.path}.{name}" for name in ("ff_pre", "ff_post"))
        of_input, activated = "x·W₁", "activation(ff_pre)"
        if exact:
            yield p.within(part.first), Tap(pre, False, of_input, "d_ff", LARGEST)
            yield p.within(part.second), Tap(post, True, activated, "d_ff", LARGEST)
        else:
            make = lambda x: _product(first, x)  # noqa: E731
            yield p.within(part.first), Tap(pre, True, of_input, "d_ff", LARGEST, make)
            make = lambda x: _product(first, x, function, other)  # noqa: E731
            yield p.within(part.first), Tap(post, True, activated, "d_ff", LARGEST, make)

    def _sublayer(self, p: LayerPart, kind: SiteKind) -> Sublayer:
        part, norm = p.part, self._norm(p)
        function, biased, gated, out = "", False, False, f"{p.path}.attn_out"
        if isinstance(part, FFPaths) and part.first:
            function = activation_of(self.module.get_submodule(p.within(part.function)))
            first = self.module.get_submodule(p.within(part.first))
            biased, gated = getattr(first, "bias", None) is not None, bool(part.other)
        if isinstance(part, FFPaths):
            out = f"{p.path}.ff_out"
        return Sublayer(
            p.path,
            FEED_FORWARD if isinstance(part, FFPaths) else kind.role,
            kind.query_stream,
            p.before,
            out,
            p.after,
            p.stack.norm,
            norm,
            p.normed,
            function,
            reads=p.reads,
            number=p.number,
            side=kind.stack,
            gated=gated,
            biased=biased,
        )

    def _norm(self, p: LayerPart) -> nn.Module:
        return self.module.get_submodule(p.norm)


def activation_of(function: nn.Module) -> str:
    """Return the name of an activation, by its values; "" for one that is not known."""
    x = torch.linspace(-4, 4, 33)
    with torch.no_grad():
        output = function(x)
    return next(
        (
            name
            for name, candidate in FUNCTIONS.items()
            if torch.allclose(candidate(x), output, rtol=0, atol=1e-6)
        ),
        "",
    )


def _of_layer(stack: LayerGroup, index: int, number: int, layer: str) -> Iterator[LayerPart]:
    """Yield the parts of one layer.

    What the run holds is named as in our own models: beside the attention that it goes into.
    """
    beside = [
        f"{layer}.{part.path}".rpartition(".")[0]
        for part in stack.parts
        if isinstance(part, AttnPaths)
    ]
    n, attentions = len(stack.parts), len(beside)
    between = (
        [f"{beside[1]}.resid_mid", f"{beside[1]}.resid_mid_cross"]
        if attentions > 1
        else [f"{beside[0]}.resid_mid"]
    )
    between = [""] * len(between) if stack.parallel else between
    names = [f"{beside[0]}.resid_pre", *between[: n - 1], f"{beside[0]}.resid_post"]
    for i, part in enumerate(stack.parts):
        reads = names[0] if stack.parallel and i else ""
        kind = index + min(i, attentions - 1)
        shares = part.norm in (earlier.norm for earlier in stack.parts[:i])
        ends = i == 0, i == n - 1
        yield LayerPart(
            part, stack, kind, number, layer, names[i], names[i + 1], reads, *ends, shares
        )


def _own(p: LayerPart) -> list[str]:
    paths = (
        (p.part.first, p.part.function, p.part.second, p.part.last, p.part.other)
        if isinstance(p.part, FFPaths)
        else ()
    )
    return [p.within(path) for path in paths if path]


def _product(
    first: nn.Module, x: Tensor, function: nn.Module | None = None, other: nn.Module | None = None
) -> LazyLinear:
    """x·W₁ by its cause, behind its activation and times the other product where there are such."""
    weight, bias = _matrix(first)
    if other is None:
        return LazyLinear(x.detach(), weight, bias, activation=function)
    return LazyGated(
        x.detach(), weight, bias, activation=function, gate=LazyLinear(x.detach(), *_matrix(other))
    )


def _matrix(linear: Any) -> tuple[Tensor, Tensor | None]:
    """Weight (out, in) and bias; transformers' Conv1D keeps its weight the other way round."""
    bias = getattr(linear, "bias", None)
    return (
        linear.weight if isinstance(linear, nn.Linear) else linear.weight.T
    ).detach(), None if bias is None else bias.detach()
