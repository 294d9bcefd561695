"""Valid but unusual Hugging Face folders: parts that are missing, named elsewhere, read from another token, or in other colours."""

import json
import os
from pathlib import Path
from typing import Any

import image_models
import numpy as np
import pytest
import sentencepiece
import sound_models
import torch
import transformers
from hub_models import _GROUPED, _WIDE, library_tokenizer
from safetensors.torch import load_file, save_file

import models
from models.errors import CheckpointError, InputError
from models.hub.describe import capabilities
from models.hub.images.processor import ImageProcessor
from models.images import decoded, example
from models.sounds import example_sound
from models.trace.outputs import ClassProbabilities, MultiLabelProbabilities, RegressionValues
from viz_app.drawing.notes import first_output

TEXT = "The little dog was hungry."


def saved(folder: Path, made: str, config: str, **sizes: Any) -> Any:
    """Save a random module with a tokenizer, and return it."""
    torch.manual_seed(1)
    module = getattr(transformers, made)(getattr(transformers, config)(**sizes)).eval()
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
    module.save_pretrained(folder)
    library_tokenizer(folder, 89)
    return module


def edited(folder: Path, name: str = "config.json", **settings: Any) -> None:
    path = folder / name
    described = json.loads(path.read_text("utf-8")) | settings
    path.write_text(json.dumps({k: v for k, v in described.items() if v is not None}), "utf-8")


def bert(folder: Path, made: str = "BertForSequenceClassification", **sizes: Any) -> Any:
    return saved(folder, made, "BertConfig", **_WIDE | {"vocab_size": 97, "num_labels": 3} | sizes)


def without_pooler(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    left = {name: one for name, one in weights.items() if "pooler" not in name}
    assert len(left) < len(weights)
    save_file(left, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    "made",
    ["BertForSequenceClassification", "BertForNextSentencePrediction", "BertForMultipleChoice", "BertForPreTraining",
     "BeitForImageClassification"],
)  # fmt: skip
def test_a_missing_pooler_that_the_answer_needs_is_not_initialised_at_random(
    tmp_path: Path, made: str
) -> None:
    image_models.save(made, tmp_path) if "Beit" in made else bert(tmp_path, made)
    without_pooler(tmp_path)
    with pytest.raises(CheckpointError, match="pooler.* they are not replaced by random values"):
        models.load(tmp_path, device="cpu")


@pytest.mark.parametrize("made", ["BertModel", "ViTModel"])
def test_a_pooler_that_no_answer_is_read_through_may_be_missing(tmp_path: Path, made: str) -> None:
    image_models.save(made, tmp_path) if "ViT" in made else bert(tmp_path, made)
    without_pooler(tmp_path)
    scopes = [models.load(tmp_path, device="cpu") for _ in range(2)]
    states = [scope.model.module.state_dict() for scope in scopes]
    assert all(torch.equal(one, states[1][name]) for name, one in states[0].items())


def reads(module: Any, ids: list[int]) -> list[int]:
    """Return the tokens whose last vectors the library's answer is read from, by the gradient at its head's input."""
    taken: list[torch.Tensor] = []
    for child in list(module.children())[1:]:
        child.register_forward_pre_hook(lambda _, args: taken.append(args[0]))
    logits = module(input_ids=torch.tensor([ids])).logits
    (gradient,) = torch.autograd.grad(logits.sum(), taken[0])
    return gradient[0].abs().sum(-1).nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("made", "config", "sizes"),
    [
        ("XLNetForSequenceClassification", "XLNetConfig", {"d_model": 22, "n_head": 2, "n_layer": 2, "d_inner": 31}),
        ("LlamaForSequenceClassification", "LlamaConfig", _GROUPED | {"eos_token_id": 3, "pad_token_id": 3}),
        ("LlamaForSequenceClassification", "LlamaConfig", _GROUPED | {"eos_token_id": 2, "pad_token_id": 0}),
    ],
)  # fmt: skip
def test_the_answering_token_is_the_one_that_the_library_reads(
    tmp_path: Path, made: str, config: str, sizes: dict[str, Any]
) -> None:
    module = saved(tmp_path, made, config, **sizes | {"vocab_size": 97, "num_labels": 3})
    trace = models.load(tmp_path, device="cpu").run(TEXT)
    ids = list(trace.streams["text"].ids)
    position = first_output(trace).position
    if made.startswith("XLNet"):
        assert reads(module, ids) == [position]
        return
    with torch.no_grad():  # the head of the last vectors, read at one token
        states = module.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        torch.testing.assert_close(
            module.score(states[position]), first_output(trace).logits, rtol=1e-4, atol=1e-5
        )
    padding = sizes["pad_token_id"]
    assert position == max(i for i, token in enumerate(ids) if token != padding)


def test_a_class_read_from_all_tokens_has_no_answering_token(tmp_path: Path) -> None:
    saved(
        tmp_path, "ModernBertForSequenceClassification", "ModernBertConfig",
        **_WIDE | {"hidden_size": 24, "vocab_size": 97, "num_labels": 3, "cls_token_id": 1, "sep_token_id": 2, "pad_token_id": 0},
        classifier_pooling="mean",
    )  # fmt: skip
    scope = models.load(tmp_path, device="cpu")
    assert first_output(scope.run(TEXT)).position is None
    assert scope.model.read_outputs == ()


@pytest.mark.parametrize(
    ("n", "problem", "kind"),
    [
        (1, None, RegressionValues), (4, "multi_label_classification", MultiLabelProbabilities),
        (3, "regression", RegressionValues), (3, None, ClassProbabilities),
    ],
)  # fmt: skip
def test_a_classifier_of_two_stacks_has_the_labels_of_its_problem(
    tmp_path: Path, n: int, problem: str | None, kind: type
) -> None:
    sizes = {"d_model": 22, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
             "encoder_ffn_dim": 31, "decoder_ffn_dim": 31, "max_position_embeddings": 61}  # fmt: skip
    module = saved(tmp_path, "BartForSequenceClassification", "BartConfig", **sizes, vocab_size=97, eos_token_id=3,
                   pad_token_id=0, bos_token_id=1, num_labels=n, problem_type=problem)  # fmt: skip
    trace = models.load(tmp_path, device="cpu").run(TEXT)
    output = first_output(trace)
    assert type(output) is kind
    with torch.no_grad():
        expected = module(input_ids=torch.tensor([trace.streams["text"].ids])).logits[0]
    shown = output.logits if kind is ClassProbabilities else output.values
    torch.testing.assert_close(shown, expected, rtol=1e-4, atol=1e-5)


def test_a_label_without_a_name_does_not_get_that_of_another(tmp_path: Path) -> None:
    bert(tmp_path)
    edited(
        tmp_path, id2label={"1": "one star", "2": "two stars", "3": "three stars"}, label2id=None
    )
    scope = models.load(tmp_path, device="cpu")
    assert first_output(scope.run(TEXT)).names == ("LABEL_0", "one star", "two stars")


def test_sizes_that_do_not_fit_are_named(tmp_path: Path) -> None:
    bert(tmp_path)
    edited(tmp_path, max_position_embeddings=8)
    with pytest.raises(
        CheckpointError,
        match=r"position_embeddings.weight: \(\d+, 22\) in the weights, \(8, 22\) in",
    ):
        models.load(tmp_path, device="cpu")


def test_a_module_that_returns_tuples_opens(tmp_path: Path) -> None:
    bert(tmp_path)
    edited(tmp_path, return_dict=False)
    assert len(first_output(models.load(tmp_path, device="cpu").run(TEXT)).names) == 3


def test_a_longest_text_that_is_no_number_is_refused_as_such(tmp_path: Path) -> None:
    bert(tmp_path)
    edited(tmp_path, "tokenizer_config.json", model_max_length="512")
    with pytest.raises(CheckpointError, match="model_max_length must be a number, not '512'"):
        models.load(tmp_path, device="cpu")


def test_a_text_without_a_token_is_refused_at_its_field(tmp_path: Path) -> None:
    saved(tmp_path, "LlamaForCausalLM", "LlamaConfig", **_GROUPED | {"vocab_size": 97})
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    library.backend_tokenizer.post_processor = None
    library.save_pretrained(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    with pytest.raises(InputError, match="holds nothing that this model can read"):
        scope.run("\x01")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"image_processor_type": "MobileViTImageProcessor", "size": {"shortest_edge": 20}, "crop_size": {"height": 20, "width": 20},
         "do_flip_channel_order": True},
        {"rescale_factor": 1 / 127.5, "image_mean": [1, 1, 1], "image_std": [1, 1, 1]},
        {"image_mean": [0.1, 0.5, 0.9], "image_std": [0.2, 0.5, 2.0]},
        {"do_rescale": False, "image_mean": [127, 127, 127], "image_std": [60, 60, 60]},
    ],
    ids=["plain", "channels flipped", "another factor", "each channel its own", "not rescaled"],
)  # fmt: skip
def test_the_image_that_a_model_reads_has_the_colours_of_the_file(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    image_models.save("ViTForImageClassification", tmp_path)
    edited(tmp_path, "preprocessor_config.json", **settings)
    processor = ImageProcessor(tmp_path, transformers)
    image = decoded(example())
    seen = processor.seen(processor.pixels(image))
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    cropped = image.crop((left, top, left + side, top + side)) if "crop_size" in settings else image
    expected = np.asarray(cropped.resize((20, 20), 2), np.float64) / 255
    assert np.abs(seen.numpy() - expected).mean() < 0.05
    means = seen.numpy().mean((0, 1)), expected.mean((0, 1))
    assert means[0] == pytest.approx(means[1], abs=0.02)


def test_settings_that_a_processor_of_several_parts_saved_are_read(tmp_path: Path) -> None:
    image_models.save("ViTForImageClassification", tmp_path)
    path = tmp_path / "preprocessor_config.json"
    before = models.load(tmp_path, device="cpu")
    settings = json.loads(path.read_text("utf-8"))
    path.unlink()
    (tmp_path / "processor_config.json").write_text(
        json.dumps({"image_processor": settings, "processor_class": "X"}), "utf-8"
    )
    after = models.load(tmp_path, device="cpu")
    one, other = (first_output(scope.run(example())).logits for scope in (before, after))
    assert torch.equal(one, other)


def test_settings_of_sounds_that_such_a_processor_saved_are_read(tmp_path: Path) -> None:
    sound_models.save(tmp_path)
    path = tmp_path / "preprocessor_config.json"
    written = models.load(tmp_path, device="cpu").run(example_sound()).output
    settings = json.loads(path.read_text("utf-8"))
    path.unlink()
    (tmp_path / "processor_config.json").write_text(
        json.dumps({"feature_extractor": settings}), "utf-8"
    )
    assert models.load(tmp_path, device="cpu").run(example_sound()).output == written


@pytest.mark.parametrize("content", ["[" * 400_000, "[]", '{"image_processor": 3}', "{}"])
def test_a_hostile_file_of_such_a_processor_is_refused(tmp_path: Path, content: str) -> None:
    image_models.save("ViTForImageClassification", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    (tmp_path / "processor_config.json").write_text(content, "utf-8")
    with pytest.raises(CheckpointError, match="processor_config.json"):
        models.load(tmp_path, device="cpu")


def test_a_pipe_in_place_of_such_a_file_does_not_block(tmp_path: Path) -> None:
    image_models.save("ViTForImageClassification", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    os.mkfifo(tmp_path / "processor_config.json")
    with pytest.raises(CheckpointError, match="regular file"):
        models.load(tmp_path, device="cpu")


def test_a_text_is_at_most_as_long_as_every_part_reads(tmp_path: Path) -> None:
    sizes = {"d_model": 24, "n_heads": 2, "n_layers": 2, "max_seq_len": 9, "vocab_size": 97}
    saved(tmp_path / "mpt", "MptForCausalLM", "MptConfig", **sizes)
    parts = [
        transformers.BertConfig(**_WIDE | {"vocab_size": 97, "max_position_embeddings": n}, **more)
        for n, more in ((9, {}), (61, {"is_decoder": True, "add_cross_attention": True}))
    ]
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*parts)
    config.decoder_start_token_id = config.pad_token_id = 1
    folder = tmp_path / "two"
    transformers.EncoderDecoderModel(config=config).save_pretrained(folder)
    library_tokenizer(folder, 89)
    for name in ("mpt", "two"):
        scope = models.load(tmp_path / name, device="cpu")
        assert scope.run("a b").outputs
        with pytest.raises(InputError, match="at most 9"):
            scope.run("a b c d e f g h i j k l m n o p")


def test_a_decoder_of_another_width_attends_to_the_source(tmp_path: Path) -> None:
    """This holds even if source and target are equally long, which would hide a wrong stream."""
    sizes = _WIDE | {"vocab_size": 97}
    wider = {"hidden_size": 2 * sizes["hidden_size"], "is_decoder": True}
    parts = [
        transformers.BertConfig(**sizes | more)
        for more in ({}, wider | {"add_cross_attention": True})
    ]
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*parts)
    config.decoder_start_token_id = config.pad_token_id = 1
    module = transformers.EncoderDecoderModel(config=config).eval()
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
    module.set_attn_implementation("eager")
    module.save_pretrained(tmp_path)
    library_tokenizer(tmp_path, 89)
    trace = models.load(tmp_path, device="cpu").run("a b", "c d e")
    source, target = (trace.streams[name].ids for name in ("source", "target"))
    assert len(source) == len(target)
    with torch.no_grad():
        wanted = module(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([target]),
            output_attentions=True,
        )
    for kind, attentions in (
        ("decoder_self", wanted.decoder_attentions),
        ("cross", wanted.cross_attentions),
    ):
        sites = [site for site in trace.attention.values() if site.kind == kind]
        assert [site.layer for site in sites] == list(range(len(attentions)))
        for site, weights in zip(sites, attentions, strict=True):
            assert (site.weights() - weights[0]).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("more", "n_key_heads"),
    [({}, 1), ({"new_decoder_architecture": True, "num_kv_heads": 2}, 2), ({"multi_query": False}, 4)],
)  # fmt: skip
def test_the_key_heads_of_a_falcon_are_counted_as_it_shares_them(
    tmp_path: Path, more: dict[str, Any], n_key_heads: int
) -> None:
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 97}
    saved(tmp_path, "FalconForCausalLM", "FalconConfig", **sizes, **more)
    scope = models.load(tmp_path, device="cpu")
    assert scope.config.n_key_heads == n_key_heads
    sites = scope.run(TEXT).attention.values()
    assert {site.lazy_k.shape[1] for site in sites} == {n_key_heads}


def with_tensors(folder: Path, names: list[str]) -> None:
    """Add tensors of these names to a folder's weights."""
    path = folder / "model.safetensors"
    weights = load_file(path) | {name: torch.full((2, 3), 0.5) for name in names}
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    "name",
    [
        "bert.encoder.layer.0.attention.self.distance_embedding.weight",  # of older versions
        "encoder.layer.1.attention.self.distance_embedding.weight",
        "bert.encoder.layer.0.attention.self.query.lora_A.default.weight",
        "bert.encoder.layer.1.output.adapter.down.weight",
        "bert.encoder.layer.1.attention.out_attn.bias",
    ],
)
def test_layer_weights_that_would_be_ignored_are_refused(tmp_path: Path, name: str) -> None:
    bert(tmp_path)
    with_tensors(tmp_path, [name])
    with pytest.raises(CheckpointError, match=f"ignores 1 tensor of .*{name[-9:]}"):
        models.load(tmp_path, device="cpu")


def test_other_unused_weights_are_named(tmp_path: Path) -> None:
    bert(tmp_path)
    library_tokenizer(tmp_path, 89)
    expected = first_output(models.load(tmp_path, device="cpu").run("a b")).logits
    unused = ["cls.seq_relationship.weight", "bert.encoder.layer.2.output.dense.weight"]
    with_tensors(
        tmp_path,
        [
            *unused,
            "bert.encoder.layer.0.attention.rotary_emb.inv_freq",
            "bert.encoder.layer.0.attention.self.k_scale",
            "encoder.layer.1.attention.EncDecAttention.relative_attention_bias.weight",
        ],
    )
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run("a b")
    assert torch.allclose(first_output(trace).logits, expected, atol=1e-6)
    (line,) = [line for line in capabilities(scope, trace) if "are not used" in line]
    assert line.startswith("5 tensors")
    assert "bert.encoder.layer.0.attention.rotary_emb.inv_freq" in line


@pytest.mark.parametrize("has_model", [True, False])
def test_an_adapter_is_refused(tmp_path: Path, has_model: bool) -> None:
    if has_model:
        bert(tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}', "utf-8")
    with pytest.raises(CheckpointError, match="contains an adapter.*merge"):
        models.load(tmp_path, device="cpu")


def test_a_tokenizer_of_one_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    saved(folder, "XLMRobertaForMaskedLM", "XLMRobertaConfig", **_WIDE | {"vocab_size": 97})
    (tmp_path / "texts").write_text(f"{TEXT}\n" * 50, "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "texts"), model_prefix=str(tmp_path / "spm"), vocab_size=60, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (tmp_path / "spm.model").rename(folder / "sentencepiece.bpe.model")
    row = models.load(folder, device="cpu").run("The dog").streams["text"]
    library = transformers.AutoTokenizer.from_pretrained(folder)
    assert list(row.ids) == library("The dog")["input_ids"]
    (folder / "sentencepiece.bpe.model").unlink()
    (folder / "tokenizer_config.json").write_text("{}", "utf-8")
    with pytest.raises(CheckpointError, match="only special tokens"):
        models.load(folder, device="cpu")
