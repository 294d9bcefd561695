"""Models whose library keeps no cache, or one that is not of keys and values, generate what `generate` does; and causality is
measured, not assumed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from checked import unchecked
from hub_models import BY_NAME, Case

import models
from models import Scope
from models.decoding import runs
from models.hub.writers import CausalLM

GIVEN, MOST = "5 6 7 8 9 10 11 12 14 16 18", 9
_SIZES = {
    "vocab_size": 53, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 48,
    "num_hidden_layers": 2, "eos_token_id": None,
}  # fmt: skip
_MAMBA = {
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_ssm": 64, "mamba_d_state": 8, "mamba_n_groups": 1,
}  # fmt: skip
_LINEAR = {
    "layer_types": ["linear_attention", "full_attention"], "head_dim": 16, "linear_num_key_heads": 2,
    "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
_JAMBA = {
    "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8,
    "use_mamba_kernels": False,
}  # fmt: skip
_EXPERTS = {"num_experts": 4, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
_SHARED = _EXPERTS | {"shared_expert_intermediate_size": 16}
_WINDOW = {
    "head_dim": 16, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"],
}  # fmt: skip
_GPT = {"vocab_size": 53, "n_embd": 22, "n_head": 2, "n_layer": 2, "n_positions": 61}
_BLOOM = {"vocab_size": 53, "hidden_size": 22, "n_head": 2, "n_layer": 2, "eos_token_id": None}
_CTRL = {"vocab_size": 53, "n_embd": 22, "n_head": 2, "n_layer": 2, "n_positions": 61, "dff": 31}
QWEN3_NEXT = Case("Qwen3NextForCausalLM", "Qwen3NextConfig", _SIZES | _LINEAR | _SHARED)
# the case, and which cache is confirmed: (it can be kept, it can be rewound)
KEEPS: list[tuple[Case, tuple[bool, bool]]] = [
    (Case("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", _GPT), (False, False)),
    (Case("JambaForCausalLM", "JambaConfig", _SIZES | _JAMBA), (True, False)),
    (Case("Lfm2ForCausalLM", "Lfm2Config", _SIZES | {"layer_types": ["conv", "full_attention"]}), (True, False)),
    (Case("FalconH1ForCausalLM", "FalconH1Config", _SIZES | _MAMBA | {"head_dim": 16}), (True, False)),
    (QWEN3_NEXT, (True, False)),
    (Case("Gemma3ForCausalLM", "Gemma3TextConfig", _SIZES | _WINDOW), (True, True)),
    (Case("BloomForCausalLM", "BloomConfig", _BLOOM), (True, True)),
    (Case("CTRLLMHeadModel", "CTRLConfig", _CTRL), (True, True)),  # scales its embeddings in place
    (BY_NAME["GPT2LMHeadModel"], (True, True)),
]  # fmt: skip
MIXTURES = [
    Case("Qwen3MoeForCausalLM", "Qwen3MoeConfig", _SIZES | _EXPERTS | {"head_dim": 16}),
    Case("Qwen2MoeForCausalLM", "Qwen2MoeConfig", _SIZES | _SHARED),
    Case("MixtralForCausalLM", "MixtralConfig", _SIZES | {"num_local_experts": 4}),
    QWEN3_NEXT,
]


def open_scope(folder: Path, case: Case, seed: int = 1, std: float = 0.3) -> Scope:
    module = case.make()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=std)
    module.save_pretrained(folder)
    return models.load(folder, device="cpu")


def generated(scope: Scope, given: tuple[int, ...]) -> list[int]:
    with torch.no_grad():
        row = scope.model.module.generate(
            torch.tensor([given]), do_sample=False, num_beams=1, max_new_tokens=MOST, pad_token_id=0
        )
    return row[0, len(given) :].tolist()


@pytest.mark.parametrize(("case", "keeps"), KEEPS, ids=[case.model for case, _ in KEEPS])
@unchecked()
def test_it_generates_the_text_of_generate(
    tmp_path: Path, case: Case, keeps: tuple[bool, bool]
) -> None:
    scope = open_scope(tmp_path, case)
    model, given = scope.model, scope.input_ids(GIVEN)
    assert (model.can_cache, model.can_go_back) == keeps
    wanted = generated(scope, given)
    drafts = [[*wanted[:2], wanted[2] + 1, *wanted[3:]]]
    for how in ({}, {"draft_tokens": drafts}, {"use_cache": False}):
        steps = models.decoding.greedy(model, given, max_new=MOST, **how)
        assert [step.token for step in steps] == wanted, how
    stepwise = runs.autoregressive(model, given, runs.Method(max_new=MOST)).run
    whole = runs.uncached_run(model, given, stepwise.taken)
    assert (stepwise.log_probs - whole.log_probs).abs().max() < 1e-4
    assert max(stepwise.cached) == (len(GIVEN.split()) + MOST - 2 if keeps[0] else 0)
    assert stepwise.rows.keys() == whole.rows.keys()
    for name, rows in whole.rows.items():
        assert (stepwise.weights(name) - rows.weights()).abs().max() < 1e-5


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", MIXTURES, ids=lambda case: case.model)
def test_a_mixture_of_experts_generates(tmp_path: Path, case: Case, seed: int) -> None:
    scope = open_scope(tmp_path, case, seed)
    assert isinstance(scope.model, CausalLM)
    given = scope.input_ids(GIVEN)
    own = [step.token for step in models.decoding.greedy(scope.model, given, max_new=MOST)]
    assert own == generated(scope, given)


@pytest.mark.parametrize("std", [0.3, 0.02, 1e-3])
def test_a_model_that_looks_ahead_does_not_generate(tmp_path: Path, std: float) -> None:
    """The weights are so small that another last token changes the earlier logits by less than half precision could show."""
    sizes = BY_NAME["BertForMaskedLM"].sizes
    scope = open_scope(tmp_path / "ahead", Case("BertLMHeadModel", "BertConfig", sizes), std=std)
    assert not scope.model.can_write
    back = Case("BertLMHeadModel", "BertConfig", sizes | {"is_decoder": True})
    assert open_scope(tmp_path / "back", back, std=std).model.can_write


@torch.no_grad()
@unchecked()
def test_beyond_the_length_at_which_angles_change_rows_are_read_whole(tmp_path: Path) -> None:
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "factor": 4.0}
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 13, **factors}
    sizes = _SIZES | {"max_position_embeddings": 61, "rope_parameters": rope | {"rope_theta": 1e4}}
    scope = open_scope(tmp_path, Case("LlamaForCausalLM", "LlamaConfig", sizes))
    model, row = scope.model, list(scope.input_ids(GIVEN))
    assert (model.pads, model.can_cache, model.can_go_back) == (False, False, False)
    for step in models.decoding.greedy(model, row, max_new=5):
        logits = model.module(torch.tensor([row]), use_cache=False).logits[0, -1]
        torch.testing.assert_close(
            step.log_probs.flatten(), logits.log_softmax(-1), atol=1e-4, rtol=0
        )
        row.append(step.token)
    assert len(row) > 13


_DECODER = BY_NAME["RobertaForMaskedLM"].sizes | {
    "is_decoder": True,
    "pad_token_id": 1,
    "eos_token_id": None,
}
COUNTING = [
    Case("RobertaForCausalLM", "RobertaConfig", _DECODER | {"bos_token_id": 0}),
    Case("XLMRobertaForCausalLM", "XLMRobertaConfig", _DECODER | {"bos_token_id": 0}),
    Case("CamembertForCausalLM", "CamembertConfig", _DECODER | {"bos_token_id": 0}),
]


@torch.no_grad()
def step_by_step(module: Any, given: tuple[int, ...]) -> list[int]:
    """Return the text that the library's own cache leads to; its `generate` numbers the positions of these models from 0."""
    row, past, written = torch.tensor([given]), None, []
    for _ in range(MOST):
        output = module(input_ids=row, past_key_values=past, use_cache=True)
        past, row = output.past_key_values, output.logits[:, -1:].argmax(-1)
        written.append(int(row))
    return written


@pytest.mark.parametrize("case", COUNTING, ids=lambda case: case.model)
@unchecked()
def test_generated_padding_is_counted_alike_with_and_without_a_cache(
    tmp_path: Path, case: Case
) -> None:
    """Without a cache the library's positions skip <pad>; token by token with one, they do not."""
    folder = tmp_path / "model"
    module = case.make()
    module.save_pretrained(folder)
    scope = models.load(folder, device="cpu")
    model, given = scope.model, scope.input_ids(GIVEN)
    assert (model.can_cache, model.can_go_back) == (True, True)
    wanted: list[int] = []
    while not 1 < wanted.count(1) < MOST:  # it generates <pad> now and then
        with torch.no_grad():
            model.module.lm_head.bias[1] += 0.5
        wanted = step_by_step(model.module, given)
        assert wanted.count(1) < MOST
    drafts = [[*wanted[:2], wanted[2] + 1, *wanted[3:]]]
    for how in ({}, {"draft_tokens": drafts}, {"use_cache": False}):
        steps = models.decoding.greedy(model, given, max_new=MOST, **how)
        assert [step.token for step in steps] == wanted, how
    stepwise = runs.autoregressive(model, given, runs.Method(max_new=MOST)).run
    whole = runs.uncached_run(model, given, stepwise.taken)
    assert (stepwise.log_probs - whole.log_probs).abs().max() < 1e-4
