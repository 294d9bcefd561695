"""Where the layers of somebody else's model stand, by the paths of its modules: what is recorded there, and what its sublayers are.

Under pre-LN the stream goes into each norm, and what comes out of it is read; under post-LN it comes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from models.hub.taps import Tap, Taps
from models.layers.blocks import FUNCTIONS
from models.layers.masks import SiteKind
from models.layers.sublayers import FEED_FORWARD, Sublayer, norm_name
from models.trace.deferred import Gated, Product
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
    """A feed-forward within a layer: its module ("" for the layer itself), its norm, the product W₁, its activation, the module
    that makes what is added, and, where the activated product is multiplied by another, that one."""

    path: str
    norm: str
    first: str
    function: str
    last: str
    other: str = ""


@dataclass(frozen=True)
class Stack:
    """Layers of one kind. `{}` in `layers` is the number of a layer, whose parts are within it; `last_norm` stands behind them all.
    In `parallel` layers every part reads what comes into the layer, and all are added to it at once."""

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
    stack: Stack
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


class Anatomy:
    """The layers of one module."""

    def __init__(self, module: nn.Module, stacks: Sequence[Stack]) -> None:
        self.module, self.stacks = module, tuple(stacks)

    @cached_property
    def parts(self) -> tuple[LayerPart, ...]:
        """Every part, in the order of the pass; none where a part stands elsewhere than the stacks say."""
        paths = {path for path, _ in self.module.named_modules()}
        found: list[LayerPart] = []
        for index, stack in enumerate(self.stacks):
            number = 0
            while (layer := stack.layers.format(number)) in paths:
                found += _of_layer(stack, index, number, layer)
                number += 1
            if number == 0:
                return ()
        wanted = {place for p in found for place in (p.path, p.norm, *_own(p))} | {
            path for stack in self.stacks for path in (stack.last_norm, stack.last_product)
        }
        return tuple(found) if wanted <= paths | {""} else ()

    def taps(self) -> Taps:
        """What is recorded at which module."""
        found: dict[str, list[Tap]] = {}
        for place, tap in (pair for p in self.parts for pair in self._taps(p)):
            found.setdefault(place, []).append(tap)
        return Taps({place: tuple(taps) for place, taps in found.items()})

    def sublayers(self, kinds: Sequence[SiteKind]) -> tuple[Sublayer, ...]:
        """What the parts are of a model with these kinds of attention."""
        return tuple(self._sublayer(p, kinds[p.kind]) for p in self.parts)

    def last_norm(self) -> nn.Module | None:
        """What stands behind the last layer of the last stack."""
        last = self.stacks[-1].last_norm
        return self.module.get_submodule(last) if last else None

    def last_product(self) -> nn.Module | None:
        """The matrix between the last norm of the last stack and the logits."""
        last = self.stacks[-1].last_product
        return self.module.get_submodule(last) if last else None

    def _taps(self, p: LayerPart) -> Iterator[tuple[str, Tap]]:
        """Each with the path of its module."""
        if p.is_first:
            yield p.layer, Tap(p.before, True, "residual stream before the layer")
        elif p.before and p.stack.norm == "pre":
            yield (
                p.norm,
                Tap(
                    p.before,
                    True,
                    "residual stream between attention and feed-forward",
                    largest=LARGEST,
                ),
            )
        if p.is_last:
            yield p.layer, Tap(p.after, False, "residual stream behind the layer")
        elif p.after and p.stack.norm == "post":
            yield (
                p.norm,
                Tap(
                    p.after,
                    False,
                    "residual stream between attention and feed-forward",
                    largest=LARGEST,
                ),
            )
        if p.normed:
            yield p.norm, Tap(p.normed, False, f"{norm_name(self._norm(p))}(x)", largest=LARGEST)
        if isinstance(p.part, FFPaths):
            first, other, function = (
                self.module.get_submodule(p.within(path)) if path else None
                for path in (p.part.first, p.part.other, p.part.function)
            )
            yield (
                p.within(p.part.first),
                Tap(
                    f"{p.path}.ff_pre", True, "x·W₁", "d_ff", LARGEST, lambda x: _product(first, x)
                ),
            )
            yield (
                p.within(p.part.first),
                Tap(
                    f"{p.path}.ff_post",
                    True,
                    "activation(ff_pre)",
                    "d_ff",
                    LARGEST,
                    lambda x: _product(first, x, function, other),
                ),
            )
            yield (
                p.within(p.part.last),
                Tap(f"{p.path}.ff_out", False, "what the feed-forward adds", largest=LARGEST),
            )

    def _sublayer(self, p: LayerPart, kind: SiteKind) -> Sublayer:
        feeds, norm = isinstance(p.part, FFPaths), self._norm(p)
        out = f"{p.path}.ff_out" if feeds else f"{p.path}.attn_out"
        function = (
            activation_of(self.module.get_submodule(p.within(p.part.function))) if feeds else ""
        )
        biased = (
            feeds
            and getattr(self.module.get_submodule(p.within(p.part.first)), "bias", None) is not None
        )
        return Sublayer(
            p.path,
            FEED_FORWARD if feeds else kind.role,
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
            gated=feeds and bool(p.part.other),
            biased=biased,
        )

    def _norm(self, p: LayerPart) -> nn.Module:
        return self.module.get_submodule(p.norm)


def activation_of(function: nn.Module) -> str:
    """Which activation of those that are known this is, by what it makes of some numbers; "" for another."""
    x = torch.linspace(-4, 4, 33)
    with torch.no_grad():
        output = function(x)
    return next(
        (
            name
            for name, own in FUNCTIONS.items()
            if torch.allclose(own(x), output, rtol=0, atol=1e-6)
        ),
        "",
    )


def _of_layer(stack: Stack, index: int, number: int, layer: str) -> Iterator[LayerPart]:
    """The parts of one layer. What the run holds is named as in our own models: beside the attention that it goes into."""
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
        yield LayerPart(
            part, stack, kind, number, layer, names[i], names[i + 1], reads, i == 0, i == n - 1
        )


def _own(p: LayerPart) -> list[str]:
    paths = (
        (p.part.first, p.part.function, p.part.last, p.part.other)
        if isinstance(p.part, FFPaths)
        else ()
    )
    return [p.within(path) for path in paths if path]


def _product(
    first: nn.Module, x: Tensor, function: nn.Module | None = None, other: nn.Module | None = None
) -> Product:
    """x·W₁ by its cause, behind its activation and times the other product where there are such."""
    weight, bias = _matrix(first)
    if other is None:
        return Product(x.detach(), weight, bias, activation=function)
    return Gated(
        x.detach(), weight, bias, activation=function, other=Product(x.detach(), *_matrix(other))
    )


def _matrix(linear: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight (out, in) and bias; transformers' Conv1D keeps its weight the other way round."""
    bias = getattr(linear, "bias", None)
    return (
        linear.weight if isinstance(linear, nn.Linear) else linear.weight.T
    ).detach(), None if bias is None else bias.detach()
