"""The page Masks of a model that does not generate: its predictions for hidden tokens, two texts and an answer, before and after
a mask is changed, against plain forward passes under masks made by hand."""

import csv
import io
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small import random_bert, words_of
from small_runs import edited

from models.analysis.output_comparison import compare_outputs
from models.architectures.bert import BERT_SELF
from models.checkpoint import Checkpoint
from models.layers.masks import Mask, MaskLayer
from models.runs.scope import Scope
from models.trace import Trace
from models.trace.edits import MaskChange, for_kinds
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.masks import files, outcome_text, painter
from viz_app.views.masks import payloads as masks_payloads
from viz_app.views.masks.mask_view import MaskView, log_prob_change
from viz_app.views.masks.payloads import MaskChoices

FIRST, SECOND, QUESTION = "Mary went to the garden.", "John took milk.", "Where is Mary?"
CELLS = ((2, 0), (2, 5), (0, 3), (4, 4), (7, 1))


@cache
def scope_of(head: str) -> Scope:
    tokenizer = words_of(FIRST, SECOND, QUESTION)
    model = random_bert(vocab_size=tokenizer.vocab_size, head=head)
    return Scope(Checkpoint(Path("words"), model, tokenizer, {}), torch.device("cpu"))


def viewed(head: str, *asked: object) -> MaskView:
    scope = scope_of(head)
    changes = for_kinds(self=MaskChange(block=CELLS))
    run = edited(CurrentRun(scope, scope.run(*asked)), changes)
    return masks_payloads.masked_views(
        run, MaskChoices("", "", 0, "self", "encoder.layers.0.self_attn", 1)
    )[1]


def by_hand(head: str, view: MaskView, changed: bool) -> dict[str, torch.Tensor]:
    """Return the logits of a plain pass under the model's own mask, or under one with those cells blocked."""
    model, row = scope_of(head).model, view.before.trace.streams["text"]
    allowed = torch.ones(len(row.ids), len(row.ids), dtype=torch.bool)
    for cell in CELLS if changed else ():
        allowed[cell] = False
    masks = {BERT_SELF.name: Mask([MaskLayer("by hand", allowed[None, None])])}
    ids, segments = torch.tensor([row.ids]), torch.tensor([row.segments])
    with torch.no_grad():
        h = model.encode(ids, masks, segments)
        if head == "span":
            return dict(zip(("start", "end"), model.heads["span"](h)[0].unbind(-1), strict=True))
        pooled = torch.tanh(model.heads["pooler"](h[:, 0]))
        return {
            "masked": model.heads["masked"](h, model.embedding.weight)[0],
            "next": model.heads["next"](pooled)[0],
        }


def test_hidden_tokens_are_compared_and_a_typed_mask_by_its_first_guess() -> None:
    view = viewed("pretraining", "Mary [MASK] to the garden.", None, (5,))
    before, after = (
        by_hand("pretraining", view, changed)["masked"].double().log_softmax(-1)
        for changed in (False, True)
    )
    hidden, guess = (
        scope_of("pretraining").tokenizer.encode("garden").ids[0],
        int(before[2].argmax()),
    )
    given = log_prob_change(view)
    assert [label.text for label in given.labels] == [
        scope_of("pretraining").tokenizer.token(guess),
        "garden",
    ]
    assert [label.note for label in given.labels] == ["the model's own best guess before", ""]
    np.testing.assert_allclose(given.before, [before[2, guess], before[5, hidden]], atol=1e-4)
    np.testing.assert_allclose(given.after, [after[2, guess], after[5, hidden]], atol=1e-4)
    assert abs(given.before[1] - given.after[1]) > 1e-3
    header, arrays = unpack(painter.masks(view))
    assert header["effect"]["given"] == "Hidden token"
    assert header["effect"]["sums"] == pytest.approx([sum(given.before), sum(given.after)])
    assert arrays["logAfter"].tolist() == pytest.approx(given.after)
    likelier = "higher" if sum(given.after) > sum(given.before) else "lower"
    words = ", ".join(label.text for label in given.labels)
    (line,) = (
        line
        for line in header["story"]
        if line.startswith(f"Log-probability of the hidden tokens “{words}”: ")
    )
    assert likelier in line
    rows = list(csv.DictReader(io.StringIO(files.log_probs_csv(view))))
    assert [row["token"] for row in rows] == [*(label.text for label in given.labels), "sum"]
    assert [float(row["after (nats)"]) for row in rows] == pytest.approx(
        [*given.after, sum(given.after)]
    )


def test_for_two_texts_the_class_predicted_before_is_followed() -> None:
    view = viewed("pretraining", FIRST, SECOND)
    before, after = (
        by_hand("pretraining", view, changed)["next"].double().log_softmax(-1)
        for changed in (False, True)
    )
    best, given = int(before.argmax()), log_prob_change(view)
    assert ([label.text for label in given.labels], given.what) == (
        [("next", "not next")[best]],
        "class",
    )
    assert given.before[0] == pytest.approx(float(before[best]), abs=1e-4)
    assert given.after[0] == pytest.approx(float(after[best]), abs=1e-4)


@pytest.mark.parametrize(
    ("head", "asked", "columns"),
    [
        ("pretraining", (FIRST, SECOND), ["class", "sum"]),
        ("span", (QUESTION, f"{FIRST} {SECOND}"), ["answer", "sum"]),
        ("pretraining", (FIRST,), ["token"]),  # nothing is hidden, so there is no log-probability
    ],
)
def test_the_table_names_what_its_log_probabilities_are_of(
    head: str, asked: tuple[str, ...], columns: list[str]
) -> None:
    table = list(csv.reader(io.StringIO(files.log_probs_csv(viewed(head, *asked)))))
    names = [row[0] for row in table]
    assert [names[0], *names[1:][-1:]] == columns


def test_for_an_answer_the_span_predicted_before_is_followed() -> None:
    view = viewed("span", QUESTION, f"{FIRST} {SECOND}")
    row, output = view.before.trace.streams["text"], view.before.trace.outputs["span"]
    inside = [
        i
        for i, (segment, offset) in enumerate(zip(row.segments, row.offsets, strict=True))
        if segment and offset
    ]
    given = log_prob_change(view)
    for changed, values in ((False, given.before), (True, given.after)):
        made = by_hand("span", view, changed)
        expected = [
            float(made[name].double()[inside].log_softmax(-1)[inside.index(place)])
            for name, place in (("start", output.start), ("end", output.end))
        ]
        assert list(values) == pytest.approx(expected, abs=1e-4)
    assert [label.text for label in given.labels] == [
        f"start: {row.tokens[output.start]}",
        f"end: {row.tokens[output.end]}",
    ]


def test_if_nothing_is_hidden_the_page_says_how_to_hide_a_token() -> None:
    view = viewed("pretraining", FIRST)
    assert log_prob_change(view).labels == []
    assert outcome_text.nothing_hidden("[MASK]") in painter.painted_outcome(view)
    header, _ = unpack(painter.masks(view))
    assert (header["effect"]["labels"], header["effect"]["sums"]) == ([], [0, 0])


def log_share(logits: list[float], i: int) -> float:
    """Return ln of one softmax probability, in plain floats."""
    return logits[i] - math.log(sum(map(math.exp, logits)))


def with_output(trace: Trace, name: str, **fields: Any) -> Trace:
    """Return the run with only one output, and other numbers in it."""
    return replace(trace, outputs={name: replace(trace.outputs[name], **fields)})


def test_the_first_runs_class_is_followed_though_another_wins_afterwards() -> None:
    run = viewed("pretraining", FIRST, SECOND).before.trace
    before, after = [1.5, -0.25], [-2.0, 0.75]
    for one, other in ((before, after), (after, before)):
        best = one.index(max(one))
        both = (
            with_output(run, "next sentence", logits=torch.tensor(logits))
            for logits in (one, other)
        )
        found = compare_outputs(*both)
        assert found.names == (run.outputs["next sentence"].names[best],)
        assert found.before == (pytest.approx(log_share(one, best), abs=1e-6),)
        assert found.after == (pytest.approx(log_share(other, best), abs=1e-6),)


def test_the_first_runs_answer_is_followed_though_another_wins_afterwards() -> None:
    run = viewed("span", QUESTION, FIRST).before.trace
    n, tokens = len(run.streams["text"].ids), run.streams["text"].tokens
    pointed = [float(i == 7) for i in range(n)], [2.5 * (i == 9) for i in range(n)]
    rising = [0.1 * i for i in range(n)], [0.2 * i for i in range(n)]
    made = (
        with_output(
            run, "span", start_logits=torch.tensor(a), end_logits=torch.tensor(b), start=i, end=j
        )
        for (a, b), i, j in ((pointed, 7, 9), (rising, n - 1, n - 1))
    )
    found = compare_outputs(*made)
    assert found.names == (f"start: {tokens[7]}", f"end: {tokens[9]}")
    for told, (start, end) in ((found.before, pointed), (found.after, rising)):
        assert told == pytest.approx((log_share(start, 7), log_share(end, 9)), abs=1e-6)
