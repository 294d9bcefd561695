"""The walk through one head as it is drawn: every stage and column of every similarity against tables written by hand."""

import csv
import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import letters

from models import Scope, Trace
from models.analysis.walk_checks import check_walk
from models.layers.masks import DRAWN, Mask, MaskLayer, SiteKind
from models.layers.similarity import AttentionSimilarity
from models.trace import AttentionSite
from models.trace.edits import HeadOff, HeadScale, SetWeights, Where, ZeroValue
from viz_app import words
from viz_app.drawing import weight_cell
from viz_app.drawing.labels import Label, quote
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import chosen_cell, token_choice
from viz_app.views.inside import cell as inside_cell
from viz_app.views.inside import columns as inside_columns
from viz_app.views.inside import files as inside_files
from viz_app.views.inside import matrices as inside_matrices
from viz_app.views.inside import scaling
from viz_app.views.inside import text as inside_text
from viz_app.views.inside.scene import Stage

TERMS = words.terms("translation", ("en", "fr"))
OWN, CROSS, ALIGNMENT = (
    "decoder.layers.0.self_attn",
    "decoder.layers.1.cross_attn",
    "decoder.alignment",
)
SIMILARITIES = ["scaled dot", "dot", "cosine", "general", "additive", "alignment"]
D_HEAD, D_MODEL, D_HIDDEN, D_ALIGN = 5, 15, 7, 5


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    made = {name: letters(similarity=name) for name in SIMILARITIES[:-1]}
    return {**made, "alignment": letters("recurrent")}


@pytest.fixture(scope="module")
def traces(scopes: dict[str, Scope]) -> dict[str, Trace]:
    return {name: scope.run("abcde", "edc") for name, scope in scopes.items()}


def chosen(
    traces: dict[str, Trace], name: str, query: int = 2, key: int = 1
) -> tuple[Trace, inside_cell.WeightCell]:
    trace = traces[name]
    site = trace.attention[ALIGNMENT if name == "alignment" else CROSS]
    return trace, chosen_cell(trace, site, 0 if name == "alignment" else 1, query, key)


def two(value: float) -> str:
    """Format two decimals with a true minus sign."""
    return (
        "−" if (value < 0 and round(abs(value), 2) != 0) or f"{value:.2f}".startswith("-") else ""
    ) + f"{abs(value):.2f}"


def brief(value: float) -> str:
    return (
        f"{value:.0f}"
        if abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


# stages. By hand: name, columns, those for narrow tables, the query's own row, the sum under the table, whether the rest is summed


BEFORE = {
    "scaled dot": [("a", "a", "a", "a:a"), ("q k v", "a k v", "k v", "a:a k:q"), ("q∘k", "k products raw", "products raw", "k:q"),
                   ("÷√dₖ", "k terms raw scores", "terms scores", "k:q")],
    "dot": [("a", "a", "a", "a:a"), ("q k v", "a k v", "k v", "a:a k:q"), ("q∘k", "k terms scores", "terms scores", "k:q")],
    "cosine": [("a", "a", "a", "a:a"), ("q k v", "a k v", "k v", "a:a k:q"), ("q̂, k̂", "k sides", "sides", "k:q sides:compared_q"),
               ("q̂∘k̂", "sides terms scores", "terms scores", "sides:compared_q")],
    "general": [("a", "a", "a", "a:a"), ("q k v", "a k v", "k v", "a:a k:q"), ("q·M", "k sides", "sides", "k:q sides:compared_q"),
                ("qM∘k", "sides terms scores", "terms scores", "sides:compared_q")],
    "additive": [("a", "a", "a", "a:a"), ("q k v", "a k v", "k v", "a:a k:q"), ("W, U", "k sides", "sides", "k:q sides:compared_q"),
                 ("tanh", "sides products", "products", "sides:compared_q"), ("v∘", "products terms scores", "terms scores", "")],
    "alignment": [("s, h", "a", "a", "a:a"), ("W, U", "a sides", "sides", "a:a sides:compared_q"),
                  ("tanh", "sides products", "products", "sides:compared_q"), ("v∘", "products terms scores", "terms scores", "")],
}  # fmt: skip
OF_SCORE = {
    "scaled dot": "terms raw scores"
}  # the part of the previous comparison that stays beside the mask


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_stages_in_order_and_their_content(traces: dict[str, Trace], name: str) -> None:
    trace, at = chosen(traces, name)
    value, result = ("h", "c") if name == "alignment" else ("v", "b")
    held = OF_SCORE.get(name, "terms scores")
    after = [
        ("mask", f"{held} masked", "scores masked", ""),
        ("softmax", f"{held} masked weights", "masked", ""),
        (f"×{value}", "weights v parts", "v", ""),
        (result, "weights v parts", "", ""),
    ]
    expected = [*BEFORE[name], *after, *([] if name == "alignment" else [("W_O", "", "", "")])]
    stages = inside_cell.cell_stages(trace, at, TERMS)
    assert [stage.name for stage in stages] == [row[0] for row in expected]
    for stage, (_, columns, main, top) in zip(stages, expected, strict=True):
        assert stage.columns == tuple(columns.split()), stage.name
        assert stage.main == tuple(main.split()), stage.name
        assert stage.top == dict(pair.split(":") for pair in top.split()), stage.name
        assert stage.foot == (result if stage.name == result else ""), stage.name
        assert stage.rest == (stage.name in (f"×{value}", result)), stage.name


FORMULAS = {
    "scaled dot": {"q∘k": "q^{i}·k^{j} = Σ_{d} q^{i}_{d} k^{j}_{d}", "÷√dₖ": "α_{i,j} = q^{i}·k^{j} / √d_{k}"},
    "dot": {"q∘k": "α_{i,j} = q^{i}·k^{j} = Σ_{d} q^{i}_{d} k^{j}_{d}"},
    "cosine": {"q̂, k̂": "q̂^{i} = q^{i} / ‖q^{i}‖,  k̂^{j} = k^{j} / ‖k^{j}‖",
               "q̂∘k̂": "α_{i,j} = t·cos(q^{i}, k^{j}) = t Σ_{d} q̂^{i}_{d} k̂^{j}_{d}"},
    "general": {"q·M": "q^{i}M", "qM∘k": "α_{i,j} = q^{i}M·k^{j} = Σ_{d} (q^{i}M)_{d} k^{j}_{d}"},
    "additive": {"W, U": "W q^{i},  U k^{j} ∈ R^{5}", "tanh": "tanh(W q^{i} + U k^{j})",
                 "v∘": "α_{i,j} = v·tanh(W q^{i} + U k^{j}) = Σ_{d} v_{d} tanh(…)_{d}"},
    "alignment": {
        "s, h": "s_{i−1} ∈ R^{7},  h_{j} ∈ R^{14}", "W, U": "W s_{i−1},  U h_{j} ∈ R^{5}", "tanh": "tanh(W s_{i−1} + U h_{j})",
        "v∘": "e_{i,j} = v·tanh(W s_{i−1} + U h_{j}) = Σ_{d} v_{d} tanh(…)_{d}", "mask": "e_{i,j} ← −∞  where the mask blocks j",
        "softmax": "α_{i,j} = exp(e_{i,j}) / Σ_{j′} exp(e_{i,j′})", "×h": "α_{i,j} h_{j}", "c": "c_{i} = Σ_{j} α_{i,j} h_{j}",
    },
}  # fmt: skip
OF_HEADS = {
    "a": "a^{i}, a^{j} ∈ R^{15}   (d_{model} = 15)",
    "q k v": "q^{i} = W^{Q}a^{i} + b^{Q},  k^{j} = W^{K}a^{j} + b^{K},  v^{j} = W^{V}a^{j} + b^{V}   (d_{k} = 5)",
    "mask": "α_{i,j} ← −∞  where the mask blocks j",
    "softmax": "α̂_{i,j} = exp(α_{i,j}) / Σ_{j′} exp(α_{i,j′})",
    "×v": "α̂_{i,j} v^{j}",
    "b": "b^{i} = Σ_{j} α̂_{i,j} v^{j}",
    "W_O": "Concat(b^{i,1} … b^{i,h}) W^{O} = Σ_{h} b^{i,h} W^{O}_{h}  (+ b^{O})",
}


@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_stage_has_its_formula(traces: dict[str, Trace], name: str) -> None:
    stages = inside_cell.cell_stages(*chosen(traces, name), TERMS)
    assert {stage.name: stage.formula for stage in stages} == (
        {} if name == "alignment" else OF_HEADS
    ) | FORMULAS[name]


def said(traces: dict[str, Trace], name: str, query: int = 2, key: int = 1) -> dict[str, Stage]:
    return {
        stage.name: stage
        for stage in inside_cell.cell_stages(*chosen(traces, name, query, key), TERMS)
    }


LAST = {
    "scaled dot": "÷√dₖ",
    "dot": "q∘k",
    "cosine": "q̂∘k̂",
    "general": "qM∘k",
    "additive": "v∘",
    "alignment": "v∘",
}


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_sentences_hold_this_cells_numbers(traces: dict[str, Trace], name: str) -> None:
    """Each number is the chosen key's, computed from q, k and the similarity's learned parameters."""
    _, at = chosen(traces, name)
    site, told = at.site, said(traces, name)
    q, k = site.q[0, at.head, 2].double(), site.k[0, at.head].double()
    learned = {n: v.double() for n, v in site.similarity.learned.items()}
    scores = {
        "scaled dot": lambda: k @ q / math.sqrt(D_HEAD), "dot": lambda: k @ q,
        "cosine": lambda: learned["log_t"].exp() * (k @ q) / (k.norm(dim=1) * q.norm()),
        "general": lambda: k @ (learned["M"].T @ q),
        "additive": lambda: torch.tanh(k @ learned["U"].T + learned["W"] @ q) @ learned["v"],
    }["additive" if name == "alignment" else name]()  # fmt: skip
    weights = scores.softmax(0)
    assert f"{two(float(scores[1]))}." in told[LAST[name]].sentence
    assert "“b”" in told[LAST[name]].sentence
    assert (
        f"“b” gets {float(weights[1]):.4f}; an even split over 6 tokens would be 0.1667."
        in told["softmax"].sentence
    )
    mixture = told["×h" if name == "alignment" else "×v"].sentence
    what = "state" if name == "alignment" else "value"
    assert (
        f"“d” takes {inside_text.weight_share(float(weights[1]))} of the {what} of “b”" in mixture
    )
    assert "“d” may attend to every token" in told["mask"].sentence
    assert "6" in told["c" if name == "alignment" else "b"].sentence
    if name == "scaled dot":
        assert f"5 products add up to {two(float(k[1] @ q))}." in told["q∘k"].sentence
        assert "divided by √5 = 2.236" in told["÷√dₖ"].sentence
    if name == "dot":
        assert "the 5 products" in told["q∘k"].sentence
    if name == "cosine":
        assert f"t = {float(learned['log_t'].exp()):.4g}," in told["q̂∘k̂"].sentence


def test_the_sizes_that_the_sentences_name(traces: dict[str, Trace]) -> None:
    assert f"as {D_MODEL} numbers" in said(traces, "dot")["a"].sentence
    assert f"shorter vectors of {D_HEAD} numbers" in said(traces, "dot")["q k v"].sentence
    assert f"s(i−1), {D_HIDDEN} numbers" in said(traces, "alignment")["s, h"].sentence
    assert (
        f"h(j), {2 * D_HIDDEN} numbers for each token of the English sentence"
        in said(traces, "alignment")["s, h"].sentence
    )
    both = said(traces, "alignment")["W, U"].sentence
    assert (
        f"W makes {D_ALIGN} numbers of the state, the matrix U makes {D_ALIGN} of every h(j)"
        in both
    )
    assert "computed once" in both
    both = said(traces, "additive")["W, U"].sentence
    assert (
        f"W makes {D_HEAD} numbers of the query, the matrix U makes {D_HEAD} of every key" in both
    )
    assert "computed once" not in both
    for name, what in (("additive", "score"), ("alignment", "energy")):
        assert (
            f"Each of the 5 numbers is multiplied by its number in v, and the products add up to the {what}."
            in said(traces, name)["v∘"].sentence
        )


@pytest.mark.parametrize(("site", "what"), [
    ("encoder.layers.0.self_attn", "below are the keys: all of the English sentence."),
    (OWN, "below is the French so far; a mask will hide what comes after it."),
    (CROSS, "below are the keys: the English sentence, as it left the encoder."),
])  # fmt: skip
def test_the_keys_that_can_be_read_are_named(
    traces: dict[str, Trace], site: str, what: str
) -> None:
    trace = traces["dot"]
    first = inside_cell.cell_stages(
        trace, chosen_cell(trace, trace.attention[site], 0, 1, 0), TERMS
    )[0]
    query = "b" if site.startswith("encoder") else "e"
    assert first.sentence == (
        f"Each token arrives at this attention as 15 numbers. “{query}” (on top) is the query; {what}"
    )


def test_the_mask_stage_counts_blocked_keys_and_says_if_this_one_is(
    traces: dict[str, Trace],
) -> None:
    trace = traces["dot"]
    for key, verdict in (
        (1, "“e” is open and keeps its score."),
        (3, "“c” is blocked: its score becomes −∞."),
    ):
        at = chosen_cell(trace, trace.attention[OWN], 0, 1, key)
        told = {stage.name: stage.sentence for stage in inside_cell.cell_stages(trace, at, TERMS)}
        assert told["mask"] == f"2 of 4 tokens are blocked for “e” (look-ahead: 2). {verdict}"
        assert "an even split over 2 tokens would be 0.5000." in told["softmax"]
    alone = inside_cell.cell_stages(trace, chosen_cell(trace, trace.attention[OWN], 0, 0, 0), TERMS)
    (softmax,) = (stage.sentence for stage in alone if stage.name == "softmax")
    assert "[start] gets 1.0000; an even split over 1 token would be 1.0000." in softmax


@pytest.mark.parametrize("query", range(4))
def test_open_and_blocked_tokens_are_counted_apart(traces: dict[str, Trace], query: int) -> None:
    """A decoder's query i may read i + 1 of its 4 tokens; keys past the end are blocked by hand, too."""
    trace = traces["dot"]
    site = trace.attention[OWN]
    drawn = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    drawn[..., 3] = False
    twice = replace(site, mask=Mask([*site.mask.layers, MaskLayer(DRAWN, drawn)]))
    for one, by_hand in ((site, 0), (twice, 1)):
        n_open = min(query + 1, 4 - by_hand)
        told = {
            stage.name: stage.sentence
            for stage in inside_cell.cell_stages(trace, chosen_cell(trace, one, 0, query, 0), TERMS)
        }
        if n_open < 4:
            counts = [int(n) for n in re.findall(r"\b(\d)(?: of|[,)])", told["mask"])]
            ahead = [3 - query] * (query < 3)
            assert counts == [4 - n_open, *ahead, *[1] * by_hand]
            assert re.search(r"\d of (\d)", told["mask"])[1] == "4"
        assert f"over {n_open} token" in told["softmax"]
        assert f"{1 / n_open:.4f}" in told["softmax"]
        cell = chosen_cell(trace, one, 0, query, 0)
        assert scaling.compare_scaling(cell).n_open == n_open
        assert f"ln {n_open})" in scaling.scaling_table(cell)


def test_the_sum_of_the_heads(traces: dict[str, Trace]) -> None:
    trace, at = chosen(traces, "scaled dot")
    weight, bias = at.site.projections["W_O"]
    out = at.site.out[0, :, 2]
    parts = [weight[:, 5 * h : 5 * h + 5] @ out[h] for h in range(3)]
    total = weight @ out.flatten() + bias
    stream = trace.activations["decoder.layers.1.resid_mid"].value[0, 2]
    sentence = said(traces, "scaled dot")["W_O"].sentence
    assert sentence.startswith("The 3 heads' outputs are joined")
    assert sentence.endswith(
        f"This head's part has length {parts[1].norm():.2f}, the sum with the bias {total.norm():.2f}. "
        f"It is added to the vector of “d”, whose length is {stream.norm():.2f}."
    )


@pytest.mark.parametrize(("family", "end"), [
    ("transformer", "are added to the vector of “d”."), ("attention only", "are passed on as they are."),
])  # fmt: skip
def test_a_single_head(family: str, end: str) -> None:
    trace = letters(family, n_heads=1).run("abcde", "edc")
    site = next(site for site in trace.attention.values() if site.kind == "cross")
    last = inside_cell.cell_stages(trace, chosen_cell(trace, site, 0, 2, 1), TERMS)[-1]
    assert (
        last.sentence
        == f"There is one head. W_O turns its b into 15 numbers; with the bias they make those which {end}"
    )


def test_heads_without_a_stream_do_not_mention_one() -> None:
    trace = letters("attention only").run("abcde", "edc")
    site = next(site for site in trace.attention.values() if site.kind == "cross")
    at = chosen_cell(trace, site, 1, 2, 1)
    assert "it is added to" not in inside_cell.cell_stages(trace, at, TERMS)[-1].sentence
    header, arrays = unpack(inside_cell.head_sum_payload(trace, at, TERMS))
    assert not {"residual", "along_residual"} & set(arrays)
    assert set(header["headScales"]) == {"head_out", "added", "length"}
    assert "own vector" not in header["sentence"]


# columns. By hand: title, kind, array, the names of the two rows, the family; then how a number is computed


T, R, K = "top", "row", "key"
COLUMNS = {
    "scaled dot": {
        "a": ("a", "strip", "memory", ("a", "a"), "", []),
        "k": ("q (top), k", "strip", "k", ("q", "k"), "terms", []),
        "products": ("q ∘ k", "strip", "products", ("", ""), "terms", ["= q ", {T: "compared_q"}, " × k ", {R: "compared_k"}]),
        "terms": ("q ∘ k / √dₖ", "strip", "terms", ("", ""), "terms", ["= ", {R: "products"}, " / √5"]),
        "raw": ("q · k", "number", "raw", ("", ""), "", ["the sum of 5 products"]),
        "scores": ("÷ √dₖ", "number", "scores", ("", ""), "", ["= ", {K: "raw"}, " / √5"]),
    },
    "dot": {
        "a": ("a", "strip", "memory", ("a", "a"), "", []),
        "k": ("q (top), k", "strip", "k", ("q", "k"), "terms", []),
        "terms": ("q ∘ k", "strip", "terms", ("", ""), "terms", ["= q ", {T: "compared_q"}, " × k ", {R: "compared_k"}]),
        "scores": ("score", "number", "scores", ("", ""), "", ["the sum of 5 numbers"]),
    },
    "cosine": {
        "a": ("a", "strip", "memory", ("a", "a"), "", []),
        "k": ("q (top), k", "strip", "k", ("q", "k"), "terms", []),
        "sides": ("q̂ (top), k̂", "strip", "compared_k", ("q̂", "k̂"), "terms", []),
        "terms": ("t · q̂ ∘ k̂", "strip", "terms", ("", ""), "terms",
                  ["= t {t} × q̂ ", {T: "compared_q"}, " × k̂ ", {R: "compared_k"}]),
        "scores": ("score", "number", "scores", ("", ""), "", ["the sum of 5 numbers"]),
    },
    "general": {
        "a": ("a", "strip", "memory", ("a", "a"), "", []),
        "k": ("q (top), k", "strip", "k", ("q", "k"), "", []),
        "sides": ("q·M (top), k", "strip", "compared_k", ("q·M", "k"), "terms", []),
        "terms": ("q·M ∘ k", "strip", "terms", ("", ""), "terms", ["= q·M ", {T: "compared_q"}, " × k ", {R: "compared_k"}]),
        "scores": ("score", "number", "scores", ("", ""), "", ["the sum of 5 numbers"]),
    },
    "additive": {
        "a": ("a", "strip", "memory", ("a", "a"), "", []),
        "k": ("q (top), k", "strip", "k", ("q", "k"), "", []),
        "sides": ("W q (top), U k", "strip", "compared_k", ("W q", "U k"), "terms", []),
        "products": ("tanh of their sum", "strip", "products", ("", ""), "terms",
                     ["= tanh(", {T: "compared_q"}, " + ", {R: "compared_k"}, ")"]),
        "terms": ("v ∘ tanh", "strip", "terms", ("", ""), "terms", ["= v ", {T: "learned_v"}, " × ", {R: "products"}]),
        "scores": ("score", "number", "scores", ("", ""), "", ["the sum of 5 numbers"]),
    },
    "alignment": {
        "a": ("s (top), h", "strip", "memory", ("s", "h"), "", []),
        "sides": ("W s (top), U h", "strip", "compared_k", ("W s", "U h"), "terms", []),
        "products": ("tanh of their sum", "strip", "products", ("", ""), "terms",
                     ["= tanh(", {T: "compared_q"}, " + ", {R: "compared_k"}, ")"]),
        "terms": ("v ∘ tanh", "strip", "terms", ("", ""), "terms", ["= v ", {T: "learned_v"}, " × ", {R: "products"}]),
        "scores": ("energy", "number", "scores", ("", ""), "", ["the sum of 5 numbers"]),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_column_is_described(traces: dict[str, Trace], name: str) -> None:
    trace, at = chosen(traces, name)
    header, arrays = unpack(inside_cell.walk_payload(trace, at, TERMS))
    value = "h" if name == "alignment" else "v"
    expected = COLUMNS[name] | {
        "masked": ("+ mask", "number", "masked", ("", ""), "", []), "weights": ("softmax", "weight", "weights", ("", ""), "", []),
        "v": (value, "strip", "v", ("", ""), "v", []),
        "parts": (f"weight × {value}", "strip", "parts", ("", ""), "v", ["= weight ", {K: "weights"}, f" × {value} ", {R: "v"}]),
    }  # fmt: skip
    if name == "cosine":
        t = f"{float(at.site.similarity.learned['log_t'].exp()):.4g}"
        expected["terms"][5][0] = expected["terms"][5][0].format(t=t)
    assert set(header["columns"]) == set(expected)
    for column, (title, kind, array, names, family, why) in expected.items():
        found = header["columns"][column]
        assert (found["title"], found["kind"], found["array"], tuple(found["names"]), found["family"], found["why"]) == (
            title, kind, array, names, family, why), column  # fmt: skip
        assert array in arrays


@pytest.mark.parametrize("name", SIMILARITIES)
def test_compared_columns_share_a_scale_and_the_note_says_so(
    traces: dict[str, Trace], name: str
) -> None:
    trace, at = chosen(traces, name)
    header, arrays = unpack(inside_cell.walk_payload(trace, at, TERMS))

    def largest(*of: str) -> float:
        return max(float(np.abs(arrays[array]).max()) for array in of)

    value, score = ("h", "energy") if name == "alignment" else ("v", "score")
    together = {"a": ("a", "memory"), "k": ("q", "k"), "sides": ("compared_q", "compared_k"), "products": ("products",),
                "terms": ("terms",), "v": ("v", "b"), "parts": ("v", "b"), "weights": None}  # fmt: skip
    together |= dict.fromkeys(
        ("raw", "scores", "masked"), ("raw",) if name == "scaled dot" else ("scores",)
    )
    n_a, n_b = len(arrays["a"]), arrays["memory"].shape[1]
    sizes = f"{n_a}" if n_a == n_b else f"{n_a}, {n_b}"
    notes = {
        "a": f"{sizes} numbers, ±{{}}", "k": "5 numbers, ±{}", "sides": "5 numbers, ±{}", "products": "number by number, ±{}",
        "terms": f"sums to the {score}, ±{{}}", "raw": "their sum", "scores": "÷ 2.24" if name == "scaled dot" else "their sum",
        "masked": "", "weights": "weight, 0 to 1", "v": f"{len(arrays['b'])} numbers, ±{{}}",
        "parts": f"on the scale of {value}, ±{{}}",
    }  # fmt: skip
    for column, found in header["columns"].items():
        scale = 1.0 if together[column] is None else largest(*together[column])
        assert found["scale"] == scale, column
        assert found["note"] == notes[column].format(brief(scale)), column


@pytest.mark.parametrize(("value", "said"), [
    (123.4, "123"), (100.0, "100"), (99.96, "100.0"), (12.34, "12.3"), (9.876, "9.88"), (0.0, "0.00"),
])  # fmt: skip
def test_scales_are_given_to_three_figures(value: float, said: str) -> None:
    assert inside_columns._brief(value) == said


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_chain_of_numbers_and_the_stage_where_each_appears(
    traces: dict[str, Trace], name: str
) -> None:
    trace, at = chosen(traces, name)
    header, _ = unpack(inside_cell.walk_payload(trace, at, TERMS))
    score = "energy" if name == "alignment" else "score"
    first = [("raw", "q·k"), ("scores", "÷ √dₖ")] if name == "scaled dot" else [("scores", score)]
    names = [stage["name"] for stage in header["stages"]]
    chain = [*first, ("masked", "+ mask"), ("weights", "softmax")]
    for (array, title, stage), (wanted, says) in zip(header["links"], chain, strict=True):
        assert (array, title) == (wanted, says)
        assert (
            names[stage]
            == {"raw": "q∘k", "scores": LAST[name], "masked": "mask", "weights": "softmax"}[array]
        )


def test_the_walk_names_its_weight(traces: dict[str, Trace]) -> None:
    trace, at = chosen(traces, "scaled dot")
    header, arrays = unpack(inside_cell.walk_payload(trace, at, TERMS))
    weight = float(arrays["weights"][1])
    assert header["title"] == (
        f"Decoder layer 2, head 2: how the French token “d” (writing “c”) comes to give {inside_text.weight_share(weight)} of its "
        "attention to the English token “b”"
    )
    assert {name: header[name] for name in ("site", "head", "query", "key", "n_keys", "n_heads", "d_model", "d_head", "file")} == {
        "site": CROSS, "head": 1, "query": 2, "key": 1, "n_keys": 6, "n_heads": 3, "d_model": 15, "d_head": 5,
        "file": "letters.decoder.layer2.cross_attn.head2.query3.key2",
    }  # fmt: skip
    assert header["queryLabel"] == ["d", "", False]
    assert [label[0] for label in header["keyLabels"]] == ["a", "b", "c", "d", "e", "[end]"]
    scales = header["headScales"]
    assert scales["head_out"] == np.abs(arrays["head_out"]).max()
    assert scales["added"] == max(np.abs(arrays[name]).max() for name in ("added", "bias", "total"))
    assert scales["residual"] == np.abs(arrays["residual"]).max()
    assert unpack(inside_cell.walk_payload(*chosen(traces, "alignment"), TERMS))[0]["n_heads"] == 0


def test_the_choice_of_tokens_names_query_and_key(traces: dict[str, Trace]) -> None:
    header, _ = unpack(token_choice(*chosen(traces, "dot"), TERMS))
    assert header["queryAxis"] == "query (rows): the French so far, read → written"
    assert header["keyAxis"] == "key (columns): the English sentence"
    assert [label[0] for label in header["queries"]] == [
        "[start] → e",
        "e → d",
        "d → c",
        "c → [end]",
    ]
    assert [label[0] for label in header["keys"]] == [*"abcde", "[end]"]


def test_the_sum_of_the_heads_says_which_adds_most(traces: dict[str, Trace]) -> None:
    trace, at = chosen(traces, "dot")
    header, arrays = unpack(inside_cell.head_sum_payload(trace, at, TERMS))
    lengths = np.linalg.norm(arrays["added"], axis=1)
    best = int(lengths.argmax())
    total, stream = (np.linalg.norm(arrays[name]) for name in ("total", "residual"))
    assert (
        header["title"]
        == "Decoder layer 2, cross-attention: what each head adds to the French token “d” (writing “c”)"
    )
    assert header["sentence"] == (
        f"At “d”, head {best + 1} adds most: a vector of length {lengths[best]:.2f}. All heads and the bias together make one "
        f"of length {total:.2f}. It is added to the token's own vector, of length {stream:.2f}."
    )
    assert (header["site"], header["head"], header["query"]) == (CROSS, 1, 2)
    assert header["file"] == "letters.dot.decoder.layer2.cross_attn.heads.query3"
    assert [label[0] for label in header["queries"]] == [
        "[start] → e",
        "e → d",
        "d → c",
        "c → [end]",
    ]
    assert header["longest"] == arrays["lengths"].max()

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    for h in range(3):
        assert arrays["along_total"][h] == pytest.approx(
            cosine(arrays["added"][h], arrays["total"]), abs=1e-5
        )
        assert arrays["along_residual"][h] == pytest.approx(
            cosine(arrays["added"][h], arrays["residual"]), abs=1e-5
        )
        for other in range(3):
            assert arrays["between"][h, other] == pytest.approx(
                cosine(arrays["added"][h], arrays["added"][other]), abs=1e-5
            )


# available views, and numbers in sentences


@pytest.mark.parametrize(("name", "views"), [
    ("scaled dot", ["walk", "matrices", "scaling", "heads", "several"]), ("cosine", ["walk", "matrices", "heads", "several"]),
    ("alignment", ["walk", "matrices"]),
])  # fmt: skip
def test_only_available_views_are_offered(
    traces: dict[str, Trace], name: str, views: list[str]
) -> None:
    site = chosen(traces, name)[1].site
    assert (
        list(inside_text.views_of_site(site, 3 * site.n_heads - 2)) == views
    )  # a single head: none to compare with
    assert inside_text.VIEWS == {
        "walk": "Walk",
        "matrices": "Matrices",
        "scaling": "√dₖ",
        "heads": "Sum of heads",
        "several": "Several heads",
    }


@pytest.mark.parametrize("name", SIMILARITIES)
def test_a_product_of_q_and_k_is_claimed_only_if_there_is_one(
    traces: dict[str, Trace], name: str
) -> None:
    said = inside_text.conventions(chosen(traces, name)[1].site)
    assert list(said) == ["rows", "columns"]
    assert ["row" in said["rows"], "column" in said["columns"]] == [True, True]
    assert (said["rows"].startswith("A = Q·Kᵀ") and said["columns"].startswith("A = Kᵀ·Q")) == (
        name in ("dot", "scaled dot")
    )


@pytest.mark.parametrize(("weight", "said"), [
    (0.01, "1 %"), (0.99, "99 %"), (0.9999956, ">99.99 %"), (0.625, "62 %"), (0.00031, "0.03 %"), (0.0, "nothing"),
])  # fmt: skip
def test_a_share_of_the_attention_in_percent(weight: float, said: str) -> None:
    assert inside_text.weight_share(weight) == said


def test_keys_that_are_left_out_are_counted_with_their_weight() -> None:
    assert inside_text.hidden_keys_note(16, 16, 0.0) == ""
    said = inside_text.hidden_keys_note(16, 21, 0.25)
    assert re.match(
        r"16 of 21 keys: .* The others hold 25 % of the weight. Every sum is over all 21\.$", said
    )
    assert "The others hold none of the weight" in inside_text.hidden_keys_note(16, 21, 0.0)


def test_a_number_has_a_true_minus_sign() -> None:
    assert [inside_text.format_number(v) for v in (-1.234, 0.0, 2.0)] == ["−1.23", "0.00", "2.00"]


def test_a_token_in_a_sentence() -> None:
    assert quote(Label("··a")) == "“a”"
    assert quote(Label("·")) == "“·”"
    assert quote(Label("[odd]", special=True)) == "[odd]"
    assert quote(Label("·a → ·b")) == "“a” (writing “b”)"
    assert quote(Label("[start] → [end]", special=True)) == "[start] (writing [end])"
    assert quote(Label("[start] → b")) == "[start] (writing “b”)"


def of_weights(weights: list[list[float]]) -> AttentionSite:
    """Return a site of one head with these weights."""
    given, kind = (
        torch.tensor([[weights]]),
        SiteKind("cross", "decoder", "cross", "target", "source"),
    )
    q, k = torch.zeros(1, 1, given.shape[2], 1), torch.zeros(1, 1, given.shape[3], 1)
    return AttentionSite(
        "cross",
        kind,
        q[0],
        k[0],
        q,
        k,
        k,
        q,
        Mask(),
        AttentionSimilarity("dot"),
        {},
        given_weights=given,
    )


@pytest.mark.parametrize(("weights", "labels", "query"), [
    ([[0.6, 0.4], [0.9, 0.1]], "ab", 0),                # rows with one decided key make a dull walk
    ([[0.55, 0.45], [0.05, 0.95], [0.62, 0.38]], "ab.", 0),     # a sign is not a word
])  # fmt: skip
def test_the_first_query_shown_is_a_word_with_an_undecided_row(
    weights: list, labels: str, query: int, monkeypatch
) -> None:
    rows = [Label(text) for text in labels]
    monkeypatch.setattr(weight_cell, "labels", lambda row: row)
    trace = type(
        "Trace", (), {"axes": lambda self, site: (rows[: len(weights)], [Label("x"), Label("y")])}
    )()
    site = of_weights(weights)
    assert chosen_cell(trace, site, 0, None, None).query == query


@pytest.mark.parametrize(("key", "query"), [(0, 1), (1, 0), (2, 0), (-1, 0)])
def test_a_key_chosen_alone_gets_its_strongest_query(key: int, query: int, monkeypatch) -> None:
    rows = [Label("a"), Label("b")]
    monkeypatch.setattr(weight_cell, "labels", lambda row: row)
    trace = type("Trace", (), {"axes": lambda self, site: (rows, rows)})()
    site = of_weights([[0.4, 0.6], [0.9, 0.1]])
    found = chosen_cell(trace, site, 0, None, key)
    assert (found.query, found.key, found.head) == (
        query,
        key if 0 <= key < 2 else [1, 0][query],
        0,
    )


def test_the_chosen_key_is_among_the_rows_however_weak_it_is() -> None:
    trace = letters(n_ctx=23).run("abcdeabcddeabcabdcea", "edc")
    site = trace.attention["encoder.layers.0.self_attn"]
    order = site.weights(1)[3].argsort(descending=True).tolist()
    for key in (order[0], order[11], order[12], order[-1]):
        cell = inside_cell.WeightCell(site, 1, 3, key)
        rows = inside_cell.shown_keys(cell.walk, key)
        strongest = order[:12] if key in order[:12] else [*order[:11], key]
        assert rows == sorted(strongest)
        header, arrays = unpack(inside_cell.walk_payload(trace, cell, TERMS))
        assert header["indices"] == rows
        np.testing.assert_allclose(arrays["weights"], site.weights(1)[3, rows], atol=1e-6)


EDITED = {
    "zero": HeadOff(CROSS, head=1),
    "uniform": HeadOff(CROSS, head=1, baseline="uniform"),
    "scaled": HeadScale(CROSS, head=1, factor=0.5),
    "set": SetWeights(Where(site=CROSS, heads=(1,), queries=(2,)), cells=((0, 1.0),)),
    "value": ZeroValue(Where(site=CROSS, heads=(1,)), token=1),
}


@pytest.mark.parametrize("name", EDITED)
def test_the_walk_names_the_numbers_that_an_edit_sets_and_its_checks_pass(
    scopes: dict[str, Scope], name: str
) -> None:
    """Its numbers are those of the run, and numbers that are not a softmax, or not the sum, are not called so."""
    trace = scopes["scaled dot"].run("abcde", "edc", edits=[EDITED[name]])
    at = chosen_cell(trace, trace.attention[CROSS], 1, 2, 1)
    walk = at.walk
    softmax = walk.masked.softmax(-1)
    torch.testing.assert_close(walk.softmaxed, softmax)
    torch.testing.assert_close(walk.b, at.site.out[0, 1, 2], atol=1e-5, rtol=1e-5)
    assert walk.sets_weights == bool((walk.weights - softmax).abs().max() > 1e-3)
    assert [check for check in check_walk(trace, at.site, 2, 1) if not check.passed] == []
    stages = {one.name: one.sentence for one in inside_cell.cell_stages(trace, at, TERMS)}
    assert stages["softmax"].startswith("An edit sets the weights") == (name in ("uniform", "set"))
    assert stages["×v"].startswith("An edit changes what is taken") == (name == "value")
    is_sum = torch.allclose(walk.parts.sum(0), walk.b, atol=1e-4)
    assert ("what an edit makes of their sum" in stages["b"]) == (not is_sum)
    assert is_sum == (name not in ("zero", "scaled"))
    header, _ = unpack(inside_cell.walk_payload(trace, at, TERMS))
    source = "set by an edit" if walk.sets_weights else "softmax"
    assert header["columns"]["weights"]["title"] == header["links"][-1][1] == source
    parts = header["columns"]["parts"]
    assert (parts["title"], bool(parts["why"])) == (("taken of v", False) if walk.sets_factors else ("weight × v", True))  # fmt: skip
    assert bool(header["columns"]["weights"]["why"]) == walk.sets_weights
    rows = list(csv.DictReader(io.StringIO(inside_files.walk_csv(trace, at))))
    for row, weight, v in zip(rows, walk.weights, at.site.v[0, 1], strict=True):
        name_of_product = "taken of v 1" if walk.sets_factors else "weight·v 1"
        is_product = float(row[name_of_product]) == pytest.approx(float(weight * v[0]), abs=1e-6)
        assert is_product or walk.sets_factors
    drawn = unpack(inside_matrices.matrices(trace, at, TERMS))[0]["matrices"]
    set_or_changed = walk.sets_weights, walk.sets_factors or walk.sets_output
    says = tuple("unless an edit" in drawn[one]["made"] for one in ("weights", "b"))
    assert says == set_or_changed
    matrices = inside_text.explain_view("matrices", at.site, TERMS)
    assert matrices.startswith("**An edit changes")
    replaced = "Here is the softmax that it replaces." in inside_text.explain_view("scaling", at.site, TERMS)  # fmt: skip
    assert replaced == (name in ("uniform", "set", "zero", "scaled") and EDITED[name].changes("weights"))  # fmt: skip


def test_without_an_edit_weights_unlike_softmax_are_not_attributed_to_one(
    traces: dict[str, Trace],
) -> None:
    """A model that rounds its weights has such weights."""
    trace, at = chosen(traces, "scaled dot")
    rounded = (at.site.weights()[None] * 8).round() / 8
    site = replace(at.site, given_weights=rounded)
    other = chosen_cell(trace, site, 1, 2, 1)
    assert not torch.allclose(other.walk.weights, other.walk.softmaxed, atol=1e-3)
    said = " ".join(one.sentence for one in inside_cell.cell_stages(trace, other, TERMS))
    assert "An edit" not in said
    assert "what an edit" not in said
