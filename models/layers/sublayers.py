"""Declaration of a model's sublayers: where each is recorded, and how it joins the stream."""

import re
from dataclasses import dataclass

from torch import nn

FEED_FORWARD = "feed-forward"


@dataclass(frozen=True)
class Sublayer:
    """One attention or feed-forward.

    `before`, `out`, `after` and `normed` name activations of a run.
    """

    path: str  # of its module, and of its attention site if it has one
    role: str  # one of models.layers.masks.ROLES, or FEED_FORWARD
    stream: str  # of its tokens
    before: str  # residual stream before it
    out: str  # its output
    after: str  # residual stream after it
    norm: str  # "post": LayerNorm(before + out). "pre": it reads LayerNorm(before). "none"
    layer_norm: nn.Module | None = None  # a LayerNorm or an RMSNorm
    normed: str = ""  # under "pre": its normalised input
    activation: str = ""  # of a feed-forward: one of models.layers.blocks.ACTIVATIONS
    adds: bool = True  # False: its output replaces the stream instead of being added to it
    states: str = ""  # "content" or "query" if tokens have two rows of states
    mark: str = ""  # prefix of what a feed-forward records of these states
    reads: str = ""  # input of its norm, if not `before`
    number: int | None = None  # layer number, if the path does not contain it
    side: str = ""  # its stack, if the path does not contain it
    gated: bool = False  # feed-forward: the activation is multiplied by a second product
    biased: bool = True  # feed-forward: W₁ has a bias

    @property
    def norm_name(self) -> str:
        """The type of its norm, "LayerNorm" or "RMSNorm"."""
        return norm_name(self.layer_norm)

    @property
    def row(self) -> str:
        """Identifier of the row of states that it works on."""
        return self.states or self.stream

    @property
    def stack(self) -> str:
        """The stack that it belongs to, "encoder" or "decoder"."""
        return self.side or self.path.partition(".")[0]

    @property
    def layer(self) -> int | None:
        """Layer number from 0; None for a sublayer after the numbered ones."""
        if self.number is not None:
            return self.number
        match = re.search(r"\.layers\.(\d+)\.", self.path)
        return int(match[1]) if match else None


def norm_name(norm: nn.Module | None) -> str:
    """Return "LayerNorm" (Ba et al. 2016) or "RMSNorm" (Zhang & Sennrich 2019)."""
    return "LayerNorm" if norm is None or isinstance(norm, nn.LayerNorm) else "RMSNorm"
