"""The score of texts written under edits against that without, and its paired interval."""

import pytest
import sacrebleu
import torch

import models
from models.runs.scope import Scope
from models.trace.edits import HeadOff, HeadScale, Where
from models.training import edited_score as module
from models.training.edited_score import edited_score, held_out_cases
from models.training.task import Case

N = 12


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    return {name: models.load(name, device="cpu") for name in ("dates-bahdanau", "eng-fra")}


OFF = HeadOff(Where(kind="cross"), baseline="uniform")


def test_each_text_is_written_with_and_without_the_edits(scopes) -> None:
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
    assert found.change.p < 0.05
    assert (found.metric, found.n) == ("exact match", N)


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
        assert (change.mean, change.low, change.high, change.p) == (0, 0, 0, 1)


def test_it_is_stopped_by_its_progress_and_refused_where_there_is_no_score(scopes) -> None:
    def stop(done: int, of: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        edited_score(scopes["dates-bahdanau"], [], progress=stop)
    with pytest.raises(ValueError, match="writes no text"):
        edited_score(models.load("gpt", device="cpu"), [])
    assert len(held_out_cases(scopes["eng-fra"])) == 64
    one = edited_score(scopes["dates-bahdanau"], [], [Case("12 March 1999", ("1999-03-12",))])
    assert (one.before, one.n) == (100, 1)
    assert torch.isfinite(torch.tensor(one.change.low))
