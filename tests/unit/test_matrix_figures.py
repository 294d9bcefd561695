"""Matrices, √d_k and the files of "Inside a head": terms and factors in both conventions, scales, axes and rows, by hand."""

import csv
import io
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from drawn import letters

from models import Trace
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import chosen_cell
from viz_app.views.inside import cell as inside_cell
from viz_app.views.inside import files as inside_files
from viz_app.views.inside import matrices as inside_matrices
from viz_app.views.inside import matrix_equations
from viz_app.views.inside import scaling as inside_scaling
from viz_app.views.inside import text as inside_text

TERMS = words.terms("translation", ("en", "fr"))
OWN, CROSS, ALIGNMENT = (
    "decoder.layers.0.self_attn",
    "decoder.layers.1.cross_attn",
    "decoder.alignment",
)
SIMILARITIES = ["scaled dot", "dot", "cosine", "general", "additive", "alignment"]
KEYS = ["0 a", "1 b", "2 c", "3 d", "4 e", "5 [end]"]


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    scopes = {name: letters(similarity=name) for name in SIMILARITIES[:-1]} | {
        "alignment": letters("recurrent")
    }
    return {name: scope.run("abcde", "edc") for name, scope in scopes.items()}


def chosen(
    traces: dict[str, Trace], name: str, site: str = CROSS
) -> tuple[Trace, inside_cell.WeightCell]:
    trace = traces[name]
    site = trace.attention[ALIGNMENT if name == "alignment" else site]
    return trace, chosen_cell(trace, site, 0 if name == "alignment" else 1, 2, 1)


# equations. By hand: the name of each, its formula by rows and by columns, and its factors from left to right by rows


PROJECTIONS = [
    ("Queries:", "Q = X W^{Q} + b^{Q}", "Q = W^{Q} I + b^{Q}", "x W_Q = q"),
    ("Keys:", "K = M W^{K} + b^{K}", "K = W^{K} M + b^{K}", "memory W_K = k"),
    ("Values:", "V = M W^{V} + b^{V}", "V = W^{V} M + b^{V}", "memory W_V = v"),
]
AFTER = [
    ("Mix the values:", "B = Â V", "B = V Â", "weights v = b"),
    ("This head's part of the output:", "B W^{O}_{h}", "W^{O}_{h} B", "b W_O = added"),
]
EVERY = "Every query with every key:"
SCORES = {
    "scaled dot": [(EVERY, "A = Q K^{T} / √d_{k}", "A = K^{T} Q / √d_{k}", "q k' = scores")],
    "dot": [(EVERY, "A = Q K^{T}", "A = K^{T} Q", "q k' = scores")],
    "cosine": [
        ("Queries of length 1:", "q / ‖q‖", "q / ‖q‖", "q = compared_q"),
        ("Keys of length 1:", "k / ‖k‖", "k / ‖k‖", "k = compared_k"),
        (EVERY, "A = t Q̂ K̂^{T}", "A = t K̂^{T} Q̂", "compared_q compared_k' = scores"),
    ],
    "general": [
        ("Queries through M:", "Q M", "M^{T} Q", "q learned_M = compared_q"),
        (EVERY, "A = Q M K^{T}", "A = K^{T} M^{T} Q", "compared_q k' = scores"),
    ],
    "additive": [
        ("Queries, made comparable:", "Q W^{T}", "W Q", "q learned_W' = compared_q"),
        ("Keys, made comparable:", "K U^{T}", "U K", "k learned_U' = compared_k"),
        (EVERY, "A = v·tanh(Q W^{T} + K U^{T}), each row with each", "A = v·tanh(W Q + U K), each row with each",
         "compared_q compared_k' = scores"),
    ],
    "alignment": [
        ("States before each step:", "S W^{T}", "W S", "q learned_W' = compared_q"),
        ("States of the encoder:", "H U^{T}", "U H", "k learned_U' = compared_k"),
        (EVERY, "E = v·tanh(S W^{T} + H U^{T}), each row with each", "E = v·tanh(W S + U H), each row with each",
         "compared_q compared_k' = scores"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("convention", ["rows", "columns"])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_equation_against_a_table(
    traces: dict[str, Trace], name: str, convention: str
) -> None:
    _, at = chosen(traces, name)
    symbol = "E" if name == "alignment" else "A"
    along = "row by row" if convention == "rows" else "column by column"
    softmax = f"Mask and softmax, {along}:"
    softmax = (
        softmax,
        f"Â = softmax({symbol} + mask)",
        f"Â = softmax({symbol} + mask)",
        "scores = weights",
    )
    mixed = [("Mix the states:", "C = Â H", "C = H Â", "weights k = b")]
    expected = (
        [*SCORES[name], softmax, *mixed]
        if name == "alignment"
        else [*PROJECTIONS, *SCORES[name], softmax, *AFTER]
    )
    found = matrix_equations.equations(at.site, convention)
    assert len(found) == len(expected)
    for equation, (title, by_rows, by_columns, terms) in zip(found, expected, strict=True):
        assert equation["title"] == title
        assert equation["formula"] == (by_rows if convention == "rows" else by_columns)
        matrices = [
            (term["matrix"], term["transposed"])
            for term in equation["terms"]
            if isinstance(term, dict)
        ]
        *factors, result = [
            (part.rstrip("'"), part.endswith("'")) for part in terms.replace("= ", "").split()
        ]
        assert matrices == [*(factors if convention == "rows" else factors[::-1]), result]
        assert equation["size"] == (
            "large" if result[0] in ("scores", "weights") or result[0] == "b" else "small"
        )


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_signs_between_the_factors(traces: dict[str, Trace], name: str) -> None:
    _, at = chosen(traces, name)
    found = matrix_equations.equations(at.site, "rows")
    signs = [[term for term in equation["terms"] if isinstance(term, str)] for equation in found]
    plain = ["·", "="]
    first = [["·", "+ bias ="]] * 3
    scores = {
        "scaled dot": [["·", "/ √5 ="]], "dot": [plain], "cosine": [["→"], ["→"], ["·", "· t ="]], "general": [plain, plain],
        "additive": [plain, plain, ["+", "→ tanh, · v ="]], "alignment": [plain, plain, ["+", "→ tanh, · v ="]],
    }[name]  # fmt: skip
    assert signs == [
        *([] if name == "alignment" else first),
        *scores,
        ["→"],
        plain,
        *([] if name == "alignment" else [plain]),
    ]


@pytest.mark.parametrize(("convention", "x", "memory"), [("rows", "X", "M"), ("columns", "I", "M")])
def test_self_attention_makes_all_three_from_one_text(
    traces: dict[str, Trace], convention: str, x: str, memory: str
) -> None:
    def sources(site: str) -> list[tuple[str, str]]:
        found = matrix_equations.equations(chosen(traces, "dot", site)[1].site, convention)[:3]
        terms = [
            [term for term in equation["terms"] if isinstance(term, dict)] for equation in found
        ]
        return [
            next((t["matrix"], t["name"]) for t in three if t["matrix"] in ("x", "memory"))
            for three in terms
        ]

    assert sources(OWN) == [("x", x)] * 3
    assert sources(CROSS) == [("x", x), ("memory", memory), ("memory", memory)]


@pytest.mark.parametrize("name", SIMILARITIES)
def test_products_under_every_similarity_hold_by_rows(traces: dict[str, Trace], name: str) -> None:
    """The numbers sent, multiplied as in the terms, give the scores; softmax over the open cells gives the weights."""
    trace, at = chosen(traces, name)
    header, arrays = unpack(inside_matrices.matrices(trace, at, TERMS))
    left, right = (term for term in header["equations"][-3 if name == "alignment" else -4]["terms"] if isinstance(term, dict)
                   and term["matrix"] != "scores")  # fmt: skip
    a, b = arrays[left["matrix"]], arrays[right["matrix"]]
    scores = {"scaled dot": lambda: a @ b.T / math.sqrt(5), "dot": lambda: a @ b.T, "general": lambda: a @ b.T,
              "cosine": lambda: float(np.exp(arrays["learned_log_t"])) * a @ b.T}.get(
        name, lambda: np.tanh(a[:, None] + b) @ arrays["learned_v"])()  # fmt: skip
    np.testing.assert_allclose(scores, arrays["scores"], rtol=1e-4, atol=1e-5)
    e = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(e / e.sum(1, keepdims=True), arrays["weights"], atol=1e-5)
    mixed = arrays["k" if name == "alignment" else "v"]
    np.testing.assert_allclose(arrays["weights"] @ mixed, arrays["b"], rtol=1e-4, atol=1e-5)


# matrices. By hand: name, rows and columns, the matrix whose largest value ends its colour scale, how a number is computed


DESCRIBED = {
    "x": ("token vectors", "query number", "x memory", ""),
    "memory": ("vectors of the key tokens", "key number", "x memory", ""),
    "W_Q": ("weights W_Q of this head", "input number", "W_Q W_K W_V", "learned"),
    "W_K": ("weights W_K of this head", "input number", "W_Q W_K W_V", "learned"),
    "W_V": ("weights W_V of this head", "input number", "W_Q W_K W_V", "learned"),
    "W_O": ("weights W_O of this head", "number output", "W_O", "learned"),
    "q": ("queries", "query number", "q k", "row of the tokens · column of W_Q, + bias"),
    "k": ("keys", "key number", "q k", "row of the tokens · column of W_K, + bias"),
    "v": ("values", "key number", "v b", "row of the tokens · column of W_V, + bias"),
    "learned_M": ("weights M of the similarity", "input number", "learned_M", "learned"),
    "learned_W": (
        "weights W of the similarity",
        "number input",
        "learned_W learned_U",
        "learned",
    ),
    "learned_U": (
        "weights U of the similarity",
        "number input",
        "learned_W learned_U",
        "learned",
    ),
    "compared_q": ("queries as they are compared", "query number", "compared_q compared_k", ""),
    "compared_k": ("keys as they are compared", "key number", "compared_q compared_k", ""),
    "scores": ("score before the mask", "query key", "scores", "{formula}"),
    "weights": ("weight", "query key", "", "softmax over the keys"),
    "b": ("output of the head", "query number", "v b", "weights · values"),
    "added": ("head's part of the output", "query number", "added", "b · W_O"),
}
OF_ALIGNMENT = {
    "q": ("states before each step", "query number", "q k", ""), "k": ("states of the encoder", "key number", "q k", ""),
    "b": ("context", "query number", "v b", "weights · values"),
}  # fmt: skip
HELD = {
    "scaled dot": "", "dot": "", "cosine": "compared_q compared_k", "general": "compared_q compared_k learned_M",
    "additive": "compared_q compared_k learned_W learned_U", "alignment": "compared_q compared_k learned_W learned_U",
}  # fmt: skip


@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_matrix_is_described(traces: dict[str, Trace], name: str) -> None:
    trace, at = chosen(traces, name)
    header, arrays = unpack(inside_matrices.matrices(trace, at, TERMS))
    table = DESCRIBED | (OF_ALIGNMENT if name == "alignment" else {})
    held = (
        "q k scores weights b "
        + ("" if name == "alignment" else "x memory W_Q W_K W_V W_O v added ")
        + HELD[name]
    )
    assert set(header["matrices"]) == set(held.split())
    for matrix, found in header["matrices"].items():
        says, axes, scales, made = table[matrix]
        largest = max(
            (float(np.abs(arrays[s]).max()) for s in scales.split() if s in arrays), default=1.0
        )
        assert found == {
            "array": matrix, "shape": list(arrays[matrix].shape), "says": says, "axes": axes.split(), "scale": largest,
            "made": made.format(formula=words.formula(at.site)), "weights": matrix == "weights", "masked": matrix == "weights",
            "pick": matrix in ("scores", "weights"),
        }, matrix  # fmt: skip


@pytest.mark.parametrize("site", [OWN, CROSS])
def test_the_matrices_are_the_heads_own_parts(traces: dict[str, Trace], site: str) -> None:
    trace, at = chosen(traces, "scaled dot", site)
    header, arrays = unpack(inside_matrices.matrices(trace, at, TERMS, "columns"))
    own = slice(5, 10)
    for name in ("W_Q", "W_K", "W_V"):
        np.testing.assert_array_equal(arrays[name], at.site.projections[name][0][own].T.numpy())
    np.testing.assert_array_equal(arrays["W_O"], at.site.projections["W_O"][0][:, own].T.numpy())
    np.testing.assert_allclose(
        arrays["added"], at.site.out[0, 1].numpy() @ arrays["W_O"], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(arrays["x"], at.site.x[0].numpy())
    if site == CROSS:
        np.testing.assert_array_equal(arrays["memory"], at.site.memory[0].numpy())
    keys = [*"abcde", "[end]"] if site == CROSS else ["[start]", *"edc"]
    assert [label[0] for label in header["tokens"]["query"]] == [
        "[start] → e",
        "e → d",
        "d → c",
        "c → [end]",
    ]
    assert [label[0] for label in header["tokens"]["key"]] == keys
    assert {name: header[name] for name in ("site", "head", "query", "key", "convention", "title", "masks", "file")} == {
        "site": site, "head": 1, "query": 2, "key": 1, "convention": "columns",
        "title": f"{words.head_title(at.site, 1, TERMS)}, as matrices", "masks": [layer.name for layer in at.site.mask.layers],
        "file": {CROSS: "letters.decoder.layer2.cross_attn", OWN: "letters.decoder.layer1.self_attn"}[site] + ".head2.columns",
    }  # fmt: skip


# √d_k


def two_ways(at: inside_cell.WeightCell) -> dict[str, dict[str, torch.Tensor]]:
    """Return both ways from the definitions, in double precision: with the division and without, for every query."""
    q, k = at.site.q[0, at.head].double(), at.site.k[0, at.head].double()
    found = {}
    for name, divisor in (("with", math.sqrt(5)), ("without", 1.0)):
        scores = (q @ k.T) / divisor
        p = scores.masked_fill(~at.site.allowed(), -torch.inf).softmax(-1)
        jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        gradient = jacobian.flatten(1).norm(dim=1)
        by_product = (
            (jacobian / divisor).flatten(1).norm(dim=1)
        )  # ∂softmax(q·k / divisor)/∂(q·k), by the chain rule
        found[name] = {
            "scores": scores,
            "p": p,
            "entropy": -torch.xlogy(p, p).sum(-1),
            "gradient": gradient,
            "by q·k": by_product,
        }
    return found


@pytest.mark.parametrize("site", [OWN, CROSS])
def test_the_table_of_the_scaling_is_recomputed(traces: dict[str, Trace], site: str) -> None:
    _, at = chosen(traces, "scaled dot", site)
    both, allowed = two_ways(at), at.site.allowed()
    n_open = int(allowed[2].sum())
    expected = [
        ("strongest weight of this query", lambda s: s["p"][2].max()),
        (f"entropy of this query, nats (at most ln {n_open})", lambda s: s["entropy"][2]),
        ("gradient of this query, ‖diag(p) − p·pᵀ‖", lambda s: s["gradient"][2]),
        ("the same by q·k, ÷ the divisor", lambda s: s["by q·k"][2]),
        ("mean entropy of the head's queries", lambda s: s["entropy"].mean()),
        ("mean gradient of the head's queries", lambda s: s["gradient"].mean()),
        ("the same by q·k, ÷ the divisor, mean", lambda s: s["by q·k"].mean()),
        (
            "spread of the head's scores (standard deviation)",
            lambda s: s["scores"][allowed].std(correction=0),
        ),
    ]
    heading, line, *rows = inside_scaling.scaling_table(at).splitlines()
    assert heading == "| | ÷ √5 | without |"
    assert line == "|---|--:|--:|"
    for row, (name, value) in zip(rows, expected, strict=True):
        _, said, ours, bare, _ = (part.strip() for part in row.split("|"))
        assert said == name
        assert float(ours) == pytest.approx(float(value(both["with"])), rel=2e-3, abs=2e-4), name
        assert float(bare) == pytest.approx(float(value(both["without"])), rel=2e-3, abs=2e-4), name


def test_the_sentences_on_the_scaling_hold_its_numbers(traces: dict[str, Trace]) -> None:
    _, at = chosen(traces, "scaled dot")
    both, said = (
        two_ways(at),
        f"{inside_scaling.division_effect(at)} {inside_scaling.consequence(at)}",
    )
    assert "2.24 times as far apart" in said
    assert (
        f"{both['without']['p'][2].max():.2f} instead of {both['with']['p'][2].max():.2f}" in said
    )
    ours, bare = both["with"], both["without"]
    times = {name: float(bare[name][2] / ours[name][2]) for name in ("gradient", "by q·k")}
    assert times["gradient"] > 1.05
    assert times["by q·k"] > 1.05
    assert (
        f"When a score moves, the weights would change {times['gradient']:.3g} times as strongly."
        in said
    )
    assert (
        f"When q·k moves, the weights would change {times['by q·k']:.3g} times as strongly." in said
    )
    assert (
        f"the mean gradient by q·k would be {bare['by q·k'].mean():.2g} instead of {ours['by q·k'].mean():.2g}. "
        in said
    )
    assert (
        f"Softmax's own would be {bare['gradient'].mean():.2g} instead of {ours['gradient'].mean():.2g}: neither would be smaller"
        in said
    )


def test_the_curves_are_the_softmax_of_each_divisor(traces: dict[str, Trace]) -> None:
    _, at = chosen(traces, "scaled dot")
    q, k = at.site.q[0, 1, 2].double(), at.site.k[0, 1].double()
    points = inside_scaling.scaling_curves(at)
    assert points[0]["divisor"] == pytest.approx(0.25)
    assert points[-1]["divisor"] == pytest.approx(4 * math.sqrt(5))
    ratios = [b["divisor"] / a["divisor"] for a, b in pairwise(points)]
    assert max(ratios) == pytest.approx(min(ratios))
    assert len(points) == 41
    for point in points:
        p = (k @ q / point["divisor"]).softmax(0)
        assert point["entropy"] == pytest.approx(float(-torch.xlogy(p, p).sum()), abs=1e-4)
        gradient = float((torch.diag(p) - torch.outer(p, p)).norm())
        assert point["gradient"] == pytest.approx(gradient, abs=1e-4)
        assert point["product_gradient"] == pytest.approx(
            gradient / point["divisor"], rel=1e-3, abs=1e-4
        )


@pytest.mark.parametrize(
    ("dark", "blue", "orange"), [(False, "#1b3fae", "#c8590b"), (True, "#9dbcff", "#ff9d5c")]
)
def test_the_bars_and_the_curves_are_labelled(
    traces: dict[str, Trace], dark: bool, blue: str, orange: str
) -> None:
    trace, at = chosen(traces, "scaled dot")
    both, names = two_ways(at), ["÷ √5 (the model)", "without"]
    bars = inside_scaling.weights_chart(trace, at, dark).to_dict()
    assert bars["title"]["text"] == ["This query's weights, with and without the", "division"]
    rows = bars["data"]["values"]
    assert [(row["key"], row["place"], row["softmax"]) for row in rows] == [
        (KEYS[j], j, name) for j in range(6) for name in names
    ]
    for row in rows:
        p = both["with" if row["softmax"] == names[0] else "without"]["p"][2]
        assert row["weight"] == pytest.approx(float(p[row["place"]]), abs=1e-5)
    drawn = bars["encoding"]
    assert drawn["x"]["field"] == "key"
    assert drawn["x"]["title"] == "key"
    assert drawn["x"]["sort"]["field"] == "place"
    assert (drawn["y"]["field"], drawn["y"]["title"], drawn["y"]["scale"]) == (
        "weight",
        "weight",
        {"domain": [0, 1]},
    )
    assert (drawn["xOffset"]["field"], drawn["xOffset"]["sort"]) == ("softmax", names)
    assert drawn["stroke"]["scale"] == {"domain": names, "range": [blue, orange]}
    assert drawn["fill"]["scale"] == {
        "domain": names,
        "range": [blue, f"{orange}26"],
    }  # hollow without the division
    assert drawn["fill"]["legend"] == drawn["stroke"]["legend"]
    for field, unit in (("entropy", "nats"), ("gradient", "norm")):
        line, rules = inside_scaling.curve_chart(at, field, f"The {field}", unit, dark).to_dict()[
            "layer"
        ]
        assert line["mark"] == {"type": "line", "color": blue}
        assert line["data"]["values"] == inside_scaling.scaling_curves(at)
        assert (line["encoding"]["x"]["field"], line["encoding"]["x"]["title"]) == (
            "divisor",
            "divisor of q·k",
        )
        assert line["encoding"]["x"]["scale"]["type"] == "log"
        assert line["encoding"]["x"]["axis"] == {
            "values": [2.0**power for power in range(-2, 6)],
            "format": "~g",
        }
        assert (line["encoding"]["y"]["field"], line["encoding"]["y"]["title"]) == (field, unit)
        assert line["encoding"]["y"]["scale"] == {"zero": True}
        assert [tip["field"] for tip in line["encoding"]["tooltip"]] == ["divisor", field]
        assert rules["data"]["values"] == [
            {"divisor": math.sqrt(5), "softmax": names[0]},
            {"divisor": 1.0, "softmax": names[1]},
        ]
        assert rules["encoding"]["color"]["scale"] == {"domain": names, "range": [blue, orange]}
        assert rules["encoding"]["strokeDash"]["scale"] == {
            "domain": names,
            "range": [[9, 3], [2, 2]],
        }
    assert inside_scaling.curve_chart(at, "entropy", "The title", "nats").to_dict()["title"][
        "text"
    ] == ["The title"]


# files


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_walks_table_read_back(traces: dict[str, Trace], name: str) -> None:
    trace, at = chosen(traces, name)
    heading, *rows = csv.reader(io.StringIO(inside_files.walk_csv(trace, at)))
    n_v = at.site.v.shape[3]
    raw = ["q·k"] if name == "scaled dot" else []
    terms, parts = [f"term {d}" for d in range(1, 6)], [f"weight·v {d}" for d in range(1, n_v + 1)]
    assert heading == ["key", *raw, "score", "allowed", "masked", "weight", *terms, *parts]
    assert [row[0] for row in rows] == KEYS
    weights, scores = at.site.weights(at.head)[2], at.site.scores(at.head)[2]
    for j, row in enumerate(rows):
        told = dict(zip(heading, row, strict=True))
        assert np.float32(told["score"]) == np.float32(told["masked"]) == scores[j].numpy()
        assert told["allowed"] == "1"
        assert np.float32(told["weight"]) == weights[j].numpy()
        assert sum(float(told[term]) for term in terms) == pytest.approx(
            float(scores[j]), rel=1e-4, abs=1e-4
        )
        given = (weights[j] * at.site.v[0, at.head, j]).numpy()
        np.testing.assert_allclose([float(told[part]) for part in parts], given, rtol=1e-5)


def test_a_masked_key_is_in_the_walks_table(traces: dict[str, Trace]) -> None:
    trace = traces["scaled dot"]
    at = chosen_cell(trace, trace.attention[OWN], 0, 1, 0)
    rows = list(csv.DictReader(io.StringIO(inside_files.walk_csv(trace, at))))
    assert [row["allowed"] for row in rows] == ["1", "1", "0", "0"]
    assert [row["masked"] == "-inf" for row in rows] == [False, False, True, True]
    assert all(row["score"] != "-inf" for row in rows)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_walks_arrays_read_back(traces: dict[str, Trace], name: str) -> None:
    trace, at = chosen(traces, name)
    w = at.walk
    with np.load(io.BytesIO(inside_files.walk_npz(trace, at))) as held:
        learned = {f"learned_{n}": value for n, value in at.site.similarity.learned.items()}
        arrays = {
            "a": at.site.x[0, 2], "memory": at.site.memory[0], "q": at.site.q[0, at.head, 2], "k": at.site.k[0, at.head],
            "v": at.site.v[0, at.head], "scores": at.site.scores(at.head)[2], "allowed": at.site.allowed()[2], "masked": w.masked,
            "weights": at.site.weights(at.head)[2], "parts": w.parts, "b": w.b, "compared_q": w.comparison.q,
            "compared_k": w.comparison.k, "met": w.comparison.elementwise, "terms": w.comparison.terms, **learned,
        }  # fmt: skip
        of_heads = (
            set()
            if name == "alignment"
            else {"added", "head_out", "heads_added", "bias", "output", "residual"}
        )
        assert set(held) == {*arrays, *of_heads, "query_tokens", "key_tokens", "query"}
        for array, value in arrays.items():
            np.testing.assert_array_equal(held[array], value.numpy(), err_msg=array)
        np.testing.assert_allclose(
            held["b"], at.site.out[0, at.head, 2].numpy(), rtol=1e-4, atol=1e-5
        )
        assert held["query_tokens"].tolist() == ["[start]", *"edc"]
        assert held["key_tokens"].tolist() == [*"abcde", "[end]"]
        assert held["query"] == 2
        if of_heads:
            np.testing.assert_allclose(held["added"], held["heads_added"][1], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(
                held["output"], held["heads_added"].sum(0) + held["bias"], rtol=1e-4, atol=1e-5
            )
            np.testing.assert_array_equal(held["bias"], at.site.projections["W_O"][1].numpy())
            np.testing.assert_allclose(
                held["head_out"], at.site.out[0, :, 2].numpy(), rtol=1e-4, atol=1e-5
            )
            np.testing.assert_array_equal(
                held["residual"],
                trace.activations["decoder.layers.1.resid_mid"].value[0, 2].numpy(),
            )


def test_the_matrices_file_says_where_the_query_may_read(traces: dict[str, Trace]) -> None:
    _, at = chosen(traces, "dot", OWN)
    with np.load(io.BytesIO(inside_files.matrices_npz(at))) as held:
        assert set(held) == {
            "x",
            "memory",
            "W_Q",
            "W_K",
            "W_V",
            "W_O",
            "q",
            "k",
            "v",
            "scores",
            "weights",
            "b",
            "added",
            "allowed",
        }
        assert held["allowed"].tolist() == np.tril(np.ones((4, 4), bool)).tolist()
        np.testing.assert_array_equal(held["scores"], at.site.scores(1).numpy())


def test_the_scaling_table_read_back(traces: dict[str, Trace]) -> None:
    trace, at = chosen(traces, "scaled dot")
    heading, *rows = csv.reader(io.StringIO(inside_files.scaling_csv(trace, at)))
    assert heading == [
        "what",
        "divisor | key",
        "entropy (nats) | softmax",
        "gradient norm | weight",
        "gradient norm by q·k",
    ]
    points = [[float(v) for v in row[1:]] for row in rows if row[0] == "divisor"]
    assert points == [
        [c["divisor"], c["entropy"], c["gradient"], c["product_gradient"]]
        for c in inside_scaling.scaling_curves(at)
    ]
    both = two_ways(at)
    bars = [row[1:] for row in rows if row[0] == "weight"]
    assert len(rows) == len(points) + len(bars)
    assert [row[:2] for row in bars] == [
        [key, name] for key in KEYS for name in ("÷ √5 (the model)", "without")
    ]
    for row, p in zip(
        bars, torch.stack([both["with"]["p"][2], both["without"]["p"][2]], 1).flatten(), strict=True
    ):
        assert float(row[2]) == pytest.approx(float(p), abs=1e-5)
        assert row[3] == ""


@pytest.mark.parametrize("family", ["transformer", "attention only"])
def test_the_heads_table_read_back(family: str) -> None:
    trace = letters(family).run("abcde", "edc")
    site = next(site for site in trace.attention.values() if site.kind == "cross")
    heading, *rows = csv.reader(
        io.StringIO(inside_files.heads_csv(trace, chosen_cell(trace, site, 1, 2, 1)))
    )
    stream = ["cosine with stream"] if family == "transformer" else []
    assert heading == [
        "head",
        "length",
        "cosine with output",
        *stream,
        *(f"added {d}" for d in range(1, 16)),
    ]
    assert [row[0] for row in rows] == [
        "1",
        "2",
        "3",
        "bias",
        "output",
        *(["stream"] if stream else []),
    ]
    vectors = {row[0]: np.array(row[-15:], np.float32) for row in rows}
    weight, bias = site.projections["W_O"]
    for h in range(3):
        by_hand = weight[:, 5 * h : 5 * h + 5] @ site.out[0, h, 2]
        np.testing.assert_allclose(vectors[str(h + 1)], by_hand.numpy(), rtol=1e-4, atol=1e-5)
        told = dict(zip(heading, rows[h], strict=True))
        for column, other in (("cosine with output", "output"), ("cosine with stream", "stream")):
            if column in told:
                a, b = vectors[str(h + 1)], vectors[other]
                assert float(told[column]) == pytest.approx(
                    float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), abs=1e-5
                )
    np.testing.assert_array_equal(vectors["bias"], bias.numpy())
    np.testing.assert_allclose(
        vectors["output"],
        sum(vectors[str(h)] for h in (1, 2, 3)) + vectors["bias"],
        rtol=1e-4,
        atol=1e-5,
    )
    for row in rows:
        assert float(row[1]) == pytest.approx(float(np.linalg.norm(vectors[row[0]])), rel=1e-5)
    assert rows[3][2 : 3 + len(stream)] == [""] * (1 + len(stream))


def test_each_view_has_its_own_text(traces: dict[str, Trace]) -> None:
    site = chosen(traces, "scaled dot")[1].site
    said = {view: inside_text.explain_view(view, site, TERMS) for view in inside_text.VIEWS}
    assert words.where_from(site, TERMS) in said["walk"]
    assert words.how_to_read(site) in said["walk"]
    assert r"$A = Q K^\top$ with softmax over each row" in said["matrices"]
    assert r"$A = K^\top Q$ with softmax over each column" in said["matrices"]
    assert r"variance $d_k = 5$. Dividing by $\sqrt{5}$" in said["scaling"]
    assert "in nats" in said["scaling"]
    assert (
        r"$\mathrm{Concat}(b^1 \dots b^{3})\,W_O + \text{bias} = \sum_h b^h\,W_O^h + \text{bias}$"
        in said["heads"]
    )
    assert "joining the 3 results" in said["heads"]
    for name in ("cosine", "alignment"):
        site = chosen(traces, name)[1].site
        assert (
            f"at once: {words.formula(site)} for every pair, softmax, mixture. "
            in inside_text.explain_view("matrices", site, TERMS)
        )
        turned = (
            "Rows and columns are two ways to write the same numbers; one is the other transposed."
        )
        assert inside_text.explain_view("matrices", site, TERMS).endswith(f". {turned}")
        assert ("s(i−1) is shown beside" in inside_text.explain_view("matrices", site, TERMS)) == (
            name == "alignment"
        )
