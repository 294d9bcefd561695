"""The section Heads: what happens if a head is switched off or scaled?"""

from collections.abc import Callable, Sequence
from functools import partial

from models.runs.held_out import MIN_TEXTS
from models.trace.edits import MaskChange
from viz_app import words
from viz_app.components.catalogue import BOARD, OUTCOME
from viz_app.controls import pick, scoring
from viz_app.drawing import provenance
from viz_app.drawing.stamp import Facts
from viz_app.session import run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.interventions import findings, state, text
from viz_app.views.interventions.decisions import decisions, option_noun
from viz_app.views.interventions.payloads import (
    HeadOffChoices,
    followed_decision,
    head_off_facts,
    head_off_parts,
    head_off_payloads,
    head_off_table,
)
from viz_app.views.page import Columns, File, PageCell, ShownComponent, View, Widget, csv_file

MAX_EDIT_BUTTONS = 6  # edits with a button of their own


def _choose(run: CurrentRun) -> HeadOffChoices:
    """Draw the row of controls and return the choices."""
    with pick.control_row("interventions", "small"):
        baseline = pick.pick_few(
            "A head that is off passes on",
            state.BASELINE,
            _baselines(run),
            text.BASELINE_NAMES.__getitem__,
            help=text.BASELINE_HELP,
        )
        metric = pick.pick_few(
            "Measured by",
            state.METRIC,
            state.METRIC.options,
            text.METRIC_NAMES.__getitem__,
            help=text.METRIC_HELP.format(option_noun(run.trace)),
        )
    return HeadOffChoices(url_state.get(state.FOLLOWED_POSITION), metric, baseline)


def list_edits(run: CurrentRun) -> None:
    """Draw a button for each edit, which undoes it, and one for all."""
    edits = [edit for edit in run.spec.edits if not isinstance(edit, MaskChange)]
    if not edits:
        return
    with pick.control_row("head-edits", "small"):
        for i, edit in enumerate(edits[:MAX_EDIT_BUTTONS]):
            _undo(
                words.edit_label(edit, run.trace.attention),
                f"undo-edit-{i}",
                partial(state.undo_edit, edit),
            )
        if len(edits) > 1:
            _undo(f"Undo all {len(edits)}", "undo-edits", partial(run_changes.undo_change, "edits"))


def _undo(label: str, key: str, action: Callable[[], None]) -> None:
    pick.button(label, key, action, icon=":material/undo:", help="Click to undo.")


def _baselines(run: CurrentRun) -> list[str]:
    """Return the baselines that this checkpoint has the texts for."""
    needed = {"mean": MIN_TEXTS, "resample": 1}
    n_texts = len(run.scope.held_out)
    return [name for name in state.BASELINE.options if n_texts >= needed.get(name, 0)]


def find_heads(run: CurrentRun) -> View[HeadOffChoices] | str:
    """Return the view of this run, or why none of its heads can be changed."""
    sites = run.trace.attention.values()
    if not run.scope.model.can_edit_masks or not any(site.has_causes for site in sites):
        return text.NO_HEADS_TO_CHANGE
    return BOARD_OF_HEADS if decisions(run.unchanged.trace) else text.no_answer(run.scope.model)


def _layout(run: CurrentRun, choices: HeadOffChoices, pictures: Pictures) -> Sequence[PageCell]:
    board = ShownComponent(
        BOARD, change={"on_switch": state.switch_head, "on_scale": state.scale_head}
    )
    outcome = ShownComponent(
        OUTCOME, choose={"on_choose": partial(url_state.set_value, state.FOLLOWED_POSITION)}
    )
    beside = [
        outcome,
        Widget(partial(list_edits, run)),
        Widget(partial(findings.finding_buttons, run)),
    ]
    return [Columns((1.5, 1), ([board, Widget(partial(scoring.scoring, run))], beside))]


def _files(run: CurrentRun, choices: HeadOffChoices) -> Sequence[File]:
    parts = head_off_parts(followed_decision(run, choices), choices)
    name = provenance.file_name(run.trace, "head-effects", *parts)

    def about(now: CurrentRun) -> Facts:
        return head_off_facts(followed_decision(now, choices), choices)

    return [csv_file("All effects, CSV", name, lambda now: head_off_table(now, choices), about)]


BOARD_OF_HEADS = View(
    head_off_payloads,
    _layout,
    choose=_choose,
    text=lambda run, choices: text.HEADS_EXPLANATION.format(noun=option_noun(run.trace)),
    files=_files,
    has_strip=False,
)
