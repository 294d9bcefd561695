"""What the page Inside a head shows of a run: the tokens to choose, the walk, the matrices or the heads, and the checks."""

from dataclasses import dataclass
from functools import partial

from models.analysis import walk_checks
from models.analysis.checks import Check, check_site
from models.trace import Trace
from viz_app import words
from viz_app.controls import similarity_text
from viz_app.drawing.notes import check_rows
from viz_app.drawing.weight_cell import Cell, token_choice
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.inside import cell as cells
from viz_app.views.inside import matrices
from viz_app.views.inside.several import FIRST, HeadGroup, several

DRAWN_BY_STREAMLIT = "scaling"  # the view that is charts, and has no payload


@dataclass(frozen=True)
class Choices:
    """The choices on the page: the view and its convention; the site and the
    head; the query and the key, None where a telling one is to be found; the stage where the walk begins; which of several heads
    by their numbers, None for the first by the measure, and the measure."""

    view: str
    convention: str
    site: str
    head: int
    query: int | None
    key: int | None
    stage: int
    heads: tuple[int, ...] | None = None
    measure: str = FIRST


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    if choices.view == "several":
        return _of_several(run, choices)
    cell = selection(run, choices)
    trace, terms = run.trace, run.terms
    views = {
        "walk": lambda: cells.walk(trace, cell, terms, choices.stage),
        "matrices": lambda: matrices.matrices(trace, cell, terms, choices.convention),
        "heads": lambda: cells.heads(trace, cell, terms),
    }
    return {
        **similarity_text.note(run, choices.site, choices.head),
        "choice": token_choice(trace, cell, terms),
        **({choices.view: views[choices.view]()} if choices.view in views else {}),
        "checks": check_rows(_checks(trace, cell)),
    }


def _checks(trace: Trace, cell: Cell) -> list[Check]:
    """Of a head that can be walked each step; of another what must hold of its weights."""
    walked = cell.site.projections or words.is_alignment(cell.site)
    return (
        walk_checks.check_walk(trace, cell.site, cell.query, cell.head)
        if walked
        else check_site(cell.site)
    )


def _of_several(run: CurrentRun, choices: Choices) -> Pictures:
    group = head_group(run, choices)
    sites = dict.fromkeys(group.heads[n][0].name for n in group.drawn_heads)
    query = (
        choices.query
        if choices.query is not None and choices.query < group.sites[0].n_query
        else None
    )
    return {
        **similarity_text.note(run, choices.site, choices.head),
        "several": several(group, run.terms, query),
        "checks": check_rows(
            _worst([_checks_of(run.trace, name) for name in sites or [choices.site]])
        ),
    }


def _checks_of(trace: Trace, name: str) -> list[Check]:
    return cache.trace_finding(trace, ("checks", name), lambda: check_site(trace.attention[name]))


def _worst(of_each_site: list[list[Check]]) -> list[Check]:
    """Of each claim the site that comes nearest to its limit or passes it furthest; NaN before all."""
    return [
        max(same, key=lambda check: (not check.passed, check.value))
        for same in zip(*of_each_site, strict=True)
    ]


def head_group(run: CurrentRun, choices: Choices) -> HeadGroup:
    """Return the heads of the chosen kind."""
    kind = run.trace.attention[choices.site].kind
    findings = partial(cache.trace_finding, run.trace)
    return HeadGroup(run.trace, kind, choices.measure, choices.heads, findings)


def selection(run: CurrentRun, choices: Choices) -> Cell:
    """Return the chosen weight."""
    site = run.trace.attention[choices.site]
    return cells.chosen_cell(run.trace, site, choices.head, choices.query, choices.key)
