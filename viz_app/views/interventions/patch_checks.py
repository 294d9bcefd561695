"""The identity checks of the section Patch."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from models.analysis.checks import Check, check_site
from models.analysis.effects import effects_of
from models.analysis.metrics import Divergence, logits_of
from models.trace import Trace
from models.trace.edits import Edit, Patch, Where
from viz_app.views.interventions.patch_effects import PatchEffects, strongest_cell
from viz_app.views.interventions.patch_grids import grids, has_states
from viz_app.views.interventions.patch_runs import NECESSARY, Two

PATCH_TOLERANCE = 1e-4


def patch_checks(measured: PatchEffects) -> list[Check]:
    """Check the strongest cell alone, a run patched with itself, and everything patched."""
    two, grid = measured.two, measured.grid
    cells = measured.effects[NECESSARY].cells
    site_checks = _site_checks(two.sides(NECESSARY)[0].trace)
    if grid is None or cells is None or not (cell := strongest_cell(measured, NECESSARY)):
        return site_checks
    i, j, _ = cell
    where = Where(activation=grid.names[i], queries=(j,))
    patches = [[two.patch(NECESSARY, where)]]
    if whole := _everything(measured):
        patches.append(whole)
    try:
        alone, *patched_whole = _each(measured, patches)
    except ValueError:  # a third-party model may record what it cannot change
        return site_checks
    return [
        _check_alone(two, alone, float(cells[i, j])),
        _check_identity(two, where),
        *(_check_whole(two, logits) for logits in patched_whole),
        *site_checks,
    ]


def _check_alone(two: Two, logits: torch.Tensor, effect: float) -> Check:
    """Check the effect of one cell, found in the batch of all parts, by its patch alone."""
    base, _ = two.sides(NECESSARY)
    single = float(two.metric(NECESSARY)(logits_of(base.trace.outputs), logits))
    return Check(
        "the strongest cell alone",
        abs(single - effect),
        PATCH_TOLERANCE * max(1.0, abs(effect)),
        "Its effect in another pass, by the edit that a click makes, against that in the batch of all parts",
    )


def _check_identity(two: Two, where: Where) -> Check:
    """Check that a cell patched with itself changes nothing."""
    base, _ = two.sides(NECESSARY)
    identity = Patch(where, fields=base.patched_from)
    same = effects_of(base.scope, base.trace, [(identity,)], Divergence(two.row))
    return Check(
        "patched with itself: 0",
        float(same[0]),
        0.0,
        "The strongest cell replaced by itself; KL divergence of the two distributions in nats",
    )


def _check_whole(two: Two, logits: torch.Tensor) -> Check:
    """Check that the run with every cell patched gives the other run's logits."""
    return Check(
        "everything patched: the other run",
        _apart(logits, logits_of(two.other.trace.outputs)),
        PATCH_TOLERANCE,
        "Every cell of the residual stream taken from the other run; largest difference of the logits from its own",
    )


def _site_checks(trace: Trace) -> list[Check]:
    site = next(iter(trace.attention.values()), None)
    return check_site(site) if site is not None else []


def _each(measured: PatchEffects, each: Sequence[Sequence[Edit]]) -> list[torch.Tensor]:
    """Return the logits of this run under each set of patches, from one pass."""
    this = measured.two.this
    edits = [
        replace(edit, where=replace(edit.where, rows=(row,)))
        for row, edits_of_row in enumerate(each)
        for edit in edits_of_row
    ]
    return [
        logits_of(one) for one in this.scope.outputs_batch([this.trace.streams] * len(each), edits)
    ]


def _everything(measured: PatchEffects) -> list[Edit]:
    """Return the patches that take every cell; none where they would not give the other run."""
    two = measured.two
    if not has_states(two.this.scope) or any(
        two.pairs(NECESSARY, stream) for stream in two.this.trace.streams
    ):
        return []
    return [
        Patch(Where(activation=name), fields=two.other.patched_from)
        for grid in grids(two.this.scope, two.this.trace, "residual")
        for name in grid.names
    ]


def _apart(now: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference; both are −∞ where an option is ruled out."""
    return float(torch.where(now == expected, 0.0, (now - expected).abs()).max())
