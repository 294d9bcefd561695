"""The plans are those of the shipped checkpoints: parsing each recorded command gives the settings of its training."""

import json
import shlex
from dataclasses import asdict, replace

import pytest

from models import cli, shipped
from models.commands.train_flags import plan_of
from models.opening import shipped_folder
from models.training.recipe import Recipe
from models.training.recipes import FEW_PAIRS, PLANS, plan_for, settings_line


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("name", shipped())
def test_the_recorded_command_gives_the_recorded_sizes_and_recipe(name: str) -> None:
    folder = shipped_folder() / name
    record, config = (
        json.loads((folder / file).read_text("utf-8")) for file in ("training.json", "config.json")
    )
    plan = plan_of(cli._parser().parse_args(shlex.split(record["command"])[1:]))
    recipe = asdict(plan.recipe)
    assert {key: recipe[key] for key in record["recipe"]} == record["recipe"]
    tokenizer = plan.data.get("tokenizer")
    sizes = asdict(
        plan.config(tokenizer.vocab_size if tokenizer else config["vocab_size"], **plan.sizes)
    )
    assert {key: sizes[key] for key in config if key != "architecture"} == {
        k: v for k, v in config.items() if k != "architecture"
    }
    sizes_of_batches = {"span": 32, "reverse": 64}
    assert plan.data.get("batch_size", 128) == sizes_of_batches.get(record["task"], 128)


def test_the_plan_changes_where_pairs_are_few_for_a_transformer_that_translates_alone() -> None:
    large = PLANS["translation"]["transformer"]
    few = plan_for("translation", "transformer", FEW_PAIRS - 1)
    assert few != large
    assert (
        plan_for("translation", "transformer", FEW_PAIRS)
        == plan_for("translation", "transformer")
        == large
    )
    assert FEW_PAIRS == 60_000
    for task, model in (
        ("translation", "rnn"),
        ("translation", "bahdanau"),
        ("dates", "transformer"),
    ):
        assert plan_for(task, model, 1) == PLANS[task][model]
    with pytest.raises(
        ValueError, match="model attention is not available for the task translation"
    ):
        plan_for("translation", "attention", 1)


def test_few_pairs_train_the_tiny_transformer_of_wu_et_al() -> None:
    """Its published sizes and dropout are used; the rest is what measured best."""
    few = plan_for("translation", "transformer", 1)
    assert few.sizes == {
        "d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4, "n_ctx": 512, "dropout": 0.3,
        "init": "normal",
    }  # fmt: skip
    assert few.recipe == Recipe(
        10_000, warmup=2000, learning_rate=1.5, validate_every=500, patience=5
    )
    assert few.data == {"vocab_size": 4000, "max_tokens": 4096, "licence": None}


def test_a_recipe_without_options_is_the_default() -> None:
    assert asdict(Recipe(7)) == {
        "steps": 7, "warmup": 1000, "learning_rate": 1.0, "label_smoothing": 0.1, "clip": 1.0, "average_last": 0.2, "seed": 1,
        "validate_every": 500, "save_every": 200, "score_cases": 200, "patience": 0, "snapshots": False, "n_snapshots": 12,
        "snapshot_ratio": 2, "new_only": False,
    }  # fmt: skip


def test_a_plan_in_words_names_every_size_and_the_settings_of_the_data_and_the_recipe() -> None:
    plan = PLANS["translation"]["transformer"]
    plan = replace(
        plan, recipe=replace(plan.recipe, steps=8000, warmup=1500, learning_rate=0.5, patience=3)
    )
    assert settings_line(plan) == (
        "d_model 192, n_heads 6, d_ff 768, n_encoder_layers 3, n_decoder_layers 3, n_ctx 512, vocab_size 6,000, max_tokens 2,048, "
        "steps 8,000, warmup 1,500, learning_rate 0.5, patience 3"
    )
