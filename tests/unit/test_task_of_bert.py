"""The page Task of a model that does not generate: every number of its pictures is recomputed from the logits and from q and k."""

import csv
import io
import math
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn import on_screen
from small import random_bert, words_of

import models
from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.trace.outputs import MaskedToken, Span
from viz_app.drawing.labels import Label
from viz_app.drawing.notes import read_text
from viz_app.drawing.payload import unpack
from viz_app.session.cache import runs
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.task import files, masked, pair, span, text
from viz_app.views.task.presentations import has_picture, shown_output, task_payloads
from viz_app.views.task.reading import TaskChoices
from viz_app.words import percent

FIRST, SECOND = "Mary went to the garden.", "John took the milk."
QUESTION, CONTEXT = "Where is Mary?", "Mary went to the garden. John took milk."
SITE, HEAD = "encoder.layers.1.self_attn", 2
CHOICES = TaskChoices(None, Focus(SITE, HEAD))


def digits(p: float) -> str:
    """Format a probability as the page does."""
    return percent(float(p), 1)


@cache
def scope_of(head: str, **sizes: Any) -> Scope:
    tokenizer = words_of(FIRST, SECOND, QUESTION)
    model = random_bert(vocab_size=tokenizer.vocab_size, head=head, **sizes)
    return Scope(
        Checkpoint(Path("words"), model, tokenizer, {"task": "span" if head == "span" else "mlm"}),
        torch.device("cpu"),
    )


def run_of(head: str, *asked: Any, **sizes: Any) -> CurrentRun:
    scope = scope_of(head, **sizes)
    return CurrentRun(scope, scope.run(*asked))


def pictures(run: CurrentRun, choices: TaskChoices = CHOICES) -> dict[str, Any]:
    drawn = on_screen(task_payloads(run, choices))
    return {key: unpack(data) if isinstance(data, bytes) else data for key, data in drawn.items()}


def softmax(logits: torch.Tensor) -> np.ndarray:
    """Return a softmax in float64, by hand."""
    powers = np.exp(logits.double().numpy() - float(logits.max()))
    return powers / powers.sum(-1, keepdims=True)


def row_by_hand(run: CurrentRun, position: int) -> np.ndarray:
    """Return softmax(q·k / √d) of one token in the head shown, in float64."""
    site = run.trace.attention[SITE]
    q, k = site.q[0, HEAD, position].double().numpy(), site.k[0, HEAD].double().numpy()
    powers = np.exp(k @ q / math.sqrt(len(q)))
    return powers / powers.sum()


# hidden tokens

ROW = ["[CLS]", "mary", "went", "to", "the", "garden", ".", "[SEP]"]


def test_each_token_says_whether_a_click_hides_it() -> None:
    run = run_of("pretraining", "Mary [MASK] to the garden.", None, (4, 1))
    (header, _) = pictures(run)["guesses"]
    assert [label[0] for label in header["tokens"]] == [
        "[CLS]",
        "mary",
        "[MASK]",
        "to",
        "the",
        "garden",
        ".",
        "[SEP]",
    ]
    assert header["states"] == [
        "fixed",
        "hidden",
        "mask",
        "open",
        "hidden",
        "open",
        "open",
        "fixed",
    ]
    assert header["segments"] == [0] * 8
    assert header["title"] == "Click a token to mask it; the model guesses it from both sides"
    assert header["note"] == "3 masked tokens, 1 of them typed above. Click one again to unmask it."
    assert [mask["position"] for mask in header["masks"]] == [1, 2, 4]
    assert [mask["title"] for mask in header["masks"]] == [
        "1 of 3: prediction for “mary”",
        "2 of 3: prediction for [MASK]",
        "3 of 3: prediction for “the”",
    ]
    assert (
        header["masks"][1]["fact"]
        == "You typed this mask, so there is no true token to compare with."
    )


def test_the_predictions_there_are_the_sorted_softmax_of_the_logits() -> None:
    run = run_of("pretraining", FIRST, SECOND, (2, 10))
    header, arrays = pictures(run)["guesses"]
    ids, tokenizer = run.scope.tokenizer.encode(FIRST).ids, run.scope.tokenizer
    hidden = {2: ids[1], 10: tokenizer.encode(SECOND).ids[2]}
    output, at = run.trace.outputs["masked token"], 0
    assert output.positions == (2, 10)
    for i, (position, mask) in enumerate(zip((2, 10), header["masks"], strict=True)):
        p = softmax(output.logits[i])
        order = np.argsort(-p, kind="stable").tolist()
        rank = order.index(hidden[position]) + 1
        listed = order[:5] if rank <= 5 else [*order[:5], hidden[position]]
        assert [one for one, *_ in mask["rows"]] == listed
        assert [label[0] for _, label, _ in mask["rows"]] == [
            label_of(tokenizer.token(one)) for one in listed
        ]
        assert [one for one, _, mark in mask["rows"] if mark == "hidden"] == [hidden[position]]
        np.testing.assert_allclose(arrays["p"][at : at + len(listed)], p[listed], rtol=1e-5)
        assert arrays["ranks"][at : at + len(listed)].tolist() == [
            order.index(one) + 1 for one in listed
        ]
        at += len(listed)
        name = tokenizer.token(hidden[position])
        assert mask["fact"] == (
            f"Hidden: “{name}”, probability {digits(p[hidden[position]])}, rank {rank} of {tokenizer.vocab_size}, "
            f"{-math.log2(p[hidden[position]]):.2f} bits."
        )
        assert mask["rest"] == text.unlisted_tokens(
            5, np.sort(p)[-5:].sum(), -(p * np.log2(p)).sum()
        )
    assert at == len(arrays["p"]) == len(arrays["ranks"])


def label_of(token: str) -> str:
    return {"[PAD]": "[padding]", "[UNK]": "[unknown]"}.get(token, token)


def test_one_mask_alone_has_ten_tokens_and_many_have_eight_pictures() -> None:
    (header, arrays) = pictures(run_of("pretraining", "Mary [MASK] to the garden."))["guesses"]
    assert header["masks"][0]["title"] == "Prediction for [MASK]"
    assert header["note"] == "1 masked token, typed above."
    assert len(header["masks"][0]["rows"]) == 10 == len(arrays["p"])
    (header, _) = pictures(run_of("pretraining", "Mary [MASK] to the garden.", SECOND))["guesses"]
    assert len(header["masks"][0]["rows"]) == 5  # the picture of both texts is below
    (header, _) = pictures(run_of("pretraining", FIRST + " " + SECOND, None, tuple(range(1, 11))))[
        "guesses"
    ]
    assert [mask["position"] for mask in header["masks"]] == list(range(1, 9))
    assert (
        header["note"]
        == "10 masked tokens. Click one again to unmask it. Only the first 8 are shown below."
    )


def test_without_a_mask_nothing_is_guessed_and_the_page_says_how_to_begin() -> None:
    drawn = pictures(run_of("pretraining", FIRST))
    header, arrays = drawn["guesses"]
    assert (header["masks"], len(arrays["p"])) == ([], 0)
    assert header["note"] == "Nothing is hidden. Click a token, or type [MASK] in the text above."
    assert [look for look, _ in drawn["checks"]["rows"]] == ["title"]


@pytest.mark.parametrize("positions", [(2,), (1, 5)])
def test_beside_each_is_the_row_of_the_mask_itself(positions: tuple[int, ...]) -> None:
    run = run_of("pretraining", FIRST, None, positions)
    header, arrays = pictures(run)["guesses"]
    for i, position in enumerate(positions):
        np.testing.assert_allclose(arrays[f"{i} weights"], row_by_hand(run, position), atol=1e-6)
        assert arrays[f"{i} allowed"].tolist() == [1] * 8
        reading = header["masks"][i]["reading"]
        assert reading["own"] == position
        assert reading["title"] == "Encoder layer 2, head 3: what [MASK] attends to in the text"
        shown = ["[MASK]" if k in positions else token for k, token in enumerate(ROW)]
        assert [label[0] for label in reading["keys"]] == shown


def test_the_checks_of_a_guess_fail_where_something_is_wrong() -> None:
    run = run_of("pretraining", FIRST, None, (2, 5))
    output = run.trace.outputs["masked token"]

    def passed(changed: MaskedToken) -> list[bool]:
        return [check.passed for check in masked.draw_masked(run, changed, CHOICES)[1]]

    assert passed(output) == [True] * 4
    raised = replace(output)
    vars(raised)["log_probs"] = output.log_probs + 1e-3
    assert passed(raised) == [False, False, True, True]
    turned = replace(output)
    vars(turned)["log_probs"] = output.log_probs.flip(1)
    assert passed(turned) == [True, False, True, True]
    assert passed(replace(output, positions=(2, 4))) == [
        True,
        True,
        False,
        True,
    ]  # at 4 a token was visible


def test_a_hidden_token_is_shown_as_a_mask_in_the_line_above() -> None:
    run = run_of("pretraining", FIRST, SECOND, (10, 2))
    assert read_text(run.trace) == "Mary [MASK] to the garden. John took [MASK] milk."
    assert read_text(run_of("pretraining", FIRST, SECOND).trace) == f"{FIRST} {SECOND}"
    assert masked.own_labels(run, run.trace.outputs["masked token"])[2] == Label("went")


def test_the_table_of_guesses_holds_what_the_picture_shows() -> None:
    run = run_of("pretraining", "Mary [MASK] to the garden.", None, (5,))
    rows = list(csv.DictReader(io.StringIO(files.masked_csv(run, CHOICES))))
    header, arrays = pictures(run)["guesses"]
    assert [row["position"] for row in rows] == ["2"] * 5 + ["5"] * (len(rows) - 5)
    assert {row["hidden token"] for row in rows} == {"2 [MASK]", "5 garden"}
    listed = [one for mask in header["masks"] for one in mask["rows"]]
    assert [row["id and expected token"] for row in rows] == [
        f"{one} {label[0]}" for one, label, _ in listed
    ]
    assert [np.float32(row["probability"]) for row in rows] == arrays["p"].tolist()
    assert [int(row["rank"]) for row in rows] == arrays["ranks"].tolist()
    np.testing.assert_allclose(
        [float(row["surprisal (bits)"]) for row in rows], -np.log2(arrays["p"]), rtol=1e-4
    )
    assert {row["fingerprint"] for row in rows} == {run.scope.fingerprint}


def test_the_table_of_guesses_has_every_mask() -> None:
    run = run_of("pretraining", "[MASK] " * 10 + ".")
    rows = list(csv.DictReader(io.StringIO(files.masked_csv(run, CHOICES))))
    places = list(dict.fromkeys(int(row["position"]) for row in rows))
    assert places == list(run.trace.outputs["masked token"].positions)
    assert len(places) == 10 > len(pictures(run)["guesses"][0]["masks"])


# two texts


def test_two_texts_have_a_probability_and_share_the_row_of_cls() -> None:
    run = run_of("pretraining", FIRST, SECOND)
    drawn = pictures(run)
    header, arrays = drawn["pair"]
    p = softmax(run.trace.outputs["next sentence"].logits)
    np.testing.assert_allclose(arrays["p"], p, rtol=1e-5)
    assert [label[0] for _, label, _ in header["rows"]] == ["next", "not next"]
    best = int(p.argmax())
    assert [bool(mark) for *_, mark in header["rows"]] == [best == 0, best == 1]
    assert arrays["ranks"].tolist() == [1 + best, 2 - best]
    said = f"P(next) = {digits(p[0])}, P(not next) = {digits(p[1])}: most probable is “{('next', 'not next')[best]}”."
    assert header["fact"] == said
    assert header["title"] == "Does the second text follow the first?"
    row = row_by_hand(run, 0)
    np.testing.assert_allclose(arrays["weights"], row, atol=1e-6)
    assert header["segments"] == [0] * 8 + [1] * 6
    shares = [row[:8].sum(), row[8:].sum()]
    names = ["First text", "Second text"]
    assert header["blocks"] == [
        [name, f"{share:.2f} of the attention"] for name, share in zip(names, shares, strict=True)
    ]
    assert header["reading"]["own"] == 0
    assert (
        header["reading"]["title"] == "Encoder layer 2, head 3: what [CLS] attends to in the text"
    )
    assert [look for look, _ in drawn["checks"]["rows"]].count("passed") == 4


def test_a_single_text_waits_for_a_second() -> None:
    drawn = pictures(run_of("pretraining", FIRST))
    said = "One text alone. Type a second one above, and the model predicts whether it follows the first."
    assert drawn["pair"][0]["waiting"] == said
    assert drawn["pair"][0]["title"] == "Does the second text follow the first?"
    assert "pair" not in pictures(run_of("span", QUESTION, CONTEXT))


def test_the_shares_are_checked() -> None:
    assert pair.check_shares(np.array([0.25, 0.75]), 1.0).passed
    assert not pair.check_shares(np.array([0.25, 0.5]), 1.0).passed
    run = run_of("pretraining", FIRST, SECOND)
    output = run.trace.outputs["next sentence"]
    assert all(check.passed for check in pair.pair(run, output, CHOICES)[1])


def test_the_classes_of_one_text_have_a_picture_too() -> None:
    run = run_of("classes", FIRST, classes="bad, neutral, good")
    header, arrays = pictures(run)["pair"]
    p = softmax(run.trace.outputs["classes"].logits)
    np.testing.assert_allclose(arrays["p"], p, rtol=1e-5)
    assert arrays["ranks"].tolist() == [sorted(p, reverse=True).index(x) + 1 for x in p]
    assert header["title"] == "Predicted class"
    assert header["blocks"] == [["First text", "1.00 of the attention"]]
    rows = list(csv.DictReader(io.StringIO(files.classes_csv(run, CHOICES))))
    assert [row["class"] for row in rows] == ["bad", "neutral", "good"]
    np.testing.assert_allclose([float(row["probability"]) for row in rows], p, rtol=1e-5)


# the answer's span


def every_span(run: CurrentRun) -> dict[tuple[int, int], float]:
    """Return each span of the context, first and last token, with ln p(start) + ln p(end) in float64."""
    row, output = run.trace.streams["text"], run.trace.outputs["span"]
    inside = [
        i
        for i, (segment, offset) in enumerate(zip(row.segments, row.offsets, strict=True))
        if segment and offset
    ]
    start, end = (
        np.log(softmax(logits[inside])) for logits in (output.start_logits, output.end_logits)
    )
    return {
        (inside[a], inside[b]): start[a] + end[b]
        for a, b in product(range(len(inside)), repeat=2)
        if a <= b
    }


def test_the_map_is_the_sum_of_two_log_probabilities_over_the_context() -> None:
    run = run_of("span", QUESTION, CONTEXT)
    header, arrays = pictures(run)["span"]
    spans, first = every_span(run), header["offset"]
    tokens = [label[0] for label in header["tokens"]]
    assert tokens == ["mary", "went", "to", "the", "garden", ".", "john", "took", "milk", "."]
    assert (first, len(arrays["start"]), len(arrays["end"])) == (6, 10, 10)
    for (a, b), expected in spans.items():
        assert arrays["start"][a - first] + arrays["end"][b - first] == pytest.approx(
            expected, abs=1e-5
        )
    best = max(spans, key=spans.get)
    assert [place + first for place in header["answer"]] == list(best)
    order = sorted(spans, key=spans.get, reverse=True)[:5]
    np.testing.assert_allclose(arrays["p"], [math.exp(spans[one]) for one in order], rtol=1e-4)
    row = run.trace.streams["text"]
    words = [row.text[row.offsets[a][0] : row.offsets[b][1]] for a, b in order]
    assert [label[0] for _, label, _ in header["rows"]] == words
    notes = [f"token {a}" if a == b else f"tokens {a} to {b}" for a, b in order]
    assert [label[1] for _, label, _ in header["rows"]] == notes
    assert [mark for *_, mark in header["rows"]] == ["answer"] + [""] * 4
    assert header["axes"] == ["where the answer begins", "where it ends"]
    assert header["scale"] == ["−12 or less", "0", "ln p(start) + ln p(end), in nats"]
    assert header["least"] == -12
    assert header["ruled"] == "Hatched: the end would come before the start"
    assert (
        header["title"] == "Where does the answer to “Where is Mary?” begin, and where does it end?"
    )
    p, q = math.exp(arrays["start"][best[0] - first]), math.exp(arrays["end"][best[1] - first])
    assert header["fact"] == (
        f"“{run.trace.output}”: p(start) {digits(p)} · p(end) {digits(q)} = {digits(p * q)}."
    )
    assert "".join(header["context"]) == CONTEXT
    assert header["context"][1] == run.trace.output == words[0]


def test_the_rows_are_those_of_the_answers_tokens() -> None:
    run = run_of("span", QUESTION, CONTEXT)
    output = replace(run.trace.outputs["span"], start=7, end=11)
    header, arrays = unpack(span.draw_span(run, output, CHOICES)[0]["span"])
    assert header["more"] == "The rows of the first 3 of its 5 tokens are shown."
    for i, position in enumerate((7, 8, 9)):
        np.testing.assert_allclose(arrays[f"{i} weights"], row_by_hand(run, position), atol=1e-6)
        assert header["readings"][i]["own"] == position
    assert len(header["readings"]) == 3
    one = replace(output, end=7)
    header, _ = unpack(span.draw_span(run, one, CHOICES)[0]["span"])
    assert (header["more"], len(header["readings"])) == ("", 1)


def test_the_checks_of_a_span_fail_if_there_is_a_better_one() -> None:
    run = run_of("span", QUESTION, CONTEXT)
    output = run.trace.outputs["span"]
    assert [check.passed for check in span.draw_span(run, output, CHOICES)[1]] == [True] * 4
    spans = every_span(run)
    others = [one for one in spans if spans[one] < spans[output.start, output.end] - 1e-3]
    for a, b in others[:7]:
        check = span.check_best(replace(output, start=a, end=b))
        assert not check.passed
        assert check.value == pytest.approx(spans[output.start, output.end] - spans[a, b], abs=1e-5)


def test_the_best_end_before_the_best_start_is_no_span() -> None:
    high, low, none = 9.0, -9.0, -math.inf
    backwards = Span(
        "text", torch.tensor([none, low, high]), torch.tensor([none, high, low]), 1, 1, ""
    )
    assert [(one.start, one.end) for one in span.candidate_spans(backwards)] == [
        (1, 1),
        (2, 2),
        (1, 2),
    ]
    assert span.check_best(backwards).passed
    assert span.answer_positions(backwards) == range(1, 3)


def test_the_table_of_spans_is_sorted_and_in_nats() -> None:
    run = run_of("span", QUESTION, CONTEXT)
    rows, spans = list(csv.DictReader(io.StringIO(files.span_csv(run, CHOICES)))), every_span(run)
    order = sorted(spans, key=spans.get, reverse=True)[:20]
    np.testing.assert_allclose(
        [float(row["ln p (nats)"]) for row in rows], [spans[one] for one in order], atol=1e-5
    )
    assert [(int(row["first token"]), int(row["last token"])) for row in rows[:3]] == order[:3]
    assert rows[0]["first token and text"] == f"{order[0][0]} {run.trace.output}"


# all of them


def test_each_type_of_output_has_its_picture() -> None:
    assert set(pictures(run_of("pretraining", FIRST, SECOND))) == {
        "written",
        "guesses",
        "pair",
        "checks",
    }
    assert set(pictures(run_of("span", QUESTION, CONTEXT))) == {"written", "span", "checks"}
    assert all(
        has_picture(run_of(*asked).trace)
        for asked in (("pretraining", FIRST), ("span", QUESTION, CONTEXT))
    )


# cached runs


@pytest.mark.parametrize("together", [False, True])
def test_a_cached_run_belongs_to_its_hidden_tokens(
    together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text alone does not identify the run."""
    scope, texts = scope_of("pretraining"), (FIRST, SECOND if together else "")
    places = [(5,), (), (1,), (1, 5), (5, 1), ()]
    asked = [("any", texts, (hidden,)) for hidden in places]
    monkeypatch.setattr(runs, "scope", lambda name: scope)
    if together:
        runs.run_together(asked)
    for _, _, chosen in (*asked, *asked):
        found = runs.trace(scope, texts, choice=chosen)
        again = scope.run(FIRST, texts[1] or None, chosen[0] or None)
        output, wanted = (trace.outputs["masked token"] for trace in (found, again))
        assert output.positions == wanted.positions == tuple(sorted(chosen[0]))
        assert output.labels == wanted.labels
        torch.testing.assert_close(output.logits, wanted.logits)
        assert found.streams["text"].ids == again.streams["text"].ids
        assert found.fields == again.fields


def test_the_chosen_output_is_shown_or_else_the_first() -> None:
    scope = models.load("bert", device="cpu")
    trace = scope.run("He forgot [MASK] umbrella.", "It rained.")
    names = list(trace.outputs)
    assert len(names) == 2
    for name in names:
        assert shown_output(trace, TaskChoices(None, Focus(), name)) is trace.outputs[name]
    for name in ("", "none of these"):
        assert shown_output(trace, TaskChoices(None, Focus(), name)) is trace.outputs[names[0]]
