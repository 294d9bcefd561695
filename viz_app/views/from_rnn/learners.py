"""Learning curves and final scores of models of one task, from the records of their checkpoints."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import plotly.graph_objects as go

from models import Scope
from models.layers.sublayers import FEED_FORWARD
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.frame import GRID_COLOUR, framed_figure, plotly_dash
from viz_app.drawing.look import Look
from viz_app.views.from_rnn.families import family, line_styles

LEARNED_PERCENT = 90.0  # percent on validation cases: what "learned" means in the table


@dataclass(frozen=True)
class Learner:
    """A trained model, as recorded.

    `curve` is (training step, percent right on validation cases).
    """

    checkpoint: str
    what: str
    parameters: int
    steps: int
    curve: tuple[tuple[int, float], ...]
    held_out: float | None  # percent right on held-out cases, of the finished checkpoint
    cases: int
    family: str = ""  # "" for a stage on the way to one

    @property
    def learned_at(self) -> int | None:
        """The first validated step at which LEARNED_PERCENT was reached."""
        return next((step for step, percent in self.curve if percent >= LEARNED_PERCENT), None)


def stage_learners(scopes: Sequence[Scope]) -> list[Learner]:
    """Return the longest-trained model of each stage from the fixed vector to the Transformer."""
    longest: dict[int, tuple[str, Scope]] = {}
    for scope in scopes:
        place = _stage(scope)
        if place and (
            place[0] not in longest
            or scope.training["step"] > longest[place[0]][1].training["step"]
        ):
            longest[place[0]] = (place[1], scope)
    return [
        replace(_learner(scope, what), family=_family(scope))
        for _, (what, scope) in sorted(longest.items())
    ]


def similarity_learners(scopes: Sequence[Scope]) -> list[Learner]:
    """Return the Transformers with the most frequent recipe, which differ only in similarity."""
    candidates = [
        scope
        for scope in scopes
        if scope.model.translates and scope.model.similarity and _feeds_forward(scope)
    ]
    recipes = Counter(str(scope.training.get("recipe")) for scope in candidates)
    if not recipes or recipes.most_common(1)[0][1] < 2:
        return []
    shared = recipes.most_common(1)[0][0]
    return [
        _learner(scope, scope.model.similarity)
        for scope in candidates
        if str(scope.training.get("recipe")) == shared
    ]


def _stage(scope: Scope) -> tuple[int, str] | None:
    """Return the number and description of the stage that a model's layers form, or None."""
    model = scope.model
    if not model.translates:
        return None
    if model.is_recurrent:
        return (
            (1, "RNN with Bahdanau's alignment") if model.kinds else (0, "RNN, fixed vector h(m)")
        )
    if model.similarity != "scaled dot":
        return None
    if _feeds_forward(scope):
        return 7, "Transformer: residuals, LayerNorm, feed-forward too"
    encoder = [part for part in model.sublayers if part.stack == "encoder"]
    if not encoder:
        return 2, "Attn(X, X′) alone"
    if len(encoder) == 1:
        what, heads = "Attn(X, X), then Attn(X, X′)", scope.config.n_heads
        return (3, what) if heads == 1 else (4, f"{what}, {heads} heads")
    if all(part.adds for part in encoder):
        return 6, f"{len(encoder)} stacked, with residuals and LayerNorm"
    return 5, f"{len(encoder)} self-attention layers stacked"


def _family(scope: Scope) -> str:
    """Return the family of a model; "" if it attends but is not yet a Transformer."""
    is_whole = scope.model.is_recurrent or _feeds_forward(scope)
    return family(scope.model) if is_whole else ""


def _feeds_forward(scope: Scope) -> bool:
    return any(part.role == FEED_FORWARD for part in scope.model.sublayers)


def _learner(scope: Scope, what: str) -> Learner:
    record, metric = scope.training, "exact match"
    curve = tuple((row["step"], row[metric]) for row in record.get("curve", []) if metric in row)
    scores = record.get("scores", {})
    parameters = sum(p.numel() for p in scope.model.parameters())
    held_out = scores.get(f"held-out {metric}")
    return Learner(
        scope.name, what, parameters, record.get("step", 0), curve, held_out, scores.get("cases", 0)
    )


def chart(learners: Sequence[Learner], look: Look, title: str, note: str = "") -> go.Figure:
    """Return a chart of the percentage right by training step.

    There is a line for each model; `note` as in `framed_figure`.
    """
    styles = line_styles([one.family for one in learners])
    lines = [
        {
            "type": "scatter", "mode": "lines+markers", "name": one.what,
            "line": {"color": colour, "width": 2, "dash": plotly_dash(style)},
            "marker": {"size": 5}, "cliponaxis": False, "x": [step for step, _ in one.curve], "y": [p for _, p in one.curve],
            "hovertemplate": f"{one.checkpoint}, step %{{x:,}}: <b>%{{y:.1f}} %</b><extra></extra>",
        }
        for one, (colour, style) in zip(learners, styles, strict=True)
    ]  # fmt: skip
    grid = {"showgrid": True, "gridcolor": GRID_COLOUR, "fixedrange": True}
    x = {"title": {"text": "training step"}, "tickformat": ",d", "rangemode": "tozero", **grid}
    y = {
        "title": {"text": "validation dates right (%)"},
        "range": [0, 100],
        "autorange": False,
        **grid,
    }
    return framed_figure(
        lines,
        look,
        title,
        330,
        x=x,
        y=y,
        note=note,
        showlegend=True,
    )


def learner_table(learners: Sequence[Learner], outputs: Sequence[str] = ()) -> pd.DataFrame:
    """Return a row for each model; `outputs` are their answers to the current text."""
    rows = pd.DataFrame(
        {
            "Model": [one.what for one in learners],
            "Held-out accuracy (%)": [one.held_out for one in learners],
            f"Reached {LEARNED_PERCENT:.0f} % at step": [
                f"{at:,}" if (at := one.learned_at) else "not reached" for one in learners
            ],
            "Steps": [one.steps for one in learners],
            "Parameters": [one.parameters for one in learners],
            "Checkpoint": [one.checkpoint for one in learners],
        }
    )
    if outputs:
        rows.insert(2, "Writes", list(outputs))
    return rows


def learning_csv(learners: Sequence[Learner]) -> str:
    """Return a row for each model and validated step."""
    head = ["checkpoint", "model", "parameters", "step", "exact match on validation dates (%)"]
    rows = (
        [one.checkpoint, one.what, one.parameters, *point]
        for one in learners
        for point in one.curve
    )
    return csv_table(head, rows)
