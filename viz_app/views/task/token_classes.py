"""The picture of a class for each token: the text with the class of every token, the distribution at one of them, and the row of
attention of that token."""

from collections import Counter
from typing import Any

import numpy as np

from models.analysis.distributions import check_softmax
from models.trace import AttentionSite
from models.trace.outputs import TokenClasses
from viz_app.drawing.labels import labels
from viz_app.drawing.payload import pack
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import token_classes_text as text
from viz_app.views.task.choices import Choices
from viz_app.views.task.reading import Drawn, answering, check_row, reading

LISTED = 10  # classes of the distribution at the chosen token


def token_classes(run: CurrentRun, output: TokenClasses, choices: Choices) -> Drawn:
    """Draw an output that gives each token a class; return also what must hold of it."""
    site, head = answering(run.trace, output.stream, choices.focus)
    position = chosen_token(run, output, choices)
    checks = check_softmax(output.logits, output.log_probs)
    if site is not None:
        checks.append(check_row(site, head, position))
    return {"answers": _payload(run, output, position, site, head)}, checks


def chosen_token(run: CurrentRun, output: TokenClasses, choices: Choices) -> int:
    """The chosen position; where there is none, the first token of the text whose class is the rarest."""
    row, names = run.trace.streams[output.stream], output.predicted
    if choices.position is not None and choices.position < len(names):
        return choices.position
    typed = [i for i, offset in enumerate(row.offsets) if offset is not None] or [0]
    count = Counter(names[i] for i in typed)
    return min(typed, key=lambda i: (count[names[i]], i))


def _payload(
    run: CurrentRun, output: TokenClasses, position: int, site: AttentionSite | None, head: int
) -> bytes:
    tokens, p = labels(run.trace.streams[output.stream]), output.log_probs.exp()
    token, best = tokens[position], p[position].topk(min(LISTED, len(output.names)))
    said, row = reading(run, site, head, position)
    listed = best.indices.tolist()
    header: dict[str, Any] = {
        "kind": "classes",
        "title": text.TITLE,
        "opening": None,
        "places": [label.as_json() for label in tokens],
        "classes": list(output.predicted),
        "position": position,
        "scale": text.SCALE,
        "summary": text.summary(output.predicted),
        "answer": {
            "title": text.answer_title(token.text, token.special),
            "rows": [[i, [output.names[i], "", False], ""] for i in listed],
            "fact": text.fact(output.predicted[position], float(best.values[0])),
            "rest": text.rest(len(listed), len(output.names), float(best.values.sum())),
        },
        "reading": said,
    }
    ranks = np.arange(1, len(listed) + 1, dtype=np.int32)
    probability = p.max(-1).values.numpy()
    return pack(header, probability=probability, p=best.values.numpy(), ranks=ranks, **row)
