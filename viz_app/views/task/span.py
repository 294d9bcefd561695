"""The picture of an extracted answer: start and end, best spans, context, and attention rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from models.analysis.checks import Check
from models.analysis.distributions import check_softmax
from models.tokenizers.base import Encoding
from models.trace import AttentionSite
from models.trace.outputs import Span
from viz_app.drawing.labels import labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.reading import (
    DrawnOutput,
    TaskChoices,
    attention_row_payload,
    check_row,
    reading_site,
)

N_SPANS = 5  # spans
MAX_READING_ROWS = 3  # tokens of an answer whose attention rows are shown
MIN_LOG_PROBABILITY = -12.0  # nats: the lower end of the colour scale


@dataclass(frozen=True)
class Candidate:
    """A span of tokens, both ends included, and its log-probability."""

    start: int
    end: int
    log_prob: float  # ln p(start) + ln p(end), nats


def answer_positions(output: Span) -> range:
    """Return the positions that an answer may come from."""
    possible = output.start_logits.isfinite().nonzero().flatten().tolist()
    return range(possible[0], possible[-1] + 1)


def candidate_spans(output: Span, n: int = N_SPANS) -> list[Candidate]:
    """Return the n most probable spans, best first."""
    width, flat = len(output.start_logits), output.log_probs.flatten()
    best = flat.topk(min(n, int(flat.isfinite().sum())))
    return [
        Candidate(i // width, i % width, p)
        for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def answer_text(row: Encoding, start: int, end: int) -> str:
    """Return the text of a span of tokens."""
    return row.text[row.offsets[start][0] : row.offsets[end][1]]


def draw_span(run: CurrentRun, output: Span, choices: TaskChoices) -> DrawnOutput:
    """Draw the answer as a span of the text, and return its checks."""
    site, head = reading_site(run.trace, output.stream, choices.focus)
    answer = range(output.start, output.end + 1)
    rows = answer[:MAX_READING_ROWS] if site is not None else ()
    logits = torch.stack([output.start_logits, output.end_logits])
    checks = [*check_softmax(logits, logits.float().log_softmax(-1)), check_best(output)]
    if rows:
        checks.append(check_row(site, head, *rows))
    return {"span": _payload(run, output, site, head, list(answer[:MAX_READING_ROWS]))}, checks


def check_best(output: Span) -> Check:
    """Check by trying all valid spans that none is more probable than the answer."""
    start, end = (
        logits.double().log_softmax(-1).tolist()
        for logits in (output.start_logits, output.end_logits)
    )
    best = max(start[i] + max(end[i:]) for i in range(len(start)))
    gap = best - (start[output.start] + end[output.end])
    return Check(
        "no span is more probable",
        gap,
        1e-5,
        "ln p by which the best of all spans, tried one by one, exceeds the answer",
    )


def _payload(
    run: CurrentRun, output: Span, site: AttentionSite | None, head: int, read: list[int]
) -> bytes:
    row, inside = run.trace.streams[output.stream], answer_positions(output)
    token_labels = labels(row)
    start, end = (
        logits.float().log_softmax(-1)[inside.start : inside.stop]
        for logits in (output.start_logits, output.end_logits)
    )
    best = candidate_spans(output)
    first, last = row.offsets[inside.start][0], row.offsets[inside.stop - 1][1]
    answer = row.offsets[output.start][0], row.offsets[output.end][1]
    readings, arrays = [], {}
    for i, position in enumerate(read):
        header, row_arrays = attention_row_payload(run, site, head, position, prefix=f"{i} ")
        readings.append(header)
        arrays |= row_arrays
    header: dict[str, Any] = {
        "title": text.span_title(next(iter(run.trace.fields.values()))),
        **saving(file_name(run.trace, "span"), facts(run.trace)),
        "tokens": [label.as_json() for label in token_labels[inside.start : inside.stop]],
        "offset": inside.start, "answer": [output.start - inside.start, output.end - inside.start], "least": MIN_LOG_PROBABILITY,
        "axes": text.SPAN_AXES, "scale": text.span_scale(MIN_LOG_PROBABILITY), "ruled": text.RULED_OUT,
        "context": [row.text[first : answer[0]], row.text[answer[0] : answer[1]], row.text[answer[1] : last]],
        "rows": [
            [i, [answer_text(row, candidate.start, candidate.end), text.span_note(candidate.start, candidate.end), False], "answer" * (i == 0)]
            for i, candidate in enumerate(best)
        ],
        "fact": text.span_fact(output.text, float(start[output.start - inside.start]), float(end[output.end - inside.start])),
        "readings": readings, "more": text.more_rows(output.end - output.start + 1, len(read)),
    }  # fmt: skip
    p = np.exp([candidate.log_prob for candidate in best]).astype(np.float32)
    return pack(header, start=start.numpy(), end=end.numpy(), p=p, **arrays)
