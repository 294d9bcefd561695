"""The charts, checks and files of the page Positions: axes, colours and rows by hand; every check fails on forged numbers."""

import csv
import html
import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import letters
from small_runs import edited
from small_scopes import scope_of
from torch import Tensor

from models import InputError
from models.analysis.checks import Check
from models.analysis.position_measures import (
    Concatenated,
    SimilarityByDistance,
    measure_formula,
    similarity_by_distance,
)
from models.analysis.shuffle import ShuffleTest
from models.layers.masks import LOOK_AHEAD
from models.layers.positions import FORMULAS, formula_table
from models.tokenizers.base import Encoding
from models.trace.edits import Edit, HeadOff, HeadScale, MaskChange, SetWeights, Where, ZeroValue
from viz_app.drawing import frame
from viz_app.drawing.extent import domain, signed_extent
from viz_app.drawing.labels import number_labels
from viz_app.drawing.look import DARK, LIGHT, Look
from viz_app.drawing.notes import quoted_answer_line
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.positions import charts as draw
from viz_app.views.positions import claims as claims
from viz_app.views.positions import files as files
from viz_app.views.positions import shuffle, tables
from viz_app.views.positions import text as say
from viz_app.views.positions.distance import DistanceChoices, distance_payloads
from viz_app.views.positions.page import POSITIONS_PAGE
from viz_app.views.positions.text import change_text

COLOURS = [
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#8C6BB1",
    "#999933",
]  # a head's, too
SOURCE = Encoding("abc", (4, 5, 6, 2), ("a", "b", "c", "</s>"), ((0, 1), (1, 2), (2, 3), None))


def paper(n: int, d: int) -> np.ndarray:
    """Return the paper's table: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same."""
    return np.array(
        [
            [(math.sin, math.cos)[j % 2](pos / 10000 ** ((j - j % 2) / d)) for j in range(d)]
            for pos in range(n)
        ]
    )


def turned(a: np.ndarray, k: int, misprint: bool = False) -> np.ndarray:
    """Rotate each pair of a vector by k / 10000^(2i/d); with the misprint, 2^i for 2i."""
    found = np.zeros_like(a)
    d = len(a)
    for i in range(0, d, 2):
        angle = k / 10000 ** ((2 ** (i // 2) if misprint else i) / d)
        found[i] = math.cos(angle) * a[i] + math.sin(angle) * a[i + 1]
        found[i + 1] = -math.sin(angle) * a[i] + math.cos(angle) * a[i + 1]
    return found


# charts


@pytest.mark.parametrize(
    ("n", "dots"), [(160, {"size": 14, "opacity": 1, "strokeDash": [1, 0]}), (161, False)]
)
def test_curves(n: int, dots: object) -> None:
    table = torch.arange(n * 5.0).reshape(n, 5)
    chart = draw.dimension_chart(table, [3, 1], ["three", "one"], "What it is").to_dict()
    assert chart["title"]["text"] == ["What it is"]
    assert chart["mark"]["point"] == dots
    rows = next(iter(chart["datasets"].values()))
    lines = [(3, "three"), (1, "one")]
    assert rows == [
        {"position": pos, "value": float(table[pos, j]), "dimension": name}
        for j, name in lines
        for pos in range(n)
    ]
    drawn = chart["encoding"]
    assert (drawn["x"]["field"], drawn["x"]["title"]) == ("position", "position (token)")
    assert (drawn["y"]["field"], drawn["y"]["title"]) == ("value", "value")
    assert drawn["color"]["field"] == "dimension"
    assert drawn["color"]["scale"] == {"domain": ["three", "one"], "range": COLOURS[:2]}
    assert drawn["color"]["sort"] == ["three", "one"]
    assert drawn["strokeDash"]["field"] == "dimension"
    assert drawn["strokeDash"]["scale"] == {"domain": ["three", "one"], "range": [[1, 0], [7, 3]]}
    assert drawn["strokeDash"]["legend"] == drawn["color"]["legend"]  # one legend, which shows both
    assert len({tuple(style) for style in frame.LINE_STYLES}) == len(COLOURS)
    assert [tip["field"] for tip in drawn["tooltip"]] == ["position", "dimension", "value"]


def test_wavelengths() -> None:
    waves = torch.tensor([6.28, 100.0, 2e9, 5e4])
    chart = draw.wavelength_chart(waves, [3, 2, 1], 40, "t").to_dict()
    assert chart["title"]["text"] == ["t"]
    dots, rule, word, marks, numbers = chart["layer"]

    def rows(layer: dict) -> list[dict]:
        return chart["datasets"][layer["data"]["name"]]

    assert [row["dimension"] for row in rows(dots)] == [0, 1, 3]
    np.testing.assert_allclose([row["wavelength"] for row in rows(dots)], [6.28, 100, 5e4])
    assert [(row["dimension"], row["colour"]) for row in rows(marks)] == [
        (3, COLOURS[0]),
        (1, COLOURS[2]),
    ]
    np.testing.assert_allclose([row["wavelength"] for row in rows(marks)], [5e4, 100])
    assert word["mark"]["fontSize"] == numbers["mark"]["fontSize"] == 12
    assert rows(rule) == [{"n": 40}]
    assert rows(word) == [{"n": 40, "word": "the 40 positions shown"}]
    assert (
        rule["encoding"]["y"]["field"],
        word["encoding"]["y"]["field"],
        word["encoding"]["text"]["field"],
    ) == ("n", "n", "word")
    for layer in (dots, marks):
        assert (layer["encoding"]["x"]["field"], layer["encoding"]["x"]["title"]) == (
            "dimension",
            "dimension",
        )
        assert layer["encoding"]["x"]["scale"]["domain"] == [0, 3]
        assert (layer["encoding"]["y"]["field"], layer["encoding"]["y"]["title"]) == (
            "wavelength",
            "wavelength",
        )
        assert layer["encoding"]["y"]["scale"]["type"] == "log"
        assert layer["encoding"]["y"]["scale"]["domain"] == [5, 100_000]
        assert [tip["field"] for tip in layer["encoding"]["tooltip"]] == ["dimension", "wavelength"]
    assert marks["encoding"]["color"]["field"] == "colour"
    assert numbers["data"] == marks["data"]
    assert (numbers["mark"]["type"], numbers["encoding"]["text"]["field"]) == ("text", "dimension")
    long = draw.wavelength_chart(waves, [], 200_000, "t").to_dict()["layer"][0]
    assert long["encoding"]["y"]["scale"]["domain"] == [5, 200_000]


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_a_signed_map_names_its_rows_columns_and_scale(look: Look) -> None:
    table = torch.tensor([[-3.0, 1.0, 0.5], [2.0, 0.0, -1.0]])
    figure = draw.heatmap(table, look, "The title", ("position", "dimension"), limit=4.0)
    (cells,) = figure.data
    np.testing.assert_array_equal(cells.z, table.numpy())
    assert (cells.zmin, cells.zmax) == (-4, 4)
    assert cells.hovertemplate == "position %{y}, dimension %{x}: <b>%{z:.6f}</b><extra></extra>"
    assert [at for at, _ in cells.colorscale] == pytest.approx([i / 32 for i in range(33)])
    assert [colour for _, colour in cells.colorscale] == look.diverging()
    assert cells.colorbar.title.text == "value"
    layout = figure.layout
    assert (layout.title.text, layout.height) == ("The title", 342)
    assert (layout.xaxis.title.text, layout.yaxis.title.text) == ("dimension", "position")
    assert layout.yaxis.autorange == "reversed"  # rows are counted downwards
    assert layout.xaxis.autorange is None
    assert (layout.font.color, layout.hoverlabel.bgcolor, layout.hoverlabel.font.color, layout.modebar.color) == (
        look.text, look.paper, look.text, look.quiet,
    )  # fmt: skip
    assert layout.showlegend is False
    assert draw.heatmap(torch.zeros(1, 2), look, "t", ("r", "c")).data[0].zmax == 1


def test_maps_and_strips_carry_their_note() -> None:
    for made in (
        draw.heatmap(torch.zeros(1, 2), LIGHT, "t", ("r", "c"), note="model: m"),
        draw.strips({"x": torch.tensor([1.0, -2.0])}, LIGHT, "t", "dimension", "model: m"),
    ):
        assert [one.text for one in made.layout.annotations] == ["model: m"]


def test_a_note_is_under_the_picture_which_grows_by_its_lines() -> None:
    note = "model: <b> & dates; fingerprint: 0123456789ab; training step: 4000"
    plain, noted = (
        frame.framed_figure([], LIGHT, "t", 300, 46, margin={"b": 80, "l": 61}, note=said).layout
        for said in ("", note)
    )
    assert not plain.annotations
    assert (noted.height - plain.height, noted.margin.b - plain.margin.b) == (
        2 * 16 + 14,
        2 * 16 + 14,
    )
    (said,) = noted.annotations
    lines = said.text.split("<br>")
    assert html.unescape(" ".join(lines)) == note
    assert "<b>" not in said.text
    assert all(len(html.unescape(line)) <= 46 for line in lines)
    assert (said.xref, said.x, said.xanchor, said.xshift) == ("paper", 0, "left", 4 - 61)
    assert (said.yref, said.y, said.yanchor, said.font.size) == ("paper", 0, "top", 12)
    assert said.yshift - 2 * 16 > -(80 + 46)  # in the margin,
    assert said.yshift < -50  # under the words of the axis
    assert 300 * (1 - plain.title.y) == pytest.approx(
        (300 + 46) * (1 - noted.title.y)
    )  # the title does not move


def test_a_long_title_has_room_for_its_lines() -> None:
    long = "word " * 40
    wide, narrow = (frame.framed_figure([], LIGHT, long, 300, wrap).layout for wrap in (62, 49))
    assert [layout.title.text.count("<br>") for layout in (wide, narrow)] == [3, 3]
    assert [layout.margin.t for layout in (wide, narrow)] == [14 + 20 * 4] * 2
    assert [
        frame.framed_figure([], LIGHT, "short", 300, wrap).layout.margin.t for wrap in (62, 50, 49)
    ] == [34, 34, 54]
    assert wide.title.y == pytest.approx(1 - 21 / 300)
    assert (wide.title.x, wide.title.xanchor) == (0, "left")


def test_similarity_by_distance() -> None:
    similarity = SimilarityByDistance(
        torch.tensor([3.0, 2.0]), torch.tensor([3.0, 1.0]), torch.tensor([3.0, 2.5])
    )
    chart = draw.similarity_chart(similarity, LIGHT, "t", (-1.0, 3.0)).to_dict()
    assert next(iter(chart["datasets"].values())) == [
        {"distance": 0, "mean": 3.0, "least": 3.0, "largest": 3.0}, {"distance": 1, "mean": 2.0, "least": 1.0, "largest": 2.5},
    ]  # fmt: skip
    band, line = chart["layer"]
    assert (band["mark"]["type"], line["mark"]["type"]) == ("area", "line")
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("least", "largest")
    assert line["encoding"]["y"]["field"] == "mean"
    assert band["mark"]["color"] == line["mark"]["color"] == LIGHT.accent
    assert band["encoding"]["y"]["title"] == "PE·PEᵀ"
    for layer in (band, line):
        assert layer["encoding"]["x"]["field"] == "distance"
        assert layer["encoding"]["x"]["title"] == "distance between two positions"
        assert layer["encoding"]["y"]["scale"]["domain"] == [-1.0, 3.0]
        assert [tip["field"] for tip in layer["encoding"]["tooltip"]] == [
            "distance",
            "mean",
            "least",
            "largest",
        ]
    other = SimilarityByDistance(torch.tensor([1.0]), torch.tensor([-2.0]), torch.tensor([7.0]))
    assert domain(signed_extent(similarity.least, other.least, other.largest)) == (-2.0, 7.0)
    assert domain(signed_extent(similarity.least, similarity.largest)) == (0.0, 3.0)


def test_a_pair_of_dimensions_in_its_plane() -> None:
    table = torch.arange(70 * 6.0).reshape(70, 6) / 100
    moved = -table[:67]
    chart = draw.plane(table, moved, 2, 3, LIGHT, "t").to_dict()
    path, lines, points = chart["layer"]
    dots, misses = (chart["datasets"][layer["data"]["name"]] for layer in (path, lines))
    assert len(dots) == len(misses) == 64
    for pos in (0, 1, 63):
        assert (dots[pos]["x"], dots[pos]["y"], dots[pos]["position"]) == (
            pytest.approx(float(table[pos, 4])), pytest.approx(float(table[pos, 5])), pos,
        )  # fmt: skip
        assert [misses[pos][side] for side in ("x", "y", "x2", "y2")] == pytest.approx(
            [float(v) for v in (moved[pos, 4], moved[pos, 5], table[pos + 3, 4], table[pos + 3, 5])]
        )
    assert (path["mark"]["type"], lines["mark"]["type"], points["mark"]["type"]) == (
        "line",
        "rule",
        "circle",
    )
    assert (path["mark"]["color"], lines["mark"]["color"], points["mark"]["color"]) == (
        LIGHT.accent,
        "#D55E00",
        LIGHT.accent,
    )
    for layer in (path, lines, points):
        assert (layer["encoding"]["x"]["title"], layer["encoding"]["y"]["title"]) == (
            "dimension 4",
            "dimension 5",
        )
        assert (
            layer["encoding"]["x"]["scale"]["domain"]
            == layer["encoding"]["y"]["scale"]["domain"]
            == [-1.1, 1.1]
        )
    assert (lines["encoding"]["x2"]["field"], lines["encoding"]["y2"]["field"]) == ("x2", "y2")
    assert path["encoding"]["order"]["field"] == "position"


def test_strips_are_stacked_and_named() -> None:
    figure = draw.strips(
        {"x": torch.tensor([1.0, -2.0]), "p": torch.tensor([0.5, 0.0])}, LIGHT, "t", "dimension"
    )
    (cells,) = figure.data
    assert cells.z.tolist() == [[1.0, -2.0], [0.5, 0.0]]
    assert cells.y == ("x", "p")
    assert (cells.zmin, cells.zmax) == (-2, 2)
    assert cells.hovertemplate == "%{y}, dimension %{x}: <b>%{z:.6f}</b><extra></extra>"
    assert figure.layout.xaxis.title.text == "dimension"


# checks, each on forged numbers


def verdicts(checks: list[Check]) -> dict[str, bool]:
    return {check.name: check.passed for check in checks}


def test_a_formula_that_is_no_rotation_fails() -> None:
    measures = [measure_formula(formula, 9, 6, 2) for formula in FORMULAS]
    found = claims.formulas(measures)
    assert [check.name for check in found] == [
        "The paper's: a shift is a rotation", "Misprint 2ⁱ: a shift is a rotation", "Misprint sin, sin: PE(0) is zero",
    ]  # fmt: skip
    assert all(check.passed for check in found)
    assert (
        found[0].sentence
        == "R·PE(pos) against PE(pos+2) over 24 positions, as a share of their length"
    )
    missed = claims.formulas(
        [replace(m, rotation_miss=2e-9, table=m.table + 1e-12) for m in measures]
    )
    assert [check.passed for check in missed] == [False] * 3
    assert [check.value for check in missed] == [2e-9, 2e-9, pytest.approx(1e-12)]
    assert [check.limit for check in missed] == [1e-9, 1e-9, 0.0]


def test_a_table_of_uneven_vectors_fails() -> None:
    table = torch.from_numpy(paper(9, 6))
    even = claims.table_checks("paper", table, similarity_by_distance(table))
    assert verdicts(even) == {
        "all vectors have length √(d/2)": True,
        "only the distance counts": True,
    }
    assert even[0].sentence == "Largest difference from 1.732"
    assert [check.limit for check in even] == [1e-9, 1e-9]
    longer = claims.table_checks("paper", table * (1 + 1e-6), similarity_by_distance(table))
    assert [check.passed for check in longer] == [False, True]
    assert longer[0].value == pytest.approx(math.sqrt(3) * 1e-6, rel=1e-3)
    apart = replace(
        similarity_by_distance(table), largest=similarity_by_distance(table).largest + 1e-6
    )
    assert [check.passed for check in claims.table_checks("paper", table, apart)] == [True, False]
    zero = torch.zeros(2, 4)
    assert claims.table_checks("sin-sin", zero, similarity_by_distance(table))[0].passed
    assert not claims.table_checks(
        "sin-sin", zero + torch.tensor([0.0, 0, 0, 1e-9]), similarity_by_distance(table)
    )[0].passed


def test_a_table_that_the_run_did_not_add_fails() -> None:
    own = torch.from_numpy(paper(9, 6)).float()
    by_formula = torch.from_numpy(paper(9, 6)).float()
    assert verdicts(claims.own_table_checks(own[:4], own, "sinusoidal", by_formula)) == {
        "the model adds this table": True, "it is the paper's formula": True,
    }  # fmt: skip
    assert [
        check.limit for check in claims.own_table_checks(own[:4], own, "sinusoidal", by_formula)
    ] == [
        0.0,
        1e-6,
    ]
    assert (
        claims.own_table_checks(own[:4], own, "sinusoidal", by_formula)[1].sentence
        == "Largest difference over 9 positions"
    )
    added = own[:4].clone()
    added[3, 5] += 1e-3
    assert list(
        verdicts(claims.own_table_checks(added, own, "sinusoidal", by_formula)).values()
    ) == [
        False,
        True,
    ]
    other = by_formula.clone()
    other[8, 0] -= 2e-6
    assert list(verdicts(claims.own_table_checks(own[:4], own, "sinusoidal", other)).values()) == [
        True,
        False,
    ]
    assert list(verdicts(claims.own_table_checks(own[:4], own, "learned", other))) == [
        "the model adds this table"
    ]


def shuffled(
    stages: tuple[str, ...],
    original: Tensor,
    by: float = 0.0,
    order: tuple[int, ...] = (1, 0, 2, 3),
) -> ShuffleTest:
    """Return a forged shuffle test: every vector moved by this share of its length."""
    return ShuffleTest(order, stages, original, original * (1 + by))


@pytest.mark.parametrize("stages", [("input", "layer 1"), ("input", "layer 1", "last LayerNorm")])
def test_a_visible_order_and_another_run_fail(stages: tuple[str, ...]) -> None:
    original = torch.randn(len(stages), 4, 5)
    moved, still = shuffled(stages, original, 0.3), shuffled(stages, original, 5e-5)
    recorded = original[1]
    names = ["without positions, order is invisible", "the same run as on the other pages"]
    assert list(verdicts(claims.shuffle_checks(moved, still, recorded)).items()) == [
        (name, True) for name in names
    ]
    assert list(verdicts(claims.shuffle_checks(moved, moved, recorded)).values()) == [False, True]
    assert list(verdicts(claims.shuffle_checks(moved, still, recorded + 1e-3)).values()) == [
        True,
        False,
    ]
    assert list(verdicts(claims.shuffle_checks(moved, still, original[0])).values()) == [
        True,
        False,
    ]
    first, second = claims.shuffle_checks(moved, still, recorded)
    assert (first.value, first.limit) == (pytest.approx(5e-5, rel=0.01), 1e-4)
    assert second.limit == pytest.approx(1e-5 * max(1.0, float(recorded.abs().max())))


def test_a_state_that_depends_on_later_tokens_fails() -> None:
    """Tokens 2 and 3 of 6 are swapped: forwards nothing before 2 may move, backwards nothing after 3."""
    original = torch.ones(2, 6, 4)
    names = [
        "what is read before cannot change",
        "the same, reading backwards",
        "the same run as on the other pages",
    ]

    def test(forwards: int, backwards: int) -> ShuffleTest:
        back = original.clone()
        back[0, forwards] += 1
        back[1, backwards] += 1
        return ShuffleTest((0, 1, 3, 2, 4, 5), ("forwards", "backwards"), original, back)

    assert list(verdicts(claims.recurrent_checks(test(2, 3), original)).items()) == [
        (name, True) for name in names
    ]
    assert list(verdicts(claims.recurrent_checks(test(1, 3), original)).values()) == [
        False,
        True,
        True,
    ]
    assert list(verdicts(claims.recurrent_checks(test(2, 4), original)).values()) == [
        True,
        False,
        True,
    ]
    assert list(verdicts(claims.recurrent_checks(test(2, 3), original + 1e-3)).values()) == [
        True,
        True,
        False,
    ]
    true = claims.recurrent_checks(test(2, 3), original)
    assert [check.limit for check in true] == [1e-6, 1e-6, 1e-5]
    assert ["forwards" in true[0].sentence, "before the first moved" in true[0].sentence] == [
        True,
        True,
    ]
    assert ["backwards:" in true[1].sentence, "after the last moved" in true[1].sentence] == [
        True,
        True,
    ]
    assert claims.recurrent_checks(test(2, 3), original * 8)[2].limit == pytest.approx(
        8e-5
    )  # rounding of float32, relative to the numbers
    one_way = ShuffleTest((0, 1, 3, 2, 4, 5), ("states",), original[:1], original[:1])
    assert list(verdicts(claims.recurrent_checks(one_way, original[:1]))) == [names[0], names[2]]
    same = ShuffleTest((0, 1, 2, 3, 4, 5), ("forwards", "backwards"), original, original * 2)
    assert list(verdicts(claims.recurrent_checks(same, original)).values()) == [
        False,
        False,
        True,
    ]  # no token moved: nothing may change


def test_sums_that_differ_fail() -> None:
    added = torch.randn(4, 3)
    total = torch.randn(4, 5)
    names = ["[x; p]·[I; I] is x + p", "[x; p]·[W; W] is (x + p)·W"]
    size = max(1.0, float(added.abs().max()))
    limits = [check.limit for check in claims.adding(Concatenated(added, added, total), total)]
    assert limits == pytest.approx([1e-6 * size, 1e-5 * size])
    assert list(verdicts(claims.adding(Concatenated(added, added, total), total)).items()) == [
        (name, True) for name in names
    ]
    assert list(
        verdicts(claims.adding(Concatenated(added, added + 1e-3, total), total)).values()
    ) == [True, False]
    assert list(
        verdicts(claims.adding(Concatenated(added, added, total + 1e-3), total)).values()
    ) == [False, True]


def test_forged_queries_fail() -> None:
    q, bias = torch.randn(2, 4, 3), torch.randn(6)  # (head, query, d_head)
    product = torch.stack([q[:, i].flatten() for i in range(4)]) - bias
    both = Concatenated(product, product, product)
    assert claims.queries(both, bias, q).passed
    assert claims.queries(both, bias, q).limit == pytest.approx(
        1e-5 * max(1.0, float(q.abs().max()))
    )
    assert not claims.queries(both, -bias, q).passed
    assert not claims.queries(both, bias, q.flip(0)).passed
    assert not claims.queries(both, bias, q + 1e-3).passed


# the shuffle test as it is drawn


def test_where_tokens_went_and_how_far_they_moved() -> None:
    original = torch.rand(3, 4, 5)
    stages = ("input", "layer 1", "layer 2")
    tests = {
        shuffle.WITH_POSITIONS: shuffled(stages, original, 0.25),
        shuffle.WITHOUT_POSITIONS: shuffled(stages, original),
    }
    assert list(tests) == ["with positions", "positions switched off"]
    header, arrays = unpack(shuffle.shuffle_payload(SOURCE, tests, {"file": "ours.shuffle"}))
    del header["arrays"]
    assert header == {
        "title": "The shuffle test: the tokens in their new order; with positions; positions switched off", "file": "ours.shuffle",
        "tokens": [["a", "", False], ["b", "", False], ["c", "", False], ["[end]", "special token </s>", True]],
        "order": [1, 0, 2, 3], "unrelated": math.sqrt(2),
        "parts": [{"kind": "tangle", "title": "The tokens in their new order"},
                  {"kind": "map", "title": "with positions", "stages": list(stages), "array": "map0"},
                  {"kind": "map", "title": "positions switched off", "stages": list(stages), "array": "map1"}],
    }  # fmt: skip
    assert arrays["map0"].shape == (4, 3)  # a row per token, a column per stage
    np.testing.assert_allclose(arrays["map0"], 0.25, rtol=1e-5)
    assert not arrays["map1"].any()
    header, arrays = unpack(shuffle.by_stage(SOURCE, tests, {"file": "ours.stages"}))
    assert header["parts"] == [{
        "kind": "bars", "title": "Mean change at the encoder's input and after each layer", "stages": list(stages),
        "names": list(tests), "array": "means",
    }]  # fmt: skip
    np.testing.assert_allclose(arrays["means"], [[0.25] * 3, [0.0] * 3], rtol=1e-5)


def test_the_rule_across_the_wavelengths_is_at_the_positions_of_the_models_own_table() -> None:
    scope = letters(positions="sinusoidal")
    choices = tables.TableChoices(say.OWN_TABLE, scope.config.d_model, 100, (0, 1))
    pictures = tables.CURVES_VIEW.payloads(CurrentRun(scope, scope.run("ab", "cd")), choices)
    n = scope.config.n_ctx
    assert n < 100
    assert f"the {n} positions shown" in pictures["positions-waves"].to_json()


SELF, CROSS = "encoder.layers.0.self_attn", "decoder.layers.0.cross_attn"


def changed(family: str, texts: tuple[str, ...], *edits: Edit) -> CurrentRun:
    scope = scope_of(family)
    return edited(CurrentRun(scope, scope.run(*texts)), edits)


def test_no_table_is_drawn_for_a_pinned_model_that_has_none() -> None:
    own, other = changed("bert", ("ab cd",)), changed("seq2seq", ("abc", "cba"))
    choices = tables.TableChoices(say.OWN_TABLE, own.scope.config.d_model, 9, (0, 1))
    with pytest.raises(InputError, match="seq2seq has no position table of its own"):
        tables.CURVES_VIEW.within(choices, own, other)
    formula = replace(choices, formula="paper")
    assert tables.CURVES_VIEW.within(formula, own, other) == formula


def test_the_files_of_the_shuffle_test_name_the_order() -> None:
    scope = scope_of("transformer")
    run = CurrentRun(scope, scope.run("abcd", "badc"))
    (file,) = shuffle.SHUFFLED.files(run, shuffle.ShuffleChoices("reversed", 3, False))
    assert file.name == "transformer.shuffle-test.reversed.csv"
    assert file.about(run)["reordered"] == "reversed: 3, 2, 1, 0, 4"
    drawn = shuffle.ShuffleChoices("shuffled", 3, False)
    about = unpack(shuffle.SHUFFLED.payloads(run, drawn)["positions-shuffle"])[0]["about"]
    assert "\nreordered: shuffled, seed 3: " in about
    names = {shuffle.SHUFFLED.files(run, replace(drawn, seed=s))[0].name for s in (3, 4)}
    assert len(names) == 2


def test_the_shuffle_test_runs_the_model_under_its_head_edits() -> None:
    run = changed("transformer", ("abcde", "fg"), HeadOff(SELF), HeadOff(CROSS, head=1))
    choices = shuffle.ShuffleChoices("reversed", 0, True)
    pictures = shuffle.SHUFFLED.payloads(run, choices)
    backwards = run.scope.run("edcba", "fg", edits=run.spec.edits)
    last = f"encoder.layers.{run.scope.config.n_encoder_layers - 1}.resid_post"
    one, other = (trace.activations[last].value[0] for trace in (run.trace, backwards))
    change = (other[[4, 3, 2, 1, 0, 5]] - one).norm(dim=1) / one.norm(dim=1)
    _, arrays = unpack(pictures["positions-shuffle"])
    np.testing.assert_allclose(arrays["map0"][:, -1], change, rtol=1e-4)
    assert "failed" not in [row[0] for row in pictures["checks"]["rows"]]
    for text, what in (("abcde", "as typed"), ("edcba", "reordered")):
        written = run.scope.write(text, edits=run.spec.edits).text
        assert pictures[f"note with positions {what}"]["rows"] == [
            ["line", f"with positions, {what}: {written}"]
        ]


def test_a_shuffled_text_is_answered_under_the_edits_of_the_run() -> None:
    edits = (HeadScale(name, factor=2.0) for name in (SELF, "encoder.layers.1.self_attn"))
    run = changed("bert", ("ab [MASK] dc ef",), *edits)
    choices = shuffle.ShuffleChoices("reversed", 0, False)
    rows = shuffle.SHUFFLED.payloads(run, choices)["positions-explained"]["rows"]
    label, answer = quoted_answer_line(run.trace)
    assert quoted_answer_line(run.original.trace)[1] != answer
    assert f"With positions, {label}: {answer} as typed" in rows[1][1]


@pytest.mark.parametrize("edit", [
    MaskChange(Where(kind="encoder_self"), block=((0, 1),)), MaskChange(Where(kind="encoder_self"), preset="window"),
    SetWeights(Where(site=SELF), cells=((1, 0.5),)), ZeroValue(SELF, token=1), HeadOff(SELF, baseline="offset"),
    HeadOff(Where(site=SELF, queries=(1,))),
])  # fmt: skip
def test_no_order_is_tested_under_an_edit_with_positions(edit: Edit) -> None:
    run = changed("transformer", ("abcde", "fg"), edit)
    assert shuffle.find_shuffle(run) == say.EDITS_POSITIONS
    assert shuffle.find_shuffle(run.original) is shuffle.SHUFFLED


@pytest.mark.parametrize(("edit", "is_translated"), [
    (MaskChange(Where(kind="decoder_self"), block=((1, 0),)), True), (SetWeights(Where(site=CROSS), cells=((1, 0.5),)), False),
])  # fmt: skip
def test_only_edits_that_name_source_positions_prevent_its_translation(
    edit: Edit, is_translated: bool
) -> None:
    run = changed("transformer", ("abcde", "fg"), edit)
    assert shuffle.find_shuffle(run) is shuffle.SHUFFLED
    pictures = shuffle.SHUFFLED.payloads(run, shuffle.ShuffleChoices("reversed", 0, True))
    assert ("note not translated" not in pictures) == is_translated
    assert ("note with positions reordered" in pictures) == is_translated


@pytest.mark.parametrize(("value", "said"), [
    (0.0, "0"), (0.005, "0.01"), (0.0049, "5e-3"), (1.234, "1.23"), (3.2e-7, "3e-7"), (1e-12, "1e-12"),
])  # fmt: skip
def test_a_change_is_rounded_for_reading(value: float, said: str) -> None:
    assert change_text(value) == said
    assert number_labels(["a", "a"]) == ["0 a", "1 a"]


# files


def test_the_table_and_its_measures_read_back() -> None:
    table = formula_table("paper", 7, 6)
    heading, *rows = csv.reader(io.StringIO(files.table_csv(table)))
    assert heading == ["position \\ dimension", *"012345"]
    assert [row[0] for row in rows] == [*"0123456"]
    np.testing.assert_allclose(
        [[float(v) for v in row[1:]] for row in rows], paper(7, 6), atol=1e-12
    )
    products = paper(7, 6) @ paper(7, 6).T
    with np.load(
        io.BytesIO(files.table_npz(table, torch.tensor([1.0, 2.0]), similarity_by_distance(table)))
    ) as held:
        assert set(held) == {
            "table",
            "wavelengths",
            "similarity_mean",
            "similarity_least",
            "similarity_largest",
        }
        assert held["wavelengths"].tolist() == [1, 2]
        for name, of in (("mean", np.mean), ("least", np.min), ("largest", np.max)):
            np.testing.assert_allclose(
                held[f"similarity_{name}"], [of(products.diagonal(k)) for k in range(7)], atol=1e-12
            )
    with np.load(io.BytesIO(files.table_npz(table, None, similarity_by_distance(table)))) as held:
        assert "wavelengths" not in held


def test_the_comparison_reads_back() -> None:
    """Each number follows from the formulas written out."""
    measures = [measure_formula(formula, 9, 6, 2) for formula in FORMULAS]
    rows = {
        row["formula"]: row
        for row in csv.DictReader(io.StringIO(files.formula_measures_csv(measures)))
    }
    assert list(rows) == list(FORMULAS)
    a, row = paper(26, 6), rows["paper"]
    assert list(row) == [
        "formula", "positions", "d_model", "dimensions that move", "shortest vector", "longest vector", "closest pair",
        "their distance", "positions more like a distant one than like those beside them", "spread of PE·PEᵀ at one distance", "shift k",
        "positions fitted", "fixed rotation misses by", "best matrix misses by",
    ]  # fmt: skip
    apart = np.linalg.norm(a[:9, None] - a[:9], axis=-1) + np.where(np.eye(9), np.inf, 0)
    i, j = sorted(np.unravel_index(apart.argmin(), apart.shape))
    assert (row["positions"], row["d_model"], row["shift k"], row["positions fitted"]) == (
        "9",
        "6",
        "2",
        "24",
    )
    assert int(row["dimensions that move"]) == sum(np.ptp(a[:9], axis=0) >= 0.01)
    assert row["closest pair"].split() == [str(i), str(j)]
    assert float(row["their distance"]) == pytest.approx(apart.min())
    assert float(row["shortest vector"]) == pytest.approx(np.linalg.norm(a[:9], axis=1).min())
    assert float(row["longest vector"]) == pytest.approx(np.linalg.norm(a[:9], axis=1).max())
    assert float(row["fixed rotation misses by"]) < 1e-12
    sin_sin = formula_table("sin-sin", 26, 6).numpy()
    missed = np.array([turned(v, 2) for v in sin_sin[:24]]) - sin_sin[2:26]
    assert float(rows["sin-sin"]["shortest vector"]) == 0
    assert float(rows["sin-sin"]["longest vector"]) == pytest.approx(
        np.linalg.norm(sin_sin[:9], axis=1).max()
    )
    share = np.linalg.norm(missed) / np.linalg.norm(sin_sin[2:26])
    assert float(rows["sin-sin"]["fixed rotation misses by"]) == pytest.approx(share)
    with np.load(io.BytesIO(files.measures_npz(measures))) as held:
        parts = ("table", "rotation", "similarity_mean", "similarity_least", "similarity_largest")
        assert set(held) == {f"{formula}.{part}" for formula in FORMULAS for part in parts}
        np.testing.assert_allclose(held["paper.table"], a[:9], atol=1e-12)
        for formula in ("paper", "2^i"):
            for basis in np.eye(6):
                np.testing.assert_allclose(
                    held[f"{formula}.rotation"] @ basis,
                    turned(basis, 2, formula == "2^i"),
                    atol=1e-12,
                )
        np.testing.assert_allclose(held["paper.similarity_least"], (a[:9] @ a[:9].T)[0], atol=1e-9)


def test_where_each_token_went_reads_back() -> None:
    stages, order = ("input", "layer 1"), (2, 0, 1, 3)
    original = torch.ones(2, 4, 5)
    back = original * torch.tensor([1.5, 1.25])[:, None, None]
    positioned = ShuffleTest(order, stages, original, back)
    bare = ShuffleTest(order, stages, original, original)
    heading, *rows = csv.reader(
        io.StringIO(files.shuffle_csv(["a", "b", "c", "[end]"], positioned, bare))
    )
    both = [f"{stage}, {how}" for how in ("with positions", "without") for stage in stages]
    assert heading == ["place", "new position", "token", *both]
    assert [row[:3] for row in rows] == [
        ["0", "1", "a"],
        ["1", "2", "b"],
        ["2", "0", "c"],
        ["3", "3", "[end]"],
    ]
    for row in rows:
        assert [float(v) for v in row[3:]] == [0.5, 0.25, 0, 0]
    states = ShuffleTest(order, ("forwards", "backwards"), original, back)
    heading, *rows = csv.reader(
        io.StringIO(files.state_moves_csv(["a", "b", "c", "[end]"], states))
    )
    assert heading == ["place", "new position", "token", "forwards", "backwards"]
    assert rows[0] == ["0", "1", "a", "0.5", "0.25"]
    assert [row[1] for row in rows] == ["1", "2", "0", "3"]
    with np.load(io.BytesIO(files.tensors_npz({"x": torch.tensor([1.0, 2.0])}))) as held:
        assert {name: held[name].tolist() for name in held} == {"x": [1, 2]}


def test_an_answer_to_a_new_order_is_after_the_one_as_typed() -> None:
    label = "best guess for [MASK]"
    same = say.answer_sentence("with positions", (label, "two"), (label, "not"))
    assert same == "With positions, best guess for [MASK]: two as typed; not if reordered."
    other = say.answer_sentence(
        "with positions", ("the answer, 9 %", "a"), ("the answer, 8 %", "b")
    )
    assert other == "With positions, the answer, 9 %: a as typed; the answer, 8 %: b if reordered."


def test_the_page_names_the_look_ahead_mask_only_where_it_hides() -> None:
    scope = scope_of("gpt")
    run = CurrentRun(scope, scope.run("abc"))
    assert "The look-ahead mask gives some order" in POSITIONS_PAGE.answer(run)
    opened = edited(run, (MaskChange(Where(kind="self"), removed_layers=(LOOK_AHEAD,)),))
    answer = POSITIONS_PAGE.answer(opened)
    assert answer.startswith("Attention alone ignores order. So a position vector is added")


def test_scores_by_distance_name_positions_only_where_some_are_added() -> None:
    scope = scope_of("gpt")
    for model, added in ((scope, True), (scope.without_positions(), False)):
        run = CurrentRun(model, model.run("abc"))
        site = next(iter(run.trace.attention))
        explained = distance_payloads(run, DistanceChoices(site, 0))["positions-explained"]
        text = " ".join(line for _, line in explained["rows"])
        assert ("Content and position are both" in text) == added
        assert ("No position is added here" in text) != added
