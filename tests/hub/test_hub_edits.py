"""Edits of other libraries' models: attention that is called or part of a torch layer, and intermediates by module path."""

import copy
from collections.abc import Callable

import pytest
import torch
from hub_models import Case
from sample_edits import Added, Copied, CopiedWeights, Everywhere, ramp
from torch import nn

import models
from models import Scope
from models.analysis import integrated_gradients
from models.analysis.checks import check_site
from models.analysis.metrics import LogProbability
from models.decoding import greedy
from models.trace.edits import HeadOff, HeadScale, Where, editing

NAMES = [
    "GPT2LMHeadModel",
    "LlamaForCausalLM",  # its heads share keys
    "BertForMaskedLM",
    "T5ForConditionalGeneration",  # adds a bias to its scores
    "MarianMTModel",
]
LAYERED = [*NAMES, "GPTNeoXForCausalLM", "OPTForCausalLM", "DistilBertForMaskedLM"]  # every layout
TEXT = "7 11 13 17 19"


@pytest.fixture(scope="module")
def scopes(hub_scope: Callable[[str], Scope]) -> dict[str, Scope]:
    return {name: hub_scope(name) for name in LAYERED} | {"own": own()}


def own() -> Scope:
    """A torch layer whose attention is one call of F.multi_head_attention_forward."""
    torch.manual_seed(1)
    embedding = nn.Embedding(31, 22)
    layer = nn.TransformerEncoderLayer(22, 2, 31, dropout=0.0, batch_first=True)
    module = nn.Sequential(embedding, layer, nn.Linear(22, 31)).eval()
    return models.watch(module, encode=lambda text: [int(i) for i in text.split()])


def run(scope: Scope, *edits: models.edits.Edit) -> models.Trace:
    return scope.run(*[TEXT] * (2 if scope.model.translates else 1), edits=edits)


def test_integrated_gradients_resolve_a_norm_right_after_the_attention(tmp_path):
    """Gemma 2 divides what the heads add by its length, so almost all of the path is flat."""
    sizes = {"vocab_size": 53, "hidden_size": 24, "num_attention_heads": 6, "num_hidden_layers": 1}
    more = {"num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 31, "sliding_window": 3}
    Case("Gemma2ForCausalLM", "Gemma2Config", sizes | more).save(tmp_path)
    scope = models.load(tmp_path)
    (name,) = (trace := scope.run(TEXT)).attention
    parts = integrated_gradients(scope, trace, LogProbability(5), [name])
    assert abs(parts.total) > 0.1
    assert parts.error < 0.02


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
    model, given = scopes[name].model, scopes[name].input_ids(TEXT)
    found = [
        HeadScale(Where(kind=kind.name, heads=(0,), queries=queries), factor=-2.0)
        for kind in model.kinds
    ]
    own, cached, anew = (
        torch.stack([s.log_probs for s in greedy(model, given, max_new=7, forced=[5] * 7, **how)])
        for how in ({}, {"edits": found}, {"edits": found, "use_cache": False})
    )
    torch.testing.assert_close(cached, anew, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(own[-1], cached[-1], atol=1e-5)


# name of an intermediate, and where a hook of the plain module changes it: at the output of another module where there is one
BY_HAND = [
    ("GPT2LMHeadModel", "decoder.embedding", "transformer.wte"),
    ("GPT2LMHeadModel", "transformer.h.1.resid_pre", "transformer.h.0"),
    ("GPT2LMHeadModel", "transformer.h.0.ln_1.normed", "transformer.h.0.ln_1"),
    ("GPT2LMHeadModel", "transformer.h.1.attn.attn_out", "transformer.h.1.attn.c_proj"),
    ("GPT2LMHeadModel", "transformer.h.0.resid_mid", "transformer.h.0.attn.c_proj"),
    ("GPT2LMHeadModel", "transformer.h.0.mlp.ff_pre", "transformer.h.0.mlp.c_fc"),
    ("GPT2LMHeadModel", "transformer.h.0.mlp.ff_post", "transformer.h.0.mlp.act"),
    ("GPT2LMHeadModel", "transformer.h.1.mlp.ff_out", "transformer.h.1.mlp.c_proj"),
    ("GPT2LMHeadModel", "transformer.h.1.resid_post", "input of transformer.ln_f"),
    ("LlamaForCausalLM", "model.layers.0.resid_mid", "model.layers.0.self_attn.o_proj"),
    ("LlamaForCausalLM", "model.layers.1.mlp.ff_pre", "model.layers.1.mlp.gate_proj"),
    ("LlamaForCausalLM", "model.layers.1.mlp.ff_post", "input of model.layers.1.mlp.down_proj"),
    ("LlamaForCausalLM", "model.layers.0.mlp.ff_out", "model.layers.0.mlp.down_proj"),
    ("LlamaForCausalLM", "model.layers.1.resid_post", "input of model.norm"),
    ("BertForMaskedLM", "bert.encoder.layer.1.attention.resid_mid", "input of bert.encoder.layer.1.intermediate.dense and "
     "bert.encoder.layer.1.output"),
    ("BertForMaskedLM", "bert.encoder.layer.0.ff_post", "bert.encoder.layer.0.intermediate.intermediate_act_fn"),
    ("BertForMaskedLM", "bert.encoder.layer.0.ff_out", "bert.encoder.layer.0.output.dense"),
    ("BertForMaskedLM", "bert.encoder.layer.0.attention.resid_post", "bert.encoder.layer.0"),
    ("T5ForConditionalGeneration", "encoder.block.0.layer.0.resid_mid", "encoder.block.0.layer.0.SelfAttention.o"),
    ("T5ForConditionalGeneration", "decoder.block.1.layer.1.resid_mid", "decoder.block.1.layer.0.SelfAttention.o"),
    ("T5ForConditionalGeneration", "decoder.block.1.layer.1.resid_mid_cross", "decoder.block.1.layer.1.EncDecAttention.o"),
    ("T5ForConditionalGeneration", "decoder.block.0.layer.2.DenseReluDense.ff_post", "input of decoder.block.0.layer.2.DenseReluDense.wo"),
    ("T5ForConditionalGeneration", "encoder.block.1.layer.1.DenseReluDense.ff_out", "encoder.block.1.layer.1.DenseReluDense.wo"),
]  # fmt: skip
IDS = torch.tensor([[7, 11, 13, 17, 19], [5, 23, 29, 31, 37]])
TOKENS, ROW = (1, 3), 1


def added(value: torch.Tensor) -> torch.Tensor:
    """Apply the edit Added: add a ramp at these tokens of this row."""
    amount = torch.zeros(2, 5, value.shape[-1])
    amount[ROW, TOKENS] = ramp(value.shape[-1])
    return value + amount.reshape(value.shape)


def with_hooks(module: nn.Module, places: str) -> nn.Module:
    """Return a copy of a library's module with the change made by hooks, without the product."""
    module = copy.deepcopy(module)
    of_input, paths = (
        places.startswith("input of "),
        places.removeprefix("input of ").split(" and "),
    )

    def enter(part: nn.Module, args: tuple) -> tuple:
        return *args[:-1], added(args[-1])

    def leave(part: nn.Module, args: tuple, output: object) -> object:
        return (added(output[0]), *output[1:]) if isinstance(output, tuple) else added(output)

    for path in paths:
        part = module.get_submodule(path)
        part.register_forward_pre_hook(enter) if of_input else part.register_forward_hook(leave)
    return module


@pytest.mark.parametrize(("name", "activation", "places"), BY_HAND)
@torch.no_grad()
def test_an_edited_intermediate_equals_one_changed_by_hooks(scopes, name, activation, places):
    model = scopes[name].model
    exact = copy.deepcopy(model).double()  # the two routes add up in another order
    inputs = {"input_ids": IDS, **({"decoder_input_ids": IDS} if model.translates else {})}
    expected = with_hooks(exact.module, places)(**inputs).logits
    edit = Added(Where(activation=activation, queries=TOKENS, rows=(ROW,)))
    with editing([edit]):
        assert (logits_of(exact) - expected).abs().max() < 1e-6
        unrecorded = logits_of(model)
    with models.record() as before:
        plain = logits_of(model)
    with models.record() as recording, editing([edit]):
        logits = logits_of(model)
    assert torch.equal(logits, unrecorded)
    assert torch.equal(logits[0], plain[0])
    assert not torch.allclose(logits[1], plain[1], atol=1e-3)
    value = recording.activations[activation].value
    torch.testing.assert_close(value, added(before.activations[activation].value))
    assert list(recording.activations) == list(before.activations)
    assert all(check.passed for site in recording.attention.values() for check in check_site(site))


def logits_of(model: nn.Module) -> torch.Tensor:
    answers = model(*model.repeated(IDS))
    return answers if isinstance(answers, torch.Tensor) else next(iter(answers.values()))


@pytest.mark.parametrize("name", LAYERED)
def test_every_edited_stream_reaches_its_layer(scopes, name):
    """The next part begins with x' + sublayer(x'), for every stream of each layout."""
    model = scopes[name].model
    assert model.sublayers
    for part in model.sublayers:
        if not part.before:
            continue
        with (
            torch.no_grad(),
            models.record() as recording,
            editing([Copied(), Added(Where(activation=part.before))]) as in_force,
        ):
            model(*model.repeated(IDS))
        held = {name: activation.value for name, activation in recording.activations.items()}
        total = held[part.before] + held[part.out]
        if part.norm == "post":
            total = part.layer_norm(total)
        if part.after:
            torch.testing.assert_close(held[part.after], total, atol=1e-4, rtol=1e-4)
        assert {name for name in held if not name.endswith(".position")} <= in_force.offered


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM", "MarianMTModel"])
def test_decoding_under_edited_intermediates_is_the_same_with_a_cache(scopes, name):
    model, given = scopes[name].model, scopes[name].input_ids(TEXT)
    names = [part.before for part in model.sublayers if part.before]
    names += [part.out for part in model.sublayers if part.role == "feed-forward"]
    for activation in names:
        edit = Added(Where(activation=activation, queries=(2, 6)))
        own, cached, anew = (
            torch.stack(
                [s.log_probs for s in greedy(model, given, max_new=5, forced=[5] * 5, **how)]
            )
            for how in ({}, {"edits": [edit]}, {"edits": [edit], "use_cache": False})
        )
        torch.testing.assert_close(cached, anew, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(own, cached, atol=1e-4), activation


def test_what_cannot_be_edited_is_refused(scopes):
    near = "'h.0.resid_mid' is not one of the [0-9]+ activations .* transformer.h.0.resid_mid"
    with pytest.raises(ValueError, match=near):
        run(scopes["GPT2LMHeadModel"], Added(Where(activation="h.0.resid_mid")))
    with pytest.raises(ValueError, match="this model has no activation that can be changed"):
        run(scopes["own"], Added(Where(activation="1.resid_mid")))
    with pytest.raises(ValueError, match="'nowhere': the attentions are .*attn"):
        run(scopes["GPT2LMHeadModel"], HeadOff("nowhere"))
