"""The section Many texts: which heads does the model need over held-out texts?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt

from models.number_text import decimal, how_many
from models.runs import text_loss
from models.runs.sweep import HeadResult, SweepResult
from models.trace import AttentionSite
from viz_app import words
from viz_app.components.catalogue import BOARD
from viz_app.controls import pick, sweeping
from viz_app.drawing.frame import LINE_COLOURS, with_title
from viz_app.drawing.provenance import file_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import Facts, of_model, saving
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import declared_parameters
from viz_app.views.interventions import state, text
from viz_app.views.interventions.payloads import board_on_scale
from viz_app.views.page import (
    Columns,
    File,
    PageCell,
    Plot,
    Prose,
    ShownComponent,
    View,
    Widget,
    csv_file,
)

SWEEP_BASELINES = ("zero", "uniform")
CURVES_KEY = "if-curves"
SWEEP_ANSWER = "Each head is switched off in turn over held-out texts: the loss says which ones the model needs."
NO_LOSS = "This model gives no probabilities, so a text has no loss."
LOSS_NOTES = {  # kind of loss → how the loss of a text is defined
    text_loss.TOKEN_LOSS: "The loss is that of the texts' own tokens.",
    text_loss.MASKED_LOSS: "In each text 15 % of the tokens are masked, drawn once with a fixed seed. The loss is that of these "
    "tokens. A mask that a text brings along has no known token and does not count.",
    text_loss.ANSWER_LOSS: "The texts come without labels, so the loss is −log p of the answer with all heads on. "
    "It shows how much an answer depends on a head, not whether it is right.",
}
SWEEP_NOT_MEASURED = "Nothing is measured yet for these weights. The button below switches each head off in turn over the held-out texts."
EDITS_LEFT_OUT = ". Changes of heads, masks and patches are left out"
SWEEP_EXPLANATION = """Each number is the mean change of the **loss** over held-out texts when that head alone is off, in nats.
Above 0: the model needs the head. Below 0: it predicts better without it. The interval is a 95 % paired bootstrap over one half
of the texts (Koehn 2004). A star marks an effect that is significant on the **other** half, with the same sign there. The test
flips signs of texts at random (Fisher 1935) and corrects for the number of heads (Holm 1979). So no head is chosen
and reported on the same texts.

The curves switch heads off together, the least important first. Importance is E|Attᵀ ∂L/∂Att|, in units of its layer's length
(Michel et al. 2019, equation 2). Where a layer has one head, that unit is left out. The band is the range of random orders, its
line their upper median. Heads can stand in for one another: what costs nothing alone may cost much together."""


@dataclass(frozen=True)
class SweepChoices:
    """The baseline: the output of a head that is off."""

    baseline: str


def _choose(run: CurrentRun) -> SweepChoices:
    with pick.control_row("interventions", "small"):
        baseline = pick.pick_few(
            "A head that is off passes on",
            state.BASELINE,
            SWEEP_BASELINES,
            text.BASELINE_NAMES.__getitem__,
            help=text.BASELINE_HELP,
        )
    return SweepChoices(baseline)


def find_sweep(run: CurrentRun) -> View[SweepChoices] | str:
    """Return the view of this run, or why its heads cannot be swept."""
    sites = [site for site in run.trace.attention.values() if site.has_causes]
    if not run.scope.model.can_edit_masks or not sites:
        return text.NO_HEADS_TO_CHANGE
    if not run.scope.model.reads_text:
        return text.NO_HELD_OUT_TEXT.format(noun=run.scope.model.fields[0].kind)
    return NO_LOSS if text_loss.loss_kind(run.trace.outputs) is None else MANY_TEXTS


def sweep_payloads(run: CurrentRun, choices: SweepChoices) -> Pictures:
    """Return the board of mean effects and the curves, if they are measured."""
    swept = sweeping.sweep_results(run.scope, choices.baseline)
    if swept is None:
        return {}
    return {"board": board_on_scale(sweep_board(run, swept)), CURVES_KEY: loss_curves(run, swept)}


def _kind(run: CurrentRun) -> str:
    return text_loss.loss_kind(run.trace.outputs) or text_loss.TOKEN_LOSS


def sweep_board(run: CurrentRun, swept: SweepResult) -> dict[str, Any]:
    """Return the payload of the board of mean effects."""
    by_head = {(one.site or (one.kind, one.layer), one.head): one for one in swept.heads}
    kinds = []
    for kind, of_kind in by_kind(run.trace):
        sites = [site for site in of_kind if site.has_causes]
        if not sites:
            continue
        n_heads = max(site.n_heads for site in sites)
        results = [
            [
                by_head.get((site.name, h)) or by_head.get(((kind, site.layer), h))
                for h in range(n_heads)
            ]
            for site in sites
        ]
        kinds.append(
            {
                "title": words.kind_title(sites[0]),
                "sites": [site.name for site in sites],
                "layers": [site.layer + 1 for site in sites],
                "heads": n_heads,
                "effects": [[one and one.effect.mean for one in row] for row in results],
                "states": [[_state(one) for one in row] for row in results],
                "notes": [[_note(one) for one in row] for row in results],
            }
        )
    title = (
        f"What each head off does to the loss, over {how_many(_reported(swept), 'held-out text')}"
    )
    return {
        "title": f"{title}{EDITS_LEFT_OUT * bool(run.spec.edits)}",
        **saving(file_name(run.trace, "heads-off.many-texts", swept.baseline), _facts(run, swept)),
        "sentence": needed_heads_sentence(run, swept),
        "legend": "change of the loss when the head is off. Above 0: the model needs it. "
        "*: significant on the other half of the texts",
        "largest": max((abs(one.effect.mean) for one in swept.heads), default=0.0),
        "unit": text_loss.LOSS_UNITS[_kind(run)],
        "kinds": kinds,
    }


def _reported(swept: SweepResult) -> int:
    """Return the number of texts that effects are reported on."""
    return swept.n_texts // 2


def _state(result: HeadResult | None) -> dict[str, Any] | None:
    return {"factor": 1, "label": "", "says": ""} if result else None


def _note(result: HeadResult | None) -> dict[str, str] | None:
    if result is None:
        return None
    return {
        "mark": "*" if result.is_marked else "",
        "says": f" (95 % interval {decimal(result.effect.low, 3, signed=True)} to {decimal(result.effect.high, 3, signed=True)}"
        f"{', significant' if result.is_marked else ''})",
    }


def needed_heads_sentence(run: CurrentRun, swept: SweepResult) -> str:
    """Say how many heads are needed or harmful, and which matters most."""
    n, marked = len(swept.heads), [one for one in swept.heads if one.is_marked]
    if not swept.can_mark:
        which = "whether the only head has" if n == 1 else f"which of {n} heads have"
        return f"{swept.n_texts} texts are too few to tell {which} a significant effect."
    if not marked:
        who = "The only head has no" if n == 1 else f"None of {n} heads has a"
        return f"{who} significant effect."
    most = max(marked, key=lambda one: abs(one.effect.mean))
    effect = most.effect
    way = f"{'raises' if effect.mean > 0 else 'lowers'} the loss{' most' * (n > 1)}"
    return (
        f"{_counts(n, marked)}. {words.head_location(_site(run, most), most.head)} {way} when off: {decimal(effect.mean, 3, signed=True)} "
        f"({decimal(effect.low, 3, signed=True)} to {decimal(effect.high, 3, signed=True)})."
    )


def _counts(n: int, marked: Sequence[HeadResult]) -> str:
    """Say how many of n heads are needed and harmful, of those with a significant effect."""
    needed = sum(one.effect.mean > 0 for one in marked)
    if n == 1:
        return f"The only head is {'needed' if needed else 'harmful'}*"
    harmful = len(marked) - needed
    counts = f"{needed} of {n} heads {'is' if needed == 1 else 'are'} needed*"
    return f"{counts}, {harmful} harmful*" if harmful else counts


def _site(run: CurrentRun, result: HeadResult) -> AttentionSite:
    sites = dict(by_kind(run.trace))[result.kind]
    return next(
        site for site in sites if site.layer == result.layer and result.site in ("", site.name)
    )


def loss_curves(run: CurrentRun, swept: SweepResult) -> alt.LayerChart | alt.FacetChart:
    """Return the chart of the loss as more and more heads of a kind are off."""
    titles = {kind: words.kind_title(sites[0]) for kind, sites in by_kind(run.trace)}
    base = alt.Chart(alt.Data(values=_curve_rows(swept, titles))).encode(
        x=alt.X("share:Q", title="share of its heads off", axis=alt.Axis(format="%", tickCount=5))
    )
    tip = [alt.Tooltip("off:N", title="heads off")]
    values = ("in order of importance", "low", "random orders", "high")
    tip += [alt.Tooltip(f"{name}:Q", format="+.3f") for name in values]
    loss = "+ nats"
    colour = LINE_COLOURS[0]
    band = base.mark_area(opacity=0.22, color=colour).encode(
        y=alt.Y("low:Q", title=loss), y2="high:Q", tooltip=tip
    )
    median = base.mark_line(strokeDash=[4, 3], strokeWidth=1.5, color=colour).encode(
        y="random orders:Q", tooltip=tip
    )
    order = base.mark_line(point={"color": colour}, strokeWidth=2.5, color=colour).encode(
        y="in order of importance:Q", tooltip=tip
    )
    chart = alt.layer(band, median, order).properties(width=300, height=62)
    faceted = chart.facet(alt.Facet("kind:N", title=None, sort=list(titles.values())), columns=1)
    title = (
        f"Loss ({text_loss.LOSS_UNITS[_kind(run)]}) over {how_many(swept.n_curve_texts, 'text')}: least important heads off first (line), "
        f"{how_many(swept.n_orders, 'random order')} (band, upper median dashed)"
    )
    return with_title(faceted, title)


def _curve_rows(swept: SweepResult, titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each number of heads off of each kind, from 0."""
    return [
        {
            "kind": titles[kind],
            "share": off / n_heads,
            "off": f"{off} of {n_heads}",
            "in order of importance": order,
            "low": low,
            "random orders": median,
            "high": high,
        }
        for kind, curve in swept.curves.items()
        for share, (order, low, median, high) in [("0", (0.0,) * 4), *curve.items()]
        for n_heads in [sum(one.kind == kind for one in swept.heads)]
        for off in [swept.n_off(kind, share)[0] if float(share) else 0]
    ]


def _layout(run: CurrentRun, choices: SweepChoices, pictures: Pictures) -> Sequence[PageCell]:
    measure = Widget(partial(sweeping.sweeping, run.scope, choices.baseline))
    if "board" not in pictures:
        return [Prose(f"{SWEEP_NOT_MEASURED} {LOSS_NOTES[_kind(run)]}"), measure]
    board_of_heads = ShownComponent(BOARD, change={"on_switch": _try, "on_scale": _scale})
    return [Columns((1.5, 1), ([board_of_heads, measure], [Plot(CURVES_KEY, fits=False)]))]


def _try(site: str, head: int, is_off: bool) -> None:
    """Show the head switched off in the reader's own text."""
    state.switch_head(site, head, is_off)
    _show_heads()


def _scale(site: str, head: int, factor: float) -> None:
    state.scale_head(site, head, factor)
    _show_heads()


def _show_heads() -> None:
    url_state.set_value(declared_parameters()["interventions-section"], "Heads")


def _files(run: CurrentRun, choices: SweepChoices) -> Sequence[File]:
    swept = sweeping.sweep_results(run.scope, choices.baseline)
    if swept is None:
        return ()
    name = file_name(run.trace, "heads-over-texts", choices.baseline)
    return [
        csv_file(
            "Effects and intervals, CSV",
            name,
            lambda now: [SWEEP_COLUMNS, *sweep_table(swept)],
            partial(_facts, swept=swept),
        )
    ]


def _facts(run: CurrentRun, swept: SweepResult) -> Facts:
    baseline = {text.PASSES_ON: text.BASELINE_NAMES[swept.baseline]}
    return {**of_model(run.trace), **baseline, "held-out texts": f"{_reported(swept)}"}


SWEEP_COLUMNS = [
    "kind", "layer", "head", "mean effect in nats", "low", "high", "p", "significant on the other half",
]  # fmt: skip


def sweep_table(swept: SweepResult) -> list[list[object]]:
    """Return the rows of the table of effects."""
    return [
        [
            one.kind,
            one.layer + 1,
            one.head + 1,
            one.effect.mean,
            one.effect.low,
            one.effect.high,
            one.p,
            one.is_marked,
        ]
        for one in swept.heads
    ]


MANY_TEXTS = View(
    sweep_payloads,
    _layout,
    choose=_choose,
    text=lambda run, choices: f"{LOSS_NOTES[_kind(run)]}\n\n{SWEEP_EXPLANATION}",
    files=_files,
    is_live=lambda choices: False,
    has_strip=False,
)
