"""Several heads of one kind of attention: their lines, and all heads ranked by a measure."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from models.analysis.head_measures import MEASURES, measures, order
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.cells import has_many_cells, in_blocks
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.labels import labels
from viz_app.drawing.payload import pack
from viz_app.drawing.pooling import block_side, pooled_weights
from viz_app.drawing.provenance import file_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import facts, saving

N_SHOWN_HEADS, MAX_SHOWN_HEADS = (
    3,
    4,
)  # heads drawn by default and at most: with more, lines cannot be told apart
MAX_STRAND_BLOCKS = 64  # blocks a side of a long text: with more, lines hide each other
FIRST_MEASURE = next(iter(MEASURES))


Memoised = TypeVar("Memoised")
Memoise = Callable[[Hashable, Callable[[], Memoised]], Memoised]


def compute_anew(what: Hashable, make: Callable[[], Memoised]) -> Memoised:
    """Compute a finding without caching it (the default `Memoise`)."""
    return make()


@dataclass(frozen=True)
class HeadGroup:
    """The heads of one kind in all its layers, numbered from 0 by layer and head.

    `chosen` are the numbers of the heads whose lines are drawn, None for the first ones by the
    `measure`. `keep` caches a finding of this run under a key.
    """

    trace: Trace
    kind: str
    measure: str
    chosen: tuple[int, ...] | None
    keep: Memoise = compute_anew

    @cached_property
    def sites(self) -> list[AttentionSite]:
        return dict(by_kind(self.trace))[self.kind]

    @cached_property
    def heads(self) -> list[tuple[AttentionSite, int]]:
        """Every head with its site."""
        return [(site, head) for site in self.sites for head in range(site.n_heads)]

    @cached_property
    def values(self) -> dict[str, torch.Tensor | None]:
        """Each measure of every head; None if it is not defined for this text in every layer."""
        return self.keep(("measures", self.kind), self._measure)

    def _measure(self) -> dict[str, torch.Tensor | None]:
        by_site = [measures(site, *self.trace.axes(site)) for site in self.sites]
        return {name: _joined([each[name] for each in by_site]) for name in MEASURES}

    @cached_property
    def order(self) -> list[int]:
        """The heads ordered by the measure, or by number if it is not defined."""
        values = self.values[self.measure]
        return (
            list(range(len(self.heads)))
            if values is None
            else order(values, MEASURES[self.measure].least_first)
        )

    def weights(self, number: int, block: int) -> np.ndarray:
        """Return one head's weights, or the largest of each block."""
        site, head = self.heads[number]
        if block == 1:
            return site.weights(head).numpy()
        return self.keep(
            ("blocks", site.name, head, block),
            lambda: pooled_weights(site, head, block).clamp(min=0).numpy(),
        )

    @property
    def drawn_heads(self) -> list[int]:
        """The heads whose lines are drawn, by number."""
        if self.chosen is None:
            return sorted(self.order[:N_SHOWN_HEADS])
        return [n for n in self.chosen if n < len(self.heads)][:MAX_SHOWN_HEADS]


def _joined(by_site: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Return the values of all heads, or None if the masks of some layers leave none to measure."""
    values = [one for one in by_site if one is not None]
    return torch.cat(values) if len(values) == len(by_site) else None


def toggle(numbers: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the drawn heads after a click on one: removed if drawn, else added.

    If MAX_SHOWN_HEADS are drawn already, the first one is dropped.
    """
    if number in numbers:
        return tuple(n for n in numbers if n != number)
    return tuple(
        sorted(
            [*numbers[len(numbers) - MAX_SHOWN_HEADS + 1 :], number]
            if len(numbers) >= MAX_SHOWN_HEADS
            else [*numbers, number]
        )
    )


def several_payload(group: HeadGroup, terms: words.Terms, query: int | None) -> bytes:
    """Return the payload of the component `several`.

    `query` (from 0) restricts the lines to those of one token. In a long text a line shows the
    largest of a block of weights.
    """
    site = group.sites[0]
    block = block_side(site.n_query, site.n_key, MAX_STRAND_BLOCKS) if has_many_cells(site) else 1
    rows, columns = (in_blocks(labels(encoding), block) for encoding in group.trace.axes(site))
    reads, key_axis = words.axes(site, terms)
    heads = group.drawn_heads
    weights = [group.weights(n, block) for n in heads]
    header: dict[str, Any] = {
        "kind": group.kind, "title": f"{words.kind_title(site)}: {words.kind_subtitle(site, terms)}",
        "heads": [{"layer": head_site.layer + 1, "head": head, "name": head_number(head_site, head)} for head_site, head in group.heads],
        "order": group.order, "chosen": heads, "measure": group.measure, "query": -1 if query is None else query // block,
        "block": block,
        "measures": [
            {"id": key, "name": m.name, "formula": m.formula, "says": m.sentence, "unit": m.unit,
             "there": group.values[key] is not None}
            for key, m in MEASURES.items() if not m.of_one_text or site.query_stream == site.key_stream
        ],
        "queries": [label.as_json() for label in rows], "keys": [label.as_json() for label in columns],
        "queryAxis": reads, "keyAxis": key_axis, "most": MAX_SHOWN_HEADS,
        **saving(file_name(group.trace, group.kind, "heads"), facts(group.trace)),
        "widest": float(np.log(max(2, site.n_key))),
    }  # fmt: skip
    arrays = {key: values.numpy() for key, values in group.values.items() if values is not None}
    return pack(
        header,
        **arrays,
        weights=np.stack(weights)
        if weights
        else np.zeros((0, len(rows), len(columns)), np.float32),
    )


def head_number(site: AttentionSite, head: int) -> str:
    """Return a short name of a head, counted from 1: "2.5" is head 5 of layer 2."""
    return f"{site.layer + 1}.{head + 1}"


def head_measures_csv(group: HeadGroup) -> str:
    """Return a row for each head, by layer and head from 1: every measure as exact float32.

    A measure is empty if it is not defined; each row has the model and its fingerprint.
    """
    measures = [f"{m.name} ({m.unit})" for m in MEASURES.values()]
    model, rows = group.trace.model, []
    for n, (site, head) in enumerate(group.heads):
        numbers = [
            "" if values is None else str(values[n].numpy()) for values in group.values.values()
        ]
        location = words.kind_title(site), site.layer + 1, head + 1
        rows.append([*location, *numbers, model.name, model.fingerprint])
    return csv_table(["attention", "layer", "head", *measures, "model", "fingerprint"], rows)
