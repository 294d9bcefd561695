"""The gradient's estimates in the section Patch: a point per head, a sentence that follows from them, and a check of the largest."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hub_models import BY_NAME
from test_patch_section import both, choices, run_of

import models
from models.analysis import attribution_patching
from models.number_text import decimal
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import patch_effects, patch_gradient, patch_payloads
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.patch_payloads import patch_section_payloads

NAMES = ["eng-fra", "gpt", "bert", "bert-where", "xlnet", "dates-bahdanau", "gpt-sentiment"]


def drawn(name: str, **other: object) -> dict:
    return patch_section_payloads(run_of(name), choices(name, part="gradient", **other))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", NAMES)
def test_the_points_are_the_heads_of_both_boards(name: str) -> None:
    scatter = drawn(name)["scatter"]
    boards = patch_section_payloads(run_of(name), choices(name))["patch"]["panels"]
    for panel, board in zip(scatter["panels"], boards, strict=True):
        exact = {
            (site, head): effect
            for kind in board["kinds"]
            for site, effects in zip(kind["sites"], kind["effects"], strict=True)
            for head, effect in enumerate(effects)
        }
        assert {(p["site"], p["head"]): p["exact"] for p in panel["points"]} == pytest.approx(exact)
        titles = [kind["title"] for kind in board["kinds"]]
        assert [panel["kinds"][p["kind"]] for p in panel["points"]] == [
            titles[next(i for i, kind in enumerate(board["kinds"]) if p["site"] in kind["sites"])]
            for p in panel["points"]
        ]


@pytest.mark.parametrize("name", ["eng-fra", "gpt"])
def test_the_guesses_and_r_are_those_of_the_analysis(name: str) -> None:
    two = both(name)
    for panel, side in zip(drawn(name)["scatter"]["panels"], ("needed", "enough"), strict=True):
        base, source = two.sides(side)
        found = attribution_patching(base.scope, base.trace, source.trace, two.metric(side))
        guesses = torch.cat([values.flatten() for values in found.estimated.values()]).tolist()
        assert [point["guess"] for point in panel["points"]] == pytest.approx(guesses, abs=1e-4)
        points = torch.tensor([[p["exact"], p["guess"]] for p in panel["points"]]).double().T
        r = float(torch.corrcoef(points)[0, 1])
        assert f"{len(guesses)} heads, r = {say.correlation(r)}." in panel["sentence"]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", NAMES)
def test_the_largest_guess_is_the_slope_of_two_passes(name: str) -> None:
    lines = drawn(name)["checks"]["rows"]
    assert not [line for look, line in lines if look == "failed"]
    assert any(look == "passed" and say.SLOPE_NAME in line for look, line in lines)


def test_a_guess_with_the_wrong_sign_fails_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = patch_gradient.cache.cached_estimated_effects
    monkeypatch.setattr(
        patch_gradient.cache,
        "cached_estimated_effects",
        lambda *args: {kind: -values for kind, values in whole(*args).items()},
    )
    lines = drawn("eng-fra")["checks"]["rows"]
    assert any(look == "failed" and say.SLOPE_NAME in line for look, line in lines)


def test_shares_of_the_gap_scale_both_and_keep_r() -> None:
    plain, share = drawn("eng-fra")["scatter"], drawn("eng-fra", unit="share")["scatter"]
    gap = both("eng-fra").gap
    assert share["unit"] == "share of the gap"
    for one, other, sign in zip(plain["panels"], share["panels"], (-1, 1), strict=True):
        for a, b in zip(one["points"], other["points"], strict=True):
            assert b["exact"] == pytest.approx(sign * a["exact"] / gap, abs=1e-5)
            assert b["guess"] == pytest.approx(sign * a["guess"] / gap, abs=1e-5)
        assert re.search("r = [−.0-9]+", one["sentence"]) is not None
        assert one["sentence"].split(".")[:2] == other["sentence"].split(".")[:2]
    assert not [x for x in drawn("eng-fra", unit="share")["checks"]["rows"] if x[0] == "failed"]


def test_the_sentence_names_the_head_that_is_furthest_off_with_both_signs() -> None:
    panel = drawn("eng-fra")["scatter"]["panels"][0]
    worst = max(panel["points"], key=lambda p: abs(p["exact"] - p["guess"]))
    both = [decimal(worst[one], 2) for one in ("guess", "exact")]
    end = f"{worst['label']} (estimate {both[0]}, exact {both[1]})."
    assert panel["sentence"].endswith(end)
    assert "r = −0.50" in say.agreement(-0.5, 8, "here", 1.0, -1.0)
    assert "(estimate 1.00, exact −1.00)" in say.agreement(0.5, 8, "here", 1.0, -1.0)
    assert "(estimate 0.0040, exact −0.0030)" in say.agreement(0.5, 8, "here", 0.004, -0.003)
    assert say.agreement(float("nan"), 1, "here", 0.0, 1.0).startswith("1 head, so no correlation")
    assert [say.correlation(r) for r in (1.0, 0.9965, -0.99996, 0.5)] == [
        "1.00", "0.997", "−1.00", "0.50",
    ]  # fmt: skip
    assert "never changes" in say.agreement(float("nan"), 8, "here", 0.0, 1.0)


def test_a_text_of_another_length_moves_only_aligned_positions() -> None:
    run = run_of("eng-fra")
    shown = patch_section_payloads(
        run, choices("eng-fra", second=("The big cat is black.",), part="gradient")
    )
    assert not [line for look, line in shown["checks"]["rows"] if look == "failed"]
    n_heads = sum(site.n_heads for site in run.trace.attention.values())
    assert all(len(panel["points"]) == n_heads for panel in shown["scatter"]["panels"])


def test_texts_that_are_too_long_have_no_heads_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch_effects, "MAX_PATCH_WORK", 100)
    scatter = drawn("eng-fra")["scatter"]
    assert [(panel["points"], panel["sentence"]) for panel in scatter["panels"]] == [
        ([], say.too_long("text"))
    ] * 2


def test_the_table_holds_the_guess_of_each_head() -> None:
    asked = choices("eng-fra", part="gradient")
    head, *rows = patch_payloads.patch_table(run_of("eng-fra"), asked)
    assert head[-1] == "gradient estimate"
    points = [p for panel in drawn("eng-fra")["scatter"]["panels"] for p in panel["points"]]
    assert [(row[4], row[6]) for row in rows] == [(p["exact"], p["guess"]) for p in points]
    attention = run_of("eng-fra").trace.attention
    places = [(attention[p["site"]].layer + 1, p["head"] + 1) for p in points]
    assert [tuple(row[2:4]) for row in rows] == places
    plain, *effects = patch_payloads.patch_table(run_of("eng-fra"), replace(asked, part="residual"))
    assert plain == head[:-1]
    by_head = {tuple(row[:4]): row[4] for row in effects if isinstance(row[3], int)}
    assert by_head == {tuple(row[:4]): pytest.approx(row[4], abs=1e-5) for row in rows}


def test_a_patched_head_is_marked() -> None:
    two = both("eng-fra")
    site = "decoder.layers.2.cross_attn"
    edit = two.patch("enough", patch_gradient.Where(site=site, heads=(5,)))
    panels = drawn("eng-fra", side="enough", other_edits=(edit,))["scatter"]["panels"]
    taken = [(p["site"], p["head"]) for p in panels[1]["points"] if p["taken"]]
    assert taken == [(site, 5)]
    assert not any(p["taken"] for p in panels[0]["points"])


def test_a_guess_in_half_precision_is_not_checked_by_a_small_step(tmp_path: Path) -> None:
    BY_NAME["LlamaForCausalLM"].make().to(torch.bfloat16).save_pretrained(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    run = CurrentRun(scope, scope.run("5 6 7 8 9"))
    drawn = patch_section_payloads(
        run, replace(choices("gpt", part="gradient"), second=("5 6 4 8 9",))
    )
    lines = drawn["checks"]["rows"]
    assert not [line for look, line in lines if look == "failed" or say.SLOPE_NAME in line]
    sentences = [panel["sentence"] for panel in drawn["scatter"]["panels"]]
    assert ["bfloat16" in sentence for sentence in sentences] == [True, False]
