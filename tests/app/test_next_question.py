"""Each page ends with a question, and the page that it leads to answers it for the same run."""

from functools import cache

import pytest
from app_parts import page_at, picture, said

import models
from models.number_text import percent
from viz_app.input_bar.examples import readable_examples
from viz_app.navigation import GROUPS, PAGES
from viz_app.session.current_run import CurrentRun

MODELS = ["eng-fra", "gpt", "bert", "xlnet", "dates", "eng-fra-bahdanau", "eng-fra-rnn"]


@cache
def run_of(name: str) -> CurrentRun:
    scope = models.load(name)
    return CurrentRun(scope, scope.run(*readable_examples(scope)[0]))


def shows(name: str, run: CurrentRun) -> bool:
    return any(not isinstance(find(run), str) for find in PAGES[name].views.values())


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("page", ["attention", "inside", "masks", "models"])
def test_the_question_on_the_page_leads_to_one_that_shows_the_run(page: str, name: str) -> None:
    if not shows(page, run_of(name)):
        return
    question = said(page_at(page, checkpoint=name), "next")["question"]
    assert question.endswith("?")
    assert len(question.split()) <= 12


@pytest.mark.parametrize("name", MODELS)
def test_no_question_leads_to_a_page_that_shows_nothing(name: str) -> None:
    run = run_of(name)
    for address in ["task", "layer", "positions", "masks", "decoding", "from-rnn", "models"]:
        if shows(address, run):
            leads = PAGES[address].leads_to(run, None)
            assert leads.page != address
            if leads.page == "attention":
                assert ("attend" in leads.question) == bool(run.trace.attention)
            assert shows(leads.page, run), (address, leads)


@pytest.mark.parametrize(("lock", "query"), [("q2", 2), ("k4", None), ("", None)])
def test_the_weight_in_the_question_is_the_one_shown_inside_a_head(
    lock: str, query: int | None
) -> None:
    at = {"checkpoint": "eng-fra", "site": "decoder.layers.1.cross_attn", "head": "3"}
    question = said(page_at("attention", **at, lock=lock), "next")["question"]
    header, _ = picture(page_at("inside", **at, lock=lock), "walk")
    site = run_of("eng-fra").trace.attention[at["site"]]
    weight = float(site.weights(3)[header["query"], header["key"]])
    assert percent(weight) in question
    assert percent(weight) in header["title"]
    assert query in (None, header["query"])
    assert not lock.startswith("k") or header["key"] == int(lock[1:])


def test_each_group_of_pages_begins_with_one() -> None:
    assert GROUPS.keys() <= PAGES.keys()


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("page", ["positions", "from-rnn"])
def test_a_page_opens_on_a_section_that_shows_the_model(page: str, name: str) -> None:
    app = page_at(page, checkpoint=name)
    assert not [button.label for button in app.button if button.label.startswith("Open ")]
    first = next(
        one for one, find in PAGES[page].views.items() if not isinstance(find(run_of(name)), str)
    )
    assert app.segmented_control[0].value == first
