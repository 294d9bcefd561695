"""Types unknown to the app open on every page: an architecture, the role of an attention, a field, an output."""

from itertools import cycle
from pathlib import Path

import pytest
from app_parts import page_at, picker, picture, prose, said
from hub_models import own_module_of_readme
from perceiver import CLASS_NAMES, Perceiver, PerceiverConfig
from small import randomised
from streamlit.testing.v1 import AppTest

from models.architectures import ARCHITECTURES
from models.architectures.base import Field
from models.checkpoint import save_checkpoint
from models.opening import load
from models.tokenizers.base import Tokenizer
from viz_app import checkpoints
from viz_app.navigation import PAGES
from viz_app.session import url_state


def open_page(checkpoint: str, name: str, **asked: str) -> AppTest:
    return page_at(name, checkpoint=checkpoint, **asked)


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    ARCHITECTURES["perceiver"] = Perceiver, PerceiverConfig
    yield
    del ARCHITECTURES["perceiver"]


def saved(folder: Path, **sizes: object) -> Path:
    tokenizer = Tokenizer.characters("abcdefgh ")
    model = randomised(Perceiver(PerceiverConfig(tokenizer.vocab_size, **sizes)))
    save_checkpoint(folder, model, tokenizer, {"step": 0, "examples": ["a bad cab"]})
    return folder


@pytest.fixture(scope="module", params=["cross", "retrieval"])
def perceiver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """The role of the attention that reads the text, and the checkpoint's folder."""
    folder = tmp_path_factory.mktemp("perceiver") / request.param
    return request.param, saved(folder, role=request.param)


@pytest.fixture(scope="module")
def ranking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an output of a type that the app does not know."""
    return saved(tmp_path_factory.mktemp("perceiver") / "ranking", ranks=True)


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_opens_with_a_perceiver(perceiver: tuple[str, Path], name: str) -> None:
    _, folder = perceiver
    app = open_page(str(folder), name)
    assert picker(app)["value"] == str(folder)


def test_an_attention_of_a_new_kind_has_a_correct_title(perceiver: tuple[str, Path]) -> None:
    role, folder = perceiver
    kind = {"cross": "Encoder cross-attention", "retrieval": "Encoder retrieval attention"}[role]
    overview, _ = picture(open_page(str(folder), "attention"), "overview")
    titles = [group["title"] for group in overview["blocks"]]
    assert sorted(titles) == sorted([f"{kind}: latents → text", "Encoder self-attention"])


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(
    ("name", "field"),
    [*zip(PAGES, cycle(["sentence"])), *zip(PAGES, cycle(["checkpoint", "target"]))],
)
def test_every_page_opens_with_an_own_module_that_names_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, field: str
) -> None:
    """The name may be new, or that of another parameter or of another model's field."""
    file = tmp_path / "mine.py"
    file.write_text(own_module_of_readme().replace("encode=", f'fields=("{field}",), encode='))
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, f"{file}:make_scope")
    parameter = url_state.parameter_of(Field(field, "text")).name
    app = page_at(name, **{parameter: "hello"})
    box = app.text_area(key=parameter)
    assert box.value == "hello"
    assert field != "sentence" or box.label == "Sentence (type here)"
    box.set_value("hi").run()
    assert not app.exception
    assert "2 of" in said(app, f"note {parameter}")["rows"][0][1]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_opens_with_an_output_of_a_new_type(ranking: Path, name: str) -> None:
    app = open_page(str(ranking), name, text="a bad cab")
    if name == "task":
        answer = load(ranking).run("a bad cab").output
        assert answer in CLASS_NAMES
        rows = dict(said(app, "written")["rows"])
        assert (rows["label-out"], rows["output"]) == ("the model predicts", answer)
        assert "There is no picture of this kind of answer** (Ranking)" in prose(app)
