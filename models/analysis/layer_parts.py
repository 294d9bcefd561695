"""What each part of a layer does to one token: what attention and feed-forward add to its residual stream, what LayerNorm makes
of it, which numbers of the feed-forward fire, and what the model would say if it stopped there.

The numbers are those of a run; LayerNorm and the sums are worked out again and held against what the run recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.analysis.checks import Check
from models.architectures.base import Architecture
from models.layers.sublayers import FEED_FORWARD, Sublayer
from models.trace import Trace


@dataclass(frozen=True)
class Firing:
    """What the d_ff numbers inside a feed-forward are at one token, before and after the activation."""

    pre: Float[Tensor, "d_ff"]
    post: Float[Tensor, "d_ff"]

    @property
    def fires(self) -> Bool[Tensor, "d_ff"]:
        """Above 0 before the activation. ReLU makes 0 of all others; GELU leaves them a little below 0, no lower than −0.17."""
        return self.pre > 0

    def strongest(self, n: int) -> Int[Tensor, "n"]:
        """Which n are largest after the activation, the largest first."""
        return self.post.topk(min(n, len(self.post))).indices


@dataclass(frozen=True)
class Part:
    """What one sublayer does to one token. Under pre-LN `normed` is LayerNorm(before), which it reads; under post-LN it is
    LayerNorm(before + added), which is the stream behind it; without LayerNorm there is none."""

    sublayer: Sublayer
    before: Float[Tensor, "d_model"]
    added: Float[Tensor, "d_model"]
    after: Float[Tensor, "d_model"]              # as the run recorded it
    normed: Float[Tensor, "d_model"] | None      # as the run recorded it
    firing: Firing | None = None                 # of a feed-forward

    @property
    def total(self) -> Float[Tensor, "d_model"]:
        """The stream with what is added to it, or what takes its place."""
        return self.before + self.added if self.sublayer.adds else self.added

    @property
    def direction(self) -> float:
        """Cosine of what is added with the stream it is added to: above 0 it strengthens what is there, at 0 it is new, below 0
        it takes away."""
        return cosine(self.added, self.before)

    @property
    def norm_input(self) -> Float[Tensor, "d_model"]:
        """What LayerNorm is given."""
        return self.total if self.sublayer.norm == "post" else self.before


def streams(model: Architecture) -> tuple[str, ...]:
    """The streams along which the model has sublayers, in the order of the pass."""
    return tuple(dict.fromkeys(sublayer.stream for sublayer in model.sublayers))


def parts(model: Architecture, trace: Trace, stream: str, position: int, states: str = "") -> list[Part]:
    """Every sublayer along a stream, or along one of its several rows of states, at one of its tokens, from the first to the last.
    Raises ValueError for a token that is not there."""
    n = len(trace.streams[stream].ids)
    if not 0 <= position < n:
        raise ValueError(f"token {position} is not there: this stream has {n}, counted from 0")
    return [_part(trace, s, position) for s in model.sublayers if (s.stream, s.states) == (stream, states)]


def _part(trace: Trace, sublayer: Sublayer, position: int) -> Part:
    def recorded(name: str) -> Tensor:
        return trace.activations[name].value[0, position]

    after, firing = recorded(sublayer.after), None
    before = recorded(sublayer.before) if sublayer.adds else trace.attention[sublayer.path].x[0, position]
    if sublayer.role == FEED_FORWARD:
        firing = Firing(*(recorded(f"{sublayer.path}.{sublayer.mark}{name}") for name in ("ff_pre", "ff_post")))
    normed = {"pre": lambda: recorded(sublayer.normed), "post": lambda: after, "none": lambda: None}[sublayer.norm]()
    return Part(sublayer, before, recorded(sublayer.out), after, normed, firing)


def cosine(a: Float[Tensor, "d"], b: Float[Tensor, "d"]) -> float:
    """Of the angle between two vectors; 0 where one of them has no length."""
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0, eps=1e-12))


def mean_and_spread(x: Float[Tensor, "d"]) -> tuple[float, float]:
    """Mean and standard deviation of a vector's numbers, over all d as LayerNorm takes them."""
    return float(x.mean()), float(x.std(correction=0))


@torch.no_grad()
def lens(model: Architecture, states: Sequence[Float[Tensor, "d_model"]]) -> Float[Tensor, "state vocab"]:
    """log p of the next token, in nats, if the model stopped at each of these states of the stream that it writes: its own output
    path, with its last LayerNorm if it has one, reads them."""
    x = torch.stack(list(states)).to(model.embedding.weight)
    return model.readout(x).float().log_softmax(-1).cpu()


def check_parts(model: Architecture, trace: Trace, found: list[Part], position: int) -> list[Check]:
    """What is shown of a stream's parts against what the run recorded, over all its layers at this token.

    Float32: limits are 1e-5 of the size of what is compared."""
    adding, handing = [p for p in found if p.sublayer.adds], [p for p in found if not p.sublayer.adds]
    checks = []
    if adding:
        checks.append(_check("the parts add up to the stream", [(_joined(p), p.after) for p in adding],
                             "Largest difference of before + added, and LayerNorm where it is next, from the recorded stream"))
    if pairs := _handed_on(trace, handing, position):
        checks.append(_check("each layer reads what the one before made", pairs,
                             "Largest difference of an attention's output from the recorded input of the next"))
    if normed := [p for p in found if p.normed is not None]:
        checks.append(_check("LayerNorm by hand is the recorded one", [(_by_hand(p), p.normed) for p in normed],
                             "Largest difference of (x − mean) / √(variance + ε) · gain + bias, in double precision"))
    if found and found[-1].sublayer.stream == model.writes:
        own = trace.next_token.log_probs[position]
        checks.append(_check("stopping after the last layer is the model's answer", [(lens(model, [found[-1].after])[0], own)],
                             "Largest difference of a log-probability from the run's own next-token distribution"))
    return checks


def _handed_on(trace: Trace, found: list[Part], position: int) -> list[tuple[Tensor, Tensor]]:
    """What parts that take the stream's place made, beside what was read of it: by the next, and by those who read the last."""
    pairs = [(one.after, following.before) for one, following in pairwise(found)]
    stream = found[-1].sublayer.stream if found else ""
    readers = [site for site in trace.attention.values() if site.key_stream == stream != site.query_stream]
    return pairs + [(found[-1].after, site.memory[0, position]) for site in readers]


def _joined(part: Part) -> Tensor:
    """The stream behind a sublayer, by the model's own LayerNorm."""
    norm = part.sublayer.layer_norm
    return _own(norm, part.total) if part.sublayer.norm == "post" else part.total


@torch.no_grad()
def _own(norm: torch.nn.LayerNorm, x: Tensor) -> Tensor:
    return norm(x.to(norm.weight)).float().cpu()


def _by_hand(part: Part) -> Tensor:
    """LayerNorm as its formula says (Ba et al. 2016, eq. 4), without torch's own."""
    x, norm = part.norm_input.double(), part.sublayer.layer_norm
    gain, bias = (t.detach().double().cpu() for t in (norm.weight, norm.bias))
    middle = x - x.mean()
    return middle / (middle.square().mean() + norm.eps).sqrt() * gain + bias


def _check(name: str, pairs: list[tuple[Tensor, Tensor]], sentence: str) -> Check:
    """The largest difference within the pairs; NaN if one of them is none."""
    apart = torch.stack([(one - other).abs().max() for one, other in pairs])
    size = max(float(other.abs().max()) for _, other in pairs)
    return Check(name, float(apart.max()), 1e-5 * max(1.0, size), sentence)
