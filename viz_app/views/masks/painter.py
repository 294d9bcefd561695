"""The payload of the mask painter: all masks by layers, one to paint, a head before and after."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from models.layers.masks import DRAWN, Mask, SiteKind
from models.trace import AttentionSite
from models.trace.edits import mask_change
from viz_app import words
from viz_app.drawing.cells import Tile, block_of, in_blocks, part_around
from viz_app.drawing.extent import OWN_EXTENT, Extent, widen_scales
from viz_app.drawing.labels import Label, axes_labels, queries_are_written
from viz_app.drawing.payload import pack
from viz_app.drawing.pooling import pooled, pooled_weights, slabs
from viz_app.drawing.provenance import head_name
from viz_app.drawing.sites import LAST_BIT
from viz_app.drawing.stamp import facts, saving
from viz_app.session.mask_notation import painted_cells
from viz_app.views.masks import outcome_text
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import (
    MaskView,
    axis_labels,
    distinct_masks,
    is_written,
    kind_names,
    layer_matrix,
    log_prob_change,
)

MAX_PAINTED_SIDE = 64  # cells a side of a small matrix
DIFFERENCE_SCALES = (0.1, 0.25, 0.5, 1.0)


def masks(view: MaskView, fixed: bool = False, extent: Extent = OWN_EXTENT) -> bytes:
    """Return the payload of the mask painter, whose scales cover `extent`.

    `fixed` is True if painting is disabled, since there is no model to run.
    """
    site = view.site_of(view.after, view.kind)
    change, part = mask_change(view.changes, view.kind), CellRange.of(site, view.tile)
    mask = view.site_of(view.before, view.kind).mask
    base = replace(change, block=(), allow=()).apply(mask, site.n_query, site.n_key)
    queries, keys = axis_labels(view.after.trace, site)
    axes = words.axes(site, view.terms, queries_are_written(view.after.trace, site))
    strip, cells = _strip(view)
    writes = is_written(view.after.trace, site)
    own_extent, effect, effect_arrays = _effect(view, extent)
    header = {
        "kind": view.kind,
        "painted": painted_cells(change),
        "fixed": fixed,
        "title": _kind_title(view, site),
        "subtitle": words.kind_subtitle(site, view.terms),
        **part.header(queries, keys),
        "queryAxis": axes[0],
        "keyAxis": axes[1],
        "layers": [_named(site.site_kind, x.name, writes) for x in base.layers],
        "drawn": _named(site.site_kind, DRAWN, writes),
        "strip": strip,
        "effect": effect,
        "extent": own_extent,
        "story": painted_outcome(view),
    }
    blocked = part.blocked(base, view.head_of(site))
    return pack(header, base=blocked, strip=cells, **effect_arrays)


def _named(kind: SiteKind, layer: str, writes: bool) -> dict[str, str]:
    return {
        "name": masks_text.mask_layer_name(kind, layer),
        "reason": masks_text.reason(kind, layer, writes),
    }


def _kind_title(view: MaskView, site: AttentionSite) -> str:
    """Return the kind of attention, with the layer and the head by which its masks differ."""
    note = view.mask_note(site.kind)
    return words.kind_title(site) + f", {note}" * bool(note)


def painted_outcome(view: MaskView) -> list[str]:
    """Return the sentences on what was changed and its effect."""
    notes = []
    names = kind_names(view.after.trace)
    for kind, name in names.items():
        sites, change = (
            distinct_masks(view.after.trace, kind.name),
            mask_change(view.changes, kind.name),
        )
        notes.append(masks_text.painted_outside(name, change, sites[0].n_query, sites[0].n_key))
        for site in sites:
            queries, _ = axes_labels(view.after.trace, site)
            where = name if len(sites) == 1 else f"{name}, layer {site.layer + 1}"
            tokens = [label.text for label in queries]
            notes.append(masks_text.empty_rows_note(site, where, tokens, view.head_of(site)))
    effect = outcome_text.effect(log_prob_change(view), view.before.trace)
    return outcome_text.outcome_sentences(
        view.before, view.after, view.changes, names, effect, [note for note in notes if note]
    )


def _strip(view: MaskView) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return each kind's layers and their union as small matrices, and the cells (1 = allowed).

    In a long text, k × k cells are drawn as one, which is open if any of them is.
    """
    blocks, parts, offset = [], [], 0
    for kind in kind_names(view.after.trace):
        site = view.site_of(view.after, kind.name)
        n_query, n_key, head = site.n_query, site.n_key, view.head_of(site)
        k = math.ceil(max(n_query, n_key) / MAX_PAINTED_SIDE)
        matrices = [
            (
                masks_text.mask_layer_name(kind, mask_layer.name),
                layer_matrix(mask_layer, n_query, n_key, head=head),
            )
            for mask_layer in site.mask.layers
        ]
        matrices.append(("combined", site.allowed(head=head)))
        pictures = []
        for name, allowed in matrices:
            small = open_blocks(allowed, k)
            rows, cols = small.shape
            pictures.append(
                {
                    "name": name,
                    "offset": offset,
                    "blocked": int((~allowed).sum()),
                    "cells": allowed.numel(),
                }
            )
            parts.append(small.ravel())
            offset += small.size
        blocks.append(
            {
                "kind": kind.name,
                "title": _kind_title(view, site),
                "rows": rows,
                "cols": cols,
                "pictures": pictures,
            }
        )
    return blocks, np.concatenate(parts)


def _effect(view: MaskView, extent: Extent) -> tuple[Extent, dict[str, Any], dict[str, np.ndarray]]:
    (before, after), change = view.sites, log_prob_change(view)
    queries, keys = axis_labels(view.after.trace, after)
    axes = words.axes(after, view.terms, queries_are_written(view.after.trace, after))
    part, values = CellRange.of(after, view.tile), {}
    values["difference"] = difference = part.difference(before, after, view.head)
    for name, site in (("Before", before), ("After", after)):
        values[name.lower()], values[f"blocked{name}"] = part.weights(site, view.head)
    extents = {
        "difference": float(np.abs(difference).max()),
        "surprise": max([1.0, *(-v for v in (*change.before, *change.after))]),
    }
    scales = widen_scales(extents, extent)
    header = {
        "title": view.title,
        "site": view.site,
        "head": view.head,
        "kind": after.kind,
        **saving(head_name(view.after.trace, after, view.head), facts(view.after.trace)),
        **part.header(queries, keys),
        "queryAxis": axes[0],
        "keyAxis": axes[1],
        "scale": next(s for s in DIFFERENCE_SCALES if scales["difference"] <= s or s == 1.0),
        "largest": scales["surprise"],
        "given": change.what.capitalize(),
        "labels": [label.as_json() for label in change.labels],
        "outputs": [view.before.output, view.after.output],
        "sums": list(change.sums),
    }
    logs = {
        "logBefore": np.array(change.before, np.float32),
        "logAfter": np.array(change.after, np.float32),
    }
    return extents, header, values | logs


@dataclass(frozen=True)
class CellRange:
    """Rows and columns of a site's cells; `block` × `block` of them are one cell of the picture."""

    site: AttentionSite
    rows: slice
    columns: slice
    block: int

    @classmethod
    def of(cls, site: AttentionSite, tile: Tile) -> "CellRange":
        """Return the part around `tile`, or for None the whole text."""
        if tile is None:
            return cls(
                site,
                slice(0, site.n_query),
                slice(0, site.n_key),
                block_of(site.n_query, site.n_key),
            )
        return cls(site, *part_around(site, tile), 1)

    def header(self, queries: Sequence[Label], keys: Sequence[Label]) -> dict[str, Any]:
        """Return the axes' fields of the payload."""
        rows, columns = (
            in_blocks(queries[self.rows], self.block),
            in_blocks(keys[self.columns], self.block),
        )
        return {
            "queries": [label.as_json() for label in rows],
            "keys": [label.as_json() for label in columns],
            "block": self.block,
            "first": [self.rows.start, self.columns.start],
            "size": [self.site.n_query, self.site.n_key],
        }

    def blocked(self, mask: Mask, head: int = 0) -> np.ndarray:
        """Return (query, key) uint8: bit i set where the i-th layer blocks the cell, 0 where open.

        The last of 8 bits is that of all further layers. A block is open if any of its cells is.
        """
        if self.block == 1:
            return self._bits(mask, head, self.rows)[:, self.columns]
        slab_bits = []
        for rows in slabs(self.site, self.block):
            bits = self._bits(mask, head, rows)
            slab_bits.append(
                np.where(
                    _in_blocks(np.logical_and, bits > 0, self.block),
                    _in_blocks(np.bitwise_or, bits, self.block),
                    0,
                )
            )
        return np.concatenate(slab_bits).astype(np.uint8)

    def weights(self, site: AttentionSite, head: int) -> tuple[np.ndarray, np.ndarray]:
        """Return one head's weights in this part, and (uint8) where they are blocked."""
        if self.block > 1:
            maxima = pooled_weights(site, head, self.block).numpy()
            return maxima.clip(0), (maxima < 0).astype(np.uint8)
        is_open = site.allowed(head=head, rows=self.rows)[:, self.columns]
        return self._exact(site, head).numpy(), (~is_open).numpy().astype(np.uint8)

    def difference(self, before: AttentionSite, after: AttentionSite, head: int) -> np.ndarray:
        """Return after − before; for a block the difference furthest from 0.

        For a run and itself it is exactly 0, though weights computed twice may differ in the last
        digit.
        """
        if before is after:
            return np.zeros_like(self.weights(after, head)[0])
        if self.block == 1:
            return (self._exact(after, head) - self._exact(before, head)).numpy()
        before, after, slab_changes = before.read("q", "k"), after.read("q", "k"), []
        for rows in slabs(self.site, self.block):
            change = after.weights(head, rows=rows) - before.weights(head, rows=rows)
            up, down = pooled(change, self.block), pooled(-change, self.block)
            slab_changes.append(np.where(up >= down, up, -down))
        return np.concatenate(slab_changes)

    def _exact(self, site: AttentionSite, head: int) -> Tensor:
        return site.weights(head, rows=self.rows)[:, self.columns]

    def _bits(self, mask: Mask, head: int, rows: slice) -> np.ndarray:
        bits = np.zeros((rows.stop - rows.start, self.site.n_key), np.uint8)
        for i, layer in enumerate(mask.layers):
            allowed = layer_matrix(layer, self.site.n_query, self.site.n_key, head=head)
            bits |= (~allowed[rows]).numpy().astype(np.uint8) << min(i, LAST_BIT)
        return bits


def open_blocks(allowed: Tensor, k: int) -> np.ndarray:
    """Return (query/k, key/k) uint8: 1 where any cell of a k × k block is open."""
    return _in_blocks(np.logical_or, allowed.numpy(), k).astype(np.uint8)


def _in_blocks(reduce: np.ufunc, cells: np.ndarray, k: int) -> np.ndarray:
    """Reduce each k × k block with `reduce`; blocks at the end may be smaller."""
    rows = reduce.reduceat(cells, np.arange(0, len(cells), k), axis=0)
    return reduce.reduceat(rows, np.arange(0, cells.shape[1], k), axis=1)
