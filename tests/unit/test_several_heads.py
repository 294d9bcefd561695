"""Several heads at once: which are drawn, their order, and the data of the component and of the file."""

import csv
import io

import numpy as np
import pytest
import torch
from drawn import letters, on_screen

from models.analysis.head_measures import MEASURES, measures
from models.trace import Trace
from models.trace.edits import MaskChange, Where
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.session.cache import findings
from viz_app.session.current_run import CurrentRun
from viz_app.views.inside import several as inside_several
from viz_app.views.inside.payloads import HeadWalkChoices, walk_payloads
from viz_app.views.inside.several import HeadGroup, head_measures_csv, several_payload, toggle

TERMS = words.terms("letters")
SITES = ["decoder.layers.0.self_attn", "decoder.layers.1.self_attn"]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return letters("gpt").run("abcab=d")


def weights(trace: Trace) -> torch.Tensor:
    """Return the weights (head, query, key), the heads of the first layer before those of the second."""
    return torch.cat([trace.attention[name].weights() for name in SITES])


def test_the_heads_are_those_of_all_layers_in_the_order_of_the_measure(trace: Trace) -> None:
    a = weights(trace)
    by_hand = {
        "entropy": torch.special.entr(a).sum(-1).mean(-1), "first": -a[..., 0].mean(-1),
        "diagonal": -a.diagonal(dim1=1, dim2=2).mean(-1), "previous": -a.diagonal(-1, dim1=1, dim2=2).mean(-1),
    }  # fmt: skip
    for measure, values in by_hand.items():
        shown = HeadGroup(trace, "self", measure, None)
        assert shown.order == sorted(range(6), key=lambda n, values=values: float(values[n]))
        assert shown.drawn_heads == sorted(shown.order[:3])
        header, arrays = unpack(several_payload(shown, TERMS, None))
        assert (header["order"], header["chosen"], header["measure"]) == (
            shown.order,
            shown.drawn_heads,
            measure,
        )
        np.testing.assert_allclose(arrays["weights"], a[shown.drawn_heads], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(arrays[measure], values.abs(), rtol=1e-4, atol=1e-6)


def test_chosen_heads_are_drawn_and_missing_ones_are_ignored(trace: Trace) -> None:
    assert HeadGroup(trace, "self", "first", (1, 4)).drawn_heads == [1, 4]
    assert HeadGroup(trace, "self", "first", (1, 6, 77)).drawn_heads == [1]
    assert HeadGroup(trace, "self", "first", ()).drawn_heads == []
    header, arrays = unpack(several_payload(HeadGroup(trace, "self", "first", ()), TERMS, 3))
    assert arrays["weights"].shape == (0, 8, 8)
    assert header["query"] == 3


def test_a_click_adds_a_head_or_takes_it_away_and_four_are_the_most() -> None:
    assert toggle([1, 4], 2) == (1, 2, 4)
    assert toggle([1, 2, 4], 2) == (1, 4)
    assert toggle([1], 1) == ()
    assert toggle([0, 1, 2, 4], 3) == (1, 2, 3, 4)
    assert toggle([0, 1, 2, 4], 1) == (0, 2, 4)


def test_the_component_gets_the_name_of_each_head_and_measure(trace: Trace) -> None:
    header, arrays = unpack(several_payload(HeadGroup(trace, "self", "entropy", None), TERMS, None))
    assert [(h["name"], h["layer"], h["head"]) for h in header["heads"]] == [
        (f"{layer}.{head + 1}", layer, head) for layer in (1, 2) for head in (0, 1, 2)
    ]
    assert [m["id"] for m in header["measures"]] == list(MEASURES)
    assert all(m["there"] for m in header["measures"])
    assert (header["query"], header["most"]) == (-1, 4)
    assert header["widest"] == pytest.approx(np.log(8))
    assert (
        [label[0] for label in header["queries"]]
        == ["[start]", *"abcab=d"]
        == [label[0] for label in header["keys"]]
    )
    assert header["title"] == "Decoder masked self-attention: the text → itself"
    assert {array.shape for name, array in arrays.items() if name != "weights"} == {(6,)}


def test_a_measure_that_does_not_apply_leaves_the_heads_in_place() -> None:
    trace = letters("gpt").run("abc")
    shown = HeadGroup(trace, "self", "same", None)
    assert shown.order == list(range(6))
    header, arrays = unpack(several_payload(shown, TERMS, None))
    assert [m["id"] for m in header["measures"] if not m["there"]] == ["same"]
    assert "same" not in arrays
    rows = list(csv.DictReader(io.StringIO(head_measures_csv(shown))))
    assert {row["Same token (mean weight)"] for row in rows} == {""}
    crossing = HeadGroup(letters().run("abcde", "edc"), "cross", "entropy", None)
    header, _ = unpack(several_payload(crossing, TERMS, None))
    assert [m["id"] for m in header["measures"]] == [
        "entropy",
        "diagonal",
        "first",
        "same",
    ]  # another text has no previous


def test_the_table_of_measures_read_back(trace: Trace) -> None:
    shown = HeadGroup(trace, "self", "first", (2,))
    rows = list(csv.DictReader(io.StringIO(head_measures_csv(shown))))
    assert [(row["layer"], row["head"]) for row in rows] == [
        (str(n), str(h)) for n in (1, 2) for h in (1, 2, 3)
    ]
    assert {(row["attention"], row["model"], row["fingerprint"]) for row in rows} == {
        ("Decoder masked self-attention", trace.model.name, trace.model.fingerprint)
    }
    for name, measure in MEASURES.items():
        told = [np.float32(row[f"{measure.name} ({measure.unit})"]) for row in rows]
        np.testing.assert_array_equal(told, shown.values[name].numpy())


def test_the_page_checks_every_site_whose_heads_are_drawn() -> None:
    scope = letters("gpt")
    run = CurrentRun(scope, scope.run("abcab=d"))
    choices = HeadWalkChoices("several", "rows", SITES[0], 0, None, None, 0, (0, 5), "first")
    drawn = on_screen(walk_payloads(run, choices))
    assert set(drawn) == {"several", "checks"}
    assert [look for look, _ in drawn["checks"]["rows"]] == ["title", *["passed", "value"] * 3]
    site = run.trace.attention[SITES[1]]
    site.out[0, 2, 3, 1] += 0.5  # of the second layer, whose last head is drawn
    verdicts = [
        text
        for look, text in on_screen(walk_payloads(run, choices))["checks"]["rows"]
        if look == "failed"
    ]
    assert verdicts == ["✗ weights · v is what the model used"]
    only_first = HeadWalkChoices("several", "rows", SITES[0], 0, None, None, 0, (0, 2), "first")
    assert not [
        look
        for look, _ in on_screen(walk_payloads(run, only_first))["checks"]["rows"]
        if look == "failed"
    ]


@pytest.mark.parametrize(("longest", "times"), [(5, 1), (8, 2)])
def test_the_heads_of_a_long_text_are_measured_once(
    monkeypatch: pytest.MonkeyPatch, longest: int, times: int
) -> None:
    scope, measured = letters("gpt"), []
    monkeypatch.setattr(findings, "MAX_WHOLE_TOKENS", longest)
    monkeypatch.setattr(
        inside_several, "measures", lambda *args: measured.append(args) or measures(*args)
    )
    texts = [CurrentRun(scope, scope.run(text)) for text in ("abcab=d", "dbcab=a")]
    for heads in ((0, 5), (1, 3)):
        drawn = [
            unpack(
                on_screen(
                    walk_payloads(
                        run,
                        HeadWalkChoices(
                            "several", "rows", SITES[0], 0, None, None, 0, heads, "first"
                        ),
                    )
                )["several"]
            )
            for run in texts
        ]
        for run, (header, arrays) in zip(texts, drawn, strict=True):
            a = weights(run.trace)
            assert header["chosen"] == list(heads)
            np.testing.assert_allclose(arrays["weights"], a[list(heads)], rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(arrays["first"], a[..., 0].mean(-1), rtol=1e-4, atol=1e-6)
    assert len(measured) == times * len(texts) * len(SITES)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_mask_of_one_layer_that_leaves_a_measure_nothing_to_read_is_no_error(layer: int) -> None:
    """If each token reads only itself in one layer, there is no equal token to read there."""
    itself = MaskChange(Where(kind="self", layers=(layer,)), preset="window", k=0)
    trace = letters("gpt").run("abcab=d", edits=[itself])
    group = HeadGroup(trace, "self", "same", None)
    assert group.values["same"] is None
    assert group.values["entropy"] is not None
    header, arrays = unpack(several_payload(group, TERMS, None))
    assert {one["id"] for one in header["measures"] if not one["there"]} == {"same"}
    assert "same" not in arrays
    assert head_measures_csv(group).count("\n") == 7
