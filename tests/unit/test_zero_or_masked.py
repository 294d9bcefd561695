"""A weight of 0 on an allowed key is not drawn as masked, and a masked cell or block names every layer that blocks it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import Drawing, letters

from models.analysis.joined_words import _join_mask
from models.layers.masks import DRAWN, LOOK_AHEAD, Mask, MaskLayer
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing import cells as drawing
from viz_app.drawing import overview, pooling
from viz_app.drawing.attention_maps import attention_maps
from viz_app.drawing.export import head_svg
from viz_app.drawing.head import head_payload
from viz_app.drawing.payload import unpack
from viz_app.views.masks.painter import CellRange

TERMS = words.terms("language")
TEXT = "abcdeabcddeabcabdceab"
N, K, HEAD = 22, 5, 2  # tokens with <s>; the side of a block, 2 for the last
OWN = "decoder.layers.1.self_attn"


@pytest.fixture
def site() -> AttentionSite:
    """A site where every query reads a single key and the other weights are exactly 0. Blocked are look-ahead cells and, by hand, the
    rest of one block on the diagonal and a column."""
    found = letters("gpt").run(TEXT, None).attention[OWN]
    forbidden = torch.zeros(1, 1, N, N, dtype=torch.bool)
    forbidden[..., 10:15, 10:15] = True
    forbidden[..., 3] = True
    layers = [*found.mask.layers, MaskLayer(DRAWN, ~forbidden)]
    sharp = replace(found, lazy_q=1e6 * found.q, mask=Mask(layers))
    allowed, weights = sharp.allowed(), sharp.weights(HEAD)
    assert ((weights == 0) & allowed).sum() > 99
    return sharp


@pytest.fixture
def trace(site: AttentionSite) -> Trace:
    run = letters("gpt").run(TEXT, None)
    return replace(run, attention={**run.attention, OWN: site})


def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("MAX_WHOLE_TOKENS", N - 1), ("MAX_POOLED_BLOCKS", 5)):
        monkeypatch.setattr(drawing, name, limit)
    monkeypatch.setattr(pooling, "SLAB", 7 * N)


def reasons(site: AttentionSite, k: int) -> list[list[set[str]]]:
    """Return for each fully blocked block of k × k cells the layers that block any of its cells, found cell by cell."""

    def of(q: int, key: int) -> set[str]:
        by = [
            set(site.blocked_by(i, j, head=HEAD))
            for i in range(q, min(q + k, N))
            for j in range(key, min(key + k, N))
        ]
        return set.union(*by) if all(by) else set()

    return [[of(q, key) for key in range(0, N, k)] for q in range(0, N, k)]


def names_of_bits(bits: np.ndarray, names: list[str]) -> list[list[set[str]]]:
    return [[{n for i, n in enumerate(names) if cell >> i & 1} for cell in row] for row in bits]


@pytest.mark.parametrize("k", [1, K])
def test_cells_drawn_as_masked_and_their_reasons(
    trace: Trace, site: AttentionSite, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if k > 1:
        small_limits(monkeypatch)
    wanted = reasons(site, k)
    assert {LOOK_AHEAD, DRAWN} in [cell for row in wanted for cell in row]
    header, arrays = unpack(head_payload(trace, site, HEAD, TERMS))
    assert header["block"] == k
    assert names_of_bits(arrays["blocked"], header["masks"]) == wanted
    largest = site.weights(HEAD).numpy()
    pooled = [[largest[q : q + k, j : j + k].max() for j in range(0, N, k)] for q in range(0, N, k)]
    np.testing.assert_allclose(arrays["weights"], pooled, atol=1e-6)
    part = CellRange.of(site, None)
    assert names_of_bits(part.blocked(site.mask), header["masks"]) == wanted
    weights, blocked = part.weights(site, HEAD)
    masked = [[bool(cell) for cell in row] for row in wanted]
    np.testing.assert_array_equal(blocked, masked)
    np.testing.assert_allclose(weights, pooled, atol=1e-6)
    boxes = Drawing(head_svg(trace, site, HEAD, "Head")).titled()
    hatched = ["url" in box.get("fill") for box, _ in boxes]
    assert hatched == [cell for row in masked for cell in row]
    assert [said == "masked" for _, said in boxes] == hatched


@pytest.mark.parametrize("most", [overview.MAX_WEIGHTS_AT_ONCE, 1])
@pytest.mark.parametrize("k", [1, K])
def test_in_the_overview_a_weight_of_0_has_the_first_colour(
    site: AttentionSite, k: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MAX_WEIGHTS_AT_ONCE", most)
    codes = overview.pooled_codes([site], k)[0][0, HEAD]
    masked = torch.tensor([[bool(cell) for cell in row] for row in reasons(site, k)])
    assert torch.equal(codes == 0, masked)
    assert (codes == 1).sum() > 0
    assert codes.max() == 255


def test_in_the_maps_of_a_training_run_the_masked_cells_are_those_of_the_mask(
    trace: Trace, site: AttentionSite
) -> None:
    weights = site.weights().numpy()
    header, arrays = unpack(attention_maps(trace, site, weights, TERMS, "", {}))
    for head, one in enumerate(header["maps"]):
        assert one["none"]
        assert np.array_equal(arrays[one["without"]], ~site.allowed(head=head).numpy())
        assert np.array_equal(arrays[one["array"]], weights[head])


def test_between_words_a_blocked_cell_has_the_reasons_of_all_its_tokens(
    site: AttentionSite,
) -> None:
    """The words have K tokens each, like the blocks above."""
    starts = tuple(range(0, N, K))
    mask = _join_mask(site, starts, starts)
    found = [[set(mask.blocked_by(q, k, 5, 5, head=HEAD)) for k in range(5)] for q in range(5)]
    assert found == reasons(site, K)
