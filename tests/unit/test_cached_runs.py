"""Cached runs: the key of each holds everything that determines it, so that none is shown in place of another."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from drawn import letters

import models
from models import Trace
from models.architectures.base import MASKED_OUTPUT
from models.decoding.runs import Method
from models.trace.edits import Edit, HeadOff, MaskChange, Where
from viz_app.drawing.payload import unpack
from viz_app.session import cache
from viz_app.session.cache import findings
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.attention.payloads import AttentionChoices, attention_payloads

OFF = HeadOff("decoder.layers.0.cross_attn", head=1)
METHOD = Method(max_new=5)


@functools.cache
def plain() -> CurrentRun:
    scope = letters()
    return CurrentRun(scope, scope.run("ab", "cde"))


def run(*edits: Edit) -> CurrentRun:
    """Run two letters and a given target under edits."""
    spec = replace(plain().spec, edits=edits)
    return cache.changed_run(plain(), spec)


def given() -> tuple[int, ...]:
    return plain().trace.streams["source"].ids


OTHER_OFF = HeadOff("decoder.layers.0.cross_attn", head=0)


def test_a_run_under_edits_is_not_shown_for_one_under_others() -> None:
    found = [
        cache.edited_trace(plain().scope, plain().trace, edits)
        for edits in ((OFF,), (OTHER_OFF,), (OFF,))
    ]
    log_probs = [trace.next_token.log_probs for trace in found]
    assert (log_probs[0] - log_probs[1]).abs().max() > 1e-4
    assert torch.equal(log_probs[0], log_probs[2])


def test_pictures_of_a_long_text_are_not_shown_for_its_run_under_a_mask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(findings, "MAX_WHOLE_TOKENS", 1)  # so that these few tokens are a long text
    name = "decoder.layers.0.self_attn"
    choices = AttentionChoices(Focus(name, 0))
    pictures = [
        unpack(attention_payloads(each, choices)["overview"])
        for each in (run(), run(MaskChange(Where(site=name), preset="window", k=1)))
    ]
    drawn = [(arrays["codes"] > 0).sum() for _, arrays in pictures]
    n_heads, n = plain().trace.attention[name].n_heads, plain().trace.attention[name].n_query
    assert n == 4
    assert drawn[0] - drawn[1] == n_heads * 3  # each query reads itself and the one before it only


CALLS: dict[str, tuple[Callable[..., Any], Callable[[Any], torch.Tensor], tuple, tuple]] = {
    "a written text": (
        lambda *edits: cache.autoregression(run(*edits), given(), METHOD),
        lambda found: found.run.log_probs,
        (),
        (OFF,),
    ),
    "a beam of other width": (
        lambda width: cache.autoregression(run(), given(), Method("beam", width=width, max_new=3)),
        lambda found: torch.tensor(len(found.beam[-1].hypotheses)),
        (2,),
        (3,),
    ),
    "a single pass over other tokens": (
        lambda *tokens: cache.cached_single_pass(run(), given(), tokens),
        lambda found: torch.tensor(found.taken),
        (4, 5),
        (5, 4),
    ),
    "a single pass": (
        lambda *edits: cache.cached_single_pass(run(*edits), given(), (4, 5)),
        lambda found: found.log_probs,
        (),
        (OFF,),
    ),
    "another text read": (
        lambda *edits: cache.reread(run(*edits), ("ba", "de")),
        lambda found: found.next_token.log_probs,
        (),
        (OFF,),
    ),
    "a run under its own masks": (
        lambda *edits: cache.unmasked_run(plain().scope, run(*edits).trace, 5),
        lambda found: torch.tensor(found.log_probs),
        (),
        (OFF,),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_run_that_differs_in_anything_has_its_own_result(name: str) -> None:
    call, numbers, one, other = CALLS[name]
    first, second, again = (call(*arguments) for arguments in (one, other, one))
    assert again is first
    assert not torch.equal(numbers(first), numbers(second))


def reads(scope: models.Scope, texts: tuple[str, ...], *chosen: object) -> Trace:
    return cache.trace(scope, texts, choice=chosen)


def test_hidden_tokens_and_an_order_are_in_the_key_where_they_change_the_run() -> None:
    bert = models.load("bert")
    texts = ("He forgot his umbrella.", "")
    nothing, *hidden = (reads(bert, texts, one) for one in (None, (2,), (3,)))
    positions = [trace.outputs[MASKED_OUTPUT].positions for trace in hidden]
    assert [list(one) for one in positions] == [[2], [3]]
    n = len(nothing.streams["text"].ids)
    assert (
        reads(bert, texts, (0, n - 1, n)) is nothing
    )  # [CLS], [SEP] and positions beyond the text
    assert reads(bert, texts, (0, 2)) is hidden[0]
    xlnet = models.load("xlnet")
    texts = ("He forgot his umbrella.", "")[: len(xlnet.model.text_fields)]
    usual = reads(xlnet, texts, None)
    n = len(usual.streams["text"].ids)
    assert reads(xlnet, texts, tuple(range(n))) is usual
    assert reads(xlnet, texts, tuple(reversed(range(n)))) is not usual
