"""The page Compare in the app: every offer gives a comparison with one click, and the address holds it."""

import re
import shutil
from pathlib import Path

import pytest
from app_parts import page_at, picture, said
from streamlit.testing.v1 import AppTest

from models.opening import shipped_folder
from viz_app import checkpoints
from viz_app.input_bar import menu

SITE = "decoder.layers.2.cross_attn"
OFFERS = {
    "eng-fra": {"compare-mask", "compare-off", "compare-similarity", "compare-positions", "compare-text"},
    "dates": {"compare-step", "compare-mask", "compare-off", "compare-similarity", "compare-positions", "compare-text"},
    "gpt": {"compare-mask", "compare-off", "compare-text", "compare-model-bert"},
    "bert": {"compare-mask", "compare-off", "compare-text", "compare-model-gpt"},
    "xlnet": {"compare-text", "compare-model-gpt"},
    "eng-fra-bahdanau": {"compare-text", "compare-model-eng-fra"},
    "gpt-sentiment": {"compare-text"},
    "bert-where": {"compare-text"},
}  # fmt: skip


def offers(app: AppTest) -> list[str]:
    return [button.key for button in app.button if (button.key or "").startswith("compare-")]


@pytest.mark.parametrize("name", OFFERS)
def test_every_offer_is_a_comparison_with_one_click(name: str) -> None:
    keys = offers(page_at("compare", checkpoint=name))
    assert set(keys) >= OFFERS[name]
    for key in keys:
        app = page_at("compare", checkpoint=name)
        app.button(key=key).click().run()
        assert not app.exception
        assert offers(app) == []
        assert any(text.value.startswith("Pinned run: ") for text in app.text)
        grid = said(app, "distances")
        assert grid["why"] == "", (key, grid["why"])
        header, _ = picture(app, "difference")
        differs = any(
            value > 1e-6 for kind in grid["kinds"] for row in kind["values"] for value in row
        )
        # a head that is off changes what comes after it; nothing comes after the last layer
        assert differs == (key != "compare-text") or key == "compare-off"
        assert header["answers"][1]["whose"] == "Pinned run"


def test_models_are_offered_by_their_attention_whatever_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpt, rnn = (shipped_folder() / name for name in ("gpt", "dates-rnn"))
    for name, of in {"my-rnn": gpt, "b": rnn}.items():
        (folder := tmp_path / name).mkdir()
        for file in ("config.json", "training.json"):
            shutil.copy(of / file, folder)
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(tmp_path))
    of_gpt = offers(page_at("compare", checkpoint="gpt"))
    assert f"compare-model-{tmp_path.name}/my-rnn" in of_gpt
    attends = {entry.name: entry.attends for entry in menu.menu_entries()}
    assert not attends[f"{tmp_path.name}/b"]
    assert attends[f"{tmp_path.name}/my-rnn"]


def test_a_changed_run_is_compared_with_the_model_unchanged() -> None:
    app = page_at("compare", checkpoint="eng-fra", similarity="cosine")
    app.button(key="compare-unchanged").click().run()
    assert not app.exception
    assert [text.value for text in app.text] == ["Pinned run: eng-fra"]
    assert any(v for kind in said(app, "distances")["kinds"] for row in kind["values"] for v in row)


def test_the_pinned_run_follows_the_text_unless_the_text_is_what_differs() -> None:
    app = page_at("compare", checkpoint="gpt", text="The cat sat.")
    app.button(key="compare-off").click().run()
    app.text_area(key="text").input("The dog ran.").run()
    assert "token by token" in picture(app, "difference")[0]["how"]
    app = page_at("compare", checkpoint="gpt", text="The cat sat.")
    app.button(key="compare-text").click().run()
    app.text_area(key="text").input("The dog ran.").run()
    header, _ = picture(app, "difference")
    assert "by position" in header["how"]
    assert "·dog | ·cat" in [label[0] for label in header["keys"]]
    app.text_area(key="text").input("One.").run()
    note = said(app, "distances")
    assert re.match(r"The two texts have \d+ and \d+ tokens", note["why"])
    assert not note["isError"]
    app.button(key="pin-follow").click().run()
    assert said(app, "distances")["why"] == ""


def test_one_head_of_the_pinned_run_is_chosen_from_a_list() -> None:
    app = page_at("compare", checkpoint="eng-fra", **{"pin.checkpoint": "eng-fra"})
    app.selectbox(key="compare-head").select(f"{SITE}:3").run()
    assert not app.exception
    (kind,) = said(app, "distances")["kinds"]
    assert kind["values"][2][3] == 0
    assert (
        app.query_params["compare-head"] == [f"{SITE}:3"]
        or app.query_params["compare-head"] == f"{SITE}:3"
    )


@pytest.mark.parametrize(
    "query",
    [
        {"compare-head": "nosuch:3"}, {"compare-head": "a b"}, {"compare-head": ":"}, {"compare-head": f"{SITE}:99999"},
        {"site": "nosuch", "head": "7"}, {"site": SITE, "head": "99"}, {"pin.checkpoint": "nosuch"}, {"pin.checkpoint": "eng-fra-rnn"},
        {"pin.checkpoint": "gpt", "pin.text": "x" * 5000}, {"pin.checkpoint": "eng-fra", "pin.edits": "rubbish"},
        {"pin.checkpoint": "eng-fra", "pin.source": "Two dogs."}, {"source": ""}, {"source": "?"}, {"source": "\u200f\u05d0"},
        {"pin.checkpoint": "dates", "pin.growth": "true", "pin.growth-step": "77"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["eng-fra", "bert"])
def test_odd_addresses_open(name: str, query: dict[str, str]) -> None:
    app = page_at("compare", checkpoint=name, **query)
    assert not app.exception


def test_a_model_without_attention_says_so_and_offers_others() -> None:
    app = page_at("compare", checkpoint="dates-rnn")
    assert not app.exception
    assert any("no attention" in text.value for text in app.markdown)


@pytest.mark.parametrize("beside", [{}, {"pin.checkpoint": "dates-bahdanau"}])
def test_heads_are_compared_over_many_texts(
    monkeypatch: pytest.MonkeyPatch, beside: dict[str, str]
) -> None:
    monkeypatch.setattr("viz_app.controls.matching.ADVISED", 9)
    monkeypatch.setattr("viz_app.controls.slices.SLICE_SECONDS", 100.0)
    query = {"checkpoint": "dates", "compare-section": "Many texts", "compare-kind": "cross"}
    app = page_at("compare", **query, **beside)
    assert not app.exception
    assert not app.dataframe
    app.button(key="compare-matching-start").click().run()
    assert not app.exception
    table = app.dataframe[0].value
    assert len(table) == (1 if beside else 8)
    assert any("Over 9 held-out texts" in caption.value for caption in app.caption)


def test_models_without_common_texts_get_a_note_at_the_button() -> None:
    query = {"checkpoint": "dates", "compare-section": "Many texts", "pin.checkpoint": "gpt-char"}
    app = page_at("compare", **query)
    app.button(key="compare-matching-start").click().run()
    assert not app.exception
    assert app.error or app.button(key="compare-matching-stop")
