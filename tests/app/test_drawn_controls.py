"""The choices and texts of a page are collected for the static edition, with where each option leads."""

from streamlit.testing.v1 import AppTest


def test_a_choice_is_collected_with_what_each_option_chooses() -> None:
    def page() -> None:
        import streamlit as st

        from viz_app.controls import pick
        from viz_app.controls.drawn import drawn_controls
        from viz_app.controls.text_box import text_box
        from viz_app.session import url_state
        from viz_app.session.parameters import Choice, Text

        choice, text = Choice("drawn-choice", "b", options=("a", "b")), Text("drawn-text")
        url_state.begin_page()
        with drawn_controls() as drawn:
            pick.pick_few("Which", choice, choice.options, str.upper, help="One of two.")
            text_box("Second text", text, "typed")
        pick.pick_few("Not collected", Choice("other-choice", "a", options=("a",)), ("a",))
        (one,) = drawn.choices
        one.choose(0)
        st.session_state["found"] = one, drawn.texts, url_state.get(choice)

    app = AppTest.from_function(page).run()
    assert not app.exception
    one, texts, chosen = app.session_state["found"]
    assert (one.key, one.label, one.help) == ("drawn-choice", "Which", "One of two.")
    assert (one.names, one.chosen, chosen) == (("A", "B"), 1, "a")
    assert texts == {"Second text": "typed"}
