"""Module paths of the parts of a layer, and the names of their intermediates in a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn


@dataclass(frozen=True)
class AttnPaths:
    """An attention within a layer: the module that it is recorded under, and its norm.

    `out_norm` is the norm of its output, before that is added to the stream. `last` is the module
    that returns its output, if that is not the product with the joined heads.
    """

    path: str
    norm: str = ""
    out_norm: str = ""
    last: str = ""


@dataclass(frozen=True)
class MixerPaths:
    """A module that mixes tokens without weights for pairs: linear attention, a state space."""

    path: str
    norm: str = ""
    out_norm: str = ""

    @property
    def last(self) -> str:
        return self.path


@dataclass(frozen=True)
class FFPaths:
    """The module paths of a feed-forward within a layer.

    `path` is "" for the layer itself; `last` is the module that returns the feed-forward's output,
    `first` the product W₁, `second` the product W₂, and `other`, if any, the product that
    multiplies the activated one. Without `first` the inside is unknown, as in a mixture of
    experts. A feed-forward `beside` the part before it reads the same stream as that part.
    """

    path: str
    norm: str
    last: str
    first: str = ""
    function: str = ""
    second: str = ""
    other: str = ""
    out_norm: str = ""
    beside: bool = False


Paths = AttnPaths | MixerPaths | FFPaths
_OUTPUTS: dict[type, str] = {AttnPaths: "attn_out", MixerPaths: "mix_out", FFPaths: "ff_out"}


@dataclass(frozen=True)
class LayerGroup:
    """Layers of one stack.

    `{}` in `layers` is the number of a layer, whose parts are within it; `last_norm` is the norm
    after the last layer. A layer that lacks modules of `parts` has the first of `alternatives`
    whose modules it has. In `parallel` layers every part reads the layer's input, and all outputs
    are added to it at once.
    """

    layers: str
    parts: tuple[Paths, ...]
    norm: str = "pre"
    last_norm: str = ""
    last_product: str = ""  # a matrix between the last norm and the logits
    parallel: bool = False
    alternatives: tuple[tuple[Paths, ...], ...] = ()


@dataclass(frozen=True)
class LayerPart:
    """One part of one layer of a module, with the names of its intermediates in a run."""

    part: Paths
    stack: LayerGroup
    kind: int  # index of its kind of attention; for a feed-forward, that of the part before
    number: int  # of its layer, from 0
    layer: str  # the path of its layer
    before: str = ""  # "" if the stream is not a tensor of its own
    after: str = ""
    reads: str = ""  # the stream that its norm reads, if that is not `before`
    is_first: bool = False
    is_last: bool = False
    shares_norm: bool = False  # with an earlier part, which it runs beside

    @property
    def path(self) -> str:
        return self.within(self.part.path)

    @property
    def norm(self) -> str:
        return self.within(self.part.norm) if self.part.norm else ""

    @property
    def out_norm(self) -> str:
        return self.within(self.part.out_norm) if self.part.out_norm else ""

    @property
    def place_of_norm(self) -> str:
        """The place of its norm in the stream: "pre", "post", or "none" without one."""
        return self.stack.norm if self.part.norm else "none"

    @property
    def normed(self) -> str:
        return f"{self.norm}.normed" if self.place_of_norm == "pre" else ""

    @property
    def made(self) -> str:
        """The name of its own output, before `out_norm` if there is one."""
        return f"{self.path}.{_OUTPUTS[type(self.part)]}"

    @property
    def out(self) -> str:
        """The name of the tensor that is added to the stream."""
        return f"{self.out_norm}.normed" if self.out_norm else self.made

    def within(self, path: str) -> str:
        return f"{self.layer}.{path}" if path else self.layer

    @property
    def is_attention(self) -> bool:
        return isinstance(self.part, AttnPaths)

    @property
    def is_feed_forward(self) -> bool:
        return isinstance(self.part, FFPaths)

    def modules(self) -> Iterator[str]:
        """Yield the paths of all modules that this part names."""
        part = self.part
        inside = ("first", "function", "second", "other")
        for name in ("path", "norm", "out_norm", "last", *inside):
            if path := getattr(part, name, ""):
                yield self.within(path)


def parts_of_layer(
    stack: LayerGroup, index: int, number: int, layer: str, modules: Mapping[str, nn.Module]
) -> Iterator[LayerPart]:
    """Yield the parts of one layer of the stack `index`; none if one of their modules is missing.

    Intermediates are named as in our own models: beside the attention that they go into.
    """
    for alternative in (stack.parts, *stack.alternatives):
        parts = [LayerPart(part, stack, 0, number, layer) for part in alternative]
        if all(place in modules for p in parts for place in p.modules()):
            break
    else:
        return
    mixes = [f"{layer}.{p.part.path}".rpartition(".")[0] for p in parts if not p.is_feed_forward]
    names = _streams(stack, [p.part for p in parts], mixes)
    norms: list[str] = []
    for i, p in enumerate(parts):
        before = max((n for n in range(i) if names[n]), default=0)
        yield replace(
            p,
            part=_without_identity(p, modules),
            kind=index + min(i, len(mixes) - 1),
            before=names[i],
            after=names[i + 1],
            reads=names[before] if i and not names[i] else "",
            is_first=i == 0,
            is_last=i == len(parts) - 1,
            shares_norm=bool(p.norm) and p.norm in norms,
        )
        norms.append(p.norm)


def _streams(stack: LayerGroup, parts: Sequence[Paths], mixes: Sequence[str]) -> list[str]:
    """Return the names of the stream before, between and after the parts of a layer.

    A name is "" if the stream is not a tensor of its own there.
    """
    between = iter(
        [f"{mixes[1]}.resid_mid", f"{mixes[1]}.resid_mid_cross"]
        if len(mixes) > 1
        else [f"{mixes[0]}.resid_mid"]
    )
    names = [
        "" if stack.parallel or (isinstance(part, FFPaths) and part.beside) else next(between)
        for part in parts[1:]
    ]
    return [f"{mixes[0]}.resid_pre", *names, f"{mixes[0]}.resid_post"]


def _without_identity(p: LayerPart, modules: Mapping[str, nn.Module]) -> Paths:
    """Return a part without its norm if that is the identity."""
    return replace(p.part, norm="") if isinstance(modules.get(p.norm), nn.Identity) else p.part
