"""The experts that a mixture of experts sends a token to: against the library's router logits and hooks on its modules."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from drawn import on_screen
from tiny_architectures import save

import models
from models import Scope, Trace
from models.analysis.routing import TokenRouting, token_routing
from models.hub.describe import capabilities
from models.hub.routing import find_routings, may_be_mixture
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.layer import text
from viz_app.views.layer.payloads import firing_sentence, layer_payloads
from viz_app.views.layer.token_view import LayerChoices, token_view

TEXT, TOKEN = "She is reading", 3
NORMALISED = {"mixtral": True, "qwen2_moe": False}  # weights of the chosen sum to 1


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scope]:
    root = tmp_path_factory.mktemp("mixtures")

    @cache
    def scope(kind: str) -> Scope:
        save(kind, root / kind)
        return models.load(root / kind, device="cpu")

    return scope


def routings_of(scope: Scope, trace: Trace, token: int = TOKEN) -> list[TokenRouting]:
    found = []
    for sublayer in scope.model.sublayers:
        if sublayer.path in scope.model.routings:
            experts = scope.model.routings[sublayer.path]
            found.append(token_routing(trace, experts, sublayer.made or sublayer.out, token))
    return found


@pytest.mark.parametrize("kind", NORMALISED)
@torch.no_grad()
def test_experts_and_weights_are_those_of_the_librarys_router_logits(opened, kind: str) -> None:
    scope = opened(kind)
    trace = scope.run(TEXT)
    ids = torch.tensor([trace.streams["text"].ids])
    output = scope.model.module(input_ids=ids, output_router_logits=True)
    assert len(output.router_logits) == scope.config.n_layers
    for token in range(ids.shape[1]):
        for layer, found in zip(
            output.router_logits, routings_of(scope, trace, token), strict=True
        ):
            best = layer[token].softmax(-1).topk(2)
            weights = best.values / best.values.sum() if NORMALISED[kind] else best.values
            assert found.experts.tolist() == best.indices.tolist()
            torch.testing.assert_close(found.weights, weights)
            assert found.n_experts == layer.shape[1] == 4
            assert found.check(torch.float32).passed


@torch.no_grad()
def test_the_remainder_is_the_shared_expert(opened) -> None:
    scope = opened("qwen2_moe")
    trace, seen = scope.run(TEXT), {}
    block = scope.model.module.model.layers[1].mlp
    hooks = [
        getattr(block, name).register_forward_hook(
            lambda module, args, out, name=name: seen.__setitem__(name, out)
        )
        for name in ("shared_expert", "shared_expert_gate")
    ]
    scope.model.module(torch.tensor([trace.streams["text"].ids]))
    for hook in hooks:
        hook.remove()
    shared = seen["shared_expert"] * seen["shared_expert_gate"].sigmoid()
    found = routings_of(scope, trace)[1]
    torch.testing.assert_close(found.beside, shared.reshape(-1, 32)[TOKEN], atol=1e-5, rtol=1e-4)
    assert float(found.beside.norm()) > 0.1
    assert (
        float(routings_of(opened("mixtral"), opened("mixtral").run(TEXT))[1].beside.norm()) < 1e-4
    )


@pytest.mark.parametrize("forged", ["expert", "expert_weight", "expert_sum"])
def test_another_expert_weight_or_sum_fails_the_check(opened, forged: str) -> None:
    scope = opened("mixtral")
    trace = scope.run(TEXT)
    name = f"{scope.model.sublayers[1].path}.{forged}"
    held = trace.activations[name]
    value = held.value.clone()
    value[0, TOKEN, 0] = (value[0, TOKEN, 0] + 1) % 4
    moved = {**trace.activations, name: replace(held, lazy_value=value)}
    found = routings_of(scope, replace(trace, activations=moved))[0]
    assert not found.check(torch.float32).passed
    assert routings_of(scope, trace)[0].check(torch.float32).passed


@torch.no_grad()
def test_recording_the_experts_changes_no_digit_and_keeps_texts_of_a_batch_apart(opened) -> None:
    scope = opened("mixtral")
    texts = [("She is reading",), ("The sea is wide",)]
    alone = [scope.run(*one) for one in texts]
    for trace, own in zip(scope.run_batch(texts), alone, strict=True):
        for one, other in zip(routings_of(scope, trace), routings_of(scope, own), strict=True):
            assert one.experts.tolist() == other.experts.tolist()
            torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=1e-4)
    ids = torch.tensor([alone[0].streams["text"].ids])
    plain = scope.model.module(ids).logits
    with models.record():
        assert torch.equal(scope.model(ids), plain)


@pytest.mark.parametrize("power", [1, 2])
def test_weights_that_do_not_match_the_experts_are_not_shown(tmp_path: Path, power: int) -> None:
    save("mixtral", tmp_path)
    scope = models.load(tmp_path, device="cpu")
    for layer in scope.model.module.model.layers:
        own = layer.mlp.experts.forward
        layer.mlp.experts.forward = lambda x, index, w, own=own: own(x, index, w**power)
    assert len(find_routings(scope.model)) == (2 if power == 1 else 0)


@pytest.mark.parametrize("kind", ["llama4_text", "jetmoe"])
def test_a_mixture_that_no_run_confirms_says_so(opened, kind: str) -> None:
    scope = opened(kind)
    assert scope.model.routings == {}
    run = CurrentRun(scope, scope.run(TEXT))
    view = token_view(run, LayerChoices("text", 0, TOKEN))
    assert firing_sentence(view) == text.ROUTER_UNKNOWN
    header, _ = unpack(on_screen(layer_payloads(run, LayerChoices("text", 0, TOKEN)))["layer"])
    assert header["experts"] is None
    assert any("because no run confirmed them" in line for line in capabilities(scope, run.trace))


def test_a_feed_forward_that_is_no_mixture_is_not_called_one(opened) -> None:
    scope = opened("llama")
    assert not any(may_be_mixture(scope.model, part) for part in scope.model.sublayers)
    assert not any("expert" in line for line in capabilities(scope, scope.run(TEXT)))


def test_the_page_lists_the_experts_by_weight(opened) -> None:
    scope = opened("qwen2_moe")
    run = CurrentRun(scope, scope.run(TEXT))
    header, _ = unpack(on_screen(layer_payloads(run, LayerChoices("text", 1, TOKEN)))["layer"])
    found, shown = routings_of(scope, run.trace)[1], header["experts"]
    assert [row[0] for row in shown["rows"]] == [str(n + 1) for n in found.experts.tolist()]
    weights = [row[1] for row in shown["rows"]]
    assert weights == sorted(weights, reverse=True)
    assert weights == pytest.approx(found.weights.tolist())
    assert shown["rows"][0][2] == pytest.approx(float(found.outputs[0].norm()))
    assert "2 of 4 experts" in shown["sentence"]
    for row, made in zip(shown["rows"], found.outputs, strict=True):
        assert row[3] == pytest.approx(float(torch.cosine_similarity(made, found.total, 0)))
    assert (
        f"Besides, the layer adds a vector of length {found.beside.norm():.3g} "
        in shown["sentence"]
    )
    assert f"sum to {found.weights.sum():.3g}." in shown["sentence"]
    assert header["firing"] == ""
    assert any(
        "each token's experts, out of 4, are shown in 2 feed-forwards" in line
        for line in capabilities(scope, run.trace)
    )


def test_the_sentence_follows_the_numbers() -> None:
    assert "to 1 of 8 expert;" not in text.routing(1, 8, 1.0, 0.0, 1.0)
    assert "sum to 0.83" in text.routing(2, 8, 0.83, 0.0, 1.0)
    assert "Besides" not in text.routing(2, 8, 1.0, 1e-6, 1.0)
    assert "length 3.2" in text.routing(2, 8, 1.0, 3.2, 1.0)
