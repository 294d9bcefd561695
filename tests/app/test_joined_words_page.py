"""Sub-words merged into words on the page Attention: the URL's choice is shown, named and checked, and sub-words that cannot be
merged are reported."""

from pathlib import Path

import numpy as np
import pytest
from app_parts import app_at, assert_all_passed, picture, prose
from streamlit.testing.v1 import AppTest

import models
import viz_app
from models.analysis.joined_words import join_words
from models.number_text import percent
from viz_app.navigation import PAGES
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.attention.payloads import AttentionChoices

APP = Path(viz_app.__file__).with_name("app.py")
TEXT = "The unbelievably hungry doggy was there"


def open_page(**asked: str) -> AppTest:
    return app_at(**asked)


def test_words_are_shown_where_the_url_asks_for_them() -> None:
    app = open_page(
        checkpoint="gpt",
        text=TEXT,
        words="true",
        site="decoder.layers.1.self_attn",
        head="2",
        lock="q2",
    )
    header, arrays = picture(app, "head")
    trace = join_words(models.load("gpt", device="cpu").run(TEXT))
    wanted = trace.attention["decoder.layers.1.self_attn"].weights(2).numpy()
    np.testing.assert_allclose(arrays["weights"].reshape(wanted.shape), wanted, atol=1e-6)
    assert [text for text, *_ in header["keys"]][2] == "·unbelievably"
    assert header["lock"] == "q2"
    overview, _ = picture(app, "overview")
    assert (overview["joined"], overview["cannot"]) == (True, "")
    assert overview["blocks"][0]["rows"] == len(wanted) == 7
    assert "the mean of its tokens' rows" in prose(app)
    assert "the model has read the word A" in prose(app)
    assert_all_passed(app, 3)
    assert "words" in header["file"]


@pytest.mark.parametrize("axis", ["q", "k"])
def test_the_question_about_a_pinned_word_is_about_its_first_token(axis: str) -> None:
    """“hungry” is the fourth word, but the fourth token is a part of “unbelievably”."""
    trace = models.load("gpt", device="cpu").run(TEXT)
    run = CurrentRun(models.load("gpt", device="cpu"), trace)
    token = [token.strip("▁") for token in trace.streams["text"].tokens].index("hungry")
    name = "decoder.layers.1.self_attn"
    choices = AttentionChoices(Focus(name, 2, f"{axis}3"), joins_words=True)
    leads = PAGES["attention"].leads_to(run, choices)
    query, key = int(leads.chosen["lock"][1:]), leads.chosen["inside-key"]
    assert (query if axis == "q" else key) == token != 3
    weight = float(trace.attention[name].weights(2)[query, key])
    assert f"Where does this head's {percent(weight)} come from?" == leads.question


def test_a_token_beyond_the_words_is_not_pinned() -> None:
    app = open_page(
        checkpoint="gpt",
        text=TEXT,
        words="true",
        site="decoder.layers.1.self_attn",
        head="2",
        lock="q9",
    )
    assert picture(app, "head")[0]["lock"] == ""
    app = open_page(
        checkpoint="gpt", text=TEXT, site="decoder.layers.1.self_attn", head="2", lock="q9"
    )
    assert picture(app, "head")[0]["lock"] == "q9"
    assert picture(app, "overview")[0]["joined"] is False


@pytest.mark.parametrize("name", ["dates", "gpt-char"])
def test_words_that_cannot_be_merged_are_shown_as_tokens_with_the_reason(name: str) -> None:
    app = open_page(checkpoint=name, words="true")
    header, _ = picture(app, "overview")
    assert (header["joined"], header["switches"]) == (False, True)
    assert header["cannot"] == "Its tokenizer does not say which tokens belong to one word."
    assert "sub-words" not in header["caption"]
