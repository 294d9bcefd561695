"""The chart of one run or two: losses and the held-out measure by step, with the picture's step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.analysis.induction import Jump, find_jump
from models.tasks.repeat import INDUCTION
from viz_app import words
from viz_app.drawing.look import Look
from viz_app.drawing.loss_curve import MIN_LOSS, STEP_UNIT, loss_text
from viz_app.drawing.screen import USUAL_SCREEN, Screen

MAX_POINTS = 300  # points of a line
SHOWN_STEP = "shown step"
TRAINING_LINE, HELD_OUT_LINE, MATCHING_LINE = "training loss", "held-out loss", f"{INDUCTION} (%)"
LEARNING_HEIGHT, LARGE_HEIGHT = 285, 370  # px
_LOSSES = {"loss": TRAINING_LINE, "validation loss": HELD_OUT_LINE}


@dataclass(frozen=True)
class Curve:
    """A run: its name in the chart, and its rows."""

    name: str
    rows: Sequence[dict[str, float]]


def learning_chart(
    curves: Sequence[Curve],
    metric: str,
    step: int,
    last: int,
    look: Look,
    *,
    screen: Screen = USUAL_SCREEN,
) -> dict[str, Any]:
    """Return a Vega-Lite chart; steps are spaced as log(1 + step/10), losses are logarithmic.

    The first run's lines are solid, the second's dashed. A dashed rule marks the step of the
    picture; `last` is the last step of the runs; without a `metric`, none is drawn. A series
    without points gets no line and no axis, since Vega warns about an empty extent. The result is
    empty before the first point. A band marks the jump of the induction score
    (models.analysis.induction), if one was recorded.
    """
    points = [point for curve in curves for point in _points(curve, metric)]
    if not points:
        return {}
    encoding = _encoding(
        curves, points, metric, last, look, columns=1 if screen.is_presented else 2
    )
    axes = {
        (TRAINING_LINE, HELD_OUT_LINE): _LOSS_AXIS,
        (metric, MATCHING_LINE): _measure_axis(metric),
    }
    size = screen.label_size - 1 if screen.is_presented else 11
    height = LARGE_HEIGHT if screen.is_presented else LEARNING_HEIGHT
    styles = zip(("solid", "dashed"), curves, strict=False)
    legend = ", ".join(f"{style}: {curve.name}" for style, curve in styles)
    return {
        "title": {"text": legend if len(curves) > 1 else "", "fontSize": size, "fontWeight": "normal", "anchor": "start"},
        "height": height + screen.taller,
        "config": {"axis": {"labelFontSize": size, "titleFontSize": size}, "legend": {"labelFontSize": size}},
        "resolve": {"scale": {"y": "independent"}},
        "layer": [
            _rule(step, encoding["color"]),
            *(
                {"layer": lines, "encoding": encoding | {"y": {"field": "at", "type": "quantitative"} | axis}}
                for names, axis in axes.items()
                if (lines := _lines(points, names))
            ),
            *(_band(curve.name, jump, look) for curve in curves if (jump := jump_of(curve.rows))),
        ],
    }  # fmt: skip


_LOSS_AXIS = {
    "title": "loss (nats, log)",
    "axis": {"orient": "left", "grid": False, "tickCount": 4, "format": "~g"},
    "scale": {"type": "log"},
}


def _measure_axis(metric: str) -> dict[str, Any]:
    """Return the axis of the held-out measure; without one, that of the induction score alone."""
    return {
        "title": f"held-out {metric}{words.score_unit(metric)}" if metric else MATCHING_LINE,
        "axis": {"orient": "right", "grid": False, "tickCount": 5, "format": ".3~g"},
        "scale": {"domain": [0, 100]} if words.score_unit(metric) else {"zero": True},
    }


def _encoding(
    curves: Sequence[Curve],
    points: Sequence[dict[str, Any]],
    metric: str,
    last: int,
    look: Look,
    *,
    columns: int,
) -> dict[str, Any]:
    """Return the encoding of points as lines: a colour for each measure, a dash for each run."""
    colours = {TRAINING_LINE: look.quiet, HELD_OUT_LINE: look.accent}
    if metric:
        colours[metric] = look.opposite
    if any(point["of"] == MATCHING_LINE for point in points):
        colours[MATCHING_LINE] = look.third
    colours[SHOWN_STEP] = look.text
    return {
        "x": {
            "field": "step", "type": "quantitative", "title": f"step, spaced as log(1 + step/{STEP_UNIT})",
            "scale": {"type": "symlog", "constant": STEP_UNIT, "domain": [0, last]}, "axis": {"values": _ticks(last), "grid": False},
        },
        "color": {
            "field": "of", "type": "nominal", "title": None, "legend": {"orient": "top", "columns": columns, "rowPadding": 7},
            "scale": {"domain": list(colours), "range": list(colours.values())},
        },
        "strokeDash": {
            "field": "run", "type": "nominal", "title": None,
            "legend": None,
            "scale": {"domain": [curve.name for curve in curves], "range": [[1, 0], [5, 3]][: len(curves)]},
        },
        "detail": {"field": "run", "type": "nominal"},
        "tooltip": [{"field": name, "type": "nominal"} for name in ("of", "run", "step", "value")],
    }  # fmt: skip


def _rule(step: int, colour: dict[str, Any]) -> dict[str, Any]:
    return {
        "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [3, 3]},
        "data": {"values": [{"step": step, "of": SHOWN_STEP}]},
        "encoding": {
            "x": {"field": "step", "type": "quantitative"},
            "color": colour,
        },
    }


def jump_of(rows: Sequence[dict[str, float]]) -> Jump | None:
    """Return the jump of the induction score that these rows record; None if there is none."""
    return find_jump({int(row["step"]): row[INDUCTION] for row in rows if INDUCTION in row})


def _band(name: str, jump: Jump, look: Look) -> dict[str, Any]:
    """Return the steps of the jump as a band."""
    says = f"The induction score rises by {jump.rise:.2f}"
    return {
        "mark": {"type": "rect", "color": look.third, "opacity": 0.15},
        "data": {"values": [{"from": jump.before, "to": jump.after, "says": says}]},
        "encoding": {
            "x": {"field": "from", "type": "quantitative"}, "x2": {"field": "to"},
            "tooltip": [{"field": "says", "type": "nominal", "title": name}],
        },
    }  # fmt: skip


def _ticks(last: int) -> list[int]:
    """Return the steps with a tick: 0, the powers of ten that leave room, and the last one."""
    powers = [10**n for n in range(1, len(str(last)))]
    return [0, *(power for power in powers if 2 * power < last), last]


def _lines(points: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a layer for each name that has points; held-out measurements are marked."""
    by_name = {name: [point for point in points if point["of"] == name] for name in names}
    return [
        {
            "mark": {"type": "line", "strokeWidth": 1.7, "point": name not in (TRAINING_LINE, MATCHING_LINE) and {"filled": True, "size": 24}},
            "data": {"values": of_name},
        }
        for name, of_name in by_name.items()
        if of_name
    ]  # fmt: skip


def _points(curve: Curve, metric: str) -> list[dict[str, Any]]:
    """Return the points of a run; for a long line, evenly spaced ones and the last."""
    losses = [row for row in curve.rows if "loss" in row and row["step"] > 0]
    stride = -(-len(losses) // MAX_POINTS) or 1
    thinned = losses[::stride] + losses[-1:] * (len(losses) % stride != 1 and stride > 1)
    points = [_point(row, "loss", TRAINING_LINE, curve.name) for row in thinned]
    for row in curve.rows:
        if "validation loss" in row:
            points.append(_point(row, "validation loss", HELD_OUT_LINE, curve.name))
        if metric and metric in row:
            points.append(_point(row, metric, metric, curve.name))
        if INDUCTION in row:
            in_percent = row | {INDUCTION: 100 * row[INDUCTION]}
            points.append(_point(in_percent, INDUCTION, MATCHING_LINE, curve.name))
    return points


def _point(row: dict[str, float], key: str, of: str, run: str) -> dict[str, Any]:
    value = row[key]
    if key in _LOSSES:
        at, written = max(value, MIN_LOSS), loss_text(value)
    else:
        at, written = value, words.format_score(key, value)
    return {"step": row["step"], "value": written, "at": at, "of": of, "run": run}
