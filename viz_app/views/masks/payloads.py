"""What the page Masks shows of a run: the batch of its texts under the model's own masks and under the changed ones, drawn by the
mask painter; the notes and the checks beside it."""

from dataclasses import dataclass

from models.analysis.checks import check_site
from models.runs.masked_comparison import MaskedRun
from models.runs.scope import Texts
from models.trace import Trace
from viz_app.drawing.cells import Tile
from viz_app.drawing.notes import check_rows, small_print, strip
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import MaskView, checks
from viz_app.views.masks.painter import masks

MOST_WRITTEN = 40  # tokens that a model which continues a text writes to be compared


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page. `second` is the second text of the batch, "" where the first runs alone; `problem` says why
    a second text that stands there is not run. `row` is 0 for the first text, 1 for the second. `tile` is the part of a long
    text, None for all of it."""

    second: str
    problem: str
    row: int
    kind: str
    site: str
    head: int
    tile: Tile = None


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    own, view = views(run, choices)
    given = run.scope.model.fields[0].stream
    lengths = [len(one.trace.streams[given].ids) for one in own]
    filled = masks_text.batch(lengths, given) if choices.second else masks_text.ALONE
    return {
        "note masks": small_print(choices.problem or filled, bad=bool(choices.problem)),
        "written": strip(view.before.trace, run.terms, run.stale),
        "mask_painter": masks(view),
        "checks": check_rows([*check_site(view.sites[1]), *checks(view)]),
    }


def views(run: CurrentRun, choices: Choices) -> tuple[list[MaskedRun], MaskView]:
    """The batch under the model's own masks, and what is shown of it and of the batch under the changed ones."""
    own, changed = _runs(run, choices)
    before, after = own[choices.row], changed[choices.row]
    return own, MaskView(
        before,
        after,
        run.spec.edits,
        choices.kind,
        choices.site,
        choices.head,
        run.terms,
        choices.tile,
    )


def _runs(run: CurrentRun, choices: Choices) -> tuple[list[MaskedRun], list[MaskedRun]]:
    """The batch of both texts under the model's own masks and under the changed ones; one run if nothing is changed."""
    scope, most = run.scope, None if run.scope.model.translates else MOST_WRITTEN
    before = cache.changed_run(run.unchanged, run.spec.without("edits"))
    if choices.second:
        own = _own_batch(before, choices.second, most)
    else:
        own = [cache.unmasked_run(scope, before.trace, most)]
    if not run.spec.edits:
        return own, own
    return own, cache.masked_runs(
        scope, tuple(_request(run, one.trace) for one in own), run.spec.edits, most=most
    )


def _own_batch(run: CurrentRun, second: str, most: int | None) -> list[MaskedRun]:
    """Both texts in one batch, padded to the longer, under the model's own masks."""
    trace, scope = run.trace, run.scope
    typed = run.own is None  # a changed model reads what the unchanged one wrote
    requests = _request(run, trace, typed), (second, *others(run))
    written = ()
    if scope.model.translates:
        written = trace.streams[scope.model.writes].ids[1:], cache.written_ids(scope, second)
    return cache.masked_runs(scope, requests, (), written, most)


def others(run: CurrentRun) -> Texts:
    """What a second text of the batch is read with: the other texts that this model cannot do without, as they stand."""
    return tuple(
        run.trace.fields[field.name]
        for field in run.scope.model.text_fields[1:]
        if not field.optional
    )


def _request(run: CurrentRun, trace: Trace, typed: bool = False) -> Texts:
    """What this run read, for the model's fields: each stream in its first field. `typed`: without what the model wrote itself."""
    model, request = run.scope.model, []
    for i, field in enumerate(model.fields):
        again = field.stream in (earlier.stream for earlier in model.fields[:i])
        own = (
            typed and field.stream == model.writes and not trace.teacher_forced and model.translates
        )
        request.append(None if again or own else trace.streams.get(field.stream))
    return tuple(request)
