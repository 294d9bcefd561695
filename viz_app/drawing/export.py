"""Files to take away: one head as CSV or SVG, all heads as npz. The numbers are the model's own, every digit kept."""

import csv
import io
import math
import unicodedata
from collections.abc import Sequence
from html import escape

import numpy as np

from models.trace import AttentionSite, Trace
from viz_app.drawing.colours import ACCENT, HATCH, PAPER, TEXT, ramp
from viz_app.drawing.labels import Label, axes_labels, labels, shortened
from viz_app.drawing.provenance import site_name
from viz_app.drawing.scale import Scale, sinks
from viz_app.drawing.sites import blocked_bits

CELL, LEFT, TOP, RIGHT, BOTTOM = 26, 150, 150, 60, 50
LONGEST = 22        # characters of a row's name
LETTER = 0.62       # the width of a letter by its size, with room to spare
LEFT_OUT = "#d3d9e6"


def head_csv(trace: Trace, site: AttentionSite, head: int) -> str:
    """A table: a row a query, a column a key, both numbered from 0 ("3 cat"); each weight the shortest exact float32."""
    query, key = axes_labels(trace, site)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["query \\ key", *_numbered(key)])
    for name, row in zip(_numbered(query), site.weights(head).numpy(), strict=True):
        writer.writerow([name, *(str(weight) for weight in row)])
    return out.getvalue()


def heads_npz(trace: Trace) -> bytes:
    """All heads: for each site its weights (head, query, key) under the site's name with its layer counted from 1, its mask in the
    same shape under "<name>.allowed", and the tokens of each stream, spelled as on the screen, under "<stream>_tokens"."""
    arrays = stream_tokens(trace)
    for site in trace.attention.values():
        name = site_name(site)
        arrays[name] = site.weights().numpy()
        arrays[f"{name}.allowed"] = site.allowed(head=None).numpy()
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def stream_tokens(trace: Trace) -> dict[str, np.ndarray]:
    """The tokens of each stream as on the screen, under "<stream>_tokens"."""
    return {f"{name}_tokens": texts(labels(row)) for name, row in trace.streams.items()}


def texts(row: Sequence[Label]) -> np.ndarray:
    """What these labels say, as an array of a file."""
    return np.array([label.text for label in row])


def head_svg(trace: Trace, site: AttentionSite, head: int, title: str, scale: Scale | None = None) -> str:
    """The heatmap as a vector drawing on white, for print: exact weight in each cell's tooltip, masked cells hatched."""
    query, key = axes_labels(trace, site)
    weights, blocked = site.weights(head).numpy(), blocked_bits(site, head).numpy()
    scale, hidden = scale or Scale(), sinks(trace.axes(site)[1])
    strengths, (rows, cols) = scale.strengths(weights, hidden), weights.shape
    unit = f"{legend(trace, site, scale)}; rows read (query), columns are read (key); hatched = masked"
    wide = max(LEFT + cols * CELL + RIGHT, 20 + width_of(title, bold=True), LEFT + 136 + width_of(unit))
    width, height = math.ceil(wide), TOP + rows * CELL + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{TEXT}">',
        '<defs><pattern id="masked" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="5" height="5" fill="{PAPER}"/><rect width="1.2" height="5" fill="{HATCH}"/></pattern></defs>',
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        f'<text x="10" y="20" font-weight="600">{escape(title)}</text>',
    ]
    for q in range(rows):
        for k in range(cols):
            fill = "url(#masked)" if blocked[q, k] else ramp(float(strengths[q, k]))
            fill = LEFT_OUT if scale.hides_sinks and k in hidden else fill
            said = "masked" if blocked[q, k] else str(weights[q, k])
            parts.append(
                f'<rect x="{LEFT + k * CELL}" y="{TOP + q * CELL}" width="{CELL}" height="{CELL}" fill="{fill}" '
                f'stroke="#d3d9e6" stroke-width="0.5"><title>{said}</title></rect>'
            )
    parts += [_text(LEFT - 6, TOP + (q + 0.65) * CELL, shortened(label.text, LONGEST), "end") for q, label in enumerate(query)]
    parts += [
        f'<g transform="translate({LEFT + (k + 0.6) * CELL} {TOP - 8}) rotate(-45)">{_text(0, 0, label.text, "start")}</g>'
        for k, label in enumerate(key)
    ]
    parts += [_scale(LEFT, TOP + rows * CELL + 18, unit), "</svg>"]
    return "".join(parts)


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
