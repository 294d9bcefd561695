"""The masks of a run: every layer by name, and one head under the original and changed masks."""

from collections.abc import Hashable
from dataclasses import replace

from models.runs.masked_comparison import MaskedRun
from models.trace import AttentionSite, Trace
from models.trace.edits import mask_change
from models.trace.outputs import NextToken
from viz_app import words
from viz_app.components.catalogue import MASK_PAINTER
from viz_app.drawing.notes import first_output
from viz_app.drawing.stamp import caption, facts
from viz_app.notebook.picture import Answer, Mounted, Picture
from viz_app.notebook.places import check_length, place_of, sites_of
from viz_app.views.masks.mask_view import MaskView, kind_names
from viz_app.views.masks.painter import masks


def mask(
    run: Trace,
    before: Trace | None = None,
    *,
    kind: str = "",
    layer: int | str = 1,
    head: int = 1,
    theme: str = "",
) -> Picture:
    """Draw every mask of the run by its layers, with one head under it.

    For a run with changed masks (`scope.run(…, edits=…)`), `before` is the same run without
    changes; the head is then drawn before, after and as a difference, with the log-probability of
    each given token. A click shows the mask of another kind.

    The head is head 1 of layer 1 unless `layer` and `head` name another; the title says which.

    A mask is drawn with one change for all attentions of its kind (models.edits.for_kinds); runs
    with other edits are drawn by `compare`.

    Raises:
        ValueError: `before` is missing, itself changed, or of another model or input; an edit is
            not a change to the masks of a whole kind.
    """
    for edit in run.edits:
        if edit != replace(mask_change(run.edits, edit.where.kind or ""), where=edit.where):
            raise ValueError(
                f"{edit}: a mask is drawn with one MaskChange for a whole kind of attention; "
                "compare(before, run) draws other changes"
            )
    if before is None and run.edits:
        raise ValueError(
            "the masks of this run were changed: before= must be the same run without changes"
        )
    original = before or run
    if original.edits:
        raise ValueError("before= must be a run without changes, and this one has some")
    if (original.model.fingerprint, _read(original)) != (run.model.fingerprint, _read(run)):
        raise ValueError("before= must be a run of the same model on the same input")
    place, number = place_of(run, layer, head, kind)
    check_length(run, place.kind, "masks")
    payloads = {
        site_kind.name: _drawn(original, run, site_kind.name, place, head)
        for site_kind in kind_names(run)
    }
    first = payloads[place.kind]
    answers = [
        Answer("kind", {"kind": name}, payload=payload) for name, payload in payloads.items()
    ]
    return Picture(
        f"Masks of {run.model.name}, over {words.lower_first(words.head_place(place, number))}",
        caption(facts(run)),
        [Mounted(MASK_PAINTER, first)],
        answers,
        theme,
        860,
    )


def _drawn(before: Trace, after: Trace, kind: str, place: AttentionSite, head: int) -> bytes:
    """Return the payload for the mask of one kind, with this head or the nearest that exists."""
    sites = sites_of(after, kind)
    beside = next((site for site in sites if site.layer == place.layer), sites[-1])
    site = place if place.kind == kind else beside
    terms = words.terms(
        after.model.training.get("task", "unknown"), after.model.training.get("languages", ())
    )
    view = MaskView(
        _given_text(before),
        _given_text(after),
        after.edits,
        kind,
        site.name,
        min(head, site.n_heads) - 1,
        terms,
    )
    return masks(view, fixed=True)


def _given_text(trace: Trace) -> MaskedRun:
    """Return the run with the log-probabilities of its given tokens, and nothing generated."""
    output = first_output(trace)
    if not isinstance(output, NextToken):
        return MaskedRun(trace, (), (), None, ())
    log_probs = output.log_probs[range(len(output.labels)), output.labels]
    return MaskedRun(trace, output.labels, tuple(log_probs.tolist()), None, ())


def _read(trace: Trace) -> dict[str, tuple[Hashable, ...]]:
    """Return what the model read of each stream, and in which order it predicts.

    Images and sounds are told apart by their digests.
    """
    return {
        name: (
            row.ids,
            row.segments,
            row.order or tuple(range(len(row.ids))),
            getattr(row, "digest", ""),
        )
        for name, row in trace.streams.items()
    }
