"""CLIP with both towers: their attention against the library's eager maps, and the answer against one call of its module."""

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from image_models import save_with_text

import models
from models import InputError, Scope, Trace
from models.errors import CheckpointError
from models.hub.images.text_image import SIMILARITY_OUTPUT, TextImageModel
from models.images import EXAMPLES, example
from models.number_text import percent
from models.trace.edits import MaskChange, for_kinds
from viz_app.views.task.presentations import no_picture
from viz_app.words.attention import head_place, kind_title

TEXT = "a little dog"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    save_with_text(folder)
    return folder


@pytest.fixture(scope="module")
def scope(folder: Path) -> Scope:
    return models.load(folder, device="cpu")


@pytest.fixture(scope="module")
def trace(scope: Scope) -> Trace:
    return scope.run(TEXT, example())


@pytest.fixture(scope="module")
def library(folder: Path, trace: Trace):
    module = transformers.CLIPModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.tensor([trace.streams["text"].ids])
    pixels = trace.streams["patches"].pixels[None]
    with torch.no_grad():
        return module(input_ids=ids, pixel_values=pixels, output_attentions=True)


def test_each_tower_attends_as_in_the_library(trace: Trace, library) -> None:
    sites = list(trace.attention.values())
    assert [site.kind for site in sites] == ["text_self"] * 3 + ["image_self"] * 2
    assert all(site.has_causes for site in sites)
    assert trace.unrecorded == {}
    wanted = [
        *library.text_model_output.attentions,
        *library.vision_model_output.attentions,
    ]
    for site, each in zip(sites, wanted, strict=True):
        torch.testing.assert_close(site.weights(), each[0], atol=2e-6, rtol=1e-4)
    assert [site.stack for site in sites] == ["decoder"] * 3 + [
        "encoder"
    ] * 2  # CLIP's text attends backwards only
    assert not any(bool(site.weights().triu(1).any()) for site in sites[:3])
    assert sites[0].query_stream == "text"
    assert sites[-1].key_stream == "patches"


def test_titles_distinguish_the_towers_and_call_neither_a_decoder(trace: Trace) -> None:
    """The text tower reads from left to right, but nothing is decoded."""
    titles = {kind_title(site) for site in trace.attention.values()}
    assert titles == {"Text self-attention", "Image self-attention"}
    for site in trace.attention.values():
        assert (
            head_place(site, 0)
            == f"{kind_title(site).split()[0]} tower layer {site.layer + 1}, head 1"
        )


def test_the_answer_is_the_cosine_of_the_librarys_vectors(trace: Trace, library) -> None:
    answer = trace.outputs[SIMILARITY_OUTPUT]
    cosine = torch.cosine_similarity(library.text_embeds, library.image_embeds)
    assert answer.cosine == pytest.approx(float(cosine), abs=1e-5)
    assert answer.logit == pytest.approx(float(library.logits_per_text), abs=1e-4)
    assert abs(answer.cosine) > 0.01


def test_the_answer_in_words_is_the_cosine_and_a_bias_is_part_of_the_logit(
    scope: Scope, trace: Trace
) -> None:
    said = f"cosine {trace.outputs[SIMILARITY_OUTPUT].cosine:.3f}"
    assert trace.output == said.replace("-", "−")
    biased = SimpleNamespace(module=SimpleNamespace(logit_scale=torch.tensor(1.5)), logit_bias=-3.0)
    logit = TextImageModel.logit(biased, torch.tensor([0.25]))
    assert float(logit) == pytest.approx(0.25 * math.exp(1.5) - 3)


def test_each_example_is_an_image_with_its_own_caption(scope: Scope) -> None:
    pairs = scope.model.examples(scope.tokenizer)
    assert [image for _, image in pairs] == [example(name) for name in EXAMPLES]
    assert pairs[0][0] == "a circle and a square"
    assert all(str(image) in caption for caption, image in pairs[1:])


def test_another_text_or_image_moves_the_answer(scope: Scope, trace: Trace) -> None:
    own = trace.outputs[SIMILARITY_OUTPUT].cosine
    for text, image in ((TEXT, example(EXAMPLES[1])), ("the sea", example())):
        assert scope.run(text, image).outputs[SIMILARITY_OUTPUT].cosine != pytest.approx(
            own, abs=1e-4
        )


def test_texts_of_a_batch_are_those_run_alone(scope: Scope) -> None:
    values = [(TEXT, example()), ("the sea is wide and blue", example(EXAMPLES[1]))]
    for trace, one in zip(scope.run_batch(values), values, strict=True):
        alone = scope.run(*one).outputs[SIMILARITY_OUTPUT].cosine
        assert trace.outputs[SIMILARITY_OUTPUT].cosine == pytest.approx(alone, abs=1e-5)


def test_an_edit_of_one_tower_leaves_the_other_as_it_was(scope: Scope, trace: Trace) -> None:
    edits = for_kinds(image_self=MaskChange(block=((3, 2),)))
    edited = scope.run(TEXT, example(), edits=edits)
    for name, site in edited.attention.items():
        same = torch.equal(site.weights(), trace.attention[name].weights())
        assert same == (site.kind == "text_self")
    assert edited.outputs[SIMILARITY_OUTPUT].cosine != trace.outputs[SIMILARITY_OUTPUT].cosine


def test_a_text_that_is_too_long_is_refused_at_its_field(scope: Scope) -> None:
    with pytest.raises(InputError, match="this model reads at most 40") as error:
        scope.run("word " * 60, example())
    assert error.value.field == "text"
    with pytest.raises(InputError, match="the image is missing"):
        scope.run(TEXT)
    with pytest.raises(InputError, match="must be an image file"):
        scope.run(TEXT, "no image")


def test_without_a_processor_or_a_tokenizer_the_folder_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    for missing, why in (
        ("preprocessor_config.json", "preprocessor_config.json is missing"),
        ("tokenizer.json", "tokenizer"),
    ):
        copy = tmp_path / missing
        shutil.copytree(folder, copy)
        (copy / missing).unlink()
        if missing.startswith("tokenizer"):
            for path in copy.glob("*token*"):
                path.unlink()
        with pytest.raises(CheckpointError, match=why):
            models.load(copy, device="cpu")


def test_towers_that_give_another_similarity_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TextImageModel, "logit", lambda self, cosine: 2 * cosine)
    with pytest.raises(CheckpointError, match="a different similarity than in one call"):
        models.load(folder, device="cpu")


@pytest.mark.parametrize(
    ("family", "is_masked", "is_filled"),
    [
        ("Siglip", False, True),
        ("Siglip", True, True),
        ("CLIP", False, False),
        ("CLIP", True, False),
    ],
)
def test_a_text_is_padded_for_a_model_that_reads_padding(
    tmp_path: Path, family: str, is_masked: bool, is_filled: bool
) -> None:
    """transformers' own pipeline for images and labels pads rows to the longest text in the same way."""
    module = save_with_text(tmp_path, family)
    path = tmp_path / "tokenizer_config.json"
    special = json.loads(path.read_text("utf-8"))
    if family == "CLIP":  # whose padding is the end token, from which its text is read
        path.write_text(json.dumps(special | {"pad_token": special["sep_token"]}), "utf-8")
    names = ["input_ids", *["attention_mask"] * is_masked]
    settings = json.loads(path.read_text("utf-8")) | {"model_input_names": names}
    path.write_text(json.dumps(settings), "utf-8")
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run(TEXT, example())
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    how = {"padding": "max_length", "max_length": 40} if is_filled else {}
    asked = library(TEXT, return_tensors="pt", **how)
    assert set(asked) == set(names)
    pixels = trace.streams["patches"].pixels[None]
    with torch.no_grad():
        expected = module(**asked, pixel_values=pixels).logits_per_text
    assert trace.outputs[SIMILARITY_OUTPUT].logit == pytest.approx(float(expected), abs=1e-4)
    assert len(trace.streams["text"].ids) == asked["input_ids"].shape[1]
    told, probability = (
        no_picture(trace, trace.outputs[SIMILARITY_OUTPUT]),
        float(expected.sigmoid()),
    )
    assert (f"sigmoid, {percent(probability)}, is" in told) == (family == "Siglip")
    assert ("softmax" in told) == (family == "CLIP")
    assert scope.run(trace.streams["text"], example()).outputs == trace.outputs
