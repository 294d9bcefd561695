"""The downloads of the page Decoding: both runs as a table, all arrays as npz, a step as SVG."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from models.decoding.run_rows import PassRows, StepRows
from models.decoding.runs import Run
from models.runs.scope import Scope
from models.trace.edits.base import path_or_module
from viz_app.drawing import svg
from viz_app.drawing.colours import ACCENT_COLOUR, HATCH_COLOUR, PAPER_COLOUR, TEXT_COLOUR, ramp
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import texts
from viz_app.drawing.labels import labels, token_label, token_labels
from viz_app.drawing.npz import Arrays, RowwiseArray
from viz_app.drawing.provenance import counted_from_one
from viz_app.views.decoding.decoding_facts import METHOD_NAMES
from viz_app.views.decoding.decoding_runs import DecodingRuns, ShownAttention
from viz_app.views.decoding.steps import (
    CANDIDATES,
    candidate_tokens,
    given_row,
    source_labels,
)

_COLUMNS = [
    "run",
    "position",
    "reads",
    "takes",
    "probability",
    "rank",
    "entropy (bits)",
    "forced",
    "from the cache",
]


def decoding_table(runs: DecodingRuns, scope: Scope) -> str:
    """Return a row for each position of each run, in exact float32."""
    choices = range(1, CANDIDATES + 1)
    head = [*_COLUMNS, *(f"choice {n}" for n in choices), *(f"p of choice {n}" for n in choices)]
    forced = dict(runs.method.forced)
    named_runs = [
        ("teacher-forced", runs.teacher_forced, {}),
        (f"autoregressive, {METHOD_NAMES[runs.method.strategy]}", runs.autoregressive, forced),
    ]
    if runs.unforced:
        named_runs.append(("autoregressive, nothing forced", runs.unforced, {}))
    rows = (
        [name, i, *_row(run, i, runs.n_text, forced_tokens, scope)]
        for name, run, forced_tokens in named_runs
        for i in range(len(run))
    )
    return csv_table(head, rows)


def _row(run: Run, i: int, n_text: int, forced: dict[int, int], scope: Scope) -> list:
    """Return a row, with tokens as on the screen.

    `n_text` is the number of text tokens before the run's first one.
    """
    p, token_taken = run.log_probs[i].exp(), run.taken[i]
    best = p.topk(min(CANDIDATES, len(p)))
    tokens = [
        token_label(scope.tokenizer, token, first=n_text + i == 0).text
        for token in best.indices.tolist()
    ]
    read_label, taken_label = token_labels(
        scope.tokenizer, (run.read[i], token_taken), n_text + i - 1
    )
    numbers = [
        str(p[token_taken].numpy()),
        int((p > p[token_taken]).sum()) + 1,
        str(run.entropy_bits[i].numpy()),
    ]
    return [
        read_label.text, taken_label.text, *numbers, int(forced.get(i) == token_taken), run.cached[i],
        *tokens, *[""] * (CANDIDATES - len(tokens)), *(str(v) for v in best.values.numpy()),
    ]  # fmt: skip


def arrays(runs: DecodingRuns, scope: Scope) -> Arrays:
    """Yield the given tokens, and the arrays of both runs under "parallel" and "serial".

    They are the ids of tokens read and taken, log-probabilities (position, vocab), the scores that
    tokens were chosen by where generation settings change them, entropies in bits, and every
    decoder site's weights (head, position, key), where self-attention to later keys is 0; for a
    recurrent decoder also its states and contexts (position, number).
    """
    field = scope.model.fields[0]
    n_given = runs.n_opening if scope.model.continues else None
    yield f"{field.name}_tokens", texts(labels(runs.trace.streams[field.stream])[:n_given])
    n_tokens = runs.teacher_forced.log_probs.shape[1]
    yield "vocabulary", texts(token_labels(scope.tokenizer, range(n_tokens), 1))
    for name, run in (("parallel", runs.teacher_forced), ("serial", runs.autoregressive)):
        yield f"{name}.read", np.array(run.read)
        yield f"{name}.taken", np.array(run.taken)
        yield f"{name}.log_probs", run.log_probs.numpy()
        if run.scores is not None:
            yield f"{name}.scores", run.scores.numpy()
        yield f"{name}.entropy_bits", run.entropy_bits.numpy()
        for site, rows in run.rows.items():
            shape = (rows.n_heads, len(rows), rows.n_key)
            yield (
                f"{name}.{counted_from_one(path_or_module(site))}",
                RowwiseArray(shape, np.float32, partial(_heads, rows)),
            )
        for part, values in run.states.items():
            yield f"{name}.{part}", values.numpy()


def _heads(rows: StepRows | PassRows) -> Iterator[np.ndarray]:
    """Yield the weights (position, key) of each head."""
    return (rows.weights(head).numpy() for head in range(rows.n_heads))


DIFFERS, FRAME = "#D55E00", "#8f96a3"
PITCH, RUNS_LEFT, RUNS_TOP, RUNS_ROW = 76, 150, 56, 32
HALF_WIDTH = 500  # width of each half below the rows

DrawnElements = tuple[list[str], float]  # elements, and the y where they end


def drawing(
    runs: DecodingRuns, scope: Scope, reading: ShownAttention, step: int, title: str
) -> str:
    """Return the drawing, with the autoregressive run up to `step` (from 0)."""
    width = max(RUNS_LEFT + PITCH * runs.n_steps, 2 * HALF_WIDTH) + 20
    parts, y = _rows(runs, scope, step)
    parts += [
        _text(RUNS_LEFT + (i + 0.5) * PITCH, RUNS_TOP - 10, str(i + 1), "middle", size=10)
        for i in range(runs.n_steps)
    ]
    parts.append(
        _box(
            RUNS_LEFT + step * PITCH,
            RUNS_TOP - 22,
            PITCH,
            y - RUNS_TOP + 22,
            stroke=ACCENT_COLOUR,
            stroke_width=2,
        )
    )
    if (d := runs.divergence) is not None:
        parts.append(
            _box(
                RUNS_LEFT + d * PITCH + 3,
                RUNS_TOP - 19,
                PITCH - 6,
                y - RUNS_TOP + 16,
                stroke=DIFFERS,
                stroke_dasharray="5 3",
            )
        )
    left, left_end = _step(
        10, y + 30, "Training, teacher-forced", runs.teacher_forced, step, runs, scope, reading
    )
    right, right_end = _step(
        10 + HALF_WIDTH, y + 30, "Inference", runs.autoregressive, step, runs, scope, reading
    )
    height = max(left_end, right_end) + 20
    return svg.svg_document(
        width, height, [_text(10, 22, title, weight=600), *parts, *left, *right]
    )


def _rows(runs: DecodingRuns, scope: Scope, step: int) -> DrawnElements:
    tokenizer = scope.tokenizer
    row = given_row(runs, tokenizer)[runs.n_opening - 1 :]
    best = token_labels(tokenizer, runs.teacher_forced.log_probs.argmax(-1).tolist(), runs.n_text)
    outputs = token_labels(tokenizer, runs.autoregressive.taken, runs.n_text)[: step + 1]
    rows = [("given text", row[1:]), ("decoder reads", row[:-1]), ("model predicts", best)]
    rows += [("inference reads", [row[0], *outputs][: len(outputs)]), ("and writes", outputs)]
    parts, y = [], RUNS_TOP
    for i, (name, tokens) in enumerate(rows):
        y += 14 if i == 3 else 0
        parts.append(_text(10, y + 16, name))
        for n, token in enumerate(tokens):
            parts.append(
                _box(RUNS_LEFT + n * PITCH + 6, y, PITCH - 12, 24, fill=PAPER_COLOUR, stroke=FRAME)
            )
            parts.append(_text(RUNS_LEFT + (n + 0.5) * PITCH, y + 16, _short(token.text), "middle"))
        y += RUNS_ROW
    return parts, y


def _step(
    x: float,
    y: float,
    name: str,
    run: Run,
    step: int,
    runs: DecodingRuns,
    scope: Scope,
    reading: ShownAttention,
) -> DrawnElements:
    """Draw one run at a position, or at its last one if shorter: bars, then both attention rows."""
    i = min(step, len(run) - 1)
    parts = [
        _text(
            x,
            y,
            f"{name}, position {i + 1}: entropy {float(run.entropy_bits[i]):.3f} bits",
            weight=600,
        )
    ]
    bars, y = _bars(x, y, run, i, runs.n_text, scope)
    parts += bars
    opening = given_row(runs, scope.tokenizer)[: runs.n_opening]
    is_given = run is runs.teacher_forced and runs.sees_ahead  # what comes later may be attended to
    end = len(run) if is_given else i + 1
    keys = [*opening, *token_labels(scope.tokenizer, run.read[1:end], runs.n_text)]
    source = runs.trace.attention[reading.cross].key_stream if reading.cross else ""
    crossing = f"{reading.cross_name} to the {source}", reading.cross, source_labels(runs, reading)
    read = crossing, ("Self-attention", reading.self_attention, keys)
    for what, site, tokens in read:
        if not site:
            continue
        weights = run.weights(site, reading.head)[i].tolist()
        chips, y = _chips(
            x, y + 26, f"{what} ({reading.name})", [_short(token.text) for token in tokens], weights
        )
        parts += chips
    return parts, y


def _bars(x: float, y: float, run: Run, i: int, n_text: int, scope: Scope) -> DrawnElements:
    """Draw a bar for the probability of each candidate at a position; `n_text` as in `_row`."""
    ids, parts = candidate_tokens(run)[i], []
    for token, p in zip(ids.tolist(), run.log_probs[i][ids].exp().tolist(), strict=True):
        y += 18
        label = token_label(scope.tokenizer, token, first=n_text + i == 0)
        fill = ACCENT_COLOUR if token == run.taken[i] else HATCH_COLOUR
        parts += [
            _text(x + 84, y, _short(label.text), "end"),
            _box(x + 90, y - 11, max(0.5, 200 * p), 13, fill=fill, title=repr(p)),
            _text(x + 296, y, f"{p:.3f}"),
        ]
    return parts, y


def _chips(x: float, y: float, what: str, tokens: list[str], weights: list[float]) -> DrawnElements:
    parts, across, down = [_text(x, y, what)], 0.0, y + 8
    for token, weight in zip(tokens, weights, strict=False):  # keys of the future have no token
        wide = max(34, 8 * len(token) + 10)
        if across + wide > HALF_WIDTH - 30:
            across, down = 0.0, down + 36
        middle, ink = x + across + wide / 2 - 1, PAPER_COLOUR if weight > 0.45 else TEXT_COLOUR
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
    x: float,
    y: float,
    wide: float,
    tall: float,
    fill: str = "none",
    title: str = "",
    **look: object,
) -> str:
    return svg.rectangle(x, y, wide, tall, fill, title, rx=3, **look)


def _text(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    size: int = 12,
    weight: int = 400,
    ink: str = TEXT_COLOUR,
) -> str:
    return svg.svg_text(x, y, text, anchor, font_size=size, font_weight=weight, fill=ink)
