"""Say where the parts of a layer are among its modules, and name what a run holds of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn


@dataclass(frozen=True)
class AttnPaths:
    """An attention within a layer: the module that it is recorded under, and its norm.

    `out_norm` is the norm of its output, before that is added to the stream. `last` is the module
    that returns its output, where that is no product with the joined heads.
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
    multiplies the activated one. Without `first` it is not known what is inside, as in a mixture
    of experts. One that is `beside` the part before it reads the same stream as that part.
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

    `{}` in `layers` is the number of a layer, whose parts are within it; `last_norm` stands behind
    them all. A layer without the modules of `parts` has those of the first `alternatives` that it
    has. In `parallel` layers every part reads what comes into the layer, and all are added to it
    at once.
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
    """One part of one layer of a module, with the names of what the run holds of it."""

    part: Paths
    stack: LayerGroup
    kind: int  # which of the model's kinds of attention, of a feed-forward that of the one before
    number: int  # of its layer, from 0
    layer: str  # the path of its layer
    before: str = ""  # "" where the stream is not there by itself
    after: str = ""
    reads: str = ""  # what its norm is given, where that is not the stream before it
    is_first: bool = False
    is_last: bool = False
    shares_norm: bool = False  # with a part before it, which it runs beside

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
        """Where its norm of the stream is: "pre", "post", or "none" without one."""
        return self.stack.norm if self.part.norm else "none"

    @property
    def normed(self) -> str:
        return f"{self.norm}.normed" if self.place_of_norm == "pre" else ""

    @property
    def made(self) -> str:
        """The name of its own output, before its norm if that has one."""
        return f"{self.path}.{_OUTPUTS[type(self.part)]}"

    @property
    def out(self) -> str:
        """The name of what is added to the stream."""
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
    """Yield the parts of one layer of the stack `index`; none if it has not all their modules.

    What the run holds is named as in our own models: beside the attention that it goes into.
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

    They are "" where the stream is not there by itself.
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
    """Return a part without its norm, where that is the identity."""
    return replace(p.part, norm="") if isinstance(modules.get(p.norm), nn.Identity) else p.part
