"""One weight of a run, and the choice of its two tokens."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch

from models.analysis import head_walk
from models.analysis.head_walk import Walk
from models.analysis.slices import row_slices, slice_with
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import axes_labels, is_word, labels, queries_are_written
from viz_app.drawing.payload import pack

TYPICAL_PEAK = 0.6  # strongest weight of a good first query, neither saturated nor flat


@dataclass(frozen=True)
class WeightCell:
    """One weight of a trace, by the positions of its query and its key, from 0."""

    site: AttentionSite
    head: int
    query: int
    key: int

    @cached_property
    def walk(self) -> Walk:
        return head_walk.head_walk(self.site, self.query, self.head)


def chosen_cell(
    trace: Trace, site: AttentionSite, head: int, query: int | None, key: int | None
) -> WeightCell:
    """Return the chosen weight.

    By default the query is one with a typical peak on an ordinary word, and the key its strongest
    one.
    """
    key = key if key is not None and 0 <= key < site.n_key else None
    if query is None or not 0 <= query < site.n_query:
        if key is None:
            return WeightCell(site, head, *_typical(trace, site, head))
        query = _strongest_reader(site, head, key)
    if key is None:
        rows, row = slice_with(site, query)
        key = int(site.weights(head, rows=rows)[row].argmax())
    return WeightCell(site, head, query, key)


def _strongest_reader(site: AttentionSite, head: int, key: int) -> int:
    site = site.read("q", "k")
    return int(
        torch.cat([site.weights(head, rows=rows)[:, key] for rows in row_slices(site)]).argmax()
    )


def _typical(trace: Trace, site: AttentionSite, head: int) -> tuple[int, int]:
    """Return a query with a typical peak on an ordinary word, and its strongest key."""
    site = site.read("q", "k")
    strongest, best = map(
        torch.cat,
        zip(*(site.weights(head, rows=rows).max(-1) for rows in row_slices(site)), strict=True),
    )
    query, key = (
        torch.tensor([is_word(label) for label in labels(row)]) for row in trace.axes(site)
    )
    typical = int(
        ((strongest - TYPICAL_PEAK).abs() + (~query).float() + (~key[best]).float()).argmin()
    )
    return typical, int(best[typical])


def token_choice(
    trace: Trace, cell: WeightCell, terms: words.Terms, n_key: int | None = None
) -> bytes:
    """Return the payload of the component `choice`: both rows of tokens.

    The chosen query's weights are drawn on the first `n_key` keys (None: on all).
    """
    query, key = axes_labels(trace, cell.site)
    reads, key_axis = words.axes(cell.site, terms, queries_are_written(trace, cell.site))
    header = {
        "queries": [label.as_json() for label in query],
        "keys": [label.as_json() for label in key[:n_key]],
        "query": cell.query,
        "key": cell.key,
        "queryAxis": reads,
        "keyAxis": key_axis,
        "blocked": blocked_by(cell, range(len(key[:n_key]))),
    }
    return pack(header, weights=cell.walk.weights[:n_key].numpy())


def blocked_by(cell: WeightCell, keys: Iterable[int]) -> list[list[str]]:
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
