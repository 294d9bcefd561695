"""A page that can show nothing of a model offers shipped models that it can show."""

import re
from functools import cache

import pytest
from app_parts import page_at, picker, prose
from streamlit.testing.v1 import AppTest

import models
from viz_app.controls import other_models
from viz_app.navigation import PAGES
from viz_app.session.current_run import CurrentRun

DEAD_ENDS = [
    ("decoding", "bert", {}),
    ("decoding", "xlnet", {}),
    ("layer", "eng-fra-bahdanau", {}),
    ("masks", "eng-fra-rnn", {}),
    ("from-rnn", "gpt", {"from-rnn-section": "Three models"}),
    ("positions", "eng-fra", {"positions-section": "Rotation"}),
]


def open_page(name: str, checkpoint: str, **asked: str) -> AppTest:
    return page_at(name, **{"checkpoint": checkpoint, **asked})


opened_once = cache(models.load)


def offers(app: AppTest) -> list[str]:
    return [button.label for button in app.button if button.label.startswith("Open ")]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(("name", "checkpoint", "asked"), DEAD_ENDS)
def test_the_offered_models_are_ones_that_the_page_can_show(name, checkpoint, asked) -> None:
    app = open_page(name, checkpoint, **asked)
    labels = offers(app)
    section = next((asked[key] for key in asked if key.endswith("-section")), "")
    find = PAGES[name].views[section]
    able = [one for one in models.shipped() if other_models.shows(find, opened_once(one))]
    assert bool(labels) == bool(able)  # no shipped model rotates its queries
    named = re.findall(r"\bopen \*\*([\w-]+)\*\*", prose(app), re.IGNORECASE)
    assert not labels or set(named) <= {label.removeprefix("Open ") for label in labels}
    for label in labels:
        chosen = label.removeprefix("Open ")
        assert chosen in able
    if labels:
        app.button(key=f"open-{labels[0].removeprefix('Open ')}").click().run()
        assert not app.exception
        assert not offers(app)
        assert picker(app)["value"] == labels[0].removeprefix("Open ")


def test_a_text_without_room_is_no_reason_for_another_model() -> None:
    app = open_page("decoding", "gpt", text="a b " * 200)
    assert "cannot go on" in prose(app) or "tokens" in prose(app)
    assert not offers(app)


def test_decoding_claims_nothing_of_a_model_that_does_not_write() -> None:
    scope = models.load("bert")
    run = CurrentRun(scope, scope.run("I like [MASK].", None))
    assert "generates no text" in PAGES["decoding"].answer(run)
