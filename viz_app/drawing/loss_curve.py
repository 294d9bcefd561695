"""The loss curve of a training run, with a rule at the shown step."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from models.number_text import percent
from models.tasks.classify import ClassifyTask
from models.tasks.masked import SHARE_HIDDEN, MaskedTask

STEP_UNIT = 10  # steps; below that, the symlog axis is nearly linear
LOSSES_CAPTION = (
    "Loss per prediction, such as a token: training (line), held-out (dots); bar = current step. The losses are on a"
    f" logarithmic scale, the steps spaced as log(1 + step/{STEP_UNIT})."
)
CURVE_HEIGHT = 150  # px with axes; the pictures below the chart stay visible
MIN_LOSS = 5e-5  # half the last of a record's four decimals; a log axis cannot show 0


def loss_curve(
    curve: Sequence[dict[str, float]], step: int, accent: str, quiet: str
) -> alt.LayerChart:
    """Draw the training loss (nats per prediction) by step, the validation loss as points.

    A rule marks the shown step. The loss axis is logarithmic down to MIN_LOSS; steps are spaced
    as log(1 + step/10), so that step 0 can be shown.
    """
    rows = [row for row in curve if row.get("step", 0) > 0]
    training = [_point(r["step"], r["loss"], "training") for r in rows if "loss" in r]
    held_out = [
        _point(r["step"], r["validation loss"], "validation")
        for r in rows
        if "validation loss" in r
    ]
    x = alt.X(
        "step:Q",
        scale=alt.Scale(type="symlog", constant=STEP_UNIT),
        axis=alt.Axis(tickCount=6),
        title="training step",
    )
    y = alt.Y(
        "at:Q",
        scale=alt.Scale(type="log"),
        title="loss (nats)",
        axis=alt.Axis(tickCount=3, format="~g"),
    )
    tip = ["of:N", "step:Q", "loss:N"]
    line = (
        alt.Chart(alt.Data(values=training))
        .mark_line(color=quiet, strokeWidth=1.5)
        .encode(x=x, y=y, tooltip=tip)
    )
    dots = (
        alt.Chart(alt.Data(values=held_out))
        .mark_point(color=accent, filled=True, size=36)
        .encode(x=x, y=y, tooltip=tip)
    )
    here = (
        alt.Chart(alt.Data(values=[{"step": step}]))
        .mark_rule(color=accent, strokeWidth=2)
        .encode(x="step:Q")
    )
    return alt.layer(line, dots, here).properties(height=CURVE_HEIGHT)


def loss_text(loss: float, digits: int = 4) -> str:
    """Return a recorded loss with this many significant digits; one recorded as 0 is only small."""
    return f"{loss:.{digits}g}" if loss else f"below {MIN_LOSS:.5f}"


def _point(step: int, loss: float, series: str) -> dict[str, Any]:
    """Return a point of the curve: the recorded loss, and its position on the log axis."""
    return {
        "step": step,
        "loss": loss_text(loss),
        "at": max(loss, MIN_LOSS),
        "of": series,
    }


def two_losses(record: Mapping[str, Any], dropout: float) -> str:
    """Explain how the training loss (line) and the validation loss (dots) differ in this run."""
    recipe = record.get("recipe")
    smoothing = recipe.get("label_smoothing") if isinstance(recipe, dict) else None
    if smoothing is None:
        text = (
            "The line is the training loss, with dropout and label smoothing where it had them; the dots are "
            "without."
        )
    elif smoothing or dropout:
        text = (
            f"The line is the training loss of each batch, with dropout {dropout:g} and label smoothing {smoothing:g}. The"
            " dots are without both, so their heights must not be compared with the line's."
        )
    elif record.get("task") == MaskedTask.name:
        text = "This run had neither dropout nor label smoothing."
    else:
        text = "This run had neither dropout nor label smoothing, so line and dots are measured alike: the line on its batches."
    if record.get("task") == MaskedTask.name:
        text += f" In training, {percent(1 - SHARE_HIDDEN)} of the tokens to predict are not masked; for the dots, all are."
    text += _second_loss(record)
    averaged, last = record.get("averaged_steps"), record.get("step")
    if averaged and last:
        text += (
            f" From step {last - averaged + 1:,} on, the dots and the last weights are averages over the steps since. "
            "The line and all earlier weights are of one step."
        )
    return text


def _second_loss(record: Mapping[str, Any]) -> str:
    """Name the second loss that a run adds to its first; "" if it has one only."""
    data, task = record.get("data"), record.get("task")
    if task == MaskedTask.name:
        return " Both add the mean loss of the next-sentence guesses to that of the masked tokens."
    weight = data.get("lm_weight") if isinstance(data, dict) else None
    if task == ClassifyTask.name and isinstance(weight, int | float) and weight:
        return f" Both add {weight:g} times the mean loss of the texts' tokens to that of their classes."
    return ""
