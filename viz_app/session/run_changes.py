"""The session's changes to its run, converted between URL parameters and a RunSpec.

Every page shows the run of this spec, so changes made on different pages compose, and one link
holds them all.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from models import Scope, Trace
from models.field_file import FieldFile
from models.layers.masks import LOOK_AHEAD, PADDING
from models.layers.similarity import SIMILARITIES
from models.runs.spec import ForcedPairs, RunSpec
from models.trace.edits import Edit, Edits, MaskChange, Patch, for_kinds, from_text, to_text
from viz_app.drawing.sites import by_kind
from viz_app.session import live, mask_notation, own_files, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.own_files import FILE_KINDS
from viz_app.session.parameters import Choice, Notation, Of, Parameter, Switch, itself
from viz_app.session.remembered import forget, recall, remember

SHOWS_SNAPSHOT, SNAPSHOT_STEP = Switch("growth"), Choice("growth-step", is_step=False)
SIMILARITY_CHANGE = Choice("similarity")  # None: the model's own
POSITIONS_CHANGE = Switch("positions", default=True)
# kept for published links
_MASK_NAMES = {"encoder_self": "encoder-mask", "decoder_self": "decoder-mask"}


MAX_PAIRS = 200


def parse_pairs(text: str) -> list[tuple[int, int]]:
    """Parse pairs of numbers such as "3:17,4:9", at most MAX_PAIRS; anything else is ignored."""
    parts = text.split(",")[:MAX_PAIRS]
    matches = (re.fullmatch(r"([0-9]{1,5}):([0-9]{1,6})", part) for part in parts)
    return [(int(match[1]), int(match[2])) for match in matches if match]


def _read_forced(text: str) -> ForcedPairs:
    tokens = {position - 1: token for position, token in parse_pairs(text) if position}
    return tuple(sorted(tokens.items()))


def _unread_forced(text: str) -> str:
    """Name the first part of a text that forces no token, and what a part must be."""
    for i, part in enumerate(text.split(",")):
        if i >= MAX_PAIRS:
            return f"must have at most {MAX_PAIRS} parts"
        if part and not _read_forced(part):
            quoted = part[: url_state.MAX_QUOTED_VALUE]
            return f"must be position:token parts, positions from 1, not {quoted}"
    return ""


def _write_forced(forced: ForcedPairs) -> str:
    return ",".join(f"{position + 1}:{token}" for position, token in forced)


FORCED_CHANGE = Notation(
    "force", (), True, read=_read_forced, write=_write_forced, unread=_unread_forced
)


@cache
def mask_parameter(kind: str) -> Notation:
    """Return the parameter of the mask change for this kind of attention (SiteKind.name)."""
    name = _MASK_NAMES.get(kind, f"{kind.replace('_', '-')}-mask")
    parse, write = mask_notation.parse_mask, mask_notation.mask_to_text
    return Notation(name, MaskChange(), True, read=parse, write=write)


MASK_KINDS = ("encoder_self", "decoder_self", "cross", "self", "content", "query")
MASK_CHANGES = {kind: mask_parameter(kind) for kind in MASK_KINDS}


NO_FILE_TO_PATCH = "a link cannot hold a file, so the patches from its run are left out"
MAX_EDITS_LENGTH, MAX_EDITS = 50_000, 200  # characters of the notation, and edits in it
MAX_EDIT_TEXTS = 32  # other texts that the edits of an address may have run


def _read_edits(text: str) -> Edits:
    """Parse edits other than those of masks, which have parameters of their own."""
    try:
        edits = from_text(text if len(text) <= MAX_EDITS_LENGTH else "")
    except ValueError:
        return ()
    n_texts = sum(len(getattr(edit, "texts", ())) + isinstance(edit, Patch) for edit in edits)
    if len(edits) > MAX_EDITS or n_texts > MAX_EDIT_TEXTS:
        return ()
    return tuple(edit for edit in edits if not isinstance(edit, MaskChange))


def _unread_edits(text: str) -> str:
    """Say that mask changes are left out of the edits."""
    try:
        edits = from_text(text if len(text) <= MAX_EDITS_LENGTH else "")
    except ValueError:
        return ""
    if not any(isinstance(edit, MaskChange) for edit in edits):
        return ""
    return f"must hold no mask changes, which have parameters such as {MASK_CHANGES['cross'].name}"


def _write_edits(edits: Edits) -> str:
    """Write edits; a patch from the run of a file refers to it, as the URL cannot hold it."""
    return to_text(
        replace(
            edit,
            fields=tuple(
                own_files.reference_of(value) if isinstance(value, FieldFile) else value
                for value in edit.fields
            ),
        )
        if isinstance(edit, Patch)
        else edit
        for edit in edits
    )


EDITS = Notation("edits", (), True, read=_read_edits, write=_write_edits, unread=_unread_edits)


def clear_forced(run: CurrentRun, of: Of = itself) -> None:
    """Clear the forced tokens if they were forced on other inputs than those of this run.

    While another model is being opened, the run on the screen is not the one that they belong to.
    """
    forced = url_state.get(of(FORCED_CHANGE))
    is_idle = not forced and not recall(_cleared(of))
    if is_idle or not run.scope.model.can_write or live.live_session().opening is not None:
        return
    source = str(run.scope.path), run.input_ids
    forced_before, source_before = recall(_forced_on(of), (forced, source))
    if url_state.is_url_driven():
        remember(_cleared(of), False)
    elif source != source_before:
        is_elsewhere = bool(forced) and forced == forced_before
        remember(_cleared(of), is_elsewhere)
        if is_elsewhere:
            forced = ()
            url_state.correct_value(of(FORCED_CHANGE), forced)
    remember(_forced_on(of), (forced, source))


def forced_were_cleared() -> bool:
    """Return True if a change of the source cleared forced tokens and none is forced since."""
    return bool(recall(_cleared(itself)))


def force_anew(of: Of = itself) -> None:
    """Keep the forced tokens for the next run, whatever its inputs are."""
    remember(_cleared(of), False)
    forget(_forced_on(of))


def _forced_on(of: Of) -> str:
    return f"{of(FORCED_CHANGE).name} on"


def _cleared(of: Of) -> str:
    return f"{of(FORCED_CHANGE).name} cleared"


def chosen_spec(original: CurrentRun, of: Of = itself) -> RunSpec:
    """Return the run's spec with the session's changes, except those its model does not support.

    `of` maps each parameter to the one that is read instead.
    """
    scope = original.scope
    return replace(
        original.spec,
        model=replace(
            original.spec.model,
            step=chosen_step(scope, of),
            similarity=other_similarity(scope, of),
            positions=url_state.get(of(POSITIONS_CHANGE)) or not scope.has_removable_positions,
        ),
        edits=_edits(original, of) if scope.model.can_edit_masks else (),
        forced=url_state.get(of(FORCED_CHANGE)) if scope.model.can_write else (),
    )


def chosen_step(scope: Scope, of: Of = itself) -> int | None:
    """Return the chosen training step; None for the final weights."""
    steps = scope.snapshots
    if not steps or not url_state.get(of(SHOWS_SNAPSHOT)):
        return None
    return url_state.chosen_option(of(SNAPSHOT_STEP), steps, steps[-1])


def other_similarity(scope: Scope, of: Of = itself) -> str:
    """Return the chosen similarity; "" for the model's own, or if it cannot be exchanged."""
    trained_with, name = scope.model.similarity, url_state.get(of(SIMILARITY_CHANGE))
    return name if trained_with and name in SIMILARITIES and name != trained_with else ""


def _edits(original: CurrentRun, of: Of) -> Edits:
    """Return the session's edits, without those of heads that this trace does not have."""
    parameter, trace = of(EDITS), original.trace
    readable = with_patched_files(parameter, original.scope)
    edits = url_state.get(parameter)
    others = tuple(edit for edit in readable if _exists(edit, trace))
    n_existing = sum(_exists(edit, trace) for edit in edits)
    if n_existing < len(edits):
        url_state.note_unfit(parameter, f"{parameter.name} names a part that cannot be edited here")
    elif len(others) < n_existing:
        url_state.note_unfit(parameter, f"{parameter.name}: {NO_FILE_TO_PATCH}")
    return (*mask_edits(trace, of), *others)


def with_patched_files(parameter: Parameter[Edits], scope: Scope) -> Edits:
    """Return the edits of a parameter, with the files that their patches refer to.

    Patches from a file that this session does not keep, or that the model cannot read, are left
    out. They refer to it until it is kept again, so that edits hold no more files than the session.
    """
    edits = url_state.get(parameter)
    resolved = tuple(_with_file(edit, scope) for edit in edits)
    if resolved != edits:
        url_state.set_value(parameter, resolved)
    return tuple(edit for edit in resolved if _has_its_files(edit, scope))


def _has_its_files(edit: Edit, scope: Scope) -> bool:
    if not isinstance(edit, Patch):
        return True
    return all(
        value is None or isinstance(value, FILE_KINDS[field.kind].file_type)
        if field.kind in FILE_KINDS
        else not isinstance(value, FieldFile)
        for field, value in zip(scope.model.fields, edit.fields, strict=False)
    )


def _with_file(edit: Edit, scope: Scope) -> Edit:
    if not isinstance(edit, Patch):
        return edit
    session, values = live.live_session(), list(edit.fields)
    for i, value in enumerate(values):
        if isinstance(value, FieldFile) and not own_files.is_kept(session, value):
            values[i] = own_files.reference_of(value)
    for i, (field, value) in enumerate(zip(scope.model.fields, values, strict=False)):
        if field.kind in FILE_KINDS and isinstance(value, str) and not isinstance(value, FieldFile):
            values[i] = own_files.file_at(session, field.kind, value) or value
    return edit if values == list(edit.fields) else replace(edit, fields=tuple(values))


def _exists(edit: Edit, trace: Trace) -> bool:
    where = edit.where
    if where.activation is not None:
        return where.activation in trace.activations
    sites = trace.attention.values()
    met = [site for site in sites if where.meets(site.kind, site.name, site.layer)]
    highest = max(where.heads or (0,))
    return bool(met) and all(site.has_causes and highest < site.n_heads for site in met)


def mask_edits(trace: Trace, of: Of = itself) -> Edits:
    """Return the session's mask changes for the kinds of attention in this trace.

    A layer that a link removes by name is left out if no mask here has it.
    """
    changes = {}
    for kind, sites in by_kind(trace):
        parameter = of(mask_parameter(kind))
        change = url_state.get(parameter)
        known = {LOOK_AHEAD, PADDING, *(layer.name for site in sites for layer in site.mask.layers)}
        removed = tuple(name for name in change.removed_layers if name in known)
        if removed != change.removed_layers:
            url_state.note_unfit(
                parameter, f"{parameter.name} removes a layer that this mask lacks"
            )
            change = replace(change, removed_layers=removed)
        changes[kind] = change
    return for_kinds(**changes)


def parameters(kinds: Iterable[str]) -> list[Parameter]:
    """Return the parameters of every change, including the masks of these kinds of attention."""
    return [parameter for change in _parameters(tuple(kinds)).values() for parameter in change]


def undo_change(change: str, kinds: tuple[str, ...] = ()) -> None:
    """Undo one change, by its name in RunSpec.without; `kinds` adds kinds of attention."""
    for parameter in _parameters(kinds)[change]:
        url_state.set_value(parameter, parameter.default)


def _parameters(kinds: tuple[str, ...]) -> dict[str, list[Parameter]]:
    masks = [mask_parameter(kind) for kind in dict.fromkeys((*MASK_KINDS, *kinds))]
    return {
        "step": [SHOWS_SNAPSHOT, SNAPSHOT_STEP],
        "similarity": [SIMILARITY_CHANGE],
        "positions": [POSITIONS_CHANGE],
        "masks": masks,
        "edits": [EDITS],
        "forced": [FORCED_CHANGE],
    }
