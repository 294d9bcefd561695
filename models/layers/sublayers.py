"""What an architecture declares of its sublayers: where in a run each is recorded, and how its output joins the stream."""

import re
from dataclasses import dataclass

from torch import nn

FEED_FORWARD = "feed-forward"


@dataclass(frozen=True)
class Sublayer:
    """One attention or feed-forward of a model. `before`, `out`, `after` and `normed` name activations of a run."""

    path: str  # of its module, and of its attention site if it has one
    role: str  # one of models.layers.masks.ROLES, or FEED_FORWARD
    stream: str  # whose tokens it works on
    before: str  # the stream it is given
    out: str  # what it makes
    after: str  # the stream behind it
    norm: str  # "post": LayerNorm(before + out). "pre": it reads LayerNorm(before). "none"
    layer_norm: nn.Module | None = None  # a LayerNorm or an RMSNorm
    normed: str = ""  # under "pre": what it reads
    activation: str = ""  # of a feed-forward: one of models.layers.blocks.ACTIVATIONS
    adds: bool = (
        True  # whether its output is added to the stream; if not, it takes the stream's place
    )
    states: str = ""  # where the tokens of a stream have several rows of states: of which ("content", "query")
    mark: str = ""  # before the names of what a feed-forward records of these states
    reads: str = ""  # what its norm is given, where that is not the stream before it
    number: int | None = None  # of its layer, where its path does not say
    side: str = ""  # its stack, where its path does not say
    gated: bool = False  # of a feed-forward: whether another product multiplies what comes out of the activation
    biased: bool = True  # of a feed-forward: whether W₁ has a bias

    @property
    def norm_name(self) -> str:
        """LayerNorm or RMSNorm."""
        return norm_name(self.layer_norm)

    @property
    def row(self) -> str:
        """What tells the row of states that it works on from the model's others."""
        return self.states or self.stream

    @property
    def stack(self) -> str:
        """ "encoder" or "decoder"."""
        return self.side or self.path.partition(".")[0]

    @property
    def layer(self) -> int | None:
        """The number, from 0, of the layer it belongs to; None for one that stands behind the numbered ones."""
        if self.number is not None:
            return self.number
        found = re.search(r"\.layers\.(\d+)\.", self.path)
        return int(found[1]) if found else None


def norm_name(norm: nn.Module | None) -> str:
    """LayerNorm, which takes the mean away (Ba et al. 2016), or RMSNorm, which does not (Zhang and Sennrich 2019)."""
    return "LayerNorm" if norm is None or isinstance(norm, nn.LayerNorm) else "RMSNorm"
