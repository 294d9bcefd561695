"""The page's statements on how models learned follow their records, model by model."""

from dataclasses import replace

import pytest
import torch
from checked import unchecked
from drawn import letters
from small import Reversal, reversal_trainer

from models.analysis.jacobian_reach import RNN, SELF_ATTENTION, LayerChoice, Reach
from models.architectures import build
from models.architectures.attention_only import AttentionOnlyConfig
from models.architectures.seq2seq import Seq2SeqConfig
from models.architectures.transformer import TransformerConfig
from models.layers.similarity import SIMILARITIES as KINDS_ALL
from models.opening import load
from models.runs.scope import Scope
from viz_app.drawing.look import LIGHT
from viz_app.views.from_rnn import charts
from viz_app.views.from_rnn import learners as from_rnn_learners
from viz_app.views.from_rnn.families import family
from viz_app.views.from_rnn.learners import Learner
from viz_app.views.from_rnn.learning import compare_similarities, fastest

VOCAB = Reversal().tokenizer.vocab_size
SMALL = {"vocab_size": VOCAB, "d_model": 12, "n_ctx": 13}
STAGES = {
    "with residuals": AttentionOnlyConfig(**SMALL, n_heads=3, n_self_layers=2, residual=True),
    "stacked": AttentionOnlyConfig(**SMALL, n_heads=3, n_self_layers=2),
    "vector": Seq2SeqConfig(**SMALL, d_hidden=7, d_align=5, attention="none"),
    "heads": AttentionOnlyConfig(**SMALL, n_heads=3, n_self_layers=1),
    "aligned": Seq2SeqConfig(**SMALL, d_hidden=7, d_align=5),
    "alone": AttentionOnlyConfig(**SMALL),
    "self": AttentionOnlyConfig(**SMALL, n_self_layers=1),
}
SIZES = {**SMALL, "n_heads": 3, "d_ff": 17, "n_encoder_layers": 1, "n_decoder_layers": 1}
KINDS = ("scaled dot", "additive", "cosine")


@pytest.fixture(scope="module")
def scopes(tmp_path_factory) -> list[Scope]:
    """Models trained for a few steps each, and one Transformer trained longer than the others."""
    folder = tmp_path_factory.mktemp("learned")

    def trained(name: str, config, steps: int = 4) -> Scope:
        trainer = reversal_trainer(
            folder / name, config=config, steps=steps, validate_every=2, score_cases=5
        )
        for _ in trainer.train():
            pass
        return load(folder / name, device="cpu")

    with unchecked():
        found = [trained(name, config) for name, config in STAGES.items()]
        found += [
            trained(f"sim {kind}", TransformerConfig(**SIZES, similarity=kind)) for kind in KINDS
        ]
        return [*found, trained("long", TransformerConfig(**SIZES), 6)]


@pytest.mark.slow
def test_the_stages_are_in_order(scopes):
    found = from_rnn_learners.stage_learners(scopes)
    assert [one.checkpoint for one in found] == [
        "vector",
        "aligned",
        "alone",
        "self",
        "heads",
        "stacked",
        "with residuals",
        "long",
    ]
    assert [one.what for one in found[-3:-1]] == [
        "2 self-attention layers stacked",
        "2 stacked, with residuals and LayerNorm",
    ]
    by_name = {scope.name: scope for scope in scopes}
    for one in found:
        scope = by_name[one.checkpoint]
        assert one.parameters == sum(p.numel() for p in scope.model.parameters())
        assert one.steps == scope.training["step"]
        validated = [row for row in scope.training["curve"] if "exact match" in row]
        assert one.curve == tuple((row["step"], row["exact match"]) for row in validated)
        assert len(one.curve) == one.steps // 2


@pytest.mark.slow
def test_a_family_has_one_colour_in_every_chart_of_the_page(scopes):
    stages = from_rnn_learners.stage_learners(scopes)
    lines = from_rnn_learners.chart(stages, LIGHT, "t").data
    of_stage = {one.checkpoint: line.line.color for one, line in zip(stages, lines, strict=True)}
    assert len(set(of_stage.values())) == len(stages)
    by_name = {scope.name: scope.model for scope in scopes}
    names = ["long", "aligned", "vector", "sim scaled dot"]  # in another order, two of one family
    records = {name: [{"least": 1, "most": 4, "cases": 7, "score": 31.5}] for name in names}
    families = {name: family(by_name[name]) for name in names}
    drawn = charts.length_chart(records, "t", families).to_dict()["encoding"]
    colours = dict(zip(names, drawn["color"]["scale"]["range"], strict=True))
    assert {name: colours[name] for name in names[:3]} == {
        name: of_stage[name] for name in names[:3]
    }
    assert colours["sim scaled dot"] == colours["long"]
    dashes = drawn["strokeDash"]["scale"]["range"]
    assert len({tuple(dash) for dash in dashes}) == len(names)
    ones = torch.ones(3, 3)
    for kind, name in ((RNN, "vector"), (SELF_ATTENTION, "long")):
        reach = Reach(
            LayerChoice(kind), ones, ones.bool(), ones.long(), [[0], [1, 2]], 5, 5, 0.0, 0.0
        )
        (line,) = charts.influence_chart([reach], LIGHT, "t").data
        assert line.line.color == of_stage[name]


def test_similarities_compares_only_what_shares_a_recipe(scopes):
    found = from_rnn_learners.similarity_learners(scopes)
    assert {one.what for one in found} == set(KINDS)
    assert "long" not in {one.checkpoint for one in found}
    assert from_rnn_learners.similarity_learners(scopes[:7]) == []
    assert from_rnn_learners.similarity_learners([letters("gpt"), letters("gpt")]) == []


def test_the_sentence_on_similarities_counts_steps_and_sizes(scopes):
    found = from_rnn_learners.similarity_learners(scopes)
    sizes = sorted(
        sum(p.numel() for p in scope.model.parameters())
        for scope in scopes
        if scope.name.startswith("sim ")
    )
    text = compare_similarities(found)
    assert "trained for 4 steps each" in text
    assert f"in all {sizes[0]:,} to {sizes[-1]:,} parameters" in text
    assert "for 4 to 9 steps under each similarity" in compare_similarities(
        [*found, replace(found[0], steps=9)]
    )
    begun = {
        kind: build_from_one_seed(TransformerConfig(**SIZES, similarity=kind)) for kind in KINDS_ALL
    }
    same = {
        kind: all(torch.equal(begun["dot"][name], weights[name]) for name in begun["dot"])
        for kind, weights in begun.items()
    }
    assert same == {
        "dot": True,
        "scaled dot": True,
        "cosine": True,
        "general": True,
        "additive": False,
    }
    assert "the additive model's other weights begin elsewhere" in text


def build_from_one_seed(config) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return build(config).state_dict()


def test_unequal_training_is_mentioned():
    short, long = (
        Learner("a", "one", 10, 200, ((200, 95.0),), 96.5, 100),
        Learner("b", "two", 10, 4000, ((400, 95.0),), 9, 100),
    )
    third = Learner("c", "three", 10, 200, ((200, 1.0),), 1.0, 100)
    text = fastest([short, long, third])
    assert (
        "Caution: training length differs (**two** for 4,000 steps; **one** and **three** for 200 steps)"
        in text
    )


def test_learned_is_the_first_step_over_the_bar():
    curve = ((100, 12.0), (200, 90.0), (300, 71.0), (400, 95.0))
    fast = Learner("a", "fast one", 10, 400, curve, 96.5, 100)
    slow = Learner("b", "slow one", 10, 400, ((100, 1.0), (400, 93.0)), 93.0, 100)
    never = Learner("c", "lost one", 10, 400, ((100, 1.0), (400, 3.0)), 3.0, 100)
    assert [one.learned_at for one in (fast, slow, never)] == [200, 400, None]
    said = fastest([slow, never, fast])
    assert (
        "First right on 90 % of the validation dates: **fast one**, at step 200; last: **slow one**, at step 400"
        in said
    )
    assert "Not reached within their training: **lost one** (400 steps)." in said
    assert "alike" not in said
    assert "at the same validated step, 200" in fastest([fast, fast])
    rows = from_rnn_learners.learner_table([fast, never], ["2001-01-01", "x"])
    assert list(rows["Reached 90 % at step"]) == ["200", "not reached"]
    assert list(rows["Writes"]) == ["2001-01-01", "x"]
    lines = from_rnn_learners.learning_csv([fast, never]).splitlines()
    assert lines[2] == "a,fast one,10,200,90.0"
    assert len(lines) == 1 + 6
    lines = from_rnn_learners.chart([fast, never], LIGHT, "title").data
    assert [(line.name, line.x, line.y) for line in lines][1] == (
        "lost one",
        (100, 400),
        (1.0, 3.0),
    )
