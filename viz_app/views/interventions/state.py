"""The edits of the page Interventions, kept in the session and in the URL."""

from collections.abc import Callable
from functools import partial

from models.analysis.best_offset import best_offset
from models.trace import Trace
from models.trace.edits import BASELINES, Edit, Edits, HeadOff, HeadScale, Patch, Where, to_text
from viz_app.session import live, url_state
from viz_app.session.parameters import Choice, Notation, Text, Whole
from viz_app.session.run_changes import EDITS, MOST_TEXTS

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


def head_edits(edits: Edits) -> dict[tuple[str, int], Edit]:
    """Return the edit that switches off or scales each head, by site and head."""
    return {
        (edit.where.site or "", head): edit
        for edit in edits
        if isinstance(edit, HeadOff | HeadScale)
        for head in edit.where.heads or ()
    }


def switch_head(site: str, head: int, is_off: bool) -> None:
    """Switch a head of the shown run off, or leave it to the model again."""
    trace = live.live_session().shown.trace
    where = Where(site=site, heads=(head,))
    _replace(
        where, partial(head_off_edit, trace, url_state.get(BASELINE), where) if is_off else None
    )


def scale_head(site: str, head: int, factor: float) -> None:
    """Multiply what a head passes on; 1 leaves it to the model."""
    where = Where(site=site, heads=(head,))
    _replace(where, None if factor == 1 else partial(HeadScale, where, factor=factor))


def _replace(where: Where, make: Callable[[], Edit] | None) -> None:
    """Keep this edit of a head in place of an earlier one; heads that the run lacks are ignored."""
    sites = live.live_session().shown.trace.attention
    if (site := sites.get(where.site or "")) is None or max(where.heads or ()) >= site.n_heads:
        return
    keep_edit(where, make() if make else None)


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
PATCH_STREAM = Choice("patch-stream", is_step=False)
PATCH_PART = Choice(
    "patch-part", "residual", options=("residual", "feed-forward", "gradient"), is_step=False
)
PATCH_UNIT = Choice("patch-unit", "difference", options=("difference", "share"), is_step=False)
PATCH_SIDE = Choice("patch-side", "needed", options=("needed", "enough"), is_step=False)
OTHER_EDITS = Notation("patch-other", (), True, read=_read_patches, write=to_text)


def toggle_edit(side: str, edit: Edit) -> None:
    """Take a part of the other run into the one of this side, or leave it to the run again."""
    parameter = EDITS if side == "needed" else OTHER_EDITS
    now = url_state.get(parameter)
    edits = tuple(one for one in now if one != edit)
    n_patches = sum(isinstance(one, Patch) for one in edits)
    if edits == now and n_patches < MOST_TEXTS:
        edits = (*edits, edit)
    url_state.set_value(parameter, edits)
    url_state.set_value(PATCH_SIDE, side)
