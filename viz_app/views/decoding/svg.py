"""One decoding step as an SVG for print, on white: both rows of tokens, and that step's probabilities and attention."""

from html import escape

from models.decoding.runs import Run
from models.runs.scope import Scope
from viz_app.drawing.colours import ACCENT, HATCH, PAPER, TEXT, ramp
from viz_app.drawing.labels import token_label, token_labels
from viz_app.views.decoding.shown_attention import ShownAttention
from viz_app.views.decoding.steps import candidates, given_row, source_labels
from viz_app.views.decoding.story import Story

DIFFERS, FRAME = "#D55E00", "#8f96a3"
PITCH, LEFT, TOP, ROW = 76, 150, 56, 32
SIDE = 500  # of one of the two halves under the rows

Drawn = tuple[list[str], float]  # elements, and the y where they end


def drawing(story: Story, scope: Scope, reading: ShownAttention, step: int, title: str) -> str:
    """The whole drawing; inference is drawn as far as it has come at `step` (from 0)."""
    width = max(LEFT + PITCH * story.n_steps, 2 * SIDE) + 20
    parts, y = _rows(story, scope, step)
    parts += [
        _text(LEFT + (i + 0.5) * PITCH, TOP - 10, str(i + 1), "middle", size=10)
        for i in range(story.n_steps)
    ]
    parts.append(
        _box(LEFT + step * PITCH, TOP - 22, PITCH, y - TOP + 22, stroke=ACCENT, stroke_width=2)
    )
    if (d := story.divergence) is not None:
        parts.append(
            _box(
                LEFT + d * PITCH + 3,
                TOP - 19,
                PITCH - 6,
                y - TOP + 16,
                stroke=DIFFERS,
                stroke_dasharray="5 3",
            )
        )
    left, left_end = _step(
        10, y + 30, "Training, teacher-forced", story.parallel, step, story, scope, reading
    )
    right, right_end = _step(
        10 + SIDE, y + 30, "Inference", story.serial, step, story, scope, reading
    )
    height = max(left_end, right_end) + 20
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}"'
    body = [
        _box(0, 0, width, height, fill=PAPER),
        _text(10, 22, title, weight=600),
        *parts,
        *left,
        *right,
    ]
    return f'{start} font-family="sans-serif" fill="{TEXT}">{"".join(body)}</svg>'


def _rows(story: Story, scope: Scope, step: int) -> Drawn:
    tokenizer = scope.tokenizer
    row = given_row(story, tokenizer)[story.n_opening - 1 :]
    best = token_labels(tokenizer, story.parallel.log_probs.argmax(-1).tolist(), story.n_text)
    written = token_labels(tokenizer, story.serial.taken, story.n_text)[: step + 1]
    rows = [("given text", row[1:]), ("decoder reads", row[:-1]), ("model predicts", best)]
    rows += [("inference reads", [row[0], *written][: len(written)]), ("and writes", written)]
    parts, y = [], TOP
    for i, (name, tokens) in enumerate(rows):
        y += 14 if i == 3 else 0
        parts.append(_text(10, y + 16, name))
        for n, token in enumerate(tokens):
            parts.append(_box(LEFT + n * PITCH + 6, y, PITCH - 12, 24, fill=PAPER, stroke=FRAME))
            parts.append(_text(LEFT + (n + 0.5) * PITCH, y + 16, _short(token.text), "middle"))
        y += ROW
    return parts, y


def _step(
    x: float,
    y: float,
    name: str,
    run: Run,
    step: int,
    story: Story,
    scope: Scope,
    reading: ShownAttention,
) -> Drawn:
    """One run at one position, its last one if it is shorter: bars, then both rows of attention."""
    i = min(step, len(run) - 1)
    parts = [
        _text(
            x, y, f"{name}, position {i + 1}: entropy {float(run.entropy[i]):.3f} nats", weight=600
        )
    ]
    ids = candidates(run)[i]
    for token, p in zip(ids.tolist(), run.log_probs[i][ids].exp().tolist(), strict=True):
        y += 18
        parts.append(
            _text(
                x + 84,
                y,
                _short(token_label(scope.tokenizer, token, first=i + story.n_text == 0).text),
                "end",
            )
        )
        fill = ACCENT if token == run.taken[i] else HATCH
        parts.append(_box(x + 90, y - 11, max(0.5, 200 * p), 13, fill=fill, title=repr(p)))
        parts.append(_text(x + 296, y, f"{p:.3f}"))
    opening = given_row(story, scope.tokenizer)[: story.n_opening]
    own = [*opening, *token_labels(scope.tokenizer, run.read[1 : i + 1], story.n_text)]
    source = story.trace.attention[reading.cross].key_stream if reading.cross else ""
    beside = f"{reading.cross_name} to the {source}", reading.cross, source_labels(story, reading)
    read = beside, ("Self-attention", reading.own, own)
    for what, site, tokens in read:
        if not site:
            continue
        weights = run.weights(site, reading.head)[i].tolist()
        drawn, y = _chips(
            x, y + 26, f"{what} ({reading.name})", [_short(token.text) for token in tokens], weights
        )
        parts += drawn
    return parts, y


def _chips(x: float, y: float, what: str, tokens: list[str], weights: list[float]) -> Drawn:
    parts, across, down = [_text(x, y, what)], 0.0, y + 8
    for token, weight in zip(tokens, weights, strict=False):  # keys of the future have no token
        wide = max(34, 8 * len(token) + 10)
        if across + wide > SIDE - 30:
            across, down = 0.0, down + 36
        middle, ink = x + across + wide / 2 - 1, PAPER if weight > 0.45 else TEXT
        parts.append(
            _box(
                x + across,
                down,
                wide - 3,
                32,
                fill=ramp(weight),
                stroke="#d3d9e6",
                title=repr(weight),
            )
        )
        parts += [
            _text(middle, down + 14, token, "middle", ink=ink),
            _text(middle, down + 27, f"{weight:.2f}", "middle", 9, ink=ink),
        ]
        across += wide
    return parts, down + 36


def _short(token: str) -> str:
    return token if len(token) <= 9 else f"{token[:4]}…{token[-4:]}"


def _box(
    x: float, y: float, wide: float, tall: float, fill: str = "none", title: str = "", **how: object
) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in how.items())
    said = f"<title>{escape(title)}</title>" if title else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" rx="3" fill="{fill}"{more}>{said}</rect>'


def _text(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    size: int = 12,
    weight: int = 400,
    ink: str = TEXT,
) -> str:
    look = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{ink}" style="unicode-bidi:plaintext"'
    return f'<text x="{x:g}" y="{y:g}" {look}>{escape(text)}</text>'
