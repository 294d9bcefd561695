"""The edits of the page Interventions, kept in the session and in the URL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from models.analysis.best_offset import best_offset
from models.architectures.base import FILE_FIELDS, Field
from models.trace import AttentionSite, Trace
from models.trace.edits import BASELINES, Edit, Edits, HeadOff, HeadScale, Patch, Where
from viz_app.session import live, url_state
from viz_app.session.parameters import Choice, Notation, Parameter, Text, Whole
from viz_app.session.run_changes import EDITS, MAX_EDIT_TEXTS

FOLLOWED_POSITION = Whole("if-position")
METRIC = Choice(
    "if-metric", "log-probability", options=("log-probability", "divergence"), is_step=False
)
BASELINE = Choice("if-baseline", "zero", options=BASELINES, is_step=False)


def head_off_edit(trace: Trace, baseline: str, where: Where) -> Edit:
    """Return the edit that switches one head off."""
    if baseline != "offset":
        return HeadOff(where, baseline=baseline)
    site, (head,) = trace.attention[where.site or ""], where.heads or ()
    return HeadOff(where, baseline=baseline, offset=best_offset(site, head).offset)


def head_edits(trace: Trace) -> dict[tuple[str, int], Edits]:
    """Return the edits that switch off or scale each head of a run, by site and head.

    Edits of only some of its queries are left out.
    """
    edits = [edit for edit in trace.edits if _of_whole_heads(edit)]
    return {
        (site.name, head): of_head
        for site in trace.attention.values()
        for head in range(site.n_heads)
        if (of_head := tuple(edit for edit in edits if _covers(edit, site, head)))
    }


def _of_whole_heads(edit: Edit) -> bool:
    return isinstance(edit, HeadOff | HeadScale) and edit.where.queries is None


def _covers(edit: Edit, site: AttentionSite, head: int) -> bool:
    where = edit.where
    is_chosen = where.heads is None or head in where.heads
    return is_chosen and where.meets(site.kind, site.name, site.layer)


def switch_head(site: str, head: int, is_off: bool) -> None:
    """Switch a head of the shown run off, or on again."""
    trace = live.live_session().shown.trace
    where = Where(site=site, heads=(head,))
    replace_head(
        where, partial(head_off_edit, trace, url_state.get(BASELINE), where) if is_off else None
    )


def scale_head(site: str, head: int, factor: float) -> None:
    """Scale the output of a head; 1 restores the model's own."""
    where = Where(site=site, heads=(head,))
    replace_head(where, None if factor == 1 else partial(HeadScale, where, factor=factor))


def replace_head(where: Where, make: Callable[[], Edit] | None) -> None:
    """Keep this edit of a head in place of earlier ones; heads that the run lacks are ignored.

    Earlier edits of several heads then apply only to the other heads.
    """
    sites = live.live_session().shown.trace.attention
    site, (head,) = sites.get(where.site or ""), where.heads or ()
    if site is None or head >= site.n_heads:
        return
    others = [part for one in url_state.get(EDITS) for part in _without(one, site, head, sites)]
    url_state.set_value(EDITS, tuple(others))
    keep_edit(where, make() if make else None)


def _without(
    edit: Edit, site: AttentionSite, head: int, sites: Mapping[str, AttentionSite]
) -> Edits:
    """Return the edits that do the same to every head but this one."""
    if not _of_whole_heads(edit) or not _covers(edit, site, head):
        return (edit,)
    heads_of = {
        one.name: [n for n in range(one.n_heads) if _covers(edit, one, n)] for one in sites.values()
    }
    heads_of[site.name].remove(head)
    return tuple(
        replace(edit, where=Where(site=name, heads=tuple(heads), rows=edit.where.rows))
        for name, heads in heads_of.items()
        if heads
    )


def keep_edit(where: Where, edit: Edit | None) -> None:
    """Keep this edit in place of earlier ones of the same part of the run; None keeps none."""
    others = [one for one in url_state.get(EDITS) if one.where != where]
    url_state.set_value(EDITS, (*others, *([edit] if edit else [])))


def undo_edit(edit: Edit) -> None:
    """Undo one edit."""
    url_state.set_value(EDITS, tuple(one for one in url_state.get(EDITS) if one != edit))


def _read_patches(text: str) -> Edits:
    """Parse patches of the other run."""
    return tuple(edit for edit in EDITS.read(text) if isinstance(edit, Patch))


PATCH_TEXTS = tuple(Text(f"patch-text{n}", default=None) for n in ("", "-2", "-3"))
PATCH_FILES = {kind: url_state.file_parameter(kind, f"patch-{kind}") for kind in FILE_FIELDS}
PATCH_STREAM = Choice("patch-stream", is_step=False)
PATCH_PART = Choice(
    "patch-part", "residual", options=("residual", "feed-forward", "gradient"), is_step=False
)
PATCH_UNIT = Choice("patch-unit", "difference", options=("difference", "share"), is_step=False)
PATCH_SIDE = Choice("patch-side", "needed", options=("needed", "enough"), is_step=False)
OTHER_EDITS = Notation("patch-other", (), True, read=_read_patches, write=EDITS.write)


def patch_parameters(fields: Sequence[Field]) -> list[Parameter]:
    """Return the parameters of what the other run reads for these fields.

    Fields after the last text that has one get none.
    """
    texts = iter(PATCH_TEXTS)
    each = (PATCH_FILES.get(field.kind) or next(texts, None) for field in fields)
    return [parameter for parameter in takewhile(bool, each) if parameter]


def toggle_edit(side: str, edit: Edit) -> None:
    """Take a part of the other run into the one of this side, or undo that."""
    parameter = EDITS if side == "needed" else OTHER_EDITS
    now = url_state.get(parameter)
    edits = tuple(one for one in now if one != edit)
    n_patches = sum(isinstance(one, Patch) for one in edits)
    if edits == now and n_patches < MAX_EDIT_TEXTS:
        edits = (*edits, edit)
    url_state.set_value(parameter, edits)
    url_state.set_value(PATCH_SIDE, side)
