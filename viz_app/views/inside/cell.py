"""One weight of a head, and the payloads of the browser components that show how it comes about."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from models.analysis import head_sum
from models.analysis.head_sum import Heads
from models.analysis.head_walk import Walk
from models.analysis.slices import row_slices, slice_with
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing import provenance
from viz_app.drawing.labels import Label, axes_labels, labels
from viz_app.drawing.payload import pack
from viz_app.drawing.stamp import facts, saving
from viz_app.drawing.weight_cell import Cell, blocked_by
from viz_app.views.inside import columns as inside_columns
from viz_app.views.inside import stages as inside_stages
from viz_app.views.inside import text as inside_text
from viz_app.views.inside.columns import peak
from viz_app.views.inside.scene import Scene, Stage

SHOWN_KEYS = 12  # rows of the walk, kept free for shorter inputs; longer ones show the strongest
TELLING = (
    0.6  # a first query worth walking: its strongest weight is about this, neither settled nor flat
)


def chosen_cell(
    trace: Trace, site: AttentionSite, head: int, query: int | None, key: int | None
) -> Cell:
    """The chosen weight; where a token is not chosen or no longer there, a telling query and its strongest key."""
    if query is None or not 0 <= query < site.n_query:
        is_there = key is not None and 0 <= key < site.n_key
        query = _strongest_reader(site, head, key) if is_there else _telling(trace, site, head)
    if key is None or not 0 <= key < site.n_key:
        rows, place = slice_with(site, query)
        key = int(site.weights(head, rows=rows)[place].argmax())
    return Cell(site, head, query, key)


def _strongest_reader(site: AttentionSite, head: int, key: int) -> int:
    site = site.read("q", "k")
    return int(
        torch.cat([site.weights(head, rows=rows)[:, key] for rows in row_slices(site)]).argmax()
    )


def _telling(trace: Trace, site: AttentionSite, head: int) -> int:
    site = site.read("q", "k")
    strongest, best = map(
        torch.cat,
        zip(*(site.weights(head, rows=rows).max(-1) for rows in row_slices(site)), strict=True),
    )
    query, key = (
        torch.tensor([_is_word(label) for label in labels(row)]) for row in trace.axes(site)
    )
    return int(((strongest - TELLING).abs() + (~query).float() + (~key[best]).float()).argmin())


def _is_word(label: Label) -> bool:
    """Neither a special token nor a sign."""
    return not label.special and any(c.isalnum() for c in label.text)


def walk(trace: Trace, cell: Cell, terms: words.Terms, stage: int = 0) -> bytes:
    """The payload of the component `walk`: every stage of one weight, for the strongest keys; it starts at this `stage`."""
    w = cell.walk
    every = None if words.is_alignment(cell.site) else head_sum.heads(trace, cell.site, cell.query)
    rows = shown_keys(w, cell.key)
    query, key = axes_labels(trace, cell.site)
    others = torch.ones(len(w.weights), dtype=torch.bool)
    others[rows] = False
    arrays, told = inside_columns.arrays(cell.site, w, rows), stages(trace, cell, terms, every)
    columns, used = (
        inside_columns.columns(cell.site, arrays),
        {column for stage in told for column in stage.columns},
    )
    header: dict[str, Any] = {
        "site": cell.site.name,
        "head": cell.head,
        "query": cell.query,
        "key": cell.key,
        "indices": rows,
        "stage": stage,
        "lines": max(SHOWN_KEYS, cell.site.n_heads) + 3,
        "title": inside_text.title(
            cell.site,
            cell.head,
            terms,
            query[cell.query],
            key[cell.key],
            float(w.weights[cell.key]),
        ),
        "stages": [asdict(s) for s in told],
        "columns": {
            name: inside_columns.as_json(column) for name, column in columns.items() if name in used
        },
        "links": [
            [name, title, next(i for i, s in enumerate(told) if name in s.columns)]
            for name, title in inside_columns.links(cell.site)
        ],
        "queryLabel": labels(trace.axes(cell.site)[0])[
            cell.query
        ].as_json(),  # its row is the vector of the token read
        "keyLabels": [_numbered(key[j], j if len(rows) < len(key) else None) for j in rows],
        "blocked": blocked_by(cell, rows),
        "n_keys": len(w.weights),
        "shown": inside_text.shown(len(rows), len(w.weights), float(w.weights[others].sum())),
        **saving(
            provenance.head_name(
                trace, cell.site, cell.head, f"query{cell.query + 1}", f"key{cell.key + 1}"
            ),
            facts(trace),
        ),
        **(_head_scales(every) if every else {"n_heads": 0}),
    }
    arrays |= {"rest": w.parts[others].sum(0), **(_head_arrays(every) if every else {})}
    return pack(header, **{name: array.numpy() for name, array in arrays.items()})


def heads_file(trace: Trace, cell: Cell) -> str:
    """What a file of all heads at the chosen query is called."""
    return provenance.file_name(
        trace, provenance.site_name(cell.site), "heads", f"query{cell.query + 1}"
    )


def heads(trace: Trace, cell: Cell, terms: words.Terms) -> bytes:
    """The payload of the component `heads`: what each head adds at the chosen query."""
    every = head_sum.heads(trace, cell.site, cell.query)
    query, _ = axes_labels(trace, cell.site)
    lengths = head_sum.added_norms(cell.site)
    header = {
        "site": cell.site.name,
        "head": cell.head,
        "query": cell.query,
        **saving(heads_file(trace, cell), facts(trace)),
        "title": inside_text.heads_title(cell.site, terms, query[cell.query]),
        "sentence": inside_text.heads_sentence(every, labels(trace.axes(cell.site)[0])[cell.query]),
        "queries": [label.as_json() for label in query],
        "longest": peak(lengths),
        **_head_scales(every),
    }
    cosines = {"along_total": every.along_total, "along_residual": every.along_residual}
    arrays = {**_head_arrays(every), **cosines, "between": every.between, "lengths": lengths}
    return pack(
        header, **{name: array.numpy() for name, array in arrays.items() if array is not None}
    )


def shown_keys(w: Walk, key: int) -> list[int]:
    """Up to SHOWN_KEYS keys, in order: all, or the strongest (of equals the first) and always the chosen one."""
    order = torch.argsort(w.weights, descending=True, stable=True).tolist()
    kept = order[:SHOWN_KEYS]
    return sorted(kept if key in kept else [*kept[:-1], key])


def stages(trace: Trace, cell: Cell, terms: words.Terms, every: Heads | None = None) -> list[Stage]:
    """The stages of this weight's walk."""
    query, key = map(labels, trace.axes(cell.site))
    blocked: dict[str, int] = {}
    for names in blocked_by(cell, range(len(cell.walk.weights))):
        for name in names:
            blocked[name] = blocked.get(name, 0) + 1
    if every is None and not words.is_alignment(cell.site):
        every = head_sum.heads(trace, cell.site, cell.query)
    return inside_stages.stages(
        Scene(
            cell.site, cell.walk, every, cell.key, query[cell.query], key[cell.key], blocked, terms
        )
    )


def _numbered(label: Label, place: int | None) -> list:
    """The label, with its place from 0 in front where rows are left out: a text may hold a token many times."""
    text, *rest = label.as_json()
    return [text if place is None else f"{place} {text}", *rest]


def _head_arrays(every: Heads) -> dict[str, Tensor]:
    foot = {} if every.bias is None else {"bias": every.bias}
    foot |= {"total": every.total}
    foot |= {} if every.residual is None else {"residual": every.residual}
    sizes = torch.cat(
        [every.norms, torch.stack([value.norm() for value in foot.values()])]
    )  # of each row of the table
    return {"head_out": every.head_out, "added": every.added, **foot, "sizes": sizes}


def _head_scales(every: Heads) -> dict[str, Any]:
    """Colour scales of the heads' table: one for the heads' results, one for all that is added up, the stream has its own."""
    together = torch.cat(
        [every.added.flatten(), every.total, *([] if every.bias is None else [every.bias])]
    )
    scales = {"head_out": peak(every.head_out), "added": peak(together)}
    scales |= {} if every.residual is None else {"residual": peak(every.residual)}
    return {
        "n_heads": len(every.added),
        "d_model": len(every.total),
        "d_head": every.head_out.shape[1],
        "headScales": scales,
    }
