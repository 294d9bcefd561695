"""Measures of a head, against loops over weights of a softmax written out by hand."""

import math

import pytest
import torch
from drawn import letters

from models.analysis import slices
from models.analysis.head_measures import MEASURES, measures, order
from models.trace import AttentionSite, Trace

SITES = [
    ("transformer", "encoder.layers.0.self_attn"), ("transformer", "decoder.layers.1.self_attn"),
    ("transformer", "decoder.layers.1.cross_attn"), ("gpt", "decoder.layers.1.self_attn"), ("recurrent", "decoder.alignment"),
]  # fmt: skip


def site_of(family: str, name: str, *texts: str) -> tuple[Trace, AttentionSite]:
    trace = letters(family).run(*(texts or ("abcab=d", "dcdb")))
    return trace, trace.attention[name]


def by_loops(trace: Trace, site: AttentionSite, head: int) -> dict[str, float]:
    """Compute the formulas cell by cell on plain numbers; NaN where there is nothing to average."""
    a, may = site.weights(head).tolist(), site.allowed(head=head).tolist()
    query, key = (row.ids for row in trace.axes(site))
    own, n, m = site.query_stream == site.key_stream, len(query), min(len(query), len(key))
    same, readers = 0.0, 0
    for i, row in enumerate(a):
        others = [
            j for j in range(len(key)) if key[j] == query[i] and may[i][j] and not (own and i == j)
        ]
        same += sum(row[j] for j in others)
        readers += bool(others)
    return {
        "entropy": -sum(p * math.log(p) for row in a for p in row if p > 0) / n,
        "previous": sum(a[i][i - 1] for i in range(1, n)) / (n - 1) if own and n > 1 else math.nan,
        "diagonal": sum(a[i][i] for i in range(m)) / m,
        "first": sum(row[0] for row in a) / n,
        "same": same / readers if readers else math.nan,
    }


@pytest.mark.parametrize("cells", [2**20, 20])  # in one piece, and two or three rows at a time
@pytest.mark.parametrize("texts", [("abcab=d", "dcdb"), ("aba", "bcadcab")])  # either is longer
@pytest.mark.parametrize(("family", "name"), SITES)
def test_each_measure_is_its_formula(
    family: str, name: str, texts: tuple[str, str], cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "WEIGHTS_PER_SLICE", cells)
    trace, site = site_of(family, name, *texts)
    found = measures(site, *trace.axes(site))
    assert list(found) == list(MEASURES)
    for head in range(site.n_heads):
        for measure, value in by_loops(trace, site, head).items():
            if math.isnan(value):
                assert found[measure] is None
            else:
                assert float(found[measure][head]) == pytest.approx(value, rel=1e-4, abs=1e-6), (
                    measure
                )
    assert found["same"] is not None
    assert (found["previous"] is None) == (site.query_stream != site.key_stream)


def test_a_measure_that_does_not_apply_is_none() -> None:
    trace, site = site_of("gpt", "decoder.layers.0.self_attn", "a")
    alone = measures(site, *trace.axes(site))
    assert alone["same"] is None
    assert alone["previous"] is not None
    trace, site = site_of("transformer", "encoder.layers.0.self_attn", "abc", "a")
    assert measures(site, *trace.axes(site))["same"] is None


def test_a_head_that_only_does_one_thing_measures_1_there() -> None:
    trace, site = site_of("gpt", "decoder.layers.0.self_attn", "abab")
    n, ids = site.n_query, trace.streams["text"].ids
    shapes = {
        "previous": [max(0, i - 1) for i in range(n)], "diagonal": list(range(n)), "first": [0] * n,
        "same": [next((j for j in range(i) if ids[j] == ids[i]), i) for i in range(n)],
    }  # fmt: skip

    class Doing(AttentionSite):
        def weights(self, head=None, batch=0, rows=None):
            whole = torch.zeros(n, n)
            whole[range(n), shapes[list(shapes)[head]]] = 1
            return whole[rows or slice(None)]

    made = Doing(**{name: getattr(site, name) for name in site.__dataclass_fields__})
    object.__setattr__(made, "out", torch.zeros(1, 4, n, 5))
    found = measures(made, *trace.axes(site))
    for head, name in enumerate(shapes):
        assert float(found[name][head]) == pytest.approx(1)
        assert float(found["entropy"][head]) == 0
        assert [float(found[other][head]) < 1 for other in shapes if other != name] == [True] * 3


def test_heads_are_ordered_by_the_measure_and_ties_keep_their_order() -> None:
    values = torch.tensor([0.5, 0.9, 0.5, 0.1])
    assert order(values, least_first=False) == [1, 0, 2, 3]
    assert order(values, least_first=True) == [3, 0, 2, 1]
    assert order(None, least_first=True) == []
    assert [name for name, measure in MEASURES.items() if measure.least_first] == ["entropy"]
    assert [name for name, measure in MEASURES.items() if measure.of_one_text] == ["previous"]
