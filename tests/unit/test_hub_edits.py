"""Edits of heads in models of other libraries: attention that is called, and attention that is part of a torch layer."""

from pathlib import Path

import pytest
import torch
from hub_models import BY_NAME
from sample_edits import Added, CopiedWeights, Everywhere, HeadScale
from torch import nn

import models
from models import Scope
from models.analysis.checks import check_site
from models.decoding import greedy
from models.trace.edits import HeadOff, Where

NAMES = [
    "GPT2LMHeadModel",
    "LlamaForCausalLM",  # its heads share keys
    "BertForMaskedLM",
    "T5ForConditionalGeneration",  # adds a bias to its scores
    "MarianMTModel",
]
TEXT = "7 11 13 17 19"


@pytest.fixture(scope="module")
def scopes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scope]:
    root = tmp_path_factory.mktemp("hub")
    for name in NAMES:
        BY_NAME[name].save(root / name)
    return {name: models.load(root / name, device="cpu") for name in NAMES} | {"own": own(root)}


def own(root: Path) -> Scope:
    """A torch layer, whose attention is one call of F.multi_head_attention_forward."""
    torch.manual_seed(1)
    embedding = nn.Embedding(31, 22)
    layer = nn.TransformerEncoderLayer(22, 2, 31, dropout=0.0, batch_first=True)
    module = nn.Sequential(embedding, layer, nn.Linear(22, 31)).eval()
    return models.watch(module, encode=lambda text: [int(i) for i in text.split()])


def run(scope: Scope, *edits: models.edits.Edit) -> models.Trace:
    return scope.run(*[TEXT] * (2 if scope.model.translates else 1), edits=edits)


@pytest.mark.parametrize("name", [*NAMES, "own"])
def test_a_head_that_is_off_passes_nothing_on(scopes, name):
    plain = run(scopes[name])
    for site_name, own_site in plain.attention.items():
        trace = run(scopes[name], HeadOff(site_name, head=1))
        site = trace.attention[site_name]
        assert [n for n, other in trace.attention.items() if other.edits] == [site_name]
        assert own_site.out[0, 1].any()
        assert not site.out[0, 1].any()
        assert not site.head_out(1).any()
        torch.testing.assert_close(site.out[0, 0], own_site.out[0, 0])
        assert all(
            check.passed for other in trace.attention.values() for check in check_site(other)
        )
        off = trace.activations[f"{site_name}.attn_out"].value
        assert not torch.allclose(off, plain.activations[f"{site_name}.attn_out"].value)
    for kind in scopes[name].model.kinds:
        trace = run(scopes[name], HeadOff(Where(kind=kind.name)))
        for site in trace.attention.values():
            assert (site.kind == kind.name) == (not site.out.any())


@pytest.mark.parametrize("name", [*NAMES, "own"])
def test_edits_of_weights_keep_the_mask(scopes, name):
    plain = run(scopes[name])
    same = run(scopes[name], CopiedWeights(Where(kind=scopes[name].model.kinds[0].name)))
    for site_name, site in plain.attention.items():
        assert torch.equal(site.out, same.attention[site_name].out)
    for site_name in plain.attention:
        trace = run(scopes[name], Everywhere(Where(site=site_name, heads=(1,))))
        site = trace.attention[site_name]
        allowed = site.allowed(0, 1)
        torch.testing.assert_close(site.weights(1), allowed / allowed.sum(-1, keepdim=True))
        assert all(check.passed for check in check_site(site))


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM", "MarianMTModel"])
@pytest.mark.parametrize("queries", [None, (2, 6)])
def test_decoding_under_edits_is_the_same_with_a_cache(scopes, name, queries):
    model, given = scopes[name].model, scopes[name].given_ids(TEXT)
    found = [
        HeadScale(Where(kind=kind.name, heads=(0,), queries=queries), factor=-3.0)
        for kind in model.kinds
    ]
    own, cached, anew = (
        torch.stack([s.log_probs for s in greedy(model, given, max_new=7, forced=[5] * 7, **how)])
        for how in ({}, {"edits": found}, {"edits": found, "use_cache": False})
    )
    torch.testing.assert_close(cached, anew, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(own[-1], cached[-1], atol=1e-5)


def test_what_cannot_be_edited_is_refused(scopes):
    with pytest.raises(ValueError, match="activations of GPT2LMHeadModel can be recorded, but not"):
        run(scopes["GPT2LMHeadModel"], Added(name="decoder.embedding"))
    with pytest.raises(ValueError, match="'nowhere': the attentions are .*attn"):
        run(scopes["GPT2LMHeadModel"], HeadOff("nowhere"))
