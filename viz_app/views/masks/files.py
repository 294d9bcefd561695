"""The downloads of the page Masks: a drawing for print, tables, and all arrays as npz."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from models.trace import AttentionSite
from viz_app.drawing import svg
from viz_app.drawing.cells import has_many_cells
from viz_app.drawing.colours import ramp
from viz_app.drawing.csv_file import csv_line, csv_table
from viz_app.drawing.export import mask_rows, texts, weight_rows
from viz_app.drawing.labels import Label
from viz_app.drawing.npz import Arrays, RowwiseArray
from viz_app.drawing.pooling import slabs
from viz_app.drawing.provenance import site_name
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import (
    MaskView,
    additive_mask,
    axis_labels,
    differs_by_head,
    distinct_masks,
    kind_names,
    layer_matrix,
    log_prob_change,
    stream_labels,
)

MASK_CELL, MASKS_LEFT, MASKS_TOP, MASKS_GAP = 22, 130, 120, 30
Colour = Callable[[float], str]
# title, attention, cells that are not hatched, values, and the colour of a value
_Heatmap = tuple[str, AttentionSite, np.ndarray, np.ndarray, Colour]
GREW_COLOUR, SHRANK_COLOUR = "#1b3fae", "#b8420f"  # a weight that grew, a weight that shrank


def log_probs_csv(view: MaskView) -> str:
    """Return log-probabilities before and after in nats, a row for each, and their sum if any."""
    change = log_prob_change(view)
    rows = [*zip([label.text for label in change.labels], change.before, change.after, strict=True)]
    is_of_tokens = not rows or change.what in (*view.after.trace.streams, "hidden token")
    what = "token" if is_of_tokens else change.what
    return csv_table(
        [what, "before (nats)", "after (nats)"], [*rows, ("sum", *change.sums)] if rows else []
    )


def masked_head_csv(view: MaskView) -> Iterator[str]:
    """Yield a row for each cell of the shown head: mask and weight, before and after."""
    queries, keys = axis_labels(view.after.trace, view.sites[1])
    names = [f"{k} {key.text}" for k, key in enumerate(keys)]
    yield csv_line(
        ["query", "key", "allowed before", "weight before", "allowed after", "weight after"]
    )
    for rows in slabs(view.sites[1]):
        selection = {"head": view.head, "rows": rows}
        columns = [
            part.numpy()
            for site in view.sites
            for part in (site.allowed(**selection), site.weights(**selection))
        ]
        for q, cells in enumerate(zip(*columns, strict=True), rows.start):
            for name, *cell in zip(names, *cells, strict=True):
                yield csv_line([f"{q} {queries[q].text}", name, *map(str, cell)])


def everything_npz(view: MaskView) -> Arrays:
    """Yield masks, weights, tokens and log-probabilities, before and after.

    Masks are given by kind, or by site where they differ by layer: each layer (True = may attend),
    their union, and its additive form (0 or −∞), with an axis of heads before the others where
    heads have masks of their own. The weights are (head, query, key) of every site;
    for a long text (query, key) of the shown head. Tokens include padding; log-probabilities are in
    nats.
    """
    for stream, tokens in stream_labels(view.after.trace).items():
        yield f"{stream}_tokens", texts(tokens)
    yield "log_probs.before", np.array(log_prob_change(view).before)
    yield "log_probs.after", np.array(log_prob_change(view).after)
    for when, run in (("before", view.before), ("after", view.after)):
        for kind in kind_names(run.trace):
            sites = [site for site in run.trace.attention.values() if site.kind == kind.name]
            shared = len(distinct_masks(view.before.trace, kind.name)) == 1
            for site in sites[:1] if shared else sites:
                yield from _mask(site, f"{kind.name if shared else site_name(site)}.{when}")
        for site in run.trace.attention.values():
            if not has_many_cells(site):
                yield f"{site_name(site)}.{when}", weight_rows(site)
            elif site.name == view.site:
                yield f"{site_name(site)}.head{view.head + 1}.{when}", weight_rows(site, view.head)


def _mask(site: AttentionSite, name: str) -> Arrays:
    by_head = differs_by_head(site)
    heads = range(site.n_heads if by_head else 1)
    for x in site.mask.layers:
        rows = [layer_matrix(x, site.n_query, site.n_key, head=head) for head in heads]
        yield f"{name}.layer.{x.name}", (torch.stack(rows) if by_head else rows[0]).numpy()
    is_open = mask_rows(site, None if by_head else 0)
    yield f"{name}.allowed", is_open
    yield (
        f"{name}.additive",
        replace(is_open, dtype=np.float32, parts=partial(_added, is_open)),
    )


def _added(is_open: RowwiseArray) -> Iterator[np.ndarray]:
    return (additive_mask(torch.from_numpy(rows)).numpy() for rows in is_open.parts())


def masks_svg(view: MaskView) -> str:
    """Return a drawing on white: the painted mask, the head before, after, and the difference."""
    elements, x, height = [], 10, 0
    for title, site, is_open, values, colour in (_painted_mask(view), *_head_weights(view)):
        queries, keys = axis_labels(view.after.trace, site)
        elements += _matrix(x, title, queries, keys, is_open, values, colour)
        title_width = math.ceil(svg.width_of(title, 11, bold=True)) - MASKS_LEFT
        x += MASKS_LEFT + max(len(keys) * MASK_CELL, title_width) + MASKS_GAP
        height = max(height, MASKS_TOP + len(queries) * MASK_CELL + 60)
    heading = f"{view.title}. {masks_text.changes_line(view.changes, kind_names(view.after.trace))}"
    x = math.ceil(max(x, 20 + svg.width_of(heading, 13, bold=True)))
    parts = [
        svg.svg_text(10, 18, heading, font_weight=600, font_size=13),
        *elements,
        svg.svg_text(10, height + 14, "Rows: query, columns: key."),
    ]
    return svg.svg_document(x, height + 24, parts, 11)


def _painted_mask(view: MaskView) -> _Heatmap:
    """Return the mask of the painted kind, all its open cells in one colour."""
    painted = view.site_of(view.after, view.kind)
    mask = painted.allowed(head=view.head_of(painted)).numpy()
    note = view.mask_note(view.kind)
    kind_name = kind_names(view.after.trace)[painted.site_kind].lower() + f", {note}" * bool(note)
    title = f"Mask, {kind_name} (hatched = blocked, −∞)"
    return title, painted, mask, np.zeros(mask.shape), lambda _: ramp(0.18)


def _head_weights(view: MaskView) -> list[_Heatmap]:
    """Return the weights of the shown head before and after, and their difference."""
    was_open, is_open = (site.allowed(head=view.head).numpy() for site in view.sites)
    before, after = (site.weights(view.head).numpy() for site in view.sites)
    change = after - before
    largest = float(np.abs(change).max())
    colours = f"−{largest:.2g} orange … +{largest:.2g} blue" if largest else "0 everywhere"

    def signed(v: float) -> str:
        accent = GREW_COLOUR if v > 0 else SHRANK_COLOUR
        return ramp(abs(v) / (largest or 1.0), accent=accent)

    site, title = view.sites[1], f"Difference: after − before ({colours})"
    return [
        ("Before: the model's own masks (0 … 1)", site, was_open, before, ramp),
        ("After: with the changes (0 … 1)", site, is_open, after, ramp),
        (title, site, was_open | is_open, change, signed),
    ]


def _matrix(
    x0: int,
    title: str,
    queries: list[Label],
    keys: list[Label],
    shows: np.ndarray,
    values: np.ndarray,
    colour: Colour,
) -> Iterator[str]:
    """Yield one matrix with its title above and its tokens on both sides."""

    def cell(q: int, k: int) -> tuple[str, str]:
        if not shows[q, k]:
            return svg.MASKED_FILL, "blocked, −∞"
        return colour(float(values[q, k])), str(values[q, k])

    yield svg.svg_text(x0, 42, title, font_weight=600)
    names, key_names = [label.text for label in queries], [label.text for label in keys]
    yield from svg.heat_map(x0 + MASKS_LEFT, 30 + MASKS_TOP, MASK_CELL, names, key_names, cell)
