"""Payloads of the component `shuffle`: where each token went, and how far its vector moved at each layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.analysis.shuffle import ShuffleTest
from models.tokenizers.base import Encoding
from viz_app.drawing.labels import labels
from viz_app.drawing.payload import pack

UNRELATED = 2**0.5  # the change at which a vector stands at a right angle to what it was
WITH, WITHOUT = "with positions", "positions switched off"


def shuffle(source: Encoding, maps: Mapping[str, ShuffleTest], saved: Mapping[str, str]) -> bytes:
    """Each token at its old and its new place; and of each test, by its title, how far each token's vector moved at each
    stage, from 0 (the page's background) to √2 (the accent). `saved` is what `drawing.stamp.saving` gives."""
    parts: list[dict[str, Any]] = [{"kind": "tangle", "title": "The tokens change places"}]
    parts += [
        {"kind": "map", "title": title, "stages": test.stages, "array": f"map{i}"}
        for i, (title, test) in enumerate(maps.items())
    ]
    order = next(iter(maps.values())).order
    return _pack(
        source,
        order,
        parts,
        saved,
        **{f"map{i}": test.change.T.numpy() for i, test in enumerate(maps.values())},
    )


def by_stage(source: Encoding, named: Mapping[str, ShuffleTest], saved: Mapping[str, str]) -> bytes:
    """The mean change at each stage of each test."""
    stages, *_ = (test.stages for test in named.values())
    title = "Mean change at the encoder's input and after each layer"
    part = {
        "kind": "bars",
        "title": title,
        "stages": stages,
        "names": list(named),
        "array": "means",
    }
    return _pack(
        source, (), [part], saved, means=np.stack([test.mean.numpy() for test in named.values()])
    )


def _pack(
    source: Encoding,
    order: Sequence[int],
    parts: list[dict[str, Any]],
    saved: Mapping[str, str],
    **arrays: np.ndarray,
) -> bytes:
    header = {
        "title": "The shuffle test: " + "; ".join(part["title"].lower() for part in parts), **saved,
        "tokens": [label.as_json() for label in labels(source)], "order": list(order), "unrelated": UNRELATED, "parts": parts,
    }  # fmt: skip
    return pack(header, **{name: array.astype(np.float32) for name, array in arrays.items()})


def change_text(value: float) -> str:
    """A change as people read it: two decimals, or its order of magnitude where it is only rounding."""
    return (
        "0"
        if value == 0
        else f"{value:.2f}"
        if value >= 0.005
        else f"{value:.0e}".replace("e-0", "e-")
    )
