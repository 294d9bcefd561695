"""The payloads of the page Masks: the batch under the original and the changed masks."""

from dataclasses import dataclass, replace

from models import InputError
from models.analysis.checks import check_site
from models.architectures.base import TEXT_FIELD, Field
from models.runs.masked_comparison import MaskedRun
from models.runs.scope import Texts
from models.runs.spec import read_values
from models.sounds import PatchedSound
from models.trace import Trace
from viz_app import words
from viz_app.drawing.cells import Tile
from viz_app.drawing.extent import Scaled
from viz_app.drawing.notes import check_rows, small_print, strip
from viz_app.drawing.provenance import site_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import facts
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import MaskView, axis_labels, mask_checks
from viz_app.views.masks.painter import masks
from viz_app.views.run_difference import MAX_DIFFERENCE, Quantity, undrawn_note

MAX_MASKED_TOKENS = 40  # tokens that a model generates to continue a text, for comparison


@dataclass(frozen=True)
class MaskChoices:
    """The choices on the page.

    `second` is the second text of the batch, "" without one; `problem` is the error of a second
    text that cannot be run. `row` is 0 for the first text, 1 for the second. `tile` is the part of
    a long text, None for all of it.
    """

    second: str
    problem: str
    row: int
    kind: str
    site: str
    head: int
    tile: Tile = None


def _single_input_note(run: CurrentRun, field: Field) -> str:
    """Return the note on the first field's value where no second one runs beside it."""
    row = run.trace.streams[field.stream]
    if isinstance(row, PatchedSound) and row.n_heard < row.grid.columns:
        return masks_text.PADDED_SOUND
    if field.kind == TEXT_FIELD:
        return masks_text.NO_SECOND_TEXT
    return masks_text.FILE_ALONE.format(field.kind)


def mask_payloads(run: CurrentRun, choices: MaskChoices) -> Pictures:
    """Return the payloads of all components of the page."""
    original, view = masked_views(run, choices)
    first = run.scope.model.fields[0]
    stream = first.stream
    lengths = [len(member.trace.streams[stream].ids) for member in original]
    note = masks_text.batch(lengths, stream) if choices.second else _single_input_note(run, first)
    return {
        "note masks": small_print(choices.problem or note, bad=bool(choices.problem)),
        "mask_painter": Scaled(lambda extent: masks(view, extent=extent)),
        "checks": check_rows([*check_site(view.sites[1]), *mask_checks(view)]),
    }


def mask_strip(run: CurrentRun, choices: MaskChoices) -> dict:
    """Return the line above the page: the shown text, and the output under the original masks."""
    before = masked_views(run, choices)[1].before
    return strip(before.trace, run.terms, run.stale)


def mask_quantities(run: CurrentRun, choices: MaskChoices) -> list[Quantity]:
    """Return what the chosen head may attend to, 1 or 0, and its weights.

    Raises:
        InputError: the text is too long for its weights to be drawn.
    """
    view = masked_views(run, choices)[1]
    trace, site = view.after.trace, view.sites[1]
    queries, keys = axis_labels(trace, site)
    same = {
        f"number of {name} tokens": len(trace.streams[name].ids)
        for name in dict.fromkeys((site.query_stream, site.key_stream))
    }
    n = max(site.n_query, site.n_key)
    if n > MAX_DIFFERENCE:
        raise InputError(undrawn_note(n), run.scope.model.fields[0].name)
    matrices = (
        ("mask", "allowed", site.allowed(head=view.head)),
        ("weights", "weight", site.weights(view.head)),
    )
    head = f"{site_name(site)}.head{view.head + 1}"
    return [
        Quantity(
            f"the {name}, {words.lower_first(view.title)}",
            unit,
            values,
            queries,
            "query",
            columns=keys.__getitem__,
            of_columns="key",
            same=same,
            file=f"{head}.{name}",
            about=facts(trace),
        )
        for name, unit, values in matrices
    ]


def mask_choices_within(choices: MaskChoices, run: CurrentRun, other: CurrentRun) -> MaskChoices:
    """Return the nearest choices in another run; the second text is kept if it can be read."""
    trace = other.unchanged.trace
    focus = Focus(choices.site, choices.head).within(trace)
    kinds = [kind for kind, _ in by_kind(trace)]
    kind = choices.kind if choices.kind in kinds else trace.attention[focus.site].kind
    is_one_text = not other.scope.model.pads or second_text_error(other, choices.second)
    second, row = ("", 0) if is_one_text else (choices.second, choices.row)
    return replace(choices, second=second, row=row, kind=kind, site=focus.site, head=focus.head)


def second_text_error(run: CurrentRun, second: str) -> str:
    """Return the error of reading a second text beside this run; "" if it is readable or blank."""
    try:
        if second.strip():
            run.scope.encode(second, *other_required_texts(run))
    except InputError as error:
        return f"{str(error).replace(f'the {error.field}', 'This text')}."
    return ""


def masked_views(run: CurrentRun, choices: MaskChoices) -> tuple[list[MaskedRun], MaskView]:
    """Return the batch under the model's own masks, and the view of both runs of the shown text."""
    original, others = _runs(run, choices)
    before, after = original[choices.row], others[choices.row]
    return original, MaskView(
        before,
        after,
        run.spec.edits,
        choices.kind,
        choices.site,
        choices.head,
        run.terms,
        choices.tile,
    )


def _runs(run: CurrentRun, choices: MaskChoices) -> tuple[list[MaskedRun], list[MaskedRun]]:
    """Return the batch under the model's own masks and under the changed ones.

    Both are the same list if nothing is changed.
    """
    scope, max_new = run.scope, None if run.scope.model.translates else MAX_MASKED_TOKENS
    before = cache.changed_run(run.unchanged, run.spec.without("masks"))
    if choices.second:
        original = _own_batch(before, choices.second, max_new)
    else:
        original = [cache.unmasked_run(scope, before.trace, max_new)]
    if not run.spec.edits:
        return original, original
    return original, cache.masked_runs(
        scope,
        tuple(_request(run, member.trace) for member in original),
        run.spec.edits,
        max_new=max_new,
    )


def _own_batch(run: CurrentRun, second: str, max_new: int | None) -> list[MaskedRun]:
    """Return both texts in one batch, padded to the longer, under the model's own masks."""
    trace, scope = run.trace, run.scope
    typed = run.original is None  # a changed model reads what the unchanged one wrote
    requests = _request(run, trace, typed), (second, *other_required_texts(run))
    targets = ()
    if scope.model.translates:
        targets = trace.streams[scope.model.writes].ids[1:], cache.written_ids(scope, second)
    return cache.masked_runs(scope, requests, run.spec.edits, targets, max_new)


def other_required_texts(run: CurrentRun) -> Texts:
    """Return the texts of the model's other required fields, which the second text shares."""
    return tuple(
        run.trace.fields[field.name]
        for field in run.scope.model.text_fields[1:]
        if not field.optional
    )


def _request(run: CurrentRun, trace: Trace, typed: bool = False) -> Texts:
    """Return what this run read, for the model's fields; `typed` leaves out what it generated."""
    model, values = run.scope.model, read_values(run.scope, trace)
    if not typed or not model.translates or trace.teacher_forced:
        return values
    return tuple(
        None if field.stream == model.writes else value
        for field, value in zip(model.fields, values, strict=True)
    )
