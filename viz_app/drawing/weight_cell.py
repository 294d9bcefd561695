"""One weight of a run, and the choice of its two tokens."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from models.analysis import head_walk
from models.analysis.head_walk import Walk
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import axes_labels, writes
from viz_app.drawing.payload import pack


@dataclass(frozen=True)
class Cell:
    """One weight of a trace, by the positions of its query and its key, from 0."""

    site: AttentionSite
    head: int
    query: int
    key: int

    @cached_property
    def walk(self) -> Walk:
        return head_walk.walk(self.site, self.query, self.head)


def token_choice(trace: Trace, cell: Cell, terms: words.Terms, n_key: int | None = None) -> bytes:
    """Return the payload of the component `choice`: both rows of tokens, with the weights of the chosen
    query on the first `n_key` keys (None: on all)."""
    query, key = axes_labels(trace, cell.site)
    reads, read = words.axes(cell.site, terms, writes(trace, cell.site))
    header = {
        "queries": [label.as_json() for label in query],
        "keys": [label.as_json() for label in key[:n_key]],
        "query": cell.query,
        "key": cell.key,
        "queryAxis": reads,
        "keyAxis": read,
        "blocked": blocked_by(cell, range(len(key[:n_key]))),
    }
    return pack(header, weights=cell.walk.weights[:n_key].numpy())


def blocked_by(cell: Cell, keys: Iterable[int]) -> list[list[str]]:
    """Name, for each of these keys, the mask layers that hide it from the query."""
    n_query, n_key = cell.site.q.shape[2], cell.site.k.shape[2]
    hidden: list[list[str]] = [[] for _ in range(n_key)]
    for layer in cell.site.mask.layers:
        row = layer.allowed[0, min(cell.head, layer.allowed.shape[1] - 1)].expand(n_query, n_key)[
            cell.query
        ]
        for j in (~row).nonzero().flatten().tolist():
            hidden[j].append(layer.name)
    return [hidden[j] for j in keys]
