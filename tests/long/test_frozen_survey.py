"""Models guided by the frozen weights of another model: each number by a second route, and planted cases."""

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small import Reversal, random_model, random_seq2seq
from small_scopes import LETTERS, as_scope, scope_of

import models
from models.analysis.paired import bootstrap
from models.architectures import Model
from models.runs.frozen_weights import mean_weights
from models.runs.scope import Scope
from models.runs.survey_parts import SurveyParts
from models.training import frozen_survey
from models.training.batches import NO_LABEL, Batch, Pair, collate
from models.training.frozen_survey import (
    GUIDED_RATE,
    GUIDED_SEEDS,
    GUIDED_WARMUP,
    GuidedTraining,
    survey_frozen,
)
from models.training.guided_model import (
    D_GUIDED,
    GUIDES,
    GuidedModel,
    diagonal_weights,
    equal_weights,
    frozen_weights,
)
from models.training.task import Case, Task

TEACHERS = {
    "alignment": random_seq2seq(5, vocab_size=LETTERS.vocab_size),
    "18 heads": random_model(5, vocab_size=LETTERS.vocab_size, n_decoder_layers=3),
}
PAIRS = [("abcde", "gfa"), ("b", "cdefg"), ("gg", "")]


class Hidden(Reversal):
    """A task of five letters, three of which are written in an order that depends on the text's seed alone."""

    name = "hidden"

    def __init__(self) -> None:
        super().__init__()
        letters = [Random(f"word {i}").choices("abcde", k=5) for i in range(3000)]
        self.all_words = list(dict.fromkeys(map("".join, letters)))

    def pair(self, word: str) -> Pair:
        target = "".join(word[j] for j in self.order(word))
        return self.tokenizer.encode(word).ids, self.tokenizer.encode(target).ids

    @staticmethod
    def order(word: str) -> list[int]:
        return Random(f"order of {word}").sample(range(5), 3)

    def batches(self, seed: int) -> Iterator[list[Any]]:
        step = 0
        while True:
            drawn = Random(f"{seed}/{step}").choices(self.all_words[100:], k=self.batch_size)
            yield [self.pair(word) for word in drawn]
            step += 1

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        targets = [(w, "".join(w[j] for j in self.order(w))) for w in self.all_words[:100]]
        return [Case(word, (target,), (word, target)) for word, target in targets[:n]]

    def told(self, model: Model, batch: Batch) -> torch.Tensor:
        """Return weights that know the order."""
        source, target = batch.inputs
        told = torch.zeros(len(source), target.shape[1], source.shape[1])
        for row, ids in enumerate(source.tolist()):
            for i, j in enumerate([*self.order(self.tokenizer.decode(ids[:5])), 5]):
                told[row, i, j] = 1
        return told


def letters_batch() -> Batch:
    return collate([(LETTERS.encode(s).ids, LETTERS.encode(t).ids) for s, t in PAIRS], LETTERS)


@pytest.mark.parametrize("learns", [False, True])
def test_a_guided_model_matches_plain_loops(learns: bool) -> None:
    guided = GuidedModel(LETTERS.vocab_size, 0, learns=learns, seed=3).double()
    batch = letters_batch()
    source, target = batch.inputs
    rng = torch.Generator().manual_seed(1)
    given = torch.rand(*target.shape, source.shape[1], generator=rng).double()
    found = guided.logits(guided(source, target, None if learns else given))
    weights = {name: w.tolist() for name, w in guided.named_parameters()}

    def times(matrix: list[list[float]], vector: list[float]) -> list[float]:
        return [math.fsum(w * x for w, x in zip(row, vector, strict=True)) for row in matrix]

    def tanh_of(*rows: list[float]) -> list[float]:
        return [math.tanh(sum(each)) for each in zip(*rows, strict=True)]

    def embedded(token: int) -> list[float]:
        return [math.sqrt(D_GUIDED) * w for w in weights["embedding"][token]]

    for row, i in ((0, 0), (0, 2), (1, 4), (2, 0)):
        real = [int(token) for token in source[row] if token]
        y = embedded(int(target[row, i]))
        alpha = given[row, i].tolist()
        if learns:
            scores = [
                sum(
                    v * h
                    for v, h in zip(
                        weights["v"],
                        tanh_of(times(weights["W"], y), times(weights["U"], embedded(token))),
                        strict=True,
                    )
                )
                for token in real
            ]
            shares = [math.exp(score) for score in scores]
            alpha = [share / sum(shares) for share in shares]
        keys = real if learns else source[row].tolist()
        values = [tanh_of(times(weights["W_x"], embedded(token)), weights["b_x"]) for token in keys]
        c = times([list(each) for each in zip(*values, strict=True)], alpha)
        readout = tanh_of(times(weights["W_r"], [*y, *c]), weights["b_r"])
        logits = [a + b for a, b in zip(times(weights["embedding"], readout), weights["bias"], strict=True)]  # fmt: skip
        assert found[row, i].tolist() == pytest.approx(logits, abs=1e-9)


@pytest.mark.parametrize("teacher", TEACHERS)
def test_frozen_weights_are_the_mean_of_a_run_on_the_text_alone(teacher: str) -> None:
    model, batch = TEACHERS[teacher], letters_batch()
    found = frozen_weights(model, batch)
    scope = as_scope(model, LETTERS, teacher)
    for row, (source, target) in enumerate(PAIRS[:2]):
        alone = mean_weights(scope.run(source, target), "cross")
        n, m = len(source) + 1, len(target) + 1
        assert alone.shape == (m, n)
        torch.testing.assert_close(found[row, :m, :n], alone, atol=1e-5, rtol=0)
        assert not found[row, :, n:].any()
    assert found[0, :4].std() > 0.001  # the rows differ


@pytest.mark.parametrize("teacher", TEACHERS)
def test_frozen_weights_do_not_know_the_token_to_predict(teacher: str) -> None:
    (source, target), model = letters_batch().inputs, TEACHERS[teacher]
    before = frozen_weights(model, letters_batch())
    (token,) = LETTERS.encode("d").ids
    for i in range(1, target.shape[1]):
        other = target.clone()
        other[1, i:] = token  # label i − 1 and all that follow
        after = frozen_weights(model, Batch((source, other), letters_batch().labels))
        assert torch.equal(after[1, :i], before[1, :i])
        if i < target.shape[1] - 1:
            assert not torch.equal(after[1], before[1])


def test_equal_and_diagonal_weights_keep_to_the_real_tokens() -> None:
    batch, model = letters_batch(), TEACHERS["alignment"]
    equal, diagonal = equal_weights(model, batch), diagonal_weights(model, batch)
    for row, (source, _) in enumerate(PAIRS):
        n = len(source) + 1
        for i in range(batch.inputs[1].shape[1]):
            assert equal[row, i].tolist() == pytest.approx([1 / n] * n + [0] * (6 - n))
            assert diagonal[row, i].nonzero().tolist() == [[min(i, n - 1)]]
            assert diagonal[row, i].sum() == 1


def test_training_matches_plain_adam() -> None:
    """The loss is torch's own, over all positions, and the shares are counted token by token."""
    task, steps = Reversal(), 7
    model = random_seq2seq(5, vocab_size=task.tokenizer.vocab_size)
    tested = task.validation()[:9]
    training = GuidedTraining(model, task_of(task), tested, 3, steps)
    for guide in GUIDES:
        guided = training.trained(guide, 11)
        plain = GuidedModel(task.tokenizer.vocab_size, 0, learns=guide == "learned", seed=11)
        optimizer = torch.optim.Adam(plain.parameters())
        weigh = GUIDES[guide]
        for i, examples in zip(range(steps), task.batches(3), strict=False):
            batch = task.collate(examples)
            weights = weigh(model, batch) if weigh else None
            logits = plain.logits(plain(*batch.inputs, weights)).transpose(1, 2)
            optimizer.param_groups[0]["lr"] = GUIDED_RATE * (i + 1) / GUIDED_WARMUP * (1 - i / steps)  # fmt: skip
            optimizer.zero_grad()
            F.cross_entropy(logits, batch.labels, ignore_index=NO_LABEL).backward()
            optimizer.step()
        for name, w in plain.named_parameters():
            # Adam turns a rounding error of a gradient near 0 into a step as large as its rate
            assert (w - dict(guided.named_parameters())[name]).abs().mean() < 2e-5, (guide, name)
        by_hand = []
        for pair in tested:
            batch = task.collate([pair])
            weights = weigh(model, batch) if weigh else None
            predicted = guided.logits(guided(*batch.inputs, weights))[0].argmax(-1).tolist()
            right = [a == b for a, b in zip(predicted, batch.labels[0].tolist(), strict=True)]
            by_hand.append(sum(right) / len(right))
        assert training.shares(guided, guide) == pytest.approx(by_hand)


def test_weights_that_alone_know_the_answer_are_found_and_no_others(monkeypatch) -> None:
    """Three of five letters come in a hidden order; every model can learn </s>, a quarter of the tokens."""
    task = Hidden()
    monkeypatch.setattr(frozen_survey, "GUIDES", {**GUIDES, "imposed": task.told})
    monkeypatch.setattr(frozen_survey, "GUIDED_SEEDS", 1)
    scope = teacher_of(task)
    found = survey_frozen(scope, task_of(task), 64, 0, lambda done, total: None, steps=150)
    assert found["imposed"].mean > 0.98
    for guide in ("uniform", "learned", "diagonal"):
        assert found[guide].mean < 0.6
        gain = found[f"imposed over {guide}"]
        assert gain.low > 0.35
        assert (gain.unit, gain.n_texts) == ("difference", 64)
        assert gain.mean == pytest.approx(found["imposed"].mean - found[guide].mean, abs=1e-4)


def test_weights_that_know_nothing_gain_nothing(monkeypatch) -> None:
    """The weights are those of a random model, on letters to be reversed."""
    monkeypatch.setattr(frozen_survey, "GUIDED_SEEDS", 1)
    task = Reversal()
    scope = teacher_of(task)
    found = survey_frozen(scope, task_of(task), 64, 0, lambda done, total: None, steps=40)
    assert found["imposed over uniform"].low <= 0.05
    assert found["imposed"].mean < 0.9


def teacher_of(task: Reversal) -> Scope:
    vocab_size = task.tokenizer.vocab_size
    return as_scope(random_seq2seq(5, vocab_size=vocab_size), task.tokenizer, "random")


def task_of(task: Reversal) -> Task:
    return task  # pyright: ignore[reportReturnType]


def test_weights_of_a_trained_model_help(scope: Scope, monkeypatch) -> None:
    """The Transformer that the tests train to write words backwards knows which letter is next."""
    monkeypatch.setattr(frozen_survey, "GUIDED_SEEDS", 1)
    task = task_of(Reversal())
    found = survey_frozen(scope, task, 64, 0, lambda done, total: None, steps=60)
    assert found["imposed over uniform"].low > 0


def test_means_are_over_seeds_and_intervals_over_texts() -> None:
    """The shares are planted in place of trained models."""
    task, parts, rng = Reversal(), SurveyParts(), Random(5)
    scope = teacher_of(task)
    planted = {
        (guide, seed): [rng.random() for _ in range(9)]
        for guide in GUIDES
        for seed in range(7, 7 + GUIDED_SEEDS)
    }
    for (guide, seed), shares in planted.items():
        parts.numbers(f"{guide} {seed}", 1, lambda shares=shares: shares)
    told = []
    found = survey_frozen(scope, task_of(task), 9, 7, lambda *each: told.append(each), parts, 5)
    assert told[-1] == (5 * len(planted), 5 * len(planted))
    means = {
        guide: [sum(planted[guide, 7 + k][i] for k in range(GUIDED_SEEDS)) / GUIDED_SEEDS for i in range(9)]
        for guide in GUIDES
    }  # fmt: skip
    for name, one in found.items():
        first, _, other = name.partition(" over ")
        values = torch.tensor(means[first]) - (torch.tensor(means[other]) if other else 0)
        by_hand = bootstrap(values.double(), 7)
        assert (one.mean, one.low, one.high) == pytest.approx(
            (by_hand.mean, by_hand.low, by_hand.high), abs=1e-4
        )
    assert list(found) == [*GUIDES, *(f"imposed over {one}" for one in GUIDES if one != "imposed")]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("eng-fra-rnn", "no attention from target to source"),
        ("reverse-unmasked", "sees the tokens to predict"),
    ],
)
def test_a_model_without_weights_to_impose_is_refused(name: str, reason: str) -> None:
    scope = models.load(name)
    with pytest.raises(ValueError, match=f"{name}.*{reason}"):
        survey_frozen(scope, task_of(Reversal()), 9, 0, lambda done, total: None)


def test_too_few_texts_are_an_error() -> None:
    with pytest.raises(ValueError, match="3 held-out texts can be read; at least 8"):
        survey_frozen(scope_of("seq2seq"), task_of(Reversal()), 3, 0, lambda done, total: None)
    assert len(frozen_survey.held_out_pairs(teacher_of(Reversal()), task_of(Reversal()), 9)) == 9
