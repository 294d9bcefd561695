"""The effect of each part of a layer on a token, against a second route: hooks on the modules, and numpy for derived values."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from drawn import letters
from torch.utils.hooks import RemovableHandle

from models.analysis.checks import Check
from models.analysis.layer_parts import (
    Firing,
    check_parts,
    cosine_between,
    logit_lens,
    mean_and_spread,
    sublayer_effects,
)
from models.architectures import Model
from models.layers.attention import MultiHeadAttention
from models.runs.scope import Scope
from models.trace import Trace

SUM, READ = "the parts add up to the stream", "each layer reads the output of the one before"
NORM, STOP = (
    "LayerNorm by hand is the recorded one",
    "stopping after the last layer is the model's answer",
)
FAMILIES = {
    "post": ("transformer", {}), "pre": ("transformer", {"norm": "pre"}), "gpt": ("gpt", {}), "gpt post": ("gpt", {"norm": "post"}),
    "relu gpt": ("gpt", {"activation": "relu"}), "attention": ("attention only", {}),
    "residual attention": ("attention only", {"residual": True}), "crossing": ("attention only", {"n_self_layers": 0}),
}  # fmt: skip
POSITION = 2


def scope_and_trace(family: str) -> tuple[Scope, Trace]:
    name, sizes = FAMILIES[family]
    scope = letters(name, **sizes)
    return scope, scope.run("abcde", "edc")


@pytest.fixture(scope="module", params=FAMILIES)
def run(request) -> tuple[Scope, Trace]:
    return scope_and_trace(request.param)


def streams(model: Model) -> tuple[str, ...]:
    """Return the streams along which a model has sublayers, in the order of the pass."""
    return tuple(dict.fromkeys(sublayer.stream for sublayer in model.sublayers))


def inputs_and_outputs(scope: Scope, trace: Trace) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return module path → (first input, output) of the one row, from an unrecorded pass."""
    seen: dict[str, Any] = {}

    def watch(name: str, module: torch.nn.Module) -> RemovableHandle:
        def note(_: torch.nn.Module, given: tuple, out: torch.Tensor) -> None:
            seen[name] = given[0][0].numpy(), out[0].numpy()

        return module.register_forward_hook(note)

    kinds = torch.nn.Linear | torch.nn.LayerNorm | MultiHeadAttention
    hooks = [
        watch(name, module)
        for name, module in scope.model.named_modules()
        if isinstance(module, kinds)
    ]
    with torch.no_grad():
        scope.model(*(torch.tensor([trace.streams[stream].ids]) for stream in scope.model.streams))
    for hook in hooks:
        hook.remove()
    return seen


def test_every_sublayer_is_named_once_in_the_order_of_the_pass(run) -> None:
    scope, trace = run
    paths = [sublayer.path for sublayer in scope.model.sublayers]
    assert len(set(paths)) == len(paths)
    in_order = [
        name.rpartition(".")[0]
        for name in trace.activations
        if name.endswith((".attn_out", ".ff_out"))
    ]
    assert paths == in_order
    assert [s.stream for s in scope.model.sublayers] == [
        trace.activations[s.out].axes[1] for s in scope.model.sublayers
    ]
    assert {s.path: s.role for s in scope.model.sublayers if s.path in trace.attention} == {
        site.name: site.role for site in trace.attention.values()
    }
    assert all(
        sublayer.role == "feed-forward"
        for sublayer in scope.model.sublayers
        if sublayer.path not in trace.attention
    )


def test_the_parts_of_a_token_are_the_inputs_and_outputs_of_its_modules(run) -> None:
    scope, trace = run
    seen = inputs_and_outputs(scope, trace)
    for stream in streams(scope.model):
        for part in sublayer_effects(scope.model, trace, stream, POSITION):
            path, own = part.sublayer.path, {"rtol": 1e-4, "atol": 1e-5}
            attends = part.sublayer.role != "feed-forward"
            out = seen[path if attends else f"{path}.W_2"][1][POSITION]
            np.testing.assert_allclose(part.added, out, **own)
            if attends and part.sublayer.norm != "pre":
                np.testing.assert_allclose(part.before, seen[path][0][POSITION], **own)
            if attends:
                assert part.firing is None
            else:
                np.testing.assert_allclose(part.firing.pre, seen[f"{path}.W_1"][1][POSITION], **own)
                np.testing.assert_allclose(
                    part.firing.post, seen[f"{path}.W_2"][0][POSITION], **own
                )
            norm = {id(module): name for name, module in scope.model.named_modules()}.get(
                id(part.sublayer.layer_norm)
            )
            assert (norm is None) == (part.sublayer.norm == "none") == (part.normed is None)
            if norm:
                np.testing.assert_allclose(part.norm_input, seen[norm][0][POSITION], **own)
                np.testing.assert_allclose(part.normed, seen[norm][1][POSITION], **own)
            behind = {"post": part.normed, "pre": part.before + part.added, "none": part.added}[
                part.sublayer.norm
            ]
            np.testing.assert_allclose(part.after, behind, **own)


def test_a_stream_leads_from_part_to_part(run) -> None:
    scope, trace = run
    for stream in streams(scope.model):
        found = sublayer_effects(scope.model, trace, stream, POSITION)
        stack = found[0].sublayer.stack
        first = (
            trace.activations[f"{stack}.embedding"].value
            + trace.activations[f"{stack}.position"].value
        )
        torch.testing.assert_close(found[0].before, first[0, POSITION])
        for one, following in pairwise(found):
            torch.testing.assert_close(one.after, following.before)


def test_layers_are_numbered_from_0_and_parts_after_them_have_no_number() -> None:
    scope, _ = scope_and_trace("residual attention")
    assert [(s.stack, s.layer) for s in scope.model.sublayers] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("decoder", None),
    ]  # fmt: skip
    assert streams(scope.model) == ("source", "target")
    assert streams(scope_and_trace("crossing")[0].model) == ("target",)
    assert streams(letters("recurrent").model) == ()


def test_direction_mean_spread_and_firing_by_numpy() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(1, 2, 17).astype(np.float32), rng.normal(0, 3, 17).astype(np.float32)
    assert cosine_between(torch.tensor(a), torch.tensor(b)) == pytest.approx(
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), abs=1e-6
    )
    assert cosine_between(torch.zeros(3), torch.ones(3)) == 0
    assert mean_and_spread(torch.tensor(a)) == pytest.approx((a.mean(), a.std()), rel=1e-5)
    firing = Firing(
        torch.tensor([0.5, -0.1, 0.0, 2.0, 1.0]), torch.tensor([0.5, -0.05, 0.0, 2.0, 3.0])
    )
    assert firing.fires.tolist() == [True, False, False, True, True]
    assert firing.strongest(2).tolist() == [4, 3]
    assert len(firing.strongest(99)) == 5


def test_the_lens_uses_the_models_own_output_path() -> None:
    for family in ("post", "pre", "gpt", "attention", "residual attention"):
        scope, trace = scope_and_trace(family)
        found = sublayer_effects(scope.model, trace, scope.model.writes, POSITION)
        state = found[0].after.numpy().astype(np.float64)
        if family in ("pre", "gpt"):
            norm = scope.model.decoder.last_norm
            gain, bias = norm.weight.detach().numpy(), norm.bias.detach().numpy()
            state = (state - state.mean()) / np.sqrt(state.var() + norm.eps) * gain + bias
        logits = scope.model.embedding.weight.detach().numpy() @ state
        by_hand = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        early, last = logit_lens(scope.model, [found[0].after, found[-1].after])
        np.testing.assert_allclose(early, by_hand, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(last, trace.next_token.log_probs[POSITION], rtol=1e-4, atol=1e-5)


def test_a_missing_token_is_named(run) -> None:
    scope, trace = run
    stream = streams(scope.model)[-1]
    n = len(trace.streams[stream].ids)
    with pytest.raises(ValueError, match=f"position must be 0 to {n - 1} on this stream, not {n}"):
        sublayer_effects(scope.model, trace, stream, n)
    with pytest.raises(ValueError, match="on this stream, not -1"):
        sublayer_effects(scope.model, trace, stream, -1)


# --- each check fails, alone, when the one thing it guards is changed


def verdicts(scope: Scope, trace: Trace, stream: str, position: int = POSITION) -> list[Check]:
    return check_parts(
        scope.model, trace, sublayer_effects(scope.model, trace, stream, position), position
    )


def failed(scope: Scope, trace: Trace, stream: str) -> dict[str, float]:
    return {check.name: check.value for check in verdicts(scope, trace, stream) if not check.passed}


def forged(trace: Trace, name: str, position: int = POSITION, by: float = 0.5) -> Trace:
    """Return the trace with one number of a recorded activation changed."""
    held = trace.activations[name]
    value = held.value.clone()
    value[0, position, 3] += by
    return replace(trace, activations={**trace.activations, name: replace(held, lazy_value=value)})


def test_a_true_run_passes_everywhere(run) -> None:
    scope, trace = run
    for stream in streams(scope.model):
        for position in range(len(trace.streams[stream].ids)):
            checks = verdicts(scope, trace, stream, position)
            assert [c.name for c in checks if not c.passed] == []
            adds = scope.model.sublayers[0].adds
            several = (
                sum(s.stream == stream for s in scope.model.sublayers) > 1
                or stream != scope.model.writes
            )
            assert [c.name for c in checks] == [
                *([SUM] * adds), *([READ] * (not adds and several)), *([NORM] * adds), *([STOP] * (stream == scope.model.writes)),
            ]  # fmt: skip
            assert all(c.limit >= 1e-5 for c in checks)


@pytest.mark.parametrize(
    ("family", "stream", "name", "names"),
    [
        ("pre", "target", "decoder.layers.1.self_attn.attn_out", [SUM]),
        ("pre", "target", "decoder.layers.0.ff.ff_out", [SUM]),
        ("pre", "source", "encoder.layers.0.add_norm_2.normed", [NORM]),
        ("gpt", "text", "decoder.layers.1.add_norm_1.normed", [NORM]),
        ("gpt", "text", "decoder.layers.1.resid_post", [SUM, STOP]),
        ("gpt", "text", "decoder.layers.0.resid_mid", [SUM, NORM]),
        ("post", "target", "decoder.layers.0.cross_attn.attn_out", [SUM, NORM]),
        ("post", "target", "decoder.layers.1.resid_post", [SUM, NORM, STOP]),
        ("attention", "source", "encoder.layers.0.self_attn.attn_out", [READ]),
        ("attention", "source", "encoder.layers.1.self_attn.attn_out", [READ]),
        ("attention", "target", "decoder.layers.1.self_attn.attn_out", [READ]),
        ("attention", "target", "decoder.cross_attn.attn_out", [STOP]),
        ("residual attention", "target", "decoder.resid_post", [SUM, NORM, STOP]),
    ],
)
def test_a_forged_intermediate_fails(family, stream, name, names) -> None:
    scope, trace = scope_and_trace(family)
    found = failed(scope, forged(trace, name), stream)
    assert list(found) == names
    if names in ([SUM], [NORM], [READ]):
        assert found[names[0]] == pytest.approx(0.5, abs=1e-4)
    assert (
        failed(scope, forged(trace, name, position=POSITION + 1), stream) == {}
    )  # another token's


def test_a_forged_layer_norm_and_a_forged_answer_fail() -> None:
    scope, trace = scope_and_trace("post")
    other = replace(trace.next_token, logits=trace.next_token.logits.clone())
    other.logits[POSITION, 4] += 0.5
    assert list(failed(scope, replace(trace, outputs={"next token": other}), "target")) == [STOP]
    assert failed(scope, replace(trace, outputs={"next token": other}), "source") == {}
    with torch.no_grad():
        scope.model.decoder.layers[1].add_norm_2.layer_norm.bias[3] += 0.25
    assert failed(scope, trace, "target") == {
        SUM: pytest.approx(0.25, abs=1e-4),
        NORM: pytest.approx(0.25, abs=1e-4),
    }


def test_nan_does_not_pass() -> None:
    scope, trace = scope_and_trace("gpt")
    assert SUM in failed(
        scope, forged(trace, "decoder.layers.0.ff.ff_out", by=float("nan")), "text"
    )


def test_the_direction_of_what_is_added_is_relative_to_the_stream_before_it(run) -> None:
    """It is recomputed with numpy, never relative to the stream after it, which contains what was added."""
    scope, trace = run
    for part in sublayer_effects(scope.model, trace, trace.next_token.stream, POSITION):
        added, before = (vector.numpy().astype(np.float64) for vector in (part.added, part.before))
        expected = added @ before / (np.linalg.norm(added) * np.linalg.norm(before))
        assert part.direction == pytest.approx(expected, abs=1e-5)
