"""The payloads of the page Inside a head: tokens, walk, matrices or heads, and the checks."""

from dataclasses import dataclass, replace
from functools import partial

from models.analysis import walk_checks
from models.analysis.checks import Check, check_site
from models.trace import Trace
from viz_app import words
from viz_app.controls import similarity_text
from viz_app.drawing.extent import Scaled
from viz_app.drawing.notes import check_rows
from viz_app.drawing.weight_cell import WeightCell, chosen_cell, token_choice
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.views.inside import cell as cells
from viz_app.views.inside import matrices, scaling
from viz_app.views.inside.several import FIRST_MEASURE, HeadGroup, several_payload

DRAWN_BY_STREAMLIT = "scaling"  # the view made of charts, without a payload


@dataclass(frozen=True)
class HeadWalkChoices:
    """The choices on the page.

    They are the view and its convention; the site and the head; the query and the key, None for
    default ones; the stage at which the walk starts; the numbers of the heads whose lines are
    drawn, None for the first ones by the measure, and the measure.
    """

    view: str
    convention: str
    site: str
    head: int
    query: int | None
    key: int | None
    stage: int
    heads: tuple[int, ...] | None = None
    measure: str = FIRST_MEASURE


def walk_payloads(run: CurrentRun, choices: HeadWalkChoices) -> Pictures:
    """Return the payloads of all components of the page."""
    if choices.view == "several":
        return _several_heads(run, choices)
    cell = selection(run, choices)
    trace, terms = run.trace, run.terms
    draw = {
        "walk": partial(cells.walk_payload, trace, cell, terms, choices.stage),
        "matrices": partial(matrices.matrices, trace, cell, terms, choices.convention),
        "heads": partial(cells.head_sum_payload, trace, cell, terms),
    }
    pictures: Pictures = {}
    if choices.view in draw:
        pictures = {choices.view: Scaled(draw[choices.view])}
    elif choices.view == DRAWN_BY_STREAMLIT:
        pictures = scaling.charts(trace, cell)
    return {
        **similarity_text.similarity_note(run, choices.site, choices.head),
        "choice": token_choice(trace, cell, terms),
        **pictures,
        "checks": check_rows(_checks(trace, cell)),
    }


def _checks(trace: Trace, cell: WeightCell) -> list[Check]:
    """Return the checks of every step if the head has a walk, else those of its weights."""
    walked = cell.site.projections or words.is_alignment(cell.site)
    return (
        walk_checks.check_walk(trace, cell.site, cell.query, cell.head)
        if walked
        else check_site(cell.site)
    )


def _several_heads(run: CurrentRun, choices: HeadWalkChoices) -> Pictures:
    group = head_group(run, choices)
    sites = dict.fromkeys(group.heads[n][0].name for n in group.drawn_heads)
    query = (
        choices.query
        if choices.query is not None and choices.query < group.sites[0].n_query
        else None
    )
    return {
        **similarity_text.similarity_note(run, choices.site, choices.head),
        "several": several_payload(group, run.terms, query),
        "checks": check_rows(
            _worst([_checks_of(run.trace, name) for name in sites or [choices.site]])
        ),
    }


def _checks_of(trace: Trace, name: str) -> list[Check]:
    return cache.trace_finding(trace, ("checks", name), lambda: check_site(trace.attention[name]))


def _worst(by_site: list[list[Check]]) -> list[Check]:
    """Return, for each check, its worst result over the sites; failures and NaN come first."""
    return [
        max(results, key=lambda check: (not check.passed, check.value))
        for results in zip(*by_site, strict=True)
    ]


def walk_choices_within(
    choices: HeadWalkChoices, run: CurrentRun, other: CurrentRun
) -> HeadWalkChoices:
    """Return the choices for another run: the same site and weight, or its sharpest head."""
    focus = Focus(choices.site, choices.head).within(other.trace)
    chosen = replace(choices, site=focus.site, head=focus.head)
    if focus.site != choices.site or choices.view == "several":
        return chosen
    cell = selection(run, choices)
    return replace(chosen, query=cell.query, key=cell.key)


def head_group(run: CurrentRun, choices: HeadWalkChoices) -> HeadGroup:
    """Return the heads of the chosen kind."""
    kind = run.trace.attention[choices.site].kind
    findings = partial(cache.trace_finding, run.trace)
    return HeadGroup(run.trace, kind, choices.measure, choices.heads, findings)


def selection(run: CurrentRun, choices: HeadWalkChoices) -> WeightCell:
    """Return the chosen weight."""
    site = run.trace.attention[choices.site]
    return chosen_cell(run.trace, site, choices.head, choices.query, choices.key)
