"""What a file to take away is called, and what tells inside it whose numbers it holds. Layers and heads are counted from 1, as on
the screen."""

import re
import unicodedata
from itertools import groupby

from models.analysis.joined_words import is_joined
from models.layers.similarity import Similarity
from models.trace import AttentionSite, Trace

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
_RAISED = {"<super>": "^", "<sub>": "_"}


def file_name(trace: Trace, *parts: str) -> str:
    """A name that no other model, step or similarity has: "eng-fra.step8000.cosine.all-heads". The similarity is left out where it
    is the usual one, the step where the record has none; "words" where tokens are joined to them."""
    step = trace.model.training.get("step")
    own = similarity(trace)
    whose = [
        trace.model.name,
        f"step{step}" if isinstance(step, int) else "",
        own if own != Similarity().name else "",
    ]
    whose += ["words"] * is_joined(trace)
    return ".".join(readable(part) for part in (*whose, *parts) if part)


def head_name(trace: Trace, site: AttentionSite, head: int, *parts: str) -> str:
    """The name of a file of one head: "eng-fra.step8000.decoder.layer2.cross_attn.head3"."""
    return file_name(trace, site_name(site), f"head{head + 1}", *parts)


def site_name(site: AttentionSite) -> str:
    """The site's path with its layer counted from 1: "decoder.layer2.cross_attn"."""
    return counted(site.name)


def counted(path: str) -> str:
    """A path in a model, "decoder.layers.1.ff", with its layer counted from 1: "decoder.layer2.ff"."""
    parts = path.split(".")
    for i, part in enumerate(parts):
        if part.isdigit():
            parts[i - 1 : i + 1] = [f"{parts[i - 1].removesuffix('s')}{int(part) + 1}"]
            break
    return ".".join(parts)


def similarity(trace: Trace) -> str:
    """The similarity that the heads of this run are scored by; "" where there is none to choose, as in an alignment."""
    return next(
        (site.similarity.name for site in trace.attention.values() if site.role != "alignment"), ""
    )


def readable(text: str) -> str:
    """A text as a part of a file name on any system: "10⁻³" is "10^-3", and what is neither letter nor digit is a hyphen."""
    said = "".join(sign + "".join(map(_plain, run)) for sign, run in groupby(text, _sign))
    return re.sub(r"-+", "-", "".join(c if c.isalnum() or c in "._^" else "-" for c in said)).strip(
        "-."
    )


def _sign(character: str) -> str:
    """What marks a raised or lowered character in plain text; "" for one that stands on the line."""
    return _RAISED.get(unicodedata.decomposition(character).partition(" ")[0], "")


def _plain(character: str) -> str:
    on_line = unicodedata.normalize("NFKC", character) if _sign(character) else character
    return _SIGNS.get(on_line, on_line)
