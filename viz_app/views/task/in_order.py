"""The picture of predictions in an order: the tokens in the order of their turns, who may predict whom in both streams, what was
expected at one position, and the row of attention of its query stream."""

from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.analysis.distributions import check_softmax, entropy, expectation
from models.trace import AttentionSite, Trace
from models.trace.outputs import TokenInOrder
from viz_app.drawing.labels import labels, token_label
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.choices import Choices
from viz_app.views.task.reading import Drawn, answering, check_row, reading

LISTED = 10  # tokens of the distribution at the chosen position
STREAMS = {
    "content": "Content stream: itself, and what came before",
    "query": "Query stream: what came before, not itself",
}


def in_order(run: CurrentRun, output: TokenInOrder, choices: Choices) -> Drawn:
    """The picture of an output that says what was expected at each position, and what must hold of it."""
    site, head = answering(run.trace, output.stream, choices.focus)
    position = shown_position(output, choices.position)
    checks = [
        *check_softmax(output.logits, output.log_probs),
        check_row(site, head, position),
        check_order(run.trace, output),
    ]
    return {"order": _payload(run, output, position, site, head)}, checks


def shown_position(output: TokenInOrder, chosen: int | None) -> int:
    """The chosen position; where there is none, that of the last turn, which is predicted from all others."""
    return chosen if chosen is not None and chosen < len(output.order) else output.order[-1]


def check_order(trace: Trace, output: TokenInOrder) -> Check:
    """Every stream of every layer may see what the order says, and nothing else."""
    turn = {position: i for i, position in enumerate(output.order)}
    wrong = 0
    for site in trace.attention.values():
        for i, row in enumerate(site.allowed().tolist()):
            sees = {j for j in turn if turn[j] < turn[i] or (j == i and site.role == "content")}
            wrong += len(sees ^ {j for j, is_open in enumerate(row) if is_open})
    return Check(
        "both masks are those of the order",
        float(wrong),
        0.0,
        "Cells of all layers that are not as the order says",
    )


def _payload(
    run: CurrentRun, output: TokenInOrder, position: int, site: AttentionSite, head: int
) -> bytes:
    tokenizer, own = run.scope.tokenizer, labels(run.trace.streams[output.stream])
    before = output.order[: output.order.index(position)]
    log_probs, label = output.log_probs[position], output.labels[position]
    best = log_probs.topk(min(LISTED, len(log_probs)))
    ids = best.indices.tolist()
    listed = ids if label in ids else [*ids, label]
    each, mine = [expectation(log_probs, one) for one in listed], expectation(log_probs, label)
    masks = {
        role: next(one for one in run.trace.attention.values() if one.role == role)
        for role in STREAMS
    }
    row_header, row = reading(run, site, head, position)
    top = output.log_probs.max(-1)
    header: dict[str, Any] = {
        "title": text.order_title(output), "summary": text.order_summary(output), "file": file_name(run.trace, "order"),
        "tokens": [one.as_json() for one in own], "order": list(output.order), "position": position,
        "expected": [token_label(tokenizer, one).as_json() for one in top.indices.tolist()],
        "streams": [[role, title] for role, title in STREAMS.items()], "axes": ["predicted", "seen"],
        "answer": {
            "title": text.guess_title(own[position].text, 0, 1),
            "from": text.predicted_from([own[i].text for i in before]),
            "rows": [[one, token_label(tokenizer, one).as_json(), "stands there" * (one == label)] for one in listed],
            "fact": text.fact(own[position].text, mine.probability, mine.surprisal, mine.rank, len(log_probs), "stands there"),
            "rest": text.rest(len(ids), float(best.values.exp().sum()), entropy(log_probs)),
        },
        "reading": row_header,
    }  # fmt: skip
    arrays = {
        "surprisal": output.surprisal.numpy(),
        "best": top.values.exp().numpy(),
        "p": np.array([one.probability for one in each], np.float32),
        "ranks": np.array([one.rank for one in each], np.int32),
        **{role: one.allowed().numpy().astype(np.uint8) for role, one in masks.items()},
    }
    return pack(header, **arrays, **row)
