"""A pinned run in every section of the page Positions: drawn beside the current one, on one scale."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from app_parts import page_at, prose
from hub_models import BY_NAME
from small import Reversal, random_model
from streamlit.testing.v1 import AppTest

from models.checkpoint import save_checkpoint
from viz_app.drawing.payload import unpack
from viz_app.views.positions import page as positions
from viz_app.views.positions import text as say

OWN = {"positions-table": say.TABLE_NAMES[say.OWN_TABLE]}
# section → its parameters, whether a scale in it depends on the numbers, and the names of its columns
POSITIONS = {
    "Shuffle test": ({}, False, []), "Curves": (OWN, True, ["Curves", "Wavelengths"]),
    "Map": (OWN, True, ["Table", "Similarity", "By distance"]),
    "Added or concatenated": ({}, True, ["Vectors", "Products"]), "Score by distance": ({}, True, []),
}  # fmt: skip
ROTATED = ["Angles", "Wavelengths"]


def opened(name: str, **asked: str) -> AppTest:
    app = page_at(name, **asked)
    assert not app.exception, app.exception
    return app


def pictures(app: AppTest) -> dict[str, Any]:
    """Return every picture by its key: the header of a component's payload or the specification of a chart. Altair charts have no key
    on the page, so they are counted, those of the current run first."""
    found = {}
    for element in app.get("bidi_component"):
        if element.proto.bytes:
            found[key_of(element.proto.id)] = unpack(element.proto.bytes)[0]
    for element in app.get("plotly_chart"):
        found[key_of(element.proto.id)] = json.loads(element.proto.spec)
    specs = [json.loads(element.proto.spec) for element in app.get("vega_lite_chart")]
    is_pinned = any(text.value.startswith("Pinned run") for text in app.text)
    n = (
        (len(specs) + 1) // 2 if is_pinned else len(specs)
    )  # the last may belong to the current run alone
    for i, spec in enumerate(specs):
        found[f"chart {i}" if i < n else f"pin chart {i - n}"] = spec
    return found


def key_of(identity: str) -> str:
    """Return the key at the end of an element's id, after its kind and a hash without hyphens."""
    return identity.split("-", 2)[2]


def pairs(app: AppTest) -> dict[str, tuple[Any, Any]]:
    """Return the pictures of both runs, by their key."""
    found = pictures(app)
    return {key: (found[key], found[f"pin {key}"]) for key in found if f"pin {key}" in found}


def pairs_of_columns(
    names: list[str], open_page: Callable[..., AppTest]
) -> dict[str, tuple[Any, Any]]:
    """Return the pictures of both runs in every column; of named columns one is on the page at a time."""
    found: dict[str, tuple[Any, Any]] = {}
    for i in range(max(1, len(names))):
        app = open_page(**{"beside-pin": str(i)} if i else {})
        assert "✗" not in prose(app)
        choices = [list(group.options) for group in app.get("button_group")]
        assert choices.count(names) == bool(names)
        n = sum(key.startswith("chart") for key in found)  # charts are counted per page
        new = {
            f"chart {n + int(key[6:])}" if key.startswith("chart") else key: both
            for key, both in pairs(app).items()
        }
        assert not found.keys() & new.keys()
        found |= new
    return found


def scales(picture: Any) -> list[Any]:
    """Return all ends of scales that a picture states, in order."""
    return list(_ends(picture))


def _ends(part: Any) -> Iterator[Any]:
    if isinstance(part, list):
        for one in part:
            yield from _ends(one)
    elif isinstance(part, dict):
        yield from (part[name] for name in ("zmin", "zmax", "least", "largest") if name in part)
        for name, inner in part.items():
            if name in ("domain", "range") and inner and isinstance(inner[0], int | float):
                yield inner
            elif name not in ("datasets", "arrays", "z", "xaxis", "x"):
                yield from _ends(inner)


def same_scales(alone: list[AppTest], found: dict[str, tuple[Any, Any]], follows: bool) -> None:
    """Assert that each picture of both runs is on one scale, and, if scales follow from numbers, that one differed when alone."""
    assert found
    for key, (current, pinned) in found.items():
        assert scales(current) == scales(pinned), key
    first, second = map(pictures, alone)
    moved = [key for key in found if scales(first[key]) != scales(second[key])]
    assert bool(moved) == follows


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small models with random weights: one for each kind of positions, and two with rotary ones."""
    root = tmp_path_factory.mktemp("pinned")
    for kind in ("learned", "none"):
        model = random_model(vocab_size=9, n_encoder_layers=2, positions=kind)
        save_checkpoint(root / kind, model, Reversal().tokenizer, {"step": 0, "task": "reversal"})
    with torch.no_grad():
        larger = random_model(vocab_size=9, n_encoder_layers=2, positions="learned")
        larger.positions.table.mul_(3)
    save_checkpoint(root / "larger", larger, Reversal().tokenizer, {"step": 0, "task": "reversal"})
    for name in ("LlamaForCausalLM", "GPTNeoXForCausalLM"):
        case = BY_NAME[name]
        wide = {"hidden_size": 32, "num_attention_heads": 2} if "NeoX" in name else {}
        replace(case, sizes=case.sizes | wide).save(root / name)
    return {folder.name: folder for folder in root.iterdir()}


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("section", POSITIONS)
def test_positions_of_both_runs_are_on_one_scale(folders: dict[str, Path], section: str) -> None:
    more, follows, columns = POSITIONS[section]
    asked = {"positions-section": section, **more}
    runs = [
        {"checkpoint": str(folders["learned"]), "source": "abcde"},
        {"checkpoint": str(folders["larger"]), "source": "cba"},
    ]
    pinned = {f"pin.{name}": value for name, value in runs[1].items()}
    alone = [opened("positions", **asked, **run) for run in runs]
    both = pairs_of_columns(columns, partial(opened, "positions", **asked, **runs[0], **pinned))
    assert pictures(alone[0]).keys() == both.keys()
    same_scales(alone, both, follows)


@pytest.mark.slow
def test_rotations_of_both_runs_are_on_one_scale(folders: dict[str, Path]) -> None:
    asked = {"positions-section": "Rotation", "text": "7 11 5"}
    runs = [str(folders[name]) for name in ("LlamaForCausalLM", "GPTNeoXForCausalLM")]
    link = {"checkpoint": runs[0], "pin.checkpoint": runs[1]}
    both = pairs_of_columns(ROTATED, partial(opened, "positions", **asked, **link))
    assert set(both) == {"positions-rotation", "chart 0"}
    for current, pinned in both.values():
        assert scales(current)
        assert scales(current) == scales(pinned)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("section", positions.POSITIONS_SECTIONS)
def test_positions_are_shown_beside_a_model_without_any(
    folders: dict[str, Path], section: str
) -> None:
    asked = {"checkpoint": str(folders["learned"]), "source": "abcde", **OWN}
    app = opened(
        "positions",
        **asked,
        **{"positions-section": section, "pin.checkpoint": str(folders["none"])},
    )
    assert "✗" not in prose(app)
    names = [text.value for text in app.text]
    assert ("Pinned run: none" in names) == (section != "Two misprints")


def test_the_misprints_are_drawn_once_because_they_are_those_of_every_run(
    folders: dict[str, Path],
) -> None:
    asked = {"positions-section": "Two misprints", "source": "abcde"}
    first, second = (
        pictures(opened("positions", checkpoint=str(folders[name]), **asked))
        for name in ("learned", "none")
    )
    assert first == second
