"""The loss of a text under a model that guesses masked tokens or gives an answer, computed by hand."""

import math

import pytest
import torch

import models
from models.runs.sweep import Sweep
from models.runs.text_loss import TextLosses, labels_of, loss_kind, loss_of, with_hidden
from models.tokenizers.encoding import positions_to_hide
from models.trace.edits import HeadOff, Where
from models.trace.outputs import Numbers, Span, best_span

N = 8


def sweep_of(name: str) -> Sweep:
    scope = models.load(name, device="cpu")
    sweep = Sweep(scope, [scope.encode(*text) for text in scope.held_out[:N]], n_orders=1, batch=3)
    sweep.run(lambda done, of: None)
    return sweep


@pytest.mark.parametrize("seed", [0, 1])
def test_masks_are_drawn_by_the_seed_and_hide_known_tokens(seed: int) -> None:
    scope = models.load("bert", device="cpu")
    texts = [scope.encode(*text) for text in scope.held_out[:N]]
    hidden = with_hidden(scope, texts, seed)
    assert hidden == with_hidden(scope, texts, seed) != with_hidden(scope, texts, seed + 1)
    for text, now in zip(texts, hidden, strict=True):
        (row,), (after,) = text.values(), now.values()
        changed = [i for i, (a, b) in enumerate(zip(row.ids, after.ids, strict=True)) if a != b]
        n = len(positions_to_hide(row, scope.tokenizer.mask_id))
        assert len(changed) == max(1, round(0.15 * n))
        assert {after.ids[i] for i in changed} == {scope.tokenizer.mask_id}


@pytest.mark.slow
def test_the_loss_of_masked_tokens_matches_single_runs() -> None:
    sweep = sweep_of("bert")
    (site, head), *_ = sweep.heads
    off = HeadOff(Where(site=site, heads=(head,)))
    for name, edits in (("own", ()), (f"{site} {head}", (off,))):
        for text, loss in zip(sweep.texts, sweep.losses[name], strict=True):
            output = next(iter(sweep.scope.outputs_batch([text], edits)[0].values()))
            known = [i for i, label in enumerate(output.labels) if label is not None]
            by_hand = [
                math.log(math.fsum(math.exp(x - float(output.logits[i][output.labels[i]])) for x in output.logits[i].tolist()))
                for i in known
            ]  # fmt: skip
            assert loss == pytest.approx(sum(by_hand) / len(by_hand), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt-sentiment", "bert-where"])
def test_the_loss_of_an_answer_uses_the_choice_of_the_unedited_model(name: str) -> None:
    sweep = sweep_of(name)
    site, head = list(sweep.heads)[-1]
    off = HeadOff(Where(site=site, heads=(head,)), baseline="zero")
    for own, after, text in zip(
        sweep.losses["own"], sweep.losses[f"{site} {head}"], sweep.scope.held_out[:N], strict=True
    ):
        before, edited = (
            next(iter(sweep.scope.run(*text, edits=edits).outputs.values()))
            for edits in ((), (off,))
        )
        if name == "bert-where":
            tables = [
                [(one.start_logits, before.start_logits), (one.end_logits, before.end_logits)]
                for one in (before, edited)
            ]
        else:
            tables = [[(one.logits, before.logits)] for one in (before, edited)]
        losses = [
            sum(-float(now.double().log_softmax(-1)[was.argmax()]) for now, was in table)
            / len(table)
            for table in tables
        ]
        assert [own, after] == pytest.approx(losses, abs=1e-4)


def test_the_choice_is_that_without_edits_even_if_edited_answers_come_first() -> None:
    scope, off = models.load("gpt-sentiment", device="cpu"), [HeadOff(Where())]
    texts = [scope.encode(*text) for text in scope.held_out[:N]]
    plain, edited = scope.outputs_batch(texts), scope.outputs_batch(texts, off)
    assert [labels_of(one) for one in plain] != [labels_of(one) for one in edited]
    wanted = [float(loss_of(now, labels_of(was))) for was, now in zip(plain, edited, strict=True)]
    losses = TextLosses(scope, texts).losses(texts, edited)
    assert losses.tolist() == pytest.approx(wanted, abs=1e-4)


def test_the_choice_of_a_span_does_not_end_before_it_starts() -> None:
    start, end = torch.tensor([0.0, 1.0, 9.0, 8.0]), torch.tensor([0.0, 9.0, 0.0, 8.0])
    span = Span("text", start, end, *best_span(start, end), "")
    assert (int(start.argmax()), int(end.argmax())) == (2, 1)
    assert labels_of({"answer": span}) == (2, 3)


def test_texts_without_a_token_to_mask_have_no_loss() -> None:
    scope = models.load("bert", device="cpu")
    texts = [scope.encode(text) for text in ["[MASK]"] * 7 + ["dog"]]
    with pytest.raises(ValueError, match="^1 text with a loss.* 2 "):
        Sweep(scope, texts)


def test_an_answer_of_numbers_has_no_loss() -> None:
    assert loss_kind({"vectors": Numbers("text", (3, 4))}) is None
    scope = models.load("gpt", device="cpu")
    assert torch.isfinite(
        TextLosses(scope, texts := [scope.encode("The boy said")]).losses(
            texts, scope.outputs_batch(texts)
        )
    ).all()
