"""The gradient's guess of each head's effect in the section Patch, beside the exact effect."""

import math
from dataclasses import dataclass
from typing import Any

from models.analysis.attribution import AttributionPatching
from models.analysis.cells import head_slope
from models.analysis.checks import HALF_PRECISION, Check
from models.trace.edits import Where
from viz_app import words
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import saving
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.patch_effects import (
    PatchChoices,
    PatchEffects,
    drawn_facts,
    edits_of,
    patch_parts,
)
from viz_app.views.interventions.patch_runs import NECESSARY, SIDES
from viz_app.views.interventions.payloads import MIN_EFFECT

SLOPE_TOLERANCE = 0.05  # of the guess, by which a finite difference may miss it
MIN_SLOPE = 5e-3  # of what is measured


@dataclass(frozen=True)
class Point:
    """A head: its attention, its exact effect and the gradient's guess, as they are drawn."""

    site: str
    head: int
    exact: float
    guess: float


def both_of(measured: PatchEffects, side: str) -> AttributionPatching | None:
    """Return the estimated and the exact effects on one side; None if no head was tried."""
    two, exact = measured.two, measured.effects[side].heads
    if exact is None:
        return None
    base, source = two.sides(side)
    pairs = {
        name: pairs_of_stream
        for name in base.trace.streams
        if (pairs_of_stream := two.pairs(side, name))
    }
    estimated = cache.cached_estimated_effects(base.scope, base.trace, source.trace, exact, pairs)
    return AttributionPatching(estimated, exact.values)


def points_of(measured: PatchEffects, side: str) -> list[Point]:
    """Return the heads of one side."""
    both, exact = both_of(measured, side), measured.effects[side].heads
    if both is None or exact is None:
        return []
    return [
        Point(site, head, float(value), float(guess))
        for kind, sites in exact.sites.items()
        for site, *rows in zip(
            sites,
            *(measured.shown(side, x[kind]) for x in (both.exact, both.estimated)),
            strict=True,
        )
        for head, (value, guess) in enumerate(zip(*rows, strict=True))
        if math.isfinite(value) and math.isfinite(guess)
    ]


def gradient_picture(
    run: CurrentRun, choices: PatchChoices, measured: PatchEffects
) -> dict[str, Any]:
    """Return the payload of both scatters."""
    file = file_name(run.trace, *patch_parts(measured.two, choices))
    return {
        **saving(file, drawn_facts(run, choices, measured)),
        "unit": "share of the gap" if measured.is_share else measured.two.metric(NECESSARY).unit,
        "axes": [say.EXACT_EFFECT, say.GUESSED_EFFECT],
        "hint": say.SCATTER_HINT.format(noun=measured.two.noun)
        if measured.is_share or choices.unit == "difference"
        else say.no_share(measured.two.gap),
        "panels": [_panel(run, choices, measured, side) for side in SIDES],
    }


def _panel(
    run: CurrentRun, choices: PatchChoices, measured: PatchEffects, side: str
) -> dict[str, Any]:
    two, points = measured.two, points_of(measured, side)
    base, _ = two.sides(side)
    sites, edits = base.trace.attention, edits_of(run, choices, side)
    kinds = list(dict.fromkeys(sites[one.site].kind for one in points))
    return {
        "side": side,
        "title": say.TITLES[side].format(noun=two.noun),
        "sentence": _sentence(measured, side, points),
        "kinds": [
            words.kind_title(next(s for s in sites.values() if s.kind == kind)) for kind in kinds
        ],
        "points": [
            {
                "site": one.site,
                "head": one.head,
                "label": words.head_location(sites[one.site], one.head),
                "kind": kinds.index(sites[one.site].kind),
                "exact": one.exact,
                "guess": one.guess,
                "taken": bool(edits)
                and two.patch(side, Where(site=one.site, heads=(one.head,))) in edits,
            }
            for one in points
        ],
    }


def _sentence(measured: PatchEffects, side: str, points: list[Point]) -> str:
    """Say how well the guesses agree, and which is furthest off."""
    both = both_of(measured, side)
    if both is None or not points:
        return say.too_long(measured.two.noun)
    least = MIN_EFFECT / (abs(measured.two.gap) if measured.is_share else 1)
    if all(abs(one.exact) < least and abs(one.guess) < least for one in points):
        return say.no_change("head", MIN_EFFECT, measured.two.metric(side).unit)
    base, _ = measured.two.sides(side)
    worst = max(points, key=lambda one: abs(one.exact - one.guess))
    place = words.head_location(base.trace.attention[worst.site], worst.head)
    sentence = say.agreement(both.r, len(points), place, worst.guess, worst.exact)
    dtype = base.trace.attention[worst.site].dtype
    if side != NECESSARY or dtype not in HALF_PRECISION:
        return sentence
    return sentence + say.SLOPE_ROUNDED.format(str(dtype).removeprefix("torch."))


def gradient_checks(measured: PatchEffects) -> list[Check]:
    """Check the largest guess of this text's heads by two passes, 1 % of the way each.

    In half precision none is checked: rounding hides the effect of a small step.
    """
    two, points = measured.two, points_of(measured, NECESSARY)
    if not points:
        return []
    base, source = two.sides(NECESSARY)
    exact = measured.effects[NECESSARY].heads
    largest = max(points, key=lambda one: abs(one.guess))
    if base.trace.attention[largest.site].dtype in HALF_PRECISION:
        return []
    stream = base.trace.attention[largest.site].query_stream
    slope = head_slope(
        base.scope,
        base.trace,
        two.metric(NECESSARY),
        source.trace,
        (largest.site, largest.head),
        two.pairs(NECESSARY, stream),
    )
    guess = -largest.guess * two.gap if measured.is_share else largest.guess
    name = words.head_location(base.trace.attention[largest.site], largest.head)
    says = say.SLOPE_OF_PATCH.format(name, guess, slope, exact.metric.unit if exact else "")
    off = abs(slope - guess)
    return [Check(say.SLOPE_NAME, off, max(SLOPE_TOLERANCE * abs(guess), MIN_SLOPE), says)]


def rows_of(measured: PatchEffects) -> list[list[object]]:
    """Return the rows of the table of guesses, as those of the table of effects."""
    unit = "share of the gap" if measured.is_share else measured.two.metric(NECESSARY).unit
    rows: list[list[object]] = []
    for side in SIDES:
        base, _ = measured.two.sides(side)
        for one in points_of(measured, side):
            site = base.trace.attention[one.site]
            place = [words.kind_title(site), site.layer + 1, one.head + 1]
            rows.append([side, *place, one.exact, unit, one.guess])
    return rows
