"""Screen elements shared by several pages. HTML here is the app's own text, never user text."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.trace import Trace
from viz_app import words
from viz_app.components.catalogue import FILES, PLAIN
from viz_app.components.mounting import show
from viz_app.drawing.frame import Chart, fitted
from viz_app.drawing.look import Look, look
from viz_app.drawing.notes import check_rows, small_print, strip
from viz_app.drawing.screen import Screen
from viz_app.session import url_state
from viz_app.session.downloads import Download, download_address
from viz_app.session.live import live_session
from viz_app.session.parameters import Switch

__all__ = [
    "check_rows",
    "checks_panel",
    "downloads",
    "fit_to_screen",
    "headline",
    "in_theme",
    "is_dark",
    "page_look",
    "redraw_alone",
    "run_strip",
    "screen",
    "show_note",
    "show_placeholder",
    "small_print",
    "strip",
    "svg_export",
]

_THEME: ContextVar[str] = ContextVar("theme", default="")  # "" for the browser's
PRESENT = Switch("present", on="1")  # presentation mode: larger type


def show_note(slot: DeltaGenerator, text: str, bad: bool = False, *, key: str) -> None:
    """Show a line of small print below a control, or the control's error message."""
    with slot:
        show(PLAIN, small_print(text, bad), key=f"note {key}")


def headline(question: str, answer: str) -> None:
    """Show a page's question and its answer in a sentence, glossary terms explained on hover."""
    question_html, answer_html = words.annotate(question, answer)
    st.html(f'<div class="headline"><h1>{question_html}</h1><p>{answer_html}</p></div>')


def run_strip(trace: Trace, terms: words.Terms, stale: bool, prefix: str = "") -> None:
    """Show what the model read and wrote; `prefix` goes before the element's key."""
    show(PLAIN, strip(trace, terms, stale), key=f"{prefix}written")


def show_placeholder(is_opening: bool = False) -> None:
    """Show a placeholder before the first run."""
    hint = "Loading the model…" if is_opening else "Nothing to show yet: fix the error above."
    st.html(f'<p class="nothing">{hint}</p>')


def checks_panel(checks: dict, trained: str, prefix: str = "") -> None:
    """Show the result of `check_rows` and the training line; `prefix` goes before the keys."""
    show(PLAIN, checks, key=f"{prefix}checks")
    show(PLAIN, small_print(trained), key=f"{prefix}trained")


def downloads(files: Sequence[Download]) -> None:
    """Show a link for each file; it is made on request, while it is sent."""
    links = [{"label": file.label, "url": download_address(file)} for file in files]
    show(FILES, {"files": links})


def redraw_alone(draw: Callable[..., None], *args: Any, every: float | None) -> None:
    """Draw a part of the page that also reruns alone every `every` seconds; None for never."""

    @wraps(draw)
    def run() -> None:
        live_session().actions.carry_out()
        draw(*args)

    st.fragment(run, run_every=every)()


def screen() -> Screen:
    """Return the screen that charts are drawn for."""
    return Screen(bool(url_state.get(PRESENT)), live_session().window)


def fit_to_screen(chart: Chart, *, grows: bool = True, extra_px: int = 0) -> Chart:
    """Return the chart as the visitor's screen shows it.

    One that does not grow leaves the room to the picture below it. It is `extra_px` px taller where
    it is presented.
    """
    return fitted(chart, screen(), grows=grows, extra_px=extra_px)


@contextmanager
def in_theme(theme: str) -> Iterator[None]:
    """Draw for this theme, "light" or "dark", instead of the browser's."""
    token = _THEME.set(theme)
    try:
        yield
    finally:
        _THEME.reset(token)


def _theme() -> str | None:
    return _THEME.get() or st.context.theme.type


def is_dark() -> bool:
    """Return True if the browser shows the dark theme."""
    return _theme() == "dark"


def page_look() -> Look:
    """Return the colours of the theme that the browser shows."""
    return look(_theme())


def svg_export(name: str) -> dict:
    """Return plotly settings that save the chart as an SVG of this name."""
    return {"toImageButtonOptions": {"format": "svg", "filename": name}, "displaylogo": False}
