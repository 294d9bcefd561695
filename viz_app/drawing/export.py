"""Downloads: one head as CSV, npz or SVG, all heads as npz, at full float32 precision."""

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from models.trace import AttentionSite, Trace
from viz_app.drawing import svg
from viz_app.drawing.cells import MAX_POOLED_BLOCKS, Cells, Tile, cells, has_many_cells, strengths
from viz_app.drawing.colours import ACCENT_COLOUR, ramp
from viz_app.drawing.csv_file import csv_line
from viz_app.drawing.labels import Label, axes_labels, labels, shorten
from viz_app.drawing.npz import Arrays, RowwiseArray
from viz_app.drawing.pooling import block_side, pooled_heads, slabs
from viz_app.drawing.provenance import site_name
from viz_app.drawing.scale import Scale, sinks

HEATMAP_CELL, HEATMAP_LEFT, HEATMAP_TOP, HEATMAP_RIGHT, HEATMAP_BOTTOM = 26, 150, 150, 60, 50
MAX_ROW_NAME = 22  # characters of a row's name
LEFT_OUT = svg.LINE_COLOUR


def weights_csv(trace: Trace, site: AttentionSite, head: int) -> Iterator[str]:
    """Yield the lines of a CSV with a row for each query and a column for each key.

    Both are numbered from 0 ("3 cat"); each weight is the shortest exact float32.
    """
    query, key = axes_labels(trace, site)
    yield csv_line(["query \\ key", *_numbered(key)])
    names = iter(_numbered(query))
    for rows in slabs(site):
        for row in site.weights(head, rows=rows).numpy():
            yield csv_line([next(names), *map(str, row)])


def npz_file(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the named arrays as a compressed npz file."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def head_npz(trace: Trace, site: AttentionSite, head: int) -> Arrays:
    """Yield one head's "weights" and "allowed" (query, key), and the tokens of both axes.

    The tokens are "query_tokens" and "key_tokens", spelled as on the screen.
    """
    for name, row in zip(("query_tokens", "key_tokens"), axes_labels(trace, site), strict=True):
        yield name, texts(row)
    yield "weights", weight_rows(site, head)
    yield "allowed", mask_rows(site, head)


def heads_npz(trace: Trace) -> Arrays:
    """Yield the weights (head, query, key) and mask of every site, and the tokens of all streams.

    The weights carry the site's name with its layer counted from 1, the mask adds ".allowed" to it;
    tokens, spelled as on the screen, are "<stream>_tokens".

    Long texts are reduced to the cells of their picture: the largest weight of every block of
    "<name>.block" × "<name>.block" weights, and whether any of them is allowed.
    """
    yield from stream_tokens(trace).items()
    for site in trace.attention.values():
        name = site_name(site)
        if has_many_cells(site):
            k = block_side(site.n_query, site.n_key, MAX_POOLED_BLOCKS)
            largest = pooled_heads(site, range(site.n_heads), k).numpy()
            yield name, largest.clip(0)
            yield f"{name}.allowed", largest >= 0
            yield f"{name}.block", np.array(k)
            continue
        yield name, weight_rows(site)
        yield f"{name}.allowed", mask_rows(site)


def weight_rows(site: AttentionSite, head: int | None = None) -> RowwiseArray:
    """Return the weights (query, key) of one head, or (head, query, key) of all heads."""
    return _by_rows(site, head, np.float32, site.weights)


def mask_rows(site: AttentionSite, head: int | None = None) -> RowwiseArray:
    """Return the mask, True where a query may read a key, in the shape of `weight_rows`."""
    return _by_rows(site, head, np.bool_, lambda head, rows: site.allowed(head=head, rows=rows))


def _by_rows(
    site: AttentionSite, head: int | None, dtype: type, part: Callable[..., Tensor]
) -> RowwiseArray:
    heads, shape = (range(site.n_heads), (site.n_heads,)) if head is None else ([head], ())
    return RowwiseArray(
        (*shape, site.n_query, site.n_key),
        dtype,
        lambda: (part(h, rows=rows).numpy() for h in heads for rows in slabs(site)),
    )


def stream_tokens(trace: Trace) -> dict[str, np.ndarray]:
    """Return the tokens of each stream, spelled as on the screen, under "<stream>_tokens"."""
    return {f"{name}_tokens": texts(labels(row)) for name, row in trace.streams.items()}


def texts(row: Sequence[Label]) -> np.ndarray:
    """Return the texts of these labels as an array."""
    return np.array([label.text for label in row])


def head_svg(
    trace: Trace,
    site: AttentionSite,
    head: int,
    title: str,
    scale: Scale | None = None,
    tile: Tile = None,
) -> str:
    """Return a head's heatmap as an SVG on white, for print.

    Each cell's tooltip has its exact weight, masked cells are hatched. A long text is drawn as on
    the page: in blocks, or as the part around `tile`.
    """
    scale, hidden = (scale or Scale()).of(site.n_key), sinks(trace.axes(site)[1])
    grid = cells(trace, site, head, tile, hidden if scale.hides_sinks else ())
    left_out, (rows, cols) = (
        set(grid.columns(hidden)) if scale.hides_sinks else set(),
        grid.weights.shape,
    )
    shades = strengths(grid, scale, hidden)
    unit = f"{legend(trace, site, scale)}; rows: query, columns: key; hatched = masked"
    note = what_is_drawn(grid, site)
    wide = max(
        HEATMAP_LEFT + cols * HEATMAP_CELL + HEATMAP_RIGHT,
        20 + svg.width_of(title, bold=True),
        HEATMAP_LEFT + 136 + svg.width_of(unit),
        HEATMAP_LEFT + 10 + svg.width_of(note),
    )

    def cell(q: int, k: int) -> tuple[str, str]:
        tip = "largest " * (grid.block > 1) + str(grid.weights[q, k])
        fill = ramp(float(shades[q, k]))
        if grid.blocked[q, k]:
            tip, fill = "masked", svg.MASKED_FILL
        return (LEFT_OUT if k in left_out else fill), tip

    names = [shorten(label.text, MAX_ROW_NAME) for label in grid.queries]
    keys, foot = [label.text for label in grid.keys], HEATMAP_TOP + rows * HEATMAP_CELL
    parts = [
        svg.svg_text(10, 20, title, font_weight=600),
        *svg.heat_map(HEATMAP_LEFT, HEATMAP_TOP, HEATMAP_CELL, names, keys, cell),
        _scale(HEATMAP_LEFT, foot + 18, unit),
        *([svg.svg_text(HEATMAP_LEFT, foot + 44, note)] if note else []),
    ]
    return svg.svg_document(math.ceil(wide), foot + HEATMAP_BOTTOM, parts)


def what_is_drawn(cells: Cells, site: AttentionSite) -> str:
    """Describe what a picture of a long text shows and what it hides; "" if it shows everything."""
    if cells.block > 1:
        n = cells.block
        return (
            f"Each cell is the largest of {n} × {n} weights. The other {n * n - 1:,} are hidden, and so are the "
            "tokens of the largest one."
        )
    if cells.weights.shape == (site.n_query, site.n_key):
        return ""
    (query, key), (rows, cols) = cells.first, cells.weights.shape
    return (
        f"A part: queries {query}–{query + rows - 1} of 0–{site.n_query - 1}, keys {key}–{key + cols - 1} of 0–"
        f"{site.n_key - 1}. All others are hidden."
    )


def of_long_text(site: AttentionSite, tile: Tile) -> str:
    """Describe which downloads of a long text hold every weight, and what the others hold."""
    n, k = site.n_query * site.n_key, block_side(site.n_query, site.n_key, MAX_POOLED_BLOCKS)
    blocks = f"the largest of each block of {k} × {k} weights"
    part = blocks if tile is None else "the exact weights of the part that is shown"
    return (
        f"For this head, the CSV and the npz have all {n:,} weights (up to {14 * n / 1e6:,.0f} and {5 * n / 1e6:,.0f} MB)."
        f" The SVG has {part}. For all heads, the npz has {blocks}."
    )


def legend(trace: Trace, site: AttentionSite, scale: Scale) -> str:
    """Return what the strongest colour means, with the keys that are left out."""
    key = axes_labels(trace, site)[1]
    return scale.of(site.n_key).key([key[i].text for i in sinks(trace.axes(site)[1])])


def _numbered(axis: Sequence[Label]) -> list[str]:
    return [f"{i} {label.text}" for i, label in enumerate(axis)]


def _scale(x: float, y: float, unit: str) -> str:
    """Return the colour bar that maps colours to weights."""
    stops = "".join(f'<stop offset="{i / 8}" stop-color="{ramp(i / 8)}"/>' for i in range(9))
    return (
        f'<linearGradient id="scale">{stops}</linearGradient>'
        + svg.rectangle(x, y, 120, 10, "url(#scale)", stroke=ACCENT_COLOUR, stroke_width=0.5)
        + svg.svg_text(x - 4, y + 10, "0", "end")
        + svg.svg_text(x + 126, y + 10, unit)
    )
