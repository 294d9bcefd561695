"""The rows of one pass, computed on demand, against all of its weights at once."""

import pytest
import torch
from drawn import letters
from small import random_model

from models.analysis import slices
from models.decoding.run_rows import PassRows, StepRows
from models.decoding.runs import Method, autoregressive, uncached_run
from models.trace import AttentionSite
from models.trace.edits import MaskChange, Where

SITES = ["decoder.layers.0.self_attn", "decoder.layers.1.cross_attn"]
FIRST, N = 2, 3


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest) -> AttentionSite:
    return letters("transformer").run("abcdeab", "edcabe").attention[request.param]


def at_once(site: AttentionSite) -> list[torch.Tensor]:
    """Return the weights (head, key) of each position; a self-attention has no keys after it."""
    weights = site.weights()
    return [
        weights[:, i, : i + 1] if site.role == "self" else weights[:, i]
        for i in range(FIRST, FIRST + N)
    ]


@pytest.mark.parametrize("cells", [2**20, 40, 1])
def test_the_rows_of_a_pass_match_its_weights(
    site: AttentionSite, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "WEIGHTS_PER_SLICE", cells)
    rows, wanted = PassRows(site, FIRST, N), StepRows(tuple(at_once(site)))
    assert (len(rows), rows.n_heads, rows.n_key) == (N, site.n_heads, wanted.n_key)
    for own, other in zip(rows, wanted, strict=True):
        torch.testing.assert_close(own, other)
    for head in (None, 0, 2):
        torch.testing.assert_close(rows.weights(head), wanted.weights(head))
    torch.testing.assert_close(rows.sums, torch.ones(N * site.n_heads))
    with pytest.raises(IndexError):
        rows[N]


def test_a_row_that_may_attend_to_nothing_is_not_expected_to_sum_to_1() -> None:
    """Other rows still are, in one pass and step by step."""
    scope = letters("transformer")
    closed = MaskChange(Where(site=SITES[0], heads=(1,)), block=tuple((2, i) for i in range(3)))
    trace = scope.run("abcdeab", "edcabe", edits=[closed])
    given = trace.streams["source"].ids
    rows = PassRows(trace.attention[SITES[0]], FIRST, N)
    assert not rows[0][1].any()
    steps = autoregressive(scope.model, given, Method(), [closed]).run
    assert not steps.rows[SITES[0]][2][1].any()
    for one, n in ((rows, N), (steps.rows[SITES[0]], len(steps))):
        torch.testing.assert_close(one.sums, torch.ones(n * one.n_heads - 1))
    forged = StepRows(tuple(0 * row for row in steps.rows[SITES[0]]))  # zeros that no mask explains
    assert not forged.sums.any()


def test_as_many_rows_are_computed_together_as_fit(
    site: AttentionSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, asked = PassRows(site, FIRST, N), []
    own = AttentionSite.weights
    monkeypatch.setattr(
        AttentionSite,
        "weights",
        lambda self, *what, rows: asked.append(rows) or own(self, *what, rows=rows),
    )
    monkeypatch.setattr(slices, "WEIGHTS_PER_SLICE", 2 * site.n_heads * site.n_key)
    rows.weights()
    assert asked == [slice(2, 4), slice(4, 6)]
    asked.clear()
    rows.weights(1)
    assert asked == [slice(0, 6)]


@pytest.mark.parametrize("block", [2, 3, 99])
def test_each_block_of_keys_gives_its_largest_weight(site: AttentionSite, block: int) -> None:
    whole = StepRows(tuple(at_once(site)))
    for rows in (PassRows(site, FIRST, N), whole):
        found, weights = rows.weights(1, block), whole.weights(1)
        assert found.shape == (N, -(-whole.n_key // block))
        for i in range(found.shape[1]):
            torch.testing.assert_close(found[:, i], weights[:, i * block : (i + 1) * block].amax(1))


def test_a_slice_holds_its_query() -> None:
    site = letters("gpt").run("abcdeab", None).attention["decoder.layers.0.self_attn"]
    assert slices.slice_with(site, 6) == (slice(0, site.n_query), 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "WEIGHTS_PER_SLICE", 3 * site.n_key)
        assert [slices.slice_with(site, query) for query in (2, 3, 7)] == [
            (slice(0, 3), 2),
            (slice(3, 6), 0),
            (slice(6, 8), 1),
        ]


def test_rows_of_a_decoder_without_a_mask_keep_the_keys_ahead():
    model = random_model(decoder_mask="none")
    rows = uncached_run(model, [3, 4, 5, 6], (7, 8, 9)).rows["decoder.layers.0.self_attn"]
    torch.testing.assert_close(rows.sums, torch.ones(len(rows.sums)))
    assert bool(rows.weights(0).triu(1).any())
    assert all(row.shape[1] == len(rows) for row in rows)


def test_rows_under_a_mask_that_opens_the_next_key_alone_keep_it():
    opened = MaskChange(Where(kind="decoder_self"), allow=((1, 2),))
    rows = uncached_run(random_model(), [3, 4, 5, 6], (7, 8, 9), (opened,)).rows
    found = rows["decoder.layers.0.self_attn"]
    torch.testing.assert_close(found.sums, torch.ones(len(found.sums)))
    assert float(found.weights(0)[1, 2]) > 0
    assert float(found.weights(0)[0, 1]) == 0
