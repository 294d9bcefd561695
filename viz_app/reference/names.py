"""The names of the results in a run, each with its formula.

names.json lists those of one shipped model of each architecture. A test compares it with runs of
these models.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from models.trace import Trace

PATH = Path(__file__).with_name("names.json")


@dataclass(frozen=True)
class Name:
    """An intermediate or an attention of a run; {i} stands for the number of a layer."""

    name: str
    axes: str
    formula: str


@dataclass(frozen=True)
class Names:
    """All names in the runs of a model."""

    model: str
    activations: tuple[Name, ...]
    attention: tuple[Name, ...]


# the contents of an attention of a run: attribute, shape, formula
SITE_NAMES = (
    Name("q", "batch head query d_head", "x·W_Q + b_Q, split into heads"),
    Name("k", "batch head key d_head", "memory·W_K + b_K, split into heads"),
    Name("v", "batch head key d_head", "memory·W_V + b_V, split into heads"),
    Name("scores()", "head query key", "the similarity of q and k, scaled, before the mask"),
    Name("allowed()", "head query key", "the mask: True = may attend"),
    Name("weights()", "head query key", "softmax of the allowed scores, 0 elsewhere; after edits"),
    Name("head_out()", "head query d_head", "weights·v, before W_O; after edits"),
    Name("out", "batch head query d_head", "what the fused kernel returned for weights·v"),
)


def names_of(run: Trace) -> Names:
    """Return the names of a run; the same name in all layers is one."""
    activations = [
        Name(_of_layers(name), " ".join(one.axes), one.formula)
        for name, one in run.activations.items()
    ]
    attention = [
        Name(
            _of_layers(name),
            f"{site.query_stream} → {site.key_stream}",
            " + ".join([site.similarity.formula, *(term.name for term in site.terms)]),
        )
        for name, site in run.attention.items()
    ]
    unique = (tuple(dict.fromkeys(several)) for several in (activations, attention))
    return Names(run.model.name, *unique)


def recorded_names() -> list[Names]:
    """Return the names in names.json."""
    return [
        Names(
            model, *(tuple(Name(*row) for row in kind[key]) for key in ("activations", "attention"))
        )
        for model, kind in json.loads(PATH.read_text("utf-8")).items()
    ]


def _of_layers(name: str) -> str:
    return re.sub(r"\.\d+(?=\.)", ".{i}", name)
