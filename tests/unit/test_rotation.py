"""Rotary positions against the paper's formula, transformers' own function, and recordings of models with them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_models import BY_NAME
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as apply_to_part
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

import models
from models.hub import positions
from models.hub.describe import model_summary
from models.hub.layouts import rotary_paths
from models.layers.rotation import Rotation

TURNING = {"LlamaForCausalLM": 10, "MistralForCausalLM": 10, "Qwen2ForCausalLM": 10, "Qwen3ForCausalLM": 10,
           "GPTNeoXForCausalLM": 4}  # fmt: skip
IDS = "7 11 5 23 41 3 19"
WIDE = {
    "hidden_size": 32,
    "num_attention_heads": 2,
}  # GPT-NeoX rotates a quarter of each head: 4 of 16 numbers
SCALED = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32},
}  # fmt: skip


def open_scope(name: str, folder: Path, **sizes: Any) -> models.Scope:
    case = BY_NAME[name]
    replace(case, sizes=case.sizes | (WIDE if name.startswith("GPTNeoX") else {}) | sizes).save(
        folder
    )
    return models.load(folder)


def by_formula(n: int, width: int, base: float = 10000.0) -> torch.Tensor:
    """Return p·base^(−2i/d) for each position p and pair i."""
    return torch.arange(n).double()[:, None] * base ** (
        -2 * torch.arange(width // 2).double() / width
    )


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", TURNING)
def test_the_angles_are_the_papers(name: str, tmp_path: Path) -> None:
    rotation = open_scope(name, tmp_path).model.rotation(19)
    expected = by_formula(19, TURNING[name])
    assert rotation.n_pairs == TURNING[name] // 2
    torch.testing.assert_close(rotation.angles, expected, atol=3e-6, rtol=1e-6)
    torch.testing.assert_close(rotation.wavelengths, 2 * math.pi / expected[1], rtol=1e-6, atol=0)
    torch.testing.assert_close(rotation.stretch, torch.ones(rotation.n_pairs))


def test_another_base_makes_longer_waves(tmp_path: Path) -> None:
    scope = open_scope(
        "LlamaForCausalLM",
        tmp_path,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
    )
    torch.testing.assert_close(
        scope.model.rotation(9).angles, by_formula(9, 10, 500_000.0), atol=3e-6, rtol=1e-6
    )


@pytest.mark.parametrize("name", TURNING)
def test_undoing_the_rotation_gives_the_projection_and_redoing_it_the_recording(
    name: str, tmp_path: Path
) -> None:
    """W·x is the output of the model's own modules in the same run; rotated by transformers' function it is the recorded q and k."""
    scope = open_scope(name, tmp_path)
    made: dict[str, torch.Tensor] = {}
    for path, module in scope.model.module.named_modules():
        if path.rpartition(".")[2] in ("q_proj", "k_proj", "q_norm", "k_norm", "query_key_value"):
            module.register_forward_hook(lambda _, __, out, path=path: made.update({path: out}))
    trace = scope.run(IDS)
    rotation, places = scope.model.rotation(7), torch.arange(7)
    assert rotation.n_pairs * 2 == TURNING[name]
    cos, sin = (torch.cat([t, t], dim=-1)[None] for t in (rotation.cos, rotation.sin))
    for site in trace.attention.values():
        if f"{site.name}.query_key_value" in made:
            q, k, _ = (
                made[f"{site.name}.query_key_value"]
                .view(1, 7, site.n_heads, -1)
                .transpose(1, 2)
                .chunk(3, dim=-1)
            )
            turned = apply_to_part(q, k, cos, sin)
        else:
            bare = (
                made.get(f"{site.name}.{part}_norm", made[f"{site.name}.{part}_proj"])
                for part in "qk"
            )
            q, k = (t.view(1, 7, -1, site.d_head).transpose(1, 2) for t in bare)
            turned = apply_rotary_pos_emb(q, k, cos, sin)
        for bare, there, recorded in zip((q, k), turned, (site.q, site.k), strict=True):
            torch.testing.assert_close(there, recorded, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(
                rotation.rotate(bare, places), recorded, atol=1e-5, rtol=1e-5
            )
            torch.testing.assert_close(
                rotation.unrotate(recorded, places), bare, atol=1e-5, rtol=1e-5
            )


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCALED)
def test_scaled_angles_are_the_modules_own(kind: str, tmp_path: Path) -> None:
    rope = {"rope_theta": 10000.0, **SCALED[kind]}
    scope = open_scope(
        "LlamaForCausalLM", tmp_path, rope_parameters=rope, max_position_embeddings=128
    )
    module, rotation = scope.model.module.model.rotary_emb, scope.model.rotation(9)
    assert scope.model.rotary.miss <= 1e-5
    torch.testing.assert_close(rotation.angles[1], module.inv_freq.double(), atol=1e-7, rtol=1e-6)
    torch.testing.assert_close(rotation.stretch, torch.full((5,), float(module.attention_scaling)))
    assert (float(module.attention_scaling) != 1) == (kind == "yarn")
    x = torch.randn(3, 9, 10)
    torch.testing.assert_close(
        rotation.unrotate(rotation.rotate(x, torch.arange(9)), torch.arange(9)),
        x,
        atol=1e-5,
        rtol=1e-5,
    )


def test_asking_for_many_positions_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    scope = open_scope("LlamaForCausalLM", tmp_path, rope_parameters={"rope_theta": 10000.0, **SCALED["dynamic"]},
                   max_position_embeddings=16)  # fmt: skip
    before = scope.model.module.model.rotary_emb.inv_freq.clone()
    near = scope.model.rotation(9).angles
    assert not torch.allclose(
        scope.model.rotation(99).angles[:9], near
    )  # a longer text is rotated more slowly
    assert torch.equal(scope.model.module.model.rotary_emb.inv_freq, before)
    assert torch.equal(scope.model.rotation(9).angles, near)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_confirms_its_angles(dtype: str, tmp_path: Path) -> None:
    open_scope("LlamaForCausalLM", tmp_path)
    model = models.load(tmp_path, dtype=dtype).model
    assert 0 < model.rotary.miss < 0.03
    torch.testing.assert_close(model.rotation(9).angles, by_formula(9, 10), atol=3e-6, rtol=1e-6)


def test_bare_models_and_classifiers_rotate_too(tmp_path: Path) -> None:
    from transformers import LlamaModel

    case = BY_NAME["LlamaForCausalLM"]
    replace(case, model="LlamaModel").save(tmp_path)
    assert isinstance(models.load(tmp_path).model.module, LlamaModel)
    assert models.load(tmp_path).model.rotation(3).n_pairs == 5
    replace(
        case, model="LlamaForSequenceClassification", sizes=case.sizes | {"num_labels": 3}
    ).save(tmp_path / "classes")
    assert models.load(tmp_path / "classes").model.rotation(3).n_pairs == 5


@pytest.mark.parametrize(
    "name", ["GPT2LMHeadModel", "BertForMaskedLM", "XLNetForSequenceClassification"]
)
def test_nothing_is_claimed_of_a_model_without_rotation(name: str, tmp_path: Path) -> None:
    BY_NAME[name].save(tmp_path)
    scope = models.load(tmp_path)
    assert scope.model.rotation(5) is None
    assert not any("turned at each position" in line for line in model_summary(scope))


def test_none_of_our_own_models_rotates(tmp_path: Path) -> None:
    assert models.load("dates").model.rotation(5) is None


@pytest.mark.parametrize("how", ["slower", "other pairs", "backwards", "not at all"])
def test_a_module_that_a_run_does_not_confirm_is_not_believed(how: str, tmp_path: Path) -> None:
    scope = open_scope("LlamaForCausalLM", tmp_path)
    model, own = scope.model, scope.model.module.model.rotary_emb

    class Other(torch.nn.Module):
        def forward(
            self, x: torch.Tensor, positions: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            cos, sin = own(x, positions)
            if how == "slower":
                return own(x, positions * 0.999)
            if how == "other pairs":
                return cos.flip(-1), sin.flip(-1)
            return (
                (cos, -sin) if how == "backwards" else (torch.ones_like(cos), torch.zeros_like(sin))
            )

    model.module.other = Other()
    assert positions.rotary(model, ["model.rotary_emb"]) is not None
    assert positions.rotary(model, ["other"]) is None
    assert positions.rotary(model, ["nowhere"]) is None


def test_the_path_of_the_module_that_rotates(tmp_path: Path) -> None:
    expected = {
        "GPTNeoXForCausalLM": ["gpt_neox.rotary_emb"],
        "Qwen3ForCausalLM": ["model.rotary_emb"],
        "GPT2LMHeadModel": [],
    }
    for name, paths in expected.items():
        assert rotary_paths(open_scope(name, tmp_path / name).model.module) == paths


def test_inspect_says_so(tmp_path: Path) -> None:
    lines = list(model_summary(open_scope("MistralForCausalLM", tmp_path)))
    assert any(
        "the angles that rotate its queries and keys at each position are shown" in line
        for line in lines
    )
    assert any(
        "not recognised as x·W + b when compared" in line for line in lines
    )  # they are rotated
    assert not any("from the tokens through W_Q" in line for line in lines)


def test_a_quarter_turn_by_hand() -> None:
    rotation = Rotation(
        torch.tensor([[1.0, 1.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    )
    x = torch.tensor([[2.0, 3.0, 5.0, 7.0, 11.0]])  # pairs (2, 5) and (3, 7); 11 is not rotated
    assert rotation.rotate(x, torch.tensor([1])).tolist() == [[-5.0, 3.0, 2.0, 7.0, 11.0]]
    assert rotation.unrotate(x, torch.tensor([1])).tolist() == [[5.0, 3.0, -2.0, 7.0, 11.0]]
    assert rotation.angles.tolist() == [[0.0, 0.0], [math.pi / 2, 0.0]]
    assert rotation.wavelengths.tolist() == [4.0, math.inf]
