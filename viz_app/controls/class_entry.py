"""The way into a class on the Lessons page: joining or starting one, and its handouts."""

import streamlit as st

from viz_app import ui
from viz_app.controls import pick
from viz_app.controls.handout_files import handout_files
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.session import class_state, live
from viz_app.session.live import noted
from viz_app.session.remembered import recall

_CODE, CODE_BOX_CHARACTERS = "class-code", 20  # key of the box; characters in it


def class_entry() -> None:
    """Draw the controls that join or start a class, and the handouts of the chosen lesson."""
    titles = {lesson.name: lesson.title for lesson in offered_lessons().lessons}
    with pick.control_row("class-entry"):
        st.text_input("Class code", key=_CODE, max_chars=CODE_BOX_CHARACTERS, width=170)
        st.button("Join", key="class-join", on_click=noted(_join))
        lesson = st.selectbox(
            "Lesson", list(titles), format_func=titles.__getitem__, key="class-lesson", width=480
        )
        st.button(
            "Start a class",
            key="class-start",
            on_click=noted(_start),
            args=(lesson,),
            disabled=not titles,
        )
        if lesson:
            ui.downloads(handout_files(lesson))


def _join() -> None:
    class_state.enter_class(recall(_CODE, ""))


def _start(lesson: str) -> None:
    class_state.start(lesson, live.live_session())
