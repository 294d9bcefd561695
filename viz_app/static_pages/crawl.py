"""The stills of a model's static pages: each page, and what the clicks on it lead to."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs

from streamlit.testing.v1 import AppTest

from viz_app.navigation import PAGES
from viz_app.static_pages.charts import libraries
from viz_app.static_pages.contents import ModelTexts, StaticPage
from viz_app.static_pages.recording import JOB, RECORDED
from viz_app.static_pages.still import Job, Still, sorted_query
from viz_app.without_server import held_interrupts, many_runs

STILL_SECONDS = 600.0  # s for one still
CLICKS = 2  # clicks in a row that are followed, from the first view of a page
MAX_STILLS = 64  # stills of a page that its own clicks lead to
CHANGED_ONCE = ("interventions",)  # pages whose first view alone is followed by a changed run
# of a section, as a share of it: more for a click on each head, fewer where a still takes long
STILL_SHARES = {"Heads": 1.5, "Attribution": 0.6, "Patch": 0.4, "Is attention explanation?": 0.4}


@dataclass
class Pages:
    """The stills of each place by their addresses, beginning with the first view.

    `names` maps each requested address to the address of the still shown there; `missing` says
    why a place has no still.
    """

    stills: dict[StaticPage, dict[str, Still]] = field(default_factory=dict)
    names: dict[tuple[StaticPage, str], str] = field(default_factory=dict)
    missing: dict[StaticPage, str] = field(default_factory=dict)

    @property
    def components(self) -> set[str]:
        """The names of the components in all stills."""
        stills = [still for at_place in self.stills.values() for still in at_place.values()]
        return {part.component.name for still in stills for part in still.parts.values()}

    @property
    def libraries(self) -> list[str]:
        """The names of the libraries that draw the charts in all stills."""
        return sorted({name for place in self.stills for name in self.libraries_of(place)})

    def libraries_of(self, place: StaticPage) -> list[str]:
        """Return the names of the libraries that draw the charts of a place."""
        stills = self.stills[place].values()
        return libraries(chart for still in stills for chart in still.charts.values())

    def of_tab(self, tab: str) -> list[StaticPage]:
        """Return the places of a page of the app, one for each of its sections."""
        return [place for place in self.stills if place.tab == tab]

    def at(self, place: StaticPage, query: str) -> str | None:
        """Return the address of the still that an address shows; None if there is none."""
        return self.names.get((place, query))

    def target(self, tab: str, query: str) -> StaticPage | None:
        """Return the place that would show an address of the app; None if there is none."""
        places = self.of_tab(tab)
        section = PAGES[tab].section
        section_name = section and parse_qs(query).get(section.name, [""])[0]
        return next(
            iter([place for place in places if place.section == section_name] or places), None
        )


def crawl(example: ModelTexts, places: Iterable[StaticPage], report: Callable[[], object]) -> Pages:
    """Return the pages of a model; `report` is called whenever a still is made."""
    pages = Pages({place: {} for place in places})
    waiting = deque((place, "", 0) for place in pages.stills)
    with many_runs():
        while waiting:
            place, query, clicks = waiting.popleft()
            with held_interrupts():
                still = _still(example, pages, place, query, is_clicked=0 < clicks <= CLICKS)
            if still:
                report()
                waiting.extend(_onward(pages, place, still, clicks))
    return pages


def _still(
    example: ModelTexts, pages: Pages, place: StaticPage, query: str, is_clicked: bool
) -> Still | None:
    """Make the still at an address; None if it exists, is one too many, or shows nothing."""
    stills = pages.stills[place]
    if place in pages.missing or (place, query) in pages.names:
        return None
    if is_clicked and len(stills) >= STILL_SHARES.get(place.section, 1) * MAX_STILLS:
        return None
    still = _make_still(example, place, query)
    if still.missing:
        pages.missing[place] = still.missing
        return None
    pages.names[place, query] = pages.names[place, still.query] = still.query
    return stills.setdefault(still.query, still)


def _onward(
    pages: Pages, place: StaticPage, still: Still, clicks: int
) -> Iterator[tuple[StaticPage, str, int]]:
    """Yield the addresses that the clicks in a still and its question lead to.

    The question about a changed run is left to the app.
    """
    if clicks < CLICKS:
        has_changes = not clicks or place.tab not in CHANGED_ONCE
        moves = [move for move in still.moves if has_changes or not move.is_change]
        yield from ((place, move.query, clicks + 1) for move in moves)
    tab, query = still.leads_to
    if not still.is_changed and (target := pages.target(tab, query)):
        yield target, query, CLICKS + 1


def _make_still(example: ModelTexts, place: StaticPage, query: str) -> Still:
    """Run a page at an address, without a server, and return its still.

    Raises:
        ValueError: the page cannot be drawn.
    """
    section = PAGES[place.tab].section
    address = parse_qs(query or place.begins, keep_blank_values=True)
    if section:
        address[section.name] = [place.section]
    job = Job(example.scope, example.texts, place, sorted_query(query))
    return run_job(_record, job, address)[RECORDED]


def run_job(
    script: Callable[[], None], job: Job, address: Mapping[str, list[str]] = MappingProxyType({})
) -> Any:
    """Run a script on a job at an address of the app, without a server; return its session's state.

    AppTest runs the body of the function as a script, so that it imports what it needs.

    Raises:
        ValueError: the script failed.
    """
    app = AppTest.from_function(script, default_timeout=STILL_SECONDS)
    for name, texts in address.items():
        app.query_params[name] = texts
    app.session_state[JOB] = job
    app.run()
    if app.exception:
        raise ValueError(f"{job.place.file}: {app.exception[0].message}")
    return app.session_state


def _record() -> None:
    """Record the still of the job."""
    from viz_app.static_pages.recording import record_still

    record_still()
