"""The masks of a run: every layer by its name, and one head under the model's own masks beside the same head under changed ones."""

from models.runs.masked_comparison import MaskedRun
from models.trace import Trace
from models.trace.outputs import NextToken
from viz_app import words
from viz_app.components.catalogue import MASK_PAINTER
from viz_app.drawing.notes import first_output
from viz_app.drawing.stamp import caption, facts
from viz_app.notebook.picture import Answer, Part, Picture
from viz_app.notebook.places import check_length, place_of, sites_of
from viz_app.views.masks.mask_view import MaskView, kinds
from viz_app.views.masks.painter import masks


def mask(
    run: Trace,
    before: Trace | None = None,
    *,
    kind: str = "",
    layer: int = 1,
    head: int = 1,
    theme: str = "",
) -> Picture:
    """Every mask of the run as its layers, and one head with it. Of a run whose masks were changed (`scope.run(…, edits=…)`),
    `before` is the same without changes: the head is then shown before, after, and as a difference, with the log-probability of
    each given token. A click shows another kind's mask."""
    if before is None and run.edits:
        raise ValueError(
            "the masks of this run were changed: before= must be the same run without changes"
        )
    own = before or run
    if own.edits:
        raise ValueError(
            "before= must be a run under the model's own masks, and the masks of this one were changed"
        )
    if (own.model.fingerprint, _ids(own)) != (run.model.fingerprint, _ids(run)):
        raise ValueError("before= must be a run of the same model on the same texts")
    place_of(run, layer, head, kind)
    check_length(run, kind, "masks")
    drawn = {one.name: _drawn(own, run, one.name, layer, head) for one in kinds(run)}
    first = drawn[sites_of(run, kind)[0].kind]
    answers = [Answer("kind", {"kind": name}, payload=payload) for name, payload in drawn.items()]
    return Picture(
        f"Masks of {run.model.name}",
        caption(facts(run)),
        [Part(MASK_PAINTER, first)],
        answers,
        theme,
        860,
    )


def _drawn(before: Trace, after: Trace, kind: str, layer: int, head: int) -> bytes:
    """The payload for one kind's mask, with its head of this place, or the nearest that this kind has."""
    sites = sites_of(after, kind)
    site = next((site for site in sites if site.layer + 1 == layer), sites[-1])
    terms = words.terms(after.model.training.get("task", "unknown"), after.model.name)
    view = MaskView(
        _said(before),
        _said(after),
        after.edits,
        kind,
        site.name,
        min(head, site.n_heads) - 1,
        terms,
    )
    return masks(view, fixed=True)


def _said(trace: Trace) -> MaskedRun:
    """What the run says of the text it was given; nothing was written under its masks."""
    output = first_output(trace)
    if not isinstance(output, NextToken):
        return MaskedRun(trace, (), (), None, ())
    log_probs = output.log_probs[range(len(output.labels)), output.labels]
    return MaskedRun(trace, output.labels, tuple(log_probs.tolist()), None, ())


def _ids(trace: Trace) -> dict[str, tuple[int, ...]]:
    return {name: tuple(row.ids) for name, row in trace.streams.items()}
