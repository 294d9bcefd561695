"""The section Attribution: which weights lead to a decision by gradients, and which tokens mix by rollout and flow."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from models.analysis import attention_gradients, flow, integrated_gradients, rollout
from models.analysis.checks import Check
from models.analysis.metrics import LogProbability, logits_of
from models.trace import AttentionSite, Trace
from models.trace.edits.watched import Gated
from viz_app import words
from viz_app.components.catalogue import OUTCOME, PLAIN, STATES
from viz_app.controls import pick, which_head
from viz_app.drawing.extent import Extent, scaled
from viz_app.drawing.labels import Label, axes_labels, quoted
from viz_app.drawing.notes import check_rows, rows, small_print
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import head_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import facts, saving
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.interventions import attribution_text as text
from viz_app.views.interventions import state
from viz_app.views.interventions import text as page_text
from viz_app.views.interventions.decisions import decisions
from viz_app.views.interventions.payloads import Asked, asked, outcome
from viz_app.views.interventions.payloads import Choices as AskedFor
from viz_app.views.page import Cell, Columns, File, Shown, View, csv_file

METHOD = Choice("if-attribution", text.GRADIENT, options=tuple(text.METHODS), is_step=False)
MIXES = (text.ROLLOUT, text.FLOW)  # of tokens, over layers; the others are of one decision
LONGEST = {text.GRADIENT: 256, text.INTEGRATED: 64, text.ROLLOUT: 256, text.FLOW: 24}  # tokens
STEP = 1e-2  # of the finite difference, as a share of a weight
ABOVE = 430  # px of the window that stand above the picture and below it


@dataclass(frozen=True)
class Choices:
    """The method, the decision asked about (None: the usual one), and a head or the last layer of a kind."""

    method: str
    position: int | None
    site: str
    head: int


@dataclass(frozen=True)
class Found:
    """The numbers of a method, (query, key), with their checks."""

    values: Tensor
    checks: list[Check]


def find(run: CurrentRun) -> View[Choices] | str:
    """Return the view of this run, or why nothing of it can be attributed."""
    trace = run.unchanged.trace
    if not run.scope.model.masks_can_change or not _kinds(trace, text.GRADIENT):
        return page_text.NONE
    return ATTRIBUTION if decisions(trace) else page_text.NO_ANSWER


def _kinds(trace: Trace, method: str) -> dict[str, list[AttentionSite]]:
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


def _methods(trace: Trace) -> list[str]:
    return [method for method in text.METHODS if _kinds(trace, method)]


def _choose(run: CurrentRun) -> Choices:
    """Draw the row of controls and return the choices."""
    methods = _methods(run.trace)
    with which_head.row():
        method = pick.one(
            "Attribution", METHOD, methods, text.METHODS.__getitem__, help=text.METHOD_HELP
        )
        kinds = _kinds(run.trace, method)
        site, focus = chosen_focus(run.trace)
        if site.name not in {one.name for sites in kinds.values() for one in sites}:
            site = kinds.get(site.kind, next(iter(kinds.values())))[0]
        head = min(focus.head, site.n_heads - 1)
        which_head.which_head(kinds, site, head, heads=method not in MIXES)
    return Choices(method, url_state.get(state.POSITION), site.name, head)


def _within(choices: Choices, run: CurrentRun, other: CurrentRun) -> Choices:
    """Return the same choices for the other run, or the nearest that it has."""
    methods = _methods(other.trace)
    method = choices.method if choices.method in methods else methods[0]
    sites = {site.name: site for some in _kinds(other.trace, method).values() for site in some}
    site = sites.get(choices.site) or next(iter(sites.values()))
    return Choices(method, choices.position, site.name, min(choices.head, site.n_heads - 1))


def found(run: CurrentRun, choices: Choices) -> Found:
    """Return the numbers of the chosen method."""
    make = _mixed if choices.method in MIXES else _attributed
    return make(run, choices)


def _too_long(run: CurrentRun, method: str) -> str:
    """Return the error of a text that is too long for this method; "" if it is short enough."""
    longest = max(len(row.ids) for row in run.trace.streams.values())
    return text.TOO_LONG.format(longest, LONGEST[method]) if longest > LONGEST[method] else ""


def _mixed(run: CurrentRun, choices: Choices) -> Found:
    """Return how much of each token is in each other after the last layer."""
    kind = run.trace.attention[choices.site].kind
    mixed = rollout(run.trace, kind)[-1]
    if choices.method == text.ROLLOUT:
        apart = float((mixed.sum(-1) - 1).abs().max())
        return Found(mixed, [Check("rows sum to 1", apart, 1e-4, text.ROWS)])
    flows = flow(run.trace, kind)
    differing = float(((flows > 0) != (mixed > 0)).sum())
    below = float((mixed.double() - flows.double()).clamp(min=0).max())
    checks = [
        Check("not 0 exactly where rollout is not", differing, 0.0, text.SAME_CELLS),
        Check("no less than rollout", below, 1e-5, text.NO_LESS),
    ]
    return Found(flows, checks)


def _attributed(run: CurrentRun, choices: Choices) -> Found:
    """Return the part of each weight in the log-probability of the decision asked about."""
    decision = _asked(run, choices).decision
    metric, trace, head = LogProbability(decision.option, decision.row), run.trace, choices.head
    if choices.method == text.INTEGRATED:
        parts = integrated_gradients(run.scope, trace, metric, [choices.site])
        off = abs(parts.sum - parts.total)
        limit = max(0.02 * abs(parts.total), 1e-2)
        says = text.COMPLETE.format(parts.sum, parts.total)
        return Found(parts.parts[choices.site][head], [Check(text.SUM, off, limit, says)])
    values = attention_gradients(run.scope, trace, metric)[choices.site][head]
    at = divmod(int(values.abs().argmax()), values.shape[1])
    slope = _slope(run, choices, metric, at)
    value = float(values[at])
    limit = max(0.05 * abs(value), 2e-3)
    check = Check("a finite difference", abs(slope - value), limit, text.SLOPE.format(value, slope))
    return Found(values, [check])


def _slope(run: CurrentRun, choices: Choices, metric: LogProbability, at: tuple[int, int]) -> float:
    """Return the change of the metric for a small change of one weight, by two passes."""
    site, sides = run.trace.attention[choices.site], []
    before = logits_of(run.scope.outputs_batch([run.trace.streams], run.trace.edits)[0])
    for step in (STEP, -STEP):
        gate = torch.ones(1, site.n_heads, site.n_query, site.n_key)
        gate[0, choices.head, at[0], at[1]] += step
        edits = (*run.trace.edits, Gated(gates={choices.site: gate}))
        outputs = run.scope.outputs_batch([run.trace.streams], edits)
        sides.append(float(metric(before, logits_of(outputs[0])).sum()))
    return (sides[0] - sides[1]) / (2 * STEP)


def _asked(run: CurrentRun, choices: Choices) -> Asked:
    return asked(run, AskedFor(choices.position, "log-probability", "zero"))


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """Return the payloads of all components of the section."""
    what = _asked(run, choices)
    answers = outcome(what)
    if not run.trace.edits:
        answers["verdict"] = text.AS_IT_IS
    if problem := _too_long(run, choices.method):
        return {"attribution note": small_print(problem, bad=True), "outcome": answers}
    result = found(run, choices)
    own = {"value": float(result.values.abs().max()) or 1.0}
    sentence = _sentence(run, choices, result.values, what.token)
    return {
        "attribution": scaled(own, partial(_picture, run, choices, result.values, what.token)),
        "attribution note": rows("explained", ("line", sentence)),
        "outcome": answers,
        "checks": check_rows(result.checks),
    }


def _names(run: CurrentRun, choices: Choices) -> tuple[list[Label], list[Label]]:
    return axes_labels(run.trace, run.trace.attention[choices.site])


def _place(run: CurrentRun, choices: Choices) -> str:
    site = run.trace.attention[choices.site]
    if choices.method in MIXES:
        return f"{words.kind_short(site)}, all layers"
    return page_text.place(site, choices.head)


def _picture(
    run: CurrentRun, choices: Choices, values: Tensor, token: str, scales: Extent
) -> bytes:
    queries, keys = _names(run, choices)
    drawn = values.detach().cpu().numpy().astype(np.float32)
    file = head_name(run.trace, run.trace.attention[choices.site], choices.head, choices.method)
    header = {
        "title": text.title(choices.method, _place(run, choices), token),
        **saving(file, facts(run.trace)),
        "axis": "",
        "columns": drawn.shape[1],
        "rows": [label.as_json() for label in queries],
        "names": [label.as_json() for label in keys],
        "unit": text.UNITS[choices.method],
        "above": ABOVE,
        "limit": scales["value"],
        "frames": [],
        "ways": [],
    }
    return pack(header, states=drawn)


def _sentence(run: CurrentRun, choices: Choices, values: Tensor, token: str) -> str:
    """Return the sentence on the strongest cell; of what mixes, of that between two tokens."""
    queries, keys = _names(run, choices)
    shown = values.abs().clone()
    if choices.method in MIXES:
        shown.fill_diagonal_(0)
    row, column = divmod(int(shown.argmax()), values.shape[1])
    named = quoted(queries[row]), quoted(keys[column])
    return text.sentence(choices.method, *named, float(values[row, column]), token)


def _layout(run: CurrentRun, choices: Choices, drawn: Pictures) -> Sequence[Cell]:
    picture = [Shown(STATES, "attribution"), Shown(PLAIN, "attribution note")]
    if choices.method in MIXES:
        return picture
    ask = Shown(OUTCOME, choose={"on_choose": partial(url_state.keep, state.POSITION)})
    return [Columns((1.5, 1), (picture, [ask]))]


def _table(run: CurrentRun, choices: Choices) -> list[list[object]]:
    queries, keys = _names(run, choices)
    values = [] if _too_long(run, choices.method) else found(run, choices).values.tolist()
    head: list[object] = ["query \\ key", *(label.text for label in keys)]
    return [head, *([label.text, *row] for label, row in zip(queries, values, strict=False))]


def _files(run: CurrentRun, choices: Choices) -> Sequence[File]:
    name = head_name(run.trace, run.trace.attention[choices.site], choices.head, choices.method)
    return [csv_file("These numbers, CSV", name, lambda now: _table(now, choices))]


ATTRIBUTION = View(
    payloads,
    _layout,
    choose=_choose,
    within=_within,
    text=lambda run, choices: text.EXPLANATION,
    files=_files,
    has_strip=False,
    is_live=lambda choices: choices.method != text.FLOW,
)
