"""The places of a model: the sections of each page, and the ready comparisons."""

from collections.abc import Sequence
from dataclasses import replace

from viz_app.navigation import PAGES
from viz_app.static_pages.contents import ModelTexts, StaticPage
from viz_app.static_pages.crawl import run_job
from viz_app.static_pages.recording import READY_PAIRS
from viz_app.static_pages.still import Job
from viz_app.views.compare.page import COMPARE_PAGE
from viz_app.without_server import held_interrupts, many_runs


def places(example: ModelTexts, tabs: Sequence[str]) -> list[StaticPage]:
    """Return the pages of a model, including those that show nothing of it.

    Raises:
        ValueError: the ready comparisons cannot be listed.
    """
    pages = []
    for tab in tabs:
        first, *others = (StaticPage(example.checkpoint, tab, name) for name in PAGES[tab].views)
        is_compare = PAGES[tab] is COMPARE_PAGE
        pages += [*(_comparisons(example, first) if is_compare else [first]), *others]
    return pages


def _comparisons(example: ModelTexts, place: StaticPage) -> list[StaticPage]:
    """Return a place for each ready comparison."""
    with many_runs(), held_interrupts():
        state = run_job(_list_pairs, Job(example.scope, example.texts, place, ""))
    return [replace(place, pair=pair, begins=begins) for pair, begins in state[READY_PAIRS].items()]


def _list_pairs() -> None:
    """List the ready comparisons of the job."""
    from viz_app.static_pages.recording import list_pairs

    list_pairs()
