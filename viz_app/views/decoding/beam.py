"""The beam as a tree: hypotheses by step, their parents and scores, and one node's attention."""

from typing import Any

import numpy as np

from models.decoding import BeamStep, Hypothesis
from models.decoding.runs import Run
from models.runs.scope import Scope
from viz_app import words
from viz_app.drawing.labels import token_label, token_labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import saving
from viz_app.views.decoding.decoding_facts import decoding_facts
from viz_app.views.decoding.decoding_runs import DecodingRuns, ShownAttention
from viz_app.views.decoding.steps import candidate_tokens, given_row, source_labels


def nearest_node(steps: tuple[BeamStep, ...], node: tuple[int, int] | None) -> tuple[int, int]:
    """Return the requested (step, rank) if it exists, else where the best hypothesis ended."""
    if node and node[0] < len(steps) and node[1] < len(steps[node[0]].hypotheses):
        return node
    last, rank = len(steps) - 1, 0
    # back to the step where it ended, before the steps in which it was only carried along
    while last and len(steps[last].hypotheses[rank].tokens) <= last:
        last, rank = last - 1, steps[last].hypotheses[rank].parent
    return last, rank


def best_path(steps: tuple[BeamStep, ...]) -> set[tuple[int, int]]:
    """Return the (step, rank) pairs that lead to the best hypothesis."""
    path, rank = set(), 0
    for step in reversed(steps):
        path.add((step.index, rank))
        rank = step.hypotheses[rank].parent
    return path


def beam_tree(
    steps: tuple[BeamStep, ...],
    node: tuple[int, int],
    run: Run,
    runs: DecodingRuns,
    scope: Scope,
    reading: ShownAttention,
    terms: words.Terms,
    alpha: float,
) -> bytes:
    """Return the payload of the component `beam_tree`.

    `run` is the single pass over the node's tokens, whose last position is shown.
    """
    path = best_path(steps)
    hypothesis = steps[node[0]].hypotheses[node[1]]
    n_text = runs.n_text
    opening = given_row(runs, scope.tokenizer)[: runs.n_opening]
    inputs = [*opening, *token_labels(scope.tokenizer, hypothesis.tokens[:-1], n_text)]
    is_first = len(hypothesis.tokens) + n_text == 1
    ids = candidate_tokens(run)[-1:]
    header: dict[str, Any] = {
        "steps": [
            [_node(h, (s.index, r), n_text, path, scope) for r, h in enumerate(s.hypotheses)]
            for s in steps
        ],
        "node": list(node),
        "source": [label.as_json() for label in source_labels(runs, reading)],
        "read": [label.as_json() for label in inputs],
        "token": token_label(scope.tokenizer, hypothesis.tokens[-1], first=is_first).as_json(),
        "candidates": [
            token_label(scope.tokenizer, i, first=is_first).as_json() for i in ids[0].tolist()
        ],
        "reading": reading.name,
        "cross": reading.cross_name,
        "sourceName": terms.of(runs.trace.attention[reading.cross].key_stream).text
        if reading.cross
        else "",
        "taken": hypothesis.tokens[-1],
        "alpha": alpha,
        **saving(file_name(runs.trace, "beam"), decoding_facts(runs, scope.tokenizer)),
    }
    return pack(
        header,
        ids=ids[0].numpy().astype(np.int32),
        p=run.log_probs[-1:].gather(1, ids).exp()[0].numpy(),
        **{
            part: run.weights(site, reading.head)[-1].numpy()
            for part, site in (("cross", reading.cross), ("self", reading.self_attention))
            if site
        },
    )


def _node(
    h: Hypothesis, at: tuple[int, int], n_text: int, path: set, scope: Scope
) -> dict[str, Any]:
    """Return a node of the tree; `carried` if its hypothesis had ended before this step."""
    carried = len(h.tokens) <= at[0]
    return {
        "label": token_label(
            scope.tokenizer, h.tokens[-1], first=len(h.tokens) + n_text == 1
        ).as_json(),
        "text": scope.tokenizer.decode(h.tokens),
        "logProb": h.log_prob,
        "score": h.score,
        "total": h.total,
        "n": len(h.tokens),
        "parent": h.parent,
        "best": at in path,
        "ended": h.ended,
        "carried": carried,
    }
