"""The view of one run: its pictures, made at every keystroke, and the cells that hold them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz_app import ui
from viz_app.components.catalogue import NEXT_LINK, PLAIN
from viz_app.components.mounting import show
from viz_app.controls.similarity_text import SIMILARITY_NOTE
from viz_app.drawing.extent import on_one_scale
from viz_app.drawing.notes import check_summary
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.downloads import Download
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.parameters import declared_parameters
from viz_app.views.page import (
    Checks,
    Columns,
    Explanation,
    File,
    Foot,
    NextQuestion,
    Page,
    PageCell,
    Plot,
    Prose,
    Row,
    ShownComponent,
    Table,
    View,
    Widget,
)

STRIP = (
    "written",
    "unrecorded",
    SIMILARITY_NOTE,
)  # pictures above the controls, if there are any
SUMMARY = "checked"  # the number of checks passed
NEXT_QUESTION_KEY = "next"  # the question that the page ends with
PAGE_DETAILS = "Details: how to read this, the checks, and files"
CHECKS_ONLY = "Details: the checks"  # of the pinned run

Draw = Callable[[CurrentRun], Pictures]


@dataclass(frozen=True)
class OneRun:
    """One view of a run on the page."""

    page: Page
    view: View[Any]
    choices: Any
    session: LiveSession
    above: DeltaGenerator  # room for what was read and written
    prefix: str = ""  # of the keys of its elements
    is_half: bool = False  # beside the view of another run
    column: int = 0  # which of the named columns is shown if the view takes half of the page

    def draw(self, run: CurrentRun) -> Draw | None:
        pictures = self.pictures
        self.lay_out(run, pictures(run))
        return pictures if self.view.is_live(self.choices) else None

    def pictures(self, run: CurrentRun) -> Pictures:
        return on_one_scale(self.drawn(run))[0]

    def drawn(self, run: CurrentRun) -> Pictures:
        """Make the pictures of a run, including the texts read and written."""
        pictures = dict(self.view.payloads(run, self.choices))
        if "checks" in pictures:
            pictures[SUMMARY] = check_summary(pictures["checks"])
        return self.around(run) | pictures

    def around(self, run: CurrentRun) -> Pictures:
        """Make what surrounds the pictures: the texts read and written, the question at the end."""
        pictures: Pictures = {}
        if not self.prefix:
            pictures[NEXT_QUESTION_KEY] = {"question": self._leads_to(run).question}
        if self.view.has_strip:
            pictures["written"] = self.view.written(run, self.choices)
        return pictures

    def _leads_to(self, run: CurrentRun) -> NextQuestion:
        return self.page.leads_to(run, self.choices)

    def _go(self) -> None:
        """Open the page that answers the question, at the next rerun."""
        question = self._leads_to(self.session.shown)
        for name, value in question.chosen.items():
            url_state.set_value(declared_parameters()[name], value)
        self.session.leaves_for = question.page

    def lay_out(self, run: CurrentRun, pictures: Pictures) -> None:
        """Place the pictures, and a foot below them where the view has not placed it itself."""
        with self.above:
            for key in STRIP:
                if key in pictures:
                    show(PLAIN, pictures[key], key=self.prefix + key)
        cells = self.view.layout(run, self.choices, pictures)
        if not _holds(cells, Foot | Explanation | Checks):
            cells = [*cells, Foot()]
        self._place(cells, run, pictures)
        if not _holds(cells, Foot):
            self._ask(pictures)

    def _place(self, cells: Sequence[PageCell], run: CurrentRun, pictures: Pictures) -> None:
        for cell in cells:
            if isinstance(cell, Columns):
                self._columns(cell, run, pictures)
            elif isinstance(cell, Row):
                with st.container(horizontal=True, gap="medium", key=self.prefix + cell.key):
                    self._place(cell.cells, run, pictures)
            elif isinstance(cell, Foot):
                self._draw_details(cell, run, pictures)
            elif isinstance(cell, Explanation):
                self._explain(run)
            elif isinstance(cell, Checks):
                if "checks" in pictures:
                    if not cell.is_counted:
                        show(PLAIN, pictures[SUMMARY], key=self.prefix + SUMMARY)
                    ui.checks_panel(pictures["checks"], self.view.trained(run), self.prefix)
            elif isinstance(cell, Prose):
                (st.caption if cell.is_small else st.markdown)(cell.text)
            elif isinstance(cell, Widget):
                if not self.prefix:
                    cell.draw()
            elif cell.picture in pictures:
                self._show(cell, pictures[cell.picture])

    def _draw_details(self, foot: Foot, run: CurrentRun, pictures: Pictures) -> None:
        """Place explanation, files and checks in a drawer, beside the number of checks passed."""
        with st.container(horizontal=True, gap="small", key=self.prefix + "details"):
            if SUMMARY in pictures:
                show(PLAIN, pictures[SUMMARY], key=self.prefix + SUMMARY)
            with st.expander(CHECKS_ONLY if self.prefix else PAGE_DETAILS):
                below = Columns(foot.widths, ([Explanation()], [Checks(is_counted=True)]))
                self._place([*foot.cells, below], run, pictures)
            self._ask(pictures)

    def _ask(self, pictures: Pictures) -> None:
        """Place the question that the page ends with."""
        if NEXT_QUESTION_KEY in pictures:
            show(NEXT_LINK, pictures[NEXT_QUESTION_KEY], key=NEXT_QUESTION_KEY, on_go=self._go)

    def _columns(self, cell: Columns, run: CurrentRun, pictures: Pictures) -> None:
        if cell.names and self.is_half:
            self._place(cell.columns[min(self.column, len(cell.columns) - 1)], run, pictures)
            return
        for column, inner in zip(st.columns(cell.widths, gap="medium"), cell.columns, strict=True):
            with column:
                self._place(inner, run, pictures)

    def _show(self, cell: ShownComponent | Plot | Table, picture: Any) -> None:
        key = self.prefix + cell.picture
        if isinstance(cell, Table):
            integer = st.column_config.NumberColumn(format="localized")
            columns = dict.fromkeys(cell.counted, integer)
            height = cell.height or "auto"
            st.dataframe(picture, height=height, hide_index=True, key=key, column_config=columns)
            return
        if isinstance(cell, ShownComponent):
            change = {name: _ignore for name in cell.change} if self.prefix else cell.change
            show(cell.component, picture, key, **cell.choose, **change)
        elif cell.file:
            st.plotly_chart(
                ui.fit_to_screen(picture), theme=None, key=key, config=ui.svg_export(cell.file)
            )
        else:
            width = "stretch" if cell.fits else "content"
            chart = ui.fit_to_screen(picture, extra_px=0 if self.is_half else cell.extra_px)
            st.altair_chart(chart, key=key, width=width)
        if cell.caption:
            st.caption(cell.caption)

    def _explain(self, run: CurrentRun) -> None:
        """Place the text and the files, only of the current run."""
        if self.prefix:
            return
        view, choices, session = self.view, self.choices, self.session
        with st.container(key="explanation"):
            if text := view.text(run, choices):
                st.markdown(text)
            if files := view.files(run, choices):
                offer(files, lambda: session.shown)
            if note := view.files_note(run, choices):
                st.caption(note)


def offer(files: Sequence[File], current_run: Callable[[], CurrentRun]) -> None:
    """Draw a link for each file; it is made from the `current_run` on request."""

    def of_shown(make: Callable[[CurrentRun], Any]) -> Callable[[], Any]:
        return lambda: make(current_run())

    ui.downloads(
        [
            Download(each.label, each.name, of_shown(each.make), of_shown(each.about))
            for each in files
        ]
    )


def _holds(cells: Sequence[PageCell], kind: Any) -> bool:
    """Return True if a cell of this kind is among them, or in their columns."""
    return any(
        isinstance(cell, kind)
        or (isinstance(cell, Columns) and any(_holds(column, kind) for column in cell.columns))
        for cell in cells
    )


def _ignore(*arguments: object) -> None:
    """Ignore a change requested of the pinned run."""
