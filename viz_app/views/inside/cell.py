"""The payloads of one weight of a head: its walk, and the sum of the heads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from models.analysis import head_sum
from models.analysis.head_sum import HeadSum
from models.analysis.head_walk import Walk
from models.trace import Trace
from viz_app import words
from viz_app.drawing import provenance
from viz_app.drawing.extent import OWN_EXTENT, Extent, widen_scales
from viz_app.drawing.labels import Label, axes_labels, labels
from viz_app.drawing.payload import pack
from viz_app.drawing.stamp import facts, saving
from viz_app.drawing.weight_cell import WeightCell, blocked_by
from viz_app.views.inside import columns as inside_columns
from viz_app.views.inside import stages as inside_stages
from viz_app.views.inside import text as inside_text
from viz_app.views.inside.columns import Column, peak
from viz_app.views.inside.scene import Scene, Stage

# rows of the walk, also reserved for shorter inputs; longer ones show the strongest keys
SHOWN_KEYS = 12


def walk_payload(
    trace: Trace, cell: WeightCell, terms: words.Terms, stage: int = 0, extent: Extent = OWN_EXTENT
) -> bytes:
    """Return the payload of the component `walk`: every stage of a weight, for the strongest keys.

    It starts at this `stage`, and its scales cover `extent`.
    """
    site, w, rows = cell.site, cell.walk, shown_keys(cell.walk, cell.key)
    head_sums = None if words.is_alignment(site) else head_sum.head_sum(trace, site, cell.query)
    arrays = inside_columns.column_arrays(site, w, rows)
    stops = cell_stages(trace, cell, terms, head_sums)
    extents = inside_columns.colour_scales(site, arrays) | (
        _head_scales(head_sums) if head_sums else {}
    )
    scale = widen_scales(extents, extent)
    header: dict[str, Any] = {
        "site": site.name,
        "head": cell.head,
        "query": cell.query,
        "key": cell.key,
        "indices": rows,
        "stage": stage,
        "lines": max(SHOWN_KEYS, site.n_heads) + 3,
        "stages": [asdict(s) for s in stops],
        "blocked": blocked_by(cell, rows),
        "n_keys": len(w.weights),
        "extent": extents,
        **_columns_header(cell, inside_columns.walk_columns(site, w, arrays, scale), stops),
        **_tokens_header(trace, cell, terms, rows),
        **(_heads_header(head_sums, scale) if head_sums else {"n_heads": 0}),
    }
    arrays |= {
        "rest": w.parts[_hidden_keys(w, rows)].sum(0),
        **(_head_arrays(head_sums) if head_sums else {}),
    }
    return pack(header, **{name: array.numpy() for name, array in arrays.items()})


def _columns_header(
    cell: WeightCell, columns: dict[str, Column], stops: Sequence[Stage]
) -> dict[str, Any]:
    """Return the columns that a stage shows, and links to the first stage of some."""
    used = {column for stage in stops for column in stage.columns}
    return {
        "columns": {
            name: inside_columns.as_json(column) for name, column in columns.items() if name in used
        },
        "links": [
            [name, title, next(i for i, s in enumerate(stops) if name in s.columns)]
            for name, title in inside_columns.links(cell.site, cell.walk)
        ],
    }


def _tokens_header(
    trace: Trace, cell: WeightCell, terms: words.Terms, rows: Sequence[int]
) -> dict[str, Any]:
    """Return the title, the labels, what is not shown, and the fields of a saved picture."""
    site, w = cell.site, cell.walk
    query, key = axes_labels(trace, site)
    chosen = query[cell.query], key[cell.key], float(w.weights[cell.key])
    hidden_weight = float(w.weights[_hidden_keys(w, rows)].sum())
    part = f"query{cell.query + 1}", f"key{cell.key + 1}"
    return {
        "title": inside_text.walk_title(site, cell.head, terms, *chosen),
        # its row is the vector of the token read
        "queryLabel": labels(trace.axes(site)[0])[cell.query].as_json(),
        "keyLabels": [_numbered(key[j], j if len(rows) < len(key) else None) for j in rows],
        "shown": inside_text.hidden_keys_note(len(rows), len(w.weights), hidden_weight),
        **saving(provenance.head_name(trace, site, cell.head, *part), facts(trace)),
    }


def _hidden_keys(w: Walk, rows: Sequence[int]) -> Bool[Tensor, " key"]:
    hidden = torch.ones(len(w.weights), dtype=torch.bool)
    hidden[rows] = False
    return hidden


def heads_file(trace: Trace, cell: WeightCell) -> str:
    """Return the name of a file of all heads at the chosen query."""
    return provenance.file_name(
        trace, provenance.site_name(cell.site), "heads", f"query{cell.query + 1}"
    )


def head_sum_payload(
    trace: Trace, cell: WeightCell, terms: words.Terms, extent: Extent = OWN_EXTENT
) -> bytes:
    """Return the payload of the component `heads`: what each head adds at the chosen query.

    Its scales cover `extent`.
    """
    head_sums = head_sum.head_sum(trace, cell.site, cell.query)
    query, _ = axes_labels(trace, cell.site)
    lengths = head_sum.added_norms(cell.site)
    extents = _head_scales(head_sums) | {"at each token": peak(lengths)}
    scale = widen_scales(extents, extent)
    header = {
        "site": cell.site.name,
        "head": cell.head,
        "query": cell.query,
        **saving(heads_file(trace, cell), facts(trace)),
        "title": inside_text.heads_title(cell.site, terms, query[cell.query]),
        "sentence": inside_text.heads_sentence(
            head_sums, labels(trace.axes(cell.site)[0])[cell.query]
        ),
        "queries": [label.as_json() for label in query],
        "longest": scale["at each token"],
        "extent": extents,
        **_heads_header(head_sums, scale),
    }
    cosines = {"along_total": head_sums.along_total, "along_residual": head_sums.along_residual}
    arrays = {
        **_head_arrays(head_sums),
        **cosines,
        "between": head_sums.between,
        "lengths": lengths,
    }
    return pack(
        header, **{name: array.numpy() for name, array in arrays.items() if array is not None}
    )


def shown_keys(walk: Walk, key: int) -> list[int]:
    """Return up to SHOWN_KEYS keys in order: the strongest, and always the chosen one.

    Ties go to the first key.
    """
    order = torch.argsort(walk.weights, descending=True, stable=True).tolist()
    strongest = order[:SHOWN_KEYS]
    return sorted(strongest if key in strongest else [*strongest[:-1], key])


def cell_stages(
    trace: Trace, cell: WeightCell, terms: words.Terms, head_sums: HeadSum | None = None
) -> list[Stage]:
    """Return the stages of this weight's walk."""
    query, key = map(labels, trace.axes(cell.site))
    blocked: dict[str, int] = {}
    for names in blocked_by(cell, range(len(cell.walk.weights))):
        for name in names:
            blocked[name] = blocked.get(name, 0) + 1
    if head_sums is None and not words.is_alignment(cell.site):
        head_sums = head_sum.head_sum(trace, cell.site, cell.query)
    return inside_stages.walk_stages(
        Scene(
            cell.site,
            cell.walk,
            head_sums,
            cell.key,
            query[cell.query],
            key[cell.key],
            blocked,
            terms,
        )
    )


def _numbered(label: Label, position: int | None) -> list:
    """Return the label as JSON, preceded by its position if some keys are not shown.

    A text may contain a token many times.
    """
    text, *rest = label.as_json()
    return [text if position is None else f"{position} {text}", *rest]


def _head_arrays(head_sums: HeadSum) -> dict[str, Tensor]:
    foot = {} if head_sums.bias is None else {"bias": head_sums.bias}
    foot |= {"total": head_sums.total}
    foot |= {} if head_sums.residual is None else {"residual": head_sums.residual}
    # the norm of each row of the table
    sizes = torch.cat([head_sums.norms, torch.stack([value.norm() for value in foot.values()])])
    return {"head_out": head_sums.head_out, "added": head_sums.added, **foot, "sizes": sizes}


def _head_scales(head_sums: HeadSum) -> dict[str, float]:
    """Return the scales of the heads' table.

    One is shared by the heads' results, one by everything that is added up, one is for the residual
    stream, and one for the lengths of these vectors.
    """
    summands = torch.cat(
        [
            head_sums.added.flatten(),
            head_sums.total,
            *([] if head_sums.bias is None else [head_sums.bias]),
        ]
    )
    scales = {"head_out": peak(head_sums.head_out), "added": peak(summands)}
    scales |= {} if head_sums.residual is None else {"residual": peak(head_sums.residual)}
    return scales | {"length": peak(_head_arrays(head_sums)["sizes"])}


def _heads_header(head_sums: HeadSum, scales: Mapping[str, float]) -> dict[str, Any]:
    return {
        "n_heads": len(head_sums.added),
        "d_model": len(head_sums.total),
        "d_head": head_sums.head_out.shape[1],
        "headScales": {
            name: scales[name]
            for name in ("head_out", "added", "residual", "length")
            if name in scales
        },
    }
