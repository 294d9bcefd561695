# ruff: noqa: F401, F811  (pytest finds its fixtures by these names)
"""While a model from the URL is being opened, the address stays, and the page still shown does not consume its parameters."""

from collections.abc import Callable
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest
from test_parts import Session, session

from viz_app.session import url_state
from viz_app.session.focus import FOCUS_HEAD, FOCUS_LOCK, FOCUS_SITE
from viz_app.session.url_state import Address


def drawn_meanwhile() -> None:
    """Draw the page of a model that lacks the URL's site, so that it chooses another one."""
    assert url_state.get(FOCUS_SITE) == "a.site"
    url_state.set_value(FOCUS_SITE, "another")
    url_state.set_value(FOCUS_LOCK, "")


def test_the_url_is_followed_again_once_the_model_is_open(session: Session) -> None:
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


def test_a_picked_model_is_one_step_once_it_is_open(session: Session) -> None:
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
def test_a_run_reports_the_address_it_read_and_not_its_own_version(
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
