"""Shared scales for pictures of several runs."""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Extent = Mapping[str, float]  # name of a scale → the largest magnitude on it
OWN_EXTENT: Extent = {}  # no minimum: every scale ends at the picture's largest value


def widen_scales(scales: Extent, extent: Extent) -> dict[str, float]:
    """Return these scales, each at least as wide as in `extent`."""
    return {name: max(value, extent.get(name, value)) for name, value in scales.items()}


def extent_of(payload: bytes) -> Extent:
    """Return the scales of a packed picture: its header's "extent" (drawing/payload.py)."""
    (length,) = struct.unpack_from("<I", payload)
    return json.loads(payload[4 : 4 + length])["extent"]


@dataclass(frozen=True)
class Scaled:
    """A picture whose scales follow from its values.

    `draw` takes the extent that the scales must cover; `extent_of` returns the extent of a drawn
    picture.
    """

    draw: Callable[[Extent], Any]
    extent_of: Callable[[Any], Extent] = extent_of

    def drawn_once(self) -> "Scaled":
        """Return the same picture with its own and its last other extent cached."""
        default, last = [], []  # (extent, picture) of each

        def draw(extent: Extent) -> Any:
            drawings = last if extent else default
            if not drawings or drawings[0][0] != extent:
                drawings[:] = [(extent, self.draw(extent))]
            return drawings[0][1]

        return Scaled(draw, self.extent_of)


def scale_picture(own_extent: Extent, draw: Callable[[Extent], Any]) -> Scaled:
    """Return a picture that `draw` makes with its scales: `own_extent`, or wider ones."""
    return Scaled(lambda extent: draw(widen_scales(own_extent, extent)), lambda _: own_extent)


def signed_extent(*values: Tensor) -> dict[str, float]:
    """Return the largest distance of signed numbers below 0 and above it."""
    some = [one for one in values if one.numel()]
    return {
        "below": max([0.0, *(-float(one.min()) for one in some)]),
        "above": max([1e-9, *(float(one.max()) for one in some)]),
    }


def domain(scales: Extent) -> tuple[float, float]:
    """Return the ends of the axis that these scales make, 0 between them (see `signed_extent`)."""
    return 0.0 - scales["below"], scales["above"]


def on_one_scale(*runs: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Draw the pictures of each run, with a shared scale for pictures of the same key."""
    pictures_of_runs = tuple(
        {
            key: picture.draw(OWN_EXTENT) if isinstance(picture, Scaled) else picture
            for key, picture in pictures.items()
        }
        for pictures in runs
    )
    if len(runs) == 1:
        return pictures_of_runs
    for key in set.intersection(*(set(pictures) for pictures in runs)):
        several = [
            (pictures[key], done) for pictures, done in zip(runs, pictures_of_runs, strict=True)
        ]
        scaled = [
            (picture, done, picture.extent_of(done[key]))
            for picture, done in several
            if isinstance(picture, Scaled)
        ]
        joint = {
            name: max(extent.get(name, 0.0) for *_, extent in scaled)
            for *_, each in scaled
            for name in each
        }
        for picture, done, extent in scaled:
            if extent != joint:
                done[key] = picture.draw(joint)
    return pictures_of_runs
