"""Masks: which tokens may attend to which, and what if we change that?

Every mask in layers, one to paint on, and what the model then does.
"""

from collections.abc import Callable, Sequence
from functools import partial

from viz_app.components.catalogue import MASK_PAINTER, PLAIN
from viz_app.controls.tile import choose_tile
from viz_app.drawing import provenance
from viz_app.drawing.cells import has_many_cells
from viz_app.drawing.stamp import Facts, FileContent, facts
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views import onward
from viz_app.views.masks import controls, files, state, text
from viz_app.views.masks.mask_view import MaskView
from viz_app.views.masks.payloads import (
    MaskChoices,
    mask_choices_within,
    mask_payloads,
    mask_quantities,
    mask_strip,
    masked_views,
)
from viz_app.views.page import File, Foot, Page, PageCell, ShownComponent, View


def _find(run: CurrentRun) -> View[MaskChoices] | str:
    """Return the view of this run, or why it has no mask to change."""
    if not run.trace.attention:
        return text.RECURRENCE_HAS_NO_MASK
    return ALL_MASKS if run.scope.model.can_edit_masks else text.MASKS_FIXED


def _layout(run: CurrentRun, choices: MaskChoices, pictures: Pictures) -> Sequence[PageCell]:
    look = {"on_kind": _if_kind_exists(run, state.show_kind), "on_tile": choose_tile}
    painter = ShownComponent(
        MASK_PAINTER, choose=look, change={"on_paint": _if_kind_exists(run, state.paint_cells)}
    )
    note = ShownComponent(PLAIN, "note masks")
    first = [note, painter] if choices.problem else [painter, note]
    return [*first, Foot((1, 1))]


def _if_kind_exists(run: CurrentRun, act: Callable[..., None]) -> Callable[..., None]:
    """Wrap a handler so that it ignores kinds of attention that this model does not have.

    A browser may send any kind.
    """
    kinds = state.kinds_by_name(run.trace)
    return lambda kind, *more: act(kind, *more) if kind in kinds else None


def _text(run: CurrentRun, choices: MaskChoices) -> str:
    view, model = masked_views(run, choices)[1], run.scope.model
    has_stream = any(sublayer.adds for sublayer in model.sublayers) if model.sublayers else None
    file = "" if model.reads_text else model.fields[0].kind
    return text.rules(view.sites[1], has_stream, model.can_write, view.mask_note(view.kind), file)


def _files(run: CurrentRun, choices: MaskChoices) -> Sequence[File]:
    view = masked_views(run, choices)[1]
    name = provenance.head_name(view.after.trace, view.sites[1], view.head)
    whose = provenance.file_name(view.after.trace)

    def of(make: Callable[[MaskView], FileContent]) -> Callable[[CurrentRun], FileContent]:
        return lambda now: make(masked_views(now, choices)[1])

    def about(now: CurrentRun) -> Facts:
        return facts(masked_views(now, choices)[1].after.trace)  # of the text shown

    file = partial(File, about=about)
    svg, csv, log_probs = of(files.masks_svg), of(files.masked_head_csv), of(files.log_probs_csv)
    table, table_name = "Log-probabilities, CSV", f"{whose}.log-probabilities.csv"
    drawing = file("Masks and head, SVG", svg, f"{name}.masks.svg")
    return [
        *([] if _is_long(run) else [drawing]),  # a long text has too many cells for the drawing
        file("This head, CSV", csv, f"{name}.masks.csv"),
        file(table, log_probs, table_name),
        file("Everything, npz", of(files.everything_npz), f"{whose}.masks.npz"),
    ]


def _is_long(run: CurrentRun) -> bool:
    return any(map(has_many_cells, run.trace.attention.values()))


ALL_MASKS = View(
    mask_payloads,
    _layout,
    choose=controls.choose_masks,
    within=mask_choices_within,
    text=_text,
    files=_files,
    files_note=lambda run, choices: text.LONG_TEXT if _is_long(run) else "",
    written=mask_strip,
    quantities=mask_quantities,
)
MASKS_PAGE = Page(
    "Masks",
    text.MASKS_QUESTION,
    lambda run: text.MASKS_ANSWER if run.trace.attention and run.scope.model.can_edit_masks else "",
    {"": _find},
    lambda run, choices: onward.what_if(run),
    names={"": ("masks",)},
)
