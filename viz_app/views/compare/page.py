"""Compare: which heads of two runs differ, and where?"""

from collections.abc import Sequence
from dataclasses import replace

from viz_app.components.catalogue import DIFFERENCE, DISTANCES
from viz_app.controls import pick, which_head
from viz_app.controls.pin_bar import name_pinned, open_pinned
from viz_app.drawing.sites import by_kind
from viz_app.session import live, pinned, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import FOCUS_HEAD, FOCUS_SITE, Focus, chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views import onward
from viz_app.views.compare import state, text
from viz_app.views.compare.compared import head_within
from viz_app.views.compare.grid import about_distances
from viz_app.views.compare.matches import MATCHES
from viz_app.views.compare.offers import offers
from viz_app.views.compare.payloads import (
    CompareChoices,
    compare_payloads,
    current_comparison,
    distance_table,
    file_of_distances,
)
from viz_app.views.page import Columns, File, Find, Page, PageCell, ShownComponent, View, csv_file

MAX_HEADS_BESIDE_MAPS = 6  # heads per layer up to which the maps get a wider column


def _choose(run: CurrentRun) -> CompareChoices:
    """Draw what this run is compared with, and return the choices."""
    settings, other = open_pinned(live.live_session(), run)
    if settings is None or other is None:
        return _beside_itself(run)
    with pick.control_row("compared", "small"):
        name_pinned(live.live_session(), run, settings, other)
        _choose_head(other)
    return CompareChoices(settings, _focus(run), head_within(other.trace, state.other_head()))


def _beside_itself(run: CurrentRun) -> CompareChoices:
    """Offer what to pin, and let the reader choose the head that all others are compared with."""
    site, focus = chosen_focus(run.trace)
    if not pinned.checkpoint():
        with pick.control_row("compared", "small"):
            pick.write_words(text.BESIDE_ITSELF)
            for offer in offers(run, site.name, focus.head):
                pick.button(offer.label, offer.key, offer.action, help=offer.help or None)
    with which_head.head_row():
        which_head.which_head(dict(by_kind(run.trace)), site, focus.head)
    return CompareChoices(None, focus, head_within(run.trace, state.other_head()))


def _focus(run: CurrentRun) -> Focus:
    """Return the chosen head; for a link to one that the run lacks, the nearest."""
    if not url_state.get(FOCUS_SITE):
        url_state.get(FOCUS_HEAD)
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
    options = ["", *(state.url_of_head(head) for head in heads)]
    chosen = head_within(other.trace, state.other_head())
    pick.one_of_many(
        text.PINNED_HEAD,
        state.REFERENCE_HEAD,
        options,
        state.url_of_head(chosen) if chosen else "",
        lambda option: _named(other, option),
        help=text.WITH_HELP,
        width=260,
        label_visibility="collapsed",
    )


def _named(other: CurrentRun, option: str) -> str:
    if (head := state.head_from_url(option)) is None:
        return text.SAME_HEAD
    return text.compared_head_name(other.trace.attention[head[0]], head[1])


def _layout(run: CurrentRun, choices: CompareChoices, pictures: Pictures) -> Sequence[PageCell]:
    grid = ShownComponent(DISTANCES, choose={"on_pick": state.pick_reference_head})
    most = max(site.n_heads for site in run.trace.attention.values())
    widths = (1, 2.6) if most <= MAX_HEADS_BESIDE_MAPS else (1.25, 2)
    return [Columns(widths, ([grid], [ShownComponent(DIFFERENCE)]))]


def _files(run: CurrentRun, choices: CompareChoices) -> Sequence[File]:
    name = file_of_distances(run, choices)
    file = csv_file("All distances, CSV", name, lambda now: distance_table(now, choices))
    return [replace(file, about=lambda now: about_distances(current_comparison(now, choices)))]


GRID_VIEW = View(
    compare_payloads,
    _layout,
    choose=_choose,
    text=lambda run, choices: text.DISTANCE_HELP,
    files=_files,
    has_strip=False,
    is_of_run=False,
)
COMPARE_SECTIONS: dict[str, Find] = {
    "This text": lambda run: GRID_VIEW if run.trace.attention else text.NO_HEADS_TO_COMPARE,
    "Many texts": lambda run: _many(run),
}
COMPARE_SECTION = Choice("compare-section", "", options=tuple(COMPARE_SECTIONS))


def _many(run: CurrentRun) -> View | str:
    if not run.trace.attention:
        return text.NO_HEADS_TO_COMPARE
    model = run.scope.model
    return MATCHES if model.reads_text else text.NO_TEXT_TO_COMPARE.format(model.fields[0].kind)


def _answer(run: CurrentRun) -> str:
    if not run.trace.attention:
        return text.NO_HEADS_TO_COMPARE
    return (
        text.ANSWER_MANY if url_state.get(COMPARE_SECTION) == "Many texts" else text.COMPARE_ANSWER
    )


COMPARE_PAGE = Page(
    "Compare",
    text.COMPARE_QUESTION,
    _answer,
    COMPARE_SECTIONS,
    lambda run, choices: onward.what_attention_changed(run),
    COMPARE_SECTION,
)
