"""Locate the layers of third-party models by module path.

With pre-LN, each sublayer reads a norm of the residual stream; with post-LN, the output of the norm
is the residual stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from models.hub.layer_paths import (
    AttnPaths,
    FFPaths,
    LayerGroup,
    LayerPart,
    MixerPaths,
    parts_of_layer,
)
from models.hub.recording.context import Tap, Taps
from models.layers.blocks import FUNCTIONS
from models.layers.masks import SiteKind
from models.layers.sublayers import FEED_FORWARD, MIXER, Sublayer, norm_name
from models.trace.lazy import LazyGated, LazyLinear
from models.trace.recorder import MAX_KEPT_ELEMENTS

# numbers of an intermediate within a layer; the streams between layers are always kept
MAX_INNER_NUMBERS = 4 * MAX_KEPT_ELEMENTS

_ROLES: dict[type, str] = {FFPaths: FEED_FORWARD, MixerPaths: MIXER}
_PART_NAMES: dict[type, str] = {
    AttnPaths: "attention",
    MixerPaths: "mixer",
    FFPaths: "feed-forward",
}


class LayerMap:
    """The layers of one module."""

    def __init__(self, module: nn.Module, stacks: Sequence[LayerGroup]) -> None:
        self.module, self.stacks = module, tuple(stacks)

    @cached_property
    def parts(self) -> tuple[LayerPart, ...]:
        """The parts of all layers, in the order of the pass; empty if a module is missing."""
        modules = dict(self.module.named_modules(remove_duplicate=False))
        parts: list[LayerPart] = []
        for index, stack in enumerate(self.stacks):
            number = 0
            while (layer := stack.layers.format(number)) in modules:
                of_layer = list(parts_of_layer(stack, index, number, layer, modules))
                if not of_layer:
                    return ()
                parts += of_layer
                number += 1
            if number == 0:
                return ()
        ends = {path for stack in self.stacks for path in (stack.last_norm, stack.last_product)}
        return tuple(parts) if ends <= {"", *modules} else ()

    def taps(self) -> Taps:
        """Return the taps of each module."""
        return Taps(self._by_place(exact=False), self._by_place(exact=True))

    def _by_place(self, exact: bool) -> dict[tuple[str, bool], tuple[Tap, ...]]:
        """Return the taps as `Taps.by_place` or, with `exact`, as `Taps.exact`."""
        by_place: dict[tuple[str, bool], tuple[Tap, ...]] = {}
        for part in self.parts:
            for path, tap in self._taps(part, exact):
                place = path, tap.of_input
                by_place[place] = (*by_place.get(place, ()), tap)
        return by_place

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
            path = p.norm or p.path
            yield path, Tap(p.before, True, between, largest=MAX_INNER_NUMBERS, in_place=True)
        if p.is_last:
            yield p.layer, Tap(p.after, False, "residual stream after the layer")
        elif p.after and p.stack.norm == "post":
            yield p.norm, Tap(p.after, False, between, largest=MAX_INNER_NUMBERS)
        if p.normed and not p.shares_norm:
            yield (
                p.norm,
                Tap(p.normed, False, f"{norm_name(self._norm(p))}(x)", largest=MAX_INNER_NUMBERS),
            )
        if p.out_norm:
            formula = (
                f"{norm_name(self.module.get_submodule(p.out_norm))}({_PART_NAMES[type(p.part)]})"
            )
            yield p.out_norm, Tap(p.out, False, formula, largest=MAX_INNER_NUMBERS)
        if p.part.last:
            yield p.within(p.part.last), self._output_tap(p)
        if isinstance(p.part, FFPaths):
            yield from self._feed_forward_taps(p, p.part, exact)

    def _output_tap(self, p: LayerPart) -> Tap:
        """Return the tap of a part's own output, which a model may later add to in place."""
        may_change = not p.before or not p.after
        formula = f"the {_PART_NAMES[type(p.part)]}'s contribution"
        return Tap(
            p.made,
            False,
            formula,
            largest=MAX_INNER_NUMBERS,
            copies=may_change,
            is_product=p.is_attention,
        )

    def _feed_forward_taps(
        self, p: LayerPart, part: FFPaths, exact: bool
    ) -> Iterator[tuple[str, Tap]]:
        if not part.first:
            return
        first, function = (
            self.module.get_submodule(p.within(path)) for path in (part.first, part.function)
        )
        other = self.module.get_submodule(p.within(part.other)) if part.other else None
        pre, post = (f"{p.path}.{name}" for name in ("ff_pre", "ff_post"))
        of_input, activated = "x·W₁", "activation(ff_pre)"
        if exact:
            yield p.within(part.first), Tap(pre, False, of_input, "d_ff", MAX_INNER_NUMBERS)
            yield p.within(part.second), Tap(post, True, activated, "d_ff", MAX_INNER_NUMBERS)
        else:
            make = partial(_product, first)
            yield p.within(part.first), Tap(pre, True, of_input, "d_ff", MAX_INNER_NUMBERS, make)
            make = partial(_product, first, function=function, other=other)
            yield p.within(part.first), Tap(post, True, activated, "d_ff", MAX_INNER_NUMBERS, make)

    def _sublayer(self, p: LayerPart, kind: SiteKind) -> Sublayer:
        part, function, biased, gated = p.part, "", False, False
        if isinstance(part, FFPaths) and part.first:
            function = activation_of(self.module.get_submodule(p.within(part.function)))
            first = self.module.get_submodule(p.within(part.first))
            biased, gated = getattr(first, "bias", None) is not None, bool(part.other)
        return Sublayer(
            p.path,
            _ROLES.get(type(part), kind.role),
            kind.query_stream,
            p.before,
            p.out,
            p.after,
            p.place_of_norm,
            self._norm(p) if p.norm else None,
            p.normed,
            function,
            reads=p.reads,
            number=p.number,
            side=kind.stack,
            gated=gated,
            biased=biased,
            out_norm=self.module.get_submodule(p.out_norm) if p.out_norm else None,
            made=p.made if p.out_norm else "",
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


def _product(
    first: nn.Module, x: Tensor, function: nn.Module | None = None, other: nn.Module | None = None
) -> LazyLinear:
    """Return x·W₁ as a lazy product, activated and gated if `function` and `other` are given."""
    weight, bias = _matrix(first)
    if other is None:
        return LazyLinear(x.detach(), weight, bias, activation=function)
    return LazyGated(
        x.detach(), weight, bias, activation=function, gate=LazyLinear(x.detach(), *_matrix(other))
    )


def _matrix(linear: Any) -> tuple[Tensor, Tensor | None]:
    """Return weight (out, in) and bias; transformers' Conv1D stores its weight transposed."""
    bias = getattr(linear, "bias", None)
    return (
        linear.weight if isinstance(linear, nn.Linear) else linear.weight.T
    ).detach(), None if bias is None else bias.detach()
