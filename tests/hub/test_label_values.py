"""Classifiers without a softmax: one number (a cross-encoder, a reward model), or labels judged one by one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from drawn import on_screen
from hub_models import _WIDE, library_tokenizer

import models
from models import Scope, edits
from models.analysis.metrics import Divergence, LogProbability, logits_of
from models.analysis.output_comparison import compare_outputs
from models.commands.decode import _answers
from models.hub.labels import label_names
from models.number_text import percent
from models.runs.attention_row import query_of
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MultiLabelProbabilities,
    RegressionValues,
)
from viz_app.drawing.labels import Label
from viz_app.drawing.notes import answer_line, first_output
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.interventions.decisions import decisions, option_noun
from viz_app.views.interventions.patch_runs import _other_row
from viz_app.views.interventions.payloads import HeadOffChoices, head_off_payloads
from viz_app.views.masks.mask_view import LogProbChange
from viz_app.views.masks.outcome_text import effect
from viz_app.views.task.files import labels_csv
from viz_app.views.task.presentations import has_picture, no_picture, presentation, task_payloads
from viz_app.views.task.reading import TaskChoices, check_answer, reading_site

TEXTS = "The little dog was hungry.", "She is reading a book."
NAMES = ("toxic", "rude", "kind", "long")
CHOICES = TaskChoices(None, Focus())
MODERN = _WIDE | {
    "hidden_size": 24, "cls_token_id": 1, "sep_token_id": 2, "classifier_pooling": "mean",
}  # fmt: skip
JUDGED = {"problem_type": "multi_label_classification"}
XLNET = {"d_model": 22, "n_head": 2, "n_layer": 2, "d_inner": 31, "summary_type": "mean"}


def open_scope(folder: Path, n: int, problem: str | None = None, **sizes: object) -> Scope:
    config = transformers.BertConfig(
        **_WIDE | {"vocab_size": 97}, num_labels=n, problem_type=problem,
        **({"id2label": dict(enumerate(NAMES))} if n == len(NAMES) else {}), **sizes,
    )  # fmt: skip
    torch.manual_seed(3)
    module = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
        module.classifier.weight.mul_(0.2)
        module.classifier.bias.copy_(torch.linspace(-1, 1.5, n))
    module.save_pretrained(folder)
    library_tokenizer(folder, 89)
    return models.load(folder, device="cpu")


def logits(scope: Scope, trace: models.Trace) -> torch.Tensor:
    row = trace.streams["text"]
    with torch.no_grad():
        ids, parts = torch.tensor([row.ids]), torch.tensor([row.segments])
        return scope.model.module(input_ids=ids, token_type_ids=parts).logits[0]


def test_one_number_is_not_shown_as_a_class_of_100_percent(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, 1)
    trace = scope.run(*TEXTS)
    output, (wanted,) = first_output(trace), logits(scope, trace).tolist()
    assert isinstance(output, RegressionValues)
    assert output.values.tolist() == pytest.approx([wanted], abs=1e-5)
    said = f"{wanted:.3f}".replace("-", "−")
    assert answer_line(trace) == ("the model's number", said)
    assert trace.output == said
    assert not has_picture(trace)
    told = no_picture(trace, output)
    assert "not a probability" in told
    assert "%" not in told
    assert list(_answers(trace)) == [said]
    assert scope.model.answer_description == "a number for the text"
    assert scope.model.read_stream == ""  # earlier layers show no softmax of it either
    assert decisions(trace) == []
    with pytest.raises(ValueError, match="read from several tokens"):
        query_of(trace, next(iter(trace.attention.values())), 0)


def test_labels_judged_one_by_one_have_their_sigmoid(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, 4, "multi_label_classification")
    trace = scope.run(TEXTS[0])
    output, wanted = first_output(trace), logits(scope, trace)
    assert isinstance(output, MultiLabelProbabilities)
    p = 1 / (1 + (-wanted.double()).exp())
    torch.testing.assert_close(output.probabilities.double(), p, rtol=1e-4, atol=1e-6)
    assert abs(float(p.sum()) - 1) > 0.01
    likely = [name for name, one in zip(NAMES, p.tolist(), strict=True) if one > 0.5]
    assert 0 < len(likely) < 4
    assert trace.output == ", ".join(likely)
    order = p.argsort(descending=True).tolist()
    listed = ", ".join(f"{NAMES[i]} {percent(float(p[i]))}" for i in order)
    assert answer_line(trace) == ("labels, each judged on its own", listed)
    each = ", ".join(
        f"{name} {percent(one, 1)}" for name, one in zip(NAMES, p.tolist(), strict=True)
    )
    assert list(_answers(trace)) == [trace.output, f"{each}, each on its own"]


def test_judged_labels_are_drawn_with_the_row_that_they_are_read_from(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, 4, "multi_label_classification")
    trace = scope.run(*TEXTS)
    p = 1 / (1 + (-logits(scope, trace).double()).exp())
    drawn = task_payloads(CurrentRun(scope, trace), CHOICES)
    header, arrays = unpack(drawn["pair"])
    np.testing.assert_allclose(arrays["p"], p, rtol=1e-4)
    assert set(arrays["ranks"].tolist()) == {1}, "each on its own: none is second to another"
    marked = {name[0]: mark for _, name, mark in header["rows"]}
    assert marked == {name: "holds" * (one > 0.5) for name, one in zip(NAMES, p, strict=True)}
    n = sum(p > 0.5)
    assert header["fact"] == f"{n} of 4 labels hold: probability above 50 %."
    site, head = reading_site(trace, "text", CHOICES.focus)
    weights = site.weights(head)[0]  # BERT classifies its first token
    np.testing.assert_allclose(arrays["weights"], weights, atol=1e-6)
    assert header["token"] == "[CLS]"
    assert [style for style, _ in drawn["checks"]["rows"]].count("failed") == 0
    told = presentation(first_output(trace)).explanation(trace, first_output(trace), "")
    assert "sum need not be 1" in told
    assert "softmax" not in told
    assert "[CLS]" in told
    rows = labels_csv(CurrentRun(scope, trace), CHOICES).splitlines()
    assert [row.split(",")[0] for row in rows if not row.startswith("#")][-4:] == list(NAMES)


def test_a_wrong_probability_of_a_label_fails_its_check() -> None:
    output = MultiLabelProbabilities("text", 0, NAMES, torch.tensor([-2.0, 0.5, 1.0, 3.0]))
    assert all(check.passed for check in check_answer(output))
    output.__dict__["probabilities"] = output.values.softmax(-1)
    assert not any(check.passed for check in check_answer(output))


def test_of_many_labels_the_most_probable_are_listed() -> None:
    values = torch.linspace(-3, 3, 23)
    names = tuple(f"n{i}" for i in range(23))
    outputs = {"classes": MultiLabelProbabilities("text", 0, names, values)}
    scope = models.load("gpt", device="cpu")
    trace = replace(scope.run("The boy"), outputs=outputs)
    label, listed = answer_line(trace)
    assert label == "the 10 most probable of 23 labels, each judged on its own"
    assert [one.split()[0] for one in listed.split(", ")] == [f"n{i}" for i in range(22, 12, -1)]
    run = CurrentRun(scope, trace)
    header, arrays = unpack(task_payloads(run, CHOICES)["pair"])
    assert [name[0] for _, name, _ in header["rows"]] == [f"n{i}" for i in range(22, 12, -1)]
    np.testing.assert_allclose(arrays["p"], values.flip(0)[:10].sigmoid(), rtol=1e-6)
    assert header["fact"].startswith("11 of 23 labels hold")


def test_numbers_of_a_regression_are_not_shown_as_probabilities(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, 4, "regression")
    trace = scope.run(TEXTS[0])
    numbers = [f"{v:.3f}".replace("-", "−") for v in logits(scope, trace).tolist()]
    pairs = ", ".join(f"{name} {v}" for name, v in zip(NAMES, numbers, strict=True))
    assert answer_line(trace) == ("the model's numbers", pairs)
    assert scope.model.answer_description == "4 numbers for the text"
    assert "Its answer is 4 plain numbers" in no_picture(trace, first_output(trace))


def test_a_label_whose_name_is_blank_has_its_number() -> None:
    config = transformers.BertConfig(id2label={0: "good", 1: "", 2: " "}, label2id={"good": 0})
    assert label_names(config) == ["good", "LABEL_1", "LABEL_2"]


@pytest.mark.parametrize("problem", [None, "single_label_classification"])
def test_classes_that_softmax_compares_stay_classes(tmp_path: Path, problem: str | None) -> None:
    scope = open_scope(tmp_path, 4, problem)
    output = first_output(scope.run(TEXTS[0]))
    assert isinstance(output, ClassProbabilities)
    assert float(output.probabilities.sum()) == pytest.approx(1)
    assert scope.model.answer_description == "a class of the text"
    assert scope.model.read_stream == "text"


def two_answers(values: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities, by the sigmoid, that each label does not hold and that it does."""
    values = values.double()
    return torch.stack(
        [torch.nn.functional.logsigmoid(-values), torch.nn.functional.logsigmoid(values)], -1
    )


def test_each_judged_label_is_a_decision_that_heads_influence(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, 4, "multi_label_classification")
    trace = scope.run(*TEXTS)
    run, wanted = CurrentRun(scope, trace), logits(scope, trace)
    offered, p = decisions(trace), two_answers(wanted)
    assert [one.label.text for one in offered] == [
        name if value > 0 else f"not {name}"
        for name, value in zip(NAMES, wanted.tolist(), strict=True)
    ]
    assert [(one.row, one.option) for one in offered] == list(
        enumerate((wanted > 0).int().tolist())
    )
    assert (
        query_of(trace, trace.attention[reading_site(trace, "text", CHOICES.focus)[0].name], 3) == 0
    )
    off = edits.HeadOff("bert.encoder.layer.1.attention.self", head=1, baseline="zero")
    edited = scope.run(*TEXTS, edits=[off])
    after = two_answers(first_output(edited).values)
    label = 2
    change = LogProbability(offered[label].option, label)(
        logits_of(trace.outputs), logits_of(edited.outputs)
    )
    both = [rows[label, offered[label].option] for rows in (p, after)]
    assert float(change) == pytest.approx(float(both[1] - both[0]), abs=1e-5)
    assert abs(float(change)) > 1e-3
    apart = Divergence(label)(logits_of(trace.outputs), logits_of(edited.outputs))
    assert float(apart) == pytest.approx(
        float((p[label].exp() * (p[label] - after[label])).sum()), abs=1e-5
    )

    drawn = on_screen(head_off_payloads(run, HeadOffChoices(label, "log-probability", "zero")))
    (kind,) = drawn["board"]["kinds"]
    assert kind["effects"][1][1] == pytest.approx(float(change), abs=1e-5)
    outcome = drawn["outcome"]
    assert outcome["which"] == "Followed answer: change of its log-probability, nats"
    assert drawn["board"]["legend"].endswith("Below 0: the head makes the answer more likely.")
    assert outcome["option"] == "Answer"
    probabilities = {one["label"][0]: one["before"] for one in outcome["options"]}
    assert probabilities == pytest.approx(
        {NAMES[label]: float(p[label, 1].exp()), f"not {NAMES[label]}": float(p[label, 0].exp())},
        abs=1e-5,
    )
    assert [style for style, _ in drawn["checks"]["rows"]].count("failed") == 0


def test_masks_compares_the_judged_labels_that_held_before(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, 4, "multi_label_classification")
    before = scope.run(*TEXTS)
    after = scope.run(
        *TEXTS,
        edits=[edits.HeadOff("bert.encoder.layer.0.attention.self", head=0, baseline="zero")],
    )
    compared = compare_outputs(before, after)
    held = (first_output(before).values > 0).int().tolist()
    expected = [
        [
            float(row[option])
            for row, option in zip(two_answers(first_output(one).values), held, strict=True)
        ]
        for one in (before, after)
    ]
    assert compared.before == pytest.approx(expected[0], abs=1e-5)
    assert compared.after == pytest.approx(expected[1], abs=1e-5)
    assert compared.names == tuple(n if o else f"not {n}" for n, o in zip(NAMES, held, strict=True))


def test_the_followed_output_is_named_as_in_the_run(tmp_path: Path) -> None:
    judged = open_scope(tmp_path, 4, "multi_label_classification").run(*TEXTS)
    output = first_output(judged)
    choices = ChoiceProbabilities("text", None, NAMES, output.values)
    shipped = [models.load(name, device="cpu") for name in ("gpt-sentiment", "dates")]
    traces = [
        *(scope.run("5 March 2021") for scope in shipped),
        judged,
        replace(judged, outputs={"choice": choices}),
    ]
    assert [option_noun(trace) for trace in traces] == ["class", "token", "answer", "choice"]


def test_a_judged_label_is_patched_from_the_same_label_of_another_text(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, 4, "multi_label_classification")
    this, other = scope.run(TEXTS[0]), scope.run("She")
    assert [_other_row(this, other, row) for row in range(4)] == [0, 1, 2, 3]


def test_labels_that_are_read_from_several_tokens_have_no_row(tmp_path: Path) -> None:
    trace = open_scope(tmp_path, 4, "multi_label_classification").run(*TEXTS)
    several = replace(first_output(trace), position=None)
    trace = replace(trace, outputs={"classes": several})
    with pytest.raises(ValueError, match="read from several tokens"):
        query_of(trace, next(iter(trace.attention.values())), 0)


def test_the_sentence_on_several_labels_is_in_the_plural(tmp_path: Path) -> None:
    trace = open_scope(tmp_path, 4, "multi_label_classification").run(*TEXTS)
    before = compare_outputs(trace, trace)
    for n, noun in ((1, "label"), (4, "labels")):
        names = [Label(name) for name in before.names[:n]]
        change = LogProbChange(before.what, names, before.before[:n], before.after[:n])
        assert effect(change, trace).startswith(f"Log-probability of the {noun} “")


@pytest.mark.parametrize(
    ("made", "config", "sizes"),
    [
        ("ModernBertForSequenceClassification", "ModernBertConfig", MODERN),
        ("ModernBertForSequenceClassification", "ModernBertConfig", MODERN | JUDGED),
        ("XLNetForSequenceClassification", "XLNetConfig", XLNET),
        ("XLNetForMultipleChoice", "XLNetConfig", XLNET),
    ],
)
def test_an_answer_read_from_several_tokens_has_bars_and_no_row(
    made: str, config: str, sizes: dict[str, object], tmp_path: Path
) -> None:
    settings = sizes | {"vocab_size": 97, "num_labels": 3, "pad_token_id": 0}
    module = getattr(transformers, made)(getattr(transformers, config)(**settings))
    module.save_pretrained(tmp_path)
    library_tokenizer(tmp_path, 89)
    scope = models.load(tmp_path, device="cpu")
    run = CurrentRun(scope, scope.run(*TEXTS, *TEXTS[: made.endswith("Choice")]))
    output = first_output(run.trace)
    assert output.position is None
    pictures = task_payloads(run, CHOICES)
    header, arrays = unpack(pictures["pair"])
    assert header["blocks"] == header["reading"]["keys"] == []
    np.testing.assert_allclose(arrays["p"], output.probabilities, atol=1e-6)
    assert "attention row" not in str(pictures["checks"])
    explanation = presentation(output).explanation(run.trace, output, "")
    assert "none is shown" in " ".join(explanation.split())
    assert "patch" not in explanation
