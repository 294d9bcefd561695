"""One head of a text too long to send every weight: the largest weight of each block, and exact parts."""

import numpy as np
import pytest
from drawn import letters

from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing import cells as drawing
from viz_app.drawing import pooling
from viz_app.drawing.head import head_payload
from viz_app.drawing.payload import unpack
from viz_app.drawing.scale import Scale

TERMS = words.terms("language")
TEXT = "abcdeabcddeabcabdceab"  # 21 letters; with <s> before them 22 tokens
LIMITS = drawing.MAX_WHOLE_TOKENS, drawing.MAX_POOLED_BLOCKS, drawing.TILE_SIDE
N, TILE, K = 22, 4, 5  # 22 tokens in at most 5 blocks: 5 to a block, 2 in the last


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("MAX_WHOLE_TOKENS", N - 1), ("MAX_POOLED_BLOCKS", 5), ("TILE_SIDE", TILE)):
        monkeypatch.setattr(drawing, name, limit)
    monkeypatch.setattr(
        pooling, "SLAB", 7 * N
    )  # so that no slab cuts a block, and there are several slabs


@pytest.fixture(scope="module")
def trace() -> Trace:
    return letters("gpt").run(TEXT, None)


@pytest.fixture(scope="module")
def site(trace: Trace) -> AttentionSite:
    return list(trace.attention.values())[1]


def payload(trace: Trace, site: AttentionSite, **how) -> tuple[dict, dict]:
    return unpack(head_payload(trace, site, 2, TERMS, **how))


def test_each_cell_is_the_largest_weight_of_its_block(trace: Trace, site: AttentionSite) -> None:
    header, arrays = payload(trace, site)
    weights, allowed = site.weights(2).numpy(), site.allowed().numpy()
    assert arrays["weights"].shape == arrays["blocked"].shape == (5, 5)
    assert arrays["weights"].dtype == np.float32
    for q in range(5):
        for k in range(5):
            block = (slice(q * K, q * K + K), slice(k * K, k * K + K))
            assert arrays["weights"][q, k] == pytest.approx(weights[block].max(), abs=1e-6)
            assert bool(arrays["blocked"][q, k]) == (not allowed[block].any())
    assert arrays["blocked"][0, 4] == 1 << [layer.name for layer in site.mask.layers].index(
        "look-ahead"
    )
    assert (header["block"], header["first"], header["size"]) == (K, [0, 0], [N, N])


def test_a_block_is_named_by_its_positions_and_on_hover_by_its_ends(
    trace: Trace, site: AttentionSite
) -> None:
    header, _ = payload(trace, site)
    assert header["keys"] == [
        ["0–4", "from [start] to d", False], ["5–9", "from e to d", False], ["10–14", "from d to c", False],
        ["15–19", "from a to e", False], ["20–21", "from a to b", False],
    ]  # fmt: skip
    assert header["queries"][0] == ["0–4", "from [start] → a to d → e", False]
    assert header["queries"][-1] == ["20–21", "from a → b to b", False]


@pytest.mark.parametrize(
    ("place", "start"),
    [(0, 0), (1, 0), (2, 0), (3, 1), (11, 9), (19, 17), (20, 18), (21, 18), (99_999, 18)],
)
def test_a_part_holds_the_models_own_weights_around_its_position(
    trace: Trace, site: AttentionSite, place: int, start: int
) -> None:
    header, arrays = payload(trace, site, tile=(place, 7), lock="q3")
    rows, cols = slice(start, start + TILE), slice(5, 5 + TILE)
    np.testing.assert_allclose(arrays["weights"], site.weights(2).numpy()[rows, cols], atol=1e-6)
    np.testing.assert_array_equal(arrays["blocked"] == 0, site.allowed().numpy()[rows, cols])
    np.testing.assert_allclose(arrays["largest"], site.weights(2).numpy()[rows].max(1), atol=1e-6)
    assert (header["block"], header["first"], header["size"], header["lock"]) == (
        1,
        [start, 5],
        [N, N],
        "q3",
    )
    letters_ = ["[start]", *TEXT]
    assert [label[0] for label in header["keys"]] == letters_[cols]
    assert [label[0].split(" → ")[0] for label in header["queries"]] == letters_[rows]
    other, _ = payload(trace, site, tile=(7, place))
    assert other["first"] == [5, start]


def test_hidden_sinks_count_neither_in_a_block_nor_in_a_rows_largest_weight(
    trace: Trace, site: AttentionSite
) -> None:
    weights = site.weights(2).numpy().copy()
    share = weights[:, 0].mean()
    weights[:, 0] = 0
    hiding = Scale("row", hides_sinks=True)
    header, arrays = payload(trace, site, scale=hiding)
    np.testing.assert_allclose(
        arrays["weights"][:, 0], [weights[q : q + K, :K].max() for q in range(0, N, K)], atol=1e-6
    )
    assert arrays["blocked"][0, 0] == 0
    assert (header["scale"], header["hides"], header["sinks"], header["sinkNames"]) == (
        "row",
        True,
        [0],
        ["[start]"],
    )
    assert header["sinkShare"] == pytest.approx(share, abs=1e-6)
    _, part = payload(trace, site, scale=hiding, tile=(3, 1))
    np.testing.assert_allclose(part["largest"], weights[1:5].max(1), atol=1e-6)
    np.testing.assert_allclose(
        part["weights"], site.weights(2).numpy()[1:5, :4], atol=1e-6
    )  # the numbers do not change


def test_a_short_text_is_sent_whole(
    trace: Trace, site: AttentionSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "MAX_WHOLE_TOKENS", N)
    header, arrays = payload(trace, site, tile=(20, 20))
    assert (header["block"], header["first"], header["size"]) == (1, [0, 0], [N, N])
    assert set(arrays) == {"weights", "blocked"}
    np.testing.assert_array_equal(arrays["weights"], site.weights(2).numpy())


def test_a_long_text_sends_no_more_than_a_short_one() -> None:
    """The arrays are counted in bytes at the app's limits: float32 weights and one byte of masks per cell."""
    whole, blocks, tile = LIMITS
    assert blocks**2 * 5 < whole**2 * 5 < 1_400_000
    assert tile == 64
    assert pooling.block_side(4096, 4096, blocks) == 16
