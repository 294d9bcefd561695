"""The numbers of the section Attribution, each with the identity that checks it."""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from models.analysis import attention_gradients, flow, integrated_gradients, logit_parts, rollout
from models.analysis.checks import HALF_PRECISION, Check, rounding_in
from models.analysis.metrics import LogProbability, logits_of
from models.trace import AttentionSite, Trace
from models.trace.edits.gradients import WeightGates
from viz_app import words
from viz_app.drawing.labels import Label, axes_labels, queries_are_written
from viz_app.drawing.sites import by_kind
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import attribution_text as text
from viz_app.views.interventions.decisions import option_label
from viz_app.views.interventions.payloads import FollowedDecision, HeadOffChoices, followed_decision

MIXES = (
    text.ROLLOUT_METHOD,
    text.FLOW_METHOD,
)  # methods that mix tokens over layers; the others are about one decision
# steps of the finite difference, as shares of a weight; the second if the first crosses a kink
WEIGHT_STEPS = (1e-2, 2e-3)


@dataclass(frozen=True)
class AttributionChoices:
    """The method, the decision (None: the default one), and a head or the last layer of a kind."""

    method: str
    position: int | None
    site: str
    head: int


@dataclass(frozen=True)
class AttributionResult:
    """The numbers of a method, their rows and columns, and their checks.

    `others` are parts that belong to no cell, by name; `token` and `than` are the options compared.
    `not_checked` says why there is no check.
    """

    values: Tensor
    checks: list[Check]
    rows: list[Label]
    columns: list[Label]
    axes: tuple[str, str]  # of the rows and of the columns
    others: dict[str, float] = field(default_factory=dict)
    token: str = ""
    than: str = ""
    not_checked: str = ""


def kinds_of(trace: Trace, method: str) -> dict[str, list[AttentionSite]]:
    """Return the attentions that this method is defined for, by kind."""
    kinds = {kind: [site for site in sites if site.has_causes] for kind, sites in by_kind(trace)}
    return {
        kind: sites
        for kind, sites in kinds.items()
        if sites and (method not in MIXES or all(map(_mixes, sites)))
    }


def _mixes(site: AttentionSite) -> bool:
    """Return True if the tokens of one row read each other, each of them at least one."""
    if site.query_stream != site.key_stream:
        return False
    return all(bool(site.allowed(head=head).any(-1).all()) for head in range(site.n_heads))


def methods_of(run: CurrentRun) -> list[str]:
    return [
        method
        for method in text.METHOD_TITLES
        if (
            _is_summed(run.unchanged)
            if method == text.DIRECT_METHOD
            else kinds_of(run.trace, method)
        )
    ]


def _is_summed(run: CurrentRun, token: int = 0, than: int = 1, row: int = 0) -> bool:
    """Return True if the logits there are a sum of what the heads and other parts add."""
    try:
        return bool(logit_parts(run.scope.model, run.trace, token, than, row).heads)
    except ValueError:
        return False


def has_numbers(run: CurrentRun, choices: AttributionChoices) -> bool:
    """Return True unless a change of the run breaks the sum that the method takes apart."""
    return choices.method != text.DIRECT_METHOD or _is_summed(run, *_pair(run, choices))


def _pair(run: CurrentRun, choices: AttributionChoices) -> tuple[int, int, int]:
    """Return the token followed, the most probable other, and the row of their logits."""
    decision = decision_of(run, choices).decision
    token, row = decision.option, decision.row
    likeliest = run.trace.next_token.logits[row].topk(2).indices.tolist()
    return token, next(i for i in likeliest if i != token), row


def attribution_numbers(run: CurrentRun, choices: AttributionChoices) -> AttributionResult:
    """Return the numbers of the chosen method."""
    if choices.method == text.DIRECT_METHOD:
        return _direct(run, choices)
    make = _mixed if choices.method in MIXES else _attributed
    values, checks = make(run, choices)
    site = run.trace.attention[choices.site]
    token = decision_of(run, choices).token
    axes = words.axes(site, run.terms, queries_are_written(run.trace, site))
    dtype = str(site.dtype).removeprefix("torch.")
    return AttributionResult(
        values,
        checks,
        *axes_labels(run.trace, site),
        axes,
        token=token,
        not_checked="" if checks else text.NOT_CHECKED.format(dtype),
    )


def _direct(run: CurrentRun, choices: AttributionChoices) -> AttributionResult:
    """Return what each head adds to the token's logit, minus that of the most probable other."""
    token, than, row = _pair(run, choices)
    parts = logit_parts(run.scope.model, run.trace, token, than, row)
    n_heads = max(len(heads) for heads in parts.heads.values())
    values = torch.full((len(parts.heads), n_heads), torch.nan)
    for i, heads in enumerate(parts.heads.values()):
        values[i, : len(heads)] = heads
    sites = [run.trace.attention[name] for name in parts.heads]
    rows = [Label(text.row_label(site.layer, words.kind_short(site))) for site in sites]
    columns = [Label(text.HEAD_LABEL.format(head + 1)) for head in range(n_heads)]
    says = text.SUM_OF_PARTS.format(parts.sum, parts.total)
    return AttributionResult(
        values,
        [Check(text.PARTS_SUM, abs(parts.sum - parts.total), parts.rounding, says)],
        rows,
        columns,
        text.DIRECT_AXES,
        parts.others,
        decision_of(run, choices).token,
        option_label(run.trace, than, row).text,
    )


def _mixed(run: CurrentRun, choices: AttributionChoices) -> tuple[Tensor, list[Check]]:
    """Return how much of each token is in each other after the last layer."""
    kind = run.trace.attention[choices.site].kind
    mixed = rollout(run.trace, kind)[-1]
    if choices.method == text.ROLLOUT_METHOD:
        apart = float((mixed.sum(-1) - 1).abs().max())
        return mixed, [Check("rows sum to 1", apart, 1e-4, text.ROW_SUM_CHECK)]
    flows = flow(run.trace, kind)
    differing = float(((flows > 0) != (mixed > 0)).sum())
    below = float((mixed.double() - flows.double()).clamp(min=0).max())
    checks = [
        Check("not 0 exactly where rollout is not", differing, 0.0, text.SAME_CELLS),
        Check("no less than rollout", below, 1e-5, text.NO_LESS),
    ]
    return flows, checks


def _attributed(run: CurrentRun, choices: AttributionChoices) -> tuple[Tensor, list[Check]]:
    """Return the part of each weight in the log-probability of the decision followed.

    In half precision a gradient is not checked: rounding hides the effect of a small step.
    """
    decision = decision_of(run, choices).decision
    metric, trace, head = LogProbability(decision.option, decision.row), run.trace, choices.head
    if choices.method == text.INTEGRATED_METHOD:
        parts = integrated_gradients(run.scope, trace, metric, [choices.site])
        off = abs(parts.sum - parts.total)
        logits = logits_of(trace.outputs)[decision.row]
        rounding = rounding_in(trace.attention[choices.site].dtype) * float(logits.abs().max())
        limit = max(0.02 * abs(parts.total), 1e-2, rounding)
        says = text.COMPLETE.format(parts.sum, parts.total)
        return parts.parts[choices.site][head], [Check(text.PARTS_SUM, off, limit, says)]
    values = attention_gradients(run.scope, trace, metric)[choices.site][head]
    if trace.attention[choices.site].dtype in HALF_PRECISION:
        return values, []
    at = divmod(int(values.abs().argmax()), values.shape[1])
    check, smaller = (
        partial(_slope_check, run, choices, metric, at, float(values[at]), step)
        for step in WEIGHT_STEPS
    )
    return values, [first if (first := check()).passed else smaller()]


def _slope_check(
    run: CurrentRun,
    choices: AttributionChoices,
    metric: LogProbability,
    at: tuple[int, int],
    value: float,
    step: float,
) -> Check:
    """Check the gradient of one weight by two passes, a step of this share in each direction."""
    slope = _slope(run, choices, metric, at, step)
    says = text.SLOPE_OF_WEIGHT.format(value, slope, 100 * step)
    return Check("a finite difference", abs(slope - value), max(0.05 * abs(value), 2e-3), says)


def _slope(
    run: CurrentRun,
    choices: AttributionChoices,
    metric: LogProbability,
    at: tuple[int, int],
    step: float,
) -> float:
    """Return the change of the metric for a small change of one weight, by two passes."""
    site, sides = run.trace.attention[choices.site], []
    before = logits_of(run.scope.outputs_batch([run.trace.streams], run.trace.edits)[0])
    for change in (step, -step):
        gate = torch.ones(1, site.n_heads, site.n_query, site.n_key)
        gate[0, choices.head, at[0], at[1]] += change
        edits = (*run.trace.edits, WeightGates(gates={choices.site: gate}))
        outputs = run.scope.outputs_batch([run.trace.streams], edits)
        sides.append(float(metric(before, logits_of(outputs[0])).sum()))
    return (sides[0] - sides[1]) / (2 * step)


def decision_of(run: CurrentRun, choices: AttributionChoices) -> FollowedDecision:
    return followed_decision(run, HeadOffChoices(choices.position, "log-probability", "zero"))
