"""The page Interventions: its numbers are those of edited runs, and its sentences give the right direction."""

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from drawn import on_screen
from small_scopes import scope_of

import models
from models.trace import Trace
from models.trace.edits import (
    Edit,
    HeadOff,
    HeadScale,
    Patch,
    SetWeights,
    Where,
    ZeroValue,
    to_text,
)
from models.trace.outputs import best_span
from viz_app import words
from viz_app.drawing.extent import on_one_scale
from viz_app.drawing.labels import special_label
from viz_app.drawing.notes import answer_line
from viz_app.input_bar.examples import readable_examples
from viz_app.session import run_changes
from viz_app.session.cache import changed_run
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import payloads as page_payloads
from viz_app.views.interventions import state, text
from viz_app.views.interventions.decisions import decisions, default_decision, option_label
from viz_app.views.interventions.heads import BOARD_OF_HEADS
from viz_app.views.interventions.payloads import (
    HeadOffChoices,
    followed_decision,
    head_off_payloads,
    head_off_table,
    measure_heads,
)

MODELS = ["eng-fra", "gpt", "bert", "xlnet", "dates", "eng-fra-bahdanau", "gpt-sentiment"]
USUAL = HeadOffChoices(None, "log-probability", "zero")


@cache
def run_of(name: str) -> CurrentRun:
    scope = models.load(name, device="cpu")
    return CurrentRun(scope, scope.run(*readable_examples(scope)[0]))


def with_edits(run: CurrentRun, *edits: Edit) -> CurrentRun:
    return changed_run(run, replace(run.spec, edits=edits))


def log_prob(trace: Trace, row: int, option: int) -> float:
    """Return the log-probability by hand, in float64."""
    logits = next(iter(trace.outputs.values())).logits
    numbers = np.atleast_2d(logits.double().numpy())[row]
    peak = numbers.max()
    return float(numbers[option] - peak - np.log(np.exp(numbers - peak).sum()))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_a_head_is_the_difference_of_two_runs(name: str) -> None:
    run = run_of(name)
    what = followed_decision(run, USUAL).decision
    before = log_prob(run.trace, what.row, what.option)
    board = on_screen(head_off_payloads(run, USUAL))["board"]
    largest = 0.0
    for kind in board["kinds"]:
        for site, effects in zip(kind["sites"], kind["effects"], strict=True):
            largest = max(largest, *map(abs, effects))
            for head in {0, len(effects) - 1}:
                after = with_edits(run, HeadOff(site, head=head)).trace
                change = log_prob(after, what.row, what.option) - before
                assert effects[head] == pytest.approx(change, abs=1e-4), (site, head)
    assert board["largest"] == pytest.approx(largest)
    assert sum(len(kind["sites"]) for kind in board["kinds"]) == len(run.trace.attention)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", MODELS)
def test_the_sentence_names_the_strongest_head_and_its_direction(name: str) -> None:
    board = on_screen(head_off_payloads(run_of(name), USUAL))["board"]
    every = [
        (effect, kind["title"], layer, head + 1)
        for kind in board["kinds"]
        for layer, effects in zip(kind["layers"], kind["effects"], strict=True)
        for head, effect in enumerate(effects)
    ]
    effect, title, layer, head = max(every, key=lambda one: abs(one[0]))
    place = f"{title}, layer {layer}" + f", head {head}" * (
        len(board["kinds"][0]["effects"][0]) > 1
    )
    assert board["sentence"].startswith(f"{place} {'lowers' if effect < 0 else 'raises'} it most")
    raised = sum(one[0] >= 1e-4 for one in every)
    assert len(every) == 1 or f"{raised} of {len(every)} heads raise" in board["sentence"]


def test_a_reversed_direction_reverses_the_sentence() -> None:
    assert "lowers" in text.strongest_head_sentence("Here", "−1.00", 0, 4, -1.0, True)
    assert "1 of 4 heads raises it" in text.strongest_head_sentence(
        "Here", "−1.00", 1, 4, -1.0, True
    )
    assert "raises" in text.strongest_head_sentence("Here", "+1.00", 3, 4, 1.0, True)
    raising = text.strongest_head_sentence("Here", "+1.00", 0, 4, 1.0, False)
    assert "raises" not in raising
    assert "lowers" not in raising


def test_rounding_errors_are_not_an_effect_of_a_head() -> None:
    """A token that reads only itself attends to one key, so uniform weights change nothing."""
    scope = models.load("gpt", device="cpu")
    choices = HeadOffChoices(0, "log-probability", "uniform")
    board = on_screen(head_off_payloads(CurrentRun(scope, scope.run("boy")), choices))["board"]
    assert board["sentence"] == text.NO_HEAD_CHANGES.format(1e-4)


@pytest.mark.parametrize("name", ["eng-fra", "gpt", "bert", "eng-fra-bahdanau"])
def test_the_distribution_is_that_of_both_runs(name: str) -> None:
    run = run_of(name)
    strongest = max(
        (abs(effect), site, head)
        for kind in on_screen(head_off_payloads(run, USUAL))["board"]["kinds"]
        for site, effects in zip(kind["sites"], kind["effects"], strict=True)
        for head, effect in enumerate(effects)
    )
    edited = with_edits(run, HeadOff(strongest[1], head=strongest[2]))
    drawn, what = head_off_payloads(edited, USUAL)["outcome"], followed_decision(edited, USUAL)
    (followed,) = [row for row in drawn["options"] if row["chosen"]]
    for side, trace in (("before", run.trace), ("after", edited.trace)):
        p = np.exp(log_prob(trace, what.decision.row, what.decision.option))
        assert followed[side] == pytest.approx(p, abs=1e-5)
    for shown, one in zip(drawn["decisions"], what.all, strict=True):
        before, after = (log_prob(t, one.row, one.option) for t in (run.trace, edited.trace))
        assert shown["change"] == pytest.approx(after - before, abs=1e-4)
    assert drawn["asked"].endswith(f"decision {what.chosen + 1}")
    assert [shown["chosen"] for shown in drawn["decisions"]].index(True) == what.chosen


def test_an_option_at_the_start_of_a_text_has_no_space_before_it() -> None:
    trace = run_of("eng-fra").trace
    token = trace.model.tokenizer.encode("Il").ids[0]
    assert [option_label(trace, token, row).text for row in (0, 1)] == ["Il", "·Il"]
    assert option_label(trace, trace.next_token.labels[0], 0).text == decisions(trace)[0].label.text


def test_a_special_token_has_one_name_as_a_decision_and_as_an_option() -> None:
    trace = run_of("gpt").trace
    best = int(trace.next_token.logits[-1].argmax())
    of_library = SimpleNamespace(token=lambda i: "<|endoftext|>", is_special=lambda i: i == best)
    trace = replace(trace, model=replace(trace.model, tokenizer=of_library))
    label = special_label("<|endoftext|>")
    assert option_label(trace, best, 1) == decisions(trace)[-1].label == label
    assert answer_line(trace)[1] == label.text == "[endoftext]"


def test_the_decisions_of_a_span_are_its_start_and_end() -> None:
    """The most probable start may come after the most probable end, and then no span has both."""
    trace = models.load("bert-where", device="cpu").run(
        "Where is Mary?", "Mary went to the garden."
    )
    (name, output), low = next(iter(trace.outputs.items())), torch.full((2, 11), -9.0)
    start, end = torch.cat([torch.full((2, 6), -torch.inf), low], 1)[:, : len(output.start_logits)]
    start[6], start[9], end[6] = 3.0, 4.0, 2.0
    first, last = best_span(start, end)
    crossed = replace(output, start_logits=start, end_logits=end, start=first, end=last)
    both = decisions(replace(trace, outputs={name: crossed}))
    assert (first, last, int(start.argmax())) == (6, 6, 9)
    assert [one.option for one in both] == [first, last]
    assert [one.label.text for one in both] == ["start at mary", "end at mary"]


def test_files_record_the_choices_behind_them() -> None:
    """Choices that change the numbers of the board and its table change the facts in their files."""
    run, every, names = run_of("gpt"), [], set()
    for other in ({}, {"position": 1}, {"metric": "divergence"}, {"baseline": "uniform"}):
        choices = replace(USUAL, **other)
        (file,) = BOARD_OF_HEADS.files(run, choices)
        board = on_screen(head_off_payloads(run, choices))["board"]
        assert board["about"].splitlines() == [f"{k}: {v}" for k, v in file.about(run).items()]
        every.append(board["about"])
        names |= {board["file"], file.name}
    assert len(set(every)) == 4
    assert len(names) == 2 * 4
    assert "\ndecision: 1, " in every[1]
    assert "\nmeasured by: KL divergence\n" in every[2]
    assert "\na head that is off passes on: equal weights\n" in every[3]


def test_the_table_has_the_effects_of_the_board_by_layer_and_head_from_one() -> None:
    run = run_of("gpt")
    (file,) = BOARD_OF_HEADS.files(run, USUAL)
    _, *rows = csv.reader(io.StringIO(file.make(run)))
    (kind,) = on_screen(head_off_payloads(run, USUAL))["board"]["kinds"]
    told = {(int(layer), int(head)): float(effect) for _, layer, head, effect, _ in rows}
    assert told == {
        (layer, head): pytest.approx(effect)
        for layer, effects in zip(kind["layers"], kind["effects"], strict=True)
        for head, effect in enumerate(effects, start=1)
    }


def test_the_first_difference_is_the_first() -> None:
    run = run_of("eng-fra-bahdanau")
    drawn = head_off_payloads(
        with_edits(run, HeadOff(next(iter(run.trace.attention)), head=0)), USUAL
    )["outcome"]
    before, after = (answer["words"] for answer in drawn["answers"])
    first = drawn["answers"][1]["from"]
    assert before[:first] == after[:first]
    assert before[first] != after[first]
    assert f"word {first + 1}, “{before[first]}” became “{after[first]}”" in drawn["verdict"]
    assert (
        text.changed_answer(["a"], ["a", "b"], 1) == "First difference: word 2, nothing became “b”."
    )
    assert text.changed_answer(["a"], ["a"], -1) == "The same answer."


def test_a_model_that_writes_nothing_has_no_words() -> None:
    scope = models.load("reverse-unmasked", device="cpu")
    outcome = head_off_payloads(CurrentRun(scope, scope.run("abc")), USUAL)["outcome"]
    assert [answer["words"] for answer in outcome["answers"]] == [[], []]


def test_words_of_a_continuation_are_counted_without_the_space_before_it() -> None:
    scope = models.load("gpt", device="cpu")
    run = CurrentRun(scope, scope.run("The boy said that"))
    edited = with_edits(run, HeadOff("decoder.layers.0.self_attn", head=1))
    outcome = head_off_payloads(edited, USUAL)["outcome"]
    before, after = (answer["words"] for answer in outcome["answers"])
    assert before == ["he", "was", "a", "child."]
    assert (before[3], after[3]) == ("child.", "good")
    assert outcome["verdict"] == "First difference: word 4, “child.” became “good”."


def test_a_change_is_described_from_before_to_after_and_a_row_as_in_the_change_bar() -> None:
    said = text.followed_token_line("cat", -1.5, -0.25)
    assert said == "log p(cat): −1.500 before, −0.250 after, +1.250 nats"
    assert text.followed_token_line("cat", -1.5, -1.5).endswith("after, 0 nats")
    row = Where(site="a", heads=(0,), queries=(2,))
    edit = SetWeights(row, cells=((0, 1.0),))
    assert words.edit_effect(edit) == "weights set by hand at position 2"
    assert "at position 2" in edit.describe(first=1)
    assert (
        text.followed_token_line("-", -0.0001, -0.0002)
        == "log p(-): 0.000 before, 0.000 after, 0.000 nats"
    )


def test_no_change_is_reported_before_one_is_made() -> None:
    drawn = head_off_payloads(run_of("eng-fra"), USUAL)["outcome"]
    assert drawn["verdict"] == text.NO_HEAD_CHANGED
    assert {decision["change"] for decision in drawn["decisions"]} == {None}
    assert all(row["before"] == row["after"] for row in drawn["options"])


def test_a_head_that_is_off_or_scaled_is_marked_and_has_no_separate_effect() -> None:
    run = run_of("eng-fra")
    site = "decoder.layers.2.cross_attn"
    edited = with_edits(run, HeadOff(site, head=5), HeadScale(site, head=1, factor=-0.5))
    kinds = on_screen(head_off_payloads(edited, USUAL))["board"]["kinds"]
    states, effects = next(
        (kind["states"][kind["sites"].index(site)], kind["effects"][kind["sites"].index(site)])
        for kind in kinds
        if site in kind["sites"]
    )
    assert [state["label"] for state in states] == ["", "×−0.5", "", "", "", "off"]
    assert effects[5] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("metric", ["log-probability", "divergence"])
@pytest.mark.parametrize("name", MODELS)
def test_every_check_passes(name: str, metric: str) -> None:
    checks = head_off_payloads(run_of(name), HeadOffChoices(None, metric, "uniform"))["checks"][
        "rows"
    ]
    passed = [line for look, line in checks if look == "passed"]
    assert len(passed) >= 4
    assert not [line for look, line in checks if look == "failed"]
    assert any("patched with itself" in line for line in passed)


def test_boards_of_two_runs_have_one_scale() -> None:
    runs = [head_off_payloads(run_of(name), USUAL) for name in ("gpt", "gpt-sentiment")]
    alone = [on_screen(one)["board"]["largest"] for one in runs]
    beside = [one["board"]["largest"] for one in on_one_scale(*runs)]
    assert alone[0] != alone[1]
    assert beside == [max(alone)] * 2


def test_a_board_without_a_text_to_take_from_says_so() -> None:
    scope = scope_of("transformer")
    run = CurrentRun(scope, scope.run("a" * 7, "ab"))
    choices = HeadOffChoices(None, "log-probability", "resample")
    board = on_screen(head_off_payloads(run, choices))["board"]
    n = len(run.trace.streams["source"].ids)
    assert n not in {len(scope.encode(*one)["source"].ids) for one in scope.held_out}
    assert f"{n} source tokens" in board["sentence"]
    assert {effect for kind in board["kinds"] for row in kind["effects"] for effect in row} == {
        None
    }
    assert len(head_off_table(run, choices)) == 1


def test_a_check_fails_for_a_number_that_no_run_has(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("gpt")
    effects = measure_heads(followed_decision(run, USUAL), USUAL)
    for wrong in (lambda grid: -grid, lambda grid: grid * 1.01 + 0.01):
        turned = {kind: wrong(grid) for kind, grid in effects.values.items()}
        told = replace(effects, values=turned)
        monkeypatch.setattr(page_payloads, "measure_heads", lambda what, choices, told=told: told)
        lines = head_off_payloads(run, USUAL)["checks"]["rows"]
        assert [line for look, line in lines if look == "failed"] == ["✗ the strongest head alone"]


@pytest.mark.parametrize("name", MODELS)
def test_the_first_decision_shown_is_one_that_could_change(name: str) -> None:
    run = run_of(name)
    every = decisions(run.trace)
    chosen = every[default_decision(run.trace, every)]
    assert any(c.isalnum() for c in chosen.label.text)
    if name in ("eng-fra", "eng-fra-bahdanau", "dates"):
        words = [
            one
            for one in every
            if any(c.isalnum() for c in one.label.text) and not one.label.special
        ]
        assert log_prob(run.trace, chosen.row, chosen.option) == min(
            log_prob(run.trace, one.row, one.option) for one in words
        )
    if name == "gpt":
        assert chosen.row == len(run.trace.streams["text"].ids) - 1


def test_edits_of_heads_that_a_model_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    there = HeadOff("decoder.layers.2.cross_attn", head=5)
    asked_for = (
        there, HeadOff("decoder.layers.2.cross_attn", head=6), HeadOff("no.such.site", head=0),
        HeadScale("encoder.layers.0.self_attn", head=99),
        Patch("decoder.layers.9.resid_post", from_run=run_of("eng-fra").trace),
    )  # fmt: skip
    monkeypatch.setattr(
        run_changes.url_state, "get", lambda p: asked_for if p is run_changes.EDITS else p.default
    )
    assert run_changes.chosen_spec(run_of("eng-fra")).edits == (there,)
    assert run_changes.chosen_spec(run_of("gpt")).edits == ()


@pytest.mark.parametrize(("name", "left_out"), [("eng-fra", True), ("eng-fra-bahdanau", False)])
def test_positions_are_left_out_only_where_a_model_has_them(
    name: str, left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        run_changes.url_state, "get", lambda p: p is not run_changes.POSITIONS_CHANGE and p.default
    )
    assert run_changes.chosen_spec(run_of(name)).model.positions is not left_out


@pytest.mark.parametrize(
    "written",
    ["[[[[" * 20_000, '[{"type":"HeadOff"}' * 5_000, "{}", "[1]", "nothing", '[{"type":"MaskChange"}]',
     '[{"type":"HeadOff","where":{"site":7}}]', '[{"type":"HeadScale","factor":9}]', "9" * 49_999],
)  # fmt: skip
def test_an_address_that_holds_no_edits_has_none(written: str) -> None:
    assert run_changes.EDITS.read(written) == ()


@pytest.mark.parametrize(
    "edits",
    [
        [HeadOff("a", baseline="mean", texts=("a",) * (run_changes.MAX_EDIT_TEXTS + 1))],
        [HeadOff("a", head=n) for n in range(run_changes.MAX_EDITS + 1)],
        [Patch("a", fields=(str(n),)) for n in range(run_changes.MAX_EDIT_TEXTS + 1)],
    ],
    ids=["texts", "edits", "patches"],
)
def test_an_address_does_not_ask_for_too_much_work(edits: list[Edit]) -> None:
    assert run_changes.EDITS.read(to_text(edits[:1])) == (() if len(edits) == 1 else (edits[0],))
    assert run_changes.EDITS.read(to_text(edits)) == ()


def test_a_number_or_a_text_that_no_model_has_is_an_error_of_the_change() -> None:
    run = run_of("gpt")
    with pytest.raises(ValueError, match="tokens are counted"):
        ZeroValue(token=2**64)
    many = HeadOff("decoder.layers.0.self_attn", baseline="resample", texts=(("a", "b", "c"),))
    with pytest.raises(models.CheckpointError, match="at most 2 fields, got 3"):
        with_edits(run, many)


def test_edits_are_restored_from_the_address() -> None:
    edits = (
        HeadOff("a.layers.0.b", head=3, baseline="offset", offset=-1),
        HeadScale("c", head=0, factor=1.5),
    )
    assert run_changes.EDITS.parse(run_changes.EDITS.format(edits)) == edits


CROSS = "decoder.layers.2.cross_attn"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Callable[..., CurrentRun]:
    """A session that keeps its edits; call it with edits to start from, or without for its current run."""
    run, kept = run_of("eng-fra"), {}

    def now(*edits: Edit) -> CurrentRun:
        if edits:
            kept[run_changes.EDITS] = edits
        return changed_run(run, run_changes.chosen_spec(run))

    monkeypatch.setattr(state.url_state, "get", lambda p: kept.get(p, p.default))
    monkeypatch.setattr(state.url_state, "set_value", kept.__setitem__)
    monkeypatch.setattr(state.live, "live_session", lambda: SimpleNamespace(shown=now()))
    return now


def board_labels(run: CurrentRun) -> dict[str, list[str]]:
    """Return the labels of a layer's heads, as the board shows them."""
    kinds = on_screen(head_off_payloads(run, USUAL))["board"]["kinds"]
    return {
        site: [head["label"] for head in heads]
        for kind in kinds
        for site, heads in zip(kind["sites"], kind["states"], strict=True)
    }


@pytest.mark.parametrize(
    "where",
    [Where(site=CROSS, heads=(0, 1, 2, 3, 4, 5)), Where(kind="cross"), Where(layers=(1, 2))],
    ids=["heads", "kind", "layers"],
)
def test_one_of_several_heads_that_are_off_is_scaled_or_switched_on(
    where: Where, session: Callable[..., CurrentRun]
) -> None:
    before = session(HeadOff(where))
    labels = board_labels(before)
    off = {name for name, site in before.trace.attention.items() if not site.out.any()}
    assert {name for name, heads in labels.items() if heads == ["off"] * 6} == off
    assert CROSS in off
    state.scale_head(CROSS, 2, 0.5)
    scaled = session()
    state.switch_head(CROSS, 2, False)
    given_back = session()
    for run, label in ((scaled, "×0.5"), (given_back, "")):
        heads = ["off", "off", label, "off", "off", "off"]
        assert board_labels(run) == {**labels, CROSS: heads}
        outputs = run.trace.attention[CROSS].out[0]
        assert [bool(out.any()) for out in outputs] == [head == label for head in heads]
        assert {n for n, site in run.trace.attention.items() if not site.out.any()} == off - {CROSS}
    halved, whole = (run.trace.attention[CROSS].out[0, 2] for run in (scaled, given_back))
    assert torch.allclose(halved, whole / 2)


def test_a_head_that_is_off_and_scaled_is_off_in_either_order() -> None:
    twice = HeadOff(CROSS, head=1), HeadScale(CROSS, head=1, factor=0.5)
    for edits in (twice, twice[::-1]):
        assert board_labels(with_edits(run_of("eng-fra"), *edits))[CROSS][1] == "off"
    halves = HeadScale(CROSS, head=1, factor=0.5), HeadScale(Where(kind="cross"), factor=0.5)
    assert board_labels(with_edits(run_of("eng-fra"), *halves))[CROSS][1] == "×0.25"


def test_an_edit_of_one_position_is_named_with_it_and_leaves_the_head_on() -> None:
    off = HeadOff(Where(site=CROSS, heads=(2,), queries=(1,)))
    run = with_edits(run_of("eng-fra"), off)
    silent = ~run.trace.attention[CROSS].out[0, 2].any(-1)
    assert silent.nonzero().tolist() == [[1]]
    assert board_labels(run)[CROSS] == [""] * 6
    label = words.edit_label(off, run.trace.attention)
    assert label == "Cross-attention, layer 3, head 3: head output set to 0 at position 1"


def test_edits_without_a_site_are_made_and_named(session: Callable[..., CurrentRun]) -> None:
    every = {
        Where(kind="cross", heads=(2,)): "Cross-attention, head 3",
        Where(kind="cross", layers=(0, 2)): "Cross-attention, layers 1 and 3",
        Where(layers=(1,)): "Every attention, layer 2",
        Where(): "Every attention",
    }
    for where, place in every.items():
        run = session(HeadOff(where))
        for name, site in run.trace.attention.items():
            named = "cross" in name or not where.kind
            named &= where.layers is None or int(name.split(".")[2]) in where.layers
            silent = [not out.any() for out in site.out[0]]
            assert silent == [named and head in (where.heads or range(6)) for head in range(6)]
        label = words.edit_label(run.spec.edits[0], run.trace.attention)
        assert label == f"{place}: head output set to 0"
    for lacking in (Where(kind="cross", heads=(6,)), Where(kind="alignment"), Where(layers=(3,))):
        assert session(HeadOff(lacking)).spec.edits == ()
