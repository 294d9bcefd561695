"""Families whose residual stream and feed-forward are known, by the paths of their modules; see taps.py."""

from __future__ import annotations

from torch import nn

from models.hub.config import HubConfig
from models.hub.taps import Taps


def taps_of(kind: str, module: nn.Module, sizes: HubConfig) -> Taps:
    """The taps of a kind of model; none of one that is not known."""
    return Taps()
