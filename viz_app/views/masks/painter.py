"""The payload of the mask painter: every mask as its layers and their union, one of them to paint on, and one head before, after,
and their difference, with the log-probability of each given token."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from models.layers.masks import DRAWN, SiteKind
from models.trace import AttentionSite
from models.trace.edits import mask_change
from viz_app import words
from viz_app.drawing.labels import axes_labels, writes
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import head_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.mask_notation import painted
from viz_app.views.masks import outcome_text
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import (
    MaskView,
    alone,
    distinct_masks,
    is_written,
    kinds,
    log_prob_change,
    token_labels,
)
from viz_app.views.masks.part import Part, open_blocks

LARGEST_SIDE = 64  # cells a side of a small matrix
DIFFERENCE_SCALES = (0.1, 0.25, 0.5, 1.0)


def masks(view: MaskView, fixed: bool = False) -> bytes:
    """The payload of the mask painter; `fixed` where no model is at hand to run under what is painted."""
    site = view.site_of(view.after, view.kind)
    change, part = mask_change(view.changes, view.kind), Part.of(site, view.tile)
    own = view.site_of(view.before, view.kind).mask
    base = replace(change, forbidden=(), opened=()).apply(own, site.n_query, site.n_key)
    queries, keys = token_labels(view.after.trace, site)
    axes = words.axes(site, view.terms, writes(view.after.trace, site))
    strip, cells = _strip(view)
    written = is_written(view.after.trace, site)
    effect, effect_arrays = _effect(view)
    header = {
        "kind": view.kind,
        "painted": painted(change),
        "fixed": fixed,
        "title": f"{_kind_title(view, site)}: {words.kind_subtitle(site, view.terms)}",
        **part.header(queries, keys),
        "queryAxis": axes[0],
        "keyAxis": axes[1],
        "layers": [_named(site.site_kind, x.name, written) for x in base.layers],
        "drawn": _named(site.site_kind, DRAWN, written),
        "strip": strip,
        "effect": effect,
        "story": story(view),
    }
    return pack(header, base=part.blocked(base), strip=cells, **effect_arrays)


def _named(kind: SiteKind, layer: str, written: bool) -> dict[str, str]:
    return {
        "name": masks_text.layer(kind, layer),
        "reason": masks_text.reason(kind, layer, written),
    }


def _kind_title(view: MaskView, site: AttentionSite) -> str:
    """The kind of attention, with the layer where the masks differ by layer."""
    note = view.layer_note(site.kind)
    return words.kind_title(site) + f", {note}" * bool(note)


def story(view: MaskView) -> list[str]:
    """What was changed and what came of it, in sentences."""
    notes = []
    names = kinds(view.after.trace)
    for kind, name in names.items():
        sites, change = (
            distinct_masks(view.after.trace, kind.name),
            mask_change(view.changes, kind.name),
        )
        notes.append(masks_text.outside(name, change, sites[0].n_query, sites[0].n_key))
        for site in sites:
            queries, _ = axes_labels(view.after.trace, site)
            where = name if len(sites) == 1 else f"{name}, layer {site.layer + 1}"
            notes.append(masks_text.empty_rows(site, where, [label.text for label in queries]))
    effect = outcome_text.effect(log_prob_change(view), view.before.trace)
    return outcome_text.story(
        view.before, view.after, view.changes, names, effect, [note for note in notes if note]
    )


def _strip(view: MaskView) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Each kind's layers and their union as small matrices; their cells (1 = allowed) one after the other. Of a long text
    k × k cells become one, open if any of them is."""
    blocks, parts, offset = [], [], 0
    for kind in kinds(view.after.trace):
        site = view.site_of(view.after, kind.name)
        n_query, n_key = site.n_query, site.n_key
        k = math.ceil(max(n_query, n_key) / LARGEST_SIDE)
        matrices = [
            (masks_text.layer(kind, x.name), alone(x, n_query, n_key)) for x in site.mask.layers
        ]
        matrices.append(("all together", site.allowed()))
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


def _effect(view: MaskView) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    (before, after), change = view.sites, log_prob_change(view)
    queries, keys = token_labels(view.after.trace, after)
    axes = words.axes(after, view.terms, writes(view.after.trace, after))
    part, values = Part.of(after, view.tile), {}
    values["difference"] = difference = part.difference(before, after, view.head)
    for name, site in (("Before", before), ("After", after)):
        values[name.lower()], values[f"blocked{name}"] = part.weights(site, view.head)
    header = {
        "title": view.title,
        "site": view.site,
        "head": view.head,
        "kind": after.kind,
        **saving(head_name(view.after.trace, after, view.head), facts(view.after.trace)),
        **part.header(queries, keys),
        "queryAxis": axes[0],
        "keyAxis": axes[1],
        "scale": next(
            s for s in DIFFERENCE_SCALES if float(np.abs(difference).max()) <= s or s == 1.0
        ),
        "given": change.what.capitalize(),
        "labels": [label.as_json() for label in change.labels],
        "outputs": [view.before.output, view.after.output],
        "sums": list(change.sums),
    }
    logs = {
        "logBefore": np.array(change.before, np.float32),
        "logAfter": np.array(change.after, np.float32),
    }
    return header, values | logs
