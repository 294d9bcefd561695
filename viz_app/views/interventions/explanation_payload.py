"""The payload of the section "Is attention explanation?": weights beside others in their place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from models import InputError
from models.analysis.checks import Check, check_site
from models.analysis.metrics import logits_of
from models.checkpoint import CheckpointError
from models.runs.attention_row import AttentionRow
from models.runs.explanation import (
    LN_2,
    N_PERMUTATIONS,
    Permutations,
    QuickTests,
    Trial,
    adversary,
    is_movable,
    js_divergence,
    quick_tests,
    trials,
)
from models.runs.frozen_weights import Transplant, mean_weights, transplant
from models.trace.edits import HeadOff, Where
from viz_app import checkpoints
from viz_app.drawing.labels import axes_labels
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import head_name
from viz_app.drawing.stamp import saving
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.interventions import explanation_text as text
from viz_app.views.interventions.decisions import option_label
from viz_app.views.interventions.payloads import (
    FollowedDecision,
    HeadOffChoices,
    answers_difference,
    decision_facts,
    decision_part,
    followed_decision,
)

MAX_EXPLAINED_TOKENS = 200  # tokens of the longest stream
SLOW_PERMUTATIONS = 20  # where each takes a whole pass
SAME_PROBABILITY = 1e-4  # largest difference of a probability between two routes
MIN_DIFFERENCE = 1e-5  # least difference of two weights that counts
ADVERSARY = "adversary"


@dataclass(frozen=True)
class RowChoices:
    """The decision followed (None: the default one), the head, and the models to compare with."""

    position: int | None
    site: str
    head: int
    other: str | None
    seeds: tuple[str, ...]


def asked_row(run: CurrentRun, choices: RowChoices) -> tuple[FollowedDecision, AttentionRow]:
    """Return the decision followed, and the row in the run without its edits.

    Raises:
        ValueError: no row of this attention leads to that decision.
    """
    what = followed_decision(run, HeadOffChoices(choices.position, "log-probability", "zero"))
    trace = what.before.trace
    head = min(choices.head, trace.attention[choices.site].n_heads - 1)
    return what, AttentionRow(what.before.scope, trace, choices.site, head, what.chosen)


def explanation_payloads(run: CurrentRun, choices: RowChoices) -> Pictures:
    """Return the payloads of all components of the section."""
    what, row = asked_row(run, choices)
    tests = _quick(row)
    now = replace(row, trace=what.after.trace)
    return {
        "row_tests": _table(what, choices, row, now, tests),
        "checks": check_rows(_checks(what, row, tests)),
    }


def _quick(row: AttentionRow) -> QuickTests:
    n = N_PERMUTATIONS if row.is_quick else SLOW_PERMUTATIONS
    return cache.row_finding(row, ("tests", n), partial(quick_tests, row, n))


def _table(
    what: FollowedDecision,
    choices: RowChoices,
    row: AttentionRow,
    now: AttentionRow,
    tests: QuickTests,
) -> dict[str, Any]:
    before = tests.own
    trace = what.before.trace
    site = trace.attention[row.site]
    queries, keys = axes_labels(trace, site)
    token = _label(what, before.predicted)
    is_edited = any(edit.where == row.where for edit in what.after.spec.edits)
    unchanged = {text.OTHER_COLUMNS: text.WITHOUT_EDITS} if _is_changed(what) else {}
    columns = [_run_column(what, row, now, before, is_edited), *_tests(what, choices, row, tests)]
    weights_now = now.weights.tolist()
    for column in columns[1:]:
        column["used"] = bool(is_edited and column["weights"]) and _alike(
            column["weights"], weights_now
        )
    return {
        **answers_difference(what, text.NO_WEIGHT_CHANGED),
        **saving(
            head_name(trace, site, row.head, "row-tests", decision_part(what.decision.row)),
            decision_facts(what, **unchanged),
        ),
        "title": text.explanation_title(token, queries[row.query].text),
        "decisions": [
            {"label": one.label.as_json(), "chosen": i == what.chosen}
            for i, one in enumerate(what.all)
        ],
        "keys": [label.as_json() for label in keys],
        "allowed": row.allowed.tolist(),
        "columns": columns,
        "words": {
            "mark": text.OWN_MARK,
            "apply": text.APPLY,
            "used": text.APPLIED,
            "undo": text.UNDO,
            "search": text.SEARCH,
            "searching": text.SEARCHING,
        },
    }


def _is_changed(what: FollowedDecision) -> bool:
    """Return True if an edit changes the run; a changed mask is in both runs."""
    return what.after.spec.edits != what.before.spec.edits


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(a - b) < MIN_DIFFERENCE for a, b in zip(one, other, strict=True))


def _run_column(
    what: FollowedDecision, row: AttentionRow, now: AttentionRow, before: Trial, is_edited: bool
) -> dict[str, Any]:
    """Return the column of the run itself, whose bars are moved by hand."""
    after = logits_of(what.after.trace.outputs)[row.decision].double().log_softmax(-1)
    is_changed = _is_changed(what)
    return {
        "name": "own",
        "title": text.NOW if is_changed else text.OWN_MODEL,
        "about": text.WEIGHTS_HELP["own"],
        "weights": now.weights.tolist(),
        "own": row.weights.tolist(),
        **({"js": float(js_divergence(row.weights, now.weights))} if is_edited else {}),
        "says": [_outcome(what, before, after) if is_changed else _predicts(what, before)],
        "moves": is_movable(row),
        "edited": is_edited,
    }


def _tests(
    what: FollowedDecision, choices: RowChoices, row: AttentionRow, tests: QuickTests
) -> list[dict[str, Any]]:
    """Return the columns of the four tests."""
    before, uniform, permuted = tests.own, tests.uniform, tests.permuted
    if uniform is None or permuted is None:
        return [_empty(name, text.ONE_KEY) for name in text.EXPLANATION_NAMES]
    return [
        _column("uniform", what, before, uniform, [_everywhere(row, uniform)]),
        _column("permuted", what, before, permuted.median, [_permutations(permuted, before)]),
        _adversary(what, row, before),
        _other(what, choices, row, before),
    ]


def _column(
    name: str, what: FollowedDecision, before: Trial, trial: Trial, says: list[str]
) -> dict[str, Any]:
    return {
        "name": name,
        "title": text.EXPLANATION_NAMES[name],
        "about": text.WEIGHTS_HELP[name],
        "weights": trial.weights.tolist(),
        "js": trial.divergence,
        "tv": trial.variation,
        "says": [_outcome(what, before, trial.log_probs), *says],
    }


def _empty(name: str, why: str) -> dict[str, Any]:
    return {
        "name": name,
        "title": text.EXPLANATION_NAMES[name],
        "about": text.WEIGHTS_HELP[name],
        "weights": None,
        "says": [why],
    }


def _label(what: FollowedDecision, option: int) -> str:
    return option_label(what.before.trace, option, what.decision.row).text


def _outcome(what: FollowedDecision, before: Trial, log_probs: torch.Tensor) -> str:
    """Say what is predicted, and how probable the model's own prediction is."""
    option = before.predicted
    return text.outcome_sentence(
        _label(what, option),
        _label(what, int(log_probs.argmax())),
        float(before.log_probs[option].exp()),
        float(log_probs[option].exp()),
    )


def _predicts(what: FollowedDecision, before: Trial) -> str:
    return text.predicts(
        _label(what, before.predicted), float(before.log_probs[before.predicted].exp())
    )


def _whole_runs(row: AttentionRow, uniform: Trial) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits with equal weights in all rows of this kind, and in this row alone.

    They are of one batch of whole runs.
    """
    off = HeadOff(Where(kind=row.trace.attention[row.site].kind), baseline="uniform")

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        each = [
            replace(edit, where=replace(edit.where, rows=(i,)))
            for i, edit in enumerate((off, uniform.edit))
        ]
        outputs = row.scope.outputs_batch([row.trace.streams] * 2, [*row.trace.edits, *each])
        everywhere, in_row = map(logits_of, outputs)
        return everywhere, in_row

    return cache.row_finding(row, "whole runs", run)


def _everywhere(row: AttentionRow, uniform: Trial) -> str:
    """Say what equal weights in all rows and heads of this kind of attention change."""
    logits, _ = _whole_runs(row, uniform)
    same = logits.argmax(-1) == logits_of(row.trace.outputs).argmax(-1)
    return text.uniform_outcome(int(same.sum()), len(same))


def _permutations(permutations: Permutations, before: Trial) -> str:
    return text.permutations(
        permutations.kept(before.predicted), len(permutations.each), *permutations.variations
    )


def _adversary(what: FollowedDecision, row: AttentionRow, before: Trial) -> dict[str, Any]:
    """Return the column of the adversary, if it has been searched for."""
    if not cache.is_found(row, ADVERSARY):
        return {**_empty(ADVERSARY, text.NOT_SEARCHED), "search": True}
    result = cache.row_finding(row, ADVERSARY, partial(adversary, row))
    trial = result.trial
    says = text.adversary_outcome(
        trial.divergence, trial.variation, result.corners, result.n_tried, result.n_keys
    )
    return _column(ADVERSARY, what, before, trial, [says])


def _other(
    what: FollowedDecision, choices: RowChoices, row: AttentionRow, before: Trial
) -> dict[str, Any]:
    """Return the column of another model's weights for this row."""
    if choices.other is None:
        return _empty("other", text.NO_OTHER)
    kind = row.trace.attention[row.site].kind
    try:
        result = _transplant(row, choices.other, kind)
    except (CheckpointError, InputError, ValueError) as error:
        return _empty("other", f"{checkpoints.error_message(error)}.".replace("..", "."))
    weights = _theirs(row, result, kind)
    if weights is None:
        return _empty("other", text.ONE_KEY)
    trial = cache.row_finding(
        row,
        ("of another", result.own.model.fingerprint),
        lambda: trials(row, weights[None])[0],
    )
    says = [
        text.transplant_outcome(choices.other, result.n_kept, len(result.before), result.is_by_head)
    ]
    if line := _seeds(row, choices, kind):
        says.append(line)
    return {**_column("other", what, before, trial, says), "of": choices.other}


def _transplant(row: AttentionRow, name: str, kind: str) -> Transplant:
    other = cache.scope(checkpoints.folder(name))
    return cache.row_finding(
        row,
        ("transplant", other.fingerprint),
        lambda: transplant(other, row.trace, kind),
    )


def _theirs(row: AttentionRow, result: Transplant, kind: str) -> torch.Tensor | None:
    """Return another model's weights at this query, on keys allowed here; None if all are 0."""
    weights = mean_weights(result.own, kind)[row.query].double() * row.allowed
    total = float(weights.sum())
    return weights / total if total else None


def _seeds(row: AttentionRow, choices: RowChoices, kind: str) -> str:
    """Say how other seeds attend here; "" if there are none."""
    mine = mean_weights(row.trace, kind)[row.query].double()
    apart, n_same = [], 0
    for name in choices.seeds:
        try:
            result = _transplant(row, name, kind)
        except (CheckpointError, InputError, ValueError):
            continue
        apart.append(float(js_divergence(mine, mean_weights(result.own, kind)[row.query].double())))
        n_same += int(result.before[row.decision].argmax() == row.logits.argmax())
    return text.seeds(len(apart), min(apart), max(apart), n_same) if apart else ""


def _checks(what: FollowedDecision, row: AttentionRow, tests: QuickTests) -> list[Check]:
    """Check that the model's own weights put in place change nothing, and a test by another run."""
    trace, uniform = what.before.trace, tests.uniform
    checks = [
        Check(
            "own weights put in place: 0",
            tests.own.variation,
            SAME_PROBABILITY,
            "The row replaced by itself; total variation of the predicted distribution",
        )
    ]
    if uniform is not None:
        _, in_row = _whole_runs(row, uniform)
        by_run = in_row[row.decision].double().softmax(-1)
        checks += [
            Check(
                "equal weights as an edit of a whole run",
                float((by_run - uniform.log_probs.exp()).abs().max()),
                SAME_PROBABILITY,
                "Largest difference of a probability from that in the column",
            ),
            Check(
                "JS at most ln 2",
                max(0.0, uniform.divergence - LN_2),
                1e-9,
                "Excess of the Jensen-Shannon divergence of equal weights over its bound, in nats",
            ),
        ]
    return [*checks, *check_site(trace.attention[row.site])]
