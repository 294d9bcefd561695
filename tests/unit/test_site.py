"""Parts of a site on demand: one head, some rows, named terms, keys shared by groups of heads; each by a second route."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from drawn import letters
from small import (
    D_HEAD,
    N_HEADS,
    padded_ids,
    random_attention_only,
    random_gpt,
    random_model,
    random_seq2seq,
)

from models.analysis import checks, slices
from models.layers.masks import Mask, MaskLayer, look_ahead
from models.layers.similarity import AttentionSimilarity
from models.trace import AttentionSite, DistanceTerm, Recording, record
from models.trace.lazy import LazyLinear
from viz_app.drawing import overview, pooling, sites

N_QUERY, N_KEY = 7, 11


@pytest.fixture
def site() -> AttentionSite:
    """A cross-attention with random q, k and v whose mask differs by head."""
    with record() as recording, torch.no_grad():
        random_model()(*padded_ids())
    found = recording.attention["decoder.layers.1.cross_attn"]
    rng = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, N_HEADS, n, D_HEAD, generator=rng) for n in (N_QUERY, N_KEY, N_KEY))
    allowed = torch.rand(1, N_HEADS, N_QUERY, N_KEY, generator=rng) > 0.3
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    return replace(
        found, lazy_q=q, lazy_k=k, lazy_v=v, out=out, mask=Mask([MaskLayer("drawn", allowed)])
    )


@pytest.mark.parametrize(
    "rows", [slice(0, 1), slice(2, 5), slice(5, None), slice(None), slice(6, 99)]
)
def test_some_rows_are_rows_of_the_whole(site, rows):
    for head in range(N_HEADS):
        for part in ("scores", "weights", "head_out"):
            whole = getattr(site, part)(head)
            torch.testing.assert_close(
                getattr(site, part)(head, rows=rows), whole[rows], atol=1e-6, rtol=1e-6
            )
            torch.testing.assert_close(
                getattr(site, part)(rows=rows)[head], whole[rows], atol=1e-6, rtol=1e-6
            )
        assert torch.equal(site.allowed(head=head, rows=rows), site.mask.allowed[0, head][rows])
        assert torch.equal(
            site.allowed(head=None, rows=rows)[head], site.mask.allowed[0, head][rows]
        )


@pytest.mark.parametrize("n_key", [1, 4, N_KEY])
def test_scores_of_the_first_keys_are_columns_of_the_whole(site, n_key):
    term = DistanceTerm("bias", torch.arange(N_HEADS * 5.0).reshape(N_HEADS, 5), -2)
    for made in (site, replace(site, terms=(term,))):
        for head in (None, 1):
            whole = made.scores(head, rows=slice(2, 5))
            torch.testing.assert_close(
                made.scores(head, rows=slice(2, 5), n_key=n_key), whole[..., :n_key]
            )


@pytest.mark.parametrize("slab", [1, 20, 2**17])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 40])
def test_blocks_of_several_heads_are_the_largest_of_their_cells(site, monkeypatch, slab, k):
    """Each block is checked cell by cell: masks that differ by head, a row that sees nothing, a last key that no query sees, and
    keys that count as 0."""
    monkeypatch.setattr(pooling, "SLAB", slab)
    allowed = site.mask.allowed.clone()
    allowed[:, 0, 3], allowed[..., -1] = False, False
    for mask in (
        Mask([MaskLayer("drawn", allowed)]),
        Mask([MaskLayer("drawn", allowed[:, :1])]),
        Mask(),
    ):
        made = replace(site, mask=mask)
        for hidden in ([], [0, N_KEY - 1]):
            found = pooling.pooled_heads(made, [2, 0], k, hidden)
            for head, blocks in zip((2, 0), found, strict=True):
                shown = made.weights(head)
                shown[:, hidden] = 0
                shown = shown.masked_fill(~made.allowed(head=head), -1)
                assert blocks.shape == (-(-N_QUERY // k), -(-N_KEY // k))
                for i, j in torch.cartesian_prod(*map(torch.arange, blocks.shape)).tolist():
                    cells = shown[i * k : (i + 1) * k, j * k : (j + 1) * k]
                    assert float(blocks[i, j]) == pytest.approx(float(cells.max()), abs=1e-6)
            assert pooling.pooled_weights(made, 0, k, hidden).equal(
                pooling.pooled_heads(made, [0], k, hidden)[0]
            )


def test_rows_are_softmax_of_the_kernels_scores(site):
    torch.testing.assert_close(site.head_out(), site.out[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        site.head_out(1, rows=slice(3, 6)), site.out[0, 1, 3:6], atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize("n_query", [N_KEY, 3])
def test_a_term_is_added_by_the_distance_of_key_and_query(site, n_query):
    """Row by row and cell by cell; with fewer queries than keys, the queries are the last, after a cache. Beyond the table its ends apply."""
    table = torch.arange(N_HEADS * 5.0).reshape(N_HEADS, 5)
    q = torch.randn(1, N_HEADS, n_query, D_HEAD)
    plain = replace(site, lazy_q=q, out=torch.zeros(1, N_HEADS, n_query, D_HEAD), mask=Mask())
    added = replace(
        plain, terms=(DistanceTerm("bias", table, -2), DistanceTerm("other", 100 * table, 0))
    )
    for head in range(N_HEADS):
        before, after = plain.scores(head), added.scores(head)
        for i in range(n_query):
            for j in range(N_KEY):
                distance = j - (i + N_KEY - n_query)
                bias = (
                    table[head, min(max(distance, -2), 2) + 2]
                    + 100 * table[head, min(max(distance, 0), 4)]
                )
                assert float(after[i, j] - before[i, j]) == pytest.approx(float(bias), abs=1e-3)
    torch.testing.assert_close(added.scores(rows=slice(1, 3))[2], added.scores(2)[1:3])
    torch.testing.assert_close(added.weights(1), added.scores(1).softmax(-1))


def test_a_group_of_heads_reads_one_key_head(site):
    q, k, v = (
        torch.randn(1, 6, N_QUERY, D_HEAD),
        torch.randn(1, 2, N_KEY, D_HEAD),
        torch.randn(1, 2, N_KEY, D_HEAD),
    )
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    grouped = replace(
        site, lazy_q=q, lazy_k=k, lazy_v=v, out=out, mask=Mask(), similarity=AttentionSimilarity()
    )
    assert (grouped.n_heads, grouped.n_key) == (6, N_KEY)
    torch.testing.assert_close(grouped.head_out(), out[0], atol=1e-5, rtol=1e-4)
    for head in range(6):
        torch.testing.assert_close(grouped.head_out(head), out[0, head], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(
            grouped.scores(head), q[0, head] @ k[0, head // 3].T / D_HEAD**0.5, atol=1e-5, rtol=1e-4
        )


def test_a_projection_without_a_bias_is_multiplied_again():
    x, weight = torch.randn(2, N_QUERY, 13), torch.randn(N_HEADS * D_HEAD, 13)
    product = LazyLinear(x, weight, None, N_HEADS)
    whole = (x @ weight.T).unflatten(-1, (N_HEADS, D_HEAD)).transpose(1, 2)
    assert product.shape == (2, N_HEADS, N_QUERY, D_HEAD)
    torch.testing.assert_close(product.read(), whole)
    torch.testing.assert_close(product.read_head(1, 2), whole[1, 2])
    torch.testing.assert_close(product.map_tensors(lambda t: t[:1] * 2).read(), 2 * whole[:1])
    assert LazyLinear(x, weight, None).shape == (2, N_QUERY, N_HEADS * D_HEAD)


def test_two_intermediates_of_one_name_are_an_error():
    recording = Recording()
    recording.tap("decoder", "embedding", torch.zeros(1, 2, 3), "text", "d_model", "x")
    with pytest.raises(
        RuntimeError, match=r"two intermediates of this run are called decoder\.embedding"
    ):
        recording.tap("decoder", "embedding", torch.zeros(1, 2, 3), "text", "d_model", "x")


@pytest.mark.parametrize("cells", [1, 2 * N_KEY, 10**6])
def test_checks_of_a_few_rows_at_a_time_give_the_same_as_all_at_once(site, monkeypatch, cells):
    monkeypatch.setattr(slices, "WEIGHTS_PER_SLICE", cells)
    found = checks.check_site(site)
    assert [check.passed for check in found] == [True, True, True]
    assert f"on the {int((~site.mask.allowed).sum())} blocked cells" in found[1].sentence
    last = site.out.clone()
    last[0, N_HEADS - 1, N_QUERY - 1, 0] += 0.5
    assert checks.check_site(replace(site, out=last))[2].value == pytest.approx(0.5, abs=1e-4)
    last[0, 0, 0, 0] = torch.nan
    assert not checks.check_site(replace(site, out=last))[2].passed


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_long_texts_heads_are_pooled_a_few_rows_at_a_time(site, monkeypatch, k):
    whole, _ = overview.pooled_codes([site, replace(site, lazy_q=-site.q)], k)
    monkeypatch.setattr(overview, "MAX_WEIGHTS_AT_ONCE", 2 * N_KEY)
    monkeypatch.setattr(pooling, "SLAB", 2 * N_KEY)
    assert torch.equal(overview.pooled_codes([site, replace(site, lazy_q=-site.q)], k)[0], whole)


def test_the_sharpest_head_reads_the_most_words_other_than_itself_and_the_first():
    trace = letters("gpt").run("ab=de", "d@ba")
    name, head = sites.sharpest_head(trace)
    n = trace.attention[name].n_query
    tokens = trace.streams["text"].tokens
    words = [j for j in range(1, n) if tokens[j].isalpha()]
    assert 1 < len(words) < n - 1
    means = {
        (site.name, h): sum(
            max(float(site.weights(h)[i, j]) for i in range(n) if i != j) for j in words
        )
        for site in trace.attention.values()
        for h in range(site.n_heads)
    }
    assert means[name, head] == pytest.approx(max(means.values()))


def test_a_first_token_that_is_a_word_does_not_count_either():
    trace = letters("gpt").run("ab=de", "d@ba")
    row = trace.streams["text"]
    assert row.tokens[1].isalpha()
    cut = replace(row, tokens=(row.tokens[1], *row.tokens[1:]), offsets=((0, 1), *row.offsets[1:]))
    trace = replace(trace, streams=trace.streams | {"text": cut})
    words = [j for j in range(1, len(cut.tokens)) if cut.tokens[j].isalpha()]
    for site in trace.attention.values():
        for head, mean in enumerate(sites._mean_peaks(trace, site).tolist()):
            weights = site.weights(head).fill_diagonal_(0)
            assert mean == pytest.approx(float(weights[:, words].amax(0).sum()) / site.n_key)


def test_the_role_of_a_site_describes_it():
    roles = {
        name: (site.stack, site.role, site.query_stream, site.key_stream)
        for family in ("transformer", "recurrent", "gpt")
        for name, site in letters(family).run("abc", "de").attention.items()
        if "layers.1" not in name
    }
    assert roles == {
        "encoder.layers.0.self_attn": ("encoder", "self", "source", "source"),
        "decoder.layers.0.self_attn": ("decoder", "self", "text", "text"),
        "decoder.layers.0.cross_attn": ("decoder", "cross", "target", "source"),
        "decoder.alignment": ("decoder", "alignment", "target", "source"),
    }


@pytest.mark.parametrize("start", [0, 3, 6])
@pytest.mark.parametrize(
    "make",
    [
        random_model,
        random_attention_only,
        random_seq2seq,
        random_gpt,
        partial(random_gpt, window=2),
    ],
)
def test_the_masks_of_a_run_from_a_position_on_are_the_rows_of_the_whole(make, start):
    model, (given, row) = make(), padded_ids()
    row = row[:, :7]
    whole, later = model.written_masks(given, row), model.written_masks(given, row, start)
    written = {kind.name for kind in model.kinds if kind.query_stream == model.writes}
    for name in written:
        n_key = 7 if model.continues or name == "decoder_self" else given.shape[1]
        assert (whole[name].start, later[name].start) == (0, start)
        assert [layer.name for layer in later[name].layers] == [
            layer.name for layer in whole[name].layers
        ]
        for batch in (0, 1):
            rows = later[name].expanded(batch, 0, 7 - start, n_key)
            assert torch.equal(rows, whole[name].expanded(batch, 0, 7, n_key)[start:])
    assert written


def test_the_mask_of_one_row_keeps_its_first_position():
    assert Mask([look_ahead(2, 5)], start=3).row(0, 2, 5).start == 3
