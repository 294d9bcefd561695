"""Charts of the page From RNN to attention: influence, path lengths, schedules, times, scores."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import altair as alt
import pandas as pd
import plotly.graph_objects as go

from models.analysis.jacobian_reach import LAYER_KINDS, Reach
from models.analysis.layer_timing import TIMED_LENGTHS, Timing
from viz_app.drawing.extent import Extent, Scaled, scale_picture
from viz_app.drawing.frame import (
    GRID_COLOUR,
    LEGEND_LAYOUT,
    framed_figure,
    plotly_dash,
    with_title,
)
from viz_app.drawing.look import Look
from viz_app.views.from_rnn.families import FAMILY_STYLES, LineStyle, line_styles

NO_FAMILIES: Mapping[str, str] = MappingProxyType({})
SQUARE = 118  # px, a side of one layer's timetable


def _layers(kinds: Sequence[str]) -> tuple[alt.Color, alt.StrokeDash]:
    return _line_encodings("layer", list(kinds), [FAMILY_STYLES[kind] for kind in kinds], 2)


def _line_encodings(
    field: str, names: list[str], styles: Sequence[LineStyle], columns: int
) -> tuple[alt.Color, alt.StrokeDash]:
    """Return the colour and the dash of the line of each name, in one legend."""
    legend = alt.Legend(
        orient="bottom",
        title=None,
        columns=columns,
        symbolType="stroke",
        symbolStrokeWidth=2.5,
    )
    colours = alt.Scale(domain=names, range=[colour for colour, _ in styles])
    dashes = alt.Scale(domain=names, range=[dash for _, dash in styles])
    return (
        alt.Color(f"{field}:N", sort=names, scale=colours, legend=legend),
        alt.StrokeDash(f"{field}:N", sort=names, scale=dashes, legend=legend),
    )


def influence_chart(
    reaches: Sequence[Reach],
    look: Look,
    title: str,
    note: str = "",
    ends: tuple[float, float] | None = None,
) -> go.Figure:
    """Draw the mean ‖∂y(i)/∂x(j)‖ of the pairs a layer can reach, by distance.

    The log axis covers these `ends`; `note` as in `framed_figure`.
    """
    lines = []
    for reach in reaches:
        kind, rows = reach.choice.kind, [row for row in reach.norms_by_distance() if row[1] > 0]
        colour, dash = FAMILY_STYLES[kind]
        line = {"color": colour, "width": 2, "dash": plotly_dash(dash)}
        lines.append({
            "type": "scatter", "mode": "lines+markers", "name": kind, "line": line, "marker": {"size": 6}, "cliponaxis": False,
            "x": [row[0] for row in rows], "y": [row[1] for row in rows],
            "customdata": [row[2] for row in rows],
            "hovertemplate": f"{kind}, distance %{{x}}: <b>%{{y:.6g}}</b>, mean of %{{customdata}} pairs<extra></extra>",
        })  # fmt: skip
    grid = {"showgrid": True, "gridcolor": GRID_COLOUR, "fixedrange": True}
    log = {"type": "log", "tickformat": "~g", "dtick": 1, **_log_range(ends)}
    x = {"title": {"text": "distance |i − j| (tokens)"}, "tickformat": "d", **grid}
    y = {"title": {"text": "mean ‖∂y(i)/∂x(j)‖ (log)"}, **log, **grid}
    return framed_figure(
        lines,
        look,
        title,
        330,
        x=x,
        y=y,
        showlegend=True,
        margin={"b": 80},
        note=note,
        legend=LEGEND_LAYOUT,
    )


def _log_range(ends: tuple[float, float] | None) -> dict[str, Any]:
    """Return the range of a log axis, a little wider than its ends."""
    if ends is None:
        return {"autorange": True}
    low, high = (math.log10(end) for end in ends)
    beyond = 0.05 * max(high - low, 1.0)
    return {"autorange": False, "range": [low - beyond, high + beyond]}


def scaled_fading(reaches: Sequence[Reach], look: Look, title: str, note: str) -> Scaled:
    """Return `influence_chart` on an axis from its least mean to its largest, or wider."""
    means = [mean for reach in reaches for _, mean, _ in reach.norms_by_distance() if mean > 0]
    # the least mean as its inverse, because a scale grows
    extent = {"largest": max(means, default=1.0), "finest": 1 / min(means, default=1e-3)}

    def draw(scales: Extent) -> go.Figure:
        return influence_chart(
            reaches, look, title, note, (1 / scales["finest"], scales["largest"])
        )

    return scale_picture(extent, draw)


def path_lengths(
    reaches: Sequence[Reach], title: str, max_extent: tuple[float, float] | None = None
) -> alt.Chart:
    """Draw the most steps that any pair at a distance needs, counted on each layer's graph.

    There is no point where no path leads. The axes reach as far as the distance and
    the steps of `max_extent`.
    """
    rows = []
    for reach in reaches:
        n = len(reach.steps)
        for distance in range(n):
            n_steps = max(
                int(reach.steps.diagonal(distance).max()),
                int(reach.steps.diagonal(-distance).max()),
            )
            if n_steps:  # convolutions of width 1 join no two tokens
                rows.append({"layer": reach.choice.kind, "distance": distance, "steps": n_steps})
    colour, dash = _layers([reach.choice.kind for reach in reaches])
    of_distance, of_steps = (
        alt.Scale() if max_extent is None else alt.Scale(domain=[0, end], nice=True)
        for end in max_extent or (None, None)
    )
    chart = (
        alt.Chart(pd.DataFrame(rows))
        .mark_line(point={"size": 26, "strokeDash": [1, 0]})
        .encode(
            x=alt.X(
                "distance:Q",
                title="distance |i − j| (tokens)",
                axis=alt.Axis(format="d", tickMinStep=1),
                scale=of_distance,
            ),
            y=alt.Y(
                "steps:Q", title="steps", axis=alt.Axis(format="d", tickMinStep=1), scale=of_steps
            ),
            color=colour,
            strokeDash=dash,
            tooltip=["layer:N", "distance:Q", "steps:Q"],
        )
    )
    return with_title(chart, title, 350)


def scaled_path_lengths(reaches: Sequence[Reach], title: str) -> Scaled:
    """Return the picture `path_lengths` on axes that reach as far as its numbers, or further."""
    steps = max(1, *(int(reach.steps.max()) for reach in reaches))
    extent = {"distance": max(1, len(reaches[0].steps) - 1), "steps": steps}
    return scale_picture(
        extent, lambda most: path_lengths(reaches, title, (most["distance"], most["steps"]))
    )


def scaled_schedule(reaches: Sequence[Reach], title: str) -> Scaled:
    """Return the picture `schedule` with room for its tokens, or for more."""
    extent = {"tokens": len(reaches[0].steps)}
    return scale_picture(extent, lambda most: schedule(reaches, title, int(most["tokens"])))


def schedule(reaches: Sequence[Reach], title: str, max_tokens: int = 0) -> alt.Chart:
    """Draw a square for each position a sequential step computes, with room for `max_tokens`."""
    rows = [
        {"layer": reach.choice.kind, "step": step + 1, "token": token + 1}
        for reach in reaches
        for step, tokens in enumerate(reach.schedule)
        for token in tokens
    ]
    kinds = [reach.choice.kind for reach in reaches]
    n = max(max_tokens, len(reaches[0].steps))
    square = max(2.0, 0.8 * SQUARE / n)
    chart = (
        alt.Chart(pd.DataFrame(rows))
        .mark_square(size=square * square, opacity=1)
        .encode(
            x=alt.X(
                "step:Q",
                title="sequential step",
                scale=alt.Scale(domain=[0.5, n + 0.5], nice=False),
                axis=alt.Axis(format="d", tickMinStep=1, tickCount=6, grid=False),
            ),
            y=alt.Y(
                "token:Q",
                title="token",
                scale=alt.Scale(domain=[n + 0.5, 0.5], nice=False),
                axis=alt.Axis(format="d", tickMinStep=1, tickCount=6, grid=False),
            ),
            color=alt.Color(
                "layer:N",
                legend=None,
                scale=alt.Scale(domain=kinds, range=[FAMILY_STYLES[k][0] for k in kinds]),
            ),
            tooltip=["layer:N", "step:Q", "token:Q"],
        )
        .properties(width=SQUARE, height=SQUARE)
    )
    faceted = chart.facet(facet=alt.Facet("layer:N", sort=kinds, title=None), columns=2)
    return faceted.properties(
        title=alt.TitleParams(title, anchor="start", fontSize=14, fontWeight=600, offset=10)
    )


def forward_times(timings: Sequence[Timing], title: str) -> alt.Chart:
    """Return a chart of median forward time by length, both log, with the range of repetitions."""
    rows = [
        {
            "layer": t.layer,
            "tokens": t.n,
            "ms": 1e3 * t.median,
            "least": 1e3 * min(t.seconds),
            "most": 1e3 * max(t.seconds),
        }
        for t in timings
    ]
    data = pd.DataFrame(rows, columns=["layer", "tokens", "ms", "least", "most"])
    colour, dash = _layers(LAYER_KINDS)
    x = alt.X(
        "tokens:Q",
        title="length (tokens)",
        axis=alt.Axis(format="d", values=list(TIMED_LENGTHS)),
        scale=alt.Scale(type="log", base=2, domain=[TIMED_LENGTHS[0], TIMED_LENGTHS[-1]]),
    )
    span = alt.Scale(type="log") if rows else alt.Scale(type="log", domain=[0.01, 100])
    y = alt.Y(
        "ms:Q", title="forward pass (ms)", scale=span, axis=alt.Axis(format="~g", tickCount=5)
    )
    titles = {"ms": "median (ms)", "least": "least (ms)", "most": "most (ms)"}
    tip = [
        "layer:N",
        "tokens:Q",
        *(
            alt.Tooltip(f"{column}:Q", format=".4g", title=title)
            for column, title in titles.items()
        ),
    ]
    base = alt.Chart(data)
    line = base.mark_line(point={"size": 34, "strokeDash": [1, 0]}).encode(
        x=x, y=y, color=colour, strokeDash=dash, tooltip=tip
    )
    spread = base.mark_rule(opacity=0.5).encode(x=x, y="least:Q", y2="most:Q", color=colour)
    return with_title(spread + line, title, 320)


def shares_of_best(buckets: Sequence[dict]) -> list[float]:
    """Return each bucket's score as a share of the best one's; 0 where no bucket scores at all."""
    best = max((bucket["score"] for bucket in buckets), default=0)
    return [bucket["score"] / best if best else 0.0 for bucket in buckets]


def _length_rows(records: Mapping[str, list[dict]]) -> pd.DataFrame:
    """Return a row for each bucket of lengths of each checkpoint."""
    rows = []
    for name, buckets in records.items():
        rows += [
            {
                "model": name,
                "words": (b["least"] + b["most"]) / 2,
                "lengths": f"{b['least']}–{b['most']}",
                "score": b["score"],
                "cases": b["cases"],
                "share": share,
            }
            for b, share in zip(buckets, shares_of_best(buckets), strict=True)
        ]
    return pd.DataFrame(rows)


def length_chart(
    records: dict[str, list[dict]], title: str, families: Mapping[str, str] = NO_FAMILIES
) -> alt.Chart:
    """Return a chart of the score by source length, a line for each checkpoint.

    Its points are at the middle of buckets. `families` maps checkpoints to their families.
    """
    names = list(records)
    styles = line_styles([families.get(name, "") for name in names])
    colour, dash = _line_encodings("model", names, styles, 4)
    chart = (
        alt.Chart(_length_rows(records))
        .mark_line(point={"size": 50, "strokeDash": [1, 0]})
        .encode(
            x=alt.X("words:Q", title="source length (words)", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("score:Q", title="BLEU on held-out sentences", scale=alt.Scale(zero=True)),
            color=colour,
            strokeDash=dash,
            tooltip=[
                "model:N",
                alt.Tooltip("lengths:N", title="words"),
                alt.Tooltip("score:Q", format=".2f"),
                alt.Tooltip("share:Q", format=".0%", title="of its own best"),
                "cases:Q",
            ],
        )
    )
    return with_title(chart, title, 400)
