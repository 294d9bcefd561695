"""The payloads of the page Interventions: the board of all heads, the answer before and after."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from models import CheckpointError
from models.analysis.checks import Check, check_site
from models.analysis.effects import HeadEffects, effects_of
from models.analysis.metrics import Divergence, LogProbability, Metric, logits_of
from models.runs.masked_comparison import MaskedRun
from models.trace import Trace
from models.trace.edits import Edits, HeadScale, Patch, Where
from viz_app import words
from viz_app.drawing.extent import Scaled, scale_picture
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import Facts, facts, saving
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.interventions import state, text
from viz_app.views.interventions.decisions import (
    Decision,
    decision_words,
    decisions,
    default_decision,
    option_label,
    option_noun,
)

MAX_HEADS_WORK = 40_000  # heads · tokens of the longest stream that are tried at once
MAX_ANSWER_TOKENS = 40  # tokens that a model generates to continue a text
N_OPTIONS = 5  # of a distribution, before and after
MIN_EFFECT = 1e-4  # nats; smaller effects may be rounding
ALONE_TOLERANCE = 1e-4  # nats between an effect in the batch of all heads and alone


@dataclass(frozen=True)
class HeadOffChoices:
    """The choices on the page: the decision (None: the default), the metric and the baseline."""

    position: int | None
    metric: str
    baseline: str


@dataclass(frozen=True)
class FollowedDecision:
    """A run without and with its edits, and the decision that is followed in both."""

    before: CurrentRun
    after: CurrentRun
    all: list[Decision]
    chosen: int

    @property
    def decision(self) -> Decision:
        return self.all[self.chosen]

    @property
    def token(self) -> str:
        """The name of the option that is followed."""
        return self.decision.label.text


def followed_decision(run: CurrentRun, choices: HeadOffChoices) -> FollowedDecision:
    """Return the run without and with its edits, and the decision to follow."""
    before = cache.changed_run(run.unchanged, run.spec.without("edits"))
    all_decisions = decisions(before.trace)
    chosen = default_decision(before.trace, all_decisions)
    if choices.position is not None and choices.position < len(all_decisions):
        chosen = choices.position
    return FollowedDecision(before, run, all_decisions, chosen)


def decision_part(row: int) -> str:
    """Return the part of a file name that tells the decision in this row: "decision4"."""
    return f"decision{row + 1}"


def head_off_parts(what: FollowedDecision, choices: HeadOffChoices) -> tuple[str, ...]:
    """Return the parts of a file name that tell how the effects of heads are measured."""
    return decision_part(what.decision.row), choices.metric, choices.baseline


def decision_facts(what: FollowedDecision, **more: str) -> Facts:
    """Return the facts about the run with its edits: those of every file, and the decision."""
    return facts(what.after.trace, decision=f"{what.decision.row}, {what.token}", **more)


def head_off_facts(what: FollowedDecision, choices: HeadOffChoices) -> Facts:
    """Return the facts about the effects of switching heads off."""
    method_facts = {
        "measured by": text.METRIC_NAMES[choices.metric],
        text.PASSES_ON: text.BASELINE_NAMES[choices.baseline],
    }
    return decision_facts(what, **method_facts)


def head_off_payloads(run: CurrentRun, choices: HeadOffChoices) -> Pictures:
    """Return the payloads of all components of the page."""
    what = followed_decision(run, choices)
    effects = measure_heads(what, choices)
    return {
        "board": board_on_scale(head_board(what, choices, effects)),
        "outcome": outcome_payload(what),
        "checks": check_rows(_checks(what, choices, effects)),
    }


def measure_heads(what: FollowedDecision, choices: HeadOffChoices) -> HeadEffects | str:
    """Return the effect of switching off each head, or why not all can be tried."""
    trace = what.after.trace
    n_heads = sum(site.n_heads for site in trace.attention.values())
    if n_heads * max(len(row.ids) for row in trace.streams.values()) > MAX_HEADS_WORK:
        return text.HEADS_TOO_LONG.format(text.noun_of(what.after.scope.model))
    make = partial(state.head_off_edit, trace, choices.baseline)
    try:
        return cache.cached_head_effects(what.after, _metric(what, choices), make, choices.baseline)
    except CheckpointError as error:  # too little held-out text for this baseline
        why = str(error)
        return f"{why[:1].upper()}{why[1:]}."


def _metric(what: FollowedDecision, choices: HeadOffChoices) -> Metric:
    if choices.metric == "divergence":
        return Divergence(what.decision.row)
    return LogProbability(what.decision.option, what.decision.row)


def head_board(
    what: FollowedDecision, choices: HeadOffChoices, effects: HeadEffects | str
) -> dict[str, Any]:
    """Return the payload of the board of all heads."""
    trace = what.after.trace
    grids = () if isinstance(effects, str) else effects.values.values()
    values = [grid.flatten() for grid in grids]
    finite = torch.cat(values) if values else torch.zeros(0)
    finite = finite[finite.isfinite()]
    signed = choices.metric == "log-probability"
    return {
        "title": text.board_title(choices.metric, what.token),
        **saving(
            file_name(trace, "heads-off", *head_off_parts(what, choices)),
            head_off_facts(what, choices),
        ),
        "sentence": effects if isinstance(effects, str) else _sentence(what, effects, signed),
        "legend": ""
        if isinstance(effects, str)
        else text.BOARD_LEGEND[choices.metric].format(option_noun(trace)),
        "largest": float(finite.abs().max()) if len(finite) else 0.0,
        "unit": "nats",
        "kinds": _kinds_of_heads(trace, effects),
    }


def board_on_scale(board: dict[str, Any]) -> Scaled:
    """Let boards of two runs whose effects have the same unit share a scale."""
    unit = board["unit"]
    return scale_picture({unit: board["largest"]}, lambda scales: board | {"largest": scales[unit]})


def _kinds_of_heads(trace: Trace, effects: HeadEffects | str) -> list[dict[str, Any]]:
    """Return a grid of (layer, head) for each kind of attention whose heads can be edited."""
    edited, kinds = state.head_edits(trace), []
    for kind, sites in by_kind(trace):
        sites = [site for site in sites if site.has_causes]
        if not sites:
            continue
        n_heads = max(site.n_heads for site in sites)
        grid = None if isinstance(effects, str) else effects.values[kind]
        kinds.append(
            {
                "title": words.kind_title(sites[0]),
                "sites": [site.name for site in sites],
                "layers": [site.layer + 1 for site in sites],
                "heads": n_heads,
                "effects": [
                    [_finite(None if grid is None else grid[row, head]) for head in range(n_heads)]
                    for row in range(len(sites))
                ],
                "states": [
                    [
                        _state(edited.get((site.name, head), ())) if head < site.n_heads else None
                        for head in range(n_heads)
                    ]
                    for site in sites
                ],
            }
        )
    return kinds


def _finite(value: torch.Tensor | None) -> float | None:
    return None if value is None or not math.isfinite(float(value)) else float(value)


def _state(edits: Edits) -> dict[str, Any]:
    """Return what the edits of one head do to it together; one that is off stays off."""
    if not edits:
        return {"factor": 1, "label": "", "says": ""}
    factor = math.prod(edit.factor if isinstance(edit, HeadScale) else 0 for edit in edits)
    label = f"×{factor:g}".replace("-", "−") if factor else "off"
    return {"factor": factor, "label": label, "says": ", then ".join(map(words.edit_effect, edits))}


def largest_effect(effects: HeadEffects) -> tuple[str, int, float]:
    """Return the site, the head and the value of the largest effect, whatever its sign."""
    effects_by_size = [
        (float(value.abs()), site, head, float(value))
        for kind, grid in effects.values.items()
        for site, row in zip(effects.sites[kind], grid, strict=True)
        for head, value in enumerate(row)
        if value.isfinite()
    ]
    _, site, head, value = max(effects_by_size)
    return site, head, value


def _sentence(what: FollowedDecision, effects: HeadEffects, signed: bool) -> str:
    name, head, value = largest_effect(effects)
    all_effects = torch.cat([grid.flatten() for grid in effects.values.values()])
    if abs(value) < MIN_EFFECT:
        return text.NO_HEAD_CHANGES.format(MIN_EFFECT)
    place = words.head_location(what.after.trace.attention[name], head)
    n_raise = int((all_effects >= MIN_EFFECT).sum()) if signed else 0
    return text.strongest_head_sentence(
        place,
        text.effect_size(value, signed=True),
        n_raise,
        int(all_effects.isfinite().sum()),
        value,
        signed,
    )


def answers_difference(
    what: FollowedDecision, nothing: str = text.NO_HEAD_CHANGED
) -> dict[str, Any]:
    """Return the answers before and after, and where they first differ."""
    before, after = answer_words(what.before), answer_words(what.after)
    first = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        -1 if len(before) == len(after) else min(len(before), len(after)),
    )
    is_edited = bool(what.after.trace.edits != what.before.trace.edits)
    return {
        "answers": [
            {"whose": "Before", "words": before, "from": -1},
            {"whose": "After", "words": after, "from": first},
        ],
        "verdict": text.changed_answer(before, after, first) if is_edited else nothing,
    }


def outcome_payload(what: FollowedDecision) -> dict[str, Any]:
    """Return the payload of the answer before and after, with one distribution."""
    was, now = (_log_probs(run.trace) for run in (what.before, what.after))
    row, option = what.decision.row, what.decision.option
    best = torch.cat([t[row].topk(min(N_OPTIONS, t.shape[1])).indices for t in (was, now)])
    options = dict.fromkeys([option, *best.tolist()])
    listed = sorted(options, key=lambda i: -float(was[row, i]))
    is_edited = bool(what.after.trace.edits != what.before.trace.edits)
    return {
        **answers_difference(what),
        **saving(
            file_name(what.after.trace, "answers", decision_part(what.decision.row)),
            decision_facts(what),
        ),
        "which": text.FOLLOWED.format(option_noun(what.before.trace)),
        "decisions": [
            {
                "label": one.label.as_json(),
                "change": float(now[one.row, one.option] - was[one.row, one.option])
                if is_edited
                else None,
                "chosen": i == what.chosen,
            }
            for i, one in enumerate(what.all)
        ],
        "asked": text.distribution_title(what.token, row),
        "option": option_noun(what.before.trace).capitalize(),
        "options": [
            {
                "label": option_label(what.before.trace, i, row).as_json(),
                "before": float(was[row, i].exp()),
                "after": float(now[row, i].exp()),
                "chosen": i == option,
            }
            for i in listed
        ],
        "fact": text.followed_token_line(
            what.token, float(was[row, option]), float(now[row, option])
        ),
    }


def _log_probs(trace: Trace) -> torch.Tensor:
    return logits_of(trace.outputs).float().log_softmax(-1)


def answer_words(run: CurrentRun) -> list[str]:
    """Return the words of the model's answer under the run's edits; none if it writes nothing."""
    if not run.scope.model.can_write:
        return decision_words(run.trace)
    answer = (_written(run).output or "").strip()
    return answer.split(" ") if answer else []


def _written(run: CurrentRun) -> MaskedRun:
    most = None if run.scope.model.translates else MAX_ANSWER_TOKENS
    return cache.unmasked_run(run.scope, run.trace, most)


def _checks(
    what: FollowedDecision, choices: HeadOffChoices, effects: HeadEffects | str
) -> list[Check]:
    """Check the strongest head's effect by a pass of its own.

    A head patched with itself must change nothing.
    """
    trace = what.after.trace
    if isinstance(effects, str):
        return check_site(next(iter(trace.attention.values())))
    site, head, value = largest_effect(effects)
    scope, where = what.after.scope, Where(site=site, heads=(head,))
    single = effects_of(scope, trace, [(effects.edits[site, head],)], effects.metric)
    checks = [
        Check(
            "the strongest head alone",
            abs(float(single[0]) - value),
            ALONE_TOLERANCE * max(1.0, abs(value)),
            "Its effect in a pass of its own, against that in the batch of all heads; difference in nats",
        )
    ]
    if not trace.edits:
        same = effects_of(
            scope, trace, [(Patch(where, from_run=trace),)], Divergence(what.decision.row)
        )
        checks.append(
            Check(
                "patched with itself: 0",
                float(same[0]),
                0.0,
                "The strongest head's output replaced by itself; KL divergence of the two distributions in nats",
            )
        )
    return [*checks, *check_site(trace.attention[site])]


def head_off_table(run: CurrentRun, choices: HeadOffChoices) -> list[list[object]]:
    """Return the rows of the table of all effects, with its head."""
    what = followed_decision(run, choices)
    effects = measure_heads(what, choices)
    rows: list[list[object]] = [["attention", "layer", "head", "effect in nats", "edit"]]
    if isinstance(effects, str):
        return rows
    for kind, grid in effects.values.items():
        for name, values in zip(effects.sites[kind], grid, strict=True):
            site = run.trace.attention[name]
            rows += [
                [
                    words.kind_title(site),
                    site.layer + 1,
                    head + 1,
                    float(value),
                    ", ".join(effects.edits[name, head].effects()),
                ]
                for head, value in enumerate(values)
                if value.isfinite()
            ]
    return rows
