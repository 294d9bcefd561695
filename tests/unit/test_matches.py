"""Many texts of Compare: step by step and all at once give the same, its table is the match, and its sentences count it."""

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest
import torch

import models
from models.analysis.head_matching import (
    KindDistances,
    match_heads,
    mean_distances,
    null_distances,
    similarity_within,
)
from models.held_out_texts import common_texts, runs
from viz_app.controls import matching
from viz_app.controls.matching import MatchedHeads, measured_steps, n_steps
from viz_app.drawing.stamp import of_model
from viz_app.session.current_run import CurrentRun
from viz_app.session.other_seeds import other_seeds
from viz_app.views.compare import matches, text

PLACES = ((0, 0), (0, 1), (1, 0))


def kind_of(mean: list[list[float]]) -> KindDistances:
    own = torch.zeros(1, 1, 2)
    return KindDistances("self", "Self", PLACES, PLACES, torch.tensor(mean), own, ("tokens",))


def finished(kind: KindDistances, null: list[float] | None = None) -> MatchedHeads:
    drawn = {} if null is None else {"self": null}
    return MatchedHeads((kind,), drawn, ("a", "b", "c") if null else (), 200)


CROSSED = kind_of([[0.9, 0.1, 0.8], [0.2, 0.7, 0.6], [0.4, 0.3, 0.5]])  # 1 → 2, 2 → 1, 3 → 3


def run_to_the_end(steps: Generator[int, None, MatchedHeads]) -> tuple[list[int], MatchedHeads]:
    done: list[int] = []
    while True:
        try:
            done.append(next(steps))
        except StopIteration as end:
            return done, end.value


def test_steps_end_in_the_result_measured_at_once() -> None:
    names = ["dates", "dates-seed-2", "dates-seed-3", "dates-seed-4"]
    first, second, *seeds = (models.load(name, device="cpu") for name in names)
    texts = common_texts([first, second, *seeds], None, 11)
    done, last = run_to_the_end(measured_steps(first, second, seeds, texts))
    assert done == [8, 11, 19, 22]
    assert n_steps(len(texts), len(seeds)) == 22
    at_once = mean_distances(
        zip(runs(first, texts, first), runs(second, texts, first), strict=True)
    )
    for one, other in zip(last.kinds, at_once, strict=True):
        torch.testing.assert_close(one.mean, other.mean, atol=1e-6, rtol=0)
    null = null_distances(
        [mean_distances(zip(*(runs(s, texts, first) for s in seeds), strict=True))]
    )
    assert last.null.keys() == null.keys()
    for kind, values in null.items():
        assert last.null[kind] == pytest.approx(values, abs=1e-6)


def test_within_a_model_a_head_has_distance_0_from_itself() -> None:
    scope = models.load("dates", device="cpu")
    texts = common_texts([scope], None, 9)
    _, last = run_to_the_end(measured_steps(scope, scope, [], texts))
    for one, other in zip(last.kinds, similarity_within(runs(scope, texts, scope)), strict=True):
        torch.testing.assert_close(one.mean, other.mean, atol=1e-6, rtol=0)
        assert not one.mean.diagonal().any()


def test_the_other_seeds_of_dates_are_found() -> None:
    scope = models.load("dates", device="cpu")
    assert set(other_seeds(scope)) == {f"dates-seed-{n}" for n in (2, 3, 4, 5)}
    assert other_seeds(models.load("gpt", device="cpu")) == ()


def test_the_table_holds_matches_margins_and_p() -> None:
    found = match_heads(CROSSED, [0.15, 0.3])
    rows = matches.match_rows(found)
    assert [row[:2] for row in rows] == [("L1 H1", "L1 H2"), ("L1 H2", "L1 H1"), ("L2 H1", "L2 H1")]
    assert [row[3] for row in rows] == pytest.approx([0.7, 0.4, -0.2], abs=1e-3)
    assert [row[4] for row in rows] == pytest.approx([1 / 3, 2 / 3, 1.0], abs=1e-3)


def test_the_sentence_counts_matches_and_reverses() -> None:
    said = matches.matched_sentence(finished(CROSSED), CROSSED, match_heads(CROSSED))
    assert "1 of 3 heads are matched to the head of the same layer and number" in said
    assert "In 2 of 3 matches, the matched head is also the nearest one." in said
    assert "There are no other seeds" in said
    same = replace(CROSSED, mean=1 - torch.eye(3))
    said = matches.matched_sentence(finished(same), same, match_heads(same))
    assert "3 of 3 heads are matched" in said
    null = [0.5] * 39
    said = matches.matched_sentence(finished(same, null), same, match_heads(same, null))
    assert "3 of 3 are closer than 95 % of 39 matches between 3 other seeds" in said
    for n_closer, n in ((39, 0), (2, 0), (1, 3)):  # p = (1 + 2) / 40 and (1 + 1) / 40
        null = [0.0] * n_closer + [0.5] * (39 - n_closer)
        said = matches.matched_sentence(finished(same, null), same, match_heads(same, null))
        assert f"{n} of 3 are closer" in said


@pytest.mark.parametrize("n", [4, 18, 19])
def test_a_null_distribution_too_small_for_its_level_is_mentioned(n: int) -> None:
    """With fewer than 19 other matches, a head closer than all of them still has p above 0.05."""
    kind = kind_of([[0.01, 0.5], [0.5, 0.01]])
    found = match_heads(kind, [0.5] * n)
    is_enough = all(one.p <= 0.05 for one in found)
    said = matches.matched_sentence(finished(kind, [0.5] * n), kind, found)
    assert (f"2 of 2 are closer than 95 % of {n} matches" in said) is is_enough
    assert (f"{n} matches between 3 other seeds are too few" in said) is not is_enough


def test_the_most_similar_heads_are_named() -> None:
    mean = torch.tensor([[0.0, 0.4, 0.3], [0.4, 0.0, 0.2], [0.3, 0.2, 0.0]])
    kind = replace(CROSSED, mean=mean)
    assert matches.within_sentence(kind).startswith("L1 H2 and L2 H1 are most alike: 0.200 bits")
    assert [row[1] for row in matches.nearest_rows(kind)] == ["L2 H1", "L2 H1", "L1 H2"]
    assert np.isfinite([float(str(row[2])) for row in matches.nearest_rows(kind)]).all()
    mean = torch.tensor([[0.0, 0.2004, 0.3], [0.2004, 0.0, 0.2003], [0.3, 0.2003, 0.0]])
    said = matches.within_sentence(replace(CROSSED, mean=mean))
    assert said.startswith("L1 H2 and L2 H1 are most alike")  # of numbers from one distribution


def test_the_only_head_of_a_model_is_the_nearest() -> None:
    alone = kind_of([[0.25]])
    found = match_heads(alone)
    assert [one.margin for one in found] == [None]
    assert matches.matched_sentence(finished(alone), alone, found).startswith(
        text.matches_sentence(1, 1, 1)
    )
    assert matches.match_rows(found)[0][3] is None


def test_the_file_holds_every_pair_of_heads() -> None:
    rows = matches.match_table(finished(CROSSED))
    assert [row[-1] for row in rows] == pytest.approx(CROSSED.mean.flatten().tolist())


def test_the_file_names_its_models_and_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "matched_heads", lambda first, second: finished(CROSSED))
    first, second = (models.load(name, device="cpu") for name in ("eng-fra", "dates"))
    typed = "A typed sentence."
    run, other = (CurrentRun(scope, scope.run(typed)) for scope in (first, second))
    beside = matches.MatchChoices(second, "cross", of_model(other.trace))
    (file,) = matches.match_files(run, beside)
    about = file.about(run)
    names = [about["model (first)"], about["model (second)"]]
    assert names == ["eng-fra", "dates"]
    assert about["fingerprint (second)"] == second.fingerprint[:12]
    assert about["texts"] == f"200 held out, from {first.training['data']['file']}"
    assert not any(typed in value for value in about.values())
    (file,) = matches.match_files(other, beside)
    about = file.about(other)
    assert (about["model"], "fingerprint (second)" in about) == ("dates", False)
    assert about["texts"] == f"200 held out, from {second.training['data']['generator']}"


def test_a_match_is_clear_only_if_every_other_head_is_further_away() -> None:
    tied = kind_of([[0.1, 0.1, 0.8], [0.9, 0.2, 0.6], [0.7, 0.6, 0.3]])
    found = match_heads(tied)
    assert sorted(round(one.margin, 3) for one in found) == [0.0, 0.3, 0.4]
    said = matches.matched_sentence(finished(tied), tied, found)
    assert said.startswith(text.matches_sentence(3, 3, 2))


def test_each_axis_of_the_chart_names_its_own_model() -> None:
    drawn = matches.match_chart(CROSSED, match_heads(CROSSED), "one", "other").to_dict()
    for layer in drawn["layer"]:
        titles = {side: layer["encoding"][side].get("title") for side in ("x", "y")}
        assert titles == {"x": "heads of other", "y": "heads of one"}
        assert layer["encoding"]["x"]["field"] == "second"
