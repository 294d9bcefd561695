"""Surveys over held-out texts: each measure by a second route, planted cases, and their record."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from random import Random
from typing import Any

import pytest
import torch
from small import random_seq2seq
from small_scopes import HELD_OUT, LETTERS, as_scope, as_text, scope_of

import models
from models.analysis.paired import bootstrap
from models.architectures.seq2seq import Seq2Seq
from models.runs import surveys
from models.runs.attention_row import AttentionRow
from models.runs.explanation import Adversary, adversary, permuted_weights
from models.runs.scope import Scope
from models.runs.surveys import (
    MIN_WORDS,
    GeneratedWord,
    Slip,
    SurveyedMean,
    draw_wrong_word,
    generated_words,
    make_slip,
    rows_of_words,
    survey_recovery,
    survey_weights,
)
from models.scores import of_weights, without_scores
from models.tokenizers.base import END, Encoding
from models.trace.edits import SetWeights, Where
from models.training_record import check_record


def varied_model(seed: int = 3, n_ctx: int = 11) -> Seq2Seq:
    """Return an RNN with alignment whose random weights are large enough that its texts differ."""
    model = random_seq2seq(seed, vocab_size=LETTERS.vocab_size, n_ctx=n_ctx)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3)
    return model


@pytest.fixture(scope="module")
def aligned() -> Scope:
    return as_scope(varied_model(), LETTERS, "aligned")


def sources(scope: Scope, n: int = 11) -> list[Encoding]:
    texts = [as_text(text, LETTERS)[:7] for text in HELD_OUT[:n]]
    return [scope.encode(text)["source"] for text in texts]


def unnoticed(done: int, total: int) -> None:
    assert 0 < done <= total


def written_by_hand(scope: Scope, source: Encoding, forced: dict[int, int]) -> list[int]:
    """Decode greedily without a cache, with a whole pass for each token."""
    model, row = scope.model, [scope.config.start_id]
    given = torch.tensor([source.ids])
    for i in range(model.max_new_tokens(len(source.ids))):
        with torch.no_grad():
            logits = model(given, torch.tensor([row]))[0, -1]
        row.append(forced.get(i, int(logits.argmax())))
        if row[-1] == END:
            break
    return row[1:]


def letters(ids: list[int]) -> list[tuple[int, int]]:
    """Return (position, id) of each letter before </s>; every letter is a word here."""
    end = ids.index(END) if END in ids else len(ids)
    return [(i, token) for i, token in enumerate(ids[:end]) if not LETTERS.is_special(token)]


def test_recovery_matches_whole_passes(aligned: Scope) -> None:
    given = sources(aligned)
    texts = [letters(written_by_hand(aligned, one, {})) for one in given]
    kept = [(one, text) for one, text in zip(given, texts, strict=True) if len(text) >= MIN_WORDS]
    found = survey_recovery(aligned, given, 5, unnoticed)
    assert 2 < len(kept) < len(given)
    for place in ("first", "middle"):
        recovered, unmoved = [], []
        for i, (source, text) in enumerate(kept):
            at = [0 if place == "first" else (len(one) - 1) // 2 for _, one in kept]
            start, right = text[at[i]]
            others = {one[j][1] for j, (_, one) in zip(at, kept, strict=True)} - {right}
            (wrong,) = Random(f"5 {place} {i}").choice(sorted((other,) for other in others))
            again = written_by_hand(aligned, source, {start: wrong})
            before = [token for _, token in text[at[i] + 1 :]]
            after = [token for j, token in letters(again) if j > start]
            half = before[len(before) // 2 :]
            recovered.append(after[-len(half) :] == half)
            unmoved.append(after == before)
        for name, each in (("recovered", recovered), ("unmoved", unmoved)):
            one, by_hand = found[f"{place} {name}"], bootstrap(torch.tensor(each).double(), 5)
            assert (one.unit, one.n_texts) == ("share", len(kept))
            assert one.mean == pytest.approx(sum(each) / len(each), abs=1e-4)
            assert (one.low, one.high) == pytest.approx((by_hand.low, by_hand.high), abs=1e-4)
    assert 0 < found["first recovered"].mean < 1


def scripted(monkeypatch: pytest.MonkeyPatch, tail: int | None) -> None:
    """Return a decoder that gives the unforced tokens whatever it reads, or `tail` after a forced one."""

    def steps(model, given, *, forced) -> Iterator[object]:
        own = greedy_of(model, given)
        last = max(forced)
        for i, step in enumerate(own):
            token = forced.get(i, tail if tail and i > last else step.token)
            yield type(step)(i, step.prefix, token, step.log_probs)

    greedy_of = surveys.greedy
    monkeypatch.setattr(surveys, "greedy", steps)


def test_a_model_that_ignores_its_own_text_always_recovers(aligned, monkeypatch) -> None:
    scripted(monkeypatch, None)
    found = survey_recovery(aligned, sources(aligned), 0, unnoticed)
    assert {(one.mean, one.low, one.high) for one in found.values()} == {(1.0, 1.0, 1.0)}


def test_a_model_that_repeats_another_letter_never_recovers(aligned, monkeypatch) -> None:
    (b,) = LETTERS.encode("b").ids  # which it never generates by itself
    assert not any(b in aligned.write(one).ids for one in sources(aligned))
    scripted(monkeypatch, b)
    found = survey_recovery(aligned, sources(aligned), 0, unnoticed)
    assert {(one.mean, one.low, one.high) for one in found.values()} == {(0.0, 0.0, 0.0)}


def word(text: str, spaced: bool = True) -> GeneratedWord:
    return GeneratedWord(text, 0, tuple(map(ord, text)), spaced)


@pytest.mark.parametrize(
    ("before", "after", "recovered", "unmoved"),
    [
        ("chat noir est ici", "chat noir est ici", True, True),
        ("chat noir est ici", "sommes un chat est ici", True, False),
        ("chat noir est ici", "sommes ici", False, False),  # only the last of four words is too few
        ("chat noir est", "ours blanc est", False, False),  # two of three must be the same
        ("chat noir est", "noir est", True, False),
        ("noir ici", "noir ici aussi", False, False),
        ("noir ici", "", False, False),
    ],
)
def test_half_of_the_words_must_return(before, after, recovered, unmoved) -> None:
    one = Slip(word("Le"), word("Nous"), tuple(before.split()), tuple(after.split()))
    assert (one.is_recovered, one.is_unmoved) == (recovered, unmoved)


def test_a_wrong_word_differs_and_is_spaced_like_the_right_one() -> None:
    texts = [[word(one)] for one in ("Le", "le", "Un", "Une")] + [[word("x", spaced=False)]]
    drawn = {draw_wrong_word(texts, 0, "first", seed).text for seed in range(40)}
    assert drawn == {"Un", "Une"}
    with pytest.raises(ValueError, match="no first word of another translation"):
        draw_wrong_word(texts, 4, "first", 0)


def test_words_are_those_of_the_tokenizer_without_punctuation() -> None:
    scope = models.load("eng-fra")
    written = scope.write("Can we make one of those?")
    words = generated_words(written.ids, scope.tokenizer)
    assert written.text == "Pouvons-nous en faire une ?"
    assert [one.text for one in words] == ["Pouvons", "nous", "en", "faire", "une"]
    assert [one.is_spaced for one in words] == [True, False, True, True, True]
    for one in words:
        assert written.ids[one.start : one.start + len(one.ids)] == one.ids
    made = make_slip(scope, scope.encode("Can we make one of those?")["source"], words, 2, words[3])
    assert made.before == ("faire", "une")


@pytest.mark.slow
def test_other_weights_match_whole_edited_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are replaced by edits of whole passes, on two texts."""
    aligned = as_scope(varied_model(n_ctx=7), LETTERS, "aligned")

    def hasty(row: AttentionRow, **how: Any) -> Adversary:
        return adversary(row, n_steps=2, **how)

    monkeypatch.setattr(surveys, "adversary", hasty)
    given = [aligned.encode(text)["source"] for text in ("abc", "dg")]
    found = survey_weights(aligned, given, 3, unnoticed)
    uniform, permuted = [], []
    for source in given:
        trace = aligned.run(source)
        rows = rows_of_words(aligned, trace)
        labels = trace.next_token.labels
        assert len(rows) == (labels.index(END) if END in labels else len(labels))
        own, n = trace.next_token.logits.argmax(-1).tolist(), len(source.ids)
        kept, shares = [], []
        for i, row in enumerate(rows):
            each = [tuple(one.weights.tolist()) for one in permuted_weights(row, seed=3).each]
            tried = list(dict.fromkeys([(1 / n,) * n, *each]))
            edits = [
                SetWeights(
                    Where(site="decoder.alignment", heads=(0,), queries=(i,), rows=(j,)),
                    cells=tuple(enumerate(weights)),
                )
                for j, weights in enumerate(tried)
            ]
            outputs = aligned.outputs_batch([trace.streams] * len(tried), edits)
            answers = [int(one["next token"].logits[i].argmax()) == own[i] for one in outputs]
            is_kept = dict(zip(tried, answers, strict=True))
            kept.append(answers[0])
            shares.append(sum(is_kept[one] for one in each) / len(each))
        uniform.append(sum(kept) / len(kept))
        permuted.append(sum(shares) / len(shares))
    for name, values in (("uniform", uniform), ("permuted", permuted)):
        assert found[name].mean == pytest.approx(sum(values) / 2, abs=0.01)
        assert (found[name].unit, found[name].n_texts) == ("share", 2)
    assert found["permuted"].mean < 1
    each = [
        [hasty(row, seed=3).trial.divergence for row in rows_of_words(aligned, aligned.run(one))]
        for one in given
    ]
    reached = sum(sum(one) / len(one) for one in each) / 2
    assert found["adversary"].mean == pytest.approx(reached, abs=1e-3)
    assert 0 < reached < math.log(2)
    assert (found["adversary"].unit, found["adversary"].n_texts) == ("nats", 2)


def test_the_adversary_searches_the_first_texts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    aligned = as_scope(varied_model(n_ctx=7), LETTERS, "aligned")
    searched, calls = [], []

    def noted(row: AttentionRow, **how: Any) -> Adversary:
        searched.append(row.trace.output)
        return adversary(row, n_steps=1, **how)

    monkeypatch.setattr(surveys, "adversary", noted)
    monkeypatch.setattr(surveys, "ADVERSARY_TEXTS", 2)
    monkeypatch.setattr(surveys, "_shares_kept", lambda row, seed: (1.0, 0.5))
    given = [aligned.encode(text)["source"] for text in ("abc", "dg", "ca")]
    found = survey_weights(aligned, given, 3, lambda *so_far: calls.append(so_far))
    assert [found[name].n_texts for name in ("uniform", "permuted", "adversary")] == [3, 3, 2]
    assert list(dict.fromkeys(searched)) == [aligned.run(one).output for one in given[:2]]
    assert calls[-1] == (5, 5)


def test_a_model_that_ignores_its_context_keeps_every_token() -> None:
    """Nothing limits the adversary then: it puts all weight on the key with the least."""
    model = varied_model()
    d_memory, decoder = model.config.d_memory, model.decoder
    with torch.no_grad():
        decoder.W_r.weight[:, -d_memory:] = 0
        decoder.recurrence.weight_ih[:, -d_memory:] = 0
    scope = as_scope(model, LETTERS, "deaf")
    (source,) = sources(scope, 1)
    found = survey_weights(scope, [source, source], 0, unnoticed)
    assert found["uniform"].mean == found["permuted"].mean == 1
    furthest = []
    for row in rows_of_words(scope, scope.run(source)):
        p = float(row.weights.min())
        # divergence from all weight on a key with weight p: its own term, and those of the others
        own = (math.log(2 / (1 + p)) + p * math.log(2 * p / (1 + p))) / 2
        furthest.append(own + (1 - p) / 2 * math.log(2))
    assert furthest
    assert found["adversary"].mean == pytest.approx(sum(furthest) / len(furthest), abs=1e-3)


def test_a_model_that_generates_nothing_has_no_words_to_keep() -> None:
    scope = as_scope(varied_model(4), LETTERS, "silent")
    assert scope.write("abc").ids == (END,)
    with pytest.raises(ValueError, match="writes nothing"):
        survey_weights(scope, sources(scope, 2), 0, unnoticed)


def test_models_that_a_survey_cannot_measure_are_refused(aligned: Scope) -> None:
    heads, reader = scope_of("transformer"), scope_of("bert", task="mlm")
    with pytest.raises(ValueError, match="12 heads .* exactly 1"):
        survey_weights(heads, sources(heads, 1), 0, unnoticed)
    for survey in (survey_recovery, survey_weights):
        with pytest.raises(ValueError, match="does not translate"):
            survey(reader, [], 0, unnoticed)
    with pytest.raises(ValueError, match="0 translations of at least 4 words"):
        survey_recovery(aligned, sources(aligned)[4:5], 0, unnoticed)


MEAN = SurveyedMean("share", 0.5, 0.25, 0.75, 8)
ENTRY = {"measured_on": "0" * 64, "seed": 0, "means": {"first recovered": asdict(MEAN)}}


def test_a_survey_is_dropped_when_the_weights_change() -> None:
    record = {
        "step": 3,
        "surveys": {"recovery": ENTRY, "weights": {**ENTRY, "measured_on": "1" * 64}},
    }
    check_record(record)
    assert of_weights(record, "0" * 64) == {"step": 3, "surveys": {"recovery": ENTRY}}
    assert of_weights(record, "2" * 64) == {"step": 3}
    ours = {"step": 3, "surveys": {"recovery": ENTRY}}
    assert of_weights(ours, "0" * 64) == ours
    assert without_scores(ours) == {"step": 3, "scores": {}}


def test_a_difference_of_shares_may_be_negative() -> None:
    mean = asdict(SurveyedMean("difference", -0.2, -0.4, 0.1, 8))
    check_record({"surveys": {"frozen": ENTRY | {"means": {"imposed over uniform": mean}}}})


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "bits"}, {"mean": 0.9}, {"low": "0"}, {"low": -0.1}, {"unit": "difference", "low": -1.1},
        {"high": 1.5}, {"n_texts": -1}, {"n_texts": 2.5}, {"p": 1}, {"mean": True},
    ],
)  # fmt: skip
def test_a_malformed_mean_is_refused(change: dict[str, object]) -> None:
    means = {"first recovered": asdict(MEAN) | change}
    with pytest.raises(ValueError, match="surveys must be"):
        check_record({"surveys": {"recovery": ENTRY | {"means": means}}})
