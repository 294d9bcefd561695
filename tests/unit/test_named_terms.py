"""A score of several named terms, such as XLNet's: each by the paper's formula from the module's parameters, and as it is drawn;
and the layers of its two streams of states."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import letters
from small import random_xlnet
from torch import Tensor

from models import Scope, Trace
from models.analysis import head_sum, walk_checks
from models.analysis.checks import check_site
from models.analysis.layer_parts import check_parts, sublayer_effects
from models.checkpoint import Checkpoint
from models.tokenizers.base import Tokenizer
from models.trace import DistanceTerm
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import WeightCell
from viz_app.views.inside import cell as inside_cell
from viz_app.views.inside import files, matrices, scaling
from viz_app.views.inside import text as inside_text
from viz_app.views.layer import text as layer_text
from viz_app.views.masks import text as masks_text

TERMS = words.terms("permutation")
HEAD, QUERY, KEY = 2, 3, 9
ORDER = (7, 2, 12, 0, 9, 4, 11, 5, 1, 10, 3, 8, 6)
NAMES = ("content", "position", "segment")


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    tokenizer = Tokenizer.characters("abcdefghijklmn")
    path = tmp_path_factory.mktemp("models") / "orders"
    return Scope(
        Checkpoint(path, random_xlnet(vocab_size=tokenizer.vocab_size), tokenizer, {}),
        torch.device("cpu"),
    )


@pytest.fixture(scope="module")
def trace(scope: Scope) -> Trace:
    return scope.run("abcdefgh", "ijklm", order=ORDER)


@pytest.fixture(scope="module", params=["content", "query"])
def at(request: pytest.FixtureRequest, trace: Trace) -> inside_cell.WeightCell:
    return inside_cell.WeightCell(
        trace.attention[f"encoder.layers.1.{request.param}_attn"], HEAD, QUERY, KEY
    )


def by_hand(scope: Scope, trace: Trace, at: inside_cell.WeightCell, key: int) -> dict[str, Tensor]:
    """Compute each term number by number, (W_Q·x + bias) ∘ its vector / √d, in double precision."""
    module, d = scope.model.encoder.layers[1].content_attn, at.site.d_head
    own = slice(HEAD * d, (HEAD + 1) * d)
    x, h = (
        trace.activations[f"encoder.layers.1.{mark}resid_pre"].value[0].double()
        for mark in ("query_" if at.site.role == "query" else "", "")
    )
    W = {name: getattr(module, f"W_{name}").weight[own].double() for name in "QKR"}
    half = module.W_R.in_features // 2
    angle = (QUERY - key) * 10000 ** (-torch.arange(half, dtype=torch.float64) / half)
    e = module.segment[int((QUERY < 8) != (key < 8)), HEAD].double()
    vectors = {
        "content": W["K"] @ h[key],
        "position": W["R"] @ torch.cat([angle.sin(), angle.cos()]),
        "segment": e,
    }
    biases = {"content": module.u, "position": module.v, "segment": module.s}
    return {
        name: ((W["Q"] @ x[QUERY] + biases[name][HEAD]) * vectors[name] / d**0.5).detach()
        for name in NAMES
    }


def test_each_term_matches_the_papers_formula_number_by_number(scope, trace, at):
    w = at.walk
    found = {
        "content": (w.comparison.terms, w.content),
        **{term.name: (term.products, term.scores) for term in w.named_terms},
    }
    assert tuple(found) == NAMES
    for key in (KEY, QUERY, 0, 12):
        expected = by_hand(scope, trace, at, key)
        for name, (products, sums) in found.items():
            np.testing.assert_allclose(products[key], expected[name], atol=1e-5)
            assert float(sums[key]) == pytest.approx(float(expected[name].sum()), abs=1e-5)
        assert float(w.scores[key]) == pytest.approx(
            sum(float(part.sum()) for part in expected.values()), abs=1e-5
        )


def test_every_check_of_the_walk_passes_and_a_wrong_term_fails(trace, at):
    checks = walk_checks.check_walk(trace, at.site, QUERY, HEAD)
    assert [check.name for check in checks if not check.passed] == []
    assert any("q·k/√d + position + segment" in check.sentence for check in checks)
    assert all(check.passed for check in check_site(at.site))
    position, segment = at.site.terms
    wrong = replace(at.site, terms=(replace(position, keys=position.keys.flip(1)), segment))
    failed = [
        check.name
        for check in walk_checks.check_walk(trace, wrong, QUERY, HEAD)
        if not check.passed
    ]
    assert "b is what the model used" in failed


def test_the_walk_shows_the_terms_and_their_sum(trace, at):
    header, arrays = unpack(inside_cell.walk_payload(trace, at, TERMS))
    stages = {stage["name"]: stage for stage in header["stages"]}
    assert list(stages) == [
        "a",
        "q k v",
        "q∘k",
        "÷√dₖ",
        "position",
        "segment",
        "Σ",
        "mask",
        "softmax",
        "×v",
        "b",
        "W_O",
    ]
    assert stages["Σ"]["columns"] == [
        "terms",
        "content",
        "position products",
        "position",
        "segment products",
        "segment",
        "scores",
    ]
    assert stages["Σ"]["main"] == [*NAMES, "scores"]
    assert stages["position"]["columns"] == ["position products", "position"]
    assert stages["÷√dₖ"]["columns"][-1] == "content"
    assert stages["mask"]["columns"] == ["scores", "masked"]
    shown = header["indices"]
    w = at.walk
    np.testing.assert_array_equal(arrays["content"], w.content[shown])
    for term in w.named_terms:
        np.testing.assert_array_equal(arrays[term.name], term.scores[shown])
        strips = arrays[f"{term.name} products"].reshape(len(shown), -1)
        np.testing.assert_array_equal(strips, term.products[shown])
        np.testing.assert_allclose(strips.sum(-1), arrays[term.name], atol=1e-5)
    np.testing.assert_allclose(sum(arrays[name] for name in NAMES), arrays["scores"], atol=1e-5)
    columns = header["columns"]
    assert (
        len({columns[name]["scale"] for name in (*NAMES, "scores", "masked")}) == 1
    )  # things added share a scale
    assert columns["scores"]["why"] == [
        "= content ",
        {"key": "content"},
        " + position ",
        {"key": "position"},
        " + segment ",
        {"key": "segment"},
    ]
    assert (
        len({columns[name]["scale"] for name in ("terms", "position products", "segment products")})
        == 1
    )
    assert [link[0] for link in header["links"]] == ["raw", *NAMES, "scores", "masked", "weights"]
    assert [header["stages"][start]["name"] for _, _, start in header["links"]] == [
        "q∘k",
        "÷√dₖ",
        "position",
        "segment",
        "Σ",
        "mask",
        "softmax",
    ]


def test_the_sentences_describe_the_terms(trace, at):
    stages = {stage.name: stage for stage in inside_cell.cell_stages(trace, at, TERMS)}
    assert "here 6 after “d”" in stages["position"].sentence
    assert "Here it is different texts." in stages["segment"].sentence
    near = inside_cell.WeightCell(at.site, HEAD, QUERY, 1)
    stages = {stage.name: stage for stage in inside_cell.cell_stages(trace, near, TERMS)}
    assert "here 2 before “d”" in stages["position"].sentence
    assert "Here it is the same text." in stages["segment"].sentence
    values = [
        near.walk.content[1],
        *(term.scores[1] for term in near.walk.named_terms),
        near.walk.scores[1],
    ]
    said = [f"{float(value):.2f}".replace("-", "−") for value in values]
    expected = (
        f"For “b”: content {said[0]}, position {said[1]} and segment {said[2]} make {said[3]}."
    )
    assert stages["Σ"].sentence.endswith(expected)
    assert f"For “b” that adds {said[1]}." in stages["position"].sentence
    assert (
        "q^{i} = W^{Q}a^{i} + b^{Q},  k^{j} = W^{K}a^{j},  v^{j} = W^{V}a^{j} "
        in stages["q k v"].formula
    )
    assert "bias" not in stages["W_O"].sentence
    reads = {
        "content": "what comes after it in the order",
        "query": "has never seen the token at its position",
    }
    assert reads[at.site.role] in stages["a"].sentence


def test_without_a_bias_of_W_O_the_heads_alone_make_the_output(trace, at):
    every = head_sum.head_sum(trace, at.site, QUERY)
    assert every.bias is None
    np.testing.assert_allclose(
        every.total, trace.activations[f"{at.site.name}.attn_out"].value[0, QUERY], atol=1e-5
    )
    mark = "query_" if at.site.role == "query" else ""
    np.testing.assert_array_equal(
        every.residual, trace.activations[f"encoder.layers.1.{mark}resid_pre"].value[0, QUERY]
    )
    header, arrays = unpack(inside_cell.head_sum_payload(trace, at, TERMS))
    assert "bias" not in arrays
    sizes = [*every.norms, every.total.norm(), every.residual.norm()]
    np.testing.assert_allclose(arrays["sizes"], sizes, rtol=1e-6)
    assert "bias" not in header["sentence"]
    assert "+ bias" not in inside_text.explain_view("heads", at.site, TERMS)
    matrices_text = inside_text.explain_view("matrices", at.site, TERMS)
    assert "every key. Further terms of each score: position and segment. No" in matrices_text
    assert [row[0] for row in csv.reader(io.StringIO(files.heads_csv(trace, at)))][-2:] == [
        "output",
        "stream",
    ]


@pytest.mark.parametrize("convention", ["rows", "columns"])
def test_as_matrices_the_score_is_the_sum_of_its_terms(trace, at, convention):
    header, arrays = unpack(matrices.matrices(trace, at, TERMS, convention))
    made = {name: arrays[name].reshape(13, 13) for name in (*NAMES, "scores")}
    np.testing.assert_allclose(sum(made[name] for name in NAMES), made["scores"], atol=1e-5)
    np.testing.assert_allclose(
        made["content"], at.site.q[0, HEAD] @ at.site.k[0, HEAD].T / at.site.d_head**0.5, atol=1e-5
    )
    (summed,) = [one for one in header["equations"] if one["title"] == "Add the other terms:"]
    assert summed["formula"] == "A = content + position + segment"
    assert [term if isinstance(term, str) else term["matrix"] for term in summed["terms"]] == [
        "content",
        "+",
        "position",
        "+",
        "segment",
        "=",
        "scores",
    ]
    queries, keys = header["equations"][:2]
    assert ("+ b^{Q}" in queries["formula"], "b^{K}" in keys["formula"]) == (True, False)
    source = {"content": "x", "query": "memory"}[at.site.role]
    assert ("memory" in arrays, keys["terms"][0 if convention == "rows" else 2]["matrix"]) == (
        source == "memory",
        source,
    )


def test_every_divided_term_takes_part_in_the_scaling(at):
    compared = scaling.compare_scaling(at)
    np.testing.assert_allclose(compared.with_root.weights, at.walk.weights, atol=1e-6)
    without = (
        (at.walk.scores * at.site.d_head**0.5).masked_fill(~at.walk.allowed, -torch.inf).softmax(-1)
    )
    np.testing.assert_allclose(compared.without_root.weights, without, atol=1e-5)
    assert scaling.division_effect(at).startswith(
        "Here q·k means all that is divided: content, position and segment."
    )


def test_a_bias_that_is_not_divided_takes_no_part_in_the_scaling():
    """ALiBi's is one: without the division the products differ √d_k times as much, the scores do not."""
    site = letters("gpt").run("abcde").attention["decoder.layers.1.self_attn"]
    n = 2 * site.n_key
    bias = DistanceTerm(
        "bias", torch.arange(site.n_heads * n).reshape(site.n_heads, n) * 1.0, -n // 2
    )
    whole = scaling.division_effect(WeightCell(site, 1, 4, 2))
    biased = WeightCell(replace(site, terms=(bias,)), 1, 4, 2)
    root = site.d_head**0.5
    assert f"the scores would be {root:.3g} times as far apart" in whole
    assert f"q·k would be {root:.3g} times as far apart" in scaling.division_effect(biased)
    assert "scores would be" not in scaling.division_effect(biased)
    both = scaling.compare_scaling(biased)
    allowed = biased.walk.allowed
    apart = [float(np.ptp(one.scores[allowed])) for one in (both.with_root, both.without_root)]
    assert abs(apart[1] / apart[0] - root) > 0.2


def test_the_files_name_the_terms(trace, at):
    heading, *rows = csv.reader(io.StringIO(files.walk_csv(trace, at)))
    first = dict(zip(heading, rows[KEY], strict=False))
    assert np.float32(first["position term"]) == at.walk.named_terms[0].scores[KEY].numpy()
    numbers = [name for name in heading if name.startswith("segment term ")]
    assert numbers == [f"segment term {i + 1}" for i in range(at.site.d_head)]
    held = np.load(io.BytesIO(files.walk_npz(trace, at)))
    np.testing.assert_array_equal(held["segment_terms"], at.walk.named_terms[1].products)
    np.testing.assert_array_equal(held["content_scores"], at.walk.content)


def test_both_streams_of_states_are_shown_layer_by_layer(scope, trace):
    """The addition of each attention and feed-forward layer is the one recorded in the run, along its own stream."""
    every = scope.model.sublayers
    assert [(s.layer, s.row, s.role) for s in every[:4]] == [
        (0, "content", "content"),
        (0, "content", "feed-forward"),
        (0, "query", "query"),
        (0, "query", "feed-forward"),
    ]
    assert len(every) == 8
    for states, mark in (("content", ""), ("query", "query_")):
        found = sublayer_effects(scope.model, trace, "text", QUERY, states)
        assert [
            check.name
            for check in check_parts(scope.model, trace, found, QUERY)
            if not check.passed
        ] == []
        assert {part.sublayer.states for part in found} == {states}
        one, other = found[2:]
        np.testing.assert_array_equal(
            one.before, trace.activations[f"encoder.layers.1.{mark}resid_pre"].value[0, QUERY]
        )
        np.testing.assert_array_equal(
            one.added, trace.activations[f"encoder.layers.1.{states}_attn.attn_out"].value[0, QUERY]
        )
        np.testing.assert_array_equal(
            other.added, trace.activations[f"encoder.layers.1.ff.{mark}ff_out"].value[0, QUERY]
        )
        np.testing.assert_array_equal(
            other.firing.pre, trace.activations[f"encoder.layers.1.ff.{mark}ff_pre"].value[0, QUERY]
        )
        np.testing.assert_array_equal(
            other.after, trace.activations[f"encoder.layers.1.{mark}resid_post"].value[0, QUERY]
        )
        assert layer_text.row_name(scope.model, one.sublayer) == f"{states.capitalize()} stream"
        reason = layer_text.no_lens(one.sublayer, "")
        assert f"for the {states} stream" in reason
        assert "No prediction" not in reason  # the query stream predicts its own token


def test_a_cell_that_the_order_blocks_says_why(trace, at):
    reason = masks_text.reason(at.site.site_kind, "factorisation order", False)
    assert reason.startswith("the key does not come before the query in the order")
    assert reason.endswith("own token does not either") == (at.site.role == "query")
    assert "continues with its residual stream alone." in masks_text.rules(at.site, can_write=False)
    assert words.formula(at.site) == f"q·k / √{at.site.d_head} + position + segment"
