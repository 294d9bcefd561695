"""The recorded survey of frozen weights, measured again with one seed: six minutes on two cores."""

import os
from pathlib import Path

import pytest
from checked import unchecked

import models
from models.tasks.translation import TranslationTask
from models.training.frozen_survey import (
    GUIDED_TOKENS,
    GuidedTraining,
    held_out_pairs,
)

ROOT = Path(models.__file__).parents[1]
DATA = Path(os.environ.get("ATTNSCOPE_DATA", ROOT.parent / "shared" / "data"))
TATOEBA = DATA / "tatoeba-eng-fra.tsv.gz"


@pytest.mark.skipif(not TATOEBA.exists(), reason="the pairs to train on are not here")
@pytest.mark.timeout(3600)
def test_guided_models_predict_as_much_as_recorded() -> None:
    scope = models.load("eng-fra-bahdanau", device="cpu")
    recorded = scope.training["surveys"]["frozen"]
    task = TranslationTask(TATOEBA, tokenizer=scope.tokenizer, max_tokens=GUIDED_TOKENS)
    pairs = held_out_pairs(scope, task, recorded["means"]["imposed"]["n_texts"])  # pyright: ignore[reportArgumentType]
    settings = pairs, recorded["seed"], recorded["steps"]
    training = GuidedTraining(scope.model, task, *settings)  # pyright: ignore[reportArgumentType]
    with unchecked():
        for guide in ("learned", "imposed"):
            shares = training.shares(training.trained(guide, recorded["seed"]), guide)
            mean = recorded["means"][guide]["mean"]  # of two seeds
            assert sum(shares) / len(shares) == pytest.approx(mean, abs=0.02)
