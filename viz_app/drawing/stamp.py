"""A finished file with its provenance inside: comment rows in a CSV, one more array in an npz, metadata and a caption in an SVG, a
comment in a GIF; and what the browser needs for the files that it makes itself (components/common/save.js)."""

import io
import textwrap
import zipfile
from collections.abc import Iterator, Mapping
from html import escape
from itertools import chain
from xml.etree import ElementTree

import numpy as np

from models.analysis.joined_words import is_joined
from models.trace import Trace
from viz_app import words
from viz_app.drawing import provenance
from viz_app.drawing.colours import PAPER, TEXT
from viz_app.drawing.csv_file import csv_line
from viz_app.drawing.export import LETTER
from viz_app.drawing.notes import answer_line
from viz_app.drawing.npz import Arrays, npz

Facts = Mapping[str, str]

COUNTING = (
    "layers and heads from 1, in the names of arrays too; tokens and the axes of arrays from 0"
)
FINGERPRINT = 12  # characters of it: enough to tell any two models apart
LINE, SIZE = 17, 12  # of a caption, in pixels
LONGEST = 600  # characters of a caption: what is longer stands whole in the metadata


def facts(trace: Trace, **more: str) -> Facts:
    """Name → what is to be known of a run's numbers: model, step, similarity, texts, answer, changed masks, and `more`."""
    model, step = trace.model, trace.model.training.get("step")
    label, answer = answer_line(trace)
    found = {
        "model": model.name, "fingerprint": model.fingerprint[:FINGERPRINT], "training step": "" if step is None else f"{step}",
        "similarity": provenance.similarity(trace),
        **{name.replace("_", " "): text for name, text in trace.fields.items() if isinstance(text, str)},
        label: answer, "masks changed": "; ".join(edit.describe(1) for edit in trace.edits), "words": words.JOINED * is_joined(trace), **more,
        "counting": COUNTING,
    }  # fmt: skip
    return {name: " ".join(said.split()) for name, said in found.items() if said}


def of_model(trace: Trace, *also: str) -> Facts:
    """Only whose numbers these are, and `also` some of the run's other facts."""
    kept = ("model", "fingerprint", "training step", "similarity", *also)
    return {name: said for name, said in facts(trace).items() if name in kept}


def caption(about: Facts) -> str:
    """The same in one line, for under a picture; the middle of what is very long is left out."""
    said = "; ".join(f"{name}: {text}" for name, text in about.items() if name != "counting")
    return (
        said
        if len(said) <= LONGEST
        else f"{said[: LONGEST // 2].rstrip()} … {said[-LONGEST // 2 :].lstrip()}"
    )


def saving(file: str, about: Facts) -> dict[str, str]:
    """The fields of a payload whose picture the browser saves: the file's name without its ending, the caption that stands under
    the picture, and all that is known of it, for inside."""
    return {"file": file, "caption": caption(about), "about": _whole(about)}


def stamped(content: str | bytes, name: str, about: Facts) -> str | bytes:
    """The file of this name with what is known of it inside; one of another kind as it is."""
    ending = name.rpartition(".")[2]
    return _STAMPS[ending](content, about) if about and ending in _STAMPS else content


def pieces(
    content: str | bytes | Iterator[str] | Arrays, name: str, about: Facts
) -> Iterator[bytes]:
    """The same, piece by piece, of a file that is made so too: a table of lines, or arrays."""
    if isinstance(content, str | bytes):
        whole = stamped(content, name, about)
        yield whole.encode() if isinstance(whole, str) else whole
    elif name.endswith(".csv"):
        yield _csv("", about).encode()
        yield from (line.encode() for line in content)
    else:
        yield from npz(chain(content, [("about", _lines(about))] if about else []))


def _csv(content: str, about: Facts) -> str:
    """A row of one cell for each fact before the table, "# model: eng-fra"."""
    return "".join(csv_line([f"# {name}: {text}"]) for name, text in about.items()) + content


def _npz(content: bytes, about: Facts) -> bytes:
    """An array "about" of the lines that a CSV has."""
    out = io.BytesIO(content)
    with (
        zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("about.npy", "w") as file,
    ):
        np.lib.format.write_array(file, _lines(about), allow_pickle=False)
    return out.getvalue()


def _lines(about: Facts) -> np.ndarray:
    return np.array([f"{name}: {text}" for name, text in about.items()])


def _svg(content: str, about: Facts) -> str:
    """The drawing above a caption; every fact whole as metadata."""
    root = ElementTree.fromstring(content)
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    lines = textwrap.wrap(caption(about), max(20, int((width - 20) / (LETTER * SIZE))))
    tall = height + LINE * len(lines) + LINE
    said = "".join(
        f'<text x="10" y="{height + LINE * (i + 1):g}" font-family="sans-serif" font-size="{SIZE}" fill="{TEXT}" '
        f'style="unicode-bidi:plaintext">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {tall:g}" width="{width:g}" height="{tall:g}">'
        f'<metadata>{escape(_whole(about))}</metadata><rect width="{width:g}" height="{tall:g}" fill="{PAPER}"/>'
        f"{content}{said}</svg>"
    )


def _gif(content: bytes, about: Facts) -> bytes:
    """A comment extension (GIF89a, 24) before the first picture, in blocks of at most 255 bytes."""
    flags, said = content[10], _whole(about).encode()
    start = 13 + (
        3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0
    )  # behind the screen's descriptor and its colours
    blocks = b"".join(
        bytes([len(part)]) + part for i in range(0, len(said), 255) if (part := said[i : i + 255])
    )
    return content[:start] + b"\x21\xfe" + blocks + b"\0" + content[start:]


_STAMPS = {"csv": _csv, "npz": _npz, "svg": _svg, "gif": _gif}


def _whole(about: Facts) -> str:
    """A line a fact, "model: eng-fra"."""
    return "\n".join(f"{name}: {text}" for name, text in about.items())
