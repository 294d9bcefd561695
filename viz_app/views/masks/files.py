"""Files to take away from the page Masks: a drawing for print, tables, and everything as npz."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from html import escape

import numpy as np
import torch

from models.trace import AttentionSite
from viz_app.drawing.cells import is_long
from viz_app.drawing.colours import HATCH, PAPER, TEXT, ramp
from viz_app.drawing.csv_file import csv_line, csv_table
from viz_app.drawing.export import allowed, texts, weights, width_of
from viz_app.drawing.labels import Label
from viz_app.drawing.npz import Arrays, Rows
from viz_app.drawing.pooling import slabs
from viz_app.drawing.provenance import site_name
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import (
    MaskView,
    additive,
    alone,
    distinct_masks,
    kinds,
    log_prob_change,
    stream_labels,
    token_labels,
)

CELL, LEFT, TOP, GAP = 22, 130, 120, 30
Colour = Callable[[float], str]
GAIN, LOSS = "#1b3fae", "#b8420f"  # a weight that grew, a weight that shrank


def log_probs_csv(view: MaskView) -> str:
    """A row a token of the given text, or what else is told of both runs, and one for the sum: log-probability before and after, in
    nats."""
    given = log_prob_change(view)
    rows = [*zip([label.text for label in given.labels], given.before, given.after, strict=True)]
    rows.append(("sum", *given.sums))
    return csv_table(["token", "before (nats)", "after (nats)"], rows)


def head_csv(view: MaskView) -> Iterator[str]:
    """A row a cell of the head shown: query, key, may attend and weight, before and after."""
    queries, keys = token_labels(view.after.trace, view.sites[1])
    names = [f"{k} {key.text}" for k, key in enumerate(keys)]
    yield csv_line(
        ["query", "key", "allowed before", "weight before", "allowed after", "weight after"]
    )
    for rows in slabs(view.sites[1]):
        how = {"head": view.head, "rows": rows}
        columns = [
            part.numpy()
            for site in view.sites
            for part in (site.allowed(**how), site.weights(**how))
        ]
        for q, cells in enumerate(zip(*columns, strict=True), rows.start):
            for name, *cell in zip(names, *cells, strict=True):
                yield csv_line([f"{q} {queries[q].text}", name, *map(str, cell)])


def everything_npz(view: MaskView) -> Arrays:
    """Masks by kind, or by site where they differ by layer: each reason's (True = may attend), and together as added to the
    scores (0 or −∞); the weights of every site before and after, (head, query, key); the tokens of each stream with their
    padding; and the log-probabilities of the given text in nats. Of a long text the weights are those of the head shown,
    (query, key)."""
    for stream, tokens in stream_labels(view.after.trace).items():
        yield f"{stream}_tokens", texts(tokens)
    yield "log_probs.before", np.array(log_prob_change(view).before)
    yield "log_probs.after", np.array(log_prob_change(view).after)
    for when, run in (("before", view.before), ("after", view.after)):
        for kind in kinds(run.trace):
            sites = [site for site in run.trace.attention.values() if site.kind == kind.name]
            shared = len(distinct_masks(view.before.trace, kind.name)) == 1
            for site in sites[:1] if shared else sites:
                yield from _mask(site, f"{kind.name if shared else site_name(site)}.{when}")
        for site in run.trace.attention.values():
            if not is_long(site):
                yield f"{site_name(site)}.{when}", weights(site)
            elif site.name == view.site:
                yield f"{site_name(site)}.head{view.head + 1}.{when}", weights(site, view.head)


def _mask(site: AttentionSite, name: str) -> Arrays:
    for x in site.mask.layers:
        yield f"{name}.layer.{x.name}", alone(x, site.n_query, site.n_key).numpy()
    is_open = allowed(site, 0)
    yield f"{name}.allowed", is_open
    yield (
        f"{name}.additive",
        replace(is_open, dtype=np.float32, parts=partial(_added, is_open)),
    )


def _added(is_open: Rows) -> Iterator[np.ndarray]:
    return (additive(torch.from_numpy(rows)).numpy() for rows in is_open.parts())


def masks_svg(view: MaskView) -> str:
    """For print, on white: the painted mask, then the head before and after, and the difference."""
    before, after = view.sites
    painted = view.site_of(view.after, view.kind)
    mask = painted.allowed().numpy()
    each = [site.weights(view.head).numpy() for site in (before, after)]
    change = each[1] - each[0]
    scale = max(float(np.abs(change).max()), 1e-9)
    reads = [site.allowed(head=view.head).numpy() for site in (before, after)]
    note = view.layer_note(view.kind)
    kind_name = kinds(view.after.trace)[painted.site_kind].lower() + f", {note}" * bool(note)
    nothing = np.zeros(mask.shape)
    pictures = [  # title, site, what is not hatched, values, the colour of a value
        (
            f"Mask, {kind_name} (hatched = may not be read, −∞)",
            painted,
            mask,
            nothing,
            lambda _: ramp(0.18),
        ),
        ("Before: the model's own masks (0 … 1)", after, reads[0], each[0], ramp),
        ("After: with the changes (0 … 1)", after, reads[1], each[1], ramp),
        (
            f"Difference: after − before (−{scale:.2g} orange … +{scale:.2g} blue)",
            after,
            reads[0] | reads[1],
            change,
            lambda v: ramp(abs(v) / scale, accent=GAIN if v > 0 else LOSS),
        ),
    ]
    drawn, x, height = [], 10, 0
    for title, site, shows, values, colour in pictures:
        queries, keys = token_labels(view.after.trace, site)
        drawn.append(_matrix(x, title, queries, keys, shows, values, colour))
        x += LEFT + max(len(keys) * CELL, math.ceil(width_of(title, 11, bold=True)) - LEFT) + GAP
        height = max(height, TOP + len(queries) * CELL + 60)
    heading = f"{view.title}. {masks_text.changed(view.changes, kinds(view.after.trace))}"
    x = math.ceil(max(x, 20 + width_of(heading, 13, bold=True)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x} {height + 24}" width="{x}" height="{height + 24}" '
        f'font-family="sans-serif" font-size="11" fill="{TEXT}">'
        '<defs><pattern id="masked" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="5" height="5" fill="{PAPER}"/><rect width="1.2" height="5" fill="{HATCH}"/></pattern></defs>'
        f'<rect width="{x}" height="{height + 24}" fill="{PAPER}"/>'
        f'<text x="10" y="18" font-weight="600" font-size="13">{escape(heading)}</text>'
        + "".join(drawn)
        + f'<text x="10" y="{height + 14}">Rows read (query), columns are read (key).</text></svg>'
    )


def _matrix(
    x0: int,
    title: str,
    queries: list[Label],
    keys: list[Label],
    shows: np.ndarray,
    values: np.ndarray,
    colour: Colour,
) -> str:
    """One matrix with its title above and its tokens on both sides."""
    left, top = x0 + LEFT, 30 + TOP
    parts = [f'<text x="{x0}" y="42" font-weight="600">{escape(title)}</text>']
    for q in range(len(queries)):
        for k in range(len(keys)):
            fill, note = "url(#masked)", "blocked, −∞"
            if shows[q, k]:
                fill, note = colour(float(values[q, k])), str(values[q, k])
            parts.append(
                f'<rect x="{left + k * CELL}" y="{top + q * CELL}" width="{CELL}" height="{CELL}" fill="{fill}" '
                f'stroke="#d3d9e6" stroke-width="0.5"><title>{escape(note)}</title></rect>'
            )
    for q, label in enumerate(queries):
        y = top + (q + 0.68) * CELL
        parts.append(
            f'<text x="{left - 5}" y="{y:g}" text-anchor="end">{escape(label.text)}</text>'
        )
    for k, label in enumerate(keys):
        place = f"translate({left + (k + 0.6) * CELL:g} {top - 6}) rotate(-45)"
        parts.append(f'<text transform="{place}">{escape(label.text)}</text>')
    return "".join(parts)
