"""Watching `flex_attention`, compiled modules and the fast path of torch's encoder, against softmaxes written out here."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from hub_models import BY_NAME
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import models
from models import Scope
from models.errors import InputError
from models.trace.compiled import run_uncompiled
from models.trace.edits import MaskChange, for_kinds

N, HEADS, KEY_HEADS, WIDTH, VOCABULARY = 7, 4, 2, 5, 31
TEXT = "7 11 13 17 19 23 29"
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])


def look_ahead(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def by_distance(score: Tensor, b: Any, h: Any, q: Any, k: Any) -> Tensor:
    return score + SLOPES[h] * (k - q)


def window(score: Tensor, b: Any, h: Any, q: Any, k: Any) -> Tensor:
    return torch.where((q - k).abs() < 3, score, -torch.inf)


def capped(score: Tensor, b: Any, h: Any, q: Any, k: Any) -> Tensor:
    return 2 * torch.tanh(score / 2)


class Flexible(nn.Module):
    """One layer, whose heads share keys in pairs."""

    def __init__(self, score_mod: Any = None, is_causal: bool = False, lse: bool = False) -> None:
        super().__init__()
        self.score_mod, self.is_causal, self.lse = score_mod, is_causal, lse
        self.embedding, width = nn.Embedding(VOCABULARY, 22), HEADS * WIDTH
        self.q, self.kv = nn.Linear(22, width), nn.Linear(22, 2 * KEY_HEADS * WIDTH)
        self.out = nn.Linear(width, VOCABULARY)

    def parts(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.embedding(ids)
        k, v = self.kv(x).unflatten(-1, (2, KEY_HEADS, WIDTH)).permute(2, 0, 3, 1, 4)
        return self.q(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2), k, v

    def forward(self, ids: Tensor) -> Tensor:
        q, k, v = self.parts(ids)
        n = ids.shape[1]
        mask = create_block_mask(look_ahead, None, None, n, n, "cpu") if self.is_causal else None
        out, lse = flex_attention(
            q, k, v, self.score_mod, mask, 0.3, enable_gqa=True, return_lse=True
        )
        return self.out(out.transpose(1, 2).flatten(2)) + (lse.sum() if self.lse else 0)


def written_out(module: Flexible, cell: tuple[int, int] | None = None) -> tuple[Tensor, Tensor]:
    """Return the weights and the answer by hand; `cell` is forbidden."""
    q, k, v = module.parts(ids())
    k, v = (t.repeat_interleave(HEADS // KEY_HEADS, dim=1) for t in (k, v))
    scores, places = 0.3 * q @ k.mT, torch.arange(N)
    away = places[None] - places[:, None]
    if module.score_mod is by_distance:
        scores = scores + SLOPES[:, None, None] * away
    if module.score_mod is window:
        scores = scores.masked_fill(away.abs() >= 3, -torch.inf)
    if module.is_causal:
        scores = scores.masked_fill(away > 0, -torch.inf)
    if cell is not None:
        scores[:, :, cell[0], cell[1]] = -torch.inf
    weights = scores.softmax(-1)
    total = scores.logsumexp(-1).sum() if module.lse else 0
    return weights[0], module.out((weights @ v).transpose(1, 2).flatten(2)) + total


def ids() -> Tensor:
    return torch.tensor([[int(i) for i in TEXT.split()]])


def watched(module: nn.Module, **how: Any) -> Scope:
    torch.manual_seed(1)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.4)
    return models.watch(module.eval(), encode=lambda text: [int(i) for i in text.split()], **how)


CASES = [(None, False), (None, True), (by_distance, True), (by_distance, False), (window, True)]


@pytest.mark.parametrize(("score_mod", "is_causal"), CASES)
@torch.no_grad()
def test_its_weights_are_those_of_a_softmax_written_out(score_mod: Any, is_causal: bool) -> None:
    module = Flexible(score_mod, is_causal)
    scope = watched(module)
    (site,) = scope.run(TEXT).attention.values()
    weights, answer = written_out(module)
    assert site.has_causes
    assert site.k.shape[1] == KEY_HEADS
    assert (site.weights() - weights).abs().max() < 2e-6
    assert site.allowed(head=None).equal(weights > 0)
    assert ("look-ahead" in [layer.name for layer in site.mask.layers]) is is_causal
    assert bool(site.terms) is (score_mod is by_distance)
    plain = module(ids())
    assert (plain - answer).abs().max() < 1e-5
    with models.record():
        assert torch.equal(scope.model(ids())["numbers"], plain)


@pytest.mark.parametrize(("score_mod", "is_causal"), CASES)
@torch.no_grad()
def test_a_painted_mask_reaches_it(score_mod: Any, is_causal: bool) -> None:
    module = Flexible(score_mod, is_causal, lse=True)
    scope = watched(module)
    edits = for_kinds(self=MaskChange(block=((5, 4),)))
    trace = scope.run(TEXT, edits=edits)
    (site,) = trace.attention.values()
    weights, answer = written_out(module, (5, 4))
    assert site.weights()[:, 5, 4].eq(0).all()
    assert (site.weights() - weights).abs().max() < 2e-6
    with models.trace.edits.editing(edits):
        assert (scope.model(ids())["numbers"] - answer).abs().max() < 1e-4


def test_a_score_mod_that_does_more_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="score_mod does more to q·k than to add a term"):
        watched(Flexible(capped)).run(TEXT)


@torch.no_grad()
def test_the_librarys_models_give_the_same_with_flex_attention() -> None:
    module = BY_NAME["LlamaForCausalLM"].make()
    scope = models.watch(
        module.eval(),
        encode=lambda text: [int(i) for i in text.split()],
        decode=lambda row: " ".join(map(str, row)),
        call=lambda m, row: m(input_ids=row, use_cache=False).logits,
    )
    module.set_attn_implementation("flex_attention")
    sites = list(scope.run(TEXT).attention.values())
    module.set_attn_implementation("eager")
    wanted = module(input_ids=ids(), output_attentions=True).attentions
    for site, weights in zip(sites, wanted, strict=True):
        assert (site.weights() - weights[0]).abs().max() < 2e-6


def test_a_folder_that_names_flex_attention_opens_like_any_other(tmp_path: Any) -> None:
    module = BY_NAME["GPT2LMHeadModel"].make()
    module.config._attn_implementation = "flex_attention"
    module.save_pretrained(tmp_path)
    trace = models.load(tmp_path, device="cpu").run(TEXT)
    eager = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, attn_implementation="eager")
    with torch.no_grad():
        wanted = eager.eval()(input_ids=ids(), output_attentions=True).attentions
    for site, weights in zip(trace.attention.values(), wanted, strict=True):
        assert (site.weights() - weights[0]).abs().max() < 2e-6


class Encoder(nn.Module):
    """torch's encoder, which takes a fast path through one kernel when it is not recorded; with padding it nests its tensors."""

    def __init__(self, is_nested: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(22, 2, 31, batch_first=True)
        self.embedding = nn.Embedding(VOCABULARY, 22)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=is_nested)

    def forward(self, row: Tensor) -> Tensor:
        return self.encoder(self.embedding(row))


def compiled(module: nn.Module) -> Any:
    return torch.compile(module, backend="eager")


@pytest.mark.parametrize("wrap", [lambda module: module, compiled], ids=["plain", "compiled"])
@pytest.mark.parametrize("is_nested", [True, False])
@torch.no_grad()
def test_recording_replaces_the_fast_path_of_torchs_encoder(
    is_nested: bool, wrap: Callable[[nn.Module], Any]
) -> None:
    module = Encoder(is_nested).eval()
    scope = watched(wrap(module))
    sites = list(scope.run(TEXT).attention.values())
    assert [site.name.removeprefix("_orig_mod.") for site in sites] == [
        f"encoder.layers.{i}.self_attn" for i in range(2)
    ]
    for site, block in zip(sites, module.encoder.layers, strict=True):
        _, wanted = block.self_attn(*[site.x] * 3, average_attn_weights=False)
        assert (site.weights() - wanted[0]).abs().max() < 2e-6
    with models.record():
        answer = scope.model(ids())["numbers"]
    assert (answer - module(ids())).abs().max() < 1e-5  # that of the fast path
    edited = scope.run(TEXT, edits=for_kinds(self=MaskChange(block=((5, 4),))))
    assert all(site.weights()[:, 5, 4].eq(0).all() for site in edited.attention.values())


def test_compiled_code_is_used_again_after_the_last_of_several_passes() -> None:
    """The passes overlap in two threads, and the one that began first ends first."""
    runs: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        runs.append("compiled")
        return graph.forward

    double = torch.compile(lambda x: F.relu(x) * 2, backend=backend)
    first_ended, second_began = threading.Event(), threading.Event()

    def second() -> None:
        with run_uncompiled():
            second_began.set()
            first_ended.wait(10)
            double(torch.ones(3))

    thread = threading.Thread(target=second)
    with run_uncompiled():
        thread.start()
        second_began.wait(10)
    first_ended.set()
    thread.join()
    assert runs == []
    double(torch.ones(3))
    assert runs == ["compiled"]
