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
from viz_app.views.interventions.patch_runs import NECESSARY

PATCH_TOLERANCE = 1e-4


def patch_checks(measured: PatchEffects) -> list[Check]:
    """Check the strongest cell alone, a run patched with itself, and everything patched."""
    two, grid = measured.two, measured.grid
    base, _ = two.sides(NECESSARY)
    scope, trace, metric = base.scope, base.trace, two.metric(NECESSARY)
    checks: list[Check] = []
    cells = measured.effects[NECESSARY].cells
    whole = _everything(measured)
    if grid is not None and cells is not None and (cell := strongest_cell(measured, NECESSARY)):
        i, j, _ = cell
        where = Where(activation=grid.names[i], queries=(j,))
        try:
            row, *rest = _each(
                measured, [[two.patch(NECESSARY, where)], *([whole] if whole else [])]
            )
        except ValueError:  # a third-party model may record what it cannot change
            return _site_checks(trace)
        single, value = float(metric(logits_of(trace.outputs), row)), float(cells[i, j])
        checks.append(
            Check(
                "the strongest cell alone",
                abs(single - value),
                PATCH_TOLERANCE * max(1.0, abs(value)),
                "Its effect in another pass, by the edit that a click makes, against that in the batch of all parts",
            )
        )
        identity: list[Edit] = [Patch(where, fields=base.patched_from)]
        same = effects_of(scope, trace, [tuple(identity)], Divergence(two.row))
        checks.append(
            Check(
                "patched with itself: 0",
                float(same[0]),
                0.0,
                "The strongest cell replaced by itself; KL divergence of the two distributions in nats",
            )
        )
        if rest:
            checks.append(
                Check(
                    "everything patched: the other run",
                    _apart(rest[0], logits_of(two.other.trace.outputs)),
                    PATCH_TOLERANCE,
                    "Every cell of the residual stream taken from the other run; largest difference of the logits from its own",
                )
            )
    return [*checks, *_site_checks(trace)]


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
