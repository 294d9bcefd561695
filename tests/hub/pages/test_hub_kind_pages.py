"""Hugging Face models that label tokens, compare texts or have a decoder that reads the text again: every page opens, and the page
Task shows the library's numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from app_parts import page_at, picker, picture, said
from hub_kinds import BY_NAME, HOW, TEXT, save, texts
from streamlit.testing.v1 import AppTest

from viz_app.navigation import PAGES
from viz_app.session import cache, url_state
from viz_app.views.compare.text import VECTORS_APART
from viz_app.views.masks import outcome_text

VECTORS = ("T5EncoderModel", "BartModel")  # without a picture on the page Task


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("kinds")
    for name in BY_NAME:
        save(name, root / name)
    return {name: root / name for name in BY_NAME}


def open_page(folder: Path, view: str, *given: str) -> AppTest:
    fields = cache.scope(str(folder)).model.text_fields if given else ()
    names = (url_state.parameter_of(field).name for field in fields)
    return page_at(view, checkpoint=str(folder), **dict(zip(names, given, strict=False)))


@pytest.mark.parametrize("view", list(PAGES))
@pytest.mark.parametrize("name", list(BY_NAME))
def test_every_page_opens(folders: dict[str, Path], name: str, view: str) -> None:
    app = open_page(folders[name], view)
    assert not app.exception
    assert picker(app)["value"] == str(folders[name])
    if view == "task" and name not in VECTORS:
        assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]


def test_task_shows_the_class_of_each_token(folders: dict[str, Path]) -> None:
    folder = folders["BertForTokenClassification"]
    header, arrays = picture(open_page(folder, "task", TEXT), "answers")
    module = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    row = transformers.AutoTokenizer.from_pretrained(folder)(TEXT, **HOW)
    with torch.no_grad():
        p = module(**row).logits[0].softmax(-1)
    assert header["classes"] == [module.config.id2label[int(i)] for i in p.argmax(-1)]
    np.testing.assert_allclose(arrays["probability"], p.amax(-1), atol=2e-6)
    best = p[header["position"]].sort(descending=True)
    np.testing.assert_allclose(arrays["p"], best.values, atol=2e-6)
    assert [one[1][0] for one in header["answer"]["rows"]] == [
        module.config.id2label[int(i)] for i in best.indices
    ]
    assert [label for label, *_ in header["places"]][1:4] == ["the", "little", "dog"]


def test_a_chosen_token_shows_its_own_classes(folders: dict[str, Path]) -> None:
    folder = folders["BertForTokenClassification"]
    app = page_at("task", checkpoint=str(folder), text=TEXT, task_position="3")
    header, arrays = picture(app, "answers")
    assert (header["position"], header["answer"]["title"]) == (3, "The class of “dog”")
    assert arrays["p"][0] == arrays["probability"][3]


def test_task_shows_how_probable_each_choice_is(folders: dict[str, Path]) -> None:
    folder, given = folders["BertForMultipleChoice"], texts("BertForMultipleChoice")
    header, arrays = picture(open_page(folder, "task", *given), "pair")
    module = transformers.AutoModelForMultipleChoice.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = tokenizer([given[0]] * 3, list(given[1:]), padding=True, **HOW)
    with torch.no_grad():
        p = module(**{key: t[None] for key, t in rows.items()}).logits[0].softmax(-1)
    np.testing.assert_allclose(arrays["p"], p, atol=2e-6)
    assert [one[1][0] for one in header["rows"]] == list(given[1:])
    assert header["rows"][int(p.argmax())][2] == "most probable"


def test_a_choice_can_be_left_out(folders: dict[str, Path]) -> None:
    app = open_page(folders["BertForMultipleChoice"], "task")
    assert not app.exception
    boxes = {box.label: box.value for box in app.text_area}
    assert (boxes["Choice 3"], boxes["Choice 4"]) == ("", "")


def test_vectors_shown_by_size_only_are_not_called_the_same(
    folders: dict[str, Path],
) -> None:
    folder = folders["T5EncoderModel"]
    app = page_at("masks", checkpoint=str(folder), text=TEXT, self_mask="f0-2.0-2")
    changed, *story = picture(app, "mask_painter")[0]["story"]
    assert changed.startswith("Changed.")
    assert story == [outcome_text.ONLY_SIZE_SHOWN]
    pinned = {"pin.checkpoint": str(folder), "pin.text": TEXT.replace("dog", "sea")}
    app = page_at("compare", checkpoint=str(folder), text=TEXT, **pinned)
    assert picture(app, "difference")[0]["verdict"] == VECTORS_APART
