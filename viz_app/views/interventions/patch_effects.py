"""The effects of the section Patch: each part of one run taken into the other, both ways."""

from dataclasses import dataclass

import torch

from models.analysis.effects import HeadEffects
from models.architectures.base import TEXT_FIELD
from models.trace import Trace
from models.trace.edits import Edits, Patch
from viz_app.drawing.notes import first_output
from viz_app.drawing.stamp import Facts, facts
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.patch_grids import Grid, grids
from viz_app.views.interventions.patch_runs import (
    NECESSARY,
    SIDES,
    SUFFICIENT,
    Two,
    second_fields,
    two_runs,
)
from viz_app.views.interventions.payloads import decision_part, largest_effect

MAX_PATCH_WORK = 20_000  # parts tried one way · tokens of the longest stream
MIN_TRIED = 4  # positions of a long text
MIN_GAP = 0.1  # in units of the metric; shares of a smaller gap are meaningless


@dataclass(frozen=True)
class PatchChoices:
    """The choices of the section: the second text, what replaces an unusable one, and the views."""

    second: tuple[str, ...]
    instead: tuple[tuple[str, ...], ...]
    position: int | None
    stream: str
    part: str
    unit: str
    side: str
    other_edits: Edits = ()


@dataclass(frozen=True)
class Effects:
    """The effect of each part on one side; None for a kind that is missing or not tried."""

    cells: torch.Tensor | None  # (layer, position)
    heads: HeadEffects | None
    tried: tuple[int, ...] | None = None  # positions, if the text is too long to try all


@dataclass(frozen=True)
class PatchEffects:
    """The numbers that are drawn: both runs, the grid, and the effects by side."""

    two: Two
    grid: Grid | None
    effects: dict[str, Effects]
    is_share: bool

    def shown(self, side: str, values: torch.Tensor) -> torch.Tensor:
        """Return effects as they are drawn."""
        if not self.is_share:
            return values
        return values / (self.two.gap if side == SUFFICIENT else -self.two.gap)


def usable_pair(run: CurrentRun, choices: PatchChoices) -> tuple[Two | None, str]:
    """Return the runs of the second text, or of the last usable one and why this one is not."""
    two = two_runs(run, choices.second, choices.position)
    if isinstance(two, Two):
        return two, ""
    for texts in choices.instead:
        if isinstance(other := two_runs(run, texts, choices.position), Two):
            return other, two
    return None, two


def patch_parts(two: Two, choices: PatchChoices) -> tuple[str, ...]:
    """Return the parts of a file name that tell the decision and the views of its effects."""
    unit = "share" if is_share(two, choices) else "difference"
    return decision_part(two.row), choices.stream, choices.part, unit


def is_share(two: Two, choices: PatchChoices) -> bool:
    """Return True if effects are shown as shares of the gap, which must be large enough for it."""
    return choices.unit == "share" and abs(two.gap) >= MIN_GAP


def patch_facts(trace: Trace, two: Two, **more: str) -> Facts:
    """Return the facts about a run whose parts are taken, the other text and the decision."""
    second = {
        f"other run's {field.name.replace('_', ' ')}": two.other.trace.fields[field.name]
        for field in second_fields(two.this.scope, two.this.trace)
    }
    if hidden := facts(two.other.trace).get("read as"):
        second["other run read as"] = hidden
    token = two.decision.label.text
    measure = {"measured by": say.measure(token, two.rival_name)}
    return facts(trace, **second, decision=f"{two.row}, {token}", **measure, **more)


def measure_patches(two: Two, choices: PatchChoices) -> PatchEffects:
    """Try every part, both ways."""
    scope, trace = two.this.scope, two.this.trace
    all_grids = grids(scope, trace, choices.part)
    grid = next(
        (one for one in all_grids if one.key == choices.stream), next(iter(all_grids), None)
    )
    effects = {side: _effects(two, side, grid) for side in SIDES}
    if any(one.cells is None for one in effects.values()):  # no cell can be changed
        grid = None
    return PatchEffects(two, grid, effects, is_share(two, choices))


def _effects(two: Two, side: str, grid: Grid | None) -> Effects:
    base, source = two.sides(side)
    trace = base.trace
    alignments = {stream: pairs for stream in trace.streams if (pairs := two.pairs(side, stream))}
    n = max(len(row.ids) for row in trace.streams.values())
    n_heads = sum(site.n_heads for site in trace.attention.values() if site.has_causes)
    has_heads = 0 < n_heads * n <= MAX_PATCH_WORK
    positions = None
    if grid is not None:
        room = max(MAX_PATCH_WORK // n - n_heads * has_heads, 0) // len(grid.names)
        positions = _positions_to_try(two, side, grid, max(room, MIN_TRIED))
    names = grid.names if grid is not None else ()

    def effects(names: tuple[str, ...]) -> Effects:
        return Effects(
            *cache.cached_part_effects(
                base.scope,
                trace,
                source.trace,
                two.metric(side),
                names,
                alignments,
                positions,
                has_heads,
            ),
            positions if names else None,
        )

    try:
        return effects(names)
    except ValueError:  # a third-party model may record what it cannot change
        return effects(())


def _positions_to_try(two: Two, side: str, grid: Grid, max_tried: int) -> tuple[int, ...] | None:
    """Return the positions of a long input that are tried; None for all.

    They are the first ones that differ, at most half of those tried, and the last ones. For a file,
    whose tokens have no ids, they are those whose first cells differ most and the one that answers.
    """
    stream, (base, source) = grid.stream, two.sides(side)
    ours, theirs = (run.trace.streams[stream].ids for run in (base, source))
    if len(ours) <= max_tried:
        return None
    counterparts = dict(two.pairs(side, stream) or enumerate(range(len(ours))))
    if stream == base.scope.model.fields[0].stream and two.noun != TEXT_FIELD:
        answers = position_that_answers(base.trace, stream)
        far = _by_difference(base.trace, source.trace, grid.names[0], counterparts)
        chosen = far if answers is None else [answers, *(i for i in far if i != answers)]
        return tuple(sorted(chosen[:max_tried]))
    differ = [
        i
        for i, token in enumerate(ours)
        if i not in counterparts or token != theirs[counterparts[i]]
    ]
    first = [i for i in differ if i in counterparts][: max_tried // 2]
    last = [i for i in reversed(sorted(counterparts)) if i not in first][: max_tried - len(first)]
    return tuple(sorted([*first, *last]))


def position_that_answers(trace: Trace, stream: str) -> int | None:
    """Return the one position of a stream that the answer is read from; None if there is none."""
    output = first_output(trace)
    reads_stream = getattr(output, "stream", None) == stream
    return getattr(output, "position", None) if reads_stream else None


def _by_difference(run: Trace, other: Trace, name: str, counterparts: dict[int, int]) -> list[int]:
    """Return the positions, first those at which two runs differ most in an intermediate."""
    ours, theirs = (trace.activations[name].value[0].float() for trace in (run, other))
    here = list(counterparts)
    far = (ours[here] - theirs[list(counterparts.values())]).norm(dim=-1)
    return [here[i] for i in far.argsort(descending=True).tolist()]


def edits_of(run: CurrentRun, choices: PatchChoices, side: str) -> Edits:
    """Return the edits in force in the run of this side."""
    return run.trace.edits if side == NECESSARY else choices.other_edits


def edited_of(run: CurrentRun, measured: PatchEffects, side: str, edits: Edits) -> Trace | None:
    """Return the run of this side under its patches alone; None if there are none."""
    patches = tuple(edit for edit in edits if isinstance(edit, Patch))
    base, _ = measured.two.sides(side)
    if not patches:
        return None
    if side == NECESSARY and patches == run.trace.edits:
        return run.trace
    return base.with_edits(patches)


def drawn_facts(run: CurrentRun, choices: PatchChoices, measured: PatchEffects) -> Facts:
    """Return the facts about both runs as they are drawn: each under its patches alone."""
    edited, other = (edited_of(run, measured, side, edits_of(run, choices, side)) for side in SIDES)
    this = measured.two.this.trace if edited is None else edited
    changed = {} if other is None else {"other run changed": facts(other)["changed"]}
    return patch_facts(this, measured.two, **changed)


def strongest_cell(measured: PatchEffects, side: str) -> tuple[int, int, float] | None:
    """Return the row, the position and the effect of the strongest cell, as it is drawn."""
    cells = measured.effects[side].cells
    if cells is None or measured.grid is None:
        return None
    values = measured.shown(side, cells)
    size = values.abs().nan_to_num(-1)
    i, j = divmod(int(size.argmax()), values.shape[1])
    return (i, j, float(values[i, j])) if float(size[i, j]) >= 0 else None


def strongest_head(measured: PatchEffects, side: str) -> tuple[str, int, float] | None:
    """Return the attention, the head and the effect of the strongest head, as it is drawn."""
    heads = measured.effects[side].heads
    if heads is None:
        return None
    site, head, value = largest_effect(heads)
    return site, head, float(measured.shown(side, torch.tensor(value)))
