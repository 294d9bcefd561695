"""Names of downloads, which identify the run; layers and heads are counted from 1."""

import re
import unicodedata
from itertools import groupby

from models.analysis.joined_words import is_joined
from models.layers.similarity import AttentionSimilarity
from models.trace import AttentionSite, Trace
from models.trace.edits import Edit
from models.trace.edits.base import path_or_module

_SIGNS = {
    "√": "sqrt-",
    "·": "-",
    "→": "-to-",
    "‖": "",
    "∂": "d",
    "−": "-",
    "–": "-",
    "∞": "infinity",
}
_NUMBER = r"(?<![^.])\d+(?![^.])"  # a part of a path
_NAMED_NUMBERS = rf"(?<![^.])(?!\d+\.)([^.]+?)s?\.({_NUMBER}(?:\.{_NUMBER})*)"
_RAISED = {"<super>": "^", "<sub>": "_"}


def file_name(trace: Trace, *parts: str, step: int | None = None) -> str:
    """Return a file name unique to model, step and similarity: "eng-fra.step8000.all-heads".

    The usual similarity and an unrecorded step are left out; "no-positions" is added where position
    vectors are left out, "words" where tokens are joined to words. `step` replaces the trace's own.
    """
    step = trace.model.training.get("step") if step is None else step
    name = similarity(trace)
    parts_of_run = [
        trace.model.name,
        f"step{step}" if isinstance(step, int) else "",
        name if name != AttentionSimilarity().name else "",
    ]
    parts_of_run += ["no-positions"] * trace.model.positions_removed
    parts_of_run += ["words"] * is_joined(trace)
    return ".".join(file_name_part(part) for part in (*parts_of_run, *parts) if part)


def head_name(trace: Trace, site: AttentionSite, head: int, *parts: str) -> str:
    """Return the file name of one head: "eng-fra.step8000.decoder.layer2.cross_attn.head3"."""
    return file_name(trace, site_name(site), f"head{head + 1}", *parts)


def name_of_two(first: Trace, second: Trace, *parts: str) -> str:
    """Return the file name of two runs: "eng-fra.step8000.and.dates.step3000.distances"."""
    return file_name(first, "and", file_name(second, *parts))


def site_name(site: AttentionSite) -> str:
    """Return the site's path with its layer counted from 1: "decoder.layer2.cross_attn"."""
    return counted_from_one(path_or_module(site.name))


def change_name(edit: Edit) -> str:
    """Describe what an edit does and where, with the names of arrays in files."""
    place, limits = edit.where.describe(1)
    return f"{counted_from_one(place)}: {', '.join([*edit.effects(), *limits])}"


def counted_from_one(path: str) -> str:
    """Return a path in a model with its layer counted from 1.

    "decoder.layers.1.ff" becomes "decoder.layer2.ff", and "blocks.0.1.attn", of a list in a list,
    "block1.2.attn". Numbers without a name before them are counted from 1 only where there is no
    other: "0.attn" becomes "1.attn".
    """
    counted, found = re.subn(
        _NAMED_NUMBERS, lambda match: f"{match[1]}{_all_from_one(match[2])}", path, count=1
    )
    return counted if found else _all_from_one(path)


def _all_from_one(path: str) -> str:
    return re.sub(_NUMBER, lambda match: str(int(match[0]) + 1), path)


def similarity(trace: Trace) -> str:
    """Return the similarity of the run's attention; "" if there is none to choose."""
    return next(
        (site.similarity.name for site in trace.attention.values() if site.role != "alignment"), ""
    )


def file_name_part(text: str) -> str:
    """Return a text as part of a file name for any system: "10⁻³" becomes "10^-3".

    Characters other than letters, digits, ".", "_" and "^" become hyphens.
    """
    plain = "".join(sign + "".join(map(_plain, run)) for sign, run in groupby(text, _sign))
    return re.sub(
        r"-+", "-", "".join(c if c.isalnum() or c in "._^" else "-" for c in plain)
    ).strip("-.")


def _sign(character: str) -> str:
    """Return "^" for a superscript and "_" for a subscript; "" for any other character."""
    return _RAISED.get(unicodedata.decomposition(character).partition(" ")[0], "")


def _plain(character: str) -> str:
    on_line = unicodedata.normalize("NFKC", character) if _sign(character) else character
    return _SIGNS.get(on_line, on_line)
