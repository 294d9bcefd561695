"""Every chart drawn from a specification distinguishes its series by more than colour: dashes, filling, position or a name."""

import importlib
import inspect
import pkgutil
from typing import Any

import altair as alt
import plotly.graph_objects as go
import pytest
import torch
from drawn import letters

import viz_app
from models.analysis.grid_similarity import GridSimilarity
from models.analysis.head_matching import KindDistances, match_heads
from models.analysis.jacobian_reach import LAYER_KINDS, LayerChoice, Reach
from models.analysis.layer_timing import Timing
from models.analysis.paired import Interval
from models.analysis.position_measures import similarity_by_distance
from models.layers.positions import formula_table
from models.runs.sweep import HeadResult, SweepResult
from viz_app.drawing import loss_curve
from viz_app.drawing.frame import fitted
from viz_app.drawing.look import LIGHT
from viz_app.drawing.screen import Screen
from viz_app.drawing.weight_cell import chosen_cell
from viz_app.session.current_run import CurrentRun
from viz_app.views.compare import matches
from viz_app.views.from_rnn import charts, learners
from viz_app.views.inside import cell, scaling
from viz_app.views.interventions import many_texts
from viz_app.views.positions import charts as positions
from viz_app.views.positions import grid

TABLE = formula_table("paper", 13, 8)
FRAMES = {      # the compositions that charts are part of
    "viz_app.drawing.frame.with_title", "viz_app.drawing.frame.framed_figure", "viz_app.views.positions.charts.banded",
}  # fmt: skip
TELLING = ("strokeDash", "shape", "facet")


def reaches() -> list[Reach]:
    ones = torch.ones(3, 3)
    return [
        Reach(LayerChoice(kind), ones, ones.bool(), ones.long(), [[0], [1, 2]], 5, 5, 0.0, 0.0)
        for kind in LAYER_KINDS
    ]


def learned() -> list[learners.Learner]:
    return [
        learners.Learner(name, name, 5, 7, ((3, 50.0), (7, 90.0)), 90.0, 11) for name in "abcdefg"
    ]


def scores() -> dict[str, list[dict]]:
    return {
        name: [{"least": n, "most": n + 1, "cases": 3, "score": 5.0} for n in (2, 4)]
        for name in "abc"
    }


def one_cell() -> tuple[Any, cell.WeightCell]:
    trace = letters().run("abcde", "edc")
    return trace, chosen_cell(trace, trace.attention["decoder.layers.1.cross_attn"], 1, 2, 1)


def swept() -> tuple[CurrentRun, SweepResult]:
    scope = letters()
    heads = tuple(HeadResult("cross", 0, h, Interval(0.1, 0.0, 0.2), 0.5, False) for h in range(2))
    curve = {"0.5": (0.1, 0.05, 0.2, 0.4), "1": (0.5, 0.5, 0.5, 0.5)}
    return CurrentRun(scope, scope.run("abcde", "edc")), SweepResult(
        "zero", 8, 3, heads, {"cross": curve}
    )


def matched() -> tuple[Any, ...]:
    places = ((0, 0), (0, 1))
    kind = KindDistances("self", "Self", places, places, torch.eye(2), torch.zeros(1, 1, 2), ())
    return kind, match_heads(kind), "a", "b"


MADE = {
    matches.match_chart: lambda draw: draw(*matched()),
    many_texts.loss_curves: lambda draw: draw(*swept()),
    loss_curve.loss_curve: lambda draw: draw(
        [{"step": 1, "loss": 2.0, "validation loss": 3.0}], 1, "#111111", "#222222"
    ),
    learners.chart: lambda draw: draw(learned(), LIGHT, "t"),
    charts.influence_chart: lambda draw: draw(reaches(), LIGHT, "t"),
    charts.path_lengths: lambda draw: draw(reaches(), "t"),
    charts.schedule: lambda draw: draw(reaches(), "t"),
    charts.forward_times: lambda draw: draw(
        [Timing(kind, 16, (0.004, 0.001)) for kind in LAYER_KINDS], "t"
    ),
    charts.length_chart: lambda draw: draw(scores(), "t"),
    scaling.weights_chart: lambda draw: draw(*one_cell()),
    scaling.curve_chart: lambda draw: draw(one_cell()[1], "entropy", "t", "nats"),
    positions.dimension_chart: lambda draw: draw(TABLE, range(8), list("abcdefgh"), "t"),
    positions.wavelength_chart: lambda draw: draw(torch.arange(1.0, 9.0), range(8), 13, "t"),
    positions.heatmap: lambda draw: draw(TABLE, LIGHT, "t", ("position", "dimension")),
    positions.similarity_chart: lambda draw: draw(
        similarity_by_distance(TABLE), LIGHT, "t", (0.0, 5.0)
    ),
    grid.mosaic: lambda draw: draw(GridSimilarity(2, 3, torch.eye(6)), LIGHT, "t", "n"),
    positions.plane: lambda draw: draw(TABLE, TABLE[:-2], 1, 2, LIGHT, "t"),
    positions.strips: lambda draw: draw(
        {"one": TABLE[0], "two": TABLE[1]}, LIGHT, "t", "dimension"
    ),
}


def drawers() -> set[str]:
    """Return every function of the app that returns a chart."""
    modules = [
        importlib.import_module(one.name)
        for one in pkgutil.walk_packages(viz_app.__path__, "viz_app.")
        if one.name not in ("viz_app.app", "viz_app.server")
    ]
    found = [
        (module.__name__, name, of)
        for module in modules
        for name, of in inspect.getmembers(module, inspect.isfunction)
    ]
    own = [
        (f"{place}.{name}", of)
        for place, name, of in found
        if of.__module__ == place and not name.startswith("_")
    ]
    given = {name: str(inspect.signature(of).return_annotation) for name, of in own}
    return {
        name
        for name, returned in given.items()
        if ("altair" in returned or "plotly" in returned) and not returned.startswith("dict")
    }


def layers(spec: dict) -> list[dict]:
    if "spec" in spec:
        return layers(spec["spec"])
    return [part for one in spec["layer"] for part in layers(one)] if "layer" in spec else [spec]


def channels_of_colours(spec: dict) -> dict[str, set[str]]:
    """Return the fields that a chart colours by, each with the other channels that encode it."""
    parts = layers(spec)
    coloured = [
        of
        for part in parts
        for name in ("color", "fill", "stroke")
        if (of := part["encoding"].get(name))
    ]
    fields = {of["field"] for of in coloured if of.get("field")}
    other = [
        (name, of)
        for part in parts
        for name, of in part["encoding"].items()
        if isinstance(of, dict)
    ]
    other.append(("facet", spec.get("facet", {})))
    fills = [
        part["encoding"]["fill"]["scale"]["range"] for part in parts if "fill" in part["encoding"]
    ]
    hollow = {
        "filling" for range_ in fills if {len(colour) for colour in range_} == {7, 9}
    }  # one has an alpha
    return {
        field: hollow | {name for name, of in other if of.get("field") == field and name in TELLING}
        for field in fields
    }


def test_every_chart_is_tested() -> None:
    assert {f"{draw.__module__}.{draw.__name__}" for draw in MADE} == drawers() - FRAMES


@pytest.mark.parametrize(
    "draw", MADE, ids=lambda draw: f"{draw.__module__.split('.')[-2]}.{draw.__name__}"
)
def test_series_differ_by_more_than_their_colours(draw: Any) -> None:
    chart = MADE[draw](draw)
    if isinstance(chart, go.Figure):
        lines = [trace for trace in chart.data if trace.type == "scatter"]
        assert len({trace.line.dash for trace in lines}) == len(lines)
        return
    assert isinstance(chart, alt.TopLevelMixin)
    spec = chart.to_dict()
    written = {
        part["encoding"]["text"]["field"] for part in layers(spec) if "text" in part["encoding"]
    }
    for field, channels in channels_of_colours(spec).items():
        assert channels or (field == "colour" and "dimension" in written), field
    for part in layers(spec):
        for name in TELLING:
            scale = part["encoding"].get(name, {}).get("scale")
            assert not scale or len({str(one) for one in scale["range"]}) == len(scale["domain"]), (
                name
            )


SCREENS = {  # → the sizes of labels, of the titles of axes and of the chart's title, and the additional height, all in px
    Screen(): (12, 14, 14, 0),
    Screen(window="large"): (12, 14, 14, 220),
    Screen(window="phone"): (12, 14, 14, -80),
    Screen(is_presented=True): (16, 16, 18, 0),
    Screen(is_presented=True, window="large"): (20, 20, 22, 220),
}


def stacked_legends(before: dict[str, Any], after: dict[str, Any]) -> list[int]:
    """Check that no entry of a legend below the plot is cut on a phone; return what rows add, in px.

    Removes the columns from both, so that the rest can be compared.
    """
    added = []
    parts = [(before, after), *zip(before.get("layer", ()), after.get("layer", ()), strict=True)]
    for one, other in parts:
        for name in ("color", "strokeDash"):
            legends = [
                each.get("encoding", {}).get(name, {}).get("legend") for each in (one, other)
            ]
            if not legends[0] or legends[0].get("orient") != "bottom":
                continue
            names = one["encoding"][name]["scale"]["domain"]
            columns = [legend.pop("columns") for legend in legends]
            assert columns[1] == 1 or columns[1] * max(map(len, names)) <= 36
            rows = [-(-len(names) // each) for each in columns]
            added.append(max(0, 20 * (rows[1] - rows[0])))
    return added


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("screen", SCREENS, ids=str)
@pytest.mark.parametrize(
    "draw", MADE, ids=lambda draw: f"{draw.__module__.split('.')[-2]}.{draw.__name__}"
)
def test_a_screen_changes_only_the_letters_and_the_height(draw: Any, screen: Screen) -> None:
    chart, (labels, axes, heading, taller) = MADE[draw](draw), SCREENS[screen]
    if isinstance(chart, go.Figure):
        before, data = chart.layout.to_plotly_json(), chart.to_dict()["data"]
        after = fitted(chart, screen).layout
        assert (after.font.size or 12, after.title.font.size) == (labels, heading)
        assert (after.hoverlabel.font.size or 12) == labels
        assert {note.font.size for note in after.annotations} <= {labels}
        margin = before["margin"]
        plot = before["height"] - margin["t"] - margin["b"]
        assert after.height - after.margin.t - after.margin.b == pytest.approx(plot + taller)
        # the title keeps its distance from the upper edge, apart from the room that its letters need
        above = [(1 - one["title"]["y"]) * one["height"] for one in (before, after)]
        assert above[1] - above[0] == pytest.approx(labels - 12 + screen.is_presented)
        assert chart.to_dict()["data"] == data
        return
    before, after, same = chart.to_dict(), fitted(chart, screen).to_dict(), chart.to_dict()
    for part in ("axis", "legend", "header"):
        sizes = after["config"][part]
        assert (sizes["labelFontSize"], sizes["titleFontSize"]) == (labels, axes)
        assert (
            not {"labelFontSize", "titleFontSize"} & before.get("config", {}).get(part, {}).keys()
        )
    titles = before.pop("title", None), after.pop("title", None)
    if titles[0]:
        texts = [
            " ".join([one["text"]] if isinstance(one["text"], str) else one["text"])
            for one in titles
        ]
        assert texts[0] == texts[1]
        assert (titles[0]["fontSize"], titles[1]["fontSize"]) == (14, heading)
        widest = 44 * 14 / heading * (1.5 if screen.window == "large" else 1)
        assert max(map(len, titles[1]["text"])) <= widest
    sizes = [one.get("spec", one) for one in (before, after)]
    if "spec" in before:  # of several plots, each keeps its shape
        factor = 1.5 if screen.window == "large" else 1
        assert [sizes[1][side] for side in ("width", "height")] == [
            factor * sizes[0][side] for side in ("width", "height")
        ]
    elif screen.window == "phone" and (added := stacked_legends(before, after)):
        assert sizes[1]["height"] == sizes[0]["height"] + max(added)
    else:
        assert sizes[1]["height"] == sizes[0]["height"] + taller
        if "width" in sizes[0]:
            assert sizes[1]["width"] == sizes[0]["width"] + taller
    for one in sizes:
        for side in ("width", "height"):
            one.pop(side, None)
    for part in after.get("layer", ()):
        if part["mark"]["type"] == "text":
            assert part["mark"].pop("fontSize") == labels
    for part in before.get("layer", ()):
        if part["mark"]["type"] == "text":
            assert part["mark"].pop("fontSize") == 12
    assert before | {"config": 0} == after | {"config": 0}
    assert "labelFontSize" not in before.get("facet", {}).get(
        "header", {}
    )  # which would overrule the one of the screen
    assert chart.to_dict() == same  # the rest of the page is unchanged


@pytest.mark.parametrize("window", ["large", "phone"])
def test_a_chart_that_does_not_grow_is_as_tall_as_in_the_usual_window(window: Any) -> None:
    chart = MADE[loss_curve.loss_curve](loss_curve.loss_curve)
    height = chart.to_dict()["height"]
    assert fitted(chart, Screen(window=window), grows=False).to_dict()["height"] == height
    assert fitted(chart, Screen(window=window)).to_dict()["height"] != height


def test_layers_without_a_series_each_have_their_own_mark() -> None:
    """These are training and held-out loss and the step shown, and a dot and the position that rotation gives it."""
    for draw, marks in (
        (loss_curve.loss_curve, ["line", "point", "rule"]),
        (positions.plane, ["line", "rule", "circle"]),
    ):
        assert [part["mark"]["type"] for part in layers(MADE[draw](draw).to_dict())] == marks
