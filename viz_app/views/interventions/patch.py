"""The section Patch: which part of a run carries its difference from another?

Every part is taken from the other run, in both directions.
"""

from collections.abc import Sequence
from functools import partial
from typing import cast

from models import CheckpointError
from models.architectures.base import FILE_FIELDS, Field
from models.field_file import FieldFile
from models.trace import Trace
from models.trace.edits import Edit, MaskChange, Patch, Where
from viz_app import words
from viz_app.components.catalogue import OUTCOME, PATCH, PLAIN, SCATTER
from viz_app.controls import pick
from viz_app.controls.file_box import file_upload, pick_file
from viz_app.controls.text_box import text_box
from viz_app.drawing import provenance
from viz_app.drawing.labels import token_text
from viz_app.drawing.stamp import Facts, facts
from viz_app.session import live, own_files, pinned, run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Parameter
from viz_app.session.remembered import recall, remember
from viz_app.session.url_state import parameter_of
from viz_app.views.interventions import findings, state, text
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.decisions import decisions
from viz_app.views.interventions.patch_effects import (
    PatchChoices,
    patch_facts,
    patch_parts,
    usable_pair,
)
from viz_app.views.interventions.patch_grids import grids, has_states, has_stream
from viz_app.views.interventions.patch_payloads import (
    PATCH_NOTE,
    patch_section_payloads,
    patch_table,
)
from viz_app.views.interventions.patch_runs import SIDES, Two, second_fields, two_runs
from viz_app.views.interventions.second_text import propose_second_text
from viz_app.views.page import Columns, File, PageCell, ShownComponent, View, Widget, csv_file

MAX_PATCH_BUTTONS = 4  # edits with a button of their own
_TASK, _USED = "patch task", "patch texts used"


def _choose(run: CurrentRun) -> PatchChoices:
    """Draw the row of controls and return the choices."""
    if recall(_TASK, run.scope.task) != run.scope.task and not url_state.is_url_driven():
        for parameter in (*state.PATCH_TEXTS, *state.PATCH_FILES.values()):
            url_state.set_value(parameter, None)
        url_state.set_value(state.OTHER_EDITS, ())
    remember(_TASK, run.scope.task)
    trace = run.unchanged.trace
    with pick.control_row("patch-controls", "small"):
        second = _boxes(run)
        fields = second_fields(run.scope, trace)
        values = [url_state.get(pinned.of_pinned(parameter_of(field))) or "" for field in fields]
        if pinned.checkpoint() and all(values):
            label = f"Take the pinned {text.noun_of(run.scope.model)}"
            pick.button(
                label, "patch-pinned", partial(use_pinned, state.patch_parameters(fields), values)
            )
        part = _part(run)
        streams = {one.key: one.title for one in grids(run.scope, trace, part)}
        stream = next(iter(streams), "")
        if len(streams) > 1 and part != say.GRADIENT_PART:
            stream = pick.pick_few(
                "Cells of", state.PATCH_STREAM, list(streams), lambda key: streams[key]
            )
        unit = pick.pick_few(
            "Effects", state.PATCH_UNIT, state.PATCH_UNIT.options, say.EFFECT_UNITS.__getitem__,
            help=say.UNIT_HELP,
        )  # fmt: skip
    used = recall(_USED, second)
    choices = PatchChoices(
        second, (used, propose_second_text(run.scope, trace)), url_state.get(state.FOLLOWED_POSITION), stream, part, unit,
        url_state.get(state.PATCH_SIDE), run_changes.with_patched_files(state.OTHER_EDITS, run.scope),
    )  # fmt: skip
    two, note = usable_pair(run, choices)
    if two is not None and not note:
        remember(_USED, second)
    return _within(two, choices)


def _part(run: CurrentRun) -> str:
    """Draw the choice of the parts that are shown, where there are several, and return it."""
    trace = run.unchanged.trace
    parts = ["residual"]
    if grids(run.scope, trace, say.FEED_FORWARD_PART):
        parts.append(say.FEED_FORWARD_PART)
    if any(site.has_causes for site in trace.attention.values()):
        parts.append(say.GRADIENT_PART)
    if len(parts) == 1:
        return parts[0]
    streams, states = has_stream(run.scope), has_states(run.scope)
    return pick.pick_few(
        "Part", state.PATCH_PART, parts, lambda part: say.part_title(part, streams, states),
        help=say.part_help(streams, run.scope.model.is_recurrent, states),
    )  # fmt: skip


def _within(two: Two | None, choices: PatchChoices) -> PatchChoices:
    """Leave out the patches of the other run that it cannot take."""
    fitting: tuple[Edit, ...] = ()
    for edit in choices.other_edits if two is not None else ():
        try:
            two.other.with_edits((*fitting, edit))
        except CheckpointError:
            continue
        fitting = (*fitting, edit)
    return PatchChoices(**{**vars(choices), "other_edits": fitting})


def _boxes(run: CurrentRun) -> tuple[str, ...]:
    """Draw a control for each field of the second text or file, and return their values."""
    trace, texts = run.unchanged.trace, []
    others = propose_second_text(run.scope, trace)
    fields = second_fields(run.scope, trace)
    parameters = state.patch_parameters(fields)
    for parameter, field, other in zip(parameters, fields, others, strict=False):
        one = field.kind if field.kind in FILE_FIELDS else "text"
        name = f"Second {one}" if len(fields) == 1 else f"Second: {run.terms.label(field.name)}"
        if field.kind in FILE_FIELDS:
            texts.append(_file(field, parameter, name, other))
            continue
        chosen = url_state.get(parameter)
        value, _ = text_box(
            name, parameter, other if chosen is None else chosen, height=68, width=300,
            help=say.LABEL_HELP,
        )  # fmt: skip
        texts.append(value)
    return tuple(texts)


def _file(field: Field, parameter: Parameter, label: str, other: str) -> FieldFile:
    """Draw the choice of a second file, and return the file."""
    session = live.live_session()
    file = _chosen_file(field, parameter, other)
    names = own_files.file_choices(session, field.kind)
    pick_file(
        names, label, parameter, own_files.reference_of(file), width=220,
        help=say.FILE_HELP.format(noun=field.kind),
    )  # fmt: skip
    file_upload(session, field, parameter)
    return file


def _chosen_file(field: Field, parameter: Parameter, other: str) -> FieldFile:
    """Return the chosen file, or `other` if none is chosen or the session no longer has it."""
    kind, reference = own_files.FILE_KINDS[field.kind], url_state.get(parameter)
    file = own_files.file_at(live.live_session(), field.kind, reference)
    if reference and file is None:
        url_state.use_fallback(parameter, None, f"{parameter.name}: {kind.not_in_link}")
    return file or cast(FieldFile, other)


def toggle_part(side: str, what: str, name: str, number: int) -> None:
    """Take a part of the other run into the shown one, or put its own part back.

    Parts that do not exist are ignored.
    """
    run = live.live_session().shown
    trace = run.unchanged.trace
    two, _ = usable_pair(run, _run_choices(run))
    if two is None or side not in SIDES:
        return
    if what == "cell" and name in trace.activations:
        where = Where(activation=name, queries=(number,))
        n = len(two.sides(side)[0].trace.activations[name].tokens)
    elif what == "head" and name in trace.attention:
        where, n = Where(site=name, heads=(number,)), trace.attention[name].n_heads
    else:
        return
    if 0 <= number < n:
        state.toggle_edit(side, two.patch(side, where))


def _run_choices(run: CurrentRun) -> PatchChoices:
    """Return the choices that decide which runs are compared, outside a rerun."""
    trace = run.unchanged.trace
    others = propose_second_text(run.scope, trace)
    fields = second_fields(run.scope, trace)
    second = tuple(
        _chosen_file(field, parameter, other)
        if field.kind in FILE_FIELDS
        else other
        if (chosen := url_state.get(parameter)) is None
        else chosen
        for parameter, field, other in zip(
            state.patch_parameters(fields), fields, others, strict=False
        )
    )
    position = url_state.get(state.FOLLOWED_POSITION)
    return PatchChoices(second, (recall(_USED, second), others), position, "", "residual", "", "")


def use_pinned(parameters: Sequence[Parameter], values: Sequence[str]) -> None:
    """Take the pinned run's texts or files as the second ones."""
    for parameter, one in zip(parameters, values, strict=False):
        url_state.set_value(parameter, one)


def _buttons(run: CurrentRun, choices: PatchChoices) -> None:
    """Draw a button for each edit, which undoes it, then the findings."""
    two, _ = usable_pair(run, choices)
    edits: list[tuple[Edit, str]] = [
        *((edit, "needed") for edit in run.spec.edits if not isinstance(edit, MaskChange)),
        *((edit, "enough") for edit in url_state.get(state.OTHER_EDITS)),
    ]
    if edits:
        with pick.control_row("patches", "small"):
            for i, (edit, side) in enumerate(edits[:MAX_PATCH_BUTTONS]):
                pick.button(
                    undo_label(run.unchanged.trace, edit, two), f"undo-patch-{i}", partial(undo_patch, edit, side),
                    icon=":material/undo:", help=f"{edit.describe(1)}. Click to undo.",
                )  # fmt: skip
            if len(edits) > 1:
                pick.button(
                    f"Undo all {len(edits)}", "undo-patches", undo_patches, icon=":material/undo:"
                )
    findings.finding_buttons(run)


def undo_patch(edit: Edit, side: str) -> None:
    """Undo one edit of this run or of the other."""
    if side == "needed":
        state.undo_edit(edit)
    else:
        url_state.set_value(
            state.OTHER_EDITS,
            tuple(one for one in url_state.get(state.OTHER_EDITS) if one != edit),
        )


def undo_patches() -> None:
    """Undo every edit of both runs."""
    run_changes.undo_change("edits")
    url_state.set_value(state.OTHER_EDITS, ())


def undo_label(trace: Trace, edit: Edit, two: Two | None = None) -> str:
    """Name an edit on its button, with its text if a patch is from neither of the two texts."""
    name = _place(trace, edit)
    if two is None or not isinstance(edit, Patch):
        return name
    is_of_them = edit.fields in (two.this.patched_from, two.other.patched_from)
    return name if is_of_them else f"{name}, from “{edit.quote}”"


def _place(trace: Trace, edit: Edit) -> str:
    site, heads = trace.attention.get(edit.where.site or ""), edit.where.heads or ()
    if isinstance(edit, Patch) and site is not None and len(heads) == 1:
        return f"{words.head_location(site, *heads)}: patched"
    activation = trace.activations.get(edit.where.activation or "")
    if activation is None or not edit.where.queries:
        return words.edit_label(edit, trace.attention)
    i = min(edit.where.queries[0], len(activation.tokens) - 1)
    return f"{activation.name}, “{token_text(activation.tokens[i])}”"


def find_patch(run: CurrentRun) -> View[PatchChoices] | str:
    """Return the view of this run, or why nothing can be taken from another."""
    model, trace = run.scope.model, run.unchanged.trace
    if not model.can_edit_masks:
        return say.NOTHING_TO_PATCH
    has_heads = any(site.has_causes for site in trace.attention.values())
    if not has_heads and not grids(run.scope, trace, "residual"):
        return say.NOTHING_TO_PATCH
    return PATCHING if decisions(trace) else text.no_answer(model)


def _choose_decision(choices: PatchChoices, i: int) -> None:
    """Follow another decision; the other run may have fewer."""
    if choices.side == "enough":
        two = two_runs(live.live_session().shown, choices.second, choices.position)
        if isinstance(two, Two):
            i = [n for n, row in enumerate(two.rows) if row is not None][i]
    url_state.set_value(state.FOLLOWED_POSITION, i)


def _layout(run: CurrentRun, choices: PatchChoices, pictures: Pictures) -> Sequence[PageCell]:
    grid = ShownComponent(
        SCATTER if choices.part == say.GRADIENT_PART else PATCH, change={"on_take": toggle_part}
    )
    outcome = ShownComponent(OUTCOME, choose={"on_choose": partial(_choose_decision, choices)})
    buttons = Widget(partial(_buttons, run, choices))
    return [ShownComponent(PLAIN, PATCH_NOTE), Columns((1.75, 1), ([grid], [outcome, buttons]))]


def _files(run: CurrentRun, choices: PatchChoices) -> Sequence[File]:
    two, _ = usable_pair(run, choices)
    parts = () if two is None else patch_parts(two, choices)
    name = provenance.file_name(run.trace, "patches", *parts)

    def about(now: CurrentRun) -> Facts:
        two, _ = usable_pair(now, choices)
        return facts(now.trace) if two is None else patch_facts(two.this.trace, two)

    return [csv_file("All effects, CSV", name, lambda now: patch_table(now, choices), about)]


PATCHING = View(
    patch_section_payloads,
    _layout,
    choose=_choose,
    text=lambda run, choices: say.patch_explanation(
        text.noun_of(run.scope.model), run.scope.model.is_recurrent
    ),
    files=_files,
    has_strip=False,
    is_of_run=False,
)
