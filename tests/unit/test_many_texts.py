"""The section Many texts of Interventions: its board, its sentence and its table follow the sweep."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from drawn import on_screen
from small_scopes import scope_of

import models
from models.analysis.paired import Interval
from models.runs.scope import Scope
from models.runs.sweep import UNEDITED, HeadResult, Sweep, SweepResult
from models.trace.edits import HeadOff
from viz_app import words
from viz_app.controls import sweeping
from viz_app.drawing.sites import by_kind
from viz_app.session.cache import changed_run
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import many_texts

USUAL = many_texts.SweepChoices("zero")


@pytest.fixture(scope="module")
def scope() -> Scope:
    return scope_of("transformer")


@pytest.fixture(scope="module")
def swept(scope: Scope) -> SweepResult:
    sweep = Sweep(scope, [scope.encode(*text, "ab") for text in scope.held_out], n_orders=2)
    sweep.run(lambda done, of: None)
    return sweep.swept()


@pytest.fixture(scope="module")
def run(scope: Scope) -> CurrentRun:
    return CurrentRun(scope, scope.run("abcd", "ab"))


def cells(payload: dict[str, Any]) -> dict[tuple[str, int, int], tuple[float, dict[str, str]]]:
    """Return effect and note of each head, by title, layer and head."""
    return {
        (kind["title"], layer - 1, head): (effect, kind["notes"][row][head])
        for kind in payload["kinds"]
        for row, layer in enumerate(kind["layers"])
        for head, effect in enumerate(kind["effects"][row])
    }


def test_each_cell_is_the_result_of_its_own_head(run, swept):
    board = many_texts.sweep_board(run, swept)
    assert f"over {swept.n_texts // 2} held-out texts" in board["title"]
    shown = cells(board)
    titles = {kind: words.kind_title(sites[0]) for kind, sites in by_kind(run.trace)}
    assert len(shown) == len(swept.heads)
    for one in swept.heads:
        effect, note = shown[titles[one.kind], one.layer, one.head]
        assert effect == one.effect.mean
        assert (note["mark"] == "*") == one.is_marked
        interval = f"{one.effect.low:+.3f} to {one.effect.high:+.3f}".replace("-", "−")
        assert note["says"].startswith(f" (95 % interval {interval}")


@pytest.mark.parametrize(
    ("effects", "wanted", "not_wanted"),
    [
        ((0.5, -0.1), "1 of 2 heads is needed*, 1 harmful*.", "lowers"),
        ((0.1, -0.5), "lowers the loss most when off: −0.500 (−0.510 to −0.490).", "raises"),
        ((0.5, 0.1), "2 of 2 heads are needed*.", "harmful"),
    ],
)
def test_the_sentence_follows_the_sign(run, swept, effects, wanted, not_wanted):
    heads = tuple(
        HeadResult(one.kind, one.layer, one.head, Interval(e, e - 0.01, e + 0.01), 0.0002, True)
        for one, e in zip(swept.heads, effects, strict=False)
    )
    found = replace(swept, heads=heads, n_texts=400)
    said = many_texts.needed_heads_sentence(run, found)
    assert wanted in said
    assert not_wanted not in said


def test_a_star_marks_an_effect_with_the_same_sign_in_both_halves(scope: Scope) -> None:
    text = scope.encode(*scope.held_out[0], "ab")
    sweep = Sweep(scope, [text] * 60, n_orders=0)
    same, opposite, by_chance, *_ = sweep.heads
    noise = torch.rand(60, generator=torch.Generator().manual_seed(4))
    turned = torch.tensor([1.0, -1.0]).repeat(30)  # even texts select, odd ones report
    changes = {same: 1 + noise, opposite: (1 + noise) * turned, by_chance: noise - noise.mean()}
    sweep.losses[UNEDITED] = [0.0] * 60
    for site, head in sweep.heads:
        sweep.losses[f"{site} {head}"] = changes.get((site, head), torch.zeros(60)).tolist()
    marks = {
        (one.kind, one.layer, one.head): (one.effect.mean, one.is_marked) for one in sweep.results()
    }
    mean, is_marked = marks[(*sweep.heads[same], same[1])]
    assert mean > 1
    assert is_marked
    mean, is_marked = marks[(*sweep.heads[opposite], opposite[1])]
    assert mean < -1
    assert not is_marked
    assert sum(is_marked for _, is_marked in marks.values()) == 1


def test_the_title_counts_the_half_of_the_texts_that_reports(run, swept):
    title = many_texts.sweep_board(run, replace(swept, n_texts=401))["title"]
    assert "over 200 held-out texts" in title


def test_with_few_texts_no_head_can_be_significant(run, swept):
    """4 texts select: the two extremes of 16 sign patterns, p 0.125, are the least likely outcome."""
    few = replace(swept, n_texts=8)
    said = many_texts.needed_heads_sentence(run, few)
    assert said.startswith(f"8 texts are too few to tell which of {len(swept.heads)} heads")
    assert replace(swept, n_texts=40).can_mark
    single = replace(few, heads=few.heads[:1])
    assert not single.can_mark
    assert replace(single, n_texts=12).can_mark


def test_if_nothing_is_significant_the_sentence_says_so(run, swept):
    swept = replace(swept, n_texts=400)
    heads = tuple(replace(one, is_marked=False) for one in swept.heads)
    said = many_texts.needed_heads_sentence(run, replace(swept, heads=heads))
    assert said == f"None of {len(heads)} heads has a significant effect."


def test_an_only_head_a_text_and_an_order_are_in_the_singular(run, swept):
    one = replace(swept.heads[0], is_marked=True)
    curves = {one.kind: swept.curves[one.kind]}
    few = replace(swept, heads=(one,), curves=curves, n_texts=2, n_orders=1)
    marked = replace(few, n_texts=400)
    none = replace(marked, heads=(replace(one, is_marked=False),))
    for result in (few, marked, none):
        assert "only head" in many_texts.needed_heads_sentence(run, result)
    assert many_texts.sweep_board(run, few)["title"].endswith("over 1 held-out text")
    title = " ".join(many_texts.loss_curves(run, few).to_dict()["title"]["text"])
    assert " over 1 text:" in title
    assert " 1 random order " in title


def test_the_table_and_the_curves_hold_every_number(run, swept):
    assert [row[3] for row in many_texts.sweep_table(swept)] == [
        one.effect.mean for one in swept.heads
    ]
    chart = many_texts.loss_curves(run, swept).to_dict()
    title = "".join(chart["title"]["text"])
    assert f" over {swept.n_texts // 2} texts" in title
    values = chart["data"]["values"]
    for kind, curve in swept.curves.items():
        title = words.kind_title(dict(by_kind(run.trace))[kind][0])
        n_heads = sum(site.n_heads for site in dict(by_kind(run.trace))[kind])
        rows = [r for r in values if r["kind"] == title][1:]
        for row, (share, (order, low, median, high)) in zip(rows, curve.items(), strict=True):
            off = max(1, round(float(share) * n_heads))
            assert row["share"] == off / n_heads
            assert row["off"] == f"{off} of {n_heads}"
            drawn = [
                row[name] for name in ("in order of importance", "low", "random orders", "high")
            ]
            assert drawn == [order, low, median, high]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "unit", "said"),
    [
        ("bert", "nats per masked token", "15 % of the tokens are masked"),
        ("gpt-sentiment", "nats per answer", "the answer with all heads on"),
        ("bert-where", "nats per answer", "without labels"),
        ("gpt", "nats per token", "their own tokens"),
    ],
)
def test_the_loss_of_each_kind_of_model_is_named(name, unit, said):
    scope = models.load(name, device="cpu")
    run = CurrentRun(scope, scope.run(*scope.held_out[0]))
    view = many_texts.find_sweep(run)
    assert view is many_texts.MANY_TEXTS
    assert said.replace("their", "texts'") in view.text(run, many_texts.SweepChoices("zero"))
    sweep = Sweep(scope, [scope.encode(*text) for text in scope.held_out[:8]], n_orders=1)
    sweep.run(lambda done, of: None)
    drawn = many_texts.sweep_board(run, sweep.swept())
    assert drawn["unit"] == sweep.unit == unit
    assert len(cells(drawn)) == len(sweep.heads)


@pytest.mark.parametrize("change", [{"step": 0}, {"similarity": "additive"}, {"positions": False}])
def test_results_of_other_weights_are_not_shown_for_a_changed_model(change):
    unchanged = CurrentRun(scope := models.load("dates", device="cpu"), scope.run("15 May 2024"))
    assert many_texts.sweep_payloads(unchanged, USUAL)
    spec = replace(unchanged.spec, model=replace(unchanged.spec.model, **change))
    changed = changed_run(unchanged, spec)
    assert many_texts.sweep_payloads(changed, USUAL) == {}
    assert many_texts.MANY_TEXTS.files(changed, USUAL) == ()


def test_results_measured_without_the_edits_of_a_run_say_so():
    unchanged = CurrentRun(scope := models.load("dates", device="cpu"), scope.run("15 May 2024"))
    edit = HeadOff("decoder.layers.0.self_attn", head=1)
    edited = changed_run(unchanged, replace(unchanged.spec, edits=(edit,)))
    title, own = (
        on_screen(many_texts.sweep_payloads(one, USUAL))["board"]["title"]
        for one in (edited, unchanged)
    )
    assert title.endswith("left out")
    assert "left out" not in own
    (file,) = many_texts.MANY_TEXTS.files(edited, USUAL)
    assert file.about(edited)["a head that is off passes on"] == "nothing"
    assert file.about(edited)["held-out texts"] in title
    assert "changed" not in file.about(edited)


def test_a_typed_line_without_a_required_field_is_refused(monkeypatch):
    scope = models.load("bert-where", device="cpu")
    lines = "\n".join(["Where is Mary?\tMary went to the garden."] * 8 + ["Where is John?"])
    monkeypatch.setattr(Scope, "held_out", [])
    monkeypatch.setattr(sweeping, "text_box", lambda *given: (lines, ""))
    texts, error = sweeping._texts(scope)
    assert texts == []
    assert error.startswith("Line 9: the context is missing")


def test_a_model_without_heads_says_why():
    scope = models.load("dates-rnn", device="cpu")
    found = many_texts.find_sweep(CurrentRun(scope, scope.run(*scope.held_out[0])))
    assert isinstance(found, str)
    assert found.endswith(".")


def test_a_single_typed_text_is_counted_in_the_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "text_box", lambda *_: ("one text", ""))
    monkeypatch.setattr(sweeping, "complete_streams", lambda _, fields: fields)
    monkeypatch.setattr(sweeping.url_state, "get", lambda _: "")
    _, error = sweeping._texts(SimpleNamespace(held_out=[]))
    assert error.startswith("1 text,")
