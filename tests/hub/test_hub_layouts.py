"""Layers of third-party models whose norms, sums and logits are not GPT-2's or BERT's.

Compared with hooks on the library's modules in an unrecorded pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import on_screen
from sample_edits import Added, ramp
from tiny_architectures import save
from torch import Tensor, nn

import models
from models import Scope, Trace
from models.analysis.direct_logits import logit_parts
from models.analysis.induction import is_measurable
from models.analysis.layer_parts import check_parts, sublayer_effects
from models.hub.confirm import output_scales
from models.hub.logits import UNCHANGED, LogitChange, change_between, soft_caps
from models.layers.sublayers import MIXER, gain_and_bias, norm_name
from models.trace.edits import Where
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions.attribution_parts import (
    AttributionChoices,
    attribution_numbers,
    methods_of,
)
from viz_app.views.interventions.attribution_text import DIRECT_METHOD
from viz_app.views.layer import files, text
from viz_app.views.layer.payloads import layer_payloads
from viz_app.views.layer.token_view import LayerChoices, token_view

TEXT, TOKEN = "She is reading", 2
# kind → norm before, norm of the output, type of the norm, what the page says of it
NORMS = {
    "gemma2": ("pre", True, "RMSNorm", "comes before and after each part"),
    "glm4": ("pre", True, "RMSNorm", "comes before and after each part"),
    "olmo2": ("none", True, "RMSNorm", "comes after each part here, before the sum"),
    "olmo": ("pre", False, "LayerNorm", "comes before each part"),
    "nemotron": ("pre", False, "LayerNorm", "comes before each part"),
    "esm": ("pre", False, "LayerNorm", "comes before each part"),
    "falcon": ("pre", False, "LayerNorm", "Both are added to it at once"),
    "openai-gpt": ("post", False, "LayerNorm", "comes after each sum"),
}
MIXED = ("qwen3_next", "jamba", "lfm2_moe")  # layers without attention


def open_scope(kind: str, folder: Path, **sizes: Any) -> Scope:
    save(kind, folder, **sizes)
    return models.load(folder, device="cpu")


@contextmanager
def seen(module: nn.Module) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Return path of a module → its first input tensor and its first output tensor."""
    found: dict[str, tuple[Tensor, Tensor]] = {}

    def note(path: str) -> Any:
        def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any], out: Any) -> None:
            given = next((t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)), None)
            first = out[0] if isinstance(out, tuple | list) else out
            if isinstance(given, Tensor) and isinstance(first, Tensor):
                found.setdefault(path, (given.clone(), first.clone()))

        return hook

    hooks = [
        m.register_forward_hook(note(path), with_kwargs=True) for path, m in module.named_modules()
    ]
    yield found
    for hook in hooks:
        hook.remove()


@torch.no_grad()
def modules_of(scope: Scope, trace: Trace) -> dict[str, tuple[Tensor, Tensor]]:
    with seen(scope.model.module) as found:
        scope.model.module(torch.tensor([trace.streams["text"].ids]))
    return found


def row(t: Tensor, d_model: int) -> Tensor:
    return t.reshape(-1, d_model)[TOKEN]


@pytest.mark.parametrize("kind", NORMS)
def test_the_parts_of_a_layer_are_the_inputs_and_outputs_of_its_modules(
    tmp_path: Path, kind: str
) -> None:
    norm, has_out_norm, type_of_norm, words = NORMS[kind]
    scope = open_scope(kind, tmp_path)
    trace = scope.run(TEXT)
    found, d = modules_of(scope, trace), scope.config.d_model
    effects = sublayer_effects(scope.model, trace, "text", TOKEN)
    assert effects
    for placed, part in zip(scope.model.layer_map.parts, effects, strict=True):
        sublayer = part.sublayer
        assert (sublayer.norm, sublayer.out_norm is not None) == (norm, has_out_norm)
        assert sublayer.norm_name == type_of_norm
        if placed.is_first:
            torch.testing.assert_close(part.before, row(found[placed.layer][0], d))
        if placed.is_last:
            torch.testing.assert_close(part.after, row(found[placed.layer][1], d))
        if norm == "pre":
            torch.testing.assert_close(part.normed, row(found[placed.norm][1], d))
        if has_out_norm:
            taken, given = found[placed.out_norm]
            torch.testing.assert_close(part.made, row(taken, d))
            torch.testing.assert_close(part.added, row(given, d))
    checks = check_parts(scope.model, trace, effects, TOKEN)
    assert [check.name for check in checks if not check.passed] == []
    assert words in text.explain_stream([part.sublayer for part in effects], "")


@pytest.mark.parametrize("kind", ["gemma2", "olmo2"])
def test_a_number_changed_before_or_after_the_norm_of_an_output_fails_a_check(
    tmp_path: Path, kind: str
) -> None:
    scope = open_scope(kind, tmp_path)
    trace = scope.run(TEXT)
    for name in (scope.model.sublayers[1].made, scope.model.sublayers[1].out):
        held = trace.activations[name]
        value = held.value.clone()
        value[0, TOKEN, 3] += 0.5
        forged = {**trace.activations, name: replace(held, lazy_value=value)}
        moved = replace(trace, activations=forged)
        effects = sublayer_effects(scope.model, moved, "text", TOKEN)
        checks = check_parts(scope.model, moved, effects, TOKEN)
        assert not all(check.passed for check in checks)


def test_the_page_shows_an_output_before_and_after_its_norm(tmp_path: Path) -> None:
    scope = open_scope("gemma2", tmp_path)
    run = CurrentRun(scope, scope.run(TEXT))
    header, _ = unpack(on_screen(layer_payloads(run, LayerChoices("text", 0, TOKEN)))["layer"])
    assert [line["name"] for line in header["rows"]] == [
        "stream before",
        "RMSNorm(stream), read",
        "self-attention makes",
        "+ RMSNorm(self-attention)",
        "= stream",
        "RMSNorm(stream), read",
        "GELU(x·W_gate) ⊙ (x·W_up)",
        "feed-forward makes",
        "+ RMSNorm(feed-forward)",
        "= stream",
    ]
    view = token_view(run, LayerChoices("text", 0, TOKEN))
    assert "RMSNorm of" in files.layers_csv(view).splitlines()[0]
    assert b"made" in files.layers_npz(view)


@pytest.mark.parametrize("kind", MIXED)
def test_a_layer_without_attention_adds_up_and_cannot_be_chosen(tmp_path: Path, kind: str) -> None:
    scope = open_scope(kind, tmp_path)
    trace = scope.run(TEXT)
    found, d = modules_of(scope, trace), scope.config.d_model
    effects = sublayer_effects(scope.model, trace, "text", TOKEN)
    mixers = [part for part in effects if part.sublayer.role == MIXER]
    assert mixers
    for part in mixers:
        torch.testing.assert_close(part.added, row(found[part.sublayer.path][1], d))
        assert part.sublayer.path not in trace.attention
    assert all(check.passed for check in check_parts(scope.model, trace, effects, TOKEN))
    number = next(s.layer for s in scope.model.sublayers if s.attends)
    run = CurrentRun(scope, trace)
    header, _ = unpack(on_screen(layer_payloads(run, LayerChoices("text", number, TOKEN)))["layer"])
    for stop in header["stops"][1:]:
        assert bool(stop["site"]) == (stop["layer"] != text.layer_name(mixers[0].sublayer))
        assert stop["site"] in ("", *trace.attention)
    assert "A **mixer** carries tokens forward" in text.explain_stream(
        list(scope.model.sublayers), ""
    )
    assert "mixer" not in text.explain_stream([s for s in scope.model.sublayers if s.attends], "")


def test_a_residual_multiplier_is_measured_and_named(tmp_path: Path) -> None:
    how = {"residual_multiplier": 0.22, "logits_scaling": 8.0}
    scope = open_scope("granite", tmp_path, **how)
    trace = scope.run(TEXT)
    found, d = modules_of(scope, trace), scope.config.d_model
    effects = sublayer_effects(scope.model, trace, "text", TOKEN)
    for part in effects:
        assert part.sublayer.scale == pytest.approx(0.22, rel=1e-5)
        torch.testing.assert_close(part.added, 0.22 * row(found[part.sublayer.path][1], d))
    assert scope.model.logit_change.scale == pytest.approx(1 / 8, rel=1e-5)
    assert text.added_name(effects[0].sublayer) == "+ 0.22 · self-attention"
    normed = replace(effects[0].sublayer, out_norm=torch.nn.RMSNorm(3))
    assert text.added_name(normed) == "+ 0.22 · RMSNorm(self-attention)"
    assert "**multiplied by 0.22**" in text.explain_stream([p.sublayer for p in effects], "")
    assert all(check.passed for check in check_parts(scope.model, trace, effects, TOKEN))
    plain = open_scope("granite", tmp_path / "plain")
    assert {s.scale for s in plain.model.sublayers} == {1.0}
    assert "multiplied" not in text.explain_stream(list(plain.model.sublayers), "")


def test_parallel_parts_share_the_factor(tmp_path: Path) -> None:
    scope = open_scope("granitemoeshared", tmp_path, residual_multiplier=0.3)
    assert [s.scale for s in scope.model.sublayers] == pytest.approx([0.3] * 6, rel=1e-5)
    assert [bool(s.before) for s in scope.model.sublayers] == [True, True, False] * 2
    values = {name: a.value for name, a in scope.run(TEXT).activations.items()}
    values[scope.model.sublayers[1].after or scope.model.sublayers[2].after] *= 2
    assert output_scales(scope.model.sublayers, values)[1] != pytest.approx(0.3, rel=1e-2)


@pytest.mark.parametrize(
    ("kind", "sizes", "change"),
    [
        ("gemma2", {"final_logit_softcapping": 5.0}, LogitChange(1.0, 5.0)),
        ("cohere", {"logit_scale": 0.0625}, LogitChange(0.0625)),
        ("llama", {}, UNCHANGED),
    ],
)
def test_the_scaling_and_capping_of_logits_is_measured(
    tmp_path: Path, kind: str, sizes: dict[str, float], change: LogitChange
) -> None:
    scope = open_scope(kind, tmp_path, **sizes)
    measured = scope.model.logit_change
    assert measured.scale == pytest.approx(change.scale, rel=1e-5)
    assert measured.cap == change.cap
    trace = scope.run(TEXT)
    own = scope.model.module(torch.tensor([trace.streams["text"].ids])).logits[0]
    last = trace.activations[scope.model.sublayers[-1].after].value[0]
    torch.testing.assert_close(scope.model.readout(last), own, atol=1e-5, rtol=1e-4)


def test_a_cap_is_measured_in_half_precision_and_on_small_logits() -> None:
    """The model's own change is measured in its own dtype; far above the logits, any two caps differ by less than rounding."""
    for dtype, size in ((torch.bfloat16, 4), (torch.float16, 4), (torch.float32, 0.3)):
        logits = (size * torch.randn(3, 97)).to(dtype)
        for cap in (0.0, 30.0, 50.0):
            expected = torch.tanh(logits / cap) * cap if cap else logits
            assert change_between(logits, expected, [50.0, 30.0]) == LogitChange(1.0, cap)
        change = change_between(logits, torch.tanh(logits * 5 / 30) * 30, [50.0, 30.0])
        assert (change.scale, change.cap) == (pytest.approx(5, rel=1e-2), 30.0)


def test_half_precision_neither_hides_layers_nor_adds_a_factor(tmp_path: Path) -> None:
    save("vaultgemma", tmp_path)
    scope = models.load(tmp_path, device="cpu", dtype="bfloat16")
    model, trace = scope.model, scope.run(TEXT)
    assert (model.logit_change, {p.scale for p in model.sublayers}) == (LogitChange(1, 30), {1.0})
    with torch.no_grad():
        own = model.module(torch.tensor([trace.streams["text"].ids])).logits[0]
    last = trace.activations[model.sublayers[-1].after].value[0]
    torch.testing.assert_close(model.readout(last.to(own)), own, atol=0, rtol=0)


def test_nothing_is_claimed_of_logits_that_neither_a_factor_nor_a_cap_explains() -> None:
    logits = torch.randn(3, 7)
    assert change_between(logits, logits + 1, [3.0]) is UNCHANGED
    assert change_between(logits, logits.relu(), [3.0]) is UNCHANGED
    assert soft_caps(type("C", (), {})()) == []


@pytest.mark.parametrize("kind", ["gemma", "olmo2", "nemotron", "granite"])
def test_the_part_of_an_attention_in_a_logit_is_what_the_norms_by_hand_make_of_it(
    tmp_path: Path, kind: str
) -> None:
    """Gemma and Nemotron multiply by 1 + a weight, OLMo 2 has a norm before the sum, and Granite
    scales what is added, and the logits."""
    how = {"granite": {"residual_multiplier": 0.22, "logits_scaling": 8.0}}
    scope = open_scope(kind, tmp_path, **how.get(kind, {}))
    trace, model = scope.run(TEXT), scope.model
    position = len(trace.streams["text"].ids) - 1
    ranked = trace.next_token.logits[position].argsort(descending=True).tolist()
    measured = logit_parts(model, trace, ranked[0], ranked[1], position)
    assert measured.sum == pytest.approx(measured.total, abs=1e-3 * max(1, abs(measured.total)))
    sublayer = model.sublayers[0]
    added = sublayer.scale * value(trace, sublayer.out, position)
    seen = frozen(model.last_norm, added, value(trace, model.sublayers[-1].after, position))
    rows = model.module.get_output_embeddings().weight.detach()
    wanted = float(seen @ (rows[ranked[0]] - rows[ranked[1]])) * model.logit_change.scale
    bias = measured.others.get(f"bias of W_O of {sublayer.path}", 0.0)
    summed = float(measured.heads[sublayer.path].sum()) + bias
    assert summed == pytest.approx(wanted, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma"])
def test_a_rotated_head_adds_its_block_of_the_output_matrix_to_a_logit(
    tmp_path: Path, kind: str
) -> None:
    scope = open_scope(kind, tmp_path, num_key_value_heads=1)
    run, model = CurrentRun(scope, scope.run(TEXT)), scope.model
    position = len(run.trace.streams["text"].ids) - 1
    with seen(model.module) as found, torch.no_grad():
        model.module(torch.tensor([run.trace.streams["text"].ids]))
    path = next(name for name in found if name.endswith("layers.1.self_attn.o_proj"))
    read, block = found[path][0][0, position], model.module.get_submodule(path).weight.detach()
    site = list(run.trace.attention.values())[1]
    parts = logit_parts(model, run.trace, 5, 6, position)
    whole = value(run.trace, model.sublayers[-1].after, position)
    rows = model.module.get_output_embeddings().weight.detach()
    for head in range(site.n_heads):
        own = slice(head * len(read) // site.n_heads, (head + 1) * len(read) // site.n_heads)
        added = frozen(model.last_norm, block[:, own] @ read[own], whole)
        wanted = float(added @ (rows[5] - rows[6]))
        assert float(parts.heads[site.name][head]) == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    assert DIRECT_METHOD in methods_of(run)
    shown = attribution_numbers(run, AttributionChoices(DIRECT_METHOD, None, site.name, 0))
    assert shown.values.shape == (2, site.n_heads)
    assert shown.values.isfinite().all()
    assert all(check.passed for check in shown.checks)


def value(trace: Trace, name: str, position: int) -> Tensor:
    return trace.activations[name].value[0, position]


def frozen(norm: Any, part: Tensor, whole: Tensor) -> Tensor:
    """Apply a norm to a part of a vector, with the scale that it has for the whole."""
    centred = "LayerNorm" in type(norm).__name__
    x = whole - whole.mean() if centred else whole
    part = part - part.mean() if centred else part
    eps = getattr(norm, "eps", None) or norm.variance_epsilon
    gain = norm.weight.detach() + type(norm).__name__.startswith(("Gemma", "Nemotron"))
    return part * gain / (x.square().mean() + eps).sqrt()


def test_a_norm_without_a_declared_epsilon_is_measured() -> None:
    from transformers.models.olmo.modeling_olmo import OlmoLayerNorm

    gain, bias, eps = gain_and_bias(OlmoLayerNorm(23), 23)
    assert eps == pytest.approx(1e-5, rel=0.02)
    torch.testing.assert_close(gain, torch.ones(23).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(bias, torch.zeros(23).double(), atol=1e-6, rtol=0)
    assert norm_name(OlmoLayerNorm(23)) == "LayerNorm"


def test_induction_is_not_measured_through_the_norm_of_an_output(tmp_path: Path) -> None:
    assert is_measurable(open_scope("llama", tmp_path / "llama").model)
    assert not is_measurable(open_scope("gemma2", tmp_path / "gemma").model)


@pytest.mark.parametrize("kind", ["gemma2", "bitnet", "falcon"])
def test_an_edited_output_moves_the_stream_by_as_much(tmp_path: Path, kind: str) -> None:
    """The output is after its norm, visible only where its module returns it, or added to in place
    by the library: everything else in the layer is recomputed."""
    scope = open_scope(kind, tmp_path)
    trace, sublayer = scope.run(TEXT), scope.model.sublayers[0]
    patched = scope.run(TEXT, edits=[Added(Where(activation=sublayer.out))])
    change = patched.activations[sublayer.out].value - trace.activations[sublayer.out].value
    torch.testing.assert_close(change, ramp(change.shape[-1]).expand_as(change), atol=1e-5, rtol=0)
    effects = sublayer_effects(scope.model, patched, "text", TOKEN)
    assert check_parts(scope.model, patched, effects, TOKEN)[0].passed
    before, after = (value(t, scope.model.sublayers[-1].after, TOKEN) for t in (trace, patched))
    assert (after - before).norm() > 0.1
