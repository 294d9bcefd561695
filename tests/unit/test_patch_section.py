"""The section Patch: its numbers are those of patched runs, its sentences give the right direction, and its examples work."""

import math
import re
from dataclasses import replace
from functools import cache

import pytest
import torch
from recurrence_by_hand import logits_by_hand

import models
from models.analysis.cells import cell_effects
from models.analysis.metrics import logits_of
from models.layers.masks import LOOK_AHEAD
from models.number_text import decimal
from models.trace import Trace
from models.trace.edits import HeadOff, MaskChange, Patch, Where
from viz_app.input_bar.examples import readable_examples
from viz_app.session.cache import changed_run
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import findings, patch, patch_effects, patch_payloads, state
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.patch_effects import PatchChoices
from viz_app.views.interventions.patch_grids import grids, has_stream
from viz_app.views.interventions.patch_payloads import PATCH_NOTE, patch_section_payloads
from viz_app.views.interventions.patch_runs import Two, level, two_runs
from viz_app.views.interventions.second_text import propose_second_text

# model → a text and another one with as many tokens
TEXTS = {
    "eng-fra": (("The cat is black.",), ("The dog is black.",)),
    "gpt": (("The boy said that",), ("The girl said that",)),
    "bert": (("He forgot [MASK] umbrella.",), ("She forgot [MASK] umbrella.",)),
    "bert-where": (
        ("Where is Mary?", "Mary went to the kitchen. John moved to the garden."),
        ("Where is John?", "Mary went to the kitchen. John moved to the garden."),
    ),
    "xlnet": (("This is a good idea.",), ("This is a bad idea.",)),
    "eng-fra-rnn": (("The cat is black.",), ("The dog is black.",)),
    "eng-fra-bahdanau": (("The cat is black.",), ("The dog is black.",)),
    "dates-bahdanau": (("15 May 2024",), ("15 May 2025",)),
    "dates-stacked": (("15 May 2024",), ("15 May 2025",)),
    "gpt-sentiment": (("The food was good.",), ("The food was bad.",)),
}
LONGER = {"eng-fra": ("The big cat is black.",), "gpt": ("The little girl said that",)}


@cache
def run_of(name: str) -> CurrentRun:
    scope = models.load(name, device="cpu")
    return CurrentRun(scope, scope.run(*TEXTS[name][0]))


def choices(name: str, **other: object) -> PatchChoices:
    usual = PatchChoices(TEXTS[name][1], (), None, "", "residual", "difference", "needed", ())
    return replace(usual, **other)


def both(name: str, second: tuple[str, ...] = ()) -> Two:
    two = two_runs(run_of(name), second or TEXTS[name][1], None)
    assert isinstance(two, Two)
    return two


def value(two: Two, side: str, trace: Trace) -> float:
    """Return the measured value by hand: the difference of two logits, or one log-probability in float64."""
    metric = two.metric(side)
    row = logits_of(trace.outputs)[metric.position].double()
    if two.rival is None:
        return float(row[metric.token] - row.logsumexp(-1))
    return float(row[two.decision.option] - row[two.rival])


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("side", ["needed", "enough"])
@pytest.mark.parametrize("name", TEXTS)
def test_each_number_is_a_run_with_one_patch(name: str, side: str) -> None:
    two, scope = both(name), run_of(name).scope
    base, _ = two.sides(side)
    drawn = patch_section_payloads(run_of(name), choices(name))["patch"]
    (panel,) = [one for one in drawn["panels"] if one["side"] == side]
    values = values_of(base.trace)
    before = value(two, side, base.trace)
    wheres = []
    grid = panel["grid"]
    for i, cell in {(0, 1), (len(grid["names"]) - 1, len(grid["tokens"]) - 2)}:
        where = Where(activation=grid["names"][i], queries=(cell,))
        wheres.append((where, grid["effects"][i][cell]))
    for kind in panel["kinds"]:
        where = Where(site=kind["sites"][-1], heads=(kind["heads"] - 1,))
        wheres.append((where, kind["effects"][-1][-1]))
    for where, effect in wheres:
        after = scope.run_batch([values], edits=[two.patch(side, where)])[0]
        assert effect == pytest.approx(value(two, side, after) - before, abs=2e-4), where


def values_of(trace: Trace) -> tuple:
    """Return the fields of a run; for a translation the rows that it read."""
    if "target" in trace.streams:
        return tuple(trace.streams.values())
    return tuple(trace.fields.values())


@pytest.mark.parametrize("name", TEXTS)
def test_every_check_passes(name: str) -> None:
    lines = patch_section_payloads(run_of(name), choices(name))["checks"]["rows"]
    assert not [line for look, line in lines if look == "failed"]
    passed = [line for look, line in lines if look == "passed"]
    for check in ("the strongest cell alone", "patched with itself: 0", "everything patched"):
        assert any(check in line for line in passed), check


@pytest.mark.parametrize("name", TEXTS)
def test_patching_everything_closes_the_whole_gap(name: str) -> None:
    """In both directions, the patch is the input of all differing tokens, or the last layer where the answer is read."""
    two = both(name)
    assert two.gap == pytest.approx(
        value(two, "needed", two.this.trace) - value(two, "enough", two.other.trace), abs=1e-4
    )
    if abs(two.gap) < patch_effects.MIN_GAP:
        return
    drawn = patch_section_payloads(run_of(name), choices(name, unit="share"))["patch"]
    assert drawn["unit"] == "of the gap"
    plain = patch_section_payloads(run_of(name), choices(name))["patch"]
    for one, other, sign in zip(drawn["panels"], plain["panels"], (-1, 1), strict=True):
        for shares, effects in zip(one["grid"]["effects"], other["grid"]["effects"], strict=True):
            assert shares == pytest.approx([sign * x / two.gap for x in effects], abs=1e-4)


def test_one_changed_word_is_enough_at_the_input() -> None:
    drawn = patch_section_payloads(run_of("eng-fra"), choices("eng-fra", unit="share"))["patch"]
    for panel in drawn["panels"]:
        shares = panel["grid"]["effects"][0]
        assert shares[1] == pytest.approx(1, abs=1e-4)  # The cat
        assert [x for i, x in enumerate(shares) if i != 1] == [0.0] * (len(shares) - 1)


def test_the_picture_names_the_measured_quantity() -> None:
    two = both("eng-fra")
    drawn = patch_section_payloads(run_of("eng-fra"), choices("eng-fra"))["patch"]
    this, other = (level(two.metric(s), two.sides(s)[0].trace) for s in ("needed", "enough"))
    assert f"logit({two.decision.label.text}) − logit({two.rival_name})" in drawn["measured"]
    assert f"{decimal(this, 2)} in this text, {decimal(other, 2)} in the other" in drawn["measured"]
    assert this > 0 > other


@pytest.mark.parametrize(("part", "key"), [("residual", "patch"), ("gradient", "scatter")])
def test_files_name_the_other_text_and_the_decision(part: str, key: str) -> None:
    run = run_of("gpt")
    for second, position in (("The girl said that", 0), ("The boy knew that", 2)):
        chosen = choices("gpt", second=(second,), position=position, part=part)
        (file,) = patch.PATCHING.files(run, chosen)
        drawn = patch_section_payloads(run, chosen)[key]
        two = two_runs(run, (second,), position)
        assert isinstance(two, Two)
        measured = say.measure(two.decision.label.text, two.rival_name)
        for about in (
            dict(file.about(run)),
            dict(line.split(": ", 1) for line in drawn["about"].splitlines()),
        ):
            assert about["text"] == "The boy said that"
            assert about["other run's text"] == second
            assert about["decision"].startswith(f"{position}, ")
            assert about["measured by"] == measured
        for name in (file.name, drawn["file"]):
            assert f".decision{position + 1}." in name
            assert part in name
        if key == "patch":
            assert measured in drawn["measured"]


@pytest.mark.parametrize(("part", "key"), [("residual", "patch"), ("gradient", "scatter")])
def test_no_file_is_named_after_shares_if_the_gap_is_too_small_for_them(
    part: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, chosen = run_of("gpt"), choices("gpt", part=part, unit="share")
    for least in (patch_effects.MIN_GAP, math.inf):
        monkeypatch.setattr(patch_effects, "MIN_GAP", least)
        (file,) = patch.PATCHING.files(run, chosen)
        drawn = patch_section_payloads(run, chosen)[key]
        for name in (file.name, drawn["file"]):
            assert ("share" in name) == (least < math.inf)
        assert ("too small for shares" in drawn["hint"]) == (least == math.inf)


def test_the_table_distinguishes_equal_tokens() -> None:
    scope = models.load("gpt", device="cpu")
    run = CurrentRun(scope, scope.run("the cat and the cat"))
    table = patch_payloads.patch_table(run, choices("gpt", second=("the dog and the cat",)))
    cells = [tuple(row[:4]) for row in table if isinstance(row[3], str)]
    assert len(set(cells)) == len(cells)


@pytest.mark.parametrize(("part", "key"), [("residual", "patch"), ("gradient", "scatter")])
def test_a_picture_names_no_edit_that_its_numbers_are_without(part: str, key: str) -> None:
    run, two, chosen = run_of("gpt"), both("gpt"), choices("gpt", part=part)
    opened = MaskChange(Where(kind="self"), removed_layers=(LOOK_AHEAD,))
    taken = two.patch("needed", Where(site="decoder.layers.1.self_attn", heads=(2,)))
    for edits, named in (((opened,), False), ((opened, taken), True)):
        edited = changed_run(run, replace(run.spec, edits=edits))
        about = patch_section_payloads(edited, chosen)[key]["about"]
        assert "look-ahead" not in about
        assert ("changed: decoder.layer2.self_attn" in about) == named


@pytest.mark.parametrize(("part", "key"), [("residual", "patch"), ("gradient", "scatter")])
def test_a_picture_names_what_is_taken_into_the_other_run(part: str, key: str) -> None:
    two = both("gpt")
    taken = two.patch("enough", Where(site="decoder.layers.1.self_attn", heads=(2,)))
    for edits in ((), (taken,)):
        chosen = choices("gpt", part=part, other_edits=edits)
        about = patch_section_payloads(run_of("gpt"), chosen)[key]["about"]
        assert ("other run changed: decoder.layer2.self_attn" in about) == bool(edits)
        assert "\nchanged" not in about


def test_the_decision_is_numbered_in_the_text_that_is_longer() -> None:
    run, second = run_of("gpt"), ("The girl said that he",)
    drawn = patch_section_payloads(run, choices("gpt", second=second))["patch"]
    n, m = (len(run.scope.encode(text)["text"].ids) for text in ("The boy said that", *second))
    assert n < m
    assert f"decision {n}:" in drawn["measured"]
    assert drawn["measured"].endswith(f"in the other at decision {m}")


def test_files_name_both_texts_of_both_runs() -> None:
    scope = models.load("bert", device="cpu")
    ours, theirs = (
        ("He forgot [MASK] umbrella.", "It was raining."),
        ("She forgot [MASK] umbrella.", "It was dry."),
    )
    run = CurrentRun(scope, scope.run(*ours))
    chosen = choices("bert", second=theirs)
    (file,) = patch.PATCHING.files(run, chosen)
    drawn = patch_section_payloads(run, chosen)["patch"]
    for about in (
        dict(file.about(run)),
        dict(line.split(": ", 1) for line in drawn["about"].splitlines()),
    ):
        assert (about["text"], about["second text"]) == ours
        assert (about["other run's text"], about["other run's second text"]) == theirs


def test_files_name_the_hidden_tokens_of_both_runs() -> None:
    scope = models.load("bert", device="cpu")
    run = CurrentRun(scope, scope.run("I am very old, said the dog.", None, (4,)))
    (file,) = patch.PATCHING.files(run, choices("bert", second=("I am not old, said the dog.",)))
    about = file.about(run)
    assert about["read as"] == "I am very [MASK], said the dog."
    assert about["other run's text"] == "I am not old, said the dog."
    assert about["other run read as"] == "I am not [MASK], said the dog."


@pytest.mark.parametrize("name", ["eng-fra", "gpt", "bert-where", "dates-bahdanau"])
def test_the_sentence_names_the_strongest_cell_and_its_direction(name: str) -> None:
    drawn = patch_section_payloads(run_of(name), choices(name))["patch"]
    for panel in drawn["panels"]:
        grid = panel["grid"]
        every = [
            (effect, f"“{token[0]}” ({layer})")
            for layer, line in zip(grid["layers"], grid["effects"], strict=True)
            for token, effect in zip(grid["tokens"], line, strict=True)
        ]
        effect, place = max(every, key=lambda one: abs(one[0]))
        way = "lowers" if effect < 0 else "raises"
        assert panel["sentence"].startswith(f"{place} {way} it by {abs(effect):.2f}")


def test_a_reversed_direction_reverses_the_sentence() -> None:
    assert "lowers it by 1.00" in say.strongest_part_sentence("Here", -1.0, "logits")
    assert "raises it by 1.00" in say.strongest_part_sentence("Here", 1.0, "logits")
    assert "raises it by 0.0030" in say.strongest_part_sentence("Here", 0.003, "logits")
    assert say.strongest_part_sentence("Here", 0.5, "share") == "Here takes away 50 % of the gap."
    assert say.strongest_part_sentence("Here", -0.5, "share") == "Here widens the gap by 50 %."
    assert say.gap_share_sentence("Here", 0.5) == "Here closes 50 % of the gap."
    assert say.gap_share_sentence("Here", 0.99787) == "Here closes 99.8 % of the gap."
    assert say.gap_share_sentence("Here", 1.004) == "Here closes 100 % of the gap."
    assert say.gap_share_sentence("Here", 0.001) == "Here closes 0.1 % of the gap."
    assert say.gap_share_sentence("Here", -0.5) == "Here widens the gap by 50 %."
    assert "only deeper layers, only the same and later tokens" in say.patch_reach_text(
        3, 9, 0, 0, 2
    )
    assert "earlier layers too, only the same and earlier tokens" in say.patch_reach_text(
        3, 9, 1, 2, 0
    )
    assert "tokens on both sides" in say.patch_reach_text(3, 9, 0, 1, 1)
    assert "no other token" in say.patch_reach_text(3, 9, 0, 0, 0)


@pytest.mark.parametrize("unit", ["difference", "share"])
def test_rounding_errors_are_not_an_effect_of_a_part(unit: str) -> None:
    """In a causal model, the tokens of the common beginning have the same states."""
    scope = models.load("gpt", device="cpu")
    run, asked = CurrentRun(scope, scope.run("The boy")), choices("gpt", unit=unit)
    panels = patch_section_payloads(run, replace(asked, second=("The boy said that",)))["patch"]
    panel = panels["panels"][0]
    assert panel["side"] == "needed"
    cells, *rest = panel["sentence"].split(". ")
    assert cells.startswith("No cell changes it by 0.0001 ")
    assert not any("part" in sentence for sentence in rest)


def test_a_patched_state_of_a_recurrence_propagates_as_by_hand() -> None:
    """The state after [start] decides the noun, which is written one token later."""
    run, two = run_of("eng-fra-rnn"), both("eng-fra-rnn")
    drawn = patch_section_payloads(run, choices("eng-fra-rnn", stream="target"))["patch"]
    grid = drawn["panels"][0]["grid"]
    effects = dict(zip(grid["names"], grid["effects"], strict=True))["decoder.states"]
    states: dict[int, torch.Tensor] = {}

    def keep(name: str, i: int, vector: torch.Tensor, half: int) -> torch.Tensor:
        if name == "decoder.states":
            states[i] = vector
        return vector

    def first(name: str, i: int, vector: torch.Tensor, half: int) -> torch.Tensor:
        return states[0] if (name, i) == ("decoder.states", 0) else vector

    with torch.no_grad():
        target = list(two.this.trace.streams["target"].ids)
        this, other = (list(r.trace.streams["source"].ids) for r in (two.this, two.other))
        logits_by_hand(run.scope.model, other, target, keep)
        before, after = (
            logits_by_hand(run.scope.model, this, target, *change)[two.row]
            for change in ((), (first,))
        )
    change = (after - before)[two.decision.option] - (after - before)[two.rival]
    assert two.row == 1
    assert effects[0] == pytest.approx(float(change), abs=1e-3)
    assert effects[0] == pytest.approx(-8.946, abs=1e-2)
    assert say.STATES_GO_ON in patch.PATCHING.text(run, choices("gpt"))
    assert say.STATES_GO_ON in say.part_help(has_stream(run.scope), run.scope.model.is_recurrent)
    assert say.STATES_GO_ON not in patch.PATCHING.text(run_of("gpt"), choices("gpt"))


@pytest.mark.parametrize("name", ["eng-fra-rnn", "eng-fra-bahdanau"])
def test_each_state_of_one_pass_equals_a_separate_run(name: str) -> None:
    two, scope = both(name), run_of(name).scope
    trace, other = two.this.trace, two.other.trace
    for stream in ("source", "target"):
        names = [n for n, a in trace.activations.items() if a.axes[1] == stream and "states" in n]
        (place,) = names
        together = cell_effects(scope, trace, two.metric("needed"), other, names)[0]
        before = value(two, "needed", trace)
        for j in (0, 1, len(together) - 1):
            edit = two.patch("needed", Where(activation=place, queries=(j,)))
            after = scope.run_batch([values_of(trace)], edits=[edit])[0]
            expected = value(two, "needed", after) - before
            assert float(together[j]) == pytest.approx(expected, abs=1e-4), (place, j)


def test_the_rows_of_a_recurrence_are_not_called_layers() -> None:
    run, two = run_of("eng-fra-bahdanau"), both("eng-fra-bahdanau")
    for place, stream, side in (
        ("encoder.states", "source", "tokens on both sides"),
        ("decoder.states", "target", "only the same and later tokens"),
    ):
        edit = two.patch("needed", Where(activation=place, queries=(1,)))
        edited = changed_run(run, replace(run.spec, edits=(edit,)))
        drawn = patch_section_payloads(edited, choices("eng-fra-bahdanau", stream=stream))["patch"]
        assert side in drawn["hint"]
        assert "layers" not in drawn["hint"]


def test_a_token_between_two_patches_is_reached_too() -> None:
    run, two = run_of("gpt"), both("gpt")
    names = grids(run.scope, run.trace, "residual")[0].names
    edits = tuple(two.patch("needed", Where(activation=names[2], queries=(j,))) for j in (2, 4))
    edited = changed_run(run, replace(run.spec, edits=edits))
    drawn = patch_section_payloads(edited, choices("gpt"))["patch"]
    moved = torch.tensor(drawn["panels"][0]["grid"]["moved"])
    assert moved[:, 3].any()
    assert not moved[:, 5:].any()
    assert "only the same and later tokens" in drawn["hint"]


@pytest.mark.parametrize(("name", "is_causal"), [("gpt", True), ("eng-fra", False)])
def test_the_reach_is_what_the_patch_changes(name: str, is_causal: bool) -> None:
    run, two = run_of(name), both(name)
    grid = grids(run.scope, run.trace, "residual")[0]
    edit = two.patch("needed", Where(activation=grid.names[1], queries=(2,)))
    edited = changed_run(run, replace(run.spec, edits=(edit,)))
    drawn = patch_section_payloads(edited, choices(name))["patch"]
    panel = drawn["panels"][0]
    assert panel["grid"]["taken"][1][2] is True
    assert sum(map(sum, panel["grid"]["taken"])) == 1
    moved = torch.tensor(panel["grid"]["moved"]) > 0
    for i, layer in enumerate(grid.names):
        own, now = (t.activations[layer].value[0] for t in (run.trace, edited.trace))
        wanted = (now - own).norm(dim=-1) / own.norm(dim=-1) > patch_payloads.MIN_MOVE
        assert torch.equal(moved[i], wanted)
    assert not moved[0].any()
    assert not moved[1, [0, 1]].any()
    assert bool(moved[2, :2].any()) != is_causal
    side = "only the same and later tokens" if is_causal else "tokens on both sides"
    assert "only deeper layers" in drawn["hint"]
    assert side in drawn["hint"]
    shown = patch_section_payloads(edited, choices(name))["outcome"]
    assert [answer["whose"] for answer in shown["answers"]] == [
        "This text", "Other text", "This text, patched",
    ]  # fmt: skip


def test_the_other_run_is_patched_if_its_side_is_chosen() -> None:
    run, two = run_of("eng-fra"), both("eng-fra")
    name = "encoder.layers.2.resid_post"
    edits = tuple(two.patch("enough", Where(activation=name, queries=(i,))) for i in range(6))
    drawn = patch_section_payloads(run, choices("eng-fra", side="enough", other_edits=edits))
    words = {answer["whose"]: answer["words"] for answer in drawn["outcome"]["answers"]}
    assert words["Other text, patched"] == words["This text"] != words["Other text"]
    taken = drawn["patch"]["panels"][1]["grid"]["taken"]
    assert taken[-1] == [True] * 6
    assert not any(map(any, drawn["patch"]["panels"][0]["grid"]["taken"]))


@pytest.mark.parametrize("name", LONGER)
def test_texts_of_different_lengths_are_aligned_at_both_ends(name: str) -> None:
    run, second = run_of(name), LONGER[name]
    two = both(name, second)
    stream = run.scope.model.fields[0].stream
    here, there = (one.trace.streams[stream].ids for one in (two.this, two.other))
    pairs = two.pairs("needed", stream)
    assert all(here[i] == there[j] for i, j in pairs)
    assert {(j, i) for i, j in pairs} == set(two.pairs("enough", stream))
    drawn = patch_section_payloads(run, choices(name, second=second))
    assert f"common beginning and end: {len(pairs)}." in drawn[PATCH_NOTE]["rows"][0][1]
    grid = drawn["patch"]["panels"][0]["grid"]
    assert [i for i, yes in enumerate(grid["aligned"]) if yes] == [i for i, _ in pairs]
    for line in grid["effects"]:
        assert [x is not None for x in line] == grid["aligned"]
    i, _ = pairs[-1]
    where = Where(activation=grid["names"][-1], queries=(i,))
    after = run.scope.run_batch([values_of(two.this.trace)], edits=[two.patch("needed", where)])[0]
    change = value(two, "needed", after) - value(two, "needed", two.this.trace)
    assert grid["effects"][-1][i] == pytest.approx(change, abs=2e-4)


MARY, JOHN = TEXTS["bert-where"][0], "Where is John now?"


@pytest.mark.parametrize(
    "second", [(JOHN, MARY[1]), (MARY[0], f"{MARY[1]} Sandra went to the office.")]
)
@pytest.mark.parametrize("side", ["needed", "enough"])
def test_spans_of_texts_of_different_lengths_are_compared_at_their_tokens(
    second: tuple[str, str], side: str
) -> None:
    """The measured value is named by the words of the answers, and a cell equals a run with one patch."""
    two = both("bert-where", second)
    base, _ = two.sides(side)
    tokens = base.trace.streams["text"].tokens
    logits = logits_of(base.trace.outputs)[two.row].double()
    wanted = {tokens.index(two.this.trace.output), tokens.index(two.other.trace.output)}
    if len(wanted) > 1:
        one, other = (tokens.index(run.trace.output) for run in (two.this, two.other))
        measured = float(logits[one] - logits[other])
    else:
        measured = float(logits.log_softmax(-1)[wanted.pop()])
    assert level(two.metric(side), base.trace) == pytest.approx(measured, abs=1e-4)
    drawn = patch_section_payloads(run_of("bert-where"), choices("bert-where", second=second))[
        "patch"
    ]
    (panel,) = [one for one in drawn["panels"] if one["side"] == side]
    grid = panel["grid"]
    assert [one is not None for one in grid["effects"][0]] == grid["aligned"]
    assert not all(grid["aligned"]) or side == "needed"
    i = max(j for j, yes in enumerate(grid["aligned"]) if yes)
    name = grid["names"][1]
    where = Where(activation=name, queries=(i,))
    edits = [two.patch(side, where)]
    after = run_of("bert-where").scope.run_batch([values_of(base.trace)], edits=edits)[0]
    change = level(two.metric(side), after) - level(two.metric(side), base.trace)
    assert grid["effects"][1][i] == pytest.approx(change, abs=2e-4)


def test_an_answer_without_a_counterpart_is_reported() -> None:
    second = (MARY[0], "John moved to the garden.")
    drawn = patch_section_payloads(run_of("bert-where"), choices("bert-where", second=second))
    assert drawn[PATCH_NOTE]["rows"][0][1] == say.NO_COUNTERPART


def test_a_patch_from_an_earlier_text_is_named_and_not_drawn_as_applied() -> None:
    run, earlier = run_of("eng-fra"), both("eng-fra")
    where = Where(activation="encoder.layers.1.resid_post", queries=(1,))
    edit = earlier.patch("needed", where)
    now = both("eng-fra", ("The horse is black.",))
    assert patch.undo_label(run.trace, edit, earlier) == "encoder.layers.1.resid_post, “·cat”"
    assert patch.undo_label(run.trace, edit, now).endswith(f", from “{TEXTS['eng-fra'][1][0]}”")
    edited = changed_run(run, replace(run.spec, edits=(edit,)))
    drawn = patch_section_payloads(edited, choices("eng-fra", second=("The horse is black.",)))[
        "patch"
    ]
    assert not any(map(any, drawn["panels"][0]["grid"]["taken"]))


@pytest.mark.parametrize(
    ("second", "why"),
    [(("",), say.EMPTY), (("  ",), say.EMPTY), (("The cat is black.",), say.same_inputs("text")), (("word " * 600,), "tokens")],
)  # fmt: skip
def test_an_unusable_second_text_is_reported_and_the_last_picture_stays(
    second: tuple[str, ...], why: str
) -> None:
    run = run_of("eng-fra")
    drawn = patch_section_payloads(run, choices("eng-fra", second=second))
    assert why in drawn[PATCH_NOTE]["rows"][0][1]
    assert "patch" not in drawn
    kept = patch_section_payloads(
        run, choices("eng-fra", second=second, instead=(TEXTS["eng-fra"][1],))
    )
    assert kept[PATCH_NOTE] == drawn[PATCH_NOTE]
    assert kept["patch"] == patch_section_payloads(run, choices("eng-fra"))["patch"]


@pytest.mark.parametrize("name", ["gpt", "eng-fra", "bert"])
def test_in_long_texts_the_first_differing_tokens_and_the_last_are_tried(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = patch_section_payloads(run_of(name), choices(name))["patch"]
    monkeypatch.setattr(patch_effects, "MAX_PATCH_WORK", 100)
    drawn = patch_section_payloads(run_of(name), choices(name))
    for panel, all_tried in zip(drawn["patch"]["panels"], whole["panels"], strict=True):
        effects = panel["grid"]["effects"]
        n = len(effects[0])
        tried = [i for i in range(n) if effects[0][i] is not None]
        other = both(name).other.trace.streams[run_of(name).scope.model.fields[0].stream].ids
        own = both(name).this.trace.streams[run_of(name).scope.model.fields[0].stream].ids
        differ = [i for i in range(n) if own[i] != other[i]]
        assert len(tried) == patch_effects.MIN_TRIED < n
        assert {*differ[:2], n - 1, n - 2} <= set(tried)
        for line, wanted in zip(effects, all_tried["grid"]["effects"], strict=True):
            assert [line[i] for i in tried] == pytest.approx([wanted[i] for i in tried], abs=1e-4)
        assert {x for kind in panel["kinds"] for line in kind["effects"] for x in line} == {None}
    said = drawn[PATCH_NOTE]["rows"][0][1]
    assert f"4 of {n} positions" in said
    assert "heads are not tried" in said
    assert not [line for look, line in drawn["checks"]["rows"] if look == "failed"]


@pytest.mark.parametrize("name", ["eng-fra", "gpt", "bert", "xlnet", "dates", "gpt-sentiment"])
def test_the_default_second_text_has_the_same_length(name: str) -> None:
    scope = models.load(name, device="cpu")
    for example in readable_examples(scope)[:1]:
        trace = scope.run(*example)
        second = propose_second_text(scope, trace)
        rows = scope.run(*second)
        stream = scope.model.fields[0].stream
        assert len(rows.streams[stream].ids) == len(trace.streams[stream].ids)
        assert rows.streams[stream].ids != trace.streams[stream].ids


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", [*TEXTS, "dates"])
def test_each_pair_offered_shows_what_its_label_says(name: str) -> None:
    """One word differs, the answers differ, and some head carries part of the difference in both directions."""
    scope = models.load(name, device="cpu")
    run = CurrentRun(scope, scope.run(*readable_examples(scope)[0]))
    every = list(findings.pairs(run))
    assert every or name not in ("eng-fra", "gpt", "bert", "bert-where", "dates", "gpt-sentiment")
    for one in every:
        first, second = " ".join(one.first).split(), " ".join(one.second).split()
        (changed,) = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
        before, after = one.label.split(":")[0].split(" → ")
        assert (changed[0].strip(".?"), changed[1].strip(".?")) == (before, after)
        rest = ("",) * (len(scope.model.text_fields) - len(one.first))
        shown = CurrentRun(scope, scope.run(*one.first, *(text or None for text in rest)))
        two = two_runs(shown, one.second, None)
        assert isinstance(two, Two)
        assert two.rival is not None
        assert two.gap > 0
        drawn = patch_section_payloads(shown, replace(choices("gpt"), second=one.second))["patch"]
        needed, enough = (
            [x for kind in p["kinds"] for line in kind["effects"] for x in line]
            for p in drawn["panels"]
        )
        if needed:  # an RNN without attention has none
            assert min(needed) < 0 < max(enough)


@pytest.mark.parametrize("name", ["eng-fra", "gpt", "dates", "bert", "xlnet"])
def test_the_head_of_a_rule_is_that_of_the_live_run(name: str) -> None:
    scope = models.load(name, device="cpu")
    trace = scope.run(*readable_examples(scope)[0])
    found = {one.rule.measure: one for one in findings.found_heads(trace)}
    offsets = {"previous": -1, "diagonal": 0}
    for measure, offset in offsets.items():
        values = {
            (site.name, head): float(
                torch.diagonal(site.weights(head), offset).sum()
                / (min(site.n_query, site.n_key) + offset)
            )
            for site in trace.attention.values()
            for head in range(site.n_heads)
            if measure == "diagonal" or site.query_stream == site.key_stream
        }
        best = max(values, key=values.__getitem__)
        if values[best] < findings.MIN_WEIGHT:
            assert measure not in found
            continue
        one = found[measure]
        assert one.value == pytest.approx(values[best], abs=1e-4)
        assert values[one.site.name, one.head] == pytest.approx(values[best], abs=1e-4)
        assert f"{values[best]:.2f}" in one.about


def test_patches_are_restored_from_the_address() -> None:
    two = both("eng-fra")
    edits = (
        two.patch("enough", Where(activation="encoder.layers.1.resid_post", queries=(2,))),
        two.patch("enough", Where(site="decoder.layers.2.cross_attn", heads=(5,))),
    )
    assert state.OTHER_EDITS.parse(state.OTHER_EDITS.format(edits)) == edits
    assert state.OTHER_EDITS.read("[[[") == ()
    off = HeadOff("decoder.layers.2.cross_attn", head=5)
    assert state.OTHER_EDITS.read(state.OTHER_EDITS.format((off,))[0]) == ()


def test_a_model_with_returned_attention_only_has_nothing_to_patch() -> None:
    assert not isinstance(patch.find_patch(run_of("eng-fra")), str)
    two = both("eng-fra")
    assert isinstance(
        two.patch("needed", Where(site="decoder.layers.0.cross_attn", heads=(0,))), Patch
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [("eng-fra", "Residual stream"), ("dates-bahdanau", "States"), ("dates-stacked", "States")],
)
def test_states_are_called_a_stream_only_if_layers_add_to_it(name: str, title: str) -> None:
    assert say.part_title("residual", has_stream(run_of(name).scope)) == title


@pytest.mark.parametrize(
    "text",
    [
        "I am [MASK] years old.",
        "I'm [MASK] years old.",
        "She forgot her [MASK].",
        "I was [MASK] there.",
    ],
)
def test_the_second_text_keeps_to_grammar(text: str) -> None:
    scope = models.load("bert", device="cpu")
    (second,) = propose_second_text(scope, scope.run(text))
    assert second != text
    assert not re.search(r"You (am|was)|You'm|I is|him \[", second), second
