"""Hugging Face vision models: patches are a stream, and weights, logits and masks are the library's."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from image_models import NAMES, save
from torch.overrides import TorchFunctionMode

import models
from models import Scope
from models.analysis.checks import check_site
from models.errors import CheckpointError, InputError
from models.hub.describe import capabilities, model_summary
from models.hub.files import PREPROCESSOR
from models.images import EXAMPLES, ImageFile, PatchGrid, PatchRow, example
from models.trace.edits import HeadOff, MaskChange, Where, for_kinds
from models.trace.outputs import ClassProbabilities
from viz_app.drawing.image_map import shown_query
from viz_app.drawing.labels import labels

CELLS = ((3, 1), (3, 7), (0, 16))
VIT = "ViTForImageClassification"
SHOWN = {  # special tokens before the patches, and the token that the answer is read from
    VIT: (("[CLS]",), 0),
    "DeiTForImageClassification": (("[CLS]", "[distillation]"), 0),
    "DeiTForImageClassificationWithTeacher": (("[CLS]", "[distillation]"), None),
    "ViTMSNForImageClassification": (("[CLS]",), 0),
    "BeitForImageClassification": (("[CLS]",), None),
    "Data2VecVisionForImageClassification": (("[CLS]",), None),
    "Dinov2ForImageClassification": (("[CLS]",), None),
    "Dinov2WithRegistersForImageClassification": (("[CLS]", "[register 1]", "[register 2]"), None),
    "IJepaForImageClassification": ((), None),
    "SiglipForImageClassification": ((), None),
    "CLIPForImageClassification": (("[CLS]",), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("vision")
    for name in (*SHOWN, "ViTModel", "CLIPVisionModel"):
        save(name, root / name)
    return {name: root / name for name in (*SHOWN, "ViTModel", "CLIPVisionModel")}


def open_scope(folder: Path) -> Scope:
    return models.load(folder, device="cpu")


@torch.no_grad()
def library(folder: Path, name: str, image: Any) -> Any:
    """Return the library's own answer to an image, which it cuts into patches itself."""
    module = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    return module(**processor(image, return_tensors="pt"), output_attentions=True)


@pytest.mark.parametrize("name", list(SHOWN))
def test_weights_and_logits_are_the_librarys(folders: dict[str, Path], name: str) -> None:
    scope = open_scope(folders[name])
    for chosen in EXAMPLES:
        trace = scope.run(example(chosen))
        made = library(folders[name], name, models.images.decoded(example(chosen)))
        sites = list(trace.attention.values())
        assert len(sites) == len(made.attentions) == 2
        for site, wanted in zip(sites, made.attentions, strict=True):
            assert (site.weights() - wanted[0]).abs().max() < 2e-6
            assert site.has_causes
            assert [check for check in check_site(site) if not check.passed] == []
        output = trace.outputs["classes"]
        torch.testing.assert_close(output.logits, made.logits[0], atol=2e-5, rtol=1e-5)
        assert output.names == tuple(NAMES["id2label"].values())
        assert trace.output == output.names[int(made.logits[0].argmax())]


@pytest.mark.parametrize("name", list(SHOWN))
def test_the_tokens_are_named_by_what_they_read(folders: dict[str, Path], name: str) -> None:
    scope = open_scope(folders[name])
    before, position = SHOWN[name]
    row = scope.run(example()).streams["patches"]
    assert isinstance(row, PatchRow)
    assert row.tokens == (*before, *(f"r{r}c{c}" for r in range(1, 5) for c in range(1, 5)))
    assert scope.model.position == position


@pytest.mark.parametrize("name", list(SHOWN))
def test_every_token_that_reads_no_patch_is_labelled_special(
    folders: dict[str, Path], name: str
) -> None:
    scope = open_scope(folders[name])
    row = scope.run(scope.examples[0]).streams["patches"]
    n_before = len(row.grid.before)
    shown = labels(row)
    assert tuple(label.text for label in shown[:n_before]) == row.grid.before
    assert [label.special for label in shown] == [i < n_before for i in range(len(row.ids))]


def test_its_summary_names_the_special_tokens(folders: dict[str, Path]) -> None:
    for name, tokens in (
        ("DeiTForImageClassification", "18 tokens; [CLS] 0, [distillation] 1"),
        ("SiglipForImageClassification", "16 tokens; no special tokens"),
    ):
        assert f"\ntokenizer\n  PatchTokenizer: {tokens}" in model_summary(
            open_scope(folders[name])
        )


@pytest.mark.parametrize("name", [VIT, "Dinov2WithRegistersForImageClassification", "SiglipForImageClassification"])  # fmt: skip
def test_the_named_patch_is_the_one_that_reads_these_pixels(
    folders: dict[str, Path], name: str
) -> None:
    """A different route than the gradient: other pixels within one patch change the first key of that patch alone."""
    scope = open_scope(folders[name])
    row = scope.run(example()).streams["patches"]
    for token, label in enumerate(row.tokens):
        if (place := row.grid.patch(token)) is None:
            continue
        other = row.pixels.clone()
        top, left = 5 * place[0], 5 * place[1]
        other[:, top + 1, left + 3] += 1
        keys = [
            next(iter(scope.run_batch([[each]])[0].attention.values())).k
            for each in (row, replace(row, pixels=other))
        ]
        changed = (keys[0] - keys[1]).abs().amax(-1).flatten(0, -2).amax(0) > 0
        assert changed.nonzero().flatten().tolist() == [token], label


@pytest.mark.parametrize("name", list(SHOWN))
def test_a_painted_cell_has_no_weight_and_the_library_gives_the_same_answer_without_it(
    folders: dict[str, Path], name: str
) -> None:
    scope = open_scope(folders[name])
    cells = tuple(cell for cell in CELLS if max(cell) < len(scope.model.grid.tokens))
    plain = scope.run(example())
    painted = scope.run(example(), edits=for_kinds(self=MaskChange(block=cells)))
    for site in painted.attention.values():
        weights = site.weights()
        assert all(weights[:, query, key].eq(0).all() for query, key in cells)
        assert (weights.sum(-1) - 1).abs().max() < 1e-5
    wanted = _masked_by_hand(folders[name], name, plain.streams["patches"].pixels, cells)
    torch.testing.assert_close(painted.outputs["classes"].logits, wanted, atol=2e-5, rtol=1e-4)
    assert (painted.outputs["classes"].logits - plain.outputs["classes"].logits).abs().max() > 1e-5


@torch.no_grad()
def _masked_by_hand(folder: Path, name: str, pixels: torch.Tensor, cells: Any) -> torch.Tensor:
    """Return the library's logits with these cells at −∞ in each softmax between all tokens."""

    class Blocked(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # fmt: skip
            if func in (F.softmax, torch.softmax) and args[0].shape[-1] == args[0].shape[-2] > 3:
                scores = args[0].clone()
                for query, key in cells:
                    scores[..., query, key] = -torch.inf
                args = (scores, *args[1:])
            return func(*args, **(kwargs or {}))

    module = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    with Blocked():
        return module(pixel_values=pixels[None]).logits[0]


def test_recording_does_not_change_a_bit_of_the_answer(folders: dict[str, Path]) -> None:
    scope = open_scope(folders[VIT])
    row = scope.run(example()).streams["patches"]
    with torch.no_grad():
        alone = scope.model.module(pixel_values=row.pixels[None]).logits[0]
        recorded = scope.run(example()).outputs["classes"].logits
    assert torch.equal(alone, recorded)


def test_the_layers_add_up_and_the_lens_ends_in_the_answer(folders: dict[str, Path]) -> None:
    for name in (VIT, "DeiTForImageClassification", "ViTMSNForImageClassification"):
        scope = open_scope(folders[name])
        assert len(scope.model.sublayers) == 4
        assert scope.model.read_outputs == ("classes",)
        trace = scope.run(example())
        last = scope.model.sublayers[-1]
        state = trace.activations[last.before].value + trace.activations[last.out].value
        logits = scope.model.readout(state[0, scope.model.position], "classes")
        torch.testing.assert_close(logits, trace.outputs["classes"].logits, atol=2e-5, rtol=1e-5)
    for name in ("IJepaForImageClassification", "SiglipForImageClassification", "CLIPVisionModel"):
        assert len(open_scope(folders[name]).model.sublayers) == 4
    pooled = open_scope(folders["BeitForImageClassification"])
    assert pooled.model.read_outputs == ()


ADDED = {VIT, "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher", "ViTMSNForImageClassification",
         "Dinov2ForImageClassification", "IJepaForImageClassification", "SiglipForImageClassification"}  # fmt: skip

# the others know the order from it; without its relative bias, Data2VecVision has nothing
NOT_ADDED = {"BeitForImageClassification": "scores", "Data2VecVisionForImageClassification": "mask"}


@pytest.mark.parametrize("name", list(SHOWN))
@torch.no_grad()
def test_position_vectors_are_those_that_the_library_adds(
    folders: dict[str, Path], name: str
) -> None:
    """A different route than the gradient: without them, the first vectors differ by exactly these numbers."""
    model = open_scope(folders[name]).model
    assert model.order_source == NOT_ADDED.get(name, "vectors")
    assert (model.positions is not None) == (name in ADDED or name.startswith("CLIP"))
    if name not in ADDED:
        return
    table, pixels = model.positions.table, model.repeated(torch.empty(0))[0]
    assert table.shape == (len(model.grid.tokens), 24)
    (parameter,) = (p for p in model.module.parameters() if p.data_ptr() == table.data_ptr())
    before = model.module(pixel_values=pixels, output_hidden_states=True).hidden_states[0]
    kept = parameter.clone()
    parameter.zero_()
    without = model.module(pixel_values=pixels, output_hidden_states=True).hidden_states[0]
    torch.testing.assert_close(before - without, kept.reshape(1, *table.shape), atol=1e-5, rtol=0)


def test_position_vectors_that_are_looked_up_are_shown(folders: dict[str, Path]) -> None:
    """CLIP normalises the sum before its first layer, so that the gradient does not reveal it."""
    scope = open_scope(folders["CLIPVisionModel"])
    learned = scope.model.module.get_parameter("embeddings.position_embedding.weight")
    assert torch.equal(scope.model.positions.table, learned)
    trace = scope.run(example())
    assert "its position vectors are shown" in list(capabilities(scope, trace))
    assert torch.equal(trace.activations["encoder.position"].value[0], learned)


def test_a_head_can_be_switched_off(folders: dict[str, Path]) -> None:
    scope = open_scope(folders[VIT])
    site = next(iter(scope.run(example()).attention))
    off = scope.run(example(), edits=[HeadOff(Where(site=site, heads=(1,)))])
    plain = scope.run(example())
    assert (off.outputs["classes"].logits - plain.outputs["classes"].logits).abs().max() > 1e-5


@pytest.mark.parametrize("name", ["ViTModel", "CLIPVisionModel"])
def test_a_model_without_classes_shows_its_attention(folders: dict[str, Path], name: str) -> None:
    scope = open_scope(folders[name])
    trace = scope.run(example())
    made = library(folders[name], name, models.images.decoded(example()))
    for site, wanted in zip(trace.attention.values(), made.attentions, strict=True):
        assert (site.weights() - wanted[0]).abs().max() < 2e-6


def test_two_images_with_one_name_are_never_mixed_up(folders: dict[str, Path]) -> None:
    scope = open_scope(folders[VIT])
    first, other = (example(name) for name in EXAMPLES[:2])
    same_name = ImageFile(str(first), other.content)
    rows = [scope.encode(file)["patches"] for file in (first, other, same_name)]
    assert rows[1].digest == rows[2].digest != rows[0].digest


def test_the_first_query_shown_is_the_middle_patch_or_the_answering_token() -> None:
    grid, blank = PatchGrid(2, 5, before=("[CLS]",)), torch.zeros(3, 4, 10)
    row = PatchRow.of("x", grid, blank, blank.movedim(0, -1), "digest")
    trace = SimpleNamespace(outputs={}, streams={"patches": row})
    site = SimpleNamespace(query_stream="patches", n_query=len(grid.tokens))
    assert row.tokens[shown_query(trace, site, "")] == "r2c3"
    assert shown_query(trace, site, "q1") == 1
    classes = ClassProbabilities("patches", 0, ("a", "b"), torch.zeros(2))
    trace.outputs["classes"] = classes
    assert shown_query(trace, site, "") == 0
    trace.outputs["classes"] = replace(classes, position=None)
    assert row.tokens[shown_query(trace, site, "q99")] == "r2c3"


def test_the_image_drawn_is_the_one_that_was_read(folders: dict[str, Path]) -> None:
    """The image restored from the model's pixels equals the file resized by Pillow alone."""
    scope = open_scope(folders[VIT])
    row = scope.run(example()).streams["patches"]
    small = models.images.decoded(example()).resize((20, 20), resample=2)
    wanted = torch.tensor(np.asarray(small)) / 255
    assert (row.seen - wanted).abs().max() < 1e-6


def test_a_patch_is_drawn_over_the_pixels_that_it_reads(tmp_path: Path) -> None:
    """23 × 23 pixels are 2 × 2 patches of 9; changing a pixel changes the key of its patch alone."""
    save(VIT, tmp_path, 23, image_size=23, patch_size=9)
    scope = open_scope(tmp_path)
    row = scope.run(example()).streams["patches"]
    small = models.images.decoded(example()).resize((23, 23), resample=2)
    cut = torch.tensor(np.asarray(small))[:18, :18] / 255
    assert row.seen.shape == cut.shape
    assert (row.seen - cut).abs().max() < 1e-6
    n = 2
    for top, left in ((0, 0), (8, 9), (9, 17), (17, 17), (18, 3), (3, 22)):
        other = row.pixels.clone()
        other[:, top, left] += 1
        keys = [
            next(iter(scope.run_batch([[each]])[0].attention.values())).k
            for each in (row, replace(row, pixels=other))
        ]
        changed = (keys[0] - keys[1]).abs().amax(-1).flatten(0, -2).amax(0).nonzero()
        height, width = (side / n for side in row.seen.shape[:2])
        place = (int(top // height), int(left // width))  # of the equal cells of the drawing
        wanted = [1 + place[0] * n + place[1]] if max(place) < n else []
        assert changed.flatten().tolist() == wanted


@pytest.mark.parametrize("value", ["circle and square", "/etc/passwd", [1, 2], None])
def test_only_an_image_file_is_read(folders: dict[str, Path], value: Any) -> None:
    with pytest.raises(InputError, match="image") as error:
        open_scope(folders[VIT]).run(value)
    assert error.value.field == "image"


def test_a_model_of_texts_does_not_read_the_name_of_an_image() -> None:
    with pytest.raises(InputError, match="must be a text"):
        models.load("dates", device="cpu").run(example())


REFUSED = {
    "SwinForImageClassification": "does not give a single number as its num_attention_heads|patches of one grid",
    "ResNetForImageClassification": "not the patches of one grid",
    "ImageGPTForImageClassification": "does not run on an image alone",
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_model_without_a_grid_of_patches_is_refused_with_the_reason(
    name: str, tmp_path: Path
) -> None:
    save(name, tmp_path, 32 if name.startswith("Swin") else 20)
    with pytest.raises(CheckpointError, match=REFUSED[name]) as error:
        open_scope(tmp_path)
    assert "object has no attribute" not in str(error.value)


def rewritten(folder: Path, **changes: Any) -> Path:
    path = folder / PREPROCESSOR
    settings = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps(settings), "utf-8")
    return folder


HOSTILE = {
    "a huge size": ({"size": {"height": 10**6, "width": 10**6}}, "largest allowed is 2,048"),
    "a huge edge": ({"size": {"shortest_edge": 50_000}}, "largest allowed is 2,048"),
    "another size": ({"size": {"height": 25, "width": 20}}, "does not run on an image alone"),
    "no fixed size": ({"do_resize": False}, "turns images into"),
    "no such class": ({"image_processor_type": "os.system"}, PREPROCESSOR),
    "a class that is none": ({"image_processor_type": "BertTokenizer"}, PREPROCESSOR),
    "numbers for means": ({"image_mean": [0.5] * 7}, PREPROCESSOR),
    "a zero deviation": ({"image_std": [0, 0, 0]}, "not finite|cannot be used"),
    "code of its own": ({"auto_map": {"AutoImageProcessor": "evil.Evil"}, "image_processor_type": "Evil"}, PREPROCESSOR),
}  # fmt: skip


@pytest.mark.parametrize("how", list(HOSTILE))
def test_a_hostile_preprocessor_is_refused(how: str, tmp_path: Path) -> None:
    changes, message = HOSTILE[how]
    save(VIT, tmp_path)
    with pytest.raises(CheckpointError, match=message):
        open_scope(rewritten(tmp_path, **changes))


def test_without_a_preprocessor_nothing_is_guessed(tmp_path: Path) -> None:
    save(VIT, tmp_path)
    (tmp_path / PREPROCESSOR).unlink()
    with pytest.raises(CheckpointError, match=f"{PREPROCESSOR} is missing"):
        open_scope(tmp_path)


def test_other_preprocessing_changes_the_fingerprint(tmp_path: Path) -> None:
    save(VIT, tmp_path)
    first = open_scope(tmp_path).fingerprint
    assert open_scope(tmp_path).fingerprint == first
    assert open_scope(rewritten(tmp_path, image_mean=[0.4, 0.5, 0.5])).fingerprint != first
