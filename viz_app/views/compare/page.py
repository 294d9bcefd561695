"""Compare: which heads of two runs differ, and where?"""

from collections.abc import Sequence

from viz_app.components.catalogue import DIFFERENCE, DISTANCES
from viz_app.controls import pick, which_head
from viz_app.controls.pin_bar import name_pinned, open_pinned
from viz_app.drawing import provenance
from viz_app.drawing.sites import by_kind
from viz_app.session import live, pinned, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import HEAD, SITE, Focus, chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views import onward
from viz_app.views.compare import state, text
from viz_app.views.compare.compared import within
from viz_app.views.compare.matches import MATCHES
from viz_app.views.compare.offers import offers
from viz_app.views.compare.payloads import Choices, payloads, table
from viz_app.views.page import Cell, Columns, File, Find, Page, Shown, View, csv_file


def _choose(run: CurrentRun) -> Choices:
    """Draw what this run is compared with, and return the choices."""
    settings, other = open_pinned(live.session(), run)
    if settings is None or other is None:
        return _beside_itself(run)
    with pick.row("compared", "small"):
        name_pinned(live.session(), run, settings, other)
        _choose_head(other)
    return Choices(settings, _focus(run), within(other.trace, state.other_head()))


def _beside_itself(run: CurrentRun) -> Choices:
    """Offer what to pin, and let the reader choose the head that all others are compared with."""
    site, focus = chosen_focus(run.trace)
    if not pinned.checkpoint():
        with pick.row("compared", "small"):
            pick.words(text.BESIDE_ITSELF)
            for offer in offers(run, site.name, focus.head):
                pick.button(offer.label, offer.key, offer.action, help=offer.help or None)
    with which_head.row():
        which_head.which_head(dict(by_kind(run.trace)), site, focus.head)
    return Choices(None, focus, within(run.trace, state.other_head()))


def _focus(run: CurrentRun) -> Focus:
    """Return the chosen head; of a link that names one the run lacks, the nearest."""
    if not url_state.get(SITE):
        url_state.get(HEAD)
        return Focus()
    return chosen_focus(run.trace)[1]


def _choose_head(other: CurrentRun) -> None:
    """Let the reader compare with one head of the pinned run."""
    heads = [
        (site.name, head)
        for _, sites in by_kind(other.trace)
        for site in sites
        for head in range(site.n_heads)
    ]
    options = ["", *(state.written(head) for head in heads)]
    chosen = within(other.trace, state.other_head())
    pick.one_of_many(
        text.WITH,
        state.OTHER,
        options,
        state.written(chosen) if chosen else "",
        lambda option: _named(other, option),
        help=text.WITH_HELP,
        width=260,
        label_visibility="collapsed",
    )


def _named(other: CurrentRun, option: str) -> str:
    if (head := state.parsed(option)) is None:
        return text.SAME
    return text.place(other.trace.attention[head[0]], head[1])


def _layout(run: CurrentRun, choices: Choices, drawn: Pictures) -> Sequence[Cell]:
    grid = Shown(DISTANCES, choose={"on_pick": state.pick})
    return [Columns((1.25, 2), ([grid], [Shown(DIFFERENCE)]))]


def _files(run: CurrentRun, choices: Choices) -> Sequence[File]:
    name = provenance.file_name(run.trace, "head-distances")
    return [csv_file("All distances, CSV", name, lambda now: table(now, choices))]


GRID = View(
    payloads,
    _layout,
    choose=_choose,
    text=lambda run, choices: text.EXPLANATION,
    files=_files,
    has_strip=False,
    is_of_run=False,
)
SECTIONS: dict[str, Find] = {
    "This text": lambda run: GRID if run.trace.attention else text.NONE,
    "Many texts": lambda run: _many(run),
}
SECTION = Choice("compare-section", "", options=tuple(SECTIONS))


def _many(run: CurrentRun) -> View | str:
    if not run.trace.attention:
        return text.NONE
    return MATCHES if run.scope.model.text_fields else text.NO_TEXT


def _answer(run: CurrentRun) -> str:
    if not run.trace.attention:
        return text.NONE
    return text.ANSWER_MANY if url_state.get(SECTION) == "Many texts" else text.ANSWER


COMPARE = Page(
    "Compare",
    text.QUESTION,
    _answer,
    SECTIONS,
    lambda run, choices: onward.what_attention_changed(run),
    SECTION,
)
