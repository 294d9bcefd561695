"""Modules with unusual attention: what is recorded of them, and the reason given where nothing can be."""

import by_hand_modules as written
import pytest
import torch
from by_hand import TEXT, blocked, drawn, ids
from torch import nn

import models
from models import InputError
from models.analysis.checks import check_site
from models.hub.recording.by_hand.heads import FollowedHead, FollowedHeads
from models.layers.masks import SiteKind
from models.trace import AttentionSite
from models.trace.edits import HeadScale, MaskChange, Where, editing, for_kinds

N = len(TEXT)


def scope_of(part: nn.Module) -> models.Scope:
    return models.watch(drawn(written.Read(part)), encode=ids)


def site_of(part: nn.Module) -> AttentionSite:
    scope = scope_of(part)
    trace = scope.run(TEXT)
    assert trace.unrecorded == {}
    (site,) = trace.attention.values()
    assert [check for check in check_site(site) if not check.passed] == []
    return site


@pytest.mark.parametrize("made", [written.HeadModules, written.HeadLoop])
@torch.no_grad()
def test_heads_that_are_modules_or_turns_of_a_loop_are_one_attention(made: type[nn.Module]) -> None:
    part = made()
    site = site_of(part)
    own = part.weights if made is written.HeadLoop else [head.weights for head in part.heads]
    assert (site.name, site.layer, site.n_heads) == (
        "part" if made is written.HeadLoop else "part.heads", 0, 2,
    )  # fmt: skip
    assert torch.equal(site.weights(), torch.cat(own))
    assert [layer.name for layer in site.mask.layers] == ["look-ahead"]
    assert site.projections["W_O"][0].equal(part.out.weight)
    weight, bias = site.projections["W_Q"]
    q = torch.nn.functional.linear(site.x, weight, bias).unflatten(-1, (2, -1)).transpose(1, 2)
    assert (q - site.q).abs().max() < 1e-6


def test_attentions_are_counted_as_layers_not_their_heads() -> None:
    """Neither path holds a number: the second attention is layer 1, however many heads the first has."""
    part = nn.Sequential()
    part.add_module("first", written.HeadModules())
    part.add_module("second", written.HeadModules())
    trace = scope_of(part).run(TEXT)
    layers = {name: (site.layer, site.n_heads) for name, site in trace.attention.items()}
    assert layers == {"part.first.heads": (0, 2), "part.second.heads": (1, 2)}


@pytest.mark.parametrize(("other", "n_heads"), [(1, 2), (2, 1)])
def test_heads_of_one_attention_follow_one_another_in_their_list(other: int, n_heads: int) -> None:
    kind, x, found = (
        SiteKind("self", "decoder", "self", "text", "text"),
        torch.randn(1, 3, 4),
        FollowedHeads(),
    )
    for i in (0, other):
        path = f"part.heads.{i}"
        group = found.add(FollowedHead(path, path, kind, 0, x, x, torch.randn(1, 1, 3, 2), None))
    assert len(group) == n_heads


@pytest.mark.parametrize("made", [written.HeadModules, written.HeadLoop])
@torch.no_grad()
def test_an_edit_of_one_head_reaches_its_module_and_no_other(made: type[nn.Module]) -> None:
    """The scope has made no run before, from which it could know the heads."""
    scope = scope_of(part := made())
    edits = (
        *for_kinds(self=MaskChange(block=((7, 2),))),
        HeadScale(Where(heads=(1,)), factor=-0.5),
    )
    row = torch.tensor([ids(TEXT)])
    with editing(edits):
        got = scope.model(row)["numbers"]
    with models.record() as recording:
        plain = scope.model(row)["numbers"]
    (site,) = recording.attention.values()
    weights = site.weights()
    raised = weights.clone()
    raised[:, 7, 2] = 0
    raised = raised / raised.sum(-1, keepdim=True)
    outs = raised @ site.v[0]
    wanted = part.out(torch.cat([outs[0], -0.5 * outs[1]], -1))
    assert (got[0] - wanted).abs().max() < 1e-5
    assert (got - plain).abs().max() > 1e-2
    (changed,) = scope.run_batch([[TEXT]], edits=edits)[0].attention.values()
    assert changed.weights()[:, 7, 2].eq(0).all()
    assert (changed.out[0, 1] + 0.5 * outs[1]).abs().max() < 1e-5
    (one,) = scope.run_batch([[TEXT]], edits=[MaskChange(Where(heads=(1,)), block=((7, 2),))])[
        0
    ].attention.values()
    assert (one.weights()[0] - weights[0]).abs().max() < 1e-6
    assert weights[0, 7, 2] > 1e-3
    assert one.weights()[1, 7, 2] == 0


@pytest.mark.parametrize(
    ("part", "similarity", "numbers"),
    [
        (written.Plain(), "dot", {}),
        (written.Capped(), "capped dot", {"s": 0.3, "c": 2.0}),
        (written.Sloped(), "scaled dot", {}),
        (written.Checkpointed(), "dot", {}),
        (written.SharedKeys(), "dot", {}),
        (written.UnusedHead(), "dot", {}),
        (written.Logged(), "dot", {}),
        (written.RaisedInPlace(), "dot", {}),
        (written.EmptyAdded(), "dot times a constant", {"s": 0.5}),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, nn.Module) else "",
)
@torch.no_grad()
def test_the_score_is_what_the_module_softmaxes(
    part: nn.Module, similarity: str, numbers: dict[str, float]
) -> None:
    site = site_of(part)
    inner = part.parts[1] if isinstance(part, written.Checkpointed) else part
    assert torch.equal(site.weights(), inner.weights[0])
    assert site.similarity.name == similarity
    assert {k: float(v) for k, v in site.similarity.learned.items()} == pytest.approx(numbers)
    derived = site.scores().masked_fill(~site.allowed(head=None), -torch.inf).softmax(-1)
    assert (derived - inner.weights[0]).abs().max() < 2e-6


@torch.no_grad()
def test_a_temperature_of_each_head_is_part_of_its_queries() -> None:
    site = site_of(part := written.Tempered())
    factor = part.temperature.exp()
    q = torch.nn.functional.linear(site.x, part.q.weight, part.q.bias).unflatten(-1, (2, -1))
    assert (site.q[0] - q[0].transpose(0, 1) * factor).abs().max() < 1e-5
    assert site.projections == {}  # the matrix alone does not make these queries
    assert torch.equal(site.weights(), part.weights[0])


def test_slopes_are_a_term_by_distance() -> None:
    site = site_of(written.Sloped())
    (term,) = site.terms
    distance = (torch.arange(N)[:, None] - torch.arange(N)).float()
    wanted = -torch.tensor([0.5, 0.25])[:, None, None] * distance
    below = ~blocked(N)
    assert torch.equal(term.scores(None, torch.arange(N), N)[:, below], wanted[:, below])


@torch.no_grad()
def test_float64_is_recorded_and_shown_in_float32() -> None:
    scope = models.watch(drawn(written.Read(written.Sloped())).double(), encode=ids)
    (site,) = scope.run(TEXT).attention.values()
    assert (site.weights() - scope.model.module.part.weights[0]).abs().max() < 1e-7
    assert site.similarity.name == "scaled dot"
    assert [check for check in check_site(site) if not check.passed] == []


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (written.Squared(), "is not a scale, an added term and a mask"),
        (written.Renormalised(), "changed between the softmax and the values"),
        (written.Conjugate(), "could not be taken apart"),
    ],
    ids=["squared", "renormalised", "complex"],
)
@torch.no_grad()
def test_unknown_scores_leave_the_weights_and_a_reason(part: nn.Module, reason: str) -> None:
    """The values are a product with the tokens, so the weights are over tokens; but no edit can reach them."""
    scope = scope_of(part)
    trace = scope.run(TEXT)
    (site,) = trace.attention.values()
    assert not site.has_causes
    assert reason in site.why_given
    used = part.weights[0]
    assert torch.equal(site.weights(), used)
    with pytest.raises(ValueError, match=reason):
        site.scores()
    with pytest.raises(InputError, match="no change reaches part") as error:
        scope.run_batch([[TEXT]], edits=for_kinds(self=MaskChange(block=((7, 2),))))
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (written.OverQueries(), "does not run over the axis that its values are summed over"),
        (written.OverHeads(), "does not run over the axis that its values are summed over"),
        (written.Linear(), "without a softmax"),
        (written.Mapped(), "could not be taken apart"),
    ],
    ids=["over the queries", "over the heads", "linear", "vmap"],
)
@pytest.mark.parametrize("text", [TEXT, "fa"])
def test_a_softmax_over_another_axis_is_named_and_not_drawn(
    part: nn.Module, reason: str, text: str
) -> None:
    with pytest.raises(InputError, match=reason):
        scope_of(part).run(text)


@pytest.mark.parametrize("text", [TEXT, "fade"])
def test_a_router_and_a_choice_of_letters_are_no_attention(text: str) -> None:
    """A text of four has as many tokens as there are experts."""
    scope = scope_of(written.Router())
    trace = scope.run(text)
    assert list(trace.attention) == ["part.seen"]
    assert set(trace.unrecorded) == {"part"}
