# ruff: noqa: F401, F811  (pytest finds its fixtures by these names)
"""Choices made in the pictures of the page Attention, and their URL parameters."""

from drawn import letters
from test_parts import Session, session

from viz_app.controls import tile
from viz_app.drawing.scale import Scale
from viz_app.session import url_state
from viz_app.session.focus import FOCUS_LOCK, lock_token
from viz_app.views.attention import page
from viz_app.views.attention.page import widths


def test_the_scale_of_the_weights_is_in_the_url(session: Session) -> None:
    assert session.run(page.chosen_scale) == Scale("auto", False)
    assert session.says == {}
    page.choose_scale("root", True)
    assert session.run(page.chosen_scale) == Scale("root", True)
    assert session.says == {"strength": "root", "hide-sinks": "true"}
    page.choose_scale("of a forged message", False)
    assert session.run(page.chosen_scale) == Scale("auto", False)
    assert session.run(page.chosen_scale, strength="row", hide_sinks="true") == Scale("row", True)


def test_the_part_of_a_long_text_that_is_shown_is_in_the_url(session: Session) -> None:
    assert session.run(tile.tile) is None
    tile.choose_tile((1200, 37))
    assert session.run(tile.tile) == (1200, 37)
    assert session.says == {"tile": "1200.37"}
    tile.choose_tile(None)
    assert session.run(tile.tile) is None
    assert session.says == {}
    for unfit in ("7", "1.2.3", "-1.4", "a.b", "123456.1"):
        assert session.run(tile.tile, tile=unfit) is None
    tile.choose_tile((-3, 4))  # of a forged message
    assert session.run(tile.tile) is None


def test_sub_words_are_joined_and_parted(session: Session) -> None:
    assert session.run(page.joins) is False
    tile.choose_tile((1200, 37))
    lock_token("q30")
    page.choose_words(True)
    assert session.run(lambda: (page.joins(), tile.tile(), url_state.get(FOCUS_LOCK))) == (
        True,
        None,
        "",
    )
    assert session.says == {"words": "true"}
    page.choose_words(False)
    assert session.run(page.joins) is False
    assert session.says == {}
    assert session.run(page.joins, words="true") is True
    assert session.run(page.joins, words="perhaps") is False
    assert page.JOINS_WORDS.is_step


def test_back_undoes_the_choice_of_a_part_and_not_that_of_a_scale() -> None:
    assert tile.CHOSEN_TILE.is_step
    assert not page.CHOSEN_SCALE.is_step
    assert not page.HIDES_SINKS.is_step


def test_many_heads_have_a_wider_column() -> None:
    few, many = (widths(letters("gpt", n_heads=n, d_model=2 * n).run("ab")) for n in (16, 17))
    assert (few, many) == ((1, 2.9), (1.6, 2.3))
    assert sum(few) == sum(many)
