# ruff: noqa: F401, F811  (pytest finds its fixtures by these names)
"""A model that the URL names is being opened: the address stays, and what it says is not used up by the page that stands."""

from collections.abc import Callable
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest
from test_parts import Session, session

from viz_app.session import url_state
from viz_app.session.focus import FOCUS_HEAD, FOCUS_LOCK, FOCUS_SITE
from viz_app.session.url_state import Address


def drawn_meanwhile() -> None:
    """A page of a model in which the URL's site is not: it has another one chosen."""
    assert url_state.get(FOCUS_SITE) == "a.site"
    url_state.set_value(FOCUS_SITE, "another")
    url_state.set_value(FOCUS_LOCK, "")


def test_what_the_url_says_is_followed_again_when_the_model_stands(session: Session) -> None:
    session.url = {"site": ["a.site"], "head": ["3"], "lock": ["q1"]}
    for _ in range(2):
        url_state.begin_page()
        drawn_meanwhile()
        address = url_state.postpone()
        assert parse_qs(address.query) == session.url
        assert address.steps == 0
        assert url_state.is_url_driven()
    url_state.begin_page()
    assert (url_state.get(FOCUS_SITE), url_state.get(FOCUS_HEAD), url_state.get(FOCUS_LOCK)) == (
        "a.site",
        3,
        "q1",
    )
    assert parse_qs(url_state.publish().query) == {
        "site": ["a.site"],
        "head": ["3"],
        "lock": ["q1"],
    }
    assert not url_state.is_url_driven()


def test_a_picked_model_is_one_step_when_it_stands(session: Session) -> None:
    session.run(
        lambda: (url_state.get(url_state.CHECKPOINT), url_state.get(FOCUS_SITE)),
        checkpoint="one",
        site="a",
    )
    url_state.set_value(url_state.CHECKPOINT, "two")
    for _ in range(2):
        url_state.begin_page()
        url_state.get(url_state.CHECKPOINT)
        url_state.get(FOCUS_SITE)
        address = url_state.postpone()
        assert (parse_qs(address.query), address.steps) == (
            {"checkpoint": ["one"], "site": ["a"]},
            0,
        )
    url_state.begin_page()
    assert url_state.get(url_state.CHECKPOINT) == "two"
    url_state.set_value(FOCUS_SITE, "b")
    address = url_state.publish()
    assert (parse_qs(address.query), address.steps) == ({"checkpoint": ["two"], "site": ["b"]}, 1)


@pytest.mark.parametrize("end", [url_state.publish, url_state.postpone])
def test_a_run_says_what_it_found_in_the_address_and_not_what_it_makes_of_it(
    session: Session, monkeypatch: pytest.MonkeyPatch, end: Callable[[], Address]
) -> None:
    run = SimpleNamespace(query_string="site=a&embed=true", is_history_navigation=False)
    monkeypatch.setattr(url_state, "get_script_run_ctx", lambda: run)
    url_state.begin_page()
    url_state.set_value(FOCUS_SITE, "b")
    run.query_string = "site=c"  # as Back leads elsewhere meanwhile
    assert end().query_at_start == "site=a&embed=true"
    run.query_string = "site=d"
    url_state.begin_page()
    assert end().query_at_start == "site=d"
