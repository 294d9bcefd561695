"""The effect of dividing by √d_k: softmax with and without it, entropy and gradient by divisor."""

import math
from dataclasses import dataclass
from typing import Any

import altair as alt
import torch
from torch import Tensor

from models.analysis import softmax
from models.analysis.softmax import Scaling
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.colours import ACCENT_COLOUR
from viz_app.drawing.extent import Scaled
from viz_app.drawing.frame import with_title
from viz_app.drawing.labels import labels
from viz_app.drawing.weight_cell import WeightCell
from viz_app.ui import is_dark
from viz_app.views.inside.cell import shown_keys

UNDIVIDED_COLOUR = (
    "#c8590b"  # the softmax without the division; with it, the accent colour of weights
)
WITHOUT_DARK, ACCENT_DARK = "#ff9d5c", "#9dbcff"
HOLLOW = "26"  # alpha (of FF) of the bars without the division
RULE_DASHES = [
    [9, 3],
    [2, 2],
]  # rules with and without the division, so that they differ without colour
POINTS = 41  # divisors on a curve
HARDLY = 0.01  # share of the gradient with the division, above which a head still learns


@dataclass(frozen=True)
class ScalingComparison:
    """A head's softmax with the model's divisor √d_k and with divisor 1.

    It holds the row of the query, and the mean over all rows that may read anything. `spread` is
    the standard deviation of the scores over the open cells. Pairs are (with, without).
    """

    root: float
    n_open: int
    with_root: Scaling
    without_root: Scaling
    spread: tuple[float, float]
    mean_entropy: tuple[float, float]
    mean_gradient: tuple[float, float]
    mean_product_gradient: tuple[float, float]


def compare_scaling(cell: WeightCell) -> ScalingComparison:
    """Return the comparison for this query."""
    site, root = cell.site, math.sqrt(cell.site.d_head)
    raw, allowed = softmax.raw_scores(site, cell.head), site.allowed(head=cell.head)
    added = softmax.undivided_scores(site, cell.head)
    all_rows = [softmax.scaling(raw, allowed, divisor, added) for divisor in (root, 1.0)]
    this_row = [
        softmax.scaling(raw[cell.query], allowed[cell.query], divisor, added[cell.query])
        for divisor in (root, 1.0)
    ]
    rows = allowed.any(-1)
    spread = [_spread(s.scores[allowed]) for s in all_rows]
    return ScalingComparison(
        root,
        int(allowed[cell.query].sum()),
        *this_row,
        tuple(spread),
        *(
            tuple(_mean(getattr(s, name)[rows]) for s in all_rows)
            for name in ("entropy", "gradient", "product_gradient")
        ),
    )


def scaling_curves(cell: WeightCell) -> list[dict[str, float]]:
    """Return entropy (nats) and gradient norms of the query's softmax for a range of divisors.

    The divisors go from ¼ to 4·√d_k, evenly on a log scale; the gradients are by the scores and by
    q·k.
    """
    site = cell.site
    raw, allowed = (
        softmax.raw_scores(site, cell.head)[cell.query],
        site.allowed(head=cell.head)[cell.query],
    )
    added = softmax.undivided_scores(site, cell.head)[cell.query]
    ends = math.log(0.25), math.log(4 * math.sqrt(site.d_head))
    points = [
        softmax.scaling(raw, allowed, float(d), added)
        for d in torch.linspace(*ends, POINTS, dtype=torch.float64).exp()
    ]
    fields = ("entropy", "gradient", "product_gradient")
    return [
        {"divisor": s.divisor, **{field: float(getattr(s, field)) for field in fields}}
        for s in points
    ]


def bars(trace: Trace, cell: WeightCell) -> list[dict]:
    """Return the query's weights with and without √d_k, two rows for each of the shown keys."""
    comparison = compare_scaling(cell)
    names = labels(trace.axes(cell.site)[1])
    return [
        {
            "key": f"{j} {names[j].text}",
            "place": j,
            "softmax": name,
            "weight": float(scaling.weights[j]),
        }
        for j in shown_keys(cell.walk, cell.key)
        for name, scaling in (
            (_with(cell.site), comparison.with_root),
            ("without", comparison.without_root),
        )
    ]


SCALING_FIELDS = {
    "entropy": ("How evenly attention is spread", "entropy (nats)"),
    "product_gradient": ("How strongly the weights respond to q·k", "‖∂weights/∂(q·k)‖"),
}


def charts(trace: Trace, cell: WeightCell) -> dict[str, Any]:
    """Return the charts of the page by name; the curves of several runs share the higher limit."""
    dark = is_dark()

    def curve(field: str, title: str, unit: str) -> Scaled:
        highest = max(point[field] for point in scaling_curves(cell))
        return Scaled(
            lambda extent: curve_chart(cell, field, title, unit, dark, extent.get(field)),
            lambda _: {field: highest},
        )

    pictures = {
        f"inside-{field}": curve(field, *titles) for field, titles in SCALING_FIELDS.items()
    }
    return {"inside-bars": weights_chart(trace, cell, dark), **pictures}


def weights_chart(trace: Trace, cell: WeightCell, dark: bool = False) -> alt.Chart:
    """Return the bar chart of the softmax with the division (filled) and without (hollow)."""
    colours = _colours(cell.site, dark)
    chart = (
        alt.Chart(alt.Data(values=bars(trace, cell)))
        .mark_bar()
        .encode(
            x=alt.X(
                "key:N",
                sort=alt.SortField("place"),
                title="key",
                axis=alt.Axis(labelAngle=-45, labelLimit=90, labelOverlap=False, titlePadding=2),
            ),
            xOffset=alt.XOffset("softmax:N", sort=[_with(cell.site), "without"]),
            y=alt.Y("weight:Q", title="weight", scale=alt.Scale(domain=[0, 1])),
            fill=_encoded(
                alt.Fill, _scale(cell.site, [colours.range[0], colours.range[1] + HOLLOW])
            ),
            stroke=_encoded(alt.Stroke, colours),
            tooltip=["key:N", "softmax:N", alt.Tooltip("weight:Q", format=".6f")],
        )
    )
    return with_title(chart, "This query's weights, with and without the division", 285)


def curve_chart(
    cell: WeightCell,
    field: str,
    title: str,
    unit: str,
    dark: bool = False,
    top: float | None = None,
) -> alt.LayerChart:
    """Draw a `field` of `scaling_curves` against the divisor, with √d_k and 1 marked.

    The y axis ends at `top`, by default at the largest value.
    """
    height = alt.Scale(zero=True) if top is None else alt.Scale(domain=[0, top])
    root = math.sqrt(cell.site.d_head)
    ink = ACCENT_DARK if dark else ACCENT_COLOUR
    marks = [{"divisor": root, "softmax": _with(cell.site)}, {"divisor": 1.0, "softmax": "without"}]
    line = (
        alt.Chart(alt.Data(values=scaling_curves(cell)))
        .mark_line(color=ink)
        .encode(
            x=alt.X(
                "divisor:Q",
                scale=alt.Scale(type="log", nice=False),
                title="divisor of q·k",
                axis=alt.Axis(values=[0.25, 0.5, 1, 2, 4, 8, 16, 32], format="~g"),
            ),
            y=alt.Y(f"{field}:Q", title=unit, scale=height),
            tooltip=[
                alt.Tooltip("divisor:Q", format=".3g"),
                alt.Tooltip(f"{field}:Q", format=".4g"),
            ],
        )
    )
    rules = (
        alt.Chart(alt.Data(values=marks))
        .mark_rule(strokeWidth=2)
        .encode(
            x="divisor:Q",
            color=_encoded(alt.Color, _colours(cell.site, dark)),
            strokeDash=_encoded(alt.StrokeDash, _scale(cell.site, RULE_DASHES)),
        )
    )
    return with_title(line + rules, title, 270)


def division_effect(cell: WeightCell) -> str:
    """Describe what the division does to the weights of this query."""
    comparison = compare_scaling(cell)
    if comparison.n_open <= 1:
        return "This query may attend to at most one token, so softmax has nothing to choose, whatever the divisor."
    with_root, without = comparison.with_root, comparison.without_root
    divided = [term.name for term in cell.site.terms if term.divisor]
    means = (
        f"Here q·k means all that is divided: content, {words.join_names(divided)}. "
        if divided
        else ""
    )
    spread = "the scores" if len(divided) == len(cell.site.terms) else "q·k"
    return means + (
        f"Without ÷√dₖ {spread} would be {comparison.root:.3g} times as far apart. The strongest weight here would be "
        f"{float(without.weights.max()):.2f} instead of {float(with_root.weights.max()):.2f}."
    )


def consequence(cell: WeightCell) -> str:
    """Describe what the division does to the gradients of this query and head."""
    comparison = compare_scaling(cell)
    if comparison.n_open <= 1:
        return ""
    with_root, without = comparison.with_root, comparison.without_root
    return (
        f"When a score moves, the weights would "
        f"change {_answer(with_root.gradient, without.gradient)}. But the score would then be q·k itself, without the factor "
        "1/√dₖ of the chain rule. When q·k moves, the weights would change "
        f"{_answer(with_root.product_gradient, without.product_gradient)}. {_compare_with_paper(comparison)} "
        "(These are the trained vectors; training without the division would give others.)"
    )


def _answer(now: float | Tensor, then: float | Tensor) -> str:
    """Describe a ratio of gradients: "only 0.5 times as strongly"."""
    change = float(then) / max(float(now), 1e-12)
    if change < 0.0005:
        return "hardly at all"
    if change < 0.95:
        return f"only {change:.2g} times as strongly"
    return f"{change:.3g} times as strongly" if change > 1.05 else "about as strongly"


def _compare_with_paper(c: ScalingComparison) -> str:
    """Compare the head's mean gradients with the paper's reason for dividing."""
    softmax, (now, then) = c.mean_gradient, c.mean_product_gradient
    if now == then == 0:
        return "Softmax is saturated at every query of this head: no gradient is left to measure, with the division or without."
    mean = f"Over all queries of this head the mean gradient by q·k would be {then:.2g} instead of {now:.2g}"
    if then < now:
        if then < HARDLY * now:
            return f"{mean}. Hardly any would reach q and k, so the head could hardly learn (§3.2.1 of the paper)."
        return f"{mean}. Less of it would reach q and k (§3.2.1 of the paper)."
    if softmax[1] < softmax[0]:
        return (
            f"{mean}. The paper divides because a saturated softmax has small gradients (§3.2.1). Its own mean here would be "
            f"{softmax[1]:.2g} instead of {softmax[0]:.2g}, but the missing 1/√dₖ makes up for that."
        )
    return f"{mean}. Softmax's own would be {softmax[1]:.2g} instead of {softmax[0]:.2g}: neither would be smaller."


def scaling_table(cell: WeightCell) -> str:
    """Return the numbers with and without the division as a Markdown table."""
    comparison = compare_scaling(cell)
    both = (comparison.with_root, comparison.without_root)
    rows = {
        "strongest weight of this query": [float(s.weights.max()) for s in both],
        f"entropy of this query, nats (at most ln {comparison.n_open})": [
            float(s.entropy) for s in both
        ],
        "gradient of this query, ‖diag(p) − p·pᵀ‖": [float(s.gradient) for s in both],
        "the same by q·k, ÷ the divisor": [float(s.product_gradient) for s in both],
        "mean entropy of the head's queries": comparison.mean_entropy,
        "mean gradient of the head's queries": comparison.mean_gradient,
        "the same by q·k, ÷ the divisor, mean": comparison.mean_product_gradient,
        "spread of the head's scores (standard deviation)": comparison.spread,
    }
    lines = [f"| {name} | {a:.4g} | {b:.4g} |" for name, (a, b) in rows.items()]
    return "\n".join([f"| | ÷ √{cell.site.d_head} | without |", "|---|--:|--:|", *lines])


def _with(site: AttentionSite) -> str:
    return f"÷ √{site.d_head} (the model)"


def _colours(site: AttentionSite, dark: bool) -> alt.Scale:
    colours = [ACCENT_DARK, WITHOUT_DARK] if dark else [ACCENT_COLOUR, UNDIVIDED_COLOUR]
    return _scale(site, colours)


def _scale(site: AttentionSite, both: list) -> alt.Scale:
    """Return an ordinal scale for the softmax with the division and the one without."""
    return alt.Scale(domain=[_with(site), "without"], range=both)


def _encoded(channel: type, scale: alt.Scale) -> alt.SchemaBase:
    """Encode the two softmaxes in a channel; all channels of a chart share one legend."""
    return channel(
        "softmax:N", title=None, scale=scale, legend=alt.Legend(orient="top", offset=6, padding=0)
    )


def _spread(values: Tensor) -> float:
    return float(values.std(correction=0)) if values.numel() else 0.0


def _mean(values: Tensor) -> float:
    return float(values.mean()) if values.numel() else 0.0
