"""Pictures of position tables: curves, wavelengths, heatmaps, distances, a turning pair."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
from torch import Tensor

from models.analysis.position_measures import SimilarityByDistance
from viz_app.drawing.extent import Extent, Scaled, scale_picture
from viz_app.drawing.frame import (
    LINE_COLOURS,
    LINE_STYLES,
    colour_bar,
    framed_figure,
    scale_of,
    with_title,
)
from viz_app.drawing.look import Look

DOTTED = 160  # positions, up to which each is a dot on its curve
PLANE_POINTS = 64  # positions drawn in the plane of one pair
NEVER = 1e9  # a wavelength beyond this never comes round in any text


def dimension_chart(
    table: Tensor,
    dims: Sequence[int],
    names: Sequence[str],
    title: str,
    domain: tuple[float, float] | None = None,
) -> alt.Chart:
    """Draw some dimensions at every position, a line each, on a scale that covers the `domain`."""
    n = len(table)
    data = pd.DataFrame(
        {
            "position": np.tile(np.arange(n), len(dims)),
            "value": table[:, list(dims)].T.reshape(-1).numpy(),
            "dimension": np.repeat(list(names), n),
        }
    )
    colour, stroke = _line_encodings(list(names))
    values = alt.Scale() if domain is None else alt.Scale(domain=list(domain), nice=True)
    position = alt.X(
        "position:Q",
        title="position (token)",
        axis=alt.Axis(format="d"),
        scale=alt.Scale(nice=False),
    )
    dots = {"size": 14, "opacity": 1, "strokeDash": [1, 0]} if n <= DOTTED else False
    chart = (
        alt.Chart(data)
        .mark_line(strokeWidth=1.8, point=dots)
        .encode(
            x=position,
            y=alt.Y("value:Q", title="value", scale=values),
            color=colour,
            strokeDash=stroke,
            tooltip=[
                alt.Tooltip("position:Q"),
                alt.Tooltip("dimension:N"),
                alt.Tooltip("value:Q", format=".6f"),
            ],
        )
    )
    return with_title(chart, title, 292)


def _line_encodings(names: list[str]) -> tuple[alt.Color, alt.StrokeDash]:
    """Return the colour and the dash of each named line, in one legend."""
    legend = alt.Legend(
        orient="bottom",
        columns=2,
        title=None,
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        symbolSize=400,
        offset=6,
    )
    colours = alt.Scale(domain=names, range=LINE_COLOURS[: len(names)])
    styles = alt.Scale(domain=names, range=LINE_STYLES[: len(names)])
    return (
        alt.Color("dimension:N", sort=names, scale=colours, legend=legend),
        alt.StrokeDash("dimension:N", sort=names, scale=styles, legend=legend),
    )


def wavelength_chart(
    waves: Tensor,
    dims: Sequence[int],
    n: int,
    title: str,
    column: str = "dimension",
    top: float = 100_000,
) -> alt.Chart:
    """Draw how many positions a full turn takes, by dimension or another `column`.

    The scale is logarithmic, at least to `top`; a rule is at the length; chosen dims are numbered
    and in the colours of their curves.
    """
    values = waves.numpy()
    finite = np.flatnonzero(values < NEVER)
    data = pd.DataFrame({"dimension": finite, "wavelength": values[finite]})
    x = alt.X(
        "dimension:Q",
        title=column,
        axis=alt.Axis(format="d"),
        scale=alt.Scale(domain=[0, len(values) - 1], nice=False),
    )
    y = alt.Y(
        "wavelength:Q",
        title="wavelength",
        scale=alt.Scale(type="log", domain=[5, max(top, n)], nice=False),
        axis=alt.Axis(format="~s", values=[10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8]),
    )
    tooltip = [
        alt.Tooltip("dimension:Q", title=column),
        alt.Tooltip("wavelength:Q", format=",.5~g"),
    ]
    dots = (
        alt.Chart(data)
        .mark_circle(size=30, opacity=0.9)
        .encode(x=x, y=y, tooltip=tooltip, color=alt.value("#8f96a3"))
    )
    marks = (
        alt.Chart(_chosen_waves(values, dims))
        .mark_circle(size=110, opacity=1)
        .encode(x=x, y=y, tooltip=tooltip, color=alt.Color("colour:N", scale=None))
    )
    numbers = marks.mark_text(baseline="bottom", dy=-6, fontSize=12).encode(text="dimension:N")
    rule, word = _length_rule(n)
    return with_title(dots + rule + word + marks + numbers, title, 274)


def _chosen_waves(values: np.ndarray, dims: Sequence[int]) -> pd.DataFrame:
    """Return the chosen dimensions that turn at all, in the colours of their curves."""
    chosen = [(i, dim) for i, dim in enumerate(dims) if values[dim] < NEVER]
    return pd.DataFrame(
        {
            "dimension": [dim for _, dim in chosen],
            "wavelength": [values[dim] for _, dim in chosen],
            "colour": [LINE_COLOURS[i % len(LINE_COLOURS)] for i, _ in chosen],
        }
    )


def _length_rule(n: int) -> tuple[alt.Chart, alt.Chart]:
    """Return a dashed line at the length, and its name."""
    rule = (
        alt.Chart(pd.DataFrame({"n": [n]}))
        .mark_rule(strokeDash=[5, 4], color="#8f96a3")
        .encode(y="n:Q")
    )
    word = (
        alt.Chart(pd.DataFrame({"n": [n], "word": [f"the {n} positions shown"]}))
        .mark_text(align="right", baseline="bottom", dy=-3, color="#8f96a3", fontSize=12)
        .encode(x=alt.value("width"), y="n:Q", text="word:N")
    )
    return rule, word


def heatmap(
    table: Tensor,
    look: Look,
    title: str,
    axes: tuple[str, str],
    height: int = 342,
    limit: float = 0.0,
    wrap: int = 62,
    note: str = "",
    value: str = "value",
) -> go.Figure:
    """Draw a signed matrix, rows down, in a diverging map centred on 0.

    It reaches ±limit (default: the largest); `note` as in `framed_figure`; `value` is the
    title of its scale.
    """
    row, column = axes
    cells = _cells(
        table,
        look,
        limit,
        value,
        hovertemplate=f"{row} %{{y}}, {column} %{{x}}: <b>%{{z:.6f}}</b><extra></extra>",
    )
    sides = {
        "x": {"title": {"text": column}, "tickformat": "d"},
        "y": {"title": {"text": row}, "tickformat": "d"},
    }
    return framed_figure([cells], look, title, height, wrap, note=note, **sides)


def scaled_heatmap(
    table: Tensor, look: Look, title: str, axes: tuple[str, str], **more: Any
) -> Scaled:
    """Return a heatmap that reaches its largest number, or further; `more` as in `heatmap`."""
    return scale_picture(
        _peak(table),
        lambda scales: heatmap(table, look, title, axes, limit=scales["value"], **more),
    )


def scaled_strips(rows: dict[str, Tensor], look: Look, title: str, axis: str, note: str) -> Scaled:
    """Return strips that reach as far as their largest number, or further."""
    peak = _peak(torch.stack(list(rows.values())))
    return scale_picture(
        peak, lambda scales: strips(rows, look, title, axis, note, scales["value"])
    )


def _peak(values: Tensor) -> Extent:
    return {"value": float(values.abs().max()) or 1.0}


def _cells(
    table: Tensor, look: Look, limit: float = 0.0, value: str = "value", **more: object
) -> dict:
    values = table.float().numpy()
    limit = limit or float(np.abs(values).max()) or 1.0
    colours = {"colorscale": scale_of(look.diverging()), "colorbar": colour_bar(look, value)}
    return {"type": "heatmap", "z": values, "zmin": -limit, "zmax": limit, **colours, **more}


def similarity_chart(
    similarity: SimilarityByDistance,
    look: Look,
    title: str,
    domain: tuple[float, float],
    height: int = 300,
) -> alt.Chart:
    """Draw PE·PEᵀ by distance: the mean over all places as a line, least to largest as a band."""
    data = pd.DataFrame(
        {
            "distance": np.arange(len(similarity.mean)),
            "mean": similarity.mean.numpy(),
            "least": similarity.least.numpy(),
            "largest": similarity.largest.numpy(),
        }
    )
    x = alt.X(
        "distance:Q",
        title="distance between two positions",
        axis=alt.Axis(format="d"),
        scale=alt.Scale(nice=False),
    )
    scale = alt.Scale(domain=list(domain), nice=True)
    tooltip = [
        alt.Tooltip("distance:Q"),
        *(alt.Tooltip(f"{name}:Q", format=".6g") for name in ("mean", "least", "largest")),
    ]
    base = alt.Chart(data).encode(x=x, tooltip=tooltip)
    band = base.mark_area(opacity=0.28, color=look.accent).encode(
        y=alt.Y("least:Q", title="PE·PEᵀ", scale=scale), y2="largest:Q"
    )
    line = base.mark_line(strokeWidth=2.2, color=look.accent).encode(y=alt.Y("mean:Q", scale=scale))
    return with_title(band + line, title, height)


def plane(
    table: Tensor, turned: Tensor, pair: int, shift: int, look: Look, title: str
) -> alt.Chart:
    """Draw one pair of dimensions as a plane.

    A dot a position; an orange line from where the fixed turn puts PE(pos+shift) to where it is.
    `turned` is R·PE(pos) for each pos; the table has `shift` more rows.
    """
    n = min(len(turned), PLANE_POINTS)
    x, y = 2 * pair, 2 * pair + 1
    dots = pd.DataFrame(
        {"x": table[:n, x].numpy(), "y": table[:n, y].numpy(), "position": np.arange(n)}
    )
    shifted = table[shift : shift + n]
    misses = pd.DataFrame(
        {
            "x": turned[:n, x].numpy(),
            "y": turned[:n, y].numpy(),
            "x2": shifted[:, x].numpy(),
            "y2": shifted[:, y].numpy(),
            "position": np.arange(n),
        }
    )
    scale = alt.Scale(domain=[-1.1, 1.1], nice=False)
    sides = {
        "x": alt.X("x:Q", scale=scale, title=f"dimension {x}"),
        "y": alt.Y("y:Q", scale=scale, title=f"dimension {y}"),
    }
    path = (
        alt.Chart(dots)
        .mark_line(opacity=0.35, strokeWidth=1, color=look.accent)
        .encode(**sides, order="position:Q")
    )
    points = (
        alt.Chart(dots)
        .mark_circle(size=34, color=look.accent, opacity=0.9)
        .encode(**sides, tooltip=["position:Q", "x:Q", "y:Q"])
    )
    lines = (
        alt.Chart(misses)
        .mark_rule(color=LINE_COLOURS[5], strokeWidth=1.1, opacity=0.6, clip=True)
        .encode(**sides, x2="x2:Q", y2="y2:Q")
    )
    return with_title(path + lines + points, title, 330).properties(width=290)


def strips(
    rows: dict[str, Tensor],
    look: Look,
    title: str,
    axis: str,
    note: str = "",
    limit: float = 0.0,
) -> go.Figure:
    """Draw a few vectors below each other as colour strips on one scale, by name.

    `limit` and `note` as in `heatmap`.
    """
    hover = f"%{{y}}, {axis} %{{x}}: <b>%{{z:.6f}}</b><extra></extra>"
    cells = _cells(
        torch.stack(list(rows.values())),
        look,
        limit,
        y=list(rows),
        ygap=4,
        hovertemplate=hover,
    )
    x = {"title": {"text": axis}, "tickformat": "d"}
    return framed_figure(
        [cells], look, title, 300, 56, x=x, y={"type": "category"}, margin={"l": 110}, note=note
    )
