"""Helpers for tests of pictures: small random runs to draw, a reader of drawings, and the colour map computed a second way."""

import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from small import random_attention_only, random_gpt, random_model, random_seq2seq

from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app.drawing.extent import on_one_scale
from viz_app.drawing.npz import Arrays, npz

SVG = "{http://www.w3.org/2000/svg}"
LETTERS = "abcde=@"

# CIE XYZ of linear sRGB (IEC 61966-2-1) and OKLab of XYZ (Ottosson 2020), as published
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_LMS = (
    np.array(
        [
            [0.8189330101, 0.3618667424, -0.1288597137],
            [0.0329845436, 0.9293118715, 0.0361456387],
            [0.0482003018, 0.2643662691, 0.6338517070],
        ]
    )
    @ _XYZ
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def saved(arrays: Arrays) -> NpzFile:
    """Save these arrays to a file and open it again."""
    return np.load(io.BytesIO(b"".join(npz(arrays))), allow_pickle=False)


def on_screen(pictures: dict[str, Any]) -> dict[str, Any]:
    """Return the pictures of one run as the page draws them, each on its own scale."""
    return on_one_scale(pictures)[0]


def letters(family: str = "transformer", **sizes: Any) -> Scope:
    """An untrained model over letters: enough for pictures of what it computes."""
    tokenizer = Tokenizer.characters(LETTERS)
    make = {
        "transformer": random_model, "recurrent": random_seq2seq, "attention only": random_attention_only, "gpt": random_gpt,
    }[family]  # fmt: skip
    model = make(vocab_size=tokenizer.vocab_size, **sizes)
    task = "language" if model.continues else "letters"
    return Scope(Checkpoint(Path("letters"), model, tokenizer, {"task": task}), torch.device("cpu"))


def mixed(share: float, low: str, high: str) -> np.ndarray:
    """Return the colour `share` of the way from `low` to `high` in OKLab, as red, green and blue from 0 to 255."""
    ends = np.array([_lab(low), _lab(high)])
    lab = (1 - share) * ends[0] + share * ends[1]
    linear = np.clip(np.linalg.inv(_LMS) @ (np.linalg.inv(_LAB) @ lab) ** 3, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def rgb(colour: str) -> np.ndarray:
    """Convert "#rrggbb" to three numbers from 0 to 255."""
    assert len(colour) == 7
    assert colour[0] == "#"
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def _lab(colour: str) -> np.ndarray:
    encoded = rgb(colour) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return _LAB @ np.cbrt(_LMS @ linear)


class Drawing:
    """An SVG read back: its size, its texts and its boxes, each with its attributes."""

    def __init__(self, svg: str) -> None:
        self.root = ElementTree.fromstring(svg)
        assert self.root.tag == f"{SVG}svg"
        self.size = float(self.root.get("width")), float(self.root.get("height"))
        assert self.root.get("viewBox").split() == [
            "0",
            "0",
            self.root.get("width"),
            self.root.get("height"),
        ]
        hidden = {id(part) for defs in self.root.iter(f"{SVG}defs") for part in defs.iter()}
        self.boxes = [box for box in self.root.iter(f"{SVG}rect") if id(box) not in hidden]
        self.texts = list(self.root.iter(f"{SVG}text"))

    def titled(self) -> list[tuple[ElementTree.Element, str]]:
        """The boxes with a text on hover, in order."""
        said = [(box, box.find(f"{SVG}title")) for box in self.boxes]
        return [(box, title.text) for box, title in said if title is not None]

    def said(self, text: str) -> ElementTree.Element:
        """The one element with exactly this text."""
        (found,) = (part for part in self.texts if part.text == text)
        return found


def at(box: ElementTree.Element) -> tuple[float, ...]:
    """x, y, width, height."""
    return tuple(float(box.get(name)) for name in ("x", "y", "width", "height"))
