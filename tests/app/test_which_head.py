"""Layer and head are chosen with one control on every page, wherever else they were chosen and however many there are."""

from pathlib import Path

import pytest
from app_parts import PATIENCE, address_of, app_at, component, with_key
from streamlit.testing.v1 import AppTest

import viz_app
from models.trace.edits import HeadOff, Patch, Where, to_text
from viz_app.views.interventions.page import INTERVENTIONS_SECTIONS

APP = Path(viz_app.__file__).with_name("app.py")
SITE, HEAD = "decoder.layers.1.self_attn", "2"
# page → the other parameters of its URL, and the parts of the control that it has
PAGES = {
    "inside": ({}, "kind layer head"), "task": ({}, "kind layer head"), "masks": ({}, "kind layer head"),
    "decoding": ({}, "layer head"), "positions": ({"positions-section": "Added or concatenated"}, "head"),
}  # fmt: skip
OTHERS = {
    "attention": {},
    "layer": {},
    "from-rnn": {"from-rnn-section": "Two alignments"},
    "models": {},
}
SIMILAR = {**{page: params for page, (params, _) in PAGES.items()}, **OTHERS}


def open_page(page: str, **params: str) -> AppTest:
    return app_at(page, **{"checkpoint": "dates", "source": "3 May 1999", **params})


@pytest.mark.parametrize("page", PAGES)
def test_the_head_of_a_link_is_in_the_control_of_every_page(page: str) -> None:
    params, parts = PAGES[page]
    app = open_page(page, site=SITE, head=HEAD, **params)
    known = {"kind": "decoder_self", "layer": 2, "head": 3}
    assert {part: with_key(app.button_group, f"which-{part}").value for part in parts.split()} == {
        part: known[part] for part in parts.split()
    }
    drawn = [group.key for group in app.button_group if group.key.startswith("which-")]
    assert drawn == [f"which-{part}" for part in parts.split()]
    with_key(app.button_group, "which-head").set_value(4).run()
    assert not app.exception
    assert address_of(app)["head"] == ["3"]
    assert with_key(app.button_group, "which-head").value == 4


def test_many_layers_and_heads_are_lists() -> None:
    def many() -> None:
        import streamlit as st
        from drawn import letters

        from viz_app.controls.which_head import head_row, which_head
        from viz_app.session.live import live_session

        live_session().actions.carry_out()
        trace = letters("gpt", n_layers=32, n_heads=32, d_model=64).run("abc")
        sites = list(trace.attention.values())
        with head_row():
            which_head(
                {"self": sites},
                sites[30],
                29,
                lambda site, head: st.session_state.update(picked=(site, head)),
            )

    app = AppTest.from_function(many, default_timeout=PATIENCE).run()
    layer, head = (app.selectbox(key=f"which-{part}") for part in ("layer", "head"))
    assert (len(layer.options), layer.value, len(head.options), head.value) == (32, 31, 32, 30)
    assert len(app.button_group) == 0
    head.set_value(32).run()
    assert app.session_state["picked"] == ("decoder.layers.30.self_attn", 31)
    app.selectbox(key="which-layer").set_value(1).run()
    assert app.session_state["picked"] == ("decoder.layers.0.self_attn", 29)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("page", SIMILAR)
def test_a_chosen_similarity_is_named_on_every_page_and_undone_there(page: str) -> None:
    app = open_page(page, similarity="cosine", **SIMILAR[page])
    undo = [button for button in app.button if button.key == "undo-similarity"]
    assert bool(undo) == (page not in ("models", "from-rnn"))
    if undo:
        assert "cosine" in undo[0].label
        assert "scaled dot" in undo[0].label
        undo[0].click().run()
        assert not [button for button in app.button if button.key == "undo-similarity"]
        assert "similarity" not in address_of(app)


@pytest.mark.parametrize("page", ["attention", "interventions"])
def test_changes_that_do_not_fit_the_text_are_named_and_undone(page: str) -> None:
    cell = Where(activation="encoder.layers.0.resid_post", queries=(9,))
    edits = to_text([Patch(cell, fields=("13 May 1999", None), alignment=())])
    app = open_page(page, edits=edits, similarity="cosine")
    assert "give both the same number" in component(app, "note changes").json
    undo = with_key(app.button, "undo-edits")
    assert "taken from “13 May 1999”" in undo.label
    undo.click().run()
    assert [button.key for button in app.button if "undo-" in str(button.key)] == [
        "undo-similarity"
    ]
    assert "edits" not in address_of(app)


@pytest.mark.parametrize("section", ["Heads", "Is attention explanation?"])
def test_a_head_edit_is_undone_beside_another_change_of_the_run(section: str) -> None:
    edits = to_text([HeadOff(Where(site=SITE, heads=(1,)))])
    app = open_page(
        "interventions", interventions_section=section, edits=edits, similarity="cosine"
    )
    undo = [button.key for button in app.button if "undo-" in str(button.key)]
    assert undo == ["undo-similarity", "undo-edit-0"]


UNDO_KEY = {"Patch": "undo-patch-0", "Many texts": "undo-edits", "Attribution": "undo-edits"}


@pytest.mark.parametrize("section", ["", *INTERVENTIONS_SECTIONS])
def test_every_section_of_interventions_names_an_edit_once(section: str) -> None:
    edits = to_text([HeadOff(Where(site=SITE, heads=(1,)))])
    app = open_page("interventions", edits=edits, **{"interventions-section": section})
    assert not app.exception
    undo = [str(button.key) for button in app.button if "undo-" in str(button.key)]
    assert undo == [UNDO_KEY.get(section, "undo-edit-0")]
    app.button(undo[0]).click().run()
    assert "edits" not in address_of(app)


@pytest.mark.parametrize("section", ["", *INTERVENTIONS_SECTIONS])
def test_an_edit_is_named_even_if_a_section_shows_nothing_of_the_model(section: str) -> None:
    edits = to_text([HeadOff(Where(site="encoder.layers.0.self_attn", heads=(1,)))])
    link = {"checkpoint": "bert", "text": "A dog.", "interventions-section": section}
    app = app_at("interventions", edits=edits, **link)
    assert not app.exception
    undo = [str(button.key) for button in app.button if "undo-" in str(button.key)]
    assert len(undo) == 1
    app.button(undo[0]).click().run()
    assert "edits" not in address_of(app)
