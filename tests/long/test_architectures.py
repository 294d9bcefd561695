"""Kinds of model that transformers knows, each small and random, grouped by how much of them is shown.

Those that open are compared with transformers' own attention written out: its maps and softmaxes, its answer, the text of
`generate`, and its answer with cells of every softmax at −∞.
"""

import re
from pathlib import Path

import image_models
import pytest
import sound_models
import torch
import transformers
from eager import CELLS, GIVEN, Asked, Softmaxes, maps, off_by
from tiny_architectures import class_of, save
from transformers import CONFIG_MAPPING

import models
from models import Scope
from models.analysis.layer_parts import check_parts, sublayer_effects
from models.analysis.routing import token_routing
from models.errors import CheckpointError
from models.hub.routing import may_be_mixture
from models.hub.trial import client
from models.hub.writers import CausalLM
from models.images import example
from models.sounds import example_sound
from models.trace import AttentionSite

# every attention by its q, k, v, mask and scale
CAUSES = """
afmoe albert apertus apertus1p5_text arcee aria aria_text audioflamingo3 axk1 axk2 aya_vision bailing_hybrid bamba
bart beam bert bert-generation big_bird bigbird_pegasus biogpt bitnet blenderbot blenderbot-small bloom camembert
clip_text_model codegen cohere cohere2 cohere2_moe cohere_compass_text ctrl cwm data2vec-text dbrx deberta
deberta-v2 deepseek_v2 deepseek_v3 deepseek_v32 diffllama distilbert doge dory dots1 dots3_note_text dpr electra
embedding_gemma2_text ernie ernie4_5 ernie4_5_moe esm esmc eurobert exaone exaone4 exaone_moe falcon falcon_h1
flaubert flex_olmo fsmt fuyu gemma gemma2 gemma3 gemma3_text gemma3n_text gemma4 gemma4_text gemma4_unified
gemma4_unified_text git glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa glmasr gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox
gpt_neox_japanese gptj granite granite_docling_text granite_speech granite_speech_plus granite_swa granitemoe
granitemoe_swa granitemoehybrid granitemoeshared gte helium hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3
hyperclovax ibert idefics2 idefics3 inkling_text internlm3 internvl iquestcoder jais2 jamba jetmoe
jina_embeddings_v3 kimi_k25 kolibri1 laguna lara_mini layoutlm lfm2 lfm2_moe lfm2_vl lfm3 lilt llama llama4_text
llava llava_next llava_onevision longcat_flash luke m2m_100 marian mbart megatron-bert mellum mimo_v2_flash minicpm3
minimax minimax_m2 minimax_m3_vl_text ministral ministral3 mistral mistral3 mixtral mobilebert modernbert
modernbert-decoder modernvbert molmo2_text moshi moss_transcribe_diarize mpnet mpt mt5 muse_glimmer_text mvp
nanochat nemotron nemotron_h nllb-moe nomic_bert nystromformer olmo olmo2 olmo3 olmo_hybrid olmoe openai-gpt opt
pegasus persimmon phi phi3 phimoe plbart qwen2 qwen2_audio qwen2_moe qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe
qwen3_next qwen3_vl_moe_text qwen3_vl_text recurrent_gemma rembert roberta roberta-prelayernorm roc_bert roformer
sarvam_mla sarvam_moe seamless_m4t seamless_m4t_v2 seed_oss smollm3 smolvlm solar_open splinter squeezebert stablelm
starcoder2 switch_transformers t5 t5gemma tapas tipsv2_text_model trocr ultrabert ultravbert umt5 vaultgemma
video_llava vipllava visual_bert voxtral whisper xglm xlm xlm-roberta xlm-roberta-xl xlnet xmod youtu zamba2 zaya
""".split()
# the same, except for attentions that are named with this reason
IN_PART = {
    "convbert": r"takes a softmax of \d+ × 9 × 1 weights",  # of a convolution
    "led": r"returns weights of (\d+) × 5 for \1 × \1 tokens",  # windows
    "longt5": "returns weights of 1 × 1 × 4 × 128 × 384",  # blocks
    "pegasus_x": "takes a softmax of 1 × 4 × 32 × ",
    "prophetnet": r"returns weights of \d+ × \d+ for|takes a softmax of 1 × 2 × 4 × (\d+) × \d+ weights",  # streams that predict
    "t5gemma2": r"asks for (\d+) × \d+ cells, where the run has \1 × ",  # the decoder attends to itself and to the source in one softmax
}
# their residual stream is not shown: no layout of models/hub/layouts adds up
NO_LAYERS = """
albert axk2 beam dory embedding_gemma2_text falcon_h1 flaubert fsmt gemma3n_text gemma4 gemma4_text
gpt_neox_japanese hrm_text ibert inkling_text lilt longcat_flash minimax mobilebert modernbert-decoder nemotron_h
nystromformer recurrent_gemma squeezebert xlm xlnet xmod zamba2 zaya
""".split()
# mixtures of experts in which no run confirms where tokens are sent
NO_ROUTING = ("jetmoe", "llama4_text")
# returned weights only, and the reason
_SINK = "its weights are cut or reordered between the softmax and the values"
WEIGHTS = {
    "cpmant": "its scores do not come from a product of queries and keys that could be followed",
    **dict.fromkeys(("deepseek_v4", "flint", "gpt_oss", "hy_v4", "openai_privacy_filter"), _SINK),
}
_NO_SOFTMAX, _NOT_ALONE = (
    "no softmax is computed in a run",
    r"does not run on a text of \d tokens alone",
)
REFUSED = {
    **dict.fromkeys(
        ("falcon_mamba", "fnet", "mamba", "mamba2", "mra", "rwkv", "xlstm"), _NO_SOFTMAX
    ),
    **dict.fromkeys(
        ("layoutlmv3", "lxmert", "udop", "vilt"),
        f"reads image and text.* {_NOT_ALONE}",
    ),
    **dict.fromkeys(("clip", "flava", "siglip"), "preprocessor_config.json is missing"),
    **dict.fromkeys(("bros", "clvp", "funnel", "gemma4_unified_assistant"), _NOT_ALONE),
    "voxtral_realtime": f"reads audio and text.* {_NOT_ALONE}",
    "canine": "provides no table with one embedding for each token",
    "longformer": "returns weights of 3 × 5 for 3 × 3 tokens",
    "mllama": "transformers does not list it among the 'mllama_text_model' models",
    "perceiver": "weighs 6 × 5 and 6 × 6 and 64 × 6 positions of its own",
    "reformer": "returns weights of 1 × 4 × 2 × 4 × 8 for 5 × 5 tokens",
    "yoso": "returns weights of 1 × 3 × 32 for 3 × 3 tokens",
}
# models that read a sound: every attention with its causes
SOUNDS = (
    *sound_models.READERS,
    *sound_models.SPELLERS,
    *sound_models.WRITERS,
    "WhisperForAudioClassification",
    "WhisperForConditionalGeneration",
)
CONFORMERS = ("Wav2Vec2Conformer", "Wav2Vec2Bert", "Parakeet", "Lasr")  # NO_LAYERS among them
# models that read an image: every attention with its causes, or the reason why none is shown
IMAGES = """
ViTForImageClassification DeiTForImageClassification DeiTForImageClassificationWithTeacher ViTMSNForImageClassification
BeitForImageClassification Data2VecVisionForImageClassification Dinov2ForImageClassification
Dinov2WithRegistersForImageClassification IJepaForImageClassification CLIPForImageClassification ViTModel CLIPVisionModel
""".split()
IMAGES_IN_PART = {
    "SiglipForImageClassification": r"asks for 1 × 16 cells, where the run has 16 × 16"
}
IMAGES_REFUSED = {
    "SwinForImageClassification": "a single number as its num_attention_heads|patches of one grid",
    **dict.fromkeys(
        ("ResNetForImageClassification", "ConvNextForImageClassification"),
        "not the patches of one grid|preprocessor_config.json cannot be used for an image",
    ),
    **dict.fromkeys(
        (
            "SegformerForImageClassification",
            "PvtForImageClassification",
            "HieraForImageClassification",
            "LevitForImageClassification",
            "ImageGPTForImageClassification",
        ),
        "patches of one grid|does not run on an image alone|a single number as its",
    ),
}
OF_PYTHON = "object has no attribute|NoneType|positional argument|Traceback"
ROUNDING = 2e-5  # of float32, by another order of the same sums
MOST = 6  # tokens to generate


def is_known(kind: str) -> bool:
    return kind in CONFIG_MAPPING and hasattr(transformers, class_of(kind) or "none")


def saved(kind: str, folder: Path) -> Path:
    if not is_known(kind):
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    save(kind, folder)
    return folder


@pytest.fixture
def scope(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scope:
    """Open a model without the trial in a separate process, which would open the folder twice; folders that are refused are tried."""
    monkeypatch.setattr(client, "pass_trial", lambda folder, dtype: 0)
    return models.load(saved(kind, tmp_path), device="cpu")


def test_the_table_names_each_kind_once_and_a_hundred_that_this_version_has() -> None:
    kinds = [*CAUSES, *IN_PART, *WEIGHTS, *REFUSED]
    assert len(kinds) == len(set(kinds))
    assert sum(map(is_known, kinds)) >= 100


@pytest.mark.parametrize("kind", [*CAUSES, *IN_PART])
def test_it_is_shown_with_its_causes(kind: str, scope: Scope) -> None:
    asked, named = Asked(scope), IN_PART.get(kind, "")
    assert scope.model.shows_causes
    assert all(site.has_causes for site in asked.trace.attention.values())
    assert bool(asked.trace.unrecorded) == bool(named), asked.trace.unrecorded
    assert all(re.search(named, reason) for reason in asked.trace.unrecorded.values())
    check_weights(asked, is_whole=not named)
    check_answers(asked)
    check_painting(asked)
    check_writing(asked)
    assert bool(scope.model.sublayers) == (kind not in (*NO_LAYERS, *IN_PART))
    check_layers(asked)
    check_experts(asked, is_known=kind not in NO_ROUTING)


@pytest.mark.parametrize("kind", list(WEIGHTS))
def test_its_weights_alone_are_shown(kind: str, scope: Scope) -> None:
    asked = Asked(scope)
    sites = list(asked.trace.attention.values())
    assert not any(site.has_causes for site in sites)
    assert {site.why_given for site in sites} == {WEIGHTS[kind]}
    check_weights(asked)
    check_answers(asked)
    check_writing(asked)
    with pytest.raises(ValueError, match="only finished weights are known"):
        asked.edited(scope.model.kinds[0])


@pytest.mark.parametrize("kind", list(REFUSED))
def test_it_is_refused_in_a_sentence(kind: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=REFUSED[kind]) as error:
        models.load(saved(kind, tmp_path), device="cpu")
    assert not re.search(OF_PYTHON, str(error.value))


@pytest.mark.parametrize("name", [*IMAGES, *IMAGES_IN_PART])
def test_a_model_of_images_is_shown_with_its_causes(name: str, tmp_path: Path) -> None:
    module = image_models.save(name, tmp_path)
    trace = models.load(tmp_path, device="cpu").run(example())
    named = IMAGES_IN_PART.get(name, "")
    assert bool(trace.unrecorded) == bool(named)
    assert all(re.search(named, reason) for reason in trace.unrecorded.values())
    sites = list(trace.attention.values())
    assert all(site.has_causes for site in sites)
    eager = type(module).from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        pixels = trace.streams["patches"].pixels[None]
        output = eager(pixel_values=pixels, output_attentions=True)
    handed_out = list(maps(output))
    assert len(handed_out) == len(sites) == 2
    assert all(alike(site, each) for site, each in zip(sites, handed_out, strict=True))
    if "classes" in trace.outputs:
        assert off_by(trace.outputs["classes"].logits, output.logits[0]) < ROUNDING


@pytest.mark.parametrize("name", list(IMAGES_REFUSED))
def test_a_model_of_images_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    image_models.save(name, tmp_path, 32 if name.startswith("Swin") else 20)
    with pytest.raises(CheckpointError, match=IMAGES_REFUSED[name]) as error:
        models.load(tmp_path, device="cpu")
    assert not re.search(OF_PYTHON, str(error.value).partition("(")[0])


def check_weights(asked: Asked, is_whole: bool = True) -> None:
    """Assert that sites have the library's weights, in its order; with `is_whole`, every map that it returns belongs to a site."""
    for kind in asked.model.kinds:
        sites = [site for site in asked.trace.attention.values() if site.kind == kind.name]
        with torch.no_grad(), Softmaxes(asked.shape(kind)) as softmaxes:
            output = asked.eager(**asked.inputs, output_attentions=True)
        handed_out = [each for each in maps(output) if each.shape[-2:] == asked.shape(kind)]
        own = [each.reshape(-1, *each.shape[-2:]) for each in softmaxes.kept]
        assert in_order(sites, own) or in_order(sites, handed_out)
        assert not is_whole or all(any(alike(site, each) for site in sites) for each in handed_out)
        for site in sites:
            total = site.weights().sum(-1)
            assert total.max() < 1 + ROUNDING
            assert not site.has_causes or total.min() > 1 - ROUNDING


def in_order(sites: list[AttentionSite], wanted: list[torch.Tensor]) -> bool:
    """Return whether each site has wanted weights, none before those of the previous site; two may share them."""
    first = 0
    for site in sites:
        at = next((i for i in range(first, len(wanted)) if alike(site, wanted[i])), None)
        if at is None:
            return False
        first = at
    return True


def alike(site: AttentionSite, wanted: torch.Tensor) -> bool:
    """Return whether these are a site's weights, or the scores under its softmax."""
    is_weights = wanted.min() >= 0 and wanted.sum(-1).max() < 1.001
    wanted, weights = wanted if is_weights else wanted.softmax(-1), site.weights()
    return weights.shape == wanted.shape and off_by(weights, wanted) < ROUNDING


def check_answers(asked: Asked) -> None:
    """Assert that recording changes no digit of the answer, which equals the library's."""
    own = asked.own()
    with models.record():
        assert torch.equal(asked.own(), own)
    assert off_by(own, asked.theirs(asked.model.module)) < ROUNDING
    assert off_by(own, asked.theirs(asked.eager)) < ROUNDING


def check_writing(asked: Asked) -> None:
    """Assert that greedy decoding of a generating model gives the text of `generate`."""
    model, given = asked.model, asked.scope.input_ids(GIVEN)
    if not model.can_write:
        return
    own = [step.token for step in models.decoding.greedy(model, given, max_new=MOST)]
    how = {"do_sample": False, "num_beams": 1, "pad_token_id": asked.scope.config.fill_id}
    how |= {"use_cache": model.can_cache}  # ProphetNet's changes what it writes
    row = model.module.generate(torch.tensor([given]), max_new_tokens=MOST, **how)[0].tolist()
    assert own == row[len(given) if isinstance(model, CausalLM) else 1 :][:MOST]


def check_layers(asked: Asked) -> None:
    """Assert that the parts of layers add up, and that the stream before each layer is the library's hidden state."""
    model, trace, last = asked.model, asked.trace, 2
    for stream in model.streams:
        if found := sublayer_effects(model, trace, stream, last):
            failed = [
                check.name for check in check_parts(model, trace, found, last) if not check.passed
            ]
            assert not failed
    with torch.no_grad():
        output = asked.eager(**asked.inputs, output_hidden_states=True)
    names = ("encoder_hidden_states", "decoder_hidden_states", "hidden_states")
    states = [state for name in names for state in output.get(name) or ()]
    for sublayer in model.sublayers:
        if sublayer.before.endswith("resid_pre"):
            recorded = trace.activations[sublayer.before].value
            assert any(
                state.shape == recorded.shape and off_by(recorded, state) < ROUNDING
                for state in states
            )


def check_experts(asked: Asked, is_known: bool) -> None:
    """Assert that every mixture shows where it sends a token, and that its experts add up with the router's weights."""
    model = asked.model
    mixtures = {part.path: part for part in model.sublayers if may_be_mixture(model, part)}
    assert set(model.routings) == (set(mixtures) if is_known else set())
    for path, experts in model.routings.items():
        found = token_routing(asked.trace, experts, mixtures[path].made or mixtures[path].out, 2)
        assert found is not None
        assert found.check(torch.float32).passed


def check_painting(asked: Asked) -> None:
    """Assert that blocked cells have weight 0, and that the answer is that of softmaxes without them."""
    own, sites = asked.own(), asked.trace.attention.values()
    for kind in asked.model.kinds:
        if kind.name not in {site.kind for site in sites}:
            continue
        edits, trace = asked.edited(kind)
        for site in trace.attention.values():
            weights = site.weights()
            assert off_by(weights.sum(-1), torch.ones(weights.shape[:-1])) < ROUNDING
            if site.kind == kind.name:
                assert all(weights[:, query, key].eq(0).all() for query, key in CELLS)
        with Softmaxes(asked.shape(kind), is_painted=True) as softmaxes:
            wanted = asked.theirs(asked.eager)
        assert softmaxes.kept
        painted = asked.own(edits)
        assert off_by(painted, wanted) < ROUNDING
        assert (painted - own).abs().max() > 1e-4


@pytest.mark.parametrize("name", SOUNDS)
def test_models_of_sounds_by_how_much_is_shown(name: str, tmp_path: Path) -> None:
    if name in sound_models.READERS:
        sound_models.save_reader(name, tmp_path)
    elif name in sound_models.SPELLERS:
        sound_models.save_speller(name, tmp_path)
    elif name in sound_models.WRITERS:
        sound_models.save_writer(name, tmp_path)
    elif name == "WhisperForAudioClassification":
        sound_models.save_whisper_classifier(tmp_path)
    else:
        sound_models.save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run(example_sound())
    assert trace.attention
    assert trace.unrecorded == {}
    assert all(site.has_causes for site in trace.attention.values())
    if name.startswith(CONFORMERS):
        assert scope.model.sublayers == ()
    else:
        assert len(scope.model.sublayers) >= 2 * scope.config.n_layers
