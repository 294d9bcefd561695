"""The section Patch for an image, a sound and a module of one's own: its numbers are those of the library's own module,
patched by hooks."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_models
import numpy as np
import pytest
import sound_models
import torch
import transformers
from torch import Tensor, nn

import models
from models.field_file import FieldFile
from models.hub.user_module.module import scope_of
from models.images import EXAMPLES, decoded, example
from models.sounds import SOUND_EXAMPLES, SoundFile, Waveform, decoded_sound, example_sound
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import many_texts, patch, patch_effects, text
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.patch_effects import PatchChoices
from viz_app.views.interventions.patch_payloads import PATCH_NOTE, patch_section_payloads
from viz_app.views.interventions.patch_runs import Two, two_runs
from viz_app.views.interventions.second_text import propose_second_text

VIT, DINO, VECTORS = "ViTForImageClassification", "Dinov2ForImageClassification", "ViTModel"
WHISPER = "WhisperForConditionalGeneration"
MODULES = Path(__file__).parents[2] / "assets/examples"
Library = Callable[[FieldFile], Tensor]  # a file → its logits, (row, option)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("files")
    for name in (VIT, DINO, VECTORS):
        image_models.save(name, root / name)
    sound_models.save(root / WHISPER)
    return {name: root / name for name in (VIT, DINO, VECTORS, WHISPER)}


def run_of(folder: Path, file: FieldFile) -> CurrentRun:
    scope = models.load(folder, device="cpu")
    return CurrentRun(scope, scope.run(file))


def choices(*second: FieldFile, **other: Any) -> PatchChoices:
    usual: dict[str, Any] = {
        "instead": (), "position": None, "stream": "", "part": "residual", "unit": "difference", "side": "needed",
    }  # fmt: skip
    return PatchChoices(second, **(usual | other))


def both(run: CurrentRun, second: FieldFile) -> Two:
    two = two_runs(run, (second,), None)
    assert isinstance(two, Two)
    return two


def of_images(folder: Path) -> tuple[nn.Module, Library]:
    module = getattr(transformers, folder.name).from_pretrained(folder, attn_implementation="eager")
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    return (
        module.eval(),
        lambda file: module(**processor(decoded(file), return_tensors="pt")).logits,
    )


def of_sounds(folder: Path, ids: tuple[int, ...]) -> tuple[nn.Module, Library]:
    module = transformers.WhisperForConditionalGeneration.from_pretrained(
        folder, attn_implementation="eager"
    )
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)

    def logits(file: FieldFile) -> Tensor:
        samples = decoded_sound(file).samples
        given = extractor(samples, sampling_rate=16_000, return_tensors="pt")
        return module(**given, decoder_input_ids=torch.tensor([ids])).logits[0]

    return module.eval(), logits


def first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


@torch.no_grad()
def patched_cell(
    module: nn.Module, logits: Library, files: tuple[FieldFile, FieldFile], path: str, i: int
) -> Tensor:
    """Return the logits of the first file with position i of a layer's output taken from the second."""
    layer, seen = module.get_submodule(path), []
    look = layer.register_forward_hook(lambda m, given, out: seen.append(first(out).clone()))
    logits(files[1])
    look.remove()

    def put_in(m: nn.Module, given: Any, out: Any) -> Any:
        value = first(out).clone()
        value[:, i] = seen[0][:, i]
        return (value, *out[1:]) if isinstance(out, tuple) else value

    change = layer.register_forward_hook(put_in)
    after = logits(files[0])
    change.remove()
    return after


@torch.no_grad()
def patched_head(
    module: nn.Module, logits: Library, files: tuple[FieldFile, FieldFile], path: str, h: int
) -> Tensor:
    """Return the logits of the first file with head h of the input of W_O (at this path) taken from the second."""
    w_o, seen = module.get_submodule(path), []
    look = w_o.register_forward_pre_hook(lambda m, given: seen.append(given[0].clone()))
    logits(files[1])
    look.remove()
    d = w_o.in_features // (3 if "vit" in path else 2)

    def put_in(m: nn.Module, given: Any) -> Any:
        value = given[0].clone()
        value[..., h * d : (h + 1) * d] = seen[0][..., h * d : (h + 1) * d]
        return (value,)

    change = w_o.register_forward_pre_hook(put_in)
    after = logits(files[0])
    change.remove()
    return after


def measured(two: Two, logits: Tensor) -> float:
    """Return a difference of two logits, or a log-probability, in this run's row."""
    row, option = logits[two.row].double(), two.decision.option
    if two.rival is None:
        return float(row.log_softmax(-1)[option])
    return float(row[option] - row[two.rival])


def check_panels(
    run: CurrentRun,
    second: FieldFile,
    module: nn.Module,
    logits: Library,
    cells: list[tuple[str, int]],
    heads: list[tuple[str, str, int]],
    stream: str = "",
) -> None:
    """Check cells (layer's path, position) and heads (attention, path of W_O, head), in both directions."""
    two, this = both(run, second), next(iter(run.trace.fields.values()))
    drawn = patch_section_payloads(run, choices(second, stream=stream))
    for panel, files in zip(
        drawn["patch"]["panels"], ((this, second), (second, this)), strict=True
    ):
        with torch.no_grad():
            before = measured(two, logits(files[0]))
        grid, sizes = panel["grid"], []
        for path, i in cells:
            effect = grid["effects"][grid["names"].index(f"{path}.resid_post")][i]
            wanted = measured(two, patched_cell(module, logits, files, path, i)) - before
            assert effect == pytest.approx(wanted, abs=2e-4), (path, i)
            sizes.append(abs(wanted))
        for site, path, h in heads:
            (kind,) = (kind for kind in panel["kinds"] if site in kind["sites"])
            effect = kind["effects"][kind["sites"].index(site)][h]
            wanted = measured(two, patched_head(module, logits, files, path, h)) - before
            assert effect == pytest.approx(wanted, abs=2e-4), (site, h)
            sizes.append(abs(wanted))
        assert max(sizes) > 1e-2
    looks = dict((line, look) for look, line in drawn["checks"]["rows"])
    assert "failed" not in looks.values()
    assert any("patched with itself: 0" in line for line in looks)


def test_parts_of_an_image_are_those_of_the_library_patched_by_hooks(
    folders: dict[str, Path],
) -> None:
    run, second = run_of(folders[VIT], example(EXAMPLES[0])), example(EXAMPLES[1])
    module, logits = of_images(folders[VIT])
    check_panels(
        run, second, module, logits, [("vit.layers.0", 7), ("vit.layers.0", 12), ("vit.layers.1", 0)],
        [(f"vit.layers.{i}.attention", f"vit.layers.{i}.attention.o_proj", h) for i, h in ((0, 2), (1, 0))],
    )  # fmt: skip
    panel = patch_section_payloads(run, choices(second))["patch"]["panels"][0]
    names = [label for label, *_ in panel["grid"]["tokens"]]
    assert names[:3] == ["[CLS]", "r1c1", "r1c2"]
    assert names[-1] == "r4c4"


def test_parts_of_a_sound_are_those_of_the_library_patched_by_hooks(
    folders: dict[str, Path],
) -> None:
    """Both runs read the text written from the first sound."""
    run = run_of(folders[WHISPER], example_sound(SOUND_EXAMPLES[0]))
    second = example_sound(SOUND_EXAMPLES[1])
    ids = run.trace.streams["transcript"].ids
    module, logits = of_sounds(folders[WHISPER], ids)
    panel = patch_section_payloads(run, choices(second))["patch"]["panels"][0]
    tried = [i for i, x in enumerate(panel["grid"]["effects"][1]) if x is not None]
    cross = "model.decoder.layers.1.encoder_attn"
    heads = [(f"model.encoder.layers.{i}.self_attn", f"model.encoder.layers.{i}.self_attn.out_proj", 1) for i in (0, 2)]  # fmt: skip
    check_panels(
        run, second, module, logits, [("model.encoder.layers.1", i) for i in (tried[3], tried[-1])],
        [*heads, (cross, f"{cross}.out_proj", 0)],
    )  # fmt: skip
    check_panels(
        run, second, module, logits, [("model.decoder.layers.0", both(run, second).row)], [],
        stream="transcript",
    )  # fmt: skip


def test_the_sentences_speak_of_images_and_sounds(folders: dict[str, Path]) -> None:
    for name, one, noun in (
        (VIT, example(EXAMPLES[0]), "image"),
        (WHISPER, example_sound(SOUND_EXAMPLES[0]), "sound"),
    ):
        run = run_of(folders[name], one)
        (second,) = propose_second_text(run.scope, run.trace)
        assert isinstance(second, type(one))
        assert second != one
        drawn = patch_section_payloads(run, choices(second))
        picture = drawn["patch"]
        said = [
            drawn[PATCH_NOTE]["rows"][0][1], picture["measured"], picture["hint"],
            *(panel["title"] for panel in picture["panels"]), patch.PATCHING.text(run, choices(second)),
        ]  # fmt: skip
        for sentence in said:
            assert noun in sentence
            assert not re.search(r"(?i)\b(this|other|pair of) texts?\b", sentence), sentence
        assert [one["whose"] for one in drawn["outcome"]["answers"]][0] == f"This {noun}"
        same = patch_section_payloads(run, choices(one))
        assert same[PATCH_NOTE]["rows"][0][1] == say.same_inputs(noun)


def test_in_a_long_image_the_most_different_patches_and_the_answering_token_are_tried(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, second = run_of(folders[VIT], example(EXAMPLES[0])), example(EXAMPLES[1])
    monkeypatch.setattr(patch_effects, "MAX_PATCH_WORK", 100)
    drawn = patch_section_payloads(run, choices(second))
    effects = drawn["patch"]["panels"][0]["grid"]["effects"]
    tried = [i for i, x in enumerate(effects[1]) if x is not None]
    module, _ = of_images(folders[VIT])
    processor = transformers.AutoImageProcessor.from_pretrained(folders[VIT])
    pixels = processor([decoded(example(n)) for n in EXAMPLES[:2]], return_tensors="pt")
    with torch.no_grad():
        one, other = module.vit.embeddings(pixels["pixel_values"])
    far = (one - other).norm(dim=-1).argsort(descending=True)[:3].tolist()
    assert tried == sorted([0, *far])
    said = drawn[PATCH_NOTE]["rows"][0][1]
    assert (
        "4 of 17 positions are tried: where the inputs differ most and the answer is read" in said
    )
    assert "shorten" not in said


def test_sounds_of_different_lengths_are_aligned_in_time(tmp_path: Path) -> None:
    sound_models.save_reader("HubertForSequenceClassification", tmp_path)
    samples = np.random.default_rng(0).normal(scale=0.1, size=12_000).astype(np.float32)
    run = run_of(tmp_path, SoundFile("short.wav", Waveform(samples, 16_000).as_wav()))
    (second,) = propose_second_text(run.scope, run.trace)
    drawn = patch_section_payloads(run, choices(second))
    n, m = (len(one.trace.streams["frames"].ids) for one in both(run, second).sides("needed"))
    assert n < m
    said = drawn[PATCH_NOTE]["rows"][0][1]
    assert f"{m} tokens; this sound has {n}. Aligned in time: {n}." in said
    this, other = (panel["grid"]["aligned"] for panel in drawn["patch"]["panels"])
    assert this == [True] * n
    assert other == [i < n for i in range(m)]
    assert not [line for look, line in drawn["checks"]["rows"] if look == "failed"]


def test_outputs_of_attentions_alone_are_numbered_by_layer_and_do_not_give_the_other_run(
    folders: dict[str, Path],
) -> None:
    run = run_of(folders[DINO], example(EXAMPLES[0]))
    drawn = patch_section_payloads(run, choices(example(EXAMPLES[1])))
    assert drawn["patch"]["panels"][0]["grid"]["layers"] == ["Layer 1", "Layer 2"]
    lines = drawn["checks"]["rows"]
    assert not [line for look, line in lines if look == "failed"]
    assert not [line for _, line in lines if "everything patched" in line]
    assert say.part_title("residual", False, False) == "Attention outputs"


def test_a_bare_encoder_says_that_there_is_nothing_to_measure(folders: dict[str, Path]) -> None:
    run = run_of(folders[VECTORS], example())
    said = patch.find_patch(run)
    assert said == text.no_answer(run.scope.model)
    assert "no probabilities for this image" in said
    assert "[MASK]" not in said
    assert "for the image that is shown" in many_texts.find_sweep(run)


@pytest.mark.parametrize("part", ["residual", "gradient"])
def test_a_longer_text_changes_nothing_before_its_first_new_letter(part: str) -> None:
    """The last decision is not read from the common beginning, and position vectors are no cells."""
    scope = scope_of(f"{MODULES}/one_head_per_module.py:make_scope")
    run, longer = CurrentRun(scope, scope.run("abc defg")), ("abc hijklm",)
    asked = PatchChoices(longer, (), None, "", part, "difference", "needed", ())
    drawn = patch_section_payloads(run, asked)
    picture = drawn["patch" if part == "residual" else "scatter"]
    for panel in picture["panels"]:
        assert "No head changes it" in panel["sentence"]
        if part == "residual":
            assert panel["grid"]["title"] == "Decoder"
            assert panel["grid"]["layers"] == ["Layer 1", "Layer 2"]
            assert "No cell changes it" in panel["sentence"]
    assert not [line for look, line in drawn["checks"]["rows"] if look == "failed"]


def test_no_cells_are_drawn_of_a_model_none_of_whose_cells_can_be_changed() -> None:
    scope = scope_of(f"{MODULES}/torch_transformer.py:make_scope")
    run = CurrentRun(scope, scope.run("the dog", "le chien"))
    asked = PatchChoices(("the cat",), (), None, "", "residual", "difference", "needed", ())
    for panel in patch_section_payloads(run, asked)["patch"]["panels"]:
        assert panel["grid"] is None
        assert "head" in panel["sentence"]
