"""Vision models: every page and section opens on an image, and the picture over the image has the library's weights."""

import base64
import json
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import image_models
import numpy as np
import pytest
import torch
import transformers
from app_parts import (
    address_of,
    component,
    in_session,
    page_at,
    picker,
    picture,
    prose,
    said,
    with_key,
)
from image_models import save, save_with_text
from streamlit.testing.v1 import AppTest

import models
from models.analysis.comparison import compare
from models.images import EXAMPLES, ImageFile, decoded, example
from models.trace.edits import Patch, Where, to_text
from viz_app.navigation import PAGES
from viz_app.session import own_files, run_changes, url_state
from viz_app.views.interventions import patch
from viz_app.views.interventions import patch_text as say

KINDS = ("ViTForImageClassification", "BeitForImageClassification", "ViTModel")
VIT, BEIT, VECTORS = KINDS
CLIP = "CLIPModel"
IMAGE = "image-image"  # of the URL
FIRST = "vit.layers.0.attention"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("images")
    for name in KINDS:
        save(name, root / name)
    save_with_text(root / CLIP)
    return {name: root / name for name in (*KINDS, CLIP)}


def open_page(folder: Path, view: str, **address: str) -> AppTest:
    return page_at(view, checkpoint=str(folder), **address)


def sections() -> list[tuple[str, str, str]]:
    return [
        (view, page.section.name, name)
        for view, page in PAGES.items()
        if page.section is not None
        for name in page.views
    ]


@pytest.mark.parametrize("view", list(PAGES))
@pytest.mark.parametrize("name", [*KINDS, CLIP])
def test_every_page_opens(folders: dict[str, Path], name: str, view: str) -> None:
    app = open_page(folders[name], view)
    assert not app.exception
    assert picker(app)["value"] == str(folders[name])
    assert "the image is missing" not in prose(app)
    assert not any("image is missing" in text for text in notes(app))


@pytest.mark.parametrize("name", [VIT, CLIP])
@pytest.mark.parametrize(("view", "parameter", "section"), sections())
def test_every_section_opens(
    folders: dict[str, Path], name: str, view: str, parameter: str, section: str
) -> None:
    app = open_page(folders[name], view, **{parameter: section})
    assert not app.exception
    assert "the image is missing" not in prose(app)
    assert not any("image is missing" in text for text in notes(app))


def notes(app: AppTest) -> list[str]:
    """Return the notes under controls."""
    return [str(element.proto) for element in app.get("bidi_component")]


def test_both_towers_of_a_model_of_text_and_image_are_shown(folders: dict[str, Path]) -> None:
    app = open_page(
        folders[CLIP], "attention", site="vision_model.encoder.layers.0.self_attn", head="1"
    )
    header, arrays = picture(app, "image_map")
    module = transformers.CLIPModel.from_pretrained(folders[CLIP], attn_implementation="eager")
    processor = transformers.AutoImageProcessor.from_pretrained(folders[CLIP])
    pixels = processor(decoded(example()), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        made = module.eval().vision_model(pixel_values=pixels, output_attentions=True)
    layer = 1 if "layer 2" in header["title"] else 0
    wanted = made.attentions[layer][0, header["head"]]
    np.testing.assert_allclose(arrays["weights"], wanted, atol=2e-6)
    told = prose(open_page(folders[CLIP], "task"))
    assert "neither reads the other" in told


@pytest.mark.parametrize("view", ["interventions", "compare"])
def test_parts_that_need_a_text_say_that_there_is_none(folders: dict[str, Path], view: str) -> None:
    for section in PAGES[view].views:
        app = open_page(folders[VIT], view, **{f"{view}-section": section})
        assert ("**This model reads no text**" in prose(app)) is (section == "Many texts")


PATCH = {"interventions-section": "Patch"}
CELL = "vit.layers.0.resid_post", 7


def patched_by_hand(folder: Path, this: ImageFile, other: ImageFile) -> torch.Tensor:
    """Return the library's probabilities for the first image, with CELL taken from the second."""
    module = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    pixels = [processor(decoded(file), return_tensors="pt") for file in (this, other)]
    layer, i = module.vit.layers[0], CELL[1]
    with torch.no_grad():
        states = module(**pixels[1], output_hidden_states=True).hidden_states[1]

        def put_in(m: Any, given: Any, out: torch.Tensor) -> torch.Tensor:
            return torch.cat([out[:, :i], states[:, i : i + 1], out[:, i + 1 :]], dim=1)

        layer.register_forward_hook(put_in)
        return module(**pixels[0]).logits[0].softmax(-1)


def probabilities_of(app: AppTest) -> torch.Tensor:
    return app.session_state["live session"].shown.trace.outputs["classes"].logits.softmax(-1)


def test_a_cell_taken_from_a_second_image_is_restored_from_its_link(
    folders: dict[str, Path],
) -> None:
    this, other = example(EXAMPLES[0]), example(EXAMPLES[1])
    app = open_page(folders[VIT], "interventions", **PATCH)
    assert app.selectbox(key="patch-image").value == EXAMPLES[1]
    app.selectbox(key="patch-image").set_value(EXAMPLES[1]).run()
    with in_session(app):
        patch.toggle_part("needed", "cell", *CELL)
    app.run()
    assert not app.exception
    wanted = patched_by_hand(folders[VIT], this, other)
    torch.testing.assert_close(probabilities_of(app), wanted, atol=2e-6, rtol=0)
    assert not torch.allclose(wanted, library(folders[VIT], EXAMPLES[0])[0].logits[0].softmax(-1))
    again = page_at("interventions", **address_of(app))
    torch.testing.assert_close(probabilities_of(again), wanted, atol=2e-6, rtol=0)
    drawn = json.loads(component(again, "patch").json)["panels"][0]["grid"]
    assert drawn["taken"][drawn["names"].index(CELL[0])][CELL[1]]
    with in_session(again):
        patch.toggle_part("needed", "cell", *CELL)
    again.run()
    assert "edits" not in address_of(again)


def test_a_users_second_image_can_be_patched_from_and_a_link_reports_it_missing(
    folders: dict[str, Path],
) -> None:
    app = open_page(folders[VIT], "interventions", **PATCH)
    content = BytesIO()
    decoded(example(EXAMPLES[1])).rotate(90).save(content, "PNG")
    own = ImageFile("mine.png", content.getvalue())
    session = app.session_state["live session"]
    reference, _ = own_files.keep_file(session, own.content, "mine.png")
    app.run().selectbox(key="patch-image").set_value(reference).run()
    with in_session(app):
        patch.toggle_part("needed", "cell", *CELL)
    app.run()
    wanted = patched_by_hand(folders[VIT], example(EXAMPLES[0]), own)
    torch.testing.assert_close(probabilities_of(app), wanted, atol=2e-6, rtol=0)
    link = {name: value for name, value in address_of(app).items() if name != "checkpoint"}
    assert link["patch-image"] == [reference]
    assert reference in link["edits"][0]
    elsewhere = open_page(folders[VIT], "interventions", **link)
    plain = library(folders[VIT], EXAMPLES[0])[0].logits[0].softmax(-1)
    torch.testing.assert_close(probabilities_of(elsewhere), plain, atol=2e-6, rtol=0)
    assert elsewhere.selectbox(key="patch-image").value == EXAMPLES[1]
    told = prose(elsewhere)
    assert "patch-image: a link cannot hold an image file" in told
    assert "edits: a link cannot hold a file" in told


def test_a_patch_from_a_text_names_no_file(folders: dict[str, Path]) -> None:
    where = Where(activation="decoder.layers.0.resid_post", queries=(1,))
    edits = to_text((Patch(where, fields=("The dog.",)),))
    told = prose(open_page(folders[VIT], "interventions", **PATCH, edits=edits))
    assert "edits names a part that cannot be edited here" in told
    assert "cannot hold a file" not in told


def test_a_patch_holds_its_file_only_as_long_as_the_session_keeps_it(
    folders: dict[str, Path],
) -> None:
    app = open_page(folders[VIT], "interventions", **PATCH)
    session = app.session_state["live session"]
    own = []
    for angle in range(90, 90 + own_files.MAX_OWN_FILES + 1):
        content = BytesIO()
        decoded(example(EXAMPLES[1])).rotate(angle).save(content, "PNG")
        own.append(content.getvalue())
    reference, _ = own_files.keep_file(session, own[0], "mine.png")
    app.run().selectbox(key="patch-image").set_value(reference).run()
    with in_session(app):
        patch.toggle_part("needed", "cell", *CELL)
    app.run()
    patched = probabilities_of(app)
    for content in own[1:]:
        own_files.keep_file(session, content, "other.png")
    app.run()
    plain = library(folders[VIT], EXAMPLES[0])[0].logits[0].softmax(-1)
    torch.testing.assert_close(probabilities_of(app), plain, atol=2e-6, rtol=0)
    with in_session(app):
        (edit,) = url_state.get(run_changes.EDITS)
    assert edit.fields == (reference,)
    own_files.keep_file(session, own[0], "mine again.png")
    torch.testing.assert_close(probabilities_of(app.run()), patched, atol=2e-6, rtol=0)


def test_a_patch_from_a_file_is_left_out_of_a_model_that_reads_no_such_file(
    folders: dict[str, Path],
) -> None:
    """Families such as Whisper and BART share the names of their parts."""
    app = open_page(folders[VIT], "interventions", **PATCH)
    texts = models.load("eng-fra", device="cpu")
    where = Where(activation="encoder.layers.0.resid_post", queries=(1,))
    edits = tuple(
        Patch(where, fields=(value, None))
        for value in (example(EXAMPLES[0]), "The dog.", "circle and square")
    )
    with in_session(app):
        url_state.set_value(run_changes.EDITS, edits)
        left = run_changes.with_patched_files(run_changes.EDITS, texts)
        assert left == edits[1:]
        vit = app.session_state["live session"].scope
        assert run_changes.with_patched_files(run_changes.EDITS, vit) == (edits[0], edits[0])


def test_the_pinned_image_is_used_as_the_second(folders: dict[str, Path]) -> None:
    pin = {"pin.checkpoint": str(folders[VIT]), f"pin.{IMAGE}": EXAMPLES[1]}
    app = open_page(folders[VIT], "interventions", **PATCH, **pin, **{"patch-image": EXAMPLES[0]})
    assert say.same_inputs("image") in prose(app)
    button = with_key(app.button, "patch-pinned")
    assert button.label == "Take the pinned image"
    button.click().run()
    assert not app.exception
    assert app.selectbox(key="patch-image").value == EXAMPLES[1]


def test_the_grid_of_patches_has_the_cosines_of_the_librarys_positions(
    folders: dict[str, Path],
) -> None:
    app = open_page(folders[VIT], "positions", **{"positions-section": "Grid of patches"})
    module = transformers.ViTForImageClassification.from_pretrained(folders[VIT])
    vectors = module.vit.embeddings.position_embeddings.detach()[0, 1:]
    wanted = torch.nn.functional.normalize(vectors, dim=1) @ vectors[9] / vectors[9].norm()
    chart = json.loads(app.get("plotly_chart")[0].proto.spec)
    cells = np.array(values_of(chart["data"][0]["z"]), dtype=float)
    tile = cells[10:14, 5:9]  # of row 3, column 2, in tiles of 4 × 4 and a gap
    np.testing.assert_allclose(tile.flatten(), wanted, atol=1e-4)
    assert "[CLS] is left out" in prose(app)
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]


def values_of(numbers: Any) -> Any:
    """Decode an array, which Plotly writes as base64."""
    if not isinstance(numbers, dict):
        return numbers
    data = np.frombuffer(base64.b64decode(numbers["bdata"]), dtype=numbers["dtype"])
    return data.reshape([int(size) for size in numbers["shape"].split(",")])


@pytest.mark.parametrize(("name", "why"), [(BEIT, "No position vectors are known")])
def test_without_position_vectors_the_grid_says_so(
    folders: dict[str, Path], name: str, why: str
) -> None:
    app = open_page(folders[name], "positions", **{"positions-section": "Grid of patches"})
    assert why in prose(app)


def test_masks_speak_of_an_image(folders: dict[str, Path]) -> None:
    told = prose(open_page(folders[VIT], "masks"))
    assert "The image runs alone" in told
    assert "second text" not in told


def test_the_picture_over_the_image_has_the_librarys_weights(folders: dict[str, Path]) -> None:
    app = open_page(folders[VIT], "attention", site=FIRST, head="1", lock="q6")
    header, arrays = picture(app, "image_map")
    made, image = library(folders[VIT], EXAMPLES[0])
    wanted = made.attentions[0][0]
    assert (header["rows"], header["columns"], header["before"]) == (4, 4, 1)
    assert (header["query"], header["head"]) == (6, 1)
    np.testing.assert_allclose(arrays["weights"], wanted[1], atol=2e-6)
    np.testing.assert_allclose(arrays["heads"], wanted[:, 6], atol=2e-6)
    assert not arrays["blocked"].any()
    assert header["size"] == [20, 20]
    np.testing.assert_allclose(arrays["pixels"] / 255, np.asarray(image) / 255, atol=0.51 / 255)
    assert [label for label, *_ in header["tokens"]][:3] == ["[CLS]", "r1c1", "r1c2"]


@pytest.mark.parametrize("name", [VIT, BEIT])
def test_without_a_pinned_token_the_query_is_the_answering_one(
    folders: dict[str, Path], name: str
) -> None:
    header, _ = picture(open_page(folders[name], "attention"), "image_map")
    # BEiT's answer is read from all patches, so a patch in the middle is shown
    assert header["tokens"][header["query"]][0] == ("[CLS]" if name == VIT else "r3c3")


def library(folder: Path, name: str) -> tuple[Any, Any]:
    """Return the library's output for an example, and the image as resized by the library."""
    module = transformers.ViTForImageClassification.from_pretrained(
        folder, attn_implementation="eager"
    )
    image = decoded(example(name))
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)(image, return_tensors="pt")
    with torch.no_grad():
        return module.eval()(**pixels, output_attentions=True), image.resize((20, 20), resample=2)


def test_task_shows_the_librarys_classes(folders: dict[str, Path]) -> None:
    app = open_page(folders[VIT], "task")
    header, arrays = picture(app, "pair")
    p = library(folders[VIT], EXAMPLES[0])[0].logits[0].softmax(-1)
    np.testing.assert_allclose(arrays["p"], p, atol=2e-6)
    assert [row[1][0] for row in header["rows"]] == ["cat", "dog", "owl"]
    assert header["rows"][int(p.argmax())][2] == "most probable"
    assert "**The token that answers** is [CLS]" in prose(app)
    assert picture(app, "image_map")[0]["query"] == 0
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]
    assert "not known to be read from one token alone" in prose(open_page(folders[BEIT], "task"))


def test_labels_of_an_image_that_are_judged_one_by_one_are_drawn(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders[VIT], tmp_path / "judged"))
    config = json.loads((folder / "config.json").read_text())
    config["problem_type"] = "multi_label_classification"
    (folder / "config.json").write_text(json.dumps(config))
    app = open_page(folder, "task")
    header, arrays = picture(app, "pair")
    p = library(folder, EXAMPLES[0])[0].logits[0].sigmoid()
    np.testing.assert_allclose(arrays["p"], p, atol=2e-6)
    assert [mark for *_, mark in header["rows"]] == ["holds" * bool(one > 0.5) for one in p]
    assert picture(app, "image_map")[0]["query"] == 0
    assert "**Each label is judged on its own**" in prose(app)
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]


def test_another_image_is_another_run(folders: dict[str, Path]) -> None:
    app = open_page(folders[VIT], "task", **{IMAGE: EXAMPLES[1]})
    p = library(folders[VIT], EXAMPLES[1])[0].logits[0].softmax(-1)
    np.testing.assert_allclose(picture(app, "pair")[1]["p"], p, atol=2e-6)
    assert app.selectbox(key=IMAGE).value == EXAMPLES[1]


def test_a_users_image_is_read_and_a_link_to_it_opens_the_example(
    folders: dict[str, Path],
) -> None:
    app = open_page(folders[VIT], "task")
    session = app.session_state["live session"]
    content = BytesIO()
    decoded(example(EXAMPLES[1])).save(content, "WEBP", lossless=True)
    reference, size = own_files.keep_file(session, content.getvalue(), "<b>mine</b>.webp")
    assert size == "224 × 224 pixels"
    app.run().selectbox(key=IMAGE).set_value(reference).run()
    assert not app.exception
    p = library(folders[VIT], EXAMPLES[1])[0].logits[0].softmax(-1)
    np.testing.assert_allclose(picture(app, "pair")[1]["p"], p, atol=2e-6)
    assert "<b>mine" in app.selectbox(key=IMAGE).options[-1]
    elsewhere = open_page(folders[VIT], "task", **{IMAGE: reference})
    assert "a link cannot hold an image file" in prose(elsewhere)
    assert elsewhere.selectbox(key=IMAGE).value == EXAMPLES[0]
    np.testing.assert_allclose(
        picture(elsewhere, "pair")[1]["p"],
        library(folders[VIT], EXAMPLES[0])[0].logits[0].softmax(-1),
        atol=2e-6,
    )


@pytest.mark.parametrize("value", ["own-zzz", "/etc/passwd", "<script>", "own-" + "0" * 12, ""])
def test_a_link_with_an_invalid_image_opens_the_example(
    folders: dict[str, Path], value: str
) -> None:
    app = open_page(folders[VIT], "attention", **{IMAGE: value})
    assert app.selectbox(key=IMAGE).value == EXAMPLES[0]
    assert "could not be restored" in prose(app)


def test_a_pinned_image_stays_beside_another(folders: dict[str, Path]) -> None:
    app = open_page(
        folders[VIT],
        "attention",
        **{IMAGE: EXAMPLES[1], "pin.checkpoint": str(folders[VIT]), f"pin.{IMAGE}": EXAMPLES[0]},
    )
    rows = [picture(app, key)[1]["heads"] for key in ("image_map", "pin image_map")]
    assert np.abs(rows[0] - rows[1]).max() > 1e-4
    alone = picture(open_page(folders[VIT], "attention"), "image_map")[0]
    both = picture(app, "pin image_map")[0]
    assert alone["site"] == both["site"]


def test_a_pinned_image_has_no_text_to_keep_and_is_swapped_with_the_current_one(
    folders: dict[str, Path],
) -> None:
    beside = {"pin.checkpoint": str(folders[VIT])}
    app = open_page(folders[VIT], "attention", **{IMAGE: EXAMPLES[1]}, **beside)
    assert not [button for button in app.button if button.key in ("pin-keep", "pin-swap")]
    both = {IMAGE: EXAMPLES[1], f"pin.{IMAGE}": EXAMPLES[0], **beside}
    app = open_page(folders[VIT], "attention", **both)
    before = [picture(app, key)[1]["heads"] for key in ("image_map", "pin image_map")]
    with_key(app.button, "pin-swap").click().run()
    assert not app.exception
    after = [picture(app, key)[1]["heads"] for key in ("pin image_map", "image_map")]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other)


def test_other_patches_are_not_called_another_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, runs = example(EXAMPLES[0]), []
    for size in (5, 10):
        monkeypatch.setitem(image_models._SIZES, "patch_size", size)
        save(VIT, tmp_path / str(size))
        runs.append(models.load(tmp_path / str(size), device="cpu").run(image))
    with pytest.raises(ValueError, match="into different patches") as caught:
        compare(*runs)
    assert "vocabular" not in str(caught.value)


def test_other_special_tokens_are_not_called_other_patches(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    save("DeiTForImageClassificationWithTeacher", tmp_path)
    runs = [
        models.load(folder, device="cpu").run(example(EXAMPLES[0]))
        for folder in (folders[VIT], tmp_path)
    ]
    with pytest.raises(ValueError, match="have different special tokens") as caught:
        compare(*runs)
    assert "cut" not in str(caught.value)


def test_a_painted_mask_is_hatched_over_the_image(folders: dict[str, Path]) -> None:
    name = run_changes.mask_parameter("self").name
    app = open_page(folders[VIT], "attention", site=FIRST, head="1", lock="q3", **{name: "f3.1"})
    _, arrays = picture(app, "image_map")
    assert np.argwhere(arrays["blocked"]).tolist() == [[3, 1]]
    assert arrays["weights"][3, 1] == 0
    assert (arrays["headsBlocked"][:, 1] > 0).all()
    assert (arrays["heads"][:, 1] == 0).all()


@pytest.mark.parametrize(
    ("view", "section"),
    [
        ("interventions", {"interventions-section": "Heads"}),
        ("interventions", {"interventions-section": "Is attention explanation?"}),
        ("compare", {}),
        ("masks", {}),
        ("positions", {"positions-section": "Score by distance"}),
    ],
)
def test_an_image_is_called_neither_a_text_nor_a_sentence(
    folders: dict[str, Path], view: str, section: dict[str, str]
) -> None:
    notes_below = prose(open_page(folders[VIT], view, **section))
    of_texts = (
        "This is one sentence",
        "This is one text",
        "pairs of the text",
        "both texts",
        "a text",
    )
    for words in of_texts:
        assert words not in notes_below
