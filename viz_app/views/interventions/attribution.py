"""The section Attribution: what leads to a decision, and which tokens mix.

Decisions are split into parts of the logits, or traced by gradients.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from viz_app import words
from viz_app.components.catalogue import OUTCOME, PLAIN, STATES
from viz_app.controls import pick, which_head
from viz_app.drawing.extent import Extent, scaled
from viz_app.drawing.labels import quoted
from viz_app.drawing.notes import check_rows, rows, small_print
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name, head_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.interventions import attribution_text as text
from viz_app.views.interventions import state
from viz_app.views.interventions import text as page_text
from viz_app.views.interventions.attribution_parts import (
    MIXES,
    Choices,
    Found,
    asked_of,
    found,
    kinds_of,
    methods_of,
)
from viz_app.views.interventions.decisions import decisions
from viz_app.views.interventions.payloads import outcome
from viz_app.views.page import Cell, Columns, File, Shown, View, csv_file

METHOD = Choice("if-attribution", text.GRADIENT, options=tuple(text.METHODS), is_step=False)
LONGEST = {
    text.DIRECT: 512,
    text.GRADIENT: 256,
    text.INTEGRATED: 64,
    text.ROLLOUT: 256,
    text.FLOW: 24,
}  # tokens
ABOVE = 430  # px of the window that stand above the picture and below it


def find(run: CurrentRun) -> View[Choices] | str:
    """Return the view of this run, or why nothing of it can be attributed."""
    trace = run.unchanged.trace
    if not run.scope.model.masks_can_change or not kinds_of(trace, text.GRADIENT):
        return page_text.NONE
    return ATTRIBUTION if decisions(trace) else page_text.NO_ANSWER


def _choose(run: CurrentRun) -> Choices:
    """Draw the row of controls and return the choices."""
    methods = methods_of(run)
    with which_head.row():
        method = pick.one(
            "Attribution", METHOD, methods, text.METHODS.__getitem__, help=text.METHOD_HELP
        )
        kinds = kinds_of(run.trace, method)
        site, focus = chosen_focus(run.trace)
        if site.name not in {one.name for sites in kinds.values() for one in sites}:
            site = kinds.get(site.kind, next(iter(kinds.values())))[0]
        head = min(focus.head, site.n_heads - 1)
        if method != text.DIRECT:
            which_head.which_head(kinds, site, head, heads=method not in MIXES)
    return Choices(method, url_state.get(state.POSITION), site.name, head)


def _within(choices: Choices, run: CurrentRun, other: CurrentRun) -> Choices:
    """Return the same choices for the other run, or the nearest that it has."""
    methods = methods_of(other)
    method = choices.method if choices.method in methods else methods[0]
    sites = {site.name: site for some in kinds_of(other.trace, method).values() for site in some}
    site = sites.get(choices.site) or next(iter(sites.values()))
    return Choices(method, choices.position, site.name, min(choices.head, site.n_heads - 1))


def _too_long(run: CurrentRun, method: str) -> str:
    """Return the error of a text that is too long for this method; "" if it is short enough."""
    longest = max(len(row.ids) for row in run.trace.streams.values())
    return text.TOO_LONG.format(longest, LONGEST[method]) if longest > LONGEST[method] else ""


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """Return the payloads of all components of the section."""
    what = asked_of(run, choices)
    answers = outcome(what)
    if not run.trace.edits:
        answers["verdict"] = text.AS_IT_IS
    if problem := _too_long(run, choices.method):
        return {"attribution note": small_print(problem, bad=True), "outcome": answers}
    result = found(run, choices)
    own = {"value": float(result.values.abs().nan_to_num(0).max()) or 1.0}
    sentence = _sentence(choices, result)
    return {
        "attribution": scaled(own, partial(_picture, run, choices, result)),
        "attribution note": rows("explained", ("line", sentence)),
        "outcome": answers,
        "checks": check_rows(result.checks),
    }


def _place(run: CurrentRun, choices: Choices) -> str:
    site = run.trace.attention[choices.site]
    if choices.method == text.DIRECT:
        return ""
    if choices.method in MIXES:
        return f"{words.kind_short(site)}, all layers"
    return page_text.place(site, choices.head)


def _picture(run: CurrentRun, choices: Choices, result: Found, scales: Extent) -> bytes:
    drawn = result.values.detach().cpu().numpy().astype(np.float32)
    header = {
        "title": text.title(choices.method, _place(run, choices), result.token, result.than),
        **saving(_file_name(run, choices), facts(run.trace)),
        "axis": "",
        "columns": drawn.shape[1],
        "rows": [label.as_json() for label in result.rows],
        "names": [label.as_json() for label in result.columns],
        "what": "row" if choices.method == text.DIRECT else "token",
        "unit": text.UNITS[choices.method],
        "above": ABOVE,
        "limit": scales["value"],
        "frames": [],
        "ways": [],
    }
    return pack(header, states=drawn)


def _file_name(run: CurrentRun, choices: Choices) -> str:
    if choices.method == text.DIRECT:
        return file_name(run.trace, choices.method)
    return head_name(run.trace, run.trace.attention[choices.site], choices.head, choices.method)


def _sentence(choices: Choices, result: Found) -> str:
    """Return the sentence on the strongest cell; of what mixes, of that between two tokens."""
    shown = result.values.abs().nan_to_num(0)
    if choices.method in MIXES:
        shown.fill_diagonal_(0)
    row, column = divmod(int(shown.argmax()), shown.shape[1])
    value, (head, other) = (
        float(result.values[row, column]),
        (result.rows[row], result.columns[column]),
    )
    if choices.method == text.DIRECT:
        heads, rest = float(result.values.nansum()), sum(result.others.values())
        return text.direct(
            f"{head.text}, {other.text}", value, heads, rest, result.token, result.than
        )
    return text.sentence(choices.method, quoted(head), quoted(other), value, result.token)


def _layout(run: CurrentRun, choices: Choices, drawn: Pictures) -> Sequence[Cell]:
    picture = [Shown(STATES, "attribution"), Shown(PLAIN, "attribution note")]
    if choices.method in MIXES:
        return picture
    ask = Shown(OUTCOME, choose={"on_choose": partial(url_state.keep, state.POSITION)})
    return [Columns((1.5, 1), (picture, [ask]))]


def _table(run: CurrentRun, choices: Choices) -> list[list[object]]:
    if problem := _too_long(run, choices.method):
        return [[problem]]
    result = found(run, choices)
    corner = "attention \\ head" if choices.method == text.DIRECT else "query \\ key"
    pairs = zip(result.rows, result.values.tolist(), strict=True)
    return [
        [corner, *(label.text for label in result.columns)],
        *([label.text, *row] for label, row in pairs),
        *([name, value] for name, value in result.others.items()),
    ]


def _files(run: CurrentRun, choices: Choices) -> Sequence[File]:
    name = _file_name(run, choices)
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
