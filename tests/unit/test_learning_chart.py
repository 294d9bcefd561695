"""The chart of a training run: its values, units, and the step of the picture."""

import pytest

from models.tasks.repeat import INDUCTION
from viz_app.drawing.learning_chart import (
    HELD_OUT_LINE,
    MATCHING_LINE,
    MAX_POINTS,
    SHOWN_STEP,
    TRAINING_LINE,
    Curve,
    learning_chart,
)
from viz_app.drawing.look import LIGHT
from viz_app.drawing.loss_curve import MIN_LOSS

ROWS = [
    {"step": 0, "loss": 9.0},
    {"step": 7, "loss": 3.5},
    {"step": 20, "loss": 0.0, "validation loss": 0.25, "exact match": 62.5},
]


def values(chart: dict, name: str, run: str = "this run") -> list[tuple[float, float]]:
    """Return (step, height) of the points of one line."""
    _, *drawn = chart["layer"]
    lines = [line for one in drawn for line in one["layer"]]
    rows = [row for line in lines for row in line["data"]["values"]]
    return [(row["step"], row["at"]) for row in rows if (row["of"], row["run"]) == (name, run)]


def test_every_number_of_the_record_is_drawn():
    chart = learning_chart([Curve("this run", ROWS)], "exact match", 20, 97, LIGHT)
    assert values(chart, TRAINING_LINE) == [(7, 3.5), (20, MIN_LOSS)]
    *_, last = chart["layer"][1]["layer"][0]["data"]["values"]
    assert last["value"] == "below 0.00005"  # the record has four decimals
    assert values(chart, HELD_OUT_LINE) == [(20, 0.25)]
    assert values(chart, "exact match") == [(20, 62.5)]
    *_, measured = chart["layer"]
    assert measured["encoding"]["y"]["title"] == "held-out exact match %"
    assert measured["layer"][0]["data"]["values"][0]["value"] == "62.5 %"
    rule, *_ = chart["layer"]
    assert rule["data"]["values"] == [{"step": 20, "of": SHOWN_STEP}]
    colours = rule["encoding"]["color"]["scale"]
    shown = dict(zip(colours["domain"], colours["range"], strict=True))
    assert shown[SHOWN_STEP] not in {shown[TRAINING_LINE], shown[HELD_OUT_LINE]}
    # as in the chart of a checkpoint's training (loss_curve.py)
    assert (shown[TRAINING_LINE], shown[HELD_OUT_LINE]) == (LIGHT.quiet, LIGHT.accent)
    assert rule["mark"]["strokeDash"]
    assert chart["layer"][1]["encoding"]["x"]["scale"]["domain"] == [0, 97]


def test_before_the_first_point_there_is_no_chart():
    assert learning_chart([Curve("this run", ROWS[:1])], "exact match", 0, 97, LIGHT) == {}


@pytest.mark.parametrize("n", [2, 3])
def test_a_quantity_without_a_point_has_no_line_and_no_axis(n):
    chart = learning_chart([Curve("this run", ROWS[:n])], "exact match", 0, 97, LIGHT)
    lines = [line for one in chart["layer"][1:] for line in one["layer"]]
    assert all(line["data"]["values"] for line in lines)
    assert len(lines) == {2: 1, 3: 3}[n]
    assert len(chart["layer"]) == n


def test_the_measure_keeps_its_side_where_no_loss_was_recorded():
    rows = [{"step": 5, "exact match": 62.5}]
    sides = [
        [layer["encoding"]["y"]["axis"]["orient"] for layer in chart["layer"][1:]]
        for chart in (
            learning_chart([Curve("this run", some)], "exact match", 5, 97, LIGHT)
            for some in (rows, ROWS)
        )
    ]
    assert sides == [["right"], ["left", "right"]]


@pytest.mark.parametrize(
    ("last", "ticks"), [(97, [0, 10, 97]), (800, [0, 10, 100, 800]), (1000, [0, 10, 100, 1000])]
)
def test_the_ticks_are_few_enough_to_be_read_and_end_at_the_last_step(last, ticks):
    chart = learning_chart([Curve("this run", ROWS)], "exact match", 5, last, LIGHT)
    assert chart["layer"][1]["encoding"]["x"]["axis"]["values"] == ticks


def test_the_jump_of_the_induction_score_is_a_band_over_its_steps():
    scores = {1: 0.02, 50: 0.03, 60: 0.4, 97: 0.5}
    rows = [{"step": step, "loss": 2.0, INDUCTION: score} for step, score in scores.items()]
    chart = learning_chart([Curve("this run", rows)], "accuracy", 5, 97, LIGHT)
    *layers, band = chart["layer"]
    drawn = values({"layer": layers}, f"{INDUCTION} (%)")
    assert drawn == [(step, pytest.approx(100 * score)) for step, score in scores.items()]
    (steps,) = band["data"]["values"]
    assert (steps["from"], steps["to"]) == (50, 60)
    both = [Curve("this run", rows[:1]), Curve("the run before", rows)]
    *_, band = learning_chart(both, "accuracy", 5, 97, LIGHT)["layer"]
    assert band["encoding"]["tooltip"][0]["title"] == "the run before"
    assert "rises by 0.37" in steps["says"]
    colours = chart["layer"][1]["encoding"]["color"]["scale"]
    assert dict(zip(colours["domain"], colours["range"], strict=True))[MATCHING_LINE] == LIGHT.third


@pytest.mark.parametrize(
    ("metric", "title"), [("", MATCHING_LINE), ("accuracy", "held-out accuracy %")]
)
def test_the_induction_score_has_its_own_axis_only_without_a_measure(metric, title):
    rows = [{"step": 7, "loss": 2.0, INDUCTION: 0.4}]
    *_, layer = learning_chart([Curve("this run", rows)], metric, 5, 97, LIGHT)["layer"]
    assert layer["layer"][0]["data"]["values"][0]["value"] == "40"
    assert layer["encoding"]["y"]["title"] == title


def test_without_a_jump_there_is_no_band():
    rows = [{"step": step, "loss": 2.0, INDUCTION: 0.1} for step in (1, 50, 97)]
    chart = learning_chart([Curve("this run", rows)], "accuracy", 5, 97, LIGHT)
    assert all("layer" in layer for layer in chart["layer"][1:])
    chart = learning_chart([Curve("this run", ROWS)], "exact match", 5, 97, LIGHT)
    assert MATCHING_LINE not in chart["layer"][1]["encoding"]["color"]["scale"]["domain"]


def test_two_runs_are_distinguished():
    other = [{"step": 5, "loss": 1.5}]
    curves = [Curve("this run", ROWS), Curve("the run before", other)]
    chart = learning_chart(curves, "exact match", 5, 97, LIGHT)
    assert values(chart, TRAINING_LINE, "the run before") == [(5, 1.5)]
    dashes = chart["layer"][1]["encoding"]["strokeDash"]
    assert dashes["scale"]["domain"] == ["this run", "the run before"]
    gaps = [gap for _, gap in dashes["scale"]["range"]]
    assert gaps[0] == 0 < gaps[1]
    assert chart["title"]["text"] == "solid: this run, dashed: the run before"


@pytest.mark.parametrize(
    "n",
    [
        MAX_POINTS - 1,
        MAX_POINTS,
        MAX_POINTS + 1,
        2 * MAX_POINTS,
        2 * MAX_POINTS + 1,
        13 * MAX_POINTS + 5,
    ],
)
def test_a_long_line_is_thinned_and_keeps_its_end(n):
    rows = [{"step": i + 1, "loss": 1.0 + i} for i in range(n)]
    drawn = values(learning_chart([Curve("this run", rows)], "x", 1, n, LIGHT), TRAINING_LINE)
    assert len(drawn) <= MAX_POINTS + 1
    assert drawn[0] == (1, 1.0)
    assert drawn[-1] == (n, float(n))
    assert len(set(drawn)) == len(drawn)


def test_a_likelihood_is_not_shown_as_a_percentage():
    rows = [{"step": 1, "loss": 2.0, "nats per token": 2.5}]
    measure = learning_chart([Curve("this run", rows)], "nats per token", 1, 9, LIGHT)["layer"][2]
    assert "domain" not in measure["encoding"]["y"]["scale"]
