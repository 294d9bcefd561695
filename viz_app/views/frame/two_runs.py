"""The current run's view beside the pinned run's, on one scale, or the difference of both."""

from dataclasses import dataclass, replace

import streamlit as st

from models import InputError
from viz_app import checkpoints, ui
from viz_app.components.catalogue import PLAIN, STATES
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.controls.pin_bar import RunRooms
from viz_app.drawing.extent import Scaled, on_one_scale
from viz_app.drawing.notes import small_print
from viz_app.drawing.provenance import name_of_two
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.session.pinned import Pinned
from viz_app.views.frame.one_run import Draw, OneRun
from viz_app.views.page import Columns, Find, PageCell, ShownComponent
from viz_app.views.run_difference import DIFFERENCE_HELP, KEYS, differences
from viz_app.views.run_difference import DIFFERENCE_NOTE as ABOUT_DIFFERENCE

SHOWN_COLUMN = Choice("beside-pin", 0, options=tuple(range(4)))
BESIDE = "pin "  # before the key of a picture of the pinned run
OTHER_KIND = (
    "This page shows another kind of picture of the pinned run, so the two cannot be compared."
)


@dataclass(frozen=True)
class TwoRuns:
    """The current run's view beside the pinned run's: the same components on one scale."""

    one: OneRun
    find: Find
    run: CurrentRun
    pinned: Pinned
    other: CurrentRun  # the pinned run beside `run`
    rooms: RunRooms

    def draw(self) -> Draw | None:
        with st.container(key="both-runs"):
            left, right = st.columns(2, gap="medium")
        pictures = _Pictures(self.one, self.pinned)
        why = self._why_not()
        if not why:
            try:
                picture = pictures.of(self.run)
            except InputError as error:
                why = checkpoints.error_message(error)
        if why:
            with self.rooms.pinned:
                ui.run_strip(self.other.trace, self.other.terms, False, BESIDE)
            with right:
                st.markdown(why)
            with left:
                return self.one.draw(self.run)
        one = replace(self.one, is_half=True, column=self._choose_column(picture))
        with left:
            one.lay_out(self.run, picture)
        with right:
            key_by_name = {
                key.removeprefix(BESIDE): key for key in picture if key.startswith(BESIDE)
            }
            beside = replace(_beside(one, self.run, self.other), above=self.rooms.pinned)
            beside.lay_out(self.other, {name: picture[key] for name, key in key_by_name.items()})
        return pictures.live if self.one.view.is_live(self.one.choices) else None

    def draw_difference(self) -> Draw | None:
        """Draw this run minus the pinned one in place of both."""
        pictures = _Pictures(self.one, self.pinned)
        try:
            why = self._why_not()
            pictures_drawn = self.one.around(self.run) | (
                {ABOUT_DIFFERENCE: small_print(why)} if why else pictures.difference(self.run)
            )
        except InputError as error:
            pictures_drawn = self.one.around(self.run)
            pictures_drawn[ABOUT_DIFFERENCE] = small_print(checkpoints.error_message(error))
        if BESIDE + "written" in pictures_drawn:
            with self.rooms.pinned:
                show(PLAIN, pictures_drawn[BESIDE + "written"], key=BESIDE + "written")
        components = [ShownComponent(STATES, key) for key in KEYS if key in pictures_drawn]
        cells: list[PageCell] = (
            [Columns((1, 1), ([components[0]], [components[1]]))]
            if components[1:]
            else [*components]
        )
        view = replace(
            self.one.view,
            layout=lambda run, choices, pictures_drawn: [
                *cells,
                ShownComponent(PLAIN, ABOUT_DIFFERENCE),
            ],
            text=lambda run, choices: DIFFERENCE_HELP,
            files=lambda run, choices: (),
            files_note=lambda run, choices: "",
        )
        replace(self.one, view=view).lay_out(self.run, pictures_drawn)
        return pictures.live_difference if self.one.view.is_live(self.one.choices) else None

    def _choose_column(self, pictures: Pictures) -> int:
        """Draw the choice among columns that only fit one at a time; return the chosen one."""
        cells = self.one.view.layout(self.run, self.one.choices, pictures)
        names = next((cell.names for cell in cells if isinstance(cell, Columns) and cell.names), ())
        if not names:
            return 0
        with self.rooms.choice:
            return pick.pick_few(
                "Picture",
                SHOWN_COLUMN,
                range(len(names)),
                names.__getitem__,
                label_visibility="collapsed",
            )

    def _why_not(self) -> str:
        """Return why the pinned run does not have the same view; "" if it does."""
        view = self.find(self.other)
        if isinstance(view, str):
            return view
        return "" if view is self.one.view else OTHER_KIND


@dataclass(frozen=True)
class _Pictures:
    """The pictures of a current run and of the pinned run on one scale, at every keystroke.

    It refers to neither run, so that a page that is left holds none. A pinned run whose text is
    fixed may be long: its pictures are made once and kept in the session.
    """

    one: OneRun
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

        Without those of the pinned run if its model cannot read the text.
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
        pictures = differences(*both, name_of_two(run.trace, other.trace))
        around = {BESIDE + key: picture for key, picture in beside.around(other).items()}
        return around | pictures

    def live_difference(self, run: CurrentRun) -> Pictures:
        """Make the difference at every keystroke, or a note if the pinned model cannot be run."""
        try:
            return self.one.around(run) | self.difference(run)
        except InputError as error:
            why = small_print(checkpoints.error_message(error))
            return self.one.around(run) | {ABOUT_DIFFERENCE: why}

    def _of_pinned(self, run: CurrentRun) -> Pictures:
        stored = self.one.session.pinned_pictures
        if self.pinned.texts is not None and stored and stored[0] is self:
            return stored[1]
        other = self.pinned.beside(run)
        pictures = _beside(self.one, run, other).drawn(other)
        if self.pinned.texts is not None:
            pictures = {
                key: picture.drawn_once() if isinstance(picture, Scaled) else picture
                for key, picture in pictures.items()
            }
            self.one.session.pinned_pictures = self, pictures
        return pictures


def _beside(one: OneRun, run: CurrentRun, other: CurrentRun) -> OneRun:
    """Return the same view of the other run, with the nearest choices that it has."""
    choices = one.view.within(one.choices, run, other)
    return replace(one, choices=choices, prefix=BESIDE, is_half=True)
