"""The score of texts generated under edits, compared with that without, and its paired interval."""

import pytest
import sacrebleu
import torch

import models
from models.analysis.paired import Interval
from models.runs.scope import Scope
from models.runs.text_loss import TextLosses
from models.trace.edits import HeadOff, HeadScale, Patch, Where
from models.training import edited_score as module
from models.training.edited_score import EditedScore, edited_score, held_out_cases
from models.training.task import Case
from viz_app.controls.scoring import score_sentence

N = 12


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    return {name: models.load(name, device="cpu") for name in ("dates-bahdanau", "eng-fra")}


OFF = HeadOff(Where(kind="cross"), baseline="uniform")


def test_each_text_is_generated_with_and_without_the_edits(scopes) -> None:
    scope = scopes["dates-bahdanau"]
    cases, steps = held_out_cases(scope)[:N], []
    found = edited_score(scope, [OFF], cases, progress=lambda done, of: steps.append((done, of)))
    assert steps == [(i, N) for i in range(1, N + 1)]
    for case, (before, after) in zip(cases, found.texts, strict=True):
        assert before == scope.write(case.source).text
        assert after == scope.write(case.source, edits=[OFF]).text
    right = [sum(pair[i] in c.references for pair, c in zip(found.texts, cases, strict=True)) for i in (0, 1)]  # fmt: skip
    assert (found.before, found.after) == pytest.approx([100 * n / N for n in right])
    assert found.change.mean == pytest.approx(found.after - found.before)
    assert found.change.low <= found.change.mean <= found.change.high
    assert found.after < found.before
    assert found.change.high < 0
    assert (found.metric, found.n) == ("exact match", N)


@pytest.mark.slow
def test_bleu_is_that_of_the_corpus_and_its_change_is_turned_round_with_the_texts(scopes) -> None:
    scope = scopes["eng-fra"]
    cases = held_out_cases(scope)[:N]
    found = edited_score(scope, [OFF], cases)
    for i, score in enumerate((found.before, found.after)):
        texts = [pair[i] for pair in found.texts]
        wanted = sacrebleu.BLEU().corpus_score(texts, [[c.references[0] for c in cases]]).score
        assert score == pytest.approx(wanted)
        assert module._bleu(module._counts(texts, cases).sum(0)) == pytest.approx(wanted)
    assert found.change.mean == pytest.approx(found.after - found.before)
    assert found.change.high < 0
    before, after = ([pair[i] for pair in found.texts] for i in (0, 1))
    turned = module._change("BLEU", after, before, cases, 0)
    assert (turned.mean, turned.low, turned.high) == pytest.approx(
        (-found.change.mean, -found.change.high, -found.change.low)
    )


def test_no_edit_and_an_edit_that_changes_nothing_score_the_same(scopes) -> None:
    scope = scopes["eng-fra"]
    same = HeadScale("decoder.layers.2.cross_attn", head=0, factor=1.0)
    for edits in ([], [same]):
        change = edited_score(scope, edits, held_out_cases(scope)[:4]).change
        assert (change.mean, change.low, change.high) == (0, 0, 0)


def test_it_is_stopped_by_its_progress_and_refused_where_there_is_no_score(scopes) -> None:
    def stop(done: int, of: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        edited_score(scopes["dates-bahdanau"], [], progress=stop)
    assert len(held_out_cases(scopes["eng-fra"])) == 64
    one = edited_score(scopes["dates-bahdanau"], [], [Case("12 March 1999", ("1999-03-12",))])
    assert (one.before, one.n) == (100, 1)
    assert torch.isfinite(torch.tensor(one.change.low))


@pytest.mark.parametrize("name", ["gpt", "bert", "gpt-sentiment"])
def test_a_model_that_does_not_translate_is_scored_by_its_loss(name: str) -> None:
    scope = models.load(name, device="cpu")
    cases = [Case(tuple(text), ()) for text in scope.held_out[:N]]
    off = HeadOff(Where(layers=(0,)))
    found = edited_score(scope, [off], cases)
    measure = TextLosses(scope, [scope.encode(*text) for text in scope.held_out[:N]])
    was, now = (
        torch.stack([measure.losses([text], scope.outputs_batch([text], edits))[0] for text in measure.texts])
        for edits in ((), (off,))
    )  # fmt: skip
    assert (found.before, found.after) == pytest.approx((float(was.mean()), float(now.mean())))
    assert found.change.mean == pytest.approx(float((now - was).mean()), abs=1e-5)
    assert (found.n, found.texts, found.is_loss) == (N, (), True)
    assert found.metric.startswith("loss in nats")


PATCH = Patch("layers.0.resid_post", fields=("The boy said",), of="activation")


def test_an_edit_that_a_text_cannot_take_names_the_text(scopes) -> None:
    with pytest.raises(ValueError, match="held-out text 1: "):
        edited_score(models.load("gpt", device="cpu"), [PATCH])


def test_a_few_texts_are_no_evidence() -> None:
    """The interval of one text is a point, which never contains 0."""
    one = EditedScore("exact match", 100.0, 0.0, Interval(-100.0, -100.0, -100.0), (), 1)
    assert "too few texts to tell" in score_sentence(one)
    assert "1 held-out text)" in score_sentence(one)
    assert "worse" not in score_sentence(one)


@pytest.mark.parametrize(
    ("metric", "interval", "wanted"),
    [
        ("BLEU", (-2.0, -3.0, -1.0), "worse"),
        ("BLEU", (2.0, 1.0, 3.0), "better"),
        ("loss in nats per token", (0.5, 0.4, 0.6), "worse"),
        ("loss in nats per token", (-0.5, -0.6, -0.4), "better"),
        ("BLEU", (-2.0, -3.0, 0.5), "no clear change"),
    ],
)
def test_the_sentence_follows_the_sign_of_the_change(metric, interval, wanted) -> None:
    mean, low, high = interval
    said = score_sentence(EditedScore(metric, 40.0, 40.0 + mean, Interval(mean, low, high), (), 64))
    assert wanted in said
    assert not [
        word for word in ("worse", "better", "no clear") if word in said and word not in wanted
    ]
    assert "64 held-out texts" in said
    assert f"{mean:+.1f}".replace("-", "−") in said
