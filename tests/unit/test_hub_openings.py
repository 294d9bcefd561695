"""What a folder of Hugging Face is opened as where its library's tables or sizes say too little, and whom a refusal blames."""

from pathlib import Path

import pytest
import torch
import transformers
from hub_models import BY_NAME, Case

import models
from models.errors import CheckpointError
from models.hub import load

_SIZES = {
    "vocab_size": 53, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "intermediate_size": 37, "max_position_embeddings": 61,
}  # fmt: skip
_EARS = {"d_model": 22, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 31}
LISTENING = Case(  # transformers has it among those with an encoder and a decoder
    "Qwen2AudioForConditionalGeneration",
    "Qwen2AudioConfig",
    {
        "text_config": _SIZES | {"model_type": "qwen2"},
        "audio_config": _EARS | {"model_type": "qwen2_audio_encoder"},
    },
)
UNEQUAL = Case(  # its second layer has one key head, its first two
    "EmbeddingGemma2TextModel",
    "EmbeddingGemma2TextConfig",
    _SIZES
    | {"head_dim": 8, "hidden_size_per_layer_input": 8, "embedding_dim": 22}
    | {"per_layer_config": {1: {"num_key_value_heads": 1, "head_dim": 8}}},
)
TEXT = "7 11 13 17 19 5"


def test_a_language_model_that_also_listens_reads_and_writes_text(tmp_path: Path) -> None:
    module = LISTENING.save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run(TEXT)
    given = scope.input_ids(TEXT)
    with torch.no_grad():
        wanted = module(input_ids=torch.tensor([given])).logits[0]
        row = module.generate(torch.tensor([given]), do_sample=False, max_new_tokens=7)[0].tolist()
    assert scope.model.writes == "text"
    assert {site.stack for site in trace.attention.values()} == {"decoder"}
    assert (trace.next_token.logits - wanted).abs().max() < 1e-5
    assert [step.token for step in models.decoding.greedy(scope.model, given, max_new=7)] == row[6:]


def test_layers_may_differ_in_their_key_heads(tmp_path: Path) -> None:
    if not hasattr(transformers, UNEQUAL.model):
        pytest.skip(f"this version of transformers has no {UNEQUAL.model}")
    module = UNEQUAL.save(tmp_path)
    trace = models.load(tmp_path, device="cpu").run(TEXT)
    module.set_attn_implementation("eager")
    with torch.no_grad():
        ids = torch.tensor([trace.streams["text"].ids])
        wanted = module(input_ids=ids, output_attentions=True).attentions
    assert len(trace.attention) == len(wanted) == 2
    for site, weights in zip(trace.attention.values(), wanted, strict=True):
        assert (site.weights() - weights[0]).abs().max() < 2e-6


def test_the_library_is_blamed_only_for_what_it_does_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the recorder")

    monkeypatch.setattr(load, "_hub_model", fail)
    with pytest.raises(CheckpointError, match="a fault of the recorder") as error:
        models.load(tmp_path, device="cpu")
    assert "does not run" not in str(error.value)
