"""The numbers and sentences of the page Task: they equal a softmax computed by hand in float64 from the logits."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from drawn import letters
from small import random_gpt, random_model
from small_runs import edited

from models.analysis.distributions import expectation
from models.analysis.expectations import _slices as slices
from models.analysis.expectations import check_expectations, expectations
from models.checkpoint import Checkpoint
from models.layers.masks import LOOK_AHEAD
from models.number_text import percent
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.trace.edits import MaskChange, for_kinds
from models.trace.outputs import ClassProbabilities, NextToken
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.task import files, next_token, text
from viz_app.views.task.presentations import explain_next_token
from viz_app.views.task.reading import TaskChoices, check_row, reading_site

TEXT = "abcab=d"
CROSS, SELF, ENCODER = (
    "decoder.layers.1.cross_attn",
    "decoder.layers.0.self_attn",
    "encoder.layers.0.self_attn",
)
GPT_SELF = "decoder.layers.1.self_attn"
SHARPEST = Focus()
SPECIAL = {"<s>": "[start]", "</s>": "[end]", "<pad>": "[padding]", "<unk>": "[unknown]"}


@pytest.fixture(scope="module")
def gpt() -> Scope:
    return letters("gpt")


@pytest.fixture(scope="module")
def transformer() -> Scope:
    return letters()


def of(
    scope: Scope, *texts: str, position: int | None = None, focus: Focus = SHARPEST
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the data that the component gets for a run."""
    drawn = next_token.next_token(
        run := CurrentRun(scope, scope.run(*texts)),
        run.trace.next_token,
        TaskChoices(position, focus),
    )[0]
    return unpack(drawn["answers"])


@pytest.mark.parametrize(
    ("change", "given", "titled"),
    [
        (MaskChange(), text.ALL_BEFORE, text.GIVEN_BEFORE),
        (MaskChange(preset="window", k=1), text.SOME_BEFORE, text.GIVEN_BEFORE),
        (MaskChange(removed_layers=(LOOK_AHEAD,)), text.LATER_TOO, text.GIVEN_LATER),
        (MaskChange(allow=((1, 3),)), text.LATER_TOO, text.GIVEN_LATER),
    ],
)
def test_what_a_token_is_predicted_from_is_what_the_mask_allows(
    gpt: Scope, change: MaskChange, given: str, titled: str
) -> None:
    run = edited(CurrentRun(gpt, gpt.run(TEXT)), for_kinds(self=change))
    output = run.trace.next_token
    drawn = next_token.next_token(run, output, TaskChoices(None, SHARPEST))[0]
    assert unpack(drawn["answers"])[0]["title"].endswith(titled)
    assert f"predicted from {given}." in explain_next_token(run.trace, output, "")


def test_a_decoder_built_without_a_mask_predicts_from_later_tokens_too() -> None:
    for mask, given in (("none", text.LATER_TOO), ("look-ahead", text.ALL_BEFORE)):
        trace = letters(decoder_mask=mask).run("abcde", "edc")
        assert f"predicted from {given}." in explain_next_token(trace, trace.next_token, "")
    trace = letters("recurrent").run("abcde", "edc")
    assert f"predicted from {text.ALL_BEFORE}." in explain_next_token(trace, trace.next_token, "")


def softmax(scope: Scope, *texts: str) -> np.ndarray:
    """Return probabilities (position, vocab) in float64, from the logits alone."""
    logits = scope.run(*texts).next_token.logits.double().numpy()
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def name(scope: Scope, token: int) -> str:
    said = scope.tokenizer.token(token)
    return SPECIAL.get(said, said)


# the numbers


def test_each_label_is_the_next_token_with_the_numbers_of_a_softmax_by_hand(
    gpt: Scope,
) -> None:
    trace, p = gpt.run(TEXT), softmax(gpt, TEXT)
    found, ids = expectations(trace.next_token), trace.streams["text"].ids
    assert len(ids) == len(TEXT) + 1 == len(found.entropy) == len(found.rank) + 1
    for i, follows in enumerate(ids[1:]):
        assert float(found.probability[i]) == pytest.approx(p[i, follows], rel=1e-5)
        assert float(found.surprisal[i]) == pytest.approx(-math.log2(p[i, follows]), rel=1e-5)
        assert int(found.rank[i]) == sorted(p[i], reverse=True).index(p[i, follows]) + 1
    np.testing.assert_allclose(found.entropy, -(p * np.log2(p)).sum(-1), rtol=1e-5)
    bits = [-math.log2(p[i, follows]) for i, follows in enumerate(ids[1:])]
    assert found.mean_surprisal == pytest.approx(sum(bits) / len(bits), rel=1e-5)
    assert found.perplexity == pytest.approx(
        np.prod([p[i, t] for i, t in enumerate(ids[1:])]) ** (-1 / len(bits)), rel=1e-5
    )


def output(logits: list[list[float]], *labels: int) -> NextToken:
    return NextToken("text", labels, torch.tensor(logits), ())


def test_figures_that_are_easy_to_compute() -> None:
    """p = 1/2, 1/4, 1/8, 1/8; then uniform; then certain."""
    ln2 = math.log(2)
    certain = [0.0, -math.inf, -math.inf, -math.inf]
    found = expectations(output([[3 * ln2, 2 * ln2, ln2, ln2], [5.0] * 4, certain], 1, 2))
    assert found.surprisal.tolist() == pytest.approx([2, 2])
    assert found.probability.tolist() == pytest.approx([0.25, 0.25])
    assert found.rank.tolist() == [2, 1]
    assert found.entropy.tolist() == pytest.approx([1.75, 2, 0], abs=1e-6)
    assert (found.mean_surprisal, found.perplexity) == pytest.approx((2, 4))
    impossible = expectations(output([certain], 3))
    assert (impossible.mean_surprisal, impossible.perplexity) == (math.inf, math.inf)
    assert impossible.rank.tolist() == [2]


def test_a_long_text_is_computed_in_slices_like_a_short_one(
    monkeypatch: pytest.MonkeyPatch, gpt: Scope
) -> None:
    trace = gpt.run(TEXT * 3)
    whole = expectations(trace.next_token), check_expectations(trace.next_token)
    monkeypatch.setattr(
        "models.analysis.expectations.PROBABILITIES_AT_ONCE", 3 * gpt.config.vocab_size
    )
    sliced = expectations(trace.next_token), check_expectations(trace.next_token)
    for part in ("rank", "entropy", "probability", "surprisal"):
        torch.testing.assert_close(getattr(sliced[0], part), getattr(whole[0], part))
    assert [check.value for check in sliced[1]] == [check.value for check in whole[1]]
    assert [(one.start, one.stop) for one in slices(torch.zeros(7, 11))] == [(0, 3), (3, 6), (6, 9)]


def test_a_text_without_a_next_token_has_no_surprisal() -> None:
    found = expectations(output([[1.0, 2.0, 3.0]]))
    assert (found.rank.tolist(), found.surprisal.tolist(), len(found.entropy)) == ([], [], 1)
    assert math.isnan(found.mean_surprisal)
    assert all(check.passed for check in check_expectations(output([[1.0, 2.0, 3.0]])))
    assert text.difficulty_summary(found) == "Nothing follows yet, so no token can be surprising."


def test_the_checks_pass_and_fail_where_something_is_wrong(gpt: Scope) -> None:
    right = gpt.run(TEXT).next_token
    assert [check.passed for check in check_expectations(right)] == [True, True]
    in_nats = replace(right)
    object.__setattr__(in_nats, "surprisal", right.surprisal * math.log(2))
    assert [check.passed for check in check_expectations(in_nats)] == [True, False]
    nearly = replace(right)
    object.__setattr__(
        nearly, "surprisal", right.surprisal + torch.tensor([0.0] * (len(TEXT) - 1) + [1e-3])
    )
    assert [check.passed for check in check_expectations(nearly)] == [True, False]
    raised = replace(right)
    vars(raised)["log_probs"] = right.log_probs + torch.tensor(
        [[0.0]] * len(TEXT) + [[1e-3]]
    )  # of the last position alone
    assert [check.passed for check in check_expectations(raised)] == [False, True]
    shifted = replace(right, labels=(*right.labels[1:], right.labels[0]))
    vars(shifted)["surprisal"] = right.surprisal
    assert [check.passed for check in check_expectations(shifted)] == [True, False]


# the data of the component


def test_the_positions_of_a_text_are_its_tokens_and_an_unknown_one(gpt: Scope) -> None:
    header, arrays = of(gpt, TEXT)
    p, ids = softmax(gpt, TEXT), gpt.run(TEXT).streams["text"].ids
    assert header["kind"] == "surprisal"
    assert header["opening"][0] == "[start]"
    assert [place and place[0] for place in header["places"]] == [*TEXT, None]
    assert header["position"] == len(TEXT)
    assert header["most"] == pytest.approx(math.log2(gpt.config.vocab_size))
    assert arrays["surprisal"].tolist() == pytest.approx(
        [-math.log2(p[i, t]) for i, t in enumerate(ids[1:])], rel=1e-5
    )
    assert header["answer"]["fact"] == text.TEXT_ENDS
    assert not any(mark for _, _, mark in header["answer"]["rows"])
    assert header["alternatives"] == []
    assert header["title"] == "How surprising each token of the text is, given those before it"


@pytest.mark.parametrize("position", range(len(TEXT)))
def test_the_distribution_at_a_position_is_its_softmax_sorted(gpt: Scope, position: int) -> None:
    header, arrays = of(gpt, TEXT, position=position)
    p, ids = softmax(gpt, TEXT)[position], gpt.run(TEXT).streams["text"].ids
    rows, order = header["answer"]["rows"], np.argsort(-p, kind="stable").tolist()
    assert [row[0] for row in rows[:10]] == order[:10]
    np.testing.assert_allclose(arrays["p"], p[[row[0] for row in rows]], rtol=1e-5)
    assert arrays["ranks"].tolist() == [order.index(row[0]) + 1 for row in rows]
    assert [label[0] for _, label, _ in rows] == [name(gpt, one) for one, *_ in rows]
    follows, before = ids[position + 1], ids[position]
    assert [(one, mark) for one, _, mark in rows if mark] == [(follows, "follows")]
    assert header["answer"]["title"] == (
        f"Predicted after “{TEXT[position - 1]}”" if position else "Predicted after [start]"
    )
    assert (before, follows) == (
        gpt.encode(TEXT)["text"].ids[position],
        gpt.encode(TEXT)["text"].ids[position + 1],
    )
    rank = order.index(follows) + 1
    assert header["answer"]["fact"] == (
        f"Follows: “{TEXT[position]}”, probability {percent(float(p[follows]), 1)}, rank {rank} of 11, "
        f"{-math.log2(p[follows]):.2f} bits."
    )
    top, entropy = np.sort(p)[-10:].sum(), -(p * np.log2(p)).sum()
    assert header["answer"]["rest"] == text.unlisted_tokens(10, top, entropy)


def test_a_token_beyond_the_ten_is_listed_after_them(gpt: Scope) -> None:
    """The vocabulary has 11 tokens, and somewhere in this text the true one ranks last."""
    ranks = expectations(gpt.run(TEXT * 4).next_token).rank.tolist()
    position = ranks.index(11)
    header, arrays = of(gpt, TEXT * 4, position=position)
    assert [bool(mark) for *_, mark in header["answer"]["rows"]] == [False] * 10 + [True]
    assert arrays["ranks"].tolist() == list(range(1, 12))


@pytest.mark.parametrize(("position", "head"), [(0, 0), (3, 1), (7, 2)])
def test_the_row_is_that_of_the_answering_token(gpt: Scope, position: int, head: int) -> None:
    header, arrays = of(gpt, TEXT, position=position, focus=Focus(GPT_SELF, head))
    site = gpt.run(TEXT).attention[GPT_SELF]
    q, k = site.q[0, head].double(), site.k[0, head].double()
    scores = (q[position] @ k.T / q.shape[1] ** 0.5)[: position + 1]
    np.testing.assert_allclose(arrays["weights"][: position + 1], scores.softmax(-1), atol=1e-6)
    assert arrays["weights"][position + 1 :].tolist() == [0.0] * (7 - position)
    assert arrays["allowed"].tolist() == [1] * (position + 1) + [0] * (7 - position)
    reading = header["reading"]
    assert reading["blocked"] == [[]] * (position + 1) + [["look-ahead"]] * (7 - position)
    assert reading["own"] == position
    token = f"“{TEXT[position - 1]}”" if position else "[start]"
    assert (
        reading["title"] == f"Decoder layer 2, head {head + 1}: what {token} attends to in the text"
    )
    assert [label[0] for label in reading["keys"]] == ["[start]", *TEXT]


def test_a_generated_text_has_its_alternatives_at_every_position(transformer: Scope) -> None:
    source, target = "abcde", "edc"
    header, arrays = of(transformer, source, target)
    p, end = softmax(transformer, source, target), transformer.config.end_id
    labels = [*transformer.run(source, target).streams["target"].ids[1:], end]
    assert header["kind"] == "alternatives"
    assert header["opening"] is None
    assert [place[0] for place in header["places"]] == [*target, "[end]"]
    np.testing.assert_allclose(
        arrays["probability"], [p[i, t] for i, t in enumerate(labels)], rtol=1e-5
    )
    others = arrays["others"].reshape(4, 3)
    for i, label in enumerate(labels):
        order = [t for t in np.argsort(-p[i], kind="stable").tolist() if t != label][:3]
        assert [shown[0] for shown in header["alternatives"][i]] == [
            name(transformer, t) for t in order
        ]
        np.testing.assert_allclose(others[i], p[i, order], rtol=1e-5)
    assert of(transformer, source, target, position=1)[0]["answer"]["fact"].startswith(
        "Given: “d”, "
    )
    assert header["position"] == int(
        np.argmin([p[i, t] for i, t in enumerate(labels)])
    )  # the most surprising
    title = "Translation, as given: the probability of each token and the most probable others"
    assert header["title"] == title


def test_the_models_own_text_is_called_written(transformer: Scope) -> None:
    run = CurrentRun(transformer, transformer.run("abcde"))
    header, _ = of(transformer, "abcde", position=0)
    assert header["title"].startswith("Translation, as the model writes it")
    assert header["answer"]["fact"].startswith("Written: ")
    assert header["answer"]["title"] == "Predicted after [start]"
    assert header["answer"]["rows"][0][2] == "written"  # greedy decoding takes the most probable
    assert [place[0] for place in header["places"]][:-1] == list(run.trace.output)


def test_the_next_token_stays_chosen_while_the_text_grows(gpt: Scope, transformer: Scope) -> None:
    along, written = gpt.run(TEXT).next_token, transformer.run("abcde", "edc").next_token
    assert [next_token.clicked_position(along, position) for position in (0, 6, 7)] == [0, 6, None]
    assert [next_token.clicked_position(written, position) for position in (0, 3)] == [0, 3]
    assert [of(gpt, text)[0]["position"] for text in ("ab", "abc")] == [2, 3]


@pytest.mark.parametrize("position", [8, 9_999])
def test_a_missing_position_gives_the_default(gpt: Scope, position: int) -> None:
    assert of(gpt, TEXT, position=position)[0]["position"] == of(gpt, TEXT)[0]["position"] == 7
    assert of(gpt, TEXT, position=7)[0]["position"] == 7


def test_the_attention_shown_belongs_to_the_answering_stream(
    transformer: Scope, gpt: Scope
) -> None:
    trace = transformer.run("abcde", "edc")
    chosen = [
        reading_site(trace, "target", focus)
        for focus in (Focus(CROSS, 2), Focus(SELF, 1), Focus(ENCODER, 2))
    ]
    assert [(site.name, head) for site, head in chosen] == [
        (CROSS, 2),
        (SELF, 1),
        ("decoder.layers.0.cross_attn", 2),
    ]
    site, head = reading_site(trace, "target", Focus())
    assert site.role == "cross"
    assert head == int(torch.stack([site.weights(h).amax(-1).mean() for h in range(3)]).argmax())
    deep = letters(n_encoder_layers=3).run("abcde", "edc")
    assert (
        reading_site(deep, "target", Focus("encoder.layers.2.self_attn", 0))[0].name == CROSS
    )  # the decoder has two layers
    assert reading_site(gpt.run(TEXT), "text", Focus(GPT_SELF, 9))[1] == 2
    header, arrays = of(transformer, "abcde", "edc", position=2, focus=Focus(CROSS, 1))
    np.testing.assert_allclose(
        arrays["weights"], trace.attention[CROSS].weights(1)[2].numpy(), atol=1e-6
    )
    assert header["reading"]["own"] == -1
    assert [label[0] for label in header["reading"]["keys"]] == [*"abcde", "[end]"]
    narrow = replace(trace, attention={
        name: replace(site, out=site.out[:, :2]) if site.role == "cross" else site for name, site in trace.attention.items()
    })  # fmt: skip
    assert reading_site(narrow, "target", Focus(ENCODER, 2))[1] == 1  # of two heads the last
    assert header["reading"]["title"].endswith("what “d” attends to in the source sentence")


def test_a_model_without_attention_says_so() -> None:
    scope = letters("recurrent", attention="none")
    header, arrays = of(scope, "abc", "cb")
    assert (header["reading"]["note"], header["reading"]["keys"]) == (text.NO_ATTENTION_ROW, [])
    assert (len(arrays["weights"]), len(arrays["allowed"])) == (0, 0)


def test_every_row_that_is_shown_is_checked(gpt: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CurrentRun(gpt, gpt.run(TEXT))

    def checks(position: int) -> list[str]:
        _, held = next_token.next_token(
            run, run.trace.next_token, TaskChoices(position, Focus(GPT_SELF, 1))
        )
        return ["passed" if check.passed else "failed" for check in held]

    assert checks(3) == ["passed"] * 3
    site = run.trace.attention[GPT_SELF]
    facts = {"dtype": site.dtype, "has_causes": True}
    halved = SimpleNamespace(
        weights=lambda head, rows: site.weights(head, rows=rows) / 2, allowed=site.allowed, **facts
    )
    found = check_row(halved, 1, 3)
    assert not found.passed
    assert (found.name, found.sentence) == (
        "the attention row sums to 1",
        "Difference of the row's weights from 1",
    )
    assert (found.value, found.limit) == (pytest.approx(0.5), 1e-5)
    sizes = torch.tensor([[9.0]] * 3 + [[1.0]] + [[9.0]] * 4)  # wrong except for the row shown
    others = SimpleNamespace(
        weights=lambda head, rows: (site.weights(head) * sizes)[rows], allowed=site.allowed, **facts
    )
    assert check_row(others, 1, 3).passed
    nothing = SimpleNamespace(
        weights=lambda head, rows: torch.zeros(1, 8),
        allowed=lambda *_: torch.zeros(1, 8, dtype=torch.bool),
        **facts,
    )
    assert check_row(nothing, 1, 3).passed


def test_the_space_before_a_word_is_shown_but_at_the_start_of_a_written_text() -> None:
    tokenizer = Tokenizer.bpe(["reading the book", "a book is read"] * 7, 160)
    sizes = {"vocab_size": tokenizer.vocab_size, "n_ctx": 41}
    for model, texts, first in (
        (random_model(17, **sizes), ("a book", "the book"), 0),
        (random_gpt(**sizes), ("the book",), 9),
    ):
        scope = Scope(
            Checkpoint(Path("words"), model, tokenizer, {"task": "letters"}), torch.device("cpu")
        )
        for position in (0, 1):
            header, _ = of(scope, *texts, position=position)
            shown = {row[0]: row[1][0] for row in header["answer"]["rows"]}
            spaced = {
                token
                for token in shown
                if tokenizer.token(token).startswith("▁") and len(tokenizer.token(token)) > 1
            }
            assert all(shown[token].startswith("·") == (position != first) for token in spaced)
            assert spaced
        output, spaces = scope.run(*texts).next_token, 0
        for place, alternatives in enumerate(header["alternatives"]):
            best = [
                t
                for t in output.logits[place].topk(4).indices.tolist()
                if t != output.labels[place]
            ][:3]
            named = [
                "␣"
                if tokenizer.token(t) == "▁"
                else SPECIAL.get(tokenizer.token(t), tokenizer.token(t)).replace("▁", "·")
                for t in best
            ]
            cut = [
                one[1:] if one[0] == "·" and len(one) > 1 and place == 0 else one for one in named
            ]
            assert [label[0] for label in alternatives] == cut
            spaces += place > 0 and any(one[0] == "·" and len(one) > 1 for one in cut)
        assert spaces or not header["alternatives"]


# words


def test_the_summary_says_bits_and_perplexity(gpt: Scope) -> None:
    p, ids = softmax(gpt, TEXT), gpt.run(TEXT).streams["text"].ids
    bits = [-math.log2(p[i, t]) for i, t in enumerate(ids[1:])]
    mean = sum(bits) / 7
    assert of(gpt, TEXT)[0]["summary"] == (
        f"7 tokens, {mean:.2f} bits each on average: perplexity {2**mean:.1f}, as hard to guess as {2**mean:.1f} equally "
        "likely tokens."
    )
    assert of(gpt, "a")[0]["summary"].startswith("1 token, ")


def test_the_share_of_the_listed_tokens_is_given() -> None:
    assert text.unlisted_tokens(10, 0.676, 6.0) == (
        "These 10 tokens have 67.6 % of the probability. Entropy 6.00 bits, equivalent to 64.0 equally likely tokens."
    )


def test_large_small_and_infinite_numbers_are_readable() -> None:
    assert [text.choices(x) for x in (1.004, 9.98, 15.46, 1234.6, math.inf)] == [
        "1.00",
        "9.98",
        "15.5",
        "1,235",
        "∞",
    ]
    assert [text.format_bits(x) for x in (0.126, 12.0, math.inf)] == ["0.13", "12.00", "∞"]


def test_the_scale_of_the_positions_is_named(gpt: Scope, transformer: Scope) -> None:
    assert of(gpt, TEXT)[0]["scale"][:2] == [
        "0",
        "3.46 bits = pure guessing among 11 tokens (the scale ends here)",
    ]
    assert of(transformer, "ab", "b")[0]["scale"][:2] == ["0", "1  probability"]


TRAINING = {"scores": {"held-out perplexity": 33.987, "bits per byte": 1.5, "cases": 2252}}


@pytest.mark.parametrize(
    ("task", "languages", "said"),
    [
        ("language", ["en"], "This model continues a text."),
        ("translation", ["en", "fr"], "This model translates English to French."),
        ("translation", ["de", "en"], "This model translates German to English."),
        ("translation", [], "This model translates text."),
        ("dates", [], "This model writes a date in ISO format."),
        ("letters", [], "This model predicts the probability of every possible next token."),
    ],
)
def test_the_purpose_of_a_model_follows_from_its_task(
    task: str, languages: list[str], said: str
) -> None:
    record = {"task": task, "languages": languages}
    open_text = output([[0.0, 1.0], [0.0, 1.0]], 1)
    assert text.purpose_and_score(open_text, record) == said
    assert (
        text.purpose_and_score(open_text, record | TRAINING)
        == f"{said} Held-out perplexity 33.99 over 2,252 cases."
    )
    assert text.purpose_and_score(open_text, record | {"scores": "none"}) == said


def test_a_score_in_nats_is_given_in_bits_as_in_the_pictures() -> None:
    nats = {"held-out nats per token": 2.0, "cases": 12}
    record = {"task": "permutation", "scores": nats | {"bits per token": 2.0 / math.log(2)}}
    said = text.purpose_and_score(output([[0.0, 1.0]], 1), record)
    assert said.endswith("Held-out bits per token 2.89 over 12 cases.")
    said = text.purpose_and_score(output([[0.0, 1.0]], 1), record | {"scores": nats})
    assert said.endswith("Held-out nats per token 2 over 12 cases.")


def test_a_classifier_is_for_its_classes(gpt: Scope) -> None:
    config = replace(gpt.config, head="classes", classes="negative,neutral,positive")
    said = text.purpose_and_score(output([[0.0, 1.0]], 1), {"task": "classify"}, config)
    assert said == "This model classifies text as negative, neutral or positive."


def test_the_purpose_of_an_unknown_task_follows_from_its_output() -> None:
    closed = output([[0.0, 1.0]], 1)
    assert (
        text.purpose_and_score(closed, {"task": "letters"})
        == "This model reads one text and writes another."
    )
    heard = replace(closed, stream="transcript")
    assert text.purpose_and_score(heard, {}) == "This model transcribes speech."


def test_with_many_classes_the_share_is_that_of_the_listed_ones() -> None:
    logits = torch.arange(13.0) / 3
    p = logits.softmax(-1)
    fact = text.class_fact(ClassProbabilities("text", 0, tuple(map(str, range(13))), logits))
    assert "Most probable is “12”." in fact
    assert f"The 10 most probable of 13 classes hold {100 * float(p[3:].sum()):.1f} % " in fact


# files


def test_the_table_holds_every_position_with_where_it_comes_from(gpt: Scope) -> None:
    run = CurrentRun(gpt, gpt.run(TEXT))
    rows = list(csv.DictReader(io.StringIO(files.next_token_csv(run, TaskChoices(2, Focus())))))
    p, ids = softmax(gpt, TEXT), run.trace.streams["text"].ids
    assert [row["position"] for row in rows] == [str(i) for i in range(8)]
    assert [row["token"] for row in rows] == [
        f"{i} {token}" for i, token in enumerate(["[start]", *TEXT])
    ]
    assert [row["next token"] for row in rows] == [
        *(f"{i + 1} {token}" for i, token in enumerate(TEXT)),
        "",
    ]
    for i, follows in enumerate(ids[1:]):
        assert float(rows[i]["probability"]) == pytest.approx(p[i, follows], rel=1e-5)
        assert float(rows[i]["surprisal (bits)"]) == pytest.approx(
            -math.log2(p[i, follows]), rel=1e-5
        )
        assert int(rows[i]["rank"]) == (p[i] > p[i, follows]).sum() + 1
    assert [rows[-1][column] for column in ("probability", "surprisal (bits)", "rank")] == [""] * 3
    entropies = [float(row["entropy (bits)"]) for row in rows]
    np.testing.assert_allclose(entropies, -(p * np.log2(p)).sum(-1), rtol=1e-5)
    assert {(row["model"], row["fingerprint"]) for row in rows} == {("letters", gpt.fingerprint)}
    assert not any(
        row[column][:1] in "=@+-"
        for row in rows
        for column in ("token", "next token")
        if row[column]
    )


def test_the_table_of_a_generated_text_ends_with_the_end_token(transformer: Scope) -> None:
    run = CurrentRun(transformer, transformer.run("abcde", "edc"))
    rows = list(csv.DictReader(io.StringIO(files.next_token_csv(run, TaskChoices(None, Focus())))))
    assert [row["token"] for row in rows] == ["0 [start]", "1 e", "2 d", "3 c"]
    assert [row["next token"] for row in rows] == ["1 e", "2 d", "3 c", "4 [end]"]


def test_equal_probabilities_share_the_better_rank() -> None:
    log_probs = torch.tensor([0.2, 0.4, 0.4]).log()
    assert [expectation(log_probs, token).rank for token in range(3)] == [3, 1, 1]
