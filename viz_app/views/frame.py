"""The frame of every page.

It draws what a page declares (page.py), for the current run and for the pinned one beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models import InputError
from viz_app import checkpoints, ui
from viz_app.components.catalogue import NEXT, PLAIN, SECTIONS, STATES
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.controls.change_bar import changed_run
from viz_app.controls.other_models import offer_models
from viz_app.controls.pin_bar import open_pinned, run_name, strips
from viz_app.controls.similarity_text import NOTE
from viz_app.drawing.extent import Scaled, on_one_scale
from viz_app.drawing.notes import check_summary, plain_sentence, small_print, strip
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.downloads import Download
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.parameters import Switch, declared
from viz_app.session.pinned import Pinned
from viz_app.views.page import (
    Cell,
    Checks,
    Columns,
    Explanation,
    File,
    Find,
    Foot,
    NextQuestion,
    Page,
    Plot,
    Prose,
    Row,
    Shown,
    Table,
    View,
    Widget,
)
from viz_app.views.run_difference import HOW, KEYS, differences
from viz_app.views.run_difference import NOTE as ABOUT_DIFFERENCE

STRIP = ("written", "unrecorded", NOTE)  # pictures above the controls, where they are there
SUMMARY = "checked"  # the number of checks passed
QUESTION = "next"  # the question that the page ends in
DETAILS = "Details: how to read this, the checks, and files"
CHECKS_ONLY = "Details: the checks"  # of the pinned run
BESIDE = "pin "  # before the key of a picture of the pinned run
DIFFERENCE = Switch("difference")
OTHER_KIND = (
    "This page shows another kind of picture of the pinned run, so the two cannot be compared."
)

Draw = Callable[[CurrentRun], Pictures]


def show_page(page: Page, session: LiveSession, original: CurrentRun) -> Draw | None:
    """Draw the page of this run with the session's changes, beside the pinned run if there is one.

    Return how its pictures are made of another run; None if they cannot be made at every key.
    """
    run = changed_run(session, original, is_changed=page.shows_changes, named=page.names)
    ui.headline(page.question, page.answer(run))
    find = page.views[_section(page, run)]
    view = find(run)
    is_of_run = isinstance(view, str) or view.is_of_run
    pinned, other = (
        open_pinned(session, run, is_changed=page.shows_changes) if is_of_run else (None, None)
    )
    session.beside = pinned and pinned.beside
    can_differ = not isinstance(view, str) and view.quantities is not None
    strip_room, pinned_room = strips(
        session, run, pinned, other, _offer_difference if can_differ else lambda: None
    )
    if isinstance(view, str):
        with strip_room:
            ui.run_strip(run.trace, run.terms, run.stale)
        if other is not None:
            with pinned_room:
                ui.run_strip(other.trace, other.terms, False, BESIDE)
        with st.container(key="explanation"):
            st.markdown(view)
        offer_models(find, run)
        return None
    one = _One(page, view, view.choose(run), session, strip_room)
    if pinned is None or other is None:
        session.pinned_pictures = None
        return one.draw(run)
    both = _Both(one, find, run, pinned, other, pinned_room)
    return both.draw_difference() if can_differ and url_state.get(DIFFERENCE) else both.draw()


def _offer_difference() -> None:
    """Draw the switch between both runs and their difference."""
    about = "Show this run minus the pinned run, number by number, instead of both."
    pick.switched("Difference", DIFFERENCE, help=about)


def _section(page: Page, run: CurrentRun) -> str:
    """Let the reader choose one of several views of the page.

    Those that the model lacks are disabled.
    """
    if page.section is None:
        return next(iter(page.views))
    why = {name: _why_none(find, run) for name, find in page.views.items()}
    reasons = {name: plain_sentence(reason) for name, reason in why.items() if reason}
    shown = [name for name in why if name not in reasons]
    chosen = url_state.get(page.section) or [*shown, *why][0]
    chosen = st.segmented_control(
        "Section",
        list(page.views),
        required=True,
        label_visibility="collapsed",
        **url_state.bound(page.section, chosen),
    )
    show(SECTIONS, {"control": page.section.name, "reasons": reasons}, key="section-reasons")
    return chosen


def _why_none(find: Find, run: CurrentRun) -> str:
    """Return why a section shows nothing of this model; "" if it does, or could of another text."""
    try:
        view = find(run)
    except InputError:
        return ""
    return view if isinstance(view, str) else ""


def offer(files: Sequence[File], shown: Callable[[], CurrentRun]) -> None:
    """Draw a link for each file; it is made of the run `shown` when it is asked for."""

    def of_shown(make: Callable[[CurrentRun], Any]) -> Callable[[], Any]:
        return lambda: make(shown())

    ui.downloads(
        [
            Download(each.label, each.name, of_shown(each.make), of_shown(each.about))
            for each in files
        ]
    )


@dataclass(frozen=True)
class _One:
    """One view of a run on the page."""

    page: Page
    view: View[Any]
    choices: Any
    session: LiveSession
    above: DeltaGenerator  # room for what was read and written
    prefix: str = ""  # of the keys of its elements
    is_half: bool = False  # beside that of another run

    def draw(self, run: CurrentRun) -> Draw | None:
        pictures = self.pictures
        self.lay_out(run, pictures(run))
        return pictures if self.view.is_live(self.choices) else None

    def pictures(self, run: CurrentRun) -> Pictures:
        return on_one_scale(self.drawn(run))[0]

    def drawn(self, run: CurrentRun) -> Pictures:
        """Make the pictures of a run, what it read and wrote among them."""
        pictures = dict(self.view.payloads(run, self.choices))
        if "checks" in pictures:
            pictures[SUMMARY] = check_summary(pictures["checks"])
        return self.around(run) | pictures

    def around(self, run: CurrentRun) -> Pictures:
        """Make what surrounds the pictures: the texts read and written, the question at the end."""
        pictures: Pictures = {}
        if not self.prefix:
            pictures[QUESTION] = {"question": self._leads_to(run).question}
        if self.view.has_strip:
            pictures["written"] = strip(run.trace, run.terms, run.stale)
        return pictures

    def _leads_to(self, run: CurrentRun) -> NextQuestion:
        return self.page.leads_to(run, self.choices)

    def _go(self) -> None:
        """Open the page that answers the question, at the next rerun."""
        question = self._leads_to(self.session.shown)
        for name, value in question.chosen.items():
            url_state.keep(declared()[name], value)
        self.session.leaves_for = question.page

    def lay_out(self, run: CurrentRun, drawn: Pictures) -> None:
        """Place the pictures, and a foot below them where the view has not placed it itself."""
        with self.above:
            for key in STRIP:
                if key in drawn:
                    show(PLAIN, drawn[key], key=self.prefix + key)
        cells = self.view.layout(run, self.choices, drawn)
        if not _holds(cells, Foot | Explanation | Checks):
            cells = [*cells, Foot()]
        self._place(cells, run, drawn)
        if not _holds(cells, Foot):
            self._ask(drawn)

    def _place(self, cells: Sequence[Cell], run: CurrentRun, drawn: Pictures) -> None:
        for cell in cells:
            if isinstance(cell, Columns):
                self._columns(cell, run, drawn)
            elif isinstance(cell, Row):
                with st.container(horizontal=True, gap="medium", key=self.prefix + cell.key):
                    self._place(cell.cells, run, drawn)
            elif isinstance(cell, Foot):
                self._draw_details(cell, run, drawn)
            elif isinstance(cell, Explanation):
                self._explain(run)
            elif isinstance(cell, Checks):
                if "checks" in drawn:
                    if not cell.is_counted:
                        show(PLAIN, drawn[SUMMARY], key=self.prefix + SUMMARY)
                    ui.checks_panel(drawn["checks"], self.view.trained(run), self.prefix)
            elif isinstance(cell, Prose):
                (st.caption if cell.is_small else st.markdown)(cell.text)
            elif isinstance(cell, Widget):
                if not self.prefix:
                    cell.draw()
            elif cell.picture in drawn:
                self._show(cell, drawn[cell.picture])

    def _draw_details(self, foot: Foot, run: CurrentRun, drawn: Pictures) -> None:
        """Place explanation, files and checks in a drawer, beside the number of checks passed."""
        with st.container(horizontal=True, gap="small", key=self.prefix + "details"):
            if SUMMARY in drawn:
                show(PLAIN, drawn[SUMMARY], key=self.prefix + SUMMARY)
            with st.expander(CHECKS_ONLY if self.prefix else DETAILS):
                self._place(
                    [Columns(foot.widths, ([Explanation()], [Checks(is_counted=True)]))], run, drawn
                )
            self._ask(drawn)

    def _ask(self, drawn: Pictures) -> None:
        """Place the question that the page ends in."""
        if QUESTION in drawn:
            show(NEXT, drawn[QUESTION], key=QUESTION, on_go=self._go)

    def _columns(self, cell: Columns, run: CurrentRun, drawn: Pictures) -> None:
        if cell.stack and self.is_half:
            self._place([one for column in cell.columns for one in column], run, drawn)
            return
        for column, inner in zip(st.columns(cell.widths, gap="medium"), cell.columns, strict=True):
            with column:
                self._place(inner, run, drawn)

    def _show(self, cell: Shown | Plot | Table, picture: Any) -> None:
        key = self.prefix + cell.picture
        if isinstance(cell, Table):
            whole = st.column_config.NumberColumn(format="localized")
            columns = dict.fromkeys(cell.counted, whole)
            height = cell.height or "auto"
            st.dataframe(picture, height=height, hide_index=True, key=key, column_config=columns)
            return
        if isinstance(cell, Shown):
            change = {name: _ignore for name in cell.change} if self.prefix else cell.change
            show(cell.component, picture, key, **cell.choose, **change)
        elif cell.file:
            st.plotly_chart(ui.presented(picture), theme=None, key=key, config=ui.camera(cell.file))
        else:
            width = "stretch" if cell.fits else "content"
            st.altair_chart(ui.presented(picture), key=key, width=width)
        if cell.caption:
            st.caption(cell.caption)

    def _explain(self, run: CurrentRun) -> None:
        """Place the text and the files, of the current run alone."""
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


@dataclass(frozen=True)
class _Both:
    """The current run's view beside the pinned run's: the same components on one scale."""

    one: _One
    find: Find
    run: CurrentRun
    pinned: Pinned
    other: CurrentRun  # the pinned run beside `run`
    above: DeltaGenerator  # room for what it read and wrote

    def draw(self) -> Draw | None:
        left, right = st.columns(2, gap="medium")
        pictures = _PicturesOfBoth(self.one, self.pinned)
        why = self._why_not()
        if not why:
            try:
                drawn = pictures.of(self.run)
            except InputError as error:
                why = checkpoints.error_message(error)
        if why:
            with self.above:
                ui.run_strip(self.other.trace, self.other.terms, False, BESIDE)
            with right:
                st.markdown(why)
            with left:
                return self.one.draw(self.run)
        with left:
            replace(self.one, is_half=True).lay_out(self.run, drawn)
        with right:
            named = {key.removeprefix(BESIDE): key for key in drawn if key.startswith(BESIDE)}
            beside = replace(_beside(self.one, self.run, self.other), above=self.above)
            beside.lay_out(self.other, {name: drawn[key] for name, key in named.items()})
        return pictures.live if self.one.view.is_live(self.one.choices) else None

    def draw_difference(self) -> Draw | None:
        """Draw this run minus the pinned one in place of both."""
        pictures = _PicturesOfBoth(self.one, self.pinned)
        try:
            why = self._why_not()
            drawn = self.one.around(self.run) | (
                {ABOUT_DIFFERENCE: small_print(why)} if why else pictures.difference(self.run)
            )
        except InputError as error:
            drawn = self.one.around(self.run)
            drawn[ABOUT_DIFFERENCE] = small_print(checkpoints.error_message(error))
        if BESIDE + "written" in drawn:
            with self.above:
                show(PLAIN, drawn[BESIDE + "written"], key=BESIDE + "written")
        shown = [Shown(STATES, key) for key in KEYS if key in drawn]
        cells: list[Cell] = [Columns((1, 1), ([shown[0]], [shown[1]]))] if shown[1:] else [*shown]
        view = replace(
            self.one.view,
            layout=lambda run, choices, drawn: [*cells, Shown(PLAIN, ABOUT_DIFFERENCE)],
            text=lambda run, choices: HOW,
            files=lambda run, choices: (),
            files_note=lambda run, choices: "",
        )
        replace(self.one, view=view).lay_out(self.run, drawn)
        return pictures.live_difference if self.one.view.is_live(self.one.choices) else None

    def _why_not(self) -> str:
        """Return why the pinned run has not the same view; "" if it has."""
        view = self.find(self.other)
        if isinstance(view, str):
            return view
        return "" if view is self.one.view else OTHER_KIND


@dataclass(frozen=True)
class _PicturesOfBoth:
    """The pictures of a current run and of the pinned run on one scale, at every key.

    It refers to neither run, so that a page that is left holds none. A pinned run whose text is
    fixed may be long: its pictures are made once and kept in the session.
    """

    one: _One
    pinned: Pinned

    def of(self, run: CurrentRun) -> Pictures:
        """Make the pictures of both runs.

        Raises:
            InputError: the pinned model cannot read the text.
        """
        current, pinned = on_one_scale(self.one.drawn(run), self._of_pinned(run))
        return current | {BESIDE + key: picture for key, picture in pinned.items()}

    def live(self, run: CurrentRun) -> Pictures:
        """Make the pictures of both runs.

        Only the current one has them where the pinned model cannot read the text.
        """
        try:
            return self.of(run)
        except InputError:
            return self.one.pictures(run)

    def difference(self, run: CurrentRun) -> Pictures:
        """Make the pictures of this run minus the pinned one.

        Raises:
            InputError: the pinned model cannot read the text.
        """
        other = self.pinned.beside(run)
        beside = _beside(self.one, run, other)
        quantities = self.one.view.quantities
        both = quantities(run, self.one.choices), quantities(other, beside.choices)
        about = facts(run.trace, minus=run_name(other))
        drawn = differences(*both, saving(file_name(run.trace, "difference"), about))
        around = {BESIDE + key: picture for key, picture in beside.around(other).items()}
        return around | drawn

    def live_difference(self, run: CurrentRun) -> Pictures:
        """Make the same at every key, and say so where the pinned model cannot read the text."""
        try:
            return self.one.around(run) | self.difference(run)
        except InputError as error:
            why = small_print(checkpoints.error_message(error))
            return self.one.around(run) | {ABOUT_DIFFERENCE: why}

    def _of_pinned(self, run: CurrentRun) -> Pictures:
        kept = self.one.session.pinned_pictures
        if self.pinned.texts is not None and kept and kept[0] is self:
            return kept[1]
        other = self.pinned.beside(run)
        drawn = _beside(self.one, run, other).drawn(other)
        if self.pinned.texts is not None:
            drawn = {
                key: picture.drawn_once() if isinstance(picture, Scaled) else picture
                for key, picture in drawn.items()
            }
            self.one.session.pinned_pictures = self, drawn
        return drawn


def _beside(one: _One, run: CurrentRun, other: CurrentRun) -> _One:
    """Return the same view of the other run, with the nearest choices that it has."""
    choices = one.view.within(one.choices, run, other)
    return replace(one, choices=choices, prefix=BESIDE, is_half=True)


def _holds(cells: Sequence[Cell], kind: Any) -> bool:
    """Return True if a cell of this kind is among them, or in their columns."""
    return any(
        isinstance(cell, kind)
        or (isinstance(cell, Columns) and any(_holds(column, kind) for column in cell.columns))
        for cell in cells
    )


def _ignore(*arguments: object) -> None:
    """Ignore a change requested of the pinned run."""
