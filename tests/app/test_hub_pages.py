"""A Hugging Face folder in the app: every page opens with it, and says where a model's library hands out too little."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from app_parts import picture, prose, said
from hub_models import BY_NAME, own_module_of_readme
from streamlit.testing.v1 import AppTest

import viz_app
from models import Scope
from viz_app import checkpoints
from viz_app.navigation import VIEWS
from viz_app.session import cache

APP = Path(viz_app.__file__).with_name("app.py")


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


def test_a_module_of_ones_own_is_what_the_app_opens_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of README, started as `attnscope --module` starts them: no name is in the address, and Attention shows it."""
    file = tmp_path / "mine.py"
    file.write_text(own_module_of_readme(), "utf-8")
    monkeypatch.setenv(checkpoints.MODULE, f"{file}:make_scope")
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params["text"] = "hello"
    app.run()
    assert not app.exception
    assert app.selectbox(key="checkpoint").value == f"{file}:make_scope"
    assert app.selectbox(key="checkpoint").options[-1] == "mine.py:make_scope — own module"
    header, arrays = picture(app, "head")
    scope = cache.scope(f"{file}:make_scope")
    assert header["site"] in ("1.layers.0.self_attn", "1.layers.1.self_attn")
    assert [key for key, *_ in header["keys"]] == list("hello")
    weights = scope.run("hello").attention[header["site"]].weights(header["head"]).numpy()
    np.testing.assert_allclose(arrays["weights"].reshape(5, 5), weights, atol=1e-6)
    assert weights[0, 0] == 1                # it looks back only


def test_a_module_that_fails_is_said_beside_the_picker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def make_scope():\n    raise KeyError('<b>no weights</b>')\n", "utf-8")
    monkeypatch.setenv(checkpoints.MODULE, f"{file}:make_scope")
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not app.exception
    note = said(app, "note checkpoint")
    assert (note["look"], note["rows"]) == ("note bad", [["line", f"{file}:make_scope: KeyError: '<b>no weights</b>'"]])


def test_while_a_folder_opens_the_picker_says_so(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence stands as long as the model is being opened, and not afterwards."""
    sentences, standing = [], []

    @contextmanager
    def spinner(text: str) -> Iterator[None]:
        standing.append(text)
        yield
        standing.clear()

    def scope(name: str, own: Callable[[str], Scope] = cache.scope) -> Scope:
        sentences.extend(standing)
        return own(name)

    monkeypatch.setattr(st, "spinner", spinner)
    monkeypatch.setattr(cache, "scope", scope)
    folder = folders["GPT2LMHeadModel"]
    monkeypatch.setenv(checkpoints.MODELS, str(folder.parent))
    app = opened(Path(folder.parent.name, folder.name), "attention")
    assert not app.exception
    assert (sentences, standing) == (["Opening the model …"], [])
    app.run()
    assert sentences == ["Opening the model …"]         # nothing is opened again, and nothing moves
    assert said(app, "note checkpoint")["rows"][0][1].startswith("GPT2LMHeadModel (Hugging Face). What it answers")
