"""Heads switched off in passes that begin at their own layer give what whole passes give; otherwise whole passes are made."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hub_models import BY_NAME
from torch import nn

import models
from models.analysis import effects, head_effects
from models.analysis.effects import HeadEffects
from models.analysis.metrics import Divergence, LogProbability, Metric, logits_of
from models.runs.scope import Scope
from models.trace import Trace
from models.trace.edits import MaskChange, Where
from models.trace.reuse import LayerOutputs

IDS = "5 6 7 8 9 10 11"
HUB = (
    "GPT2LMHeadModel", "LlamaForCausalLM", "BloomForCausalLM", "BertForSequenceClassification",
    "T5ForConditionalGeneration", "MarianMTModel",
)  # fmt: skip
OWN = ("eng-fra", "gpt", "bert", "xlnet", "gpt-sentiment", "bert-where", "dates-bahdanau")
METRICS: dict[str, Metric] = {
    "one token": LogProbability(3),
    "another position": LogProbability(3, 2),
    "every position": Divergence(),
}


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat small models as large ones with many heads."""
    monkeypatch.setattr(effects, "MIN_REUSING_EDITS", 1)
    monkeypatch.setattr(effects, "MIN_REUSING_WORK", 0)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Callable[..., HeadEffects]:
    """Return the effects by passes through all layers."""

    def measured(*asked: object) -> HeadEffects:
        with monkeypatch.context() as m:
            m.setattr(effects._Passes, "_pays", lambda passes, n_sets: False)
            return head_effects(*asked)  # type: ignore[arg-type]

    return measured


def texts(scope: Scope) -> list[str]:
    """Return a text, and a second one if the model generates on a separate stream."""
    return [IDS, "21 23 29"] if len(scope.model.streams) > 1 else [IDS]


def begins(scope: Scope, run: Trace, made: HeadEffects, metric: Metric) -> set[int]:
    """Return the layers at which the passes of these edits begin."""
    return set(effects._Passes(scope, run, [(e,) for e in made.edits.values()], metric).begins)


def compare(one: HeadEffects, other: HeadEffects) -> None:
    assert one.values.keys() == other.values.keys()
    for kind, values in one.values.items():
        torch.testing.assert_close(values, other.values[kind], atol=2e-5, rtol=1e-4, equal_nan=True)
    assert any(bool((values.nan_to_num() != 0).any()) for values in one.values.values())


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Scope:
    BY_NAME[request.param].save(tmp_path)
    return models.load(tmp_path, device="cpu")


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("opened", HUB, indirect=True)
def test_a_hub_model_gives_the_effects_of_whole_passes(
    opened: Scope, whole: Callable[..., HeadEffects], metric: str
) -> None:
    run = opened.run(*texts(opened))
    n_rows = len(logits_of(run.outputs))
    asked = opened, run, METRICS[metric] if n_rows > 2 else Divergence()
    made = head_effects(*asked)
    compare(made, whole(*asked))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", OWN)
def test_a_shipped_model_gives_the_effects_of_whole_passes(
    name: str, whole: Callable[..., HeadEffects]
) -> None:
    scope = models.load(name, device="cpu")
    first = scope.examples[0] if scope.examples else "March 5, 2021"
    run = scope.run(*([first] if isinstance(first, str) else first))
    asked = scope, run, Divergence()
    compare(head_effects(*asked), whole(*asked))


@pytest.mark.parametrize("opened", ["GPT2LMHeadModel", "LlamaForCausalLM"], indirect=True)
def test_passes_begin_at_the_edited_layer(opened: Scope) -> None:
    run = opened.run(IDS)
    metric = LogProbability(3)
    made = head_effects(opened, run, metric)
    n_layers = len(made.sites["self"])
    assert begins(opened, run, made, metric) == set(range(n_layers))
    calls: list[int] = []
    layers = [part for part in opened.model.modules() if isinstance(part, nn.ModuleList)][0]
    hooks = [
        part.get_submodule("self_attn" if hasattr(part, "self_attn") else "attn").register_forward_hook(
            lambda *_, i=i: calls.append(i)
        )
        for i, part in enumerate(layers)
    ]  # fmt: skip
    head_effects(opened, run, metric)
    for hook in hooks:
        hook.remove()
    assert calls.count(n_layers - 1) > calls.count(0) > 0


def test_an_edited_run_gets_whole_passes(whole: Callable[..., HeadEffects], tmp_path: Path) -> None:
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    run = scope.run(IDS, edits=[MaskChange(Where(kind="self"), block=((3, 1), (5, 2)))])
    asked = scope, run, LogProbability(3)
    made = head_effects(*asked)
    assert begins(scope, run, made, asked[2]) == {0}
    compare(made, whole(*asked))


def test_a_layer_that_passes_on_more_than_its_output_is_never_skipped(
    whole: Callable[..., HeadEffects], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second layer adds what the first one's feed-forward layer has stored on the side, row by row."""
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    first, second = scope.model.module.transformer.h[:2]
    aside: list[torch.Tensor] = []
    first.mlp.register_forward_hook(lambda part, args, output: aside.append(output))
    second.register_forward_hook(lambda part, args, output: output + aside.pop())
    run = scope.run(IDS)
    asked = scope, run, LogProbability(3)
    made = head_effects(*asked)
    assert begins(scope, run, made, asked[2]) == {0}
    compare(made, whole(*asked))


def test_nothing_is_left_in_other_passes_or_in_copies(tmp_path: Path) -> None:
    import copy

    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    module, ids = scope.model.module, torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        before = module(ids).logits
        kept = LayerOutputs(scope.model, [f"transformer.h.{i}.attn" for i in range(2)])
        with kept.kept():
            module(ids)
        other = copy.deepcopy(module)
        with torch.no_grad():
            other.transformer.h[0].mlp.c_proj.bias += 1.0
        assert torch.equal(module(ids).logits, before)
        assert not torch.equal(other(ids).logits, before)
        with kept.reused(1, 3):
            again = module(ids.repeat(3, 1)).logits
            assert not torch.equal(other(ids).logits, before)  # the copy is not the cached model
    torch.testing.assert_close(again, before.repeat(3, 1, 1), atol=1e-5, rtol=1e-5)
    assert kept.is_complete


class FromFirstRow:
    """A custom metric whose `position` is not the only row that it reads."""

    name, unit, position = "change of the first row's mean", "logits", -1

    def __call__(self, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        return after[0].mean() - before[0].mean() + after[-1].mean() - before[-1].mean()


def test_a_custom_metric_may_read_any_row(
    whole: Callable[..., HeadEffects], tmp_path: Path
) -> None:
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    asked = scope, scope.run(IDS), FromFirstRow()
    made = head_effects(*asked)
    assert begins(*asked[:2], made, asked[2]) == {0, 1}
    compare(made, whole(*asked))


def test_nothing_is_cached_for_a_small_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    head_effects(scope, scope.run(IDS), LogProbability(3))
    assert not any("forward" in vars(part) for part in scope.model.modules())
