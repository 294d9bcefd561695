"""The section Parallel and cost: the paper's Table 1, counts on the text, measured times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    LAYER_KINDS,
    RNN,
    SELF_ATTENTION,
    Reach,
)
from models.analysis.layer_timing import TIMED_LENGTHS, Timing, growth_rate
from viz_app.controls import measuring, pick, which_head
from viz_app.controls.layer_choice import Layers, choose_layers
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.from_rnn import charts, files
from viz_app.views.from_rnn.reach import layer_reaches, layers_within
from viz_app.views.page import Columns, Foot, PageCell, Plot, Prose, View, Widget

# Vaswani et al. 2017, Table 1: complexity per layer, sequential operations, maximum path length
TABLE_1 = {
    RNN: ("O(n·d²)", "O(n)", "O(n)"),
    BIDIRECTIONAL: ("O(n·d²)", "O(n)", "O(n)"),
    CNN: ("O(k·n·d²)", "O(1)", "O(log_k n); contiguous O(n/k)"),
    SELF_ATTENTION: ("O(n²·d)", "O(1)", "O(1)"),
}
RESTRICTED = ("self-attention (restricted)", "O(r·n·d)", "O(1)", "O(n/r)")
TABLE_NOTE = (
    "n tokens, d features, k the convolution's width, r the neighbourhood of restricted self-attention. After Vaswani et "
    "al. 2017, Table 1, where “recurrent” is one line. Its O(log_k n) is the path length of dilated convolutions. "
    "Contiguous ones need a stack of O(n/k) layers (§4). In bold: counted on this page's layers for this sentence, "
    "for the longest pair. The CNN is contiguous: its sequential operations are its layers. Its path length is the "
    "number of layers that pair would need, however many are stacked above."
)
UNMEASURED = (
    f"The button times each layer on random vectors at {len(TIMED_LENGTHS)} lengths, doubling from {TIMED_LENGTHS[0]} to "
    f"{TIMED_LENGTHS[-1]:,} tokens. The plot shows the median time. Both axes are logarithmic. A "
    "straight line means that time grows as a power of n; the steeper, the higher the power. Where it is flat, the "
    "fixed cost of a call outweighs the rest."
)


STEPS_PICTURE, TIMES_PICTURE, TABLE_PICTURE = "Steps and paths", "Times", "Table 1"
COST_PICTURE = Choice(
    "from-rnn-cost", STEPS_PICTURE, options=(STEPS_PICTURE, TIMES_PICTURE, TABLE_PICTURE)
)


@dataclass(frozen=True)
class CostChoices:
    """The layers, and the picture of them."""

    layers: Layers
    picture: str


def _choose(run: CurrentRun) -> CostChoices:
    with which_head.head_row():
        picture = pick.pick_few("Show", COST_PICTURE, COST_PICTURE.options)
        return CostChoices(choose_layers(run), picture)


def _within(choices: CostChoices, run: CurrentRun, other: CurrentRun) -> CostChoices:
    return replace(choices, layers=layers_within(choices.layers, other))


def _reaches(layers: Layers) -> list[Reach]:
    return [one.reach for one in layer_reaches(layers)]


def _payloads(run: CurrentRun, choices: CostChoices) -> Pictures:
    if choices.layers.source is None or choices.picture != STEPS_PICTURE:
        return {}
    reaches = _reaches(choices.layers)
    waits = "Positions computed at each sequential step"
    return {
        "from-rnn-schedule": charts.scaled_schedule(reaches, waits),
        "from-rnn-paths": charts.scaled_path_lengths(reaches, "Path length between two tokens"),
    }


def _layout(run: CurrentRun, choices: CostChoices, pictures: Pictures) -> Sequence[PageCell]:
    """Place the counts, the times, or the table of both.

    The times are the same for every run.
    """
    if choices.layers.source is None:
        return []
    device, reaches = run.scope.device, _reaches(choices.layers)
    if choices.picture == TABLE_PICTURE:
        table = comparison_table(reaches, measuring.timings())
        return [Prose(table), Foot((1.6, 1))]
    if choices.picture == TIMES_PICTURE:
        presentation = measuring.TimingPresentation(_times, _timed_text, files.timings_csv)
        draw = partial(measuring.measuring, device, choices.layers.width, presentation)
        return [Widget(draw), Foot((1.6, 1))]
    plots = [Plot("from-rnn-schedule", fits=False)], [Plot("from-rnn-paths")]
    return [Columns((1.15, 1), plots, ("Schedule", "Path length")), Foot((1.6, 1))]


def _text(run: CurrentRun, choices: CostChoices) -> str:
    sentence = counted_and_timed(run.scope.device.type, torch.get_num_threads())
    return f"{sentence}\n\n{TABLE_NOTE}"


def _times(timings: Sequence[Timing]) -> charts.alt.Chart:
    title = "Forward time of one layer against length, both logarithmic"
    return charts.forward_times(timings, title)


def _timed_text(timings: Sequence[Timing]) -> str:
    return growth_text(timings) if timings else UNMEASURED


def comparison_table(reaches: Sequence[Reach], timings: Sequence[Timing]) -> str:
    """Write the paper's Table 1 as Markdown, with counts on this text and measured growth."""
    n = len(reaches[0].steps)
    head = [
        "layer",
        "complexity per layer",
        f"sequential operations (here, n = {n})",
        f"maximum path length (here, n = {n})",
        "measured growth",
    ]
    rows = []
    for reach in reaches:
        cost, sequential, path = TABLE_1[reach.choice.kind]
        counts = f"{sequential} (**{len(reach.schedule)}**)", f"{path} (**{_longest(reach)}**)"
        rows.append([reach.choice.kind, cost, *counts, _slope(timings, reach.choice.kind)])
    name, cost, sequential, path = RESTRICTED
    rows.append([name, cost, sequential, path, "–"])
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _longest(reach: Reach) -> str:
    """Return the most steps between any two tokens that a path joins.

    No stack of convolutions of width 1 joins two.
    """
    joins_none = len(reach.steps) > 1 and reach.choice.kind == CNN and reach.choice.width == 1
    return "no path" if joins_none else str(int(reach.steps.max()))


def _slope(timings: Sequence[Timing], kind: str) -> str:
    slope = growth_rate(timings, kind)
    return f"n^{slope[2]:.2f}" if slope else "–"


def counted_and_timed(device: str, threads: int) -> str:
    """Say in Markdown which figures are counted and which are timed.

    It adds what this device can do at once, and what another would change.
    """
    sentence = (
        "**Counted**, on each layer's own graph: the timetable, the path lengths and the bold figures of the table. **Timed**, on "
        "this machine: the plot of times and the measured growth, nothing else. "
    )
    gpu = (
        "the positions of one sequential step run at once. So the times of the CNN and self-attention stay nearly flat "
        "until the device is full. The RNN takes its n steps in turn"
    )
    if device != "cpu":
        return f"{sentence}This is a GPU ({device}): {gpu}."
    if threads == 1:
        here = "One CPU thread does one thing at a time: **nothing here runs in parallel**. A layer that waits for nothing"
        return f"{sentence}{here} gains nothing by that. Its time is its work and what each call costs. On a GPU {gpu}."
    here = f"The {threads} CPU threads share the large products inside a step; positions do not each get one."
    return f"{sentence}{here} On a GPU {gpu}."


def growth_text(timings: Sequence[Timing]) -> str:
    """Put the slopes of the upper half into words."""
    slopes = {kind: slope for kind in LAYER_KINDS if (slope := growth_rate(timings, kind))}
    if not slopes:
        return "Two lengths in the upper half are needed before a slope can be fitted."
    rates = "; ".join(
        f"{kind} n^{slope:.2f} ({shortest:,} to {longest:,})"
        for kind, (shortest, longest, slope) in slopes.items()
    )
    lines = [
        f"In the upper half of the lengths time grows as: {rates}. With n^1, twice the tokens take twice the time; with n^2, four "
        "times."
    ]
    last = max(t.n for t in timings)
    medians = {t.layer: t.median for t in timings if t.n == last}
    if RNN in medians and SELF_ATTENTION in medians:
        lines.append(f"At {last:,} tokens {_slower(medians[RNN], medians[SELF_ATTENTION])}.")
    return " ".join(lines)


def _slower(rnn: float, attention: float) -> str:
    """Compare two times."""
    if max(rnn, attention) / min(rnn, attention) < 1.005:
        return "the RNN and self-attention take the same time"
    if rnn > attention:
        return f"the RNN takes {rnn / attention:.3g} times as long as self-attention"
    return f"self-attention takes {attention / rnn:.3g} times as long as the RNN"


COST = View(
    _payloads,
    _layout,
    choose=_choose,
    within=_within,
    text=_text,
    is_live=lambda choices: False,
    has_strip=False,
)
