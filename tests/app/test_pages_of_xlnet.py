"""Every page with a model that predicts in an order: it draws what applies, and explains what does not in a sentence; and the
order typed, set by a button, and kept in the address."""

from pathlib import Path

import pytest
from app_parts import component, page_at, picture, prose, said
from small import random_xlnet
from streamlit.testing.v1 import AppTest

import models
from models.checkpoint import save_checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app import checkpoints
from viz_app.session.current_run import CurrentRun

TEXT, SECOND = "badcgef", "hab"
PAGES = ("attention", "task", "inside", "layer", "positions", "masks", "decoding", "from-rnn")
CHECKED = ("attention", "task", "inside", "layer", "masks")


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    folder, tokenizer = (
        tmp_path_factory.mktemp("models") / "orders",
        Tokenizer.characters("abcdefgh "),
    )
    model = random_xlnet(vocab_size=tokenizer.vocab_size)
    save_checkpoint(
        folder, model, tokenizer, {"step": 0, "task": "permutation", "examples": [TEXT]}
    )
    return models.load(folder, device="cpu")


@pytest.fixture(autouse=True)
def offered(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "available", lambda: [str(scope.path)])


def open_page(scope: Scope, name: str, **params: str) -> AppTest:
    return page_at(name, **{"checkpoint": str(Path(scope.path)), **params})


def order_of(app: AppTest) -> list[int]:
    return picture(app, "order")[0]["order"]


def note(app: AppTest) -> tuple[str, str]:
    found = said(app, "note order")
    return found["look"], found["rows"][0][1]


LACKS = {
    "positions": "its positions are relative",
    "from-rnn": "This model does not translate",
}


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", PAGES)
def test_every_page_opens_and_every_check_on_it_passes(scope, name):
    app = open_page(
        scope, name, second_text=SECOND, order="3-2-4-1", site="encoder.layers.1.query_attn"
    )
    if name in LACKS:  # it opens on a section that needs no text
        assert LACKS[name] in component(app, "section-reasons").json
        return
    assert (
        dict(said(app, "written")["rows"])["label-out"]
        == "surprise, read in the order 3 → 2 → 4 → 1 → 5 → 6 → 7 → 8 → 9 → 10"
    )
    if name in CHECKED:
        looks = [look for look, _ in said(app, "checks")["rows"]]
        assert "passed" in looks
        assert "failed" not in looks
    expected = {
        "decoding": "this model reads a finished one",
        "task": "the query stream may",
    }
    assert expected.get(name, "").replace(
        "the query stream may", "may not see its own token"
    ) in prose(app)


@pytest.mark.parametrize("view", ["matrices", "scaling", "heads", "several"])
def test_every_view_of_a_head(scope, view):
    app = open_page(
        scope, "inside", **{"inside-view": view, "site": "encoder.layers.0.content_attn"}
    )
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]


@pytest.mark.parametrize("section", ["Curves", "Added or concatenated"])
def test_every_section_of_positions(scope, section):
    open_page(scope, "positions", **{"positions-section": section})


def test_an_order_is_typed_and_a_wrong_one_refused_at_its_box(scope):
    app = open_page(scope, "task")
    assert (order_of(app), app.text_input(key="task-order").value) == (
        list(range(7)),
        "1 2 3 4 5 6 7",
    )
    app.text_input(key="task-order").set_value("7 6 5 1 2 3 4").run()
    assert order_of(app) == [6, 5, 4, 0, 1, 2, 3]
    assert note(app)[1] == ""
    app.text_input(key="task-order").set_value("7 6 5 1 2 3 3").run()
    look, sentence = note(app)
    assert look == "note bad"
    assert (
        sentence
        == "The order must name each of the 7 positions once, from 1 to 7: 3 appears twice, 4 is missing."
    )
    assert order_of(app) == [6, 5, 4, 0, 1, 2, 3]  # the last good picture
    assert app.text_input(key="task-order").value == "7 6 5 1 2 3 3"
    app.button(key="order Reverse").click().run()
    assert (order_of(app), note(app)[1]) == ([3, 2, 1, 0, 4, 5, 6], "")
    assert app.text_input(key="task-order").value == "4 3 2 1 5 6 7"
    app.button(key="order Left to right").click().run()
    assert order_of(app) == list(range(7))
    app.button(key="order shuffle").click().run()
    assert sorted(order_of(app)) == list(range(7))


def test_a_gesture_on_the_order_that_comes_after_another_model_does_nothing(scope):
    """The browser may still show the controls of the previous model."""
    app = open_page(scope, "task")
    session, dates = app.session_state["live session"], models.load("dates", device="cpu")
    for widget in (
        app.text_input(key="task-order").set_value("2 1"),
        app.button(key="order shuffle").click(),
        app.button(key="order figure").click(),
    ):
        session.run = CurrentRun(dates, dates.run("3 May 1999"))
        widget.run()
        assert not app.exception
        assert order_of(app) == list(range(7))


def test_the_papers_figure_is_one_click(scope):
    app = open_page(scope, "task", second_text=SECOND)
    app.button(key="order figure").click().run()
    header, arrays = picture(app, "order")
    assert header["order"] == [2, 1, 3, 0]
    assert {box.key: box.value for box in app.text_area if box.key in ("text", "second_text")} == {
        "text": TEXT[:4],
        "second_text": "",
    }
    assert arrays["query"].reshape(4, 4).tolist() == [
        [0, 1, 1, 1],
        [0, 0, 1, 0],
        [0, 0, 0, 0],
        [0, 1, 1, 0],
    ]
    assert arrays["content"].reshape(4, 4).tolist() == [
        [1, 1, 1, 1],
        [0, 1, 1, 0],
        [0, 0, 1, 0],
        [0, 1, 1, 1],
    ]


def test_an_order_of_the_address_is_followed_and_outlives_an_edit_of_the_text(scope):
    app = open_page(scope, "task", order="3-1-2", text="bad")
    assert order_of(app) == [2, 0, 1]
    app.text_area(key="text").set_value("bade").run()
    assert order_of(app) == [2, 0, 1, 3]
    look, sentence = note(app)
    assert look == "note"  # nothing is wrong with it
    assert sentence == (
        "This order belongs to a different text; this one has 4 tokens: 4 is missing. The positions it names keep their turn, and the "
        "others follow from left to right."
    )
    app.text_area(key="text").set_value("ba").run()
    assert order_of(app) == [0, 1]
    assert "this one has 2 tokens: 3 does not exist." in note(app)[1]
    app.button(key="order Reverse").click().run()
    assert (order_of(app), note(app)) == ([1, 0], ("note", ""))


@pytest.mark.parametrize(("order", "why"), [
    ("3-3-1", "order must not repeat a number"),
    ("3-x-1", "order must be whole numbers from 1 to 10,000, separated by hyphens"),
    ("0-1-2", "order must be whole numbers from 1 to 10,000, separated by hyphens"),
])  # fmt: skip
def test_an_invalid_order_in_the_address_is_named_beside_its_box(scope, order, why):
    app = open_page(scope, "task", order=order, text="bad")
    assert order_of(app) == [0, 1, 2]
    assert note(app) == (
        "note bad",
        f"In this link the {why}. The tokens are predicted from left to right.",
    )
    assert app.text_input(key="task-order").value == "1 2 3"
    app.text_input(key="task-order").set_value("2 1 3").run()
    assert (order_of(app), note(app)) == ([1, 0, 2], ("note", ""))
