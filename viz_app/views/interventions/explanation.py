"""The section "Is attention explanation?": other weights for one row, and the answer under them."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import torch

from models.checkpoint import CheckpointError
from models.runs.attention_row import AttentionRow, query_of
from models.runs.explanation import adversary
from models.trace import AttentionSite, Trace
from viz_app import checkpoints
from viz_app.components.catalogue import ROW_TESTS
from viz_app.controls import pick, which_head
from viz_app.drawing.sites import by_kind
from viz_app.session import cache, live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.other_seeds import other_seeds
from viz_app.session.parameters import Choice
from viz_app.views.interventions import explanation_text as text
from viz_app.views.interventions import heads, state
from viz_app.views.interventions import text as page_text
from viz_app.views.interventions.decisions import decisions
from viz_app.views.interventions.explanation_payload import (
    ADVERSARY,
    MAX_EXPLAINED_TOKENS,
    RowChoices,
    asked_row,
    explanation_payloads,
)
from viz_app.views.page import PageCell, ShownComponent, View, Widget

OTHER_MODEL = Choice("if-other", None, is_step=False)
MAX_SEEDS = 5


def find_explanation(run: CurrentRun) -> View[RowChoices] | str:
    """Return the view of this run, or why no row of it can be tried."""
    trace = run.unchanged.trace
    if not run.scope.model.can_edit_masks or not any(
        site.has_causes for site in trace.attention.values()
    ):
        return page_text.NO_HEADS_TO_CHANGE
    if not decisions(trace):
        return page_text.no_answer(run.scope.model)
    if max(len(row.ids) for row in trace.streams.values()) > MAX_EXPLAINED_TOKENS:
        return text.EXPLANATION_TOO_LONG.format(
            noun=page_text.noun_of(run.scope.model), most=MAX_EXPLAINED_TOKENS
        )
    return OTHER_WEIGHTS if _kinds(trace) else text.NO_ROW


def _kinds(trace: Trace) -> dict[str, list[AttentionSite]]:
    """Return the attentions whose rows lead to one decision each."""

    def leads(site: AttentionSite) -> bool:
        with suppress(ValueError):
            query_of(trace, site, 0)
            return True
        return False

    kinds = {kind: [site for site in sites if leads(site)] for kind, sites in by_kind(trace)}
    return {kind: sites for kind, sites in kinds.items() if sites}


def _choose(run: CurrentRun) -> RowChoices:
    """Draw the row of controls and return the choices."""
    kinds = _kinds(run.trace)
    site, focus = chosen_focus(run.trace)
    head = focus.head
    if not any(site.name == one.name for sites in kinds.values() for one in sites):
        site, head = list(kinds.values())[-1][-1], 0
    others = _others(run)
    other = url_state.chosen_option(OTHER_MODEL, others, others[0]) if others else None
    with which_head.head_row():
        which_head.which_head(kinds, site, head)
        if others:
            other = pick.one_of_many(
                "Other model",
                OTHER_MODEL,
                others,
                other,
                width=190,
                help=text.WEIGHTS_HELP["other"],
            )
    seeds = other_seeds(run.scope, others)[:MAX_SEEDS]
    return RowChoices(url_state.get(state.FOLLOWED_POSITION), site.name, head, other, seeds)


def _others(run: CurrentRun) -> list[str]:
    """Return the names of other checkpoints of this task, those of other seeds first."""
    names = []
    for name, folder in checkpoints.offered().items():
        with suppress(CheckpointError):
            training = cache.description(folder).training
            if name != run.scope.name and training.get("task", "") == run.scope.task:
                names.append(name)
    seeds = other_seeds(run.scope, names)[:MAX_SEEDS]
    return [*seeds, *(name for name in names if name not in seeds)]


def _layout(run: CurrentRun, choices: RowChoices, pictures: Pictures) -> Sequence[PageCell]:
    handlers = {
        "on_set": partial(_set, choices),
        "on_search": partial(_search, choices),
    }
    choose = {"on_choose": partial(url_state.set_value, state.FOLLOWED_POSITION)}
    where = asked_row(run, choices)[1].where
    others = any(
        edit.where != where for edit in run.spec.edits
    )  # the row's own edit has a button in the table
    listed = [Widget(partial(heads.list_edits, run))] if others else []
    return [ShownComponent(ROW_TESTS, choose=choose, change=handlers), *listed]


def _set(choices: RowChoices, weights: Sequence[float]) -> None:
    """Set the row to these weights as far as the mask allows; none leaves it to the model."""
    row = _shown_row(choices)
    if row is None:
        return
    edit = None
    if weights:
        target = torch.zeros(len(row.weights), dtype=torch.float64)
        numbers = torch.tensor(weights[: len(target)], dtype=torch.float64)
        target[: len(numbers)] = numbers.nan_to_num(0.0).clamp(0, 1)
        target = target * row.allowed
        if not float(target.sum()):
            return
        edit = row.edit(target / target.sum())
    state.keep_edit(row.where, edit)


def _search(choices: RowChoices) -> None:
    """Search for the adversary's weights; the next picture shows them."""
    if (row := _shown_row(choices)) is not None:
        cache.row_finding(row, ADVERSARY, partial(adversary, row))


def _shown_row(choices: RowChoices) -> AttentionRow | None:
    """Return the row in the run that is shown now; None if it has none."""
    try:
        return asked_row(live.live_session().shown, choices)[1]
    except ValueError:
        return None


OTHER_WEIGHTS = View(
    explanation_payloads,
    _layout,
    choose=_choose,
    text=lambda run, choices: text.ROW_EXPLANATION,
    has_strip=False,
)
