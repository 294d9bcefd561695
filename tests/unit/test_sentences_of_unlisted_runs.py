"""Sentences on unusual runs: removed and added masks, other constants in a score, one head, shared keys."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from hub_kinds import save
from hub_models import BY_NAME, library_tokenizer

import models
from models.analysis import softmax
from models.trace import AttentionSite, Trace
from models.trace.edits import MaskChange, Where
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import WeightCell
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.inside import cell as inside_cell
from viz_app.views.inside import matrices
from viz_app.views.inside.scene import Stage
from viz_app.views.task.presentations import explain_masked, task_payloads
from viz_app.views.task.reading import TaskChoices

TERMS = words.terms("")
IDS = "7 11 5 23 41"


def run_of(name: str, text: str, *edits: MaskChange) -> Trace:
    return models.load(name, device="cpu").run(text, edits=edits)


def stages(trace: Trace, site: AttentionSite, head: int, query: int, key: int) -> dict[str, Stage]:
    return {
        stage.name: stage
        for stage in inside_cell.cell_stages(trace, WeightCell(site, head, query, key), TERMS)
    }


@pytest.fixture(scope="module")
def inverse(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A GPT-2 whose scores are also divided by the number of their layer."""
    folder = tmp_path_factory.mktemp("inverse")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=97, n_embd=24, n_layer=3, n_head=3, n_positions=64, bos_token_id=0, eos_token_id=0,
        scale_attn_by_inverse_layer_idx=True,
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return models.load(folder, device="cpu").run(IDS)


@pytest.mark.parametrize("layer", [1, 2])
def test_a_product_times_a_constant_shows_its_constant_everywhere(
    inverse: Trace, layer: int
) -> None:
    site = inverse.attention[f"transformer.h.{layer}.attn"]
    factor = 8**-0.5 / (layer + 1)
    stage = stages(inverse, site, 1, 3, 1)["s·q∘k"]
    score = factor * float(site.q[0, 1, 3] @ site.k[0, 1, 1])
    assert f"a constant of the model, {factor:.4g};" in stage.sentence
    assert stage.sentence.endswith(f"add up to {score:.2f}.".replace("-", "−"))
    assert f"s = {factor:.4g}" in stage.formula
    header, arrays = unpack(inside_cell.walk_payload(inverse, WeightCell(site, 1, 3, 1), TERMS, 0))
    terms = arrays["terms"].reshape(len(header["indices"]), -1)
    wanted = factor * (site.q[0, 1, 3] * site.k[0, 1])[header["indices"]]
    torch.testing.assert_close(torch.from_numpy(terms.copy()), wanted, atol=1e-5, rtol=1e-4)
    assert header["columns"]["terms"]["title"] == "s · q ∘ k"
    assert header["columns"]["terms"]["why"][0] == f"= {factor:.4g} × q "
    drawn, _ = unpack(matrices.matrices(inverse, WeightCell(site, 1, 3, 1), TERMS, "rows"))
    (said,) = [one["formula"] for one in drawn["equations"] if one["formula"].startswith("A =")]
    assert said == f"A = Q K^{{T}} · {factor:.4g}"


def test_the_products_of_t5_add_up_to_the_content_term_and_not_to_the_score(
    tmp_path: Path,
) -> None:
    save("T5EncoderModel", tmp_path)
    trace = models.load(tmp_path, device="cpu").run("The little dog was hungry.")
    site = next(iter(trace.attention.values()))
    assert site.terms
    stage = stages(trace, site, 0, 3, 1)["q∘k"]
    product = float(site.q[0, 0, 3] @ site.k[0, 0, 1])
    assert stage.sentence.endswith(f"add up to {product:.2f}.".replace("-", "−"))
    assert "that sum is the content term" in stage.sentence
    assert "content" in stage.columns
    assert "scores" not in stage.columns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "site", "text"),
    [
        ("eng-fra", "decoder.layers.1.self_attn", "I like cats."),
        ("gpt", "decoder.layers.1.self_attn", "The boy said that"),
    ],
)
def test_a_removed_look_ahead_mask_is_not_said_to_hide_anything(
    name: str, site: str, text: str
) -> None:
    plain = run_of(name, text)
    kind = plain.attention[site].kind
    lifted = run_of(
        name, text, MaskChange(Where(kind=kind), removed_layers=("look-ahead",))
    ).attention[site]
    assert bool(lifted.allowed(head=0).all())
    assert "comes after it" in words.where_from(plain.attention[site], TERMS)
    said = words.where_from(lifted, TERMS)
    assert "comes after it" not in said
    assert "may attend to every other, in both directions" in said
    edited = run_of(name, text, MaskChange(Where(kind=kind), removed_layers=("look-ahead",)))
    assert "a mask will hide" not in stages(edited, lifted, 0, 0, 0)["a"].sentence
    hidden = stages(plain, plain.attention[site], 0, 0, 0)["a"].sentence
    assert "a mask will hide what comes after it" in hidden


def test_a_look_ahead_mask_with_an_opened_cell_is_not_said_to_hide_all_that_comes_later() -> None:
    site, text = "decoder.layers.1.self_attn", "The boy said that"
    kind = run_of("gpt", text).attention[site].kind
    opened = run_of("gpt", text, MaskChange(Where(kind=kind), allow=((0, 3),))).attention[site]
    said = words.where_from(opened, TERMS)
    assert "No token may attend to what comes after it" not in said
    assert "Hatched cells are blocked (look-ahead)" in said


def test_a_look_ahead_mask_on_an_encoder_is_said_to_hide_without_a_reason_of_writers() -> None:
    site = "encoder.layers.1.self_attn"
    text = "He forgot [MASK] umbrella."
    kind = run_of("bert", text).attention[site].kind
    changed = run_of("bert", text, MaskChange(Where(kind=kind), preset="causal"))
    said = words.where_from(changed.attention[site], TERMS)
    assert "No token may attend to what comes after it." in said
    assert "does not exist yet" not in said
    assert "a mask will hide" in stages(changed, changed.attention[site], 0, 0, 0)["a"].sentence


@pytest.mark.parametrize(
    ("change", "said", "sides"),
    [
        (MaskChange(), "Every token attends to every other", "both sides"),
        (MaskChange(preset="causal"), "Every token attends to itself and to those", "the tokens before it"),
        (MaskChange(preset="previous"), "attends at most to itself and to those", "the tokens before it"),
        (MaskChange(preset="window", k=1), "It is read from both sides. In 4 of 4 layers", "both sides"),
    ],
)  # fmt: skip
def test_a_mask_is_guessed_from_the_sides_that_its_run_reads(
    change: MaskChange, said: str, sides: str
) -> None:
    scope, text = models.load("bert", device="cpu"), "He forgot [MASK] umbrella."
    kind = scope.model.kinds[0].name
    edits = () if change == MaskChange() else [replace(change, where=Where(kind=kind))]
    trace = scope.run(text, edits=edits)
    output = trace.outputs["masked token"]
    explained = explain_masked(trace, output, scope.model.pair_output)
    assert said in explained
    assert "was trained on guesses like these" in explained
    pictures = task_payloads(CurrentRun(scope, trace), TaskChoices(None, Focus()))
    assert unpack(pictures["guesses"])[0]["title"].endswith(f"guesses it from {sides}")


@pytest.mark.slow
def test_a_model_that_looks_back_is_not_said_to_have_learned_to_fill_masks(tmp_path: Path) -> None:
    """XLM's causal models have the same class as those that fill masks."""
    config = transformers.XLMConfig(
        vocab_size=97, emb_dim=24, n_heads=3, n_layers=2, causal=True, n_langs=1,
        max_position_embeddings=64, bos_token_id=2, eos_token_id=3, pad_token_id=0,
    )  # fmt: skip
    transformers.XLMWithLMHeadModel(config).save_pretrained(tmp_path)
    library_tokenizer(tmp_path, 89)
    trace = models.load(tmp_path, device="cpu").run("The [MASK] dog")
    assert not any(bool(site.weights().triu(1).any()) for site in trace.attention.values())
    explained = explain_masked(trace, next(iter(trace.outputs.values())), "")
    assert "Every token attends to itself and to those before it." in explained
    assert "trained" not in explained


def test_a_window_beside_blocked_cells_is_not_all_that_hides() -> None:
    text, site = "He forgot [MASK] umbrella.", "encoder.layers.1.self_attn"
    where = Where(kind=run_of("bert", text).attention[site].kind)
    window = MaskChange(where, preset="window", k=1)
    said = words.where_from(run_of("bert", text, window).attention[site], TERMS)
    assert "may attend to those up to 1 token away, in both directions" in said
    painted = replace(window, block=((2, 3),))
    said = words.where_from(run_of("bert", text, painted).attention[site], TERMS)
    assert "in both directions" not in said
    assert "Hatched cells are blocked (window of 1, " in said


def test_a_window_on_an_encoder_is_counted_for_this_query() -> None:
    site = "encoder.layers.1.self_attn"
    text = "He forgot [MASK] umbrella."
    kind = run_of("bert", text).attention[site].kind
    changed = run_of("bert", text, MaskChange(Where(kind=kind), preset="window", k=1))
    n = changed.attention[site].n_key
    sentence = stages(changed, changed.attention[site], 0, 0, 0)["a"].sentence
    assert sentence.endswith(f"a mask will hide {n - 2} tokens.")


def test_states_that_a_mask_hides_are_not_in_the_context() -> None:
    name, text, site = "dates-bahdanau", "15 May 2024", "decoder.alignment"
    plain = run_of(name, text)
    n = plain.attention[site].n_key
    change = MaskChange(Where(kind=plain.attention[site].kind), preset="window", k=2)
    changed = run_of(name, text, change)
    assert (
        f"a mixture of all {n} states"
        in stages(plain, plain.attention[site], 0, 0, 0)["c"].sentence
    )
    allowed = int(changed.attention[site].allowed(head=0)[0].sum())
    assert allowed < n
    said = stages(changed, changed.attention[site], 0, 0, 0)["c"].sentence
    assert f"a mixture of the {allowed} of {n} states it may attend to" in said


@pytest.mark.parametrize(
    ("n_heads", "said"), [(1, "makes vectors of 24"), (3, "makes shorter vectors of 8")]
)
def test_a_heads_vectors_are_shorter_only_if_they_are(
    n_heads: int, said: str, tmp_path: Path
) -> None:
    config = transformers.GPT2Config(
        vocab_size=97, n_embd=24, n_layer=1, n_head=n_heads, n_positions=64, bos_token_id=0, eos_token_id=0
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    trace = models.load(tmp_path, device="cpu").run(IDS)
    site = next(iter(trace.attention.values()))
    assert said in stages(trace, site, 0, 3, 1)["q k v"].sentence


def test_scores_before_the_division_are_those_of_each_head_with_its_own_key_head(
    tmp_path: Path,
) -> None:
    case = BY_NAME["LlamaForCausalLM"]
    sizes = case.sizes | {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 40}
    replace(case, sizes=sizes).save(tmp_path)
    trace = models.load(tmp_path, device="cpu").run(IDS)
    site = next(iter(trace.attention.values()))
    assert site.k.shape[1] == 2
    for head in range(4):
        raw = softmax.raw_scores(site, head) / site.d_head**0.5
        torch.testing.assert_close(raw, site.scores(head), atol=1e-5, rtol=1e-5)


def test_a_bias_by_distance_is_not_divided() -> None:
    """BLOOM and others add their bias after the division, as recomputed by hand."""
    raw = torch.tensor([[2.0, -4.0, 6.0]])
    added, allowed = torch.tensor([[0.5, -1.0, 3.0]]), torch.ones(1, 3, dtype=torch.bool)
    found = softmax.scaling(raw, allowed, 2.0, added)
    torch.testing.assert_close(found.scores, torch.tensor([[1.5, -3.0, 6.0]]))
    torch.testing.assert_close(found.weights, torch.tensor([[1.5, -3.0, 6.0]]).softmax(-1))
