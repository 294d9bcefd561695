"""Watching a model by a few functions only: chosen if that records the same, and without effect on other code."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest
import torch
import torch.nn.functional as F
from hub_models import BY_NAME

import models
from models.hub import probe, probe_route
from models.hub.recording import watch
from models.trace import record
from models.trace.edits import HeadOff

NAMES = ("GPT2LMHeadModel", "BartForConditionalGeneration")
ORIGINAL = {
    name: getattr(F, name) for name in ("linear", "embedding", "scaled_dot_product_attention")
}
IDS = "5 6 7 8 9 10 11"


@pytest.fixture(scope="module", params=NAMES)
def scope(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> models.Scope:
    folder = tmp_path_factory.mktemp("watched")
    BY_NAME[request.param].save(folder)
    return models.load(folder, device="cpu")


def test_a_model_that_calls_watched_functions_is_watched_by_functions(scope: models.Scope) -> None:
    """Both ways record the same for a text longer than the one they were compared on."""
    assert scope.model.by_functions
    recordings = []
    for scope.model.by_functions in (False, True):
        recordings.append(scope.run(IDS, "21 23 29"))
    one, other = recordings
    assert list(one.attention) == list(other.attention)
    assert list(one.activations) == list(other.activations)
    for name, site in one.attention.items():
        assert torch.equal(site.weights(), other.attention[name].weights())
        assert site.projections.keys() == other.attention[name].projections.keys()


def test_a_model_with_its_own_reference_to_a_function_is_not(
    scope: models.Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attention would be missed, so the slower way is used."""
    own = ORIGINAL["scaled_dot_product_attention"]
    monkeypatch.setattr(watch, "_WATCHED", watch._WATCHED[1:])
    assert F.scaled_dot_product_attention is own
    ids = probe.short_text(scope.model.module, scope.model.config, 5)
    probe_route.choose_route(scope.model, scope.model.repeated(ids))
    assert not scope.model.by_functions
    assert scope.run(IDS, "21 23 29").attention
    monkeypatch.undo()
    probe_route.choose_route(scope.model, scope.model.repeated(ids))
    assert scope.model.by_functions


def test_a_vocabulary_without_an_ordinary_token_is_named(scope: models.Scope) -> None:
    special = replace(scope.model.config, vocab_size=2, fill_id=0, end_id=1)
    with pytest.raises(ValueError, match="only tokens for padding and the end of a text"):
        probe.short_text(scope.model.module, special)


def test_an_edit_uses_the_slower_way(scope: models.Scope) -> None:
    name = next(iter(scope.run(IDS, "21 23 29").attention))
    changed = scope.run(IDS, "21 23 29", edits=[HeadOff(name, 0)])
    assert changed.attention[name].out[:, 0].abs().max() == 0
    assert {n: getattr(F, n) for n in ORIGINAL} == ORIGINAL


def test_another_thread_is_not_recorded_and_the_functions_are_restored(scope: models.Scope) -> None:
    inputs = scope.model.repeated(probe.short_text(scope.model.module, scope.model.config, 5))
    began, asked = Event(), Event()

    def wait(*_: object) -> None:
        began.set()
        asked.wait(30)

    handle = scope.model.module.register_forward_pre_hook(wait)
    x, w = torch.randn(3, 4), torch.randn(5, 4)
    try:
        with ThreadPoolExecutor(1) as pool:

            def recorded() -> models.trace.Recording:
                with torch.no_grad(), record() as recording:
                    scope.model(*inputs)
                return recording

            running = pool.submit(recorded)
            assert began.wait(30)
            assert (
                F.linear is not ORIGINAL["linear"]
            )  # replaced, while the other thread's pass runs
            assert torch.equal(F.linear(x, w), ORIGINAL["linear"](x, w))
            asked.set()
            assert running.result(30).attention
    finally:
        asked.set()
        handle.remove()
    assert {n: getattr(F, n) for n in ORIGINAL} == ORIGINAL
