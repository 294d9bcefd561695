"""The checks beside a picture: they pass for what the model used, and fail for anything else."""

from dataclasses import replace

import pytest
import torch
from small import forbidding

from models.analysis.checks import check_site
from models.layers import similarity
from models.layers.masks import LOOK_AHEAD, Mask
from models.layers.similarity import Similarity
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
def test_all_hold_for_what_the_model_used(trace, name):
    checks = check_site(trace.attention[name])
    assert [check.name for check in checks] == NAMES
    for check in checks:
        assert check.passed
        assert 0 <= check.value <= check.limit < 1e-2
        assert check.sentence


def test_blocked_cells_are_counted(site):
    assert "18 blocked cells of all heads" in check_site(site)[1].sentence   # 3 heads, 4 tokens: 3 · (3 + 2 + 1)


TAMPERED = {
    "values": lambda site: {"v": site.v * 1.01},
    "queries": lambda site: {"q": site.q.flip(1)},
    "keys": lambda site: {"k": site.k[:, :, [1, 0, 2, 3]]},
    "similarity": lambda site: {"similarity": Similarity("dot")},
    "mask": lambda site: {"mask": site.mask.without(LOOK_AHEAD)},
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


def test_weights_that_are_no_distribution_fail(site):
    assert failed(with_weights(site, lambda w: w)) == []
    assert failed(with_weights(site, lambda w: 1.001 * w)) == [NAMES[0], NAMES[2]]
    assert failed(with_weights(site, lambda w: (w + 1e-30).clamp(min=1e-9))) == [NAMES[1]]   # tiny, and seen all the same
    assert failed(with_weights(site, lambda w: w.roll(1, -1))) == [NAMES[1], NAMES[2]]
    assert failed(with_weights(site, lambda w: w * float("nan"))) == NAMES


def test_a_model_that_does_something_else_than_it_shows_fails(scope, monkeypatch):
    """The last check holds the picture against the forward pass itself, not against another derivation."""
    kernel = similarity.F.scaled_dot_product_attention
    monkeypatch.setattr(similarity.F, "scaled_dot_product_attention", lambda *args, **how: 1.001 * kernel(*args, **how))
    for site in scope.run("abc", "cba").attention.values():
        assert failed(site) == [NAMES[2]]


def test_a_row_with_nothing_allowed_is_no_failure(scope):
    nothing = torch.ones(4, 4, dtype=torch.bool)
    nothing[2] = False
    site = scope.run("abc", "cba", edits=forbidding({"cross": nothing})).attention["decoder.layers.0.cross_attn"]
    assert failed(site) == []
    assert site.weights()[:, 2].abs().max() == 0
