"""The charts, maps, checks and files of "From RNN to attention" and of training: axes, scales, legends and rows by hand."""

import csv
import io
import math

import numpy as np
import pytest
import torch
from drawn import letters, mixed, rgb
from PIL import Image

from models import Scope
from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    LAYER_KINDS,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    Reach,
)
from models.analysis.layer_timing import Timing
from models.tokenizers.base import Encoding
from viz_app.drawing import states
from viz_app.drawing.frame import LINE_COLOURS
from viz_app.drawing.labels import Label
from viz_app.drawing.look import DARK, LIGHT, Look
from viz_app.drawing.payload import unpack
from viz_app.drawing.stamp import facts, saving
from viz_app.views.attention import files as animation
from viz_app.views.from_rnn import charts as charts
from viz_app.views.from_rnn import files as files
from viz_app.views.from_rnn import learners as from_rnn_learners
from viz_app.views.from_rnn import maps as maps
from viz_app.views.from_rnn import pair
from viz_app.views.from_rnn.families import FAMILY_STYLES, line_styles
from viz_app.views.from_rnn.learners import Learner

SOURCE = Encoding("abc", (4, 5, 6, 2), ("a", "b", "c", "</s>"), ((0, 1), (1, 2), (2, 3), None))
TARGET = Encoding("ed", (1, 8, 7), ("<s>", "e", "d"), (None, (0, 1), (1, 2)))
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
OF_KIND = {RNN: BLUE, BIDIRECTIONAL: ORANGE, CNN: GREEN, SELF_ATTENTION: PINK}
DASH = {RNN: [1, 0], BIDIRECTIONAL: [7, 3], CNN: [2, 2], SELF_ATTENTION: [9, 3, 2, 3]}
END = ["[end]", "special token </s>", True]


def layer(kind: str, top: float = 1.0, width: int = 3, depth: int = 2) -> Reach:
    """Return a forged layer over four tokens: each reaches itself and earlier tokens in distance + 1 steps."""
    i, j = torch.arange(4)[:, None], torch.arange(4)
    reaches = j <= i
    norms = torch.where(reaches, top / (1 + (i - j).abs()), 0.0)
    steps = torch.where(reaches, 1 + i - j, 0)
    return Reach(
        LayerChoice(kind, width=width, depth=depth),
        norms,
        reaches,
        steps,
        [[0], [1, 2], [3]],
        5,
        5,
        0.0,
        0.0,
    )


# reach: which inputs affect which outputs


@pytest.mark.parametrize(("scale", "largest", "drawn"), [
    ("one", [2.0, 2.0, 2.0], "log"), ("own", [0.5, 2.0, 1.0], "log"), ("linear", [0.5, 2.0, 1.0], "linear"),
    ("root", [0.5, 2.0, 1.0], "root"),
])  # fmt: skip
def test_the_maps_of_influence(scale: str, largest: list[float], drawn: str) -> None:
    named = [maps.LayerReach(layer(RNN, 0.5), "its weights"), maps.LayerReach(layer(CNN, 2.0), "random"),
             maps.LayerReach(layer(SELF_ATTENTION), "own")]  # fmt: skip
    header, arrays = unpack(maps.influence(named, SOURCE, scale, {"file": "ours.reach"}))
    del header["arrays"]
    shown = [["a", "", False], ["b", "", False], ["c", "", False], END]
    scale_name = {"one": "log, one scale for all", "own": "log, each from its own largest"}
    scale_name |= {
        "linear": "linear, each from its own largest",
        "root": "√, each from its own largest",
    }
    titles = [
        ("RNN", "its weights"),
        ("CNN, width 3, 2 layers", "random"),
        ("Self-attention", "own"),
    ]
    assert header == {
        "title": f"Influence of each input token on each output ({scale_name[scale]})", "file": "ours.reach",
        "rowAxis": "output y(i)", "colAxis": "input x(j)", "rows": shown, "cols": shown,
            "extent": dict(zip((RNN, CNN, SELF_ATTENTION), largest, strict=True)),
        "maps": [{"title": title, "array": f"map{i}", "scale": drawn,
                  "note": f"{note}. White: reachable, but influence < 0.1 % of the maximum {largest[i]:.2g} (0 of 10 pairs)",
                  "least": pytest.approx(largest[i] / 1000),
                  "largest": largest[i], "none": "nothing arrives",
                  "says": f"‖∂y(i)/∂x(j)‖, {'√' if drawn == 'root' else drawn} scale; hatched = 0: not reachable"}
                 for i, (title, note) in enumerate(titles)],
    }  # fmt: skip
    for i, one in enumerate(named):
        np.testing.assert_array_equal(arrays[f"map{i}"], one.reach.norms.numpy())


def test_pairs_with_a_path_but_almost_no_influence_are_counted() -> None:
    rnn = layer(RNN, 4.0)
    rnn.norms[2, 0], rnn.norms[3, 0], rnn.norms[3, 1] = (
        0.0039,
        0.0,
        0.0041,
    )  # one more is 0, but has no path
    for scale, others, count in (("root", 4.0, 2), ("one", 5.0, 3)):
        named = [maps.LayerReach(rnn, "w"), maps.LayerReach(layer(SELF_ATTENTION, others), "own")]
        note = unpack(maps.influence(named, SOURCE, scale, {"file": "ours.reach"}))[0]["maps"][0][
            "note"
        ]
        assert (
            note
            == f"w. White: reachable, but influence < 0.1 % of the maximum {max(others, 4.0) if scale == 'one' else 4.0:.2g} "
            f"({count} of 10 pairs)"
        )


def test_the_default_scale_shows_how_a_recurrence_fades_and_self_attention_does_not() -> None:
    """By the component's own formula, a tenfold fade spans much of the colour range, and a hundredth is clearly not white."""
    assert next(iter(maps.MAP_SCALES)) == "root"
    share = {"root": lambda v: v**0.5, "log": lambda v: 1 + math.log10(max(v, 1e-3)) / 3}
    spans = {name: share[name](1.0) - share[name](0.1) for name in share}
    assert spans["root"] > 0.6 > 2 * spans["log"] - 0.1
    assert share["root"](0.01) == pytest.approx(0.1)


def test_one_layer_is_not_layers() -> None:
    header, _ = unpack(
        maps.influence(
            [maps.LayerReach(layer(CNN, width=5, depth=1), "")],
            SOURCE,
            "own",
            {"file": "ours.reach"},
        )
    )
    assert header["maps"][0]["title"] == "CNN, width 5, 1 layer"


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_influence_by_distance(look: Look) -> None:
    figure = charts.influence_chart([layer(CNN), layer(RNN, 3.0)], look, "The title")
    assert figure.layout.title.text == "The title"
    for line, kind, top in zip(figure.data, (CNN, RNN), (1.0, 3.0), strict=True):
        assert (line.name, line.line.color, line.mode) == (kind, OF_KIND[kind], "lines+markers")
        assert line.line.dash == ",".join(f"{length}px" for length in DASH[kind])
        assert line.x == (0, 1, 2, 3)
        assert line.y == pytest.approx([top / (1 + k) for k in range(4)])
        assert line.customdata == (4, 3, 2, 1)
        assert (
            line.hovertemplate
            == f"{kind}, distance %{{x}}: <b>%{{y:.6g}}</b>, mean of %{{customdata}} pairs<extra></extra>"
        )
    x, y = figure.layout.xaxis, figure.layout.yaxis
    assert (x.title.text, y.title.text) == ("distance |i − j| (tokens)", "mean ‖∂y(i)/∂x(j)‖ (log)")
    assert (y.type, y.autorange, y.dtick, y.tickformat, x.tickformat) == ("log", True, 1, "~g", "d")
    assert x.type is None
    assert figure.layout.showlegend is True
    assert (figure.layout.legend.orientation, figure.layout.font.color) == ("h", look.text)


def test_lines_carry_their_note() -> None:
    learned = from_rnn_learners.chart([FAST, LOST], DARK, "The title", "checkpoints: a, b")
    faded = charts.influence_chart([layer(CNN)], DARK, "The title", "model: m")
    assert [figure.layout.annotations[0].text for figure in (learned, faded)] == [
        "checkpoints: a, b",
        "model: m",
    ]


def legend(drawn: dict, kinds: list[str]) -> None:
    """Assert that each layer keeps its colour and its dashes."""
    assert drawn["color"]["field"] == "layer"
    assert drawn["color"]["scale"] == {"domain": kinds, "range": [OF_KIND[kind] for kind in kinds]}
    assert drawn["color"]["sort"] == kinds
    if "strokeDash" in drawn:
        assert drawn["strokeDash"]["field"] == "layer"
        assert drawn["strokeDash"]["scale"] == {
            "domain": kinds,
            "range": [DASH[kind] for kind in kinds],
        }


def test_steps_by_distance() -> None:
    both = layer(SELF_ATTENTION)
    both.steps.T[both.reaches] = 9  # the other path is longer
    chart = charts.path_lengths([layer(RNN), both], "t").to_dict()
    rows = next(iter(chart["datasets"].values()))
    assert [(row["layer"], row["distance"], row["steps"]) for row in rows] == [
        *((RNN, k, 1 + k) for k in range(4)), *((SELF_ATTENTION, k, 9) for k in range(4)),
    ]  # fmt: skip
    assert (chart["encoding"]["x"]["field"], chart["encoding"]["x"]["title"]) == (
        "distance",
        "distance |i − j| (tokens)",
    )
    assert (chart["encoding"]["y"]["field"], chart["encoding"]["y"]["title"]) == ("steps", "steps")
    assert [tip["field"] for tip in chart["encoding"]["tooltip"]] == ["layer", "distance", "steps"]
    legend(chart["encoding"], [RNN, SELF_ATTENTION])
    assert chart["title"]["text"] == ["t"]


def test_which_steps_wait_for_which() -> None:
    chart = charts.schedule([layer(RNN), layer(CNN)], "The title").to_dict()
    rows = next(iter(chart["datasets"].values()))
    assert [(row["layer"], row["step"], row["token"]) for row in rows] == [
        (kind, step, token)
        for kind in (RNN, CNN)
        for step, token in ((1, 1), (2, 2), (2, 3), (3, 4))
    ]  # counted from 1
    drawn = chart["spec"]["encoding"]
    assert (drawn["x"]["field"], drawn["x"]["title"], drawn["x"]["scale"]["domain"]) == (
        "step",
        "sequential step",
        [0.5, 4.5],
    )
    assert (drawn["y"]["field"], drawn["y"]["title"], drawn["y"]["scale"]["domain"]) == (
        "token",
        "token",
        [4.5, 0.5],
    )
    assert drawn["color"]["scale"] == {"domain": [RNN, CNN], "range": [BLUE, GREEN]}
    assert [tip["field"] for tip in drawn["tooltip"]] == ["layer", "step", "token"]
    assert (chart["facet"]["field"], chart["facet"]["sort"], chart["columns"]) == (
        "layer",
        [RNN, CNN],
        2,
    )
    assert chart["title"]["text"] == "The title"


def test_forward_times_are_medians_in_milliseconds() -> None:
    chart = charts.forward_times([Timing(CNN, 16, (0.004, 0.001, 0.002))], "t").to_dict()
    assert next(iter(chart["datasets"].values())) == [
        {"layer": CNN, "tokens": 16, "ms": 2.0, "least": 1.0, "most": 4.0}
    ]
    spread, line = chart["layer"]
    assert (spread["mark"]["type"], line["mark"]["type"]) == ("rule", "line")
    assert (spread["encoding"]["y"]["field"], spread["encoding"]["y2"]["field"]) == (
        "least",
        "most",
    )
    assert line["encoding"]["y"]["field"] == "ms"
    assert (line["encoding"]["x"]["field"], line["encoding"]["x"]["title"]) == (
        "tokens",
        "length (tokens)",
    )
    assert line["encoding"]["x"]["scale"] == {"type": "log", "base": 2, "domain": [8, 1024]}
    assert line["encoding"]["y"]["title"] == "forward pass (ms)"
    assert line["encoding"]["y"]["scale"]["type"] == "log"
    assert [(tip["field"], tip.get("title")) for tip in line["encoding"]["tooltip"]] == [
        ("layer", None), ("tokens", None), ("ms", "median (ms)"), ("least", "least (ms)"), ("most", "most (ms)"),
    ]  # fmt: skip
    legend(line["encoding"], list(LAYER_KINDS))
    assert charts.forward_times([], "t").to_dict()["layer"][1]["encoding"]["y"]["scale"][
        "domain"
    ] == [0.01, 100]


def test_score_by_length() -> None:
    records = {
        "b": [
            {"least": 1, "most": 4, "cases": 7, "score": 31.5},
            {"least": 5, "most": 6, "cases": 2, "score": 7.875},
        ]
    }
    records["a"] = [{"least": 5, "most": 9, "cases": 3, "score": 12.25}]
    chart = charts.length_chart(records, "t").to_dict()
    assert next(iter(chart["datasets"].values())) == [
        {"model": "b", "words": 2.5, "lengths": "1–4", "score": 31.5, "cases": 7, "share": 1.0},
        {"model": "b", "words": 5.5, "lengths": "5–6", "score": 7.875, "cases": 2, "share": 0.25},
        {"model": "a", "words": 7.0, "lengths": "5–9", "score": 12.25, "cases": 3, "share": 1.0},
    ]  # fmt: skip
    drawn = chart["encoding"]
    assert (drawn["x"]["field"], drawn["x"]["title"]) == ("words", "source length (words)")
    assert (drawn["y"]["field"], drawn["y"]["title"]) == ("score", "BLEU on held-out sentences")
    assert drawn["y"]["scale"] == {"zero": True}
    assert (drawn["color"]["field"], drawn["color"]["scale"]) == (
        "model",
        {"domain": ["b", "a"], "range": [BLUE, ORANGE]},
    )
    assert drawn["strokeDash"]["field"] == "model"
    assert drawn["strokeDash"]["scale"] == {"domain": ["b", "a"], "range": [[1, 0], [7, 3]]}
    assert drawn["strokeDash"]["legend"] == drawn["color"]["legend"]
    assert [tip["field"] for tip in drawn["tooltip"]] == [
        "model",
        "lengths",
        "score",
        "share",
        "cases",
    ]
    assert drawn["tooltip"][1]["title"] == "words"


# two alignments


P = torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
Q = torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.0, 0.0]])


def bits(p: np.ndarray, q: np.ndarray) -> float:
    """Return ½·KL(p‖m) + ½·KL(q‖m) with base-2 logarithms."""
    m = (p + q) / 2
    return sum(
        a * math.log2(a / c) / 2
        for one in (p, q)
        for a, c in zip(one.tolist(), m.tolist(), strict=True)
        if a
    )


def two() -> list[maps.AlignmentMap]:
    return [
        maps.AlignmentMap("Bahdanau's", "one note", P),
        maps.AlignmentMap("Cross-attention, layer 2, head 1", "another", Q),
    ]


def test_two_alignments_and_their_divergence() -> None:
    header, arrays = unpack(maps.alignments(two(), SOURCE, TARGET, {"file": "a.and.b"}))
    del header["arrays"]
    assert header == {
        "title": "What each model attends to in the source as it writes each token", "file": "a.and.b",
        "rowAxis": "query: read → written", "colAxis": "key", "rows": [
            ["[start] → e", "reading [start], writing e; [start]: special token <s>", False],
            ["e → d", "reading e, writing d", False],
            ["d → [end]", "reading d, writing [end]; [end]: special token </s>", False],
        ],
        "cols": [["a", "", False], ["b", "", False], ["c", "", False], END],
        "maps": [{"title": one.title, "note": one.note, "array": f"map{i}", "scale": "linear", "least": 0.0, "largest": 1.0,
                  "none": "",
                  "says": "attention weight, one scale"} for i, one in enumerate(two())],
        "bars": {"title": "How far apart the two rows are", "array": "bars", "bars": True, "largest": 1.0, "none": "",
                 "says": "bit", "note": header["bars"]["note"]},
    }  # fmt: skip
    assert "0 = the same, 1 bit = no overlap" in header["bars"]["note"]
    np.testing.assert_array_equal(arrays["map0"], P.numpy())
    np.testing.assert_array_equal(arrays["map1"], Q.numpy())
    expected = [bits(p, q) for p, q in zip(P.numpy(), Q.numpy(), strict=True)]
    assert expected[:2] == [0.0, 1.0]
    np.testing.assert_allclose(arrays["bars"], expected, atol=1e-6)


def test_forged_alignments_fail_their_checks() -> None:
    scope = letters("recurrent", n_ctx=13)
    traces = [scope.run("abc", "ed"), scope.run("abc", "ed")]
    true = torch.tensor([bits(p, q) for p, q in zip(P.numpy(), Q.numpy(), strict=True)])
    names = [
        "rows sum to 1",
        "both read the same target",
        "the divergence, by its other definition",
    ]
    assert [(check.name, check.passed) for check in pair.pair_checks(traces, two(), true)] == [
        (name, True) for name in names
    ]
    short = [maps.AlignmentMap("", "", P * 0.9), maps.AlignmentMap("", "", Q)]
    assert pair.pair_checks(traces, short, true)[0].value == pytest.approx(0.1)
    assert not pair.pair_checks(traces, short, true)[0].passed
    assert not pair.pair_checks(traces, short[::-1], true)[0].passed
    other = pair.pair_checks([traces[0], scope.run("abc", "da")], two(), true)
    assert [check.passed for check in other] == [True, False, True]
    assert other[1].value == 2
    nats = pair.pair_checks(traces, two(), true * math.log(2))
    assert [check.passed for check in nats] == [True, True, False]
    assert nats[2].value == pytest.approx(1 - math.log(2), abs=1e-5)
    assert not pair.same_rows(traces[0], scope.run("abd", "ed"))
    assert not pair.same_rows(traces[0], scope.run("abc", "ee"))
    assert pair.same_rows(*traces)


def test_the_nearest_head_is_the_one_with_the_least_divergence() -> None:
    weights = torch.stack(
        [torch.stack([P, Q]), torch.stack([Q.flip(0), P / 2 + Q / 2])]
    )  # (site, head, query, key)
    sites = [
        type("Site", (), {"n_heads": 2, "weights": lambda self, head, one=one: one[head]})()
        for one in weights
    ]
    assert pair.nearest_site_head(Q, sites) == (0, 1)
    assert pair.nearest_site_head(P, sites) == (0, 0)
    assert pair.nearest_site_head(P * 0.5 + Q * 0.5, sites) == (1, 1)


def test_which_models_can_be_compared() -> None:
    models = {name: letters(family, **sizes) for name, family, sizes in (
        ("transformer", "transformer", {}), ("encoder alone", "transformer", {"n_decoder_layers": 0}),
        ("bahdanau", "recurrent", {}),
        ("fixed vector", "recurrent", {"attention": "none"}), ("attention only", "attention only", {}),
    )}  # fmt: skip
    assert [name for name, scope in models.items() if pair.has_alignment(scope)] == ["bahdanau"]
    assert [name for name, scope in models.items() if pair.has_heads(scope)] == [
        "transformer",
        "attention only",
    ]
    sites = pair.cross(models["transformer"].run("ab", "b"))
    assert [site.name for site in sites] == [
        "decoder.layers.0.cross_attn",
        "decoder.layers.1.cross_attn",
    ]


# files


def test_the_files_read_back() -> None:
    named = [
        maps.LayerReach(layer(RNN, 0.5), "its weights"),
        maps.LayerReach(layer(BIDIRECTIONAL, 2.0), "random"),
    ]
    tokens = ["a", "b", "c", "[end]"]
    heading, *rows = csv.reader(io.StringIO(files.influence_csv(named, tokens)))
    assert heading == [
        "layer",
        "weights",
        "output i",
        "output token",
        "input j",
        "input token",
        "norm",
        "reached",
        "steps",
    ]
    places = [(i, j) for _ in named for i in range(4) for j in range(4)]
    for n, (row, (i, j)) in enumerate(zip(rows, places, strict=True)):
        kind, whose, top = (RNN, "its weights", 0.5) if n < 16 else (BIDIRECTIONAL, "random", 2.0)
        assert row[:6] == [kind, whose, str(i), tokens[i], str(j), tokens[j]]
        assert float(row[6]) == pytest.approx(top / (1 + i - j) if j <= i else 0)
        assert row[7:] == [str(j <= i), str(1 + i - j if j <= i else 0)]
    with np.load(io.BytesIO(files.influence_npz(named, tokens))) as held:
        assert set(held) == {
            "tokens",
            "RNN.norms",
            "RNN.steps",
            "bidirectional-RNN.norms",
            "bidirectional-RNN.steps",
        }
        assert held["tokens"].tolist() == tokens
        assert held["RNN.norms"][3, 0] == pytest.approx(0.125)
        assert held["bidirectional-RNN.steps"].tolist() == [
            [1, 0, 0, 0],
            [2, 1, 0, 0],
            [3, 2, 1, 0],
            [4, 3, 2, 1],
        ]
    heading, *rows = csv.reader(io.StringIO(files.distance_csv(named[:1])))
    assert heading == ["layer", "weights", "distance", "mean norm", "pairs"]
    assert [(row[0], row[1], int(row[2]), int(row[4])) for row in rows] == [
        (RNN, "its weights", k, 4 - k) for k in range(4)
    ]
    assert [float(row[3]) for row in rows] == pytest.approx([0.5 / (1 + k) for k in range(4)])
    assert files.timings_csv([], "here").strip() == "layer,tokens,repetition,seconds,machine"
    assert (
        files.lengths_csv({}).strip()
        == "checkpoint,least words,most words,cases,BLEU,share of its best"
    )
    divergence = torch.tensor([0.125, 1.0, 0.5])
    steps = ["[start] → e", "e → d", "d → [end]"]
    heading, *rows = csv.reader(io.StringIO(files.alignments_csv(two(), tokens, steps, divergence)))
    assert heading == ["step", "read → written", "source position", "source token", "Bahdanau's", "Cross-attention, layer 2, head 1",
                       "Jensen–Shannon (bits)"]  # fmt: skip
    for row, (i, j) in zip(rows, [(i, j) for i in range(3) for j in range(4)], strict=True):
        assert row[:4] == [str(i), steps[i], str(j), tokens[j]]
        assert [float(v) for v in row[4:]] == [float(P[i, j]), float(Q[i, j]), float(divergence[i])]


# learning curves


FAST = Learner("a", "fast one", 10, 400, ((100, 12.0), (400, 95.0)), 96.5, 100)
LOST = Learner("b", "lost one", 20, 500, ((100, 1.0), (500, 89.9)), None, 50)


def test_how_models_learned_as_a_chart() -> None:
    figure = from_rnn_learners.chart([FAST, LOST], DARK, "The title")
    for line, one, colour in zip(figure.data, (FAST, LOST), (BLUE, ORANGE), strict=True):
        assert (line.name, line.line.color, line.x, line.y) == (
            one.what,
            colour,
            *zip(*one.curve, strict=True),
        )
        assert line.line.dash == {BLUE: "1px,0px", ORANGE: "7px,3px"}[colour]
        assert (
            line.hovertemplate
            == f"{one.checkpoint}, step %{{x:,}}: <b>%{{y:.1f}} %</b><extra></extra>"
        )
    x, y = figure.layout.xaxis, figure.layout.yaxis
    assert (x.title.text, y.title.text) == ("training step", "validation dates right (%)")
    assert (y.range, y.autorange, x.rangemode) == ((0, 100), False, "tozero")
    assert figure.layout.showlegend
    assert figure.layout.title.text == "The title"


def test_how_models_learned_as_a_table_and_a_file() -> None:
    rows = from_rnn_learners.learner_table([FAST, LOST])
    assert rows.to_dict("list") == {
        "Model": ["fast one", "lost one"], "Held-out accuracy (%)": [96.5, pytest.approx(math.nan, nan_ok=True)],
        "Reached 90 % at step": ["400", "not reached"], "Steps": [400, 500], "Parameters": [10, 20], "Checkpoint": ["a", "b"],
    }  # fmt: skip
    assert list(from_rnn_learners.learner_table([FAST], ["x"]).columns)[:3] == [
        "Model",
        "Held-out accuracy (%)",
        "Writes",
    ]
    assert from_rnn_learners.learning_csv([FAST, LOST]).splitlines() == [
        "checkpoint,model,parameters,step,exact match on validation dates (%)", "a,fast one,10,100,12.0", "a,fast one,10,400,95.0",
        "b,lost one,20,100,1.0", "b,lost one,20,500,89.9",
    ]  # fmt: skip


@pytest.mark.parametrize(("family", "sizes", "stage"), [
    ("recurrent", {"attention": "none"}, (0, "RNN, fixed vector h(m)")), ("recurrent", {}, (1, "RNN with Bahdanau's alignment")),
    ("attention only", {"n_self_layers": 0}, (2, "Attn(X, X′) alone")),
    ("attention only", {"n_self_layers": 1, "n_heads": 1}, (3, "Attn(X, X), then Attn(X, X′)")),
    ("attention only", {"n_self_layers": 1, "n_heads": 3}, (4, "Attn(X, X), then Attn(X, X′), 3 heads")),
    ("attention only", {"n_self_layers": 2}, (5, "2 self-attention layers stacked")),
    ("attention only", {"n_self_layers": 2, "residual": True}, (6, "2 stacked, with residuals and LayerNorm")),
    ("transformer", {}, (7, "Transformer: residuals, LayerNorm, feed-forward too")), ("transformer", {"similarity": "dot"}, None),
    ("attention only", {"similarity": "dot"}, None), ("gpt", {}, None),
])  # fmt: skip
def test_which_stage_a_model_is(family: str, sizes: dict, stage: tuple | None) -> None:
    assert from_rnn_learners._stage(letters(family, **sizes)) == stage


# one head during training


QUERIES, KEYS = [Label("x"), Label("y"), Label("z")], [Label("a"), Label("b")]
WEIGHTS = [
    np.array([[0.0, 1.0], [0.5, 0.25], [0.75, 0.0]], np.float32),
    np.array([[1.0, 0.0], [0.1, 0.9], [0.0, 0.6]], np.float32),
]


def test_each_frame_is_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text on each frame and its duration are checked."""
    from PIL import ImageDraw

    written, draw_text = [], ImageDraw.ImageDraw.text
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda pen, at, text, *more, **how: (
        written.append((text, at)), draw_text(pen, at, text, *more, **how))[1])  # fmt: skip
    blocked = np.array([[0, 0], [0, 0], [0, 1]], np.uint8)
    frames = [animation.StrengthFrame(0, WEIGHTS[0]), animation.StrengthFrame(12_345, WEIGHTS[1])]
    picture = Image.open(
        io.BytesIO(
            animation.head_gif(frames, QUERIES, KEYS, blocked, "The title", "1  attention weight")
        )
    )
    texts = [text for text, _ in written]
    assert [text for text in texts if text.startswith("Training step")] == [
        "Training step 0",
        "Training step 12,345",
    ]
    half = len(written) // 2
    for one in (written[:half], written[half:]):
        said = dict(reversed(one))
        assert texts.count("The title") == 2
        assert [text for text, _ in one if text in "xyz"] == [*"xyz"]
        assert [said[q][1] for q in "xyz"] == [animation._TOP + (i + 0.5) * 24 for i in range(3)]
        assert all(said[q][0] < animation._LEFT for q in "xyz")
        assert [text for text, _ in one if text in "ab"] == [*"ab"]
        assert "1  attention weight; rows: query, columns: key" in said
        assert (
            said["0"][0]
            < animation._LEFT
            < said["1  attention weight; rows: query, columns: key"][0]
        )
    durations = []
    for i in range(2):
        picture.seek(i)
        durations.append(picture.info["duration"])
        pixels = picture.convert("RGB")
        for (q, k), weight in np.ndenumerate(WEIGHTS[i]):
            middle = pixels.getpixel((animation._LEFT + k * 24 + 4, animation._TOP + q * 24 + 4))
            share = 0.0 if blocked[q, k] else float(weight)
            assert (
                np.abs(np.array(middle) - mixed(share, "#ffffff", "#1b3fae")).max() <= 12
            )  # a GIF has 256 colours
        left, top = animation._LEFT, animation._TOP
        line = np.array(pixels.crop((left + 24, top + 48, left + 48, top + 72)))
        corners = [line[21, 2], line[2, 21]]  # a masked cell has a stroke from corner to corner
        assert all(np.abs(corner - rgb("#8f96a3")).max() <= 12 for corner in corners)
        inked = (np.array(pixels.crop((0, top - 30, left + 90, top - 4)).convert("L")) < 128).any(
            0
        ).nonzero()[0] - left
        of_a, of_b = (
            inked[inked < 24],
            inked[inked >= 24],
        )  # each slanted name starts over the middle of its column
        assert of_a.min() == pytest.approx(12, abs=4)
        assert of_b.min() == pytest.approx(36, abs=4)
        assert inked.max() < 36 + 15
        scale = [
            pixels.getpixel((animation._LEFT + x, animation._TOP + 72 + 20)) for x in (0, 49, 99)
        ]
        for x, came in zip((0, 49, 99), scale, strict=True):
            assert np.abs(np.array(came) - mixed(x / 99, "#ffffff", "#1b3fae")).max() <= 16
    assert durations == [700, 2500]
    assert (picture.n_frames, picture.info["loop"]) == (2, 0)


# states of an RNN


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_states_as_a_picture(bidirectional: bool) -> None:
    scope: Scope = letters("recurrent", attention="none", bidirectional=bidirectional)
    trace = scope.run("abc", "ed")
    header, arrays = unpack(states.encoder_states(trace, scope.config, "The title"))
    del header["arrays"]
    values = trace.activations["encoder.states"].value[0].numpy()
    np.testing.assert_array_equal(arrays["states"], values)
    frames = [{"row": 3, "first": 0, "count": 7}, {"row": 0, "first": 7, "count": 7}]
    assert header == {
        "title": "The title",
        "extent": {"state": float(np.abs(values).max())},
        **saving(f"{trace.model.name}.encoder-states", facts(trace)),
        "axis": "state dimension",
        "columns": 14 if bidirectional else 7,
        "rows": [["a", "", False], ["b", "", False], ["c", "", False], END],
        "limit": float(max(values.max(), -values.min())),
        "frames": frames[: 1 + bidirectional],
        "ways": ["forwards →", "← backwards"] if bidirectional else [],
    }


def test_the_states_files_name_their_content() -> None:
    trace = letters("recurrent", attention="none").run("abc", "ed")
    heading, *rows = csv.reader(io.StringIO(states.states_csv(trace)))
    assert heading == ["token \\ number", *(str(i) for i in range(1, 15))]
    assert [np.float32(row[1:]).tolist() for row in rows] == trace.activations[
        "encoder.states"
    ].value[0].tolist()
    with np.load(io.BytesIO(states.states_npz(trace))) as held:
        assert set(held) == {"source_tokens", "target_tokens", "encoder.states", "decoder.states"}
        assert (held["source_tokens"].tolist(), held["target_tokens"].tolist()) == (
            [*"abc", "[end]"],
            ["[start]", *"ed"],
        )
        np.testing.assert_array_equal(
            held["decoder.states"], trace.activations["decoder.states"].value[0].numpy()
        )


def test_lines_without_a_family_use_other_colours_while_there_are_some() -> None:
    n_free = len(LINE_COLOURS) - len(FAMILY_STYLES)
    styles = line_styles([SELF_ATTENTION, *[""] * n_free])
    assert styles[0] == FAMILY_STYLES[SELF_ATTENTION]
    assert not set(map(str, styles[1:])) & set(map(str, FAMILY_STYLES.values()))
    more = line_styles([SELF_ATTENTION, *[""] * (len(LINE_COLOURS) - 1)])
    assert len(set(map(str, more))) == len(LINE_COLOURS)


@pytest.mark.parametrize("first", ["", RNN], ids=["no family", "one family"])
def test_no_two_lines_look_alike_past_the_last_colour(first: str) -> None:
    styles = line_styles([first, *[""] * (3 * len(LINE_COLOURS))])
    assert len(set(map(str, styles))) == len(styles)
    assert all(styles[i] != styles[i + 1] for i in range(len(styles) - 1))


def test_a_checkpoint_with_score_0_at_every_length_is_drawn_at_zero() -> None:
    buckets = [{"least": 1, "most": 5, "score": 0.0, "cases": 7}]
    rows = charts.length_chart({"nothing": buckets, "empty": []}, "title").data
    assert rows[["model", "score", "share"]].values.tolist() == [["nothing", 0.0, 0]]
