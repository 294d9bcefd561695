"""How a head came about: the loss curve with the moment shown, and one head over the snapshots as an animated picture."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from viz_app.drawing.colours import HATCH, PAPER, TEXT, ramp
from viz_app.drawing.labels import Label, shortened

FRAME_MS, LAST_FRAME_MS = 700, 2500
_CELL, _LEFT, _TOP, _FONT = 24, 120, 110, 13
_LONGEST_LABEL = 15  # characters
_LONGEST_PICTURE = 48  # tokens a side; beyond it the cells shrink
STEP_UNIT = 10  # steps; up to there the axis of the loss curve is nearly even
LOSSES = (
    "Loss a token: training (line), held-out dates or sentences (dots); the bar is the step shown"
)
LEAST_LOSS = 5e-5  # a record has four decimals, and 0 is on no log axis


@dataclass(frozen=True)
class Frame:
    """One head at one training step: how strongly each weight is drawn, float (query, key)."""

    step: int
    strengths: np.ndarray


def loss_curve(
    curve: Sequence[dict[str, float]], step: int, accent: str, quiet: str
) -> alt.LayerChart:
    """Training loss (nats a token) by step, the validation loss as points, the shown step as a rule. The loss is on a log axis,
    at whose lower end stands what is too small for the record; steps are spaced as log(1 + step/10), so that 0 has a place."""
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
        title=f"training step, spaced as log(1 + step/{STEP_UNIT})",
    )
    y = alt.Y(
        "at:Q",
        scale=alt.Scale(type="log"),
        title="loss (nats, log scale)",
        axis=alt.Axis(tickCount=4, format="~g"),
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
    return alt.layer(line, dots, here).properties(height=220)


def _point(step: int, loss: float, of: str) -> dict[str, Any]:
    """A loss as it was recorded, and where it stands on a log axis."""
    return {
        "step": step,
        "loss": f"{loss:.4g}" if loss else f"below {LEAST_LOSS:.5f}",
        "at": max(loss, LEAST_LOSS),
        "of": of,
    }


def two_losses(record: Mapping[str, Any], dropout: float) -> str:
    """That line and dots of the loss curve are not measured alike, and in what they differ in this run."""
    recipe = record.get("recipe")
    smoothing = recipe.get("label_smoothing") if isinstance(recipe, dict) else None
    if smoothing is None:
        said = "The line is what training lowered, dropout and label smoothing included where it had them; the dots are without."
    elif smoothing or dropout:
        said = (
            f"The line is what training lowered, batch by batch: dropout {dropout:g} and label smoothing {smoothing:g} are in it. "
            "The dots are without both, so their heights are not to be compared with the line's."
        )
    else:
        said = "This run had neither dropout nor label smoothing, so line and dots are measured alike: the line on its batches."
    averaged, last = record.get("averaged_steps"), record.get("step")
    if averaged and last:
        said += (
            f" From step {last - averaged + 1:,} on the dots and the last weights are averages over the steps since; the line and "
            "all earlier weights are of one step."
        )
    return said


def head_gif(
    frames: Sequence[Frame],
    queries: Sequence[Label],
    keys: Sequence[Label],
    blocked: np.ndarray,
    title: str,
    unit: str,
) -> bytes:
    """One head through training as an animated GIF: a frame a snapshot, tokens on both axes, masked cells hatched. `unit` says what
    the strongest colour stands for."""
    cell = max(4, min(_CELL, _CELL * _LONGEST_PICTURE // max(len(queries), len(keys))))
    pictures = [_picture(frame, queries, keys, blocked, title, cell, unit) for frame in frames]
    out = io.BytesIO()
    durations = [FRAME_MS] * (len(pictures) - 1) + [LAST_FRAME_MS]
    pictures[0].save(
        out, "GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0
    )
    return out.getvalue()


def _picture(
    frame: Frame,
    queries: Sequence[Label],
    keys: Sequence[Label],
    blocked: np.ndarray,
    title: str,
    cell: int,
    unit: str,
) -> Image.Image:
    rows, columns = frame.strengths.shape
    font, bold = _font(_FONT), _font(_FONT + 3)
    wide = max(_LEFT + columns * cell + 60, 30 + int(font.getlength(title)), 520)
    picture = Image.new("RGB", (wide, _TOP + rows * cell + 50), PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((12, 10), f"Training step {frame.step:,}", TEXT, bold)
    pen.text((12, 34), title, TEXT, font)
    for q in range(rows):
        for k in range(columns):
            _draw_cell(
                pen,
                _LEFT + k * cell,
                _TOP + q * cell,
                cell,
                frame.strengths[q, k],
                bool(blocked[q, k]),
            )
    if cell >= 10:
        for q, label in enumerate(queries):
            pen.text(
                (_LEFT - 6, _TOP + (q + 0.5) * cell),
                shortened(label.text, _LONGEST_LABEL),
                TEXT,
                font,
                anchor="rm",
            )
        for k, label in enumerate(keys):
            _slanted(
                picture,
                shortened(label.text, _LONGEST_LABEL),
                (_LEFT + int((k + 0.5) * cell), _TOP - 4),
                font,
            )
    _draw_scale(pen, _LEFT, _TOP + rows * cell + 16, font, unit)
    return picture


def _draw_cell(
    pen: ImageDraw.ImageDraw, x: int, y: int, size: int, strength: float, masked: bool
) -> None:
    box = (x, y, x + size - 1, y + size - 1)
    pen.rectangle(box, fill=PAPER if masked else ramp(float(strength)), outline="#d3d9e6")
    if masked:
        pen.line((x + 2, y + size - 3, x + size - 3, y + 2), fill=HATCH)


def _draw_scale(pen: ImageDraw.ImageDraw, x: int, y: int, font: Any, unit: str) -> None:
    for i in range(100):
        pen.line((x + i, y, x + i, y + 10), fill=ramp(i / 99))
    pen.text((x - 6, y + 5), "0", TEXT, font, anchor="rm")
    pen.text((x + 106, y + 5), f"{unit}; rows read, columns are read", TEXT, font, anchor="lm")


def _slanted(picture: Image.Image, text: str, foot: tuple[int, int], font: Any) -> None:
    strip = Image.new("L", (int(font.getlength(text)) + 4, _FONT + 6))
    ImageDraw.Draw(strip).text((0, 0), text, 255, font)
    turned = strip.rotate(55, expand=True)
    picture.paste(TEXT, (foot[0] - 6, foot[1] - turned.height), turned)


def _font(size: int) -> Any:
    try:
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)
