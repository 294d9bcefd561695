"""The picture of next-token predictions: the text, one distribution, and one attention row."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.analysis.expectations import Expectations, check_expectations, expectations
from models.tokenizers.base import Tokenizer
from models.trace.outputs import NextToken, Output
from viz_app.drawing.labels import Label, labels, token_label, token_labels
from viz_app.drawing.over_file import over_file
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.scale import AUTO, Scale
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.reading import (
    DrawnOutput,
    TaskChoices,
    attention_row_payload,
    check_row,
    no_row,
    reading_site,
)
from viz_app.words.allowed import predicts_seen_tokens

N_NEXT_TOKENS = 10  # tokens listed of the distribution at the chosen position
ALTERNATIVES = 3  # tokens listed at every position of a text that the model wrote


@dataclass(frozen=True)
class NextTokenView:
    """The shown predictions of a run: the output, its expectations, and the chosen position."""

    run: CurrentRun
    output: NextToken
    expectations: Expectations
    position: int

    @property
    def tokenizer(self) -> Tokenizer:
        return self.run.scope.tokenizer

    @property
    def tokens(self) -> list[Label]:
        """The token at each position."""
        return labels(self.run.trace.streams[self.output.stream])

    @property
    def following(self) -> list[Label]:
        """The token after each position that has one."""
        end = token_labels(self.tokenizer, self.output.labels[-1:]) if self.output.is_closed else []
        return [*self.tokens[1:], *end]

    @property
    def mark(self) -> str:
        """The word for the token that actually follows: "follows", "given" or "written"."""
        if not self.output.is_closed:
            return "follows"
        return "given" if self.run.trace.teacher_forced else "written"


def next_token_view(run: CurrentRun, choices: TaskChoices) -> NextTokenView:
    """Return the view of this run at the chosen position.

    By default it is the last position of an unfinished text, else the most surprising one.
    """
    output = run.trace.next_token
    expected, n = expectations(output), len(output.logits)
    position = choices.position
    if position is None or position >= n:
        ends = output.is_closed or not run.scope.model.can_write
        position = int(expected.surprisal.argmax()) if ends else n - 1
    return NextTokenView(run, output, expected, position)


def clicked_position(output: Output, position: int) -> int | None:
    """Return the choice for a click on this position.

    It is None at the end of an unfinished text, so that the shown prediction stays the next one
    while the text grows.
    """
    is_open_end = (
        isinstance(output, NextToken) and not output.is_closed and position == len(output.labels)
    )
    return None if is_open_end else position


def next_token(run: CurrentRun, output: NextToken, choices: TaskChoices) -> DrawnOutput:
    """Draw the predictions after each token, and return their checks."""
    view = next_token_view(run, choices)
    site, head = reading_site(run.trace, output.stream, choices.focus)
    checks = check_expectations(output) + (
        [] if site is None else [check_row(site, head, view.position)]
    )
    over = {}  # a row over a sound is drawn there
    if site is not None:
        over, _ = over_file(run.trace, site, head, f"q{view.position}", Scale(AUTO))
    row = no_row() if over else attention_row_payload(run, site, head, view.position)
    return {"answers": next_token_payload(view, *row), **over}, checks


def next_token_payload(
    view: NextTokenView, reading: dict[str, Any], row: dict[str, np.ndarray]
) -> bytes:
    """Return the payload of the component `answers`, with the header and arrays of a row."""
    run, output, expected = view.run, view.output, view.expectations
    following, field = view.following, _field(run, output.stream)
    is_seen = predicts_seen_tokens(run.trace, output.stream)
    given = text.GIVEN_LATER if is_seen else text.GIVEN_BEFORE
    header: dict[str, Any] = {
        "kind": "alternatives" if output.is_closed else "surprisal",
        "title": text.predictions_title(
            run.terms, output, field, run.trace.teacher_forced, given=given
        ),
        **saving(file_name(run.trace, "predictions"), facts(run.trace)),
        "opening": None if output.is_closed else view.tokens[0].as_json(),
        "places": [label.as_json() for label in following] + [None] * (not output.is_closed),
        "position": view.position,
        "most": math.log2(output.logits.shape[1]),
        "scale": text.colour_scale_labels(output),
        "alternatives": [],
        "summary": text.difficulty_summary(expected),
    }
    arrays = {
        "surprisal": expected.surprisal.numpy(),
        "probability": expected.probability.numpy(),
        "rank": expected.rank.numpy().astype(np.int32),
    }
    if output.is_closed:
        header["alternatives"], arrays["others"] = alternatives(view)
    header["answer"], parts = distribution(view)
    header["reading"] = reading
    return pack(header, **arrays, **parts, **row)


def _field(run: CurrentRun, stream: str) -> str:
    return next(field.name for field in run.scope.model.fields if field.stream == stream)


def alternatives(view: NextTokenView) -> tuple[list[list[list]], np.ndarray]:
    """Return each position's most probable tokens except the actual one, with probabilities."""
    n = min(ALTERNATIVES, view.output.logits.shape[1] - 1)
    best = view.output.log_probs.topk(n + 1)
    tokens, probabilities = [], []
    for place, (label, log_probs) in enumerate(zip(view.output.labels, best.values, strict=True)):
        other_tokens = [
            (i, p)
            for i, p in zip(best.indices[place].tolist(), log_probs.exp().tolist(), strict=True)
            if i != label
        ][:n]
        tokens.append(
            [token_label(view.tokenizer, i, first=place == 0).as_json() for i, _ in other_tokens]
        )
        probabilities.append([p for _, p in other_tokens])
    return tokens, np.array(probabilities, np.float32)


def distribution(view: NextTokenView) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the chosen position's most probable tokens, the actual one among or after them."""
    output, expected, i = view.output, view.expectations, view.position
    best = output.log_probs[i].topk(min(N_NEXT_TOKENS, output.logits.shape[1]))
    ids, actual = best.indices.tolist(), output.labels[i] if i < len(output.labels) else None
    listed = ids if actual is None or actual in ids else [*ids, actual]
    p = output.log_probs[i, listed].exp()
    names = [
        token_label(view.tokenizer, token, first=output.is_closed and i == 0).as_json()
        for token in listed
    ]
    header = {
        "title": text.prediction_title(view.tokens[i].text, view.tokens[i].special),
        "rows": [[token, label, view.mark * (token == actual)] for token, label in zip(listed, names, strict=True)],
        "fact": text.TEXT_ENDS if actual is None else text.actual_token(
            view.following[i].text, float(expected.probability[i]), float(expected.surprisal[i]), int(expected.rank[i]),
            output.logits.shape[1], view.mark,
        ),
        "rest": text.unlisted_tokens(len(ids), float(best.values.exp().sum()), float(expected.entropy[i])),
    }  # fmt: skip
    ranks = 1 + (output.log_probs[i][None] > output.log_probs[i, listed][:, None]).sum(-1)
    return header, {"p": p.numpy(), "ranks": ranks.numpy().astype(np.int32)}
