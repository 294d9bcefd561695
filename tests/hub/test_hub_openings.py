"""Hugging Face folders whose type or sizes the library's tables do not settle, and errors that blame the right side."""

import json
from pathlib import Path

import pytest
import tiny_architectures
import torch
import transformers
from hub_models import BY_NAME, Case

import models
from models.errors import CheckpointError
from models.hub import load, text_model
from models.hub.describe import capabilities

_SIZES = {
    "vocab_size": 53, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "intermediate_size": 37, "max_position_embeddings": 61,
}  # fmt: skip
_EARS = {"d_model": 22, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 31}
LISTENING = Case(  # transformers lists it among those with an encoder and a decoder
    "Qwen2AudioForConditionalGeneration",
    "Qwen2AudioConfig",
    {
        "text_config": _SIZES | {"model_type": "qwen2"},
        "audio_config": _EARS | {"model_type": "qwen2_audio_encoder"},
    },
)
_EYES = {"hidden_size": 22, "intermediate_size": 31, "num_hidden_layers": 1, "image_size": 8}
SEEING = Case(  # transformers lists it among those for pretraining
    "LlavaForConditionalGeneration",
    "LlavaConfig",
    {
        "text_config": _SIZES | {"model_type": "llama"},
        "vision_config": _EYES
        | {"model_type": "clip_vision_model", "num_attention_heads": 2, "patch_size": 4},
        "image_token_index": 52,
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


@pytest.mark.parametrize("case", [LISTENING, SEEING], ids=["listening", "seeing"])
def test_a_language_model_with_another_input_reads_and_writes_text(
    tmp_path: Path, case: Case
) -> None:
    module = case.save(tmp_path)
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
    scope = models.load(tmp_path, device="cpu")
    module.set_attn_implementation("eager")
    for text in (TEXT, "7"):
        trace = scope.run(text)
        with torch.no_grad():
            ids = torch.tensor([trace.streams["text"].ids])
            wanted = module(input_ids=ids, output_attentions=True).attentions
        assert len(trace.attention) == len(wanted) == 2
        for site, weights in zip(trace.attention.values(), wanted, strict=True):
            assert (site.weights() - weights[0]).abs().max() < 2e-6
        assert [site.k.shape[1] for site in trace.attention.values()] == [2, 1]
        assert "2 or 4 heads read one key head" in capabilities(scope, trace)


def test_the_library_is_blamed_only_for_what_it_does_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the recorder")

    monkeypatch.setattr(text_model, "_hub_model", fail)
    with pytest.raises(CheckpointError, match="a fault of the recorder") as error:
        models.load(tmp_path, device="cpu")
    assert "does not run" not in str(error.value)


def test_a_class_with_an_unknown_form_of_output_is_named(tmp_path: Path) -> None:
    """The library's own error prints the module in many lines, none of which helps."""
    config = tiny_architectures._config("t5gemma", {})
    transformers.T5GemmaForSequenceClassification(config).save_pretrained(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"T5GemmaFor\w+ runs on a text, but Attnscope does not"
    ):
        models.load(tmp_path, device="cpu")


def test_a_class_that_its_library_lists_and_does_not_open_is_named(tmp_path: Path) -> None:
    BY_NAME["BertModel"].save(tmp_path)
    described = {"model_type": "evolla", "architectures": ["EvollaForProteinText2Text"]}
    (tmp_path / "config.json").write_text(json.dumps(described), "utf-8")
    with pytest.raises(
        CheckpointError, match="EvollaForProteinText2Text is not opened by"
    ) as error:
        models.load(tmp_path, device="cpu")
    assert "<class" not in str(error.value)


@pytest.mark.parametrize("dtype", ["nonsense", "float8_e4m3fn", 7])
def test_a_dtype_that_no_model_runs_in_is_named(tmp_path: Path, dtype: str | int) -> None:
    BY_NAME["BertModel"].save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"dtype": dtype}), "utf-8")
    with pytest.raises(CheckpointError, match=f"must be float64, .* not {dtype!r}$"):
        models.load(tmp_path, device="cpu")


def test_python_error_messages_are_quoted_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BY_NAME["BertModel"].save(tmp_path)
    monkeypatch.setattr(load, "_wrap", lambda *_: None.config)
    with pytest.raises(CheckpointError, match=r": opening it raised AttributeError \('NoneType'"):
        models.load(tmp_path, device="cpu")
