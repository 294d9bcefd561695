"""The section Attribution: what leads to a decision, and which tokens mix.

Decisions are split into parts of the logits, or traced by gradients.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from viz_app import words
from viz_app.components.catalogue import OUTCOME, PLAIN, STATES
from viz_app.controls import pick, which_head
from viz_app.drawing.extent import Extent, scale_picture
from viz_app.drawing.labels import number_labels, quote
from viz_app.drawing.notes import check_rows, rows, small_print
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name, head_name
from viz_app.drawing.stamp import Facts, facts, saving
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
    AttributionChoices,
    AttributionResult,
    attribution_numbers,
    decision_of,
    has_numbers,
    kinds_of,
    methods_of,
)
from viz_app.views.interventions.decisions import decisions, option_noun
from viz_app.views.interventions.payloads import decision_facts, decision_part, outcome_payload
from viz_app.views.page import Columns, File, PageCell, ShownComponent, View, csv_file

METHOD = Choice(
    "if-attribution", text.GRADIENT_METHOD, options=tuple(text.METHOD_TITLES), is_step=False
)
MAX_ATTRIBUTED_TOKENS = {
    text.DIRECT_METHOD: 512,
    text.GRADIENT_METHOD: 256,
    text.INTEGRATED_METHOD: 64,
    text.ROLLOUT_METHOD: 256,
    text.FLOW_METHOD: 24,
}  # tokens
ATTRIBUTION_CHROME_PX = 430  # px of the window above and below the picture


def find_attribution(run: CurrentRun) -> View[AttributionChoices] | str:
    """Return the view of this run, or why nothing in it can be attributed."""
    trace = run.unchanged.trace
    if not run.scope.model.can_edit_masks or not kinds_of(trace, text.GRADIENT_METHOD):
        return page_text.NO_HEADS_TO_CHANGE
    return ATTRIBUTION if decisions(trace) else page_text.no_answer(run.scope.model)


def _choose(run: CurrentRun) -> AttributionChoices:
    """Draw the row of controls and return the choices."""
    methods = methods_of(run)
    with which_head.head_row():
        method = pick.pick_few(
            "Attribution", METHOD, methods, text.METHOD_TITLES.__getitem__, help=text.METHOD_HELP
        )
        kinds = kinds_of(run.trace, method)
        site, focus = chosen_focus(run.trace)
        if site.name not in {one.name for sites in kinds.values() for one in sites}:
            site = kinds.get(site.kind, next(iter(kinds.values())))[0]
        head = min(focus.head, site.n_heads - 1)
        if method != text.DIRECT_METHOD:
            which_head.which_head(kinds, site, head, heads=method not in MIXES)
    return AttributionChoices(method, url_state.get(state.FOLLOWED_POSITION), site.name, head)


def _within(choices: AttributionChoices, run: CurrentRun, other: CurrentRun) -> AttributionChoices:
    """Return the same choices for the other run, or the nearest that it has."""
    methods = methods_of(other)
    method = choices.method if choices.method in methods else methods[0]
    sites = {site.name: site for some in kinds_of(other.trace, method).values() for site in some}
    site = sites.get(choices.site) or next(iter(sites.values()))
    return AttributionChoices(
        method, choices.position, site.name, min(choices.head, site.n_heads - 1)
    )


def _problem(run: CurrentRun, choices: AttributionChoices) -> str:
    """Return why this method has no numbers for this run; "" if it has."""
    longest = max(len(row.ids) for row in run.trace.streams.values())
    most = MAX_ATTRIBUTED_TOKENS[choices.method]
    if longest > most:
        return text.too_many_tokens(page_text.noun_of(run.scope.model), longest, most)
    if has_numbers(run, choices):
        return ""
    return text.NO_SUM if run.trace.edits else text.SUM_IS_ROUNDED


def attribution_payloads(run: CurrentRun, choices: AttributionChoices) -> Pictures:
    """Return the payloads of all components of the section."""
    what = decision_of(run, choices)
    answers = outcome_payload(what)
    if not run.trace.edits:
        answers["verdict"] = text.AS_IT_IS.format(option_noun(run.trace))
    if problem := _problem(run, choices):
        return {"attribution note": small_print(problem, bad=True), "outcome": answers}
    result = attribution_numbers(run, choices)
    extent = {"value": float(result.values.abs().nan_to_num(0).max()) or 1.0}
    lines = filter(None, (_sentence(choices, result), result.not_checked))
    return {
        "attribution": scale_picture(extent, partial(_picture, run, choices, result)),
        "attribution note": rows("explained", *(("line", line) for line in lines)),
        "outcome": answers,
        **({"checks": check_rows(result.checks)} if result.checks else {}),
    }


def _place(run: CurrentRun, choices: AttributionChoices) -> str:
    site = run.trace.attention[choices.site]
    if choices.method == text.DIRECT_METHOD:
        return ""
    if choices.method in MIXES:
        return f"{words.kind_short(site)}, all layers"
    return words.head_location(site, choices.head)


def _picture(
    run: CurrentRun, choices: AttributionChoices, result: AttributionResult, scales: Extent
) -> bytes:
    values = result.values.detach().cpu().numpy().astype(np.float32)
    header = {
        "title": text.attribution_title(
            choices.method, _place(run, choices), result.token, result.than
        ),
        **saving(_file_name(run, choices), _facts(run, choices)),
        "axis": "",
        "queryAxis": result.axes[0],
        "keyAxis": result.axes[1],
        "columns": values.shape[1],
        "rows": [label.as_json() for label in result.rows],
        "names": [label.as_json() for label in result.columns],
        "what": "row" if choices.method == text.DIRECT_METHOD else "token",
        "unit": text.METHOD_UNITS[choices.method],
        "above": ATTRIBUTION_CHROME_PX,
        "limit": scales["value"],
        "frames": [],
        "ways": [],
    }
    return pack(header, states=values)


def _file_name(run: CurrentRun, choices: AttributionChoices) -> str:
    if choices.method in MIXES:  # of all heads and layers
        return file_name(run.trace, run.trace.attention[choices.site].kind, choices.method)
    decision = decision_part(decision_of(run, choices).decision.row)
    if choices.method == text.DIRECT_METHOD:
        return file_name(run.trace, choices.method, decision)
    site = run.trace.attention[choices.site]
    return head_name(run.trace, site, choices.head, choices.method, decision)


def _facts(run: CurrentRun, choices: AttributionChoices) -> Facts:
    """Return the facts about the numbers; rollout and flow are about no decision."""
    is_mixed = choices.method in MIXES
    return facts(run.trace) if is_mixed else decision_facts(decision_of(run, choices))


def _sentence(choices: AttributionChoices, result: AttributionResult) -> str:
    """Return the sentence on the strongest cell; in rollout and flow, between two tokens."""
    sizes, values = result.values.abs().nan_to_num(0), result.values
    if choices.method in MIXES:
        values = sizes.fill_diagonal_(0)
    row, column = divmod(int(sizes.argmax()), sizes.shape[1])
    value, (head, other) = (
        float(values[row, column]),
        (result.rows[row], result.columns[column]),
    )
    if choices.method == text.DIRECT_METHOD:
        heads, rest = float(result.values.nansum()), sum(result.others.values())
        return text.direct(
            f"{head.text}, {other.text}", value, heads, rest, result.token, result.than
        )
    return text.strongest_cell_sentence(
        choices.method, quote(head), quote(other), value, result.token
    )


def _layout(run: CurrentRun, choices: AttributionChoices, pictures: Pictures) -> Sequence[PageCell]:
    picture = [ShownComponent(STATES, "attribution"), ShownComponent(PLAIN, "attribution note")]
    if choices.method in MIXES:
        return picture
    ask = ShownComponent(
        OUTCOME, choose={"on_choose": partial(url_state.set_value, state.FOLLOWED_POSITION)}
    )
    return [Columns((1.5, 1), (picture, [ask]))]


def _table(run: CurrentRun, choices: AttributionChoices) -> list[list[object]]:
    if problem := _problem(run, choices):
        return [[problem]]
    result = attribution_numbers(run, choices)
    names, columns = ([label.text for label in axis] for axis in (result.rows, result.columns))
    corner = "attention \\ head"
    if choices.method != text.DIRECT_METHOD:
        corner, names, columns = "query \\ key", number_labels(names), number_labels(columns)
    return [
        [corner, *columns],
        *([name, *row] for name, row in zip(names, result.values.tolist(), strict=True)),
        *([name, value] for name, value in result.others.items()),
    ]


def _files(run: CurrentRun, choices: AttributionChoices) -> Sequence[File]:
    name = _file_name(run, choices)
    table, about = partial(_table, choices=choices), partial(_facts, choices=choices)
    return [csv_file("These numbers, CSV", name, table, about)]


ATTRIBUTION = View(
    attribution_payloads,
    _layout,
    choose=_choose,
    within=_within,
    text=lambda run, choices: text.ATTRIBUTION_EXPLANATION,
    files=_files,
    has_strip=False,
    is_live=lambda choices: choices.method != text.FLOW_METHOD,
)
