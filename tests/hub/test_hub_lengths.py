"""The longest row of each stream, found by running the library's own module until it fails."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hub_models import _SEQ, BY_NAME, Case
from test_hub_shapes import LED, PROPHET_NET

import models
from models.errors import InputError

N = 11
_TEXT = {
    "vocab_size": 53,
    "d_model": 22,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 37,
}
CASES = [
    Case(
        LED.model,
        LED.config,
        {name: size for name, size in LED.sizes.items() if name != "max_position_embeddings"}
        | {"max_encoder_position_embeddings": 32, "max_decoder_position_embeddings": N},
    ),
    Case(PROPHET_NET.model, PROPHET_NET.config, PROPHET_NET.sizes | {"max_position_embeddings": N}),
    Case(
        "ProphetNetForCausalLM",
        "ProphetNetConfig",
        PROPHET_NET.sizes
        | {"max_position_embeddings": N, "is_encoder_decoder": False, "add_cross_attention": False},
    ),
    Case("MarianMTModel", "MarianConfig", _SEQ | {"max_position_embeddings": N}),
    Case("BartForConditionalGeneration", "BartConfig", _SEQ | {"max_position_embeddings": N}),
    Case("RobertaForMaskedLM", "RobertaConfig", BY_NAME["RobertaForMaskedLM"].sizes | {"max_position_embeddings": N}),
    Case("OPTForCausalLM", "OPTConfig", BY_NAME["OPTForCausalLM"].sizes | {"max_position_embeddings": N}),
    Case("GPT2LMHeadModel", "GPT2Config", BY_NAME["GPT2LMHeadModel"].sizes | {"n_positions": N}),
    Case("WhisperForCausalLM", "WhisperConfig", _TEXT | {"max_target_positions": N, "bos_token_id": 1}),
]  # fmt: skip


def runs(module: Any, **lengths: int) -> bool:
    """Return whether the library's own module takes rows of these lengths."""
    try:
        module(**{name: torch.full((1, n), 3) for name, n in lengths.items()})
    except (IndexError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize("case", CASES, ids=[case.model for case in CASES])
def test_the_longest_rows_are_those_that_its_library_accepts(tmp_path: Path, case: Case) -> None:
    module = case.save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    limits = [scope.model.stream_limit(stream) for stream in scope.model.streams]
    names = ["input_ids", "decoder_input_ids"][: len(limits)]
    for more in range(len(limits)):
        lengths = dict(zip(names, limits, strict=True))
        assert runs(module, **lengths)
        lengths[names[more]] += 1
        # ProphetNet's encoder gives the last row of its table to all later tokens
        assert not runs(module, **lengths) or (case.model == PROPHET_NET.model and not more)
    assert scope.n_ctx == max(limits)


def test_a_model_writes_up_to_the_longest_row_of_its_decoder(tmp_path: Path) -> None:
    CASES[0].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run(" ".join(["3"] * 32))
    assert len(trace.streams["target"].ids) <= N
    with pytest.raises(InputError, match=f"the target has 12 tokens; this model reads at most {N}"):
        scope.run("3 4 5", " ".join(["3"] * N))
    for how in ("greedy", "beam"):  # every token is forced, so that none is the end token
        written = scope.write("3 4 5", how, max_new=30, forced=[5] * 30)
        assert written.ids == (5,) * (N - 1)


def test_a_table_of_distances_is_not_one_of_positions(tmp_path: Path) -> None:
    case = BY_NAME["T5ForConditionalGeneration"]
    case.save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    assert set(scope.model.limits.values()) == {scope.n_ctx}
    assert scope.n_ctx > 1000
