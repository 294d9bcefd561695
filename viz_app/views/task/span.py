"""The picture of an answer that is found in a text: how probable each beginning and end is, the most probable spans, the answer in
its context, and the rows of attention that its tokens read."""

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
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.choices import Choices
from viz_app.views.task.reading import Drawn, answering, check_row, reading

LISTED = 5  # spans
MOST_ROWS = 3  # tokens of an answer whose rows are shown
LEAST = -12.0  # nats: what is less probable looks the same


@dataclass(frozen=True)
class Candidate:
    """One span of tokens, first and last, and how probable it is."""

    start: int
    end: int
    log_prob: float  # ln p(start) + ln p(end), nats


def places(output: Span) -> range:
    """The positions that an answer may come from."""
    possible = output.start_logits.isfinite().nonzero().flatten().tolist()
    return range(possible[0], possible[-1] + 1)


def candidates(output: Span, n: int = LISTED) -> list[Candidate]:
    """The most probable spans, the best first."""
    width, flat = len(output.start_logits), output.log_probs.flatten()
    best = flat.topk(min(n, int(flat.isfinite().sum())))
    return [
        Candidate(i // width, i % width, p)
        for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def answer_text(row: Encoding, start: int, end: int) -> str:
    """The text of a span of tokens."""
    return row.text[row.offsets[start][0] : row.offsets[end][1]]


def span(run: CurrentRun, output: Span, choices: Choices) -> Drawn:
    """The picture of an output that says where in a text the answer stands, and what must hold of it."""
    site, head = answering(run.trace, output.stream, choices.focus)
    answer = range(output.start, output.end + 1)
    read = answer[:MOST_ROWS] if site is not None else ()
    logits = torch.stack([output.start_logits, output.end_logits])
    checks = [*check_softmax(logits, logits.float().log_softmax(-1)), check_best(output)]
    if read:
        checks.append(check_row(site, head, *read))
    return {"span": _payload(run, output, site, head, list(answer[:MOST_ROWS]))}, checks


def check_best(output: Span) -> Check:
    """No span whose end does not come before its start is more probable than the answer; all of them are tried."""
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
    row, inside = run.trace.streams[output.stream], places(output)
    own = labels(row)
    start, end = (
        logits.float().log_softmax(-1)[inside.start : inside.stop]
        for logits in (output.start_logits, output.end_logits)
    )
    best = candidates(output)
    first, last = row.offsets[inside.start][0], row.offsets[inside.stop - 1][1]
    answer = row.offsets[output.start][0], row.offsets[output.end][1]
    readings, arrays = [], {}
    for i, position in enumerate(read):
        header, row_arrays = reading(run, site, head, position, prefix=f"{i} ")
        readings.append(header)
        arrays |= row_arrays
    header: dict[str, Any] = {
        "title": text.span_title(next(iter(run.trace.fields.values()))),
        "file": file_name(run.trace, "span"), "tokens": [label.as_json() for label in own[inside.start : inside.stop]],
        "offset": inside.start, "answer": [output.start - inside.start, output.end - inside.start], "least": LEAST,
        "axes": text.SPAN_AXES, "scale": text.span_scale(LEAST), "ruled": text.RULED_OUT,
        "context": [row.text[first : answer[0]], row.text[answer[0] : answer[1]], row.text[answer[1] : last]],
        "rows": [
            [i, [answer_text(row, one.start, one.end), text.span_note(one.start, one.end), False], "answer" * (i == 0)]
            for i, one in enumerate(best)
        ],
        "fact": text.span_fact(output.text, float(start[output.start - inside.start]), float(end[output.end - inside.start])),
        "readings": readings, "more": text.more_rows(output.end - output.start + 1, len(read)),
    }  # fmt: skip
    p = np.exp([one.log_prob for one in best]).astype(np.float32)
    return pack(header, start=start.numpy(), end=end.numpy(), p=p, **arrays)
