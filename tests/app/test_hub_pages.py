"""A Hugging Face folder in the app: every page opens with it, and says where a model's library hands out too little."""

from pathlib import Path

import pytest
from app_parts import prose
from hub_models import BY_NAME
from streamlit.testing.v1 import AppTest

from viz_app.navigation import VIEWS


def page(name: str) -> None:
    from viz_app.navigation import VIEWS, _page

    _page(VIEWS[name][1])


def opened(folder: Path, name: str) -> AppTest:
    app = AppTest.from_function(page, args=(name,), default_timeout=60)
    app.query_params["checkpoint"] = str(folder)
    return app.run()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name in ("GPT2LMHeadModel", "LlamaForCausalLM", "DebertaV2ForMaskedLM"):
        found[name] = tmp_path_factory.mktemp("hub") / name
        BY_NAME[name].save(found[name])
    return found


@pytest.mark.parametrize("name", list(VIEWS))
def test_every_page_opens_with_a_gpt2(folders: dict[str, Path], name: str) -> None:
    app = opened(folders["GPT2LMHeadModel"], name)
    assert not app.exception
    assert app.selectbox(key="checkpoint").value == str(folders["GPT2LMHeadModel"])


def test_a_head_whose_queries_are_turned_says_so(folders: dict[str, Path]) -> None:
    app = opened(folders["LlamaForCausalLM"], "inside")
    assert not app.exception
    assert "No walk from the tokens here" in prose(app)


@pytest.mark.parametrize(("name", "sentence"), [
    ("attention", ""), ("inside", "hands out finished weights"), ("masks", "cannot be painted"),
])  # fmt: skip
def test_finished_weights_are_shown_and_the_rest_is_said(folders: dict[str, Path], name: str, sentence: str) -> None:
    app = opened(folders["DebertaV2ForMaskedLM"], name)
    assert not app.exception
    assert sentence in prose(app)


def test_a_folder_that_is_cut_off_is_said_beside_the_picker(folders: dict[str, Path], tmp_path: Path) -> None:
    damaged = tmp_path / "cut"
    damaged.mkdir()
    for file in folders["GPT2LMHeadModel"].iterdir():
        (damaged / file.name).write_bytes(file.read_bytes()[: 999 if file.suffix == ".safetensors" else None])
    app = opened(damaged, "attention")
    assert not app.exception
    assert "was cut off" in prose(app)
