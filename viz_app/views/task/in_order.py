"""The picture of predictions in an order: turns, both streams' masks, guesses and attention."""

from itertools import groupby
from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.analysis.distributions import check_softmax, entropy_bits, expectation
from models.trace import AttentionSite, Trace
from models.trace.outputs import TokenInOrder
from viz_app.drawing.labels import labels, token_label
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
from viz_app.words.allowed import has_own_mask

N_ORDERED_TOKENS = 10  # tokens of the distribution at the chosen position
STREAMS = {
    "content": "Content stream: itself, and what came before",
    "query": "Query stream: what came before, not itself",
}
CHANGED_STREAM = "{} stream, under the changed mask"


def draw_in_order(run: CurrentRun, output: TokenInOrder, choices: TaskChoices) -> DrawnOutput:
    """Draw the predictions at each position, and return their checks."""
    site, head = reading_site(run.trace, output.stream, choices.focus)
    position = shown_position(output, choices.position)
    checks = [
        *check_softmax(output.logits, output.log_probs),
        check_row(site, head, position),
        *([check_order(run.trace, output)] if follows_order(run.trace) else []),
    ]
    return {"order": _payload(run, output, position, site, head)}, checks


def shown_position(output: TokenInOrder, chosen: int | None) -> int:
    """Return the chosen position, by default the last one in the order."""
    return chosen if chosen is not None and chosen < len(output.order) else output.order[-1]


def follows_order(trace: Trace) -> bool:
    """Return True if no edit changes a mask, so that all masks are those of the order."""
    return all(map(has_own_mask, trace.attention.values()))


def _stream_title(role: str, site: AttentionSite) -> str:
    return STREAMS[role] if has_own_mask(site) else CHANGED_STREAM.format(role.capitalize())


def check_order(trace: Trace, output: TokenInOrder) -> Check:
    """Check that the masks of all layers and both streams are those of the order."""
    turn = {position: i for i, position in enumerate(output.order)}
    wrong = 0
    for site in trace.attention.values():
        for i, row in enumerate(site.allowed().tolist()):
            expected = {j for j in turn if turn[j] < turn[i] or (j == i and site.role == "content")}
            wrong += len(expected ^ {j for j, is_open in enumerate(row) if is_open})
    return Check(
        "both masks are those of the order",
        float(wrong),
        0.0,
        "Cells of all layers that are not as the order says",
    )


def _predicted_from(trace: Trace, position: int, n: int) -> set[int]:
    """Return the tokens that the masks let a prediction know, in one layer or through several."""
    content, query = np.eye(n, dtype=bool), np.zeros(n, bool)
    sites = sorted(trace.attention.values(), key=lambda site: site.layer)
    for _, layer in groupby(sites, key=lambda site: site.layer):
        allowed = {site.role: site.allowed(head=None).any(0).numpy() for site in layer}
        query = query | allowed["query"][position] @ content
        content = content | allowed["content"] @ content
    return set(np.flatnonzero(query).tolist())


def _payload(
    run: CurrentRun, output: TokenInOrder, position: int, site: AttentionSite, head: int
) -> bytes:
    tokenizer, names = run.scope.tokenizer, labels(run.trace.streams[output.stream])
    guess, bars = _guess(run, output, position)
    streams = {
        role: next(stream for stream in run.trace.attention.values() if stream.role == role)
        for role in STREAMS
    }
    row_header, row = attention_row_payload(run, site, head, position)
    top = output.log_probs.max(-1)
    header: dict[str, Any] = {
        "title": text.order_title(output), "summary": text.order_summary(output),
        **saving(file_name(run.trace, "order"), facts(run.trace)),
        "tokens": [token.as_json() for token in names], "order": list(output.order), "position": position,
        "expected": [token_label(tokenizer, token).as_json() for token in top.indices.tolist()],
        "streams": [[role, _stream_title(role, stream)] for role, stream in streams.items()], "axes": ["predicted", "seen"],
        "answer": guess, "reading": row_header,
    }  # fmt: skip
    arrays = {
        "surprisal": output.surprisal.numpy(),
        "best": top.values.exp().numpy(),
        **{role: stream.allowed().numpy().astype(np.uint8) for role, stream in streams.items()},
    }
    return pack(header, **arrays, **bars, **row)


def _guess(
    run: CurrentRun, output: TokenInOrder, position: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the distribution at a position: its header, and the arrays of its bars."""
    tokenizer, names = run.scope.tokenizer, labels(run.trace.streams[output.stream])
    known = _predicted_from(run.trace, position, len(output.order))
    log_probs, label = output.log_probs[position], output.labels[position]
    best = log_probs.topk(min(N_ORDERED_TOKENS, len(log_probs)))
    ids = best.indices.tolist()
    listed = ids if label in ids else [*ids, label]
    each = [expectation(log_probs, token) for token in listed]
    actual = expectation(log_probs, label)
    header = {
        "title": text.guess_title(names[position].text, 0, 1),
        "from": text.predicted_from([names[i].text for i in output.order if i in known], position == output.order[0]),
        "rows": [[token, token_label(tokenizer, token).as_json(), "true token" * (token == label)] for token in listed],
        "fact": text.actual_token(names[position].text, actual.probability, actual.surprisal, actual.rank, len(log_probs), "true token"),
        "rest": text.unlisted_tokens(len(ids), float(best.values.exp().sum()), entropy_bits(log_probs)),
    }  # fmt: skip
    return header, {
        "p": np.array([expected.probability for expected in each], np.float32),
        "ranks": np.array([expected.rank for expected in each], np.int32),
    }
