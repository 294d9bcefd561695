"""The recorded survey of other weights, measured again on the texts that its adversary searches: five minutes."""

import math

import pytest
from checked import unchecked

import models
from models.runs.surveys import ADVERSARY_TEXTS, survey_weights


@pytest.mark.timeout(1800)
def test_the_adversary_goes_as_far_as_recorded() -> None:
    scope = models.load("eng-fra-bahdanau", device="cpu")
    recorded = scope.training["surveys"]["weights"]
    sources = [scope.encode(text[0])["source"] for text in scope.held_out[:ADVERSARY_TEXTS]]
    with unchecked():
        found = survey_weights(scope, sources, recorded["seed"], lambda done, total: None)
    was = recorded["means"]["adversary"]
    assert (found["adversary"].n_texts, found["adversary"].unit) == (was["n_texts"], "nats")
    assert found["adversary"].mean == pytest.approx(was["mean"], abs=0.005)
    assert 0 < was["low"] < was["mean"] < was["high"] < math.log(2)
    low, high = recorded["means"]["permuted"]["low"], recorded["means"]["permuted"]["high"]
    assert low - 0.05 < found["permuted"].mean < high + 0.05  # of a quarter of the texts
