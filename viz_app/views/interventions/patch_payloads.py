"""The payloads of the section Patch: what each part does in the other run, and the answers."""

import math
from typing import Any

import torch

from models.analysis.checks import Check, check_site
from models.trace import Trace
from models.trace.edits import Edits, Where
from viz_app import words
from viz_app.drawing.labels import labels, number_labels
from viz_app.drawing.notes import check_rows, small_print
from viz_app.drawing.provenance import file_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import saving
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.interventions import patch_gradient
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.patch_answers import patch_answers
from viz_app.views.interventions.patch_checks import patch_checks
from viz_app.views.interventions.patch_effects import (
    Effects,
    PatchChoices,
    PatchEffects,
    drawn_facts,
    edited_of,
    edits_of,
    measure_patches,
    patch_parts,
    position_that_answers,
    strongest_cell,
    strongest_head,
    usable_pair,
)
from viz_app.views.interventions.patch_grids import Grid, cell_changes
from viz_app.views.interventions.patch_runs import NECESSARY, SIDES, SUFFICIENT, level
from viz_app.views.interventions.payloads import MIN_EFFECT

MIN_MOVE = 1e-4  # of a cell's length; less is rounding
PATCH_NOTE = "patch-note"


def patch_section_payloads(run: CurrentRun, choices: PatchChoices) -> Pictures:
    """Return the payloads of all components of the section."""
    two, note = usable_pair(run, choices)
    if two is None:
        site = next(iter(run.trace.attention.values()), None)
        checks = check_rows(check_site(site) if site is not None else [])
        return {PATCH_NOTE: small_print(note, bad=True), "checks": checks}
    measured = measure_patches(two, choices)
    is_bad = bool(note)
    return {
        PATCH_NOTE: small_print(note or _counts(measured), bad=is_bad),
        **_drawn(run, choices, measured),
        "outcome": patch_answers(run, choices, two),
        "checks": check_rows([*_own_checks(choices, measured), *patch_checks(measured)]),
    }


def _drawn(run: CurrentRun, choices: PatchChoices, measured: PatchEffects) -> Pictures:
    if choices.part == say.GRADIENT_PART:
        return {"scatter": patch_gradient.gradient_picture(run, choices, measured)}
    return {"patch": patch_picture(run, choices, measured)}


def _own_checks(choices: PatchChoices, measured: PatchEffects) -> list[Check]:
    return patch_gradient.gradient_checks(measured) if choices.part == say.GRADIENT_PART else []


def _counts(measured: PatchEffects) -> str:
    two = measured.two
    stream = next(
        (name for name in two.this.trace.streams if two.pairs(NECESSARY, name)),
        measured.grid.stream if measured.grid else next(iter(two.this.trace.streams)),
    )
    n, m = (len(run.trace.streams[stream].ids) for run in (two.this, two.other))
    alignment = say.alignment_sentence(n, m, len(two.pairs(NECESSARY, stream)), two.noun_at(stream))
    effects = measured.effects[NECESSARY]
    has_heads = any(site.has_causes for site in two.this.trace.attention.values())
    sentences = [alignment]
    if effects.tried is not None and (grid := measured.grid) is not None:
        n_cells = len(two.this.trace.streams[grid.stream].ids)
        reads_one = position_that_answers(two.this.trace, grid.stream) is not None
        noun = two.noun_at(grid.stream)
        sentences.append(say.tried_positions(len(effects.tried), n_cells, noun, reads_one))
    if has_heads and effects.heads is None:
        sentences.append(say.heads_not_tried(two.noun))
    return " ".join(sentences)


def patch_picture(run: CurrentRun, choices: PatchChoices, measured: PatchEffects) -> dict[str, Any]:
    """Return the payload of both grids and both boards."""
    two, unit = measured.two, measured.two.metric(NECESSARY).unit
    shown_values = [
        measured.shown(side, values).flatten()
        for side, effects in measured.effects.items()
        for values in _grids_of(effects)
    ]
    finite = torch.cat(shown_values) if shown_values else torch.zeros(0)
    finite = finite[finite.isfinite()]
    panels = [panel(run, choices, measured, side) for side in SIDES]
    this, other = (level(two.metric(side), two.sides(side)[0].trace) for side in SIDES)
    return {
        **saving(
            file_name(run.trace, "patch", *patch_parts(two, choices)),
            drawn_facts(run, choices, measured),
        ),
        "measured": say.metric_values(
            say.measure(two.decision.label.text, two.rival_name),
            two.row,
            this,
            two.other_row,
            other,
            two.noun,
        ),
        "unit": "of the gap" if measured.is_share else unit,
        "largest": float(finite.abs().max()) if len(finite) else 0.0,
        "hint": _hint(run, choices, measured),
        "is_tried": bool(shown_values),
        "panels": panels,
    }


def _grids_of(effects: Effects) -> list[torch.Tensor]:
    heads = [] if effects.heads is None else list(effects.heads.values.values())
    return [*heads, *([] if effects.cells is None else [effects.cells])]


def panel(
    run: CurrentRun, choices: PatchChoices, measured: PatchEffects, side: str
) -> dict[str, Any]:
    """Return one side: its meaning, its grid of cells and its boards of heads."""
    two, grid, effects = measured.two, measured.grid, measured.effects[side]
    base, _ = two.sides(side)
    edits = edits_of(run, choices, side)
    return {
        "side": side,
        "title": say.TITLES[side].format(noun=two.noun),
        "means": say.MEANINGS[side],
        "text": " / ".join(_texts(base.trace)),
        "sentence": _sentence(measured, side),
        "grid": None if grid is None else _grid(measured, side, grid, edits, edited_of(run, measured, side, edits)),
        "kinds": _kinds(measured, side, effects, edits),
    }  # fmt: skip


def _texts(trace: Trace) -> list[str]:
    return [value for value in trace.fields.values() if isinstance(value, str) and value]


def _grid(
    measured: PatchEffects, side: str, grid: Grid, edits: Edits, edited: Trace | None
) -> dict[str, Any]:
    two = measured.two
    base, _ = two.sides(side)
    pairs = two.pairs(side, grid.stream)
    n = len(base.trace.streams[grid.stream].ids)
    aligned = {here for here, _ in pairs} if pairs else set(range(n))
    values = measured.effects[side].cells
    values = None if values is None else measured.shown(side, values)
    far = (
        cell_changes(edited, base.trace, grid)
        if edited is not None
        else torch.zeros(len(grid.names), n)
    )
    return {
        "title": grid.title,
        "tokens": [one.as_json() for one in labels(base.trace.streams[grid.stream])],
        "layers": list(grid.labels),
        "names": list(grid.names),
        "effects": [
            [finite(None if values is None else values[i, j]) for j in range(n)]
            for i in range(len(grid.names))
        ],
        "aligned": [j in aligned for j in range(n)],
        "taken": [
            [
                j in aligned
                and two.patch(side, Where(activation=name, queries=(j,))) in edits
                for j in range(n)
            ]
            for name in grid.names
        ] if edits else [[False] * n for _ in grid.names],
        "moved": [[float(x) if float(x) > MIN_MOVE else 0.0 for x in row] for row in far],
    }  # fmt: skip


def finite(value: torch.Tensor | None) -> float | None:
    """Return a number for the browser; None if it is not one."""
    return None if value is None or not math.isfinite(float(value)) else float(value)


def _kinds(
    measured: PatchEffects, side: str, effects: Effects, edits: Edits
) -> list[dict[str, Any]]:
    two = measured.two
    base, _ = two.sides(side)
    kinds = []
    for kind, sites in by_kind(base.trace):
        sites = [site for site in sites if site.has_causes]
        if not sites:
            continue
        values = None if effects.heads is None else measured.shown(side, effects.heads.values[kind])
        n_heads = max(site.n_heads for site in sites)
        kinds.append(
            {
                "title": words.kind_title(sites[0]),
                "short": words.kind_short(sites[0]),
                "sites": [site.name for site in sites],
                "layers": [site.layer + 1 for site in sites],
                "heads": n_heads,
                "effects": [
                    [finite(None if values is None else values[i, head]) for head in range(n_heads)]
                    for i in range(len(sites))
                ],
                "taken": [
                    [
                        head < site.n_heads
                        and bool(edits)
                        and two.patch(side, Where(site=site.name, heads=(head,))) in edits
                        for head in range(n_heads)
                    ]
                    for site in sites
                ],
            }
        )
    return kinds


def _sentence(measured: PatchEffects, side: str) -> str:
    """Say what the strongest cell and the strongest head do."""
    two, unit = measured.two, measured.two.metric(side).unit
    base, _ = two.sides(side)
    least = MIN_EFFECT / (abs(two.gap) if measured.is_share else 1)

    def say_of(part: str, place: str, value: float) -> str:
        if abs(value) < least:
            return say.no_change(part, MIN_EFFECT, unit)
        if measured.is_share and side == SUFFICIENT:
            return say.gap_share_sentence(place, value)
        return say.strongest_part_sentence(place, value, "share" if measured.is_share else unit)

    sentences = []
    if (cell := strongest_cell(measured, side)) and measured.grid:
        i, j, value = cell
        token = labels(base.trace.streams[measured.grid.stream])[j].text
        sentences.append(say_of("cell", f"“{token}” ({measured.grid.labels[i]})", value))
    if head := strongest_head(measured, side):
        site, number, value = head
        sentences.append(
            say_of("head", words.head_location(base.trace.attention[site], number), value)
        )
    return " ".join(sentences) if sentences else say.too_long(two.noun)


def _hint(run: CurrentRun, choices: PatchChoices, measured: PatchEffects) -> str:
    """Say what the patches in force reach, or how to make one."""
    side, grid = choices.side, measured.grid
    edits = edits_of(run, choices, side)
    edited = edited_of(run, measured, side, edits)
    base, _ = measured.two.sides(side)
    if choices.unit == "share" and not measured.is_share:
        return say.no_share(measured.two.gap)
    if edited is None or grid is None:
        return say.HINT.format(noun=measured.two.noun)
    cells = [
        (grid.names.index(edit.where.activation), edit.where.queries[0])
        for edit in edited.edits
        if edit.where.activation in grid.names and edit.where.queries
    ]
    far = cell_changes(edited, base.trace, grid) > MIN_MOVE
    reached = [tuple(cell) for cell in far.nonzero().tolist() if tuple(cell) not in cells]
    n_cells = far.numel() - len(cells)
    if not cells:
        return say.reach_of_heads(len(reached), n_cells)
    first_layer, tokens = min(i for i, _ in cells), {j for _, j in cells}
    others = [j for _, j in reached if j not in tokens]
    return say.patch_reach_text(
        len(reached),
        n_cells,
        sum(i < first_layer for i, _ in reached) if grid.is_layered else None,
        sum(j < min(tokens) for j in others),
        sum(j > min(tokens) for j in others),
    )


def patch_table(run: CurrentRun, choices: PatchChoices) -> list[list[object]]:
    """Return the rows of the table of all effects, with its head."""
    head: list[object] = ["side", "part", "layer", "head or token", "effect", "unit"]
    two, _ = usable_pair(run, choices)
    if two is None:
        return [head]
    measured, rows = measure_patches(two, choices), [head]
    if choices.part == say.GRADIENT_PART:
        return [[*head, "gradient estimate"], *patch_gradient.rows_of(measured)]
    for side in SIDES:
        picture = panel(run, choices, measured, side)
        unit = "share of the gap" if measured.is_share else two.metric(side).unit
        for kind in picture["kinds"]:
            rows += [
                [side, kind["title"], layer, i + 1, value, unit]
                for layer, values in zip(kind["layers"], kind["effects"], strict=True)
                for i, value in enumerate(values)
                if value is not None
            ]
        if grid := picture["grid"]:
            tokens = number_labels([token[0] for token in grid["tokens"]])
            rows += [
                [side, name, layer, tokens[i], value, unit]
                for name, layer, values in zip(grid["names"], grid["layers"], grid["effects"], strict=True)
                for i, value in enumerate(values)
                if value is not None
            ]  # fmt: skip
    return rows
