"""The page Inside a head: its payloads and files hold what `models` computes, and no choice makes it fail."""

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import altair as alt
import numpy as np
import pytest
import torch
from app_parts import assert_all_passed, page_at
from small import forbidding, random_attention_only, random_model
from streamlit.testing.v1 import AppTest

from models import Scope, Trace, load
from models.analysis import head_sum, head_walk, softmax
from models.checkpoint import Checkpoint, save_checkpoint
from models.number_text import percent
from models.tokenizers.base import Tokenizer
from viz_app import words
from viz_app.drawing.labels import Label, of_two_runs, quote
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import chosen_cell, token_choice
from viz_app.views.inside import cell as inside_cell
from viz_app.views.inside import files as inside_files
from viz_app.views.inside import matrices as inside_matrices
from viz_app.views.inside import scaling as inside_scaling
from viz_app.views.inside import text as inside_text

TERMS = words.terms("reversal")
SITES = ["encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.1.cross_attn"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A checkpoint with random weights: arithmetic needs no training."""
    made = tmp_path_factory.mktemp("inside") / "letters"
    tokenizer = Tokenizer.characters("abcde")
    model = random_model(vocab_size=tokenizer.vocab_size, n_ctx=13)
    save_checkpoint(made, model, tokenizer, {"step": 0, "task": "letters"})
    return made


@pytest.fixture(scope="module")
def scope(folder) -> Scope:
    return load(folder, device="cpu")


@pytest.fixture(scope="module")
def trace(scope: Scope) -> Trace:
    return scope.run("abcde", "edc")


@pytest.fixture(params=SITES)
def at(trace: Trace, request) -> inside_cell.WeightCell:
    return chosen_cell(trace, trace.attention[request.param], 1, 2, 1)


# which weight


def test_without_a_choice_a_cell_is_found(trace):
    site = trace.attention[SITES[0]]
    weights = site.weights(1)
    found = chosen_cell(trace, site, 1, None, None)
    assert found.key == int(weights[found.query].argmax())
    assert trace.streams["source"].tokens[found.query] != "</s>"
    assert chosen_cell(trace, site, 1, 3, None).key == int(weights[3].argmax())
    assert chosen_cell(trace, site, 1, None, 2).query == int(weights[:, 2].argmax())
    assert chosen_cell(trace, site, 1, 99, 99).query == found.query


def test_a_long_input_shows_the_strongest_keys_and_the_chosen_one():
    torch.manual_seed(3)
    weights = torch.randn(101).softmax(-1)
    strongest = set(weights.topk(inside_cell.SHOWN_KEYS).indices.tolist())
    weakest = int(weights.argmin())
    walk = type("W", (), {"weights": weights})
    assert set(inside_cell.shown_keys(walk, int(weights.argmax()))) == strongest
    rows = inside_cell.shown_keys(walk, weakest)
    assert weakest in rows
    assert len(rows) == inside_cell.SHOWN_KEYS
    assert set(rows) - {weakest} < strongest
    assert rows == sorted(rows)


# the data of the components


def test_the_walks_payload_holds_the_walk(trace, at):
    header, arrays = unpack(inside_cell.walk_payload(trace, at, TERMS))
    w = head_walk.head_walk(at.site, at.query, at.head)
    assert header["indices"] == list(range(at.site.k.shape[2]))
    np.testing.assert_array_equal(arrays["products"], w.comparison.elementwise.numpy())
    np.testing.assert_array_equal(arrays["terms"], w.comparison.terms.numpy())
    for name in ("a", "memory", "q", "k", "v", "raw", "scores", "masked", "weights", "parts", "b"):
        np.testing.assert_array_equal(arrays[name], getattr(w, name).numpy(), err_msg=name)
    np.testing.assert_allclose(arrays["products"].sum(-1), arrays["raw"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        arrays["raw"] / math.sqrt(at.site.d_head), arrays["scores"], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        arrays["b"], at.site.out[0, at.head, at.query].numpy(), rtol=1e-4, atol=1e-5
    )
    assert not arrays["rest"].any()
    assert header["shown"] == ""
    assert len(header["stages"]) == 9
    assert header["blocked"] == [at.site.blocked_by(at.query, j) for j in header["indices"]]


def test_keys_without_room_are_summed_up_and_named(trace, monkeypatch):
    monkeypatch.setattr(inside_cell, "SHOWN_KEYS", 3)
    at = chosen_cell(trace, trace.attention[SITES[0]], 1, 2, 1)
    header, arrays = unpack(inside_cell.walk_payload(trace, at, TERMS))
    assert len(header["indices"]) == 3
    assert [label[0].split()[0] for label in header["keyLabels"]] == [
        str(j) for j in header["indices"]
    ]
    assert header["shown"].startswith("3 of 6 keys: the strongest, and the chosen one.")
    np.testing.assert_allclose(
        arrays["parts"].sum(0) + arrays["rest"], arrays["b"], rtol=1e-5, atol=1e-6
    )


def test_the_heads_payload_adds_up(trace, at):
    header, arrays = unpack(inside_cell.head_sum_payload(trace, at, TERMS))
    own = trace.activations[f"{at.site.name}.attn_out"].value[0, at.query].numpy()
    np.testing.assert_allclose(arrays["added"].sum(0) + arrays["bias"], own, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(arrays["total"], arrays["added"].sum(0) + arrays["bias"])
    rows = [*arrays["added"], arrays["bias"], arrays["total"], arrays["residual"]]
    np.testing.assert_allclose(arrays["sizes"], [np.linalg.norm(row) for row in rows], rtol=1e-5)
    np.testing.assert_allclose(
        arrays["lengths"][:, at.query], arrays["sizes"][: at.site.n_heads], rtol=1e-5
    )
    assert header["n_heads"] == at.site.n_heads == 3
    assert f"head {int(arrays['sizes'][:3].argmax()) + 1} adds most" in header["sentence"]


def test_the_choice_of_tokens(trace, at):
    header, arrays = unpack(token_choice(trace, at, TERMS))
    np.testing.assert_array_equal(arrays["weights"], at.site.weights(at.head)[at.query].numpy())
    assert (header["query"], header["key"]) == (2, 1)
    assert len(header["queries"]) == at.site.q.shape[2]
    assert header["blocked"] == [at.site.blocked_by(at.query, j) for j in range(at.site.k.shape[2])]


# the matrices, in both conventions


@pytest.mark.parametrize("convention", ["rows", "columns"])
def test_every_equation_of_the_matrices_holds(trace, at, convention):
    """Each picture, transposed as it is drawn, is the product of the two to its left."""
    header, arrays = unpack(inside_matrices.matrices(trace, at, TERMS, convention))

    def drawn(term: dict) -> np.ndarray:
        array = arrays[header["matrices"][term["matrix"]]["array"]]
        return array.T if (convention == "columns") != term["transposed"] else array

    found = 0
    for equation in header["equations"]:
        terms = [t for t in equation["terms"] if isinstance(t, dict)]
        if len(terms) != 3:
            continue
        left, right, result = (drawn(t) for t in terms)
        product = left @ right
        name = terms[2]["matrix"]
        if name in ("q", "k", "v"):
            bias = head_walk.head_projection(at.site, f"W_{name.upper()}", at.head)[1].numpy()
            product = product + (bias[:, None] if convention == "columns" else bias)
        if name == "scores":
            product = product / math.sqrt(at.site.d_head)
        np.testing.assert_allclose(product, result, rtol=1e-4, atol=1e-5, err_msg=name)
        found += 1
    assert found == 6
    sums = arrays["weights"].sum(-1)
    np.testing.assert_allclose(sums, np.ones_like(sums), atol=1e-5)
    np.testing.assert_array_equal(arrays["blocked"] == 0, at.site.allowed().numpy())
    assert ("memory" in arrays) == (at.site.kind == "cross")


def test_a_convention_must_be_one_of_two(trace, at):
    with pytest.raises(ValueError, match="convention must be rows or columns, not 'diagonal'"):
        inside_matrices.matrices(trace, at, TERMS, "diagonal")


# √d_k


def test_the_softmax_with_and_without(trace, at):
    c = inside_scaling.compare_scaling(at)
    torch.testing.assert_close(c.with_root.weights, at.site.weights(at.head)[at.query])
    raw = at.site.scores(at.head) * math.sqrt(at.site.d_head)
    by_hand = raw.masked_fill(~at.site.allowed(), -torch.inf).softmax(-1)
    torch.testing.assert_close(c.without_root.weights, by_hand[at.query], rtol=1e-4, atol=1e-5)
    assert float(c.without_root.entropy) <= float(c.with_root.entropy) + 1e-5
    assert c.spread[1] == pytest.approx(c.spread[0] * math.sqrt(at.site.d_head), rel=1e-4)
    assert c.mean_entropy[0] == pytest.approx(
        float(softmax.entropy_nats(at.site.weights(at.head)).mean()), rel=1e-4
    )


def test_the_curves_pass_through_the_models_own_divisor(at):
    curve = inside_scaling.scaling_curves(at)
    assert len(curve) == inside_scaling.POINTS
    entropies = [point["entropy"] for point in curve]
    assert np.diff(entropies).min() > -1e-5
    root = math.sqrt(at.site.d_head)
    inner = np.interp(math.log(root), [math.log(p["divisor"]) for p in curve], entropies)
    assert inner == pytest.approx(
        float(inside_scaling.compare_scaling(at).with_root.entropy), abs=0.02
    )


@pytest.mark.parametrize("dark", [False, True])
def test_the_charts_hold_the_numbers(trace, at, dark):
    chart = inside_scaling.weights_chart(trace, at, dark)
    assert isinstance(chart, alt.Chart)
    rows = chart.to_dict()["data"]["values"]
    ours = [row["weight"] for row in rows if row["softmax"] != "without"]
    np.testing.assert_array_equal(np.float32(ours), at.site.weights(at.head)[at.query].numpy())
    curve = inside_scaling.curve_chart(at, "product_gradient", "title", "unit", dark).to_dict()
    assert len(curve["layer"]) == 2
    assert curve["layer"][0]["encoding"]["y"]["field"] == "product_gradient"


def by_autograd(raw: torch.Tensor, allowed: torch.Tensor, divisor: float) -> tuple[float, float]:
    """Return ‖∂ weights/∂ scores‖ and ‖∂ weights/∂(q·k)‖ of one row, by differentiating softmax itself."""

    def softmax(scores: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(~allowed, -torch.inf).softmax(-1)

    by_scores = torch.autograd.functional.jacobian(softmax, raw / divisor)
    by_products = torch.autograd.functional.jacobian(
        lambda products: softmax(products / divisor), raw
    )
    return float(by_scores.norm()), float(by_products.norm())


def test_the_gradients_with_and_without_match_softmax(at):
    site, c = at.site, inside_scaling.compare_scaling(at)
    raw, allowed, root = (
        (site.q[0, at.head] @ site.k[0, at.head].T).double(),
        site.allowed(head=at.head),
        math.sqrt(site.d_head),
    )
    for scaling, divisor, place in ((c.with_root, root, 0), (c.without_root, 1.0, 1)):
        by_row = [by_autograd(row, open_, divisor) for row, open_ in zip(raw, allowed, strict=True)]
        assert (float(scaling.gradient), float(scaling.product_gradient)) == pytest.approx(
            by_row[at.query], rel=1e-3, abs=1e-6
        )
        means = np.mean(by_row, axis=0)
        assert (c.mean_gradient[place], c.mean_product_gradient[place]) == pytest.approx(
            tuple(means), rel=1e-3
        )
    curve = inside_scaling.scaling_curves(at)[-1]
    wanted = by_autograd(raw[at.query], allowed[at.query], curve["divisor"])
    assert (curve["gradient"], curve["product_gradient"]) == pytest.approx(
        wanted, rel=1e-3, abs=1e-6
    )


def longer(trace: Trace, times: float) -> inside_cell.WeightCell:
    """Return a head whose queries are this many times as long."""
    site = trace.attention[SITES[0]]
    return chosen_cell(trace, replace(site, lazy_q=site.q * times), 1, 2, 1)


@pytest.fixture(params=[0.01, 0.3, 2.0], ids=["flat", "usual", "settled"])
def scaled(trace, request) -> inside_cell.WeightCell:
    return longer(trace, request.param)


def test_no_gradient_at_all_is_not_called_less(trace):
    assert "no gradient is left to measure" in inside_scaling.consequence(longer(trace, 1e4))


def test_the_sentence_on_the_division_follows_from_both_gradients(scaled):
    site, text = (
        scaled.site,
        f"{inside_scaling.division_effect(scaled)} {inside_scaling.consequence(scaled)}",
    )
    raw, root = (site.q[0, 1] @ site.k[0, 1].T).double(), math.sqrt(site.d_head)
    assert f"would be {root:.3g} times as far apart" in text
    strongest = [float((raw[2] / divisor).softmax(-1).max()) for divisor in (1.0, root)]
    assert "would be {:.2f} instead of {:.2f}.".format(*strongest) in text
    by_scores, by_products = np.transpose([np.mean([by_autograd(row, site.allowed(head=1)[i], divisor) for i, row in
                                                    enumerate(raw)], axis=0) for divisor in (1.0, root)])  # fmt: skip
    assert "mean gradient by q·k would be {:.2g} instead of {:.2g}".format(*by_products) in text
    assert ("would reach q and k" in text) == (by_products[0] < by_products[1])
    assert ("makes up for that" in text) == (
        by_products[0] >= by_products[1] and by_scores[0] < by_scores[1]
    )
    assert ("neither would be smaller" in text) == (
        by_products[0] >= by_products[1] and by_scores[0] >= by_scores[1]
    )
    here = [by_autograd(raw[2], site.allowed(head=1)[2], divisor) for divisor in (1.0, root)]
    assert (
        f"When a score moves, the weights would change {as_strongly(here[0][0] / here[1][0])}."
        in text
    )
    assert (
        f"When q·k moves, the weights would change {as_strongly(here[0][1] / here[1][1])}." in text
    )


def as_strongly(change: float) -> str:
    if 0.95 <= change <= 1.05:
        return "about as strongly"
    return (
        "hardly at all"
        if change < 0.0005
        else f"{'only ' * (change < 1)}{change:.{2 if change < 1 else 3}g} times as strongly"
    )


def test_the_table_of_the_division_holds_the_gradients_by_scores_and_by_products(at):
    lines = {
        row[1].strip(): row[2:4]
        for row in (line.split("|") for line in inside_scaling.scaling_table(at).splitlines()[2:])
    }
    own, root = lines["gradient of this query, ‖diag(p) − p·pᵀ‖"], math.sqrt(at.site.d_head)
    by_products = lines["the same by q·k, ÷ the divisor"]
    assert [float(v) for v in by_products] == pytest.approx(
        [float(own[0]) / root, float(own[1])], rel=2e-3
    )


def test_a_query_that_reads_one_token_has_nothing_to_scale(trace):
    at = chosen_cell(trace, trace.attention[SITES[1]], 0, 0, 0)
    assert inside_scaling.division_effect(at).startswith(
        "This query may attend to at most one token"
    )


# words


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (0.0, "nothing"),
        (0.004, "0.4 %"),
        (0.5, "50 %"),
        (0.999, "99.9 %"),
        (1.0, "100 %"),
        (0.0000123, "<0.01 %"),
    ],
)
def test_shares(weight, said):
    assert inside_text.weight_share(weight) == said


def test_tokens_in_sentences():
    assert quote(Label("·cat")) == "“cat”"
    assert quote(Label("·")) == "“·”"
    assert quote(Label("[end]", special=True)) == "[end]"
    assert quote(Label("·cat | ·dog → .")) == "“cat”/“dog” (writing “.”)"


def test_a_step_of_two_runs_names_twice_only_what_differs():
    """A label with five tokens would be truncated to dots."""

    def of(first: str, second: str) -> str:
        return of_two_runs(Label(first), Label(second), "one", "other").text

    assert of("·les → ·cats", "·les → ·dogs") == "·les → ·cats | ·dogs"
    assert of("·cats → .", "·dogs → .") == "·cats | ·dogs → ."
    assert of("·les", "·les") == "·les"
    assert of("·a → ·b", "[end]") == "·a → ·b | [end]"
    assert of_two_runs(Label("x"), Label("y"), "one", "other").note == "x in one, y in other"


def test_a_blocked_key_says_so(trace):
    at = chosen_cell(trace, trace.attention[SITES[1]], 0, 1, 3)
    stages = {stage.name: stage.sentence for stage in inside_cell.cell_stages(trace, at, TERMS)}
    assert "2 of 4 tokens are blocked" in stages["mask"]
    assert "(look-ahead: 2)" in stages["mask"]
    assert "its score becomes −∞" in stages["mask"]
    header, arrays = unpack(inside_cell.walk_payload(trace, at, TERMS))
    assert "comes to give none of its attention" in header["title"]
    assert arrays["masked"][3] == -np.inf


@pytest.mark.parametrize(("query", "said"), [
    (0, " It is the value of the one token it may attend to."), (2, " It is a mixture of the values of the 3 of 4 tokens it may attend to."),
    (3, " It is a mixture of the values of all 4 tokens."),
])  # fmt: skip
def test_a_sum_counts_only_the_tokens_that_may_be_read(trace, query, said):
    at = chosen_cell(trace, trace.attention[SITES[1]], 0, query, 0)
    assert int((at.site.weights(0)[query] > 0).sum()) == query + 1
    stages = {stage.name: stage.sentence for stage in inside_cell.cell_stages(trace, at, TERMS)}
    assert stages["b"].endswith(said)
    assert ("a mask will hide what comes after it" in stages["a"]) == (query < 3)


def test_the_sum_of_the_heads_has_the_bias_on_both_sides(trace, at):
    site, head_out = at.site, at.site.head_out()[:, at.query]
    weight, bias = site.projections["W_O"]
    together = weight @ head_out.flatten() + bias  # Concat(b¹ … bʰ)·W_O + bias
    text = inside_text.explain_view("heads", site, TERMS)
    assert (
        r"$\mathrm{Concat}(b^1 \dots b^{3})\,W_O + \text{bias} = \sum_h b^h\,W_O^h + \text{bias}$: joining the 3 results"
        in text
    )
    _, arrays = unpack(inside_cell.head_sum_payload(trace, at, TERMS))
    np.testing.assert_allclose(arrays["total"], together.numpy(), rtol=1e-4, atol=1e-5)
    output = next(
        stage.sentence for stage in inside_cell.cell_stages(trace, at, TERMS) if stage.name == "W_O"
    )
    own = weight[:, at.head * site.d_head : (at.head + 1) * site.d_head] @ head_out[at.head]
    assert (
        f"This head's part has length {own.norm():.2f}, the sum with the bias {together.norm():.2f}."
        in output
    )
    sentence = unpack(inside_cell.head_sum_payload(trace, at, TERMS))[0]["sentence"]
    assert f"All heads and the bias together make one of length {together.norm():.2f}" in sentence


def test_one_head_is_not_called_the_strongest():
    tokenizer = Tokenizer.characters("abcde")
    model = random_attention_only(n_heads=1, vocab_size=tokenizer.vocab_size)
    trace = Scope(Checkpoint(Path("alone"), model, tokenizer, {}), torch.device("cpu")).run(
        "abc", "cba"
    )
    at = chosen_cell(trace, trace.attention["encoder.layers.0.self_attn"], 0, 1, 1)
    beginning = r"$b\,W_O + \text{bias}$: with one head there is one part, and the bias."
    assert inside_text.explain_view("heads", at.site, TERMS).startswith(beginning)
    sentence = unpack(inside_cell.head_sum_payload(trace, at, TERMS))[0]["sentence"]
    assert "the one head adds a vector of length" in sentence
    assert (
        "which are passed on as they are" in inside_cell.cell_stages(trace, at, TERMS)[-1].sentence
    )


def test_a_cosine_alone_cannot_be_sharp(scope):
    """Between −1 and 1: the largest weight softmax can give is e² times the least."""
    trace = scope.with_similarity("cosine").run("abcde", "edc")
    at = chosen_cell(trace, trace.attention[SITES[0]], 1, 2, 1)
    said = " ".join(stage.sentence for stage in inside_cell.cell_stages(trace, at, TERMS))
    weights = torch.tensor([1.0, -1.0]).softmax(-1)
    assert (
        f"no weight could be more than e² ≈ {float(weights[0] / weights[1]):.1f} times another"
        in said
    )


def test_a_query_that_may_read_nothing_says_so(scope):
    drawn = torch.ones(4, 4, dtype=torch.bool)
    drawn[2] = False
    trace = scope.run("abcde", "edc", edits=forbidding({"decoder_self": drawn}))
    at = chosen_cell(trace, trace.attention[SITES[1]], 0, 2, 0)
    stages = {stage.name: stage.sentence for stage in inside_cell.cell_stages(trace, at, TERMS)}
    assert "attends to nothing: all its weights are 0" in stages["softmax"]
    assert "Nothing was taken, so the output of this head for “d” is all zeros." in stages["b"]
    assert not unpack(inside_cell.walk_payload(trace, at, TERMS))[1]["b"].any()
    inside_cell.head_sum_payload(trace, at, TERMS)
    inside_scaling.weights_chart(trace, at)


# files


def test_the_walks_csv_and_npz(trace, at):
    rows = list(csv.DictReader(io.StringIO(inside_files.walk_csv(trace, at))))
    weights = at.site.weights(at.head)[at.query].numpy()
    np.testing.assert_array_equal([np.float32(row["weight"]) for row in rows], weights)
    for row in rows:
        terms = [float(row[f"term {d}"]) for d in range(1, at.site.d_head + 1)]
        assert sum(terms) == pytest.approx(float(row["score"]), rel=1e-4, abs=1e-4)
        assert float(row["q·k"]) == pytest.approx(
            float(row["score"]) * math.sqrt(at.site.d_head), rel=1e-4, abs=1e-4
        )
    kept = np.load(io.BytesIO(inside_files.walk_npz(trace, at)))
    np.testing.assert_array_equal(kept["weights"], weights)
    np.testing.assert_allclose(
        kept["heads_added"].sum(0) + kept["bias"], kept["output"], rtol=1e-5, atol=1e-6
    )
    assert list(kept["key_tokens"])[-1] in ("[end]", "c")


def test_the_other_files(trace, at):
    kept = np.load(io.BytesIO(inside_files.matrices_npz(at)))
    np.testing.assert_array_equal(kept["weights"], at.site.weights(at.head).numpy())
    rows = list(csv.reader(io.StringIO(inside_files.heads_csv(trace, at))))
    assert [row[0] for row in rows] == ["head", "1", "2", "3", "bias", "output", "stream"]
    assert np.float32(rows[2][1]) == head_sum.head_sum(trace, at.site, at.query).norms[1].numpy()
    assert inside_files.scaling_csv(trace, at).count("without") == at.site.k.shape[2]


# the page


@pytest.fixture
def opened(folder, monkeypatch) -> Callable[..., AppTest]:
    """A function that opens the page at an address, with the folder of `letters` as the only shipped checkpoint."""
    monkeypatch.setattr("models.opening.shipped_folder", lambda: folder.parent)
    return _opened


def _opened(**params: str) -> AppTest:
    wanted = {"checkpoint": "letters", "source": "abcde", "site": SITES[2], "head": "1", **params}
    return page_at("inside", **wanted)


def payload(app: AppTest, component: str) -> tuple[dict, dict]:
    return unpack(
        next(
            p.proto.bytes
            for p in app.get("bidi_component")
            if p.proto.component_name.endswith(component)
        )
    )


def json_of(app: AppTest, key: str) -> str:
    return next(p.proto.json for p in app.get("bidi_component") if p.proto.id.endswith(f"-{key}"))


def stands(app: AppTest) -> None:
    assert_all_passed(app, 5)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("view", [view for view in inside_text.VIEWS if view != "several"])
@pytest.mark.parametrize("site", SITES)
def test_every_view_of_every_kind_renders(opened, view, site):
    app = opened(inside_view=view, site=site, lock="q1", inside_key="0")
    stands(app)
    chosen, _ = payload(app, "choice")
    assert (chosen["query"], chosen["key"]) == (1, 0)


def test_several_heads_are_shown_chosen_and_sorted(opened, scope):
    app = opened(inside_view="several", inside_measure="first", target="edc", lock="q2")
    assert_all_passed(app, 3)
    header, arrays = payload(app, "several")
    trace = scope.run("abcde", "edc")
    weights = torch.cat(
        [trace.attention[f"decoder.layers.{n}.cross_attn"].weights() for n in (0, 1)]
    )
    first = weights[:, :, 0].mean(1)
    assert header["order"] == first.argsort(descending=True).tolist()
    assert header["chosen"] == sorted(header["order"][:3])
    assert (header["measure"], header["query"]) == ("first", 2)
    np.testing.assert_allclose(arrays["first"], first, rtol=1e-4)
    np.testing.assert_allclose(
        arrays["weights"], weights[header["chosen"]].numpy(), rtol=1e-5, atol=1e-7
    )
    app = opened(inside_view="several", inside_heads=["1", "4"], inside_measure="nothing we know")
    assert_all_passed(app, 3)
    assert payload(app, "several")[0]["chosen"] == [1, 4]
    assert payload(app, "several")[0]["measure"] == "entropy"
    assert_all_passed(opened(inside_view="several", inside_heads=[""]), 3)
    assert payload(opened(inside_view="several", inside_heads=["77"]), "several")[0]["chosen"] == []


def test_the_page_shows_what_models_computes(opened, scope):
    app = opened(lock="q2", inside_key="3", target="edc")
    _, arrays = payload(app, "walk")
    site = scope.run("abcde", "edc").attention[SITES[2]]
    np.testing.assert_array_equal(arrays["weights"], site.weights(1)[2].numpy())


def test_the_columns_convention_comes_from_the_url(opened):
    app = opened(inside_view="matrices", inside_convention="columns")
    stands(app)
    assert payload(app, "matrices")[0]["convention"] == "columns"


@pytest.mark.parametrize(
    "params",
    [
        {"lock": "q99", "inside_key": "99"},
        {"inside_key": "-1"},
        {"inside_key": "²"},
        {"inside_view": "<script>"},
        {"inside_convention": "diagonal", "inside_view": "matrices"},
        {"head": "77"},
        {"site": "nowhere"},
        {"lock": "k1"},
        {"inside_stage": "1e9"},
        {"source": "a"},
        {"source": "zzz😀"},
        {"source": "<b>a</b>"},
        {"target": "edcbaedcba"},
    ],
)
def test_no_address_or_text_breaks_the_page(opened, params):
    stands(opened(**params))


def test_a_key_pinned_on_the_attention_page_is_the_key_here(opened):
    app = opened(lock="k2")
    header, _ = payload(app, "choice")
    assert header["key"] == 2


def test_layer_kind_and_head_can_be_changed_here(opened):
    app = opened(lock="q1")
    groups = {group.key: group for group in app.button_group if group.key}
    assert groups["which-kind"].value == "cross"
    groups["which-head"].set_value(3).run()
    stands(app)
    assert payload(app, "walk")[0]["head"] == 2
    groups = {group.key: group for group in app.button_group if group.key}
    groups["which-kind"].set_value("encoder_self").run()
    stands(app)
    assert payload(app, "walk")[0]["site"] == SITES[0]
    assert SITES[0] in app.query_params["site"]


# another similarity on the same weights


@pytest.mark.parametrize("name", ["dot", "cosine", "general", "additive"])
def test_another_similarity_is_run_and_named(opened, scope, name):
    app = opened(similarity=name, lock="q2", inside_key="3", target="edc")
    own, then = scope.run("abcde", "edc"), scope.with_similarity(name).run("abcde", "edc")
    site = then.attention[SITES[2]]
    np.testing.assert_allclose(
        payload(app, "walk")[1]["weights"], site.weights(1)[2].numpy(), rtol=1e-6
    )
    apart = (
        np.abs((own.attention[SITES[2]].weights(1) - site.weights(1)).numpy()).sum()
        / 2
        / site.n_query
    )
    same = sum(
        a == b for a, b in zip(own.next_token.predicted, then.next_token.predicted, strict=True)
    )
    (note,) = (row[1] for row in json.loads(json_of(app, "note swapped"))["rows"])
    assert f"here scored by {name}: on average {percent(float(apart))} of a row's attention" in note
    assert f"{same} of {len(own.next_token.predicted)} next tokens" in note
    assert any("not trained this way" in markdown.value for markdown in app.markdown)
    assert app.query_params["similarity"] == name


@pytest.mark.parametrize("asked", ["scaled dot", "l2", "<b>", ""])
def test_its_own_similarity_and_an_unknown_one_change_nothing(opened, scope, asked):
    app = opened(similarity=asked, lock="q2", inside_key="3", target="edc")
    stands(app)
    own = scope.run("abcde", "edc").attention[SITES[2]].weights(1)[2].numpy()
    np.testing.assert_array_equal(payload(app, "walk")[1]["weights"], own)
    assert not any("not trained this way" in markdown.value for markdown in app.markdown)


def test_the_similarity_can_be_chosen_and_reset(opened):
    app = opened(target="edc")
    own = payload(app, "walk")[1]["weights"].copy()
    app.selectbox(key="similarity-choice").set_value("dot").run()
    assert app.query_params["similarity"] == "dot"
    assert np.abs(payload(app, "walk")[1]["weights"] - own).max() > 0.01
    app.selectbox(key="similarity-choice").set_value("scaled dot").run()
    assert "similarity" not in app.query_params
    np.testing.assert_array_equal(payload(app, "walk")[1]["weights"], own)
