"""The app through its entry file, as a user sees it: the content of the page and the data of its pictures."""

import ast
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from app_parts import app_at, assert_all_passed, pick_model, picker, picture, said
from streamlit import config
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import TextArea
from toml_files import tomllib

import models
import viz_app
from models.opening import shipped_folder
from models.printable import show_directions

APP = Path(viz_app.__file__).with_name("app.py")
DATE, OTHER = "24/07/69", "le dimanche 1er mai 1994"


def open_app(**params: str) -> AppTest:
    """Open a fresh session on the page Attention with a view in its URL; the model is dates unless the URL names another."""
    return app_at(**{"checkpoint": "dates", "source": DATE, **params})


@pytest.fixture(scope="module")
def dates() -> models.Scope:
    return models.load("dates", device="cpu")


def shown_head(app: AppTest) -> tuple[dict, np.ndarray]:
    header, arrays = picture(app, "head")
    return header, arrays["weights"]


def field(app: AppTest, key: str) -> TextArea:
    return app.text_area(key=key)


def html(app: AppTest) -> list[str]:
    """Return the app's own markup, without its style sheet."""
    return [
        element.proto.body
        for element in app.get("html")
        if not element.proto.body.startswith("<style>")
    ]


# --- landing


def test_a_newcomer_lands_on_a_translated_sentence() -> None:
    app = app_at()
    assert picker(app)["value"] == "eng-fra"
    assert field(app, "source").value == "She is reading a book."
    header, _ = shown_head(app)
    assert "what each French token attends to in the English sentence" in header["title"]
    rows = dict(said(app, "written")["rows"])
    assert (
        rows["output"] == models.load("eng-fra", device="cpu").run("She is reading a book.").output
    )


def test_the_head_on_the_page_is_the_one_that_models_computes(dates: models.Scope) -> None:
    app = open_app(site="decoder.layers.1.cross_attn", head="3")
    header, weights = shown_head(app)
    site = dates.run(DATE).attention["decoder.layers.1.cross_attn"]
    assert (header["site"], header["head"]) == ("decoder.layers.1.cross_attn", 3)
    np.testing.assert_allclose(weights, site.weights(3).numpy(), atol=1e-6)


def test_typing_shows_new_attention_and_new_text(dates: models.Scope) -> None:
    app = open_app()
    field(app, "source").set_value(OTHER).run()
    expected = dates.run(OTHER)
    header, weights = shown_head(app)
    np.testing.assert_allclose(
        weights, expected.attention[header["site"]].weights(header["head"]).numpy(), atol=1e-6
    )
    assert dict(said(app, "written")["rows"])["output"] == expected.output


def test_a_given_target_is_read_instead_of_the_models_own(dates: models.Scope) -> None:
    app = open_app()
    field(app, "target").set_value("1970-").run()
    header, weights = shown_head(app)
    expected = dates.run(DATE, "1970-").attention[header["site"]].weights(header["head"])
    np.testing.assert_allclose(weights, expected.numpy(), atol=1e-6)
    app.button(key="free").click().run()
    assert field(app, "target").value == ""
    assert len(shown_head(app)[1]) == 11


def test_the_models_text_can_be_copied_for_editing(dates: models.Scope) -> None:
    app = open_app()
    app.button(key="edit").click().run()
    assert field(app, "target").value == dates.run(DATE).output


def test_an_example_fills_the_box() -> None:
    app = open_app()
    options = app.selectbox(key="example").options
    app.selectbox(key="example").set_value(options[1]).run()
    assert field(app, "source").value == options[1]


def test_another_task_starts_with_its_own_example_and_typed_text_returns_with_its_task() -> None:
    app = open_app(target="1969-07")
    pick_model(app, "eng-fra")
    assert not app.exception
    assert [field(app, key).value for key in ("source", "target")] == ["She is reading a book.", ""]
    field(app, "source").set_value("We like him.").run()
    pick_model(app, "dates-rnn")
    assert [field(app, key).value for key in ("source", "target")] == [DATE, "1969-07"]
    pick_model(app, "gpt-char")  # its text is a separate field
    pick_model(app, "eng-fra-rnn")
    assert [field(app, key).value for key in ("source", "target")] == ["We like him.", ""]
    pick_model(app, "dates")
    assert [field(app, key).value for key in ("source", "target")] == [DATE, "1969-07"]


def test_typed_text_stays_with_another_model_of_the_same_task() -> None:
    app = open_app()
    pick_model(app, "dates-stacked-residual")
    assert field(app, "source").value == DATE


def test_the_checks_are_under_the_picture() -> None:
    assert_all_passed(open_app(), 3)


# --- the view in the URL


def test_the_url_names_the_view() -> None:
    app = open_app(site="encoder.layers.0.self_attn", head="2", lock="q4")
    header, _ = shown_head(app)
    assert (header["site"], header["head"], header["lock"]) == (
        "encoder.layers.0.self_attn",
        2,
        "q4",
    )
    assert {name: app.query_params[name] for name in ("site", "head", "lock")} == {
        "site": "encoder.layers.0.self_attn", "head": "2", "lock": "q4",
    }  # fmt: skip


@pytest.mark.parametrize(
    "params",
    [
        {"site": "no.such.site"}, {"site": "decoder.layers.0.cross_attn", "head": "99"}, {"head": "x"}, {"head": "-1"},
        {"lock": "q999"}, {"lock": "<script>"}, {"site": "encoder.layers.0.self_attn", "lock": "k99999"}, {"head": "9" * 400},
    ],
)  # fmt: skip
def test_a_url_with_missing_values_shows_the_nearest(params: dict[str, str]) -> None:
    header, weights = shown_head(open_app(**params))
    assert header["lock"] == ""
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


# --- bad input


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("x" * 20_000, "20,000 characters"),
        ("1 " * 40, "at most 64"),
    ],
)
def test_a_source_that_cannot_be_run_is_named_and_the_picture_stays(
    text: str, complaint: str
) -> None:
    app = open_app()
    before, weights = shown_head(app)
    field(app, "source").set_value(text).run()
    assert not app.exception
    note = said(app, "note source")
    assert note["look"] == "note bad"
    assert complaint in note["rows"][0][1]
    after, still = shown_head(app)
    assert after == before
    assert np.array_equal(still, weights)
    assert dict(said(app, "written")["rows"])["stale"] != ""
    field(app, "source").set_value(DATE).run()
    assert said(app, "note source")["look"] == "note"
    assert dict(said(app, "written")["rows"])["stale"] == ""


def test_a_target_too_long_is_named_at_the_target() -> None:
    app = open_app()
    field(app, "target").set_value("1" * 300).run()
    assert said(app, "note target")["look"] == "note bad"
    assert said(app, "note source")["look"] == "note"


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "</style>", "😀", "漢字", "مرحبا", "‮x", "a\x00b", "`**_$x$"],
)
def test_any_text_is_only_text(text: str) -> None:
    app = open_app(source=text)
    assert dict(said(app, "written")["rows"])["source"] == show_directions(text)
    assert not any(text in body for body in html(app))
    assert not any(text in markdown.value for markdown in app.markdown)


def test_a_checkpoint_that_no_longer_opens_is_named_and_the_picture_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = open_app()
    before, weights = shown_head(app)

    def gone(name: str) -> models.Scope:
        raise models.CheckpointError(f"{name}: no such folder")

    monkeypatch.setattr("viz_app.session.cache.scope", gone)
    monkeypatch.setattr("viz_app.session.cache.trace", gone)
    app.run()
    assert not app.exception
    assert said(app, "note checkpoint")["rows"][0][1] == "dates: no such folder"
    after, still = shown_head(app)
    assert after == before
    assert np.array_equal(still, weights)
    assert field(app, "source").value == DATE


def test_the_colour_scale_is_in_the_url() -> None:
    for params, asked in (
        ({}, ("weight", False)), ({"strength": "row"}, ("row", False)),
        ({"strength": "root", "hide-sinks": "true"}, ("root", True)), ({"strength": "nonsense"}, ("weight", False)),
    ):  # fmt: skip
        header, _ = shown_head(open_app(**params))
        assert (header["scale"], header["hides"]) == asked
        assert header["sinkNames"] == ["[end]"]


def test_a_missing_checkpoint_in_the_url_is_named_and_the_default_model_is_shown() -> None:
    app = open_app(checkpoint="/no/such/folder")
    assert "/no/such/folder" in said(app, "note address")["rows"][0][1]
    assert picker(app)["value"] == "eng-fra"
    assert shown_head(app)[0]["title"]


def test_a_broken_checkpoint_in_the_url_says_so_without_a_picture(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    app = open_app(checkpoint=str(tmp_path))
    assert str(tmp_path) in said(app, "note checkpoint")["rows"][0][1]
    assert any("Nothing to show yet" in body for body in html(app))


def test_a_users_folder_opens(tmp_path: Path) -> None:
    folder = shutil.copytree(
        shipped_folder() / "dates", tmp_path / "mine", ignore=shutil.ignore_patterns("snapshots")
    )
    header, _ = shown_head(open_app(checkpoint=str(folder)))
    assert header["queries"][0][0].startswith("[start] → ")


def folder_with(tmp_path: Path, name: str, n_ctx: int, **record: object) -> str:
    """Copy a shipped checkpoint as a user's, with another longest text and another record."""
    folder = shutil.copytree(
        shipped_folder() / name, tmp_path / "mine", ignore=shutil.ignore_patterns("snapshots")
    )
    config = json.loads((folder / "config.json").read_text()) | {"n_ctx": n_ctx}
    (folder / "config.json").write_text(json.dumps(config))
    known = json.loads((folder / "training.json").read_text())
    (folder / "training.json").write_text(json.dumps({"step": known["step"], **record}))
    return str(folder)


def opened_first(checkpoint: str) -> AppTest:
    """Open the app at an address that names a checkpoint and no text."""
    return app_at(checkpoint=checkpoint)


def test_a_checkpoint_starts_with_its_own_example(tmp_path: Path) -> None:
    own = [
        "Er liest ein Buch.",
        "Wir mögen ihn, aber er uns nicht, und das wird sich nie mehr ändern.",
        "Danke.",
    ]
    app = opened_first(folder_with(tmp_path, "eng-fra", 12, task="translation", examples=own))
    assert field(app, "source").value == own[0]
    assert next(box for box in app.selectbox if box.label == "Examples").options == [own[0], own[2]]
    pick_model(app, "eng-fra-bahdanau")  # the same task, another language
    assert field(app, "source").value == "She is reading a book."


@pytest.mark.parametrize("task", ["translation", "unknown to us"])
def test_a_checkpoint_too_short_for_any_example_starts_with_the_beginning_of_one(
    tmp_path: Path, task: str
) -> None:
    app = opened_first(folder_with(tmp_path, "eng-fra", 3, task=task))
    assert field(app, "source").value == "She is"
    assert "bad" not in said(app, "note source")["look"]
    assert [label[0] for label in shown_head(app)[0]["queries"]]


# --- what keeps it fast


def test_the_hidden_option_that_avoids_garbage_collections_still_exists() -> None:
    settings = tomllib.loads(APP.with_name(".streamlit").joinpath("config.toml").read_text())
    assert settings["runner"]["postScriptGC"] is False
    assert "runner.postScriptGC" in config.get_config_options()
    assert settings["server"]["address"] == "localhost"
    assert settings["browser"]["gatherUsageStats"] is False


def test_every_option_in_the_shipped_configuration_is_known() -> None:
    settings = tomllib.loads(APP.with_name(".streamlit").joinpath("config.toml").read_text())
    known = config.get_config_options()
    for section, options in settings.items():
        for name, value in options.items():
            names = (
                [f"{section}.{name}.{inner}" for inner in value]
                if isinstance(value, dict)
                else [f"{section}.{name}"]
            )
            assert all(n in known or (isinstance(value, dict) and "sidebar" in n) for n in names), (
                names
            )


def test_the_entry_script_binds_nothing_but_imports() -> None:
    body = ast.parse(APP.read_text()).body
    assert all(isinstance(node, (ast.ImportFrom, ast.Expr)) for node in body)


def test_two_sessions_share_one_model_and_keep_their_own_text(dates: models.Scope) -> None:
    first, second = open_app(), open_app(source=OTHER)
    for app, text in ((first, DATE), (second, OTHER), (first, DATE)):
        app.run()
        header, weights = shown_head(app)
        expected = dates.run(text).attention[header["site"]].weights(header["head"])
        assert torch.allclose(torch.from_numpy(weights.copy()), expected, atol=1e-6)


def test_a_typed_text_follows_to_a_model_of_another_task() -> None:
    """That applies to models that only read a text; an example, a text with [MASK] and a source are not taken over."""
    app = app_at("attention", checkpoint="gpt")
    pick_model(app, "bert")
    assert "[MASK]" in app.text_area(key="text").value  # its own example
    pick_model(app, "gpt")
    assert "[MASK]" not in app.text_area(key="text").value
    app.text_area(key="text").set_value("the old man is here").run()
    for name in ("bert", "xlnet", "gpt"):
        pick_model(app, name)
        assert app.text_area(key="text").value == "the old man is here"
        assert not app.exception
    pick_model(app, "bert")
    app.text_area(key="text").set_value("the [MASK] man is here").run()
    pick_model(app, "gpt")
    assert "[MASK]" not in app.text_area(key="text").value
