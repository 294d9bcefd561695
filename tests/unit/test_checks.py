"""The checks beside a picture pass for what the model used, and fail for anything else."""

import itertools
from dataclasses import replace

import pytest
import torch
from small import forbidding

from models.analysis import slices
from models.analysis.checks import check_site, check_used, room_of_scores
from models.layers import similarity
from models.layers.masks import LOOK_AHEAD, Mask, SiteKind
from models.layers.similarity import AttentionSimilarity
from models.trace import AttentionSite

SITES = ["encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.cross_attn"]
NAMES = ["rows sum to 1", "blocked cells are 0", "weights · v is what the model used"]


def failed(site: AttentionSite, batch: int = 0) -> list[str]:
    return [check.name for check in check_site(site, batch) if not check.passed]


@pytest.fixture(scope="module")
def trace(scope):
    return scope.run("abc", "cba")


@pytest.fixture
def site(trace):
    return trace.attention["decoder.layers.0.self_attn"]


@pytest.mark.parametrize("name", SITES)
def test_all_checks_pass_for_what_the_model_used(trace, name):
    checks = check_site(trace.attention[name])
    assert [check.name for check in checks] == NAMES
    for check in checks:
        assert check.passed
        assert 0 <= check.value <= check.limit < 1e-2
        assert check.sentence


def test_blocked_cells_are_counted(site):
    assert (
        "18 blocked cells of all heads" in check_site(site)[1].sentence
    )  # 3 heads, 4 tokens: 3 · (3 + 2 + 1)


TAMPERED = {
    "values": lambda site: {"lazy_v": site.v * 1.01},
    "queries": lambda site: {"lazy_q": site.q.flip(1)},
    "keys": lambda site: {"lazy_k": site.k[:, :, [1, 0, 2, 3]]},
    "similarity": lambda site: {"similarity": AttentionSimilarity("dot")},
    "mask": lambda site: {
        "mask": Mask(layer for layer in site.mask.layers if layer.name != LOOK_AHEAD)
    },
    "no mask": lambda site: {"mask": Mask()},
    "kernel": lambda site: {"out": site.out + 1e-3},
    "NaN": lambda site: {"out": site.out * float("nan")},
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_picture_that_is_not_what_the_model_used_fails(site, what):
    assert failed(site) == []
    assert failed(replace(site, **TAMPERED[what](site))) == [NAMES[2]]


def with_weights(site: AttentionSite, change) -> AttentionSite:
    class Tampered(AttentionSite):
        def weights(self, head=None, batch=0, rows=None):
            return change(super().weights(head, batch, rows))

    return Tampered(**{name: getattr(site, name) for name in site.__dataclass_fields__})


def test_weights_that_do_not_sum_to_one_fail(site):
    assert failed(with_weights(site, lambda w: w)) == []
    assert failed(with_weights(site, lambda w: 1.001 * w)) == [NAMES[0], NAMES[2]]
    assert failed(with_weights(site, lambda w: (w + 1e-30).clamp(min=1e-9))) == [
        NAMES[1]
    ]  # tiny, and seen all the same
    assert failed(with_weights(site, lambda w: w.roll(1, -1))) == [NAMES[1], NAMES[2]]
    assert failed(with_weights(site, lambda w: w * float("nan"))) == NAMES


def test_a_model_that_does_something_else_than_it_shows_fails(scope, monkeypatch):
    """The last check compares the picture with the forward pass itself, not with another derivation."""
    kernel = similarity.F.scaled_dot_product_attention
    monkeypatch.setattr(
        similarity.F,
        "scaled_dot_product_attention",
        lambda *args, **how: 1.001 * kernel(*args, **how),
    )
    for site in scope.run("abc", "cba").attention.values():
        assert failed(site) == [NAMES[2]]


def test_a_row_with_nothing_allowed_is_no_failure(scope):
    nothing = torch.ones(4, 4, dtype=torch.bool)
    nothing[2] = False
    site = scope.run("abc", "cba", edits=forbidding({"cross": nothing})).attention[
        "decoder.layers.0.cross_attn"
    ]
    assert failed(site) == []
    assert site.weights()[:, 2].abs().max() == 0


@pytest.fixture(scope="module")
def steep():
    """A site whose scores are in the millions, each row's best two closer than float32 can tell apart there, and a `AttentionSimilarity`'s
    scores of it in float64."""
    rng = torch.Generator().manual_seed(5)
    q, v = torch.randn(1, 2, 7, 31, generator=rng), 300 * torch.randn(1, 2, 5, 31, generator=rng)
    k = torch.randn(1, 2, 1, 31, generator=rng) + 1e-8 * torch.randn(1, 2, 5, 31, generator=rng)
    exact = (3e5 * q).double() @ k.double().transpose(-2, -1) / 31**0.5

    def make(out: torch.Tensor, q_scale: float = 3e5) -> AttentionSite:
        kind = SiteKind("cross", "decoder", "cross", "target", "source")
        return AttentionSite(
            "cross", kind, q, k, q_scale * q, k, v, out.float(), Mask(), AttentionSimilarity(), {}
        )

    return make, exact, v


def test_scores_in_the_millions_leave_room_for_another_kernels_order(steep):
    make, exact, v = steep
    noise = 2 * torch.rand(exact.shape, generator=torch.Generator().manual_seed(1)) - 1
    other = (exact + 2.0**-22 * exact.abs() * noise).softmax(
        -1
    ).float() @ v  # a float32 rounding or two of each score
    check = check_used(make(other))
    assert check.passed
    assert check.value > 100 * 1e-5 * float(
        v.abs().max()
    )  # far outside what sums of values round to
    assert "so large that float32 rounds them" in check.sentence


def test_no_room_is_left_beyond_what_float32_rounding_explains(steep):
    """A row with one clearly best key has no tolerance, however large its scores, and small scores have next to none."""
    make, _, v = steep
    site = make(torch.zeros(1, 2, 7, 31))
    decided = replace(site, lazy_k=site.k * torch.arange(1.0, 6.0)[:, None])
    assert float(room_of_scores(decided).max()) == 0.0
    assert failed(replace(decided, out=decided.head_out()[None])) == []
    assert failed(replace(decided, out=decided.head_out()[None] + 0.03)) == [
        NAMES[2]
    ]  # some 3e-5 of the largest value
    small = make(torch.zeros(1, 2, 7, 31), q_scale=1.0)
    assert 0 < float(room_of_scores(small).max()) < 1e-5 * float(v.abs().max())


def test_the_room_is_as_wide_as_rounded_scores_can_move_a_row(steep):
    """Each row's scores are moved by δ up or down, in float64: no row moves further than the room, and some nearly half as far."""
    make, _, v = steep
    site = make(torch.zeros(1, 2, 7, 31), q_scale=1e3)
    exact, room = site.scores().double(), room_of_scores(site)
    delta = 4 * 2.0**-23 * exact.abs().amax(-1, keepdim=True)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=5)), dtype=torch.float64)[
        :, None, None
    ]
    moved = ((exact + delta * signs).softmax(-1) - exact.softmax(-1)) @ v[
        0
    ].double()  # (signs, head, query, d_head)
    share = moved.abs().amax(0) / room
    assert float(share.max()) <= 1
    assert float(share.max()) > 0.3


def test_a_group_of_heads_has_the_room_of_its_own_values(steep):
    site = steep[0](torch.zeros(1, 2, 7, 31))
    halves = replace(site, lazy_v=site.v[:, :1])
    assert torch.equal(
        room_of_scores(halves)[1], room_of_scores(replace(site, lazy_v=site.v[:, [0, 0]]), 1)
    )
    assert torch.equal(room_of_scores(halves, 1), room_of_scores(halves)[1])
    assert torch.equal(room_of_scores(site, 1, rows=slice(2, 5)), room_of_scores(site)[1, 2:5])


def test_a_long_sites_rows_are_looked_at_head_by_head(site, monkeypatch):
    monkeypatch.setattr(slices, "WEIGHTS_PER_SLICE", 5)  # one row of four keys at a time
    assert failed(site) == []
    assert "18 blocked cells of all heads" in check_site(site)[1].sentence
    for head, query in ((0, 0), (2, 3)):
        out = site.out.clone()
        out[0, head, query, 1] += 1e-3
        assert failed(replace(site, out=out)) == [NAMES[2]]
