"""Files to take away: one head as CSV, npz or SVG, all heads as npz. The numbers are the model's own, every digit kept."""

import io
import math
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from html import escape

import numpy as np
from torch import Tensor

from models.trace import AttentionSite, Trace
from viz_app.drawing.cells import LARGEST_POOLED, Cells, Tile, cells, is_long, strengths
from viz_app.drawing.colours import ACCENT, HATCH, PAPER, TEXT, ramp
from viz_app.drawing.csv_file import csv_line
from viz_app.drawing.labels import Label, axes_labels, labels, shortened
from viz_app.drawing.npz import Arrays, Rows
from viz_app.drawing.pooling import block_side, pooled_heads, slabs
from viz_app.drawing.provenance import site_name
from viz_app.drawing.scale import Scale, sinks

CELL, LEFT, TOP, RIGHT, BOTTOM = 26, 150, 150, 60, 50
LONGEST = 22  # characters of a row's name
LETTER = 0.62  # the width of a letter by its size, with room to spare
LEFT_OUT = "#d3d9e6"


def head_csv(trace: Trace, site: AttentionSite, head: int) -> Iterator[str]:
    """A table, line by line: a row a query, a column a key, both numbered from 0 ("3 cat"); each weight the shortest exact
    float32."""
    query, key = axes_labels(trace, site)
    yield csv_line(["query \\ key", *_numbered(key)])
    names = iter(_numbered(query))
    for rows in slabs(site):
        for row in site.weights(head, rows=rows).numpy():
            yield csv_line([next(names), *map(str, row)])


def npz_file(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays by name, compressed."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def head_npz(trace: Trace, site: AttentionSite, head: int) -> Arrays:
    """One head: its "weights" and where its mask lets it read, "allowed", (query, key), and the tokens of both axes, spelled as on
    the screen, as "query_tokens" and "key_tokens"."""
    for name, row in zip(("query_tokens", "key_tokens"), axes_labels(trace, site), strict=True):
        yield name, texts(row)
    yield "weights", weights(site, head)
    yield "allowed", allowed(site, head)


def heads_npz(trace: Trace) -> Arrays:
    """All heads: for each site its weights (head, query, key) under the site's name with its layer counted from 1, its mask in the
    same shape under "<name>.allowed", and the tokens of each stream, spelled as on the screen, under "<stream>_tokens".

    Of a long text the cells of its picture: of every block of "<name>.block" × "<name>.block" weights the largest, and whether any
    of them is allowed."""
    yield from stream_tokens(trace).items()
    for site in trace.attention.values():
        name = site_name(site)
        if is_long(site):
            k = block_side(site.n_query, site.n_key, LARGEST_POOLED)
            largest = pooled_heads(site, range(site.n_heads), k).numpy()
            yield name, largest.clip(0)
            yield f"{name}.allowed", largest >= 0
            yield f"{name}.block", np.array(k)
            continue
        yield name, weights(site)
        yield f"{name}.allowed", allowed(site)


def weights(site: AttentionSite, head: int | None = None) -> Rows:
    """(query, key) of a head, or (head, query, key) of all."""
    return _of_rows(site, head, np.float32, site.weights)


def allowed(site: AttentionSite, head: int | None = None) -> Rows:
    """Where the mask lets a query read a key, in the same shape."""
    return _of_rows(site, head, np.bool_, lambda one, rows: site.allowed(head=one, rows=rows))


def _of_rows(
    site: AttentionSite, head: int | None, dtype: type, part: Callable[..., Tensor]
) -> Rows:
    heads, shape = (range(site.n_heads), (site.n_heads,)) if head is None else ([head], ())
    return Rows(
        (*shape, site.n_query, site.n_key),
        dtype,
        lambda: (part(h, rows=rows).numpy() for h in heads for rows in slabs(site)),
    )


def stream_tokens(trace: Trace) -> dict[str, np.ndarray]:
    """The tokens of each stream as on the screen, under "<stream>_tokens"."""
    return {f"{name}_tokens": texts(labels(row)) for name, row in trace.streams.items()}


def texts(row: Sequence[Label]) -> np.ndarray:
    """What these labels say, as an array of a file."""
    return np.array([label.text for label in row])


def head_svg(
    trace: Trace,
    site: AttentionSite,
    head: int,
    title: str,
    scale: Scale | None = None,
    tile: Tile = None,
) -> str:
    """The heatmap as a vector drawing on white, for print: exact weight in each cell's tooltip, masked cells hatched. Of a long
    text what the page shows of it: its blocks, or the part round `tile`."""
    scale, hidden = scale or Scale(), sinks(trace.axes(site)[1])
    drawn = cells(trace, site, head, tile, hidden if scale.hides_sinks else ())
    left_out, (rows, cols) = (
        set(drawn.columns(hidden)) if scale.hides_sinks else set(),
        drawn.weights.shape,
    )
    shades = strengths(drawn, scale, hidden)
    unit = (
        f"{legend(trace, site, scale)}; rows read (query), columns are read (key); hatched = masked"
    )
    note = what_is_drawn(drawn, site)
    wide = max(
        LEFT + cols * CELL + RIGHT,
        20 + width_of(title, bold=True),
        LEFT + 136 + width_of(unit),
        LEFT + 10 + width_of(note),
    )
    width, height = math.ceil(wide), TOP + rows * CELL + BOTTOM
    parts = [*_svg_head(width, height, title), *_svg_cells(drawn, shades, left_out)]
    names = [shortened(label.text, LONGEST) for label in drawn.queries]
    parts += [_text(LEFT - 6, TOP + (q + 0.65) * CELL, name, "end") for q, name in enumerate(names)]
    parts += [
        f'<g transform="translate({LEFT + (k + 0.6) * CELL} {TOP - 8}) rotate(-45)">{_text(0, 0, label.text, "start")}</g>'
        for k, label in enumerate(drawn.keys)
    ]
    parts += [_scale(LEFT, TOP + rows * CELL + 18, unit)]
    parts += [_text(LEFT, TOP + rows * CELL + 44, note, "start")] * bool(note)
    parts.append("</svg>")
    return "".join(parts)


def _svg_head(width: int, height: int, title: str) -> list[str]:
    """The beginning of the drawing: its size, the hatching, the paper and the title."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{TEXT}">',
        '<defs><pattern id="masked" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="5" height="5" fill="{PAPER}"/><rect width="1.2" height="5" fill="{HATCH}"/></pattern></defs>',
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        f'<text x="10" y="20" font-weight="600">{escape(title)}</text>',
    ]


def _svg_cells(drawn: Cells, shades: np.ndarray, left_out: Collection[int]) -> Iterator[str]:
    """A square a weight; keys in `left_out` are hidden."""
    rows, cols = drawn.weights.shape
    for q in range(rows):
        for k in range(cols):
            said = "largest " * (drawn.block > 1) + str(drawn.weights[q, k])
            fill = ramp(float(shades[q, k]))
            if drawn.blocked[q, k]:
                said, fill = "masked", "url(#masked)"
            fill = LEFT_OUT if k in left_out else fill
            yield (
                f'<rect x="{LEFT + k * CELL}" y="{TOP + q * CELL}" width="{CELL}" height="{CELL}" fill="{fill}" '
                f'stroke="#d3d9e6" stroke-width="0.5"><title>{said}</title></rect>'
            )


def what_is_drawn(drawn: Cells, site: AttentionSite) -> str:
    """What a picture of a long text has of it and what it hides; "" where it has everything."""
    if drawn.block > 1:
        n = drawn.block
        return f"Each cell is the largest of {n} × {n} weights; hidden: the other {n * n - 1:,}, and which tokens it joins."
    if drawn.weights.shape == (site.n_query, site.n_key):
        return ""
    (query, key), (rows, cols) = drawn.first, drawn.weights.shape
    return (
        f"A part: queries {query}–{query + rows - 1} of 0–{site.n_query - 1}, keys {key}–{key + cols - 1} of 0–{site.n_key - 1}; "
        "hidden: all others."
    )


def of_long_text(site: AttentionSite, tile: Tile) -> str:
    """Which of the files of a long text have every weight, and which what the pictures show."""
    n, k = site.n_query * site.n_key, block_side(site.n_query, site.n_key, LARGEST_POOLED)
    blocks = f"the largest of each block of {k} × {k} weights"
    part = blocks if tile is None else "the exact weights of the part that is shown"
    return (
        f"Of this head the CSV and the npz have all {n:,} weights (up to {14 * n / 1e6:,.0f} and {5 * n / 1e6:,.0f} MB); "
        f"the SVG has {part}. Of all heads the npz has {blocks}."
    )


def width_of(text: str, size: float = 12, bold: bool = False) -> float:
    """Room for a line of sans-serif letters of this size, in pixels; no font is wider, so that nothing is cut off."""
    full = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return size * ((0.68 if bold else LETTER) * (len(text) - full) + full)


def legend(trace: Trace, site: AttentionSite, scale: Scale) -> str:
    """What the strongest colour stands for, and which keys are left out."""
    key = axes_labels(trace, site)[1]
    return scale.key([key[i].text for i in sinks(trace.axes(site)[1])])


def _numbered(axis: Sequence[Label]) -> list[str]:
    return [f"{i} {label.text}" for i, label in enumerate(axis)]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="unicode-bidi:plaintext">{escape(text)}</text>'


def _scale(x: float, y: float, unit: str) -> str:
    """The bar that says which colour is which weight."""
    stops = "".join(f'<stop offset="{i / 8}" stop-color="{ramp(i / 8)}"/>' for i in range(9))
    return (
        f'<linearGradient id="scale">{stops}</linearGradient>'
        f'<rect x="{x}" y="{y}" width="120" height="10" fill="url(#scale)" stroke="{ACCENT}" stroke-width="0.5"/>'
        + _text(x - 4, y + 10, "0", "end")
        + _text(x + 126, y + 10, unit, "start")
    )
