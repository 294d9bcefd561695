"""Provenance inside downloaded files, and the fields with which the browser saves its own files.

A CSV gets comment rows, an npz an extra array, an SVG metadata and a caption, a GIF a comment
(components/common/save.js makes the browser's files).
"""

import io
import re
import textwrap
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from xml.etree import ElementTree

import numpy as np

from models import Scope
from models.analysis.joined_words import is_joined
from models.printable import printable
from models.tokenizers.encoding import with_masks
from models.trace import Trace
from models.trace.outputs import TokenInOrder
from viz_app import words
from viz_app.drawing import provenance
from viz_app.drawing.colours import PAPER_COLOUR, TEXT_COLOUR
from viz_app.drawing.csv_file import comment_line
from viz_app.drawing.labels import LONELY, mask_token
from viz_app.drawing.notes import answer_line, first_output
from viz_app.drawing.npz import Arrays, npz
from viz_app.drawing.svg import LETTER

Facts = Mapping[str, str]
FileContent = str | bytes | Iterator[str] | Arrays  # a whole file, the lines of a table, or arrays

COUNTING = (
    "layers and heads from 1, in the names of arrays too; "
    "tokens and the axes of arrays from 0. File names and titles count tokens from 1"
)
IN_TOKENS = " (counted in tokens, not words)"
FINGERPRINT = 12  # characters shown: enough to tell any two models apart
CAPTION_LINE, CAPTION_SIZE = 17, 12  # of a caption, in pixels
LINE_BREAK = LONELY["\n"]
# characters that end a line, or cannot be in an SVG (XML 1.0, section 2.2)
_UNWRITTEN = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
MAX_CAPTION = 600  # characters of a caption; the metadata always holds the full text


def facts(trace: Trace, **more: str) -> Facts:
    """Return name → fact on a run's numbers, plus `more`.

    The facts are model, step, similarity, whether positions are left out, texts, hidden tokens,
    the order of prediction, answer, changes and counting.
    """
    model, step = trace.model, trace.model.training.get("step")
    label, answer = _answer(trace)
    entries = {
        "model": model.name, "fingerprint": model.fingerprint[:FINGERPRINT], "training step": "" if step is None else f"{step}",
        "similarity": provenance.similarity(trace), "positions": "left out" * model.positions_removed,
        **{name.replace("_", " "): text for name, text in trace.fields.items() if isinstance(text, str)},
        "read as": _with_masks(trace), "order": _order(trace), label: answer, "changed": _changes(trace),
        "words": words.JOINED * is_joined(trace), **more, "counting": COUNTING,
    }  # fmt: skip
    return {name: _one_line(value) for name, value in entries.items() if value}


def _with_masks(trace: Trace) -> str:
    """Return the text as it was read if tokens of it were hidden."""
    hidden = [row for row in trace.streams.values() if row.hidden]
    return "; ".join(with_masks(row, mask_token(trace)) for row in hidden)


def _order(trace: Trace) -> str:
    """Return the order in which tokens are predicted, "" from left to right."""
    output = first_output(trace)
    if not isinstance(output, TokenInOrder) or output.order == tuple(range(len(output.order))):
        return ""
    return ", ".join(map(str, output.order)) + IN_TOKENS * is_joined(trace)


def _answer(trace: Trace) -> tuple[str, str]:
    """Return the kind of answer and the answer, without an order: that is a fact of its own."""
    label, answer = answer_line(trace)
    return "surprise" if _order(trace) else label, answer


def _changes(trace: Trace) -> str:
    """Return the changes; where tokens are joined to words, note that positions count tokens."""
    changes = "; ".join(map(provenance.change_name, trace.edits))
    in_tokens = is_joined(trace) and any(edit.names_positions for edit in trace.edits)
    return changes + IN_TOKENS * in_tokens


def _one_line(text: str) -> str:
    """Return a text as it is, but with line breaks as ↵ and other control characters as codes."""
    return _UNWRITTEN.sub(lambda match: printable(match[0]), text.replace("\n", LINE_BREAK))


def of_model(trace: Trace, *also: str) -> Facts:
    """Return only the facts about the model, and the run's facts named in `also`."""
    names = ("model", "fingerprint", "training step", "similarity", "positions", *also)
    return {name: value for name, value in facts(trace).items() if name in names}


def name_weights(scope: Scope) -> str:
    """Return a model's name and fingerprint, for a fact about one of several models."""
    return f"{scope.name}, fingerprint {scope.fingerprint[:FINGERPRINT]}"


def of_step(trace: Trace, step: int) -> Facts:
    """Return the facts of this run that hold at another training step of its model as well.

    The fingerprint and the answer are those of other weights, so they are left out.
    """
    return _without_answer(trace, "fingerprint") | {"training step": str(step)}


def of_all_steps(trace: Trace, steps: Sequence[int]) -> Facts:
    """Return the facts of this run that hold at all these training steps of its model."""
    listed = ", ".join(map(str, steps))
    return _without_answer(trace, "fingerprint", "training step", steps=listed)


def _without_answer(trace: Trace, *names: str, **more: str) -> Facts:
    left_out = {*names, _answer(trace)[0]}
    all_facts = facts(trace, **more)
    return {name: value for name, value in all_facts.items() if name not in left_out}


def of_two(first: Trace, second: Trace, **more: str) -> Facts:
    """Return the facts of two runs, and `more`, as `merge_facts` does."""
    return {**merge_facts(facts(first), facts(second)), **more}


def merge_facts(ours: Facts, theirs: Facts) -> Facts:
    """Return the facts of two runs or models as one.

    Facts that differ are listed for each, with "(first)" or "(second)" in the name.
    """
    both: dict[str, str] = {}
    for name in ours | theirs:
        if ours.get(name) == theirs.get(name):
            both[name] = ours[name]
            continue
        for place, run in (("first", ours), ("second", theirs)):
            if name in run:
                both[f"{name} ({place})"] = run[name]
    return both


def caption(about: Facts) -> str:
    """Return the facts in one line for below a picture, shortened in the middle if very long."""
    line = "; ".join(f"{name}: {text}" for name, text in about.items() if name != "counting")
    return (
        line
        if len(line) <= MAX_CAPTION
        else f"{line[: MAX_CAPTION // 2].rstrip()} … {line[-MAX_CAPTION // 2 :].lstrip()}"
    )


def saving(file: str, about: Facts) -> dict[str, str]:
    """Return the payload fields of a picture that the browser saves.

    They are the file's name without its extension, the caption, and all facts for the metadata.
    """
    return {"file": file, "caption": caption(about), "about": _whole(about)}


def stamp_file(content: str | bytes, name: str, about: Facts) -> str | bytes:
    """Return the file's content with the facts inside; unchanged for other file types."""
    extension = name.rpartition(".")[2]
    return _STAMPS[extension](content, about) if about and extension in _STAMPS else content


def stamped_pieces(
    content: str | bytes | Iterator[str] | Arrays, name: str, about: Facts
) -> Iterator[bytes]:
    """Yield a stamped file in pieces, for generated content: CSV lines or npz arrays."""
    if isinstance(content, str | bytes):
        whole = stamp_file(content, name, about)
        yield whole.encode() if isinstance(whole, str) else whole
    elif name.endswith(".csv"):
        yield _csv("", about).encode()
        yield from (line.encode() for line in content)
    else:
        yield from npz(chain(content, [("about", _lines(about))] if about else []))


def _csv(content: str, about: Facts) -> str:
    """Return the CSV with a comment row for each fact before the table: "# model: eng-fra"."""
    return "".join(comment_line(f"{name}: {text}") for name, text in about.items()) + content


def _npz(content: bytes, about: Facts) -> bytes:
    """Return the npz with an extra array "about" that holds the facts, one a line."""
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
    """Return the drawing with a caption below it and all facts as metadata."""
    root = ElementTree.fromstring(content)
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    lines = textwrap.wrap(caption(about), max(20, int((width - 20) / (LETTER * CAPTION_SIZE))))
    total_height = height + CAPTION_LINE * len(lines) + CAPTION_LINE
    caption_lines = "".join(
        f'<text x="10" y="{height + CAPTION_LINE * (i + 1):g}" font-family="sans-serif" font-size="{CAPTION_SIZE}" fill="{TEXT_COLOUR}" '
        f'style="unicode-bidi:plaintext">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {total_height:g}" width="{width:g}" height="{total_height:g}">'
        f'<metadata>{escape(_whole(about))}</metadata><rect width="{width:g}" height="{total_height:g}" fill="{PAPER_COLOUR}"/>'
        f"{content}{caption_lines}</svg>"
    )


def _gif(content: bytes, about: Facts) -> bytes:
    """Return the GIF with a comment before the first image, in blocks of up to 255 bytes."""
    flags, comment = content[10], _whole(about).encode()
    # after the logical screen descriptor and the global colour table (GIF89a, 18 and 19)
    start = 13 + (3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0)
    blocks = b"".join(
        bytes([len(part)]) + part
        for i in range(0, len(comment), 255)
        if (part := comment[i : i + 255])
    )
    return content[:start] + b"\x21\xfe" + blocks + b"\0" + content[start:]


_STAMPS = {"csv": _csv, "npz": _npz, "svg": _svg, "gif": _gif}


def _whole(about: Facts) -> str:
    """Return the facts, one a line: "model: eng-fra"."""
    return "\n".join(f"{name}: {text}" for name, text in about.items())
