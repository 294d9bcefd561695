"""The page Task through the entry file: a link shows its position and its head, and invalid parameters show the default."""

from pathlib import Path

import numpy as np
import pytest
from app_parts import address_of, app_at, assert_all_passed, picture, prose, with_key
from streamlit.testing.v1 import AppTest

import models
import viz_app
from viz_app.views.task import text

APP = Path(viz_app.__file__).with_name("app.py")
SOURCE, TARGET = "3 May 1999", "1999-05-03"
SELF, CROSS = "decoder.layers.0.self_attn", "decoder.layers.1.cross_attn"


@pytest.fixture(scope="module")
def trace() -> models.Trace:
    return models.load("dates", device="cpu").run(SOURCE, TARGET)


def open_page(**params: str) -> AppTest:
    wanted = {"checkpoint": "dates", "source": SOURCE, "target": TARGET, **params}
    app = app_at("task", **wanted)
    assert_all_passed(app, 3)
    return app


def test_a_link_shows_its_position_and_its_head(trace: models.Trace) -> None:
    app = open_page(task_position="3", site=SELF, head="2")
    header, arrays = picture(app, "answers")
    assert header["position"] == 3
    assert header["answer"]["title"] == "Predicted after “9”"
    np.testing.assert_allclose(
        arrays["weights"], trace.attention[SELF].weights(2)[3].numpy(), atol=1e-6
    )
    assert [
        with_key(app.button_group, f"which-{part}").value for part in ("kind", "layer", "head")
    ] == ["decoder_self", 1, 3]
    assert address_of(app)["task-position"] == ["3"]
    purpose = "This model writes a date in ISO format."
    assert f"{purpose} Held-out exact match 100 % over 2,000 cases." in prose(app)


def test_another_head_is_chosen_here_and_is_in_the_url(trace: models.Trace) -> None:
    app = open_page(task_position="5", site=CROSS, head="0")
    with_key(app.button_group, "which-head").set_value(3).run()
    _, arrays = picture(app, "answers")
    np.testing.assert_allclose(
        arrays["weights"], trace.attention[CROSS].weights(2)[5].numpy(), atol=1e-6
    )
    with_key(app.button_group, "which-kind").set_value("decoder_self").run()
    with_key(app.button_group, "which-layer").set_value(1).run()
    header, arrays = picture(app, "answers")
    np.testing.assert_allclose(
        arrays["weights"], trace.attention[SELF].weights(2)[5].numpy(), atol=1e-6
    )
    assert header["position"] == 5
    assert (address_of(app)["site"], address_of(app)["head"]) == ([SELF], ["2"])


def test_heads_of_the_encoder_are_not_offered() -> None:
    app = open_page(site="encoder.layers.1.self_attn", head="1")
    kinds, layers = (with_key(app.button_group, f"which-{part}") for part in ("kind", "layer"))
    assert (kinds.value, layers.value) == ("cross", 2)
    assert (kinds.options, layers.options) == (["Decoder self", "Cross"], ["1", "2"])
    assert address_of(app)["site"] == [
        "encoder.layers.1.self_attn"
    ]  # a choice made elsewhere is kept


@pytest.mark.parametrize("value", ["", "-1", "99999", "11", "x", "3.0", "inf", "9" * 5_000])
def test_an_invalid_position_gives_the_default(value: str, trace: models.Trace) -> None:
    header, _ = picture(open_page(task_position=value), "answers")
    assert header["position"] == int(trace.next_token.surprisal.argmax())


def test_a_shorter_text_keeps_the_choice_for_when_it_grows() -> None:
    app = open_page(task_position="7")
    for target, position in (("19", None), (TARGET, 7)):
        app.text_area(key="target").set_value(target).run()
        header, _ = picture(app, "answers")
        assert header["position"] < 3 if position is None else header["position"] == position


def test_the_explanation_is_beside_it() -> None:
    note = text.SURPRISAL_NOTE.format(given=text.ALL_BEFORE)
    assert note.strip().splitlines()[0] in prose(open_page())
