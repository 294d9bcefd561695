"""Hooks on a user's module: several scopes of it, the types that it returns, and other users of it."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from by_hand import TEXT, WIDTH, Decoder, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.hub.recording.context import PassContext, Tap, Taps
from models.hub.recording.watch import Marks, watching
from models.layers.masks import SiteKind
from models.trace import record
from models.trace.edits import ActivationPart, Edit, MaskChange, Where, for_kinds

KIND = SiteKind("self", "encoder", "self", "text", "text")


def n_hooks(module: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())


def test_watching_a_module_again_leaves_no_hooks_of_the_scopes_before() -> None:
    module = drawn(Decoder())
    scope = models.watch(module, encode=ids)
    n, sites = n_hooks(module), scope.run(TEXT).attention
    for _ in range(3):
        scope = models.watch(module, encode=ids)
    gc.collect()
    assert n_hooks(module) == n
    assert scope.run(TEXT).attention.keys() == sites.keys()
    del scope
    gc.collect()
    assert n_hooks(module) == 0


class Inside(nn.Module):
    """A module that contains another one."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, row: Tensor) -> Tensor:
        return self.part(row)


@pytest.mark.parametrize("is_outer_first", [False, True])
def test_a_module_and_the_whole_that_it_is_part_of_are_watched_by_their_own_paths(
    is_outer_first: bool,
) -> None:
    part = drawn(Decoder())
    wholes = {"": part, "part.": Inside(part).eval()}
    scopes = {}
    for prefix in sorted(wholes, reverse=is_outer_first):
        scopes[prefix] = models.watch(wholes[prefix], encode=ids)
    for prefix, scope in scopes.items():
        assert list(scope.run(TEXT).attention) == [f"{prefix}layers.0", f"{prefix}layers.1"]


class Pair(NamedTuple):
    states: Tensor
    other: Tensor


class PairModule(nn.Module):
    """A module whose parts pass named tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.inner.register_forward_hook(lambda module, args, x: Pair(x, -x))

    def forward(self, x: Tensor) -> Tensor:
        pair = self.inner(x)
        return pair.states + 3 * pair.other


class Doubled(Edit):
    def activation(self, value: Tensor, part: ActivationPart) -> Tensor:
        return 2 * value


def test_an_edit_changes_one_field_of_a_named_tuple() -> None:
    module, taps = PairModule(), Taps()
    taps.add("inner", Tap("inner.out", False, "x"))
    marks = Marks(module, taps)
    x = torch.randn(1, 5, 7)
    with (
        models.trace.edits.editing([Doubled()]),
        record(),
        watching(PassContext(lambda frame: KIND, 5, taps=taps)),
    ):
        changed = module(x)
    assert torch.equal(changed, 2 * x - 3 * x)
    assert marks is not None


class SumOfPair(nn.Module):
    """Attention whose weighted sum takes a named tuple of factors."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(17, WIDTH), nn.Linear(WIDTH, 17)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, row: Tensor) -> Tensor:
        q, k, v = map(split, self.qkv(self.embedding(row)).chunk(3, -1))
        factors = Pair((q @ k.mT).softmax(-1), v)
        return self.head(joined(torch.einsum("bhqk,bhkd->bhqd", factors)))


def test_a_sum_of_a_named_tuple_is_edited() -> None:
    scope = models.watch(drawn(SumOfPair()), encode=ids)
    (site,) = scope.run(TEXT).attention
    change = for_kinds(self=MaskChange(block=((4, 1),)))
    weights = scope.run(TEXT, edits=change).attention[site].weights()
    assert weights[:, 4, 1].eq(0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(1))


class Keeping(nn.Module):
    """Attention that stores its input on itself, as scripts do, and waits for a second thread."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.both = Decoder(), Barrier(2)

    def forward(self, row: Tensor) -> Tensor:
        self.row = row
        try:
            self.both.wait(0.05)
        except BrokenBarrierError:
            self.both.reset()
        return self.inner(self.row)


def test_runs_in_two_threads_do_not_mix_in_a_module_that_keeps_tensors() -> None:
    scope = models.watch(drawn(Keeping()), encode=ids, decode=str)
    texts = "badge", "hideaface"
    alone = [scope.run(text).next_token.logits for text in texts]
    with ThreadPoolExecutor(2) as pool:
        together = [t.next_token.logits for t in pool.map(scope.run, texts)]
    assert all(map(torch.equal, together, alone))


@pytest.mark.parametrize("name", ["linear", "scaled_dot_product_attention"])
def test_another_librarys_replacement_of_a_function_is_called_and_stays(
    name: str, hub_scope: Callable[[str], models.Scope], monkeypatch: pytest.MonkeyPatch
) -> None:
    scope, original, calls = hub_scope("GPT2LMHeadModel"), getattr(F, name), []
    ids = "5 6 7 8 9 10 11"
    sites = scope.run(ids).attention

    def replacement(*args: object, **kwargs: object) -> Tensor:
        calls.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(F, name, replacement)
    assert scope.model.by_functions
    again = scope.run(ids).attention
    assert calls
    assert getattr(F, name) is replacement
    assert all(torch.equal(sites[key].weights(), again[key].weights()) for key in sites)


class HeadsByLayer(nn.Module):
    """Layers of two heads and of three that share one mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 30)
        self.layers = nn.ModuleList(nn.Linear(30, 90) for _ in range(2))

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        mask = torch.ones(row.shape[1], row.shape[1], dtype=torch.bool).tril()
        for n_heads, layer in zip((2, 3), self.layers, strict=True):
            q, k, v = (t.unflatten(-1, (n_heads, -1)) for t in layer(x).chunk(3, -1))
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            x = x + joined(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        return x


def test_a_head_is_masked_in_layers_of_several_numbers_of_heads() -> None:
    scope = models.watch(drawn(HeadsByLayer()), encode=ids)
    plain = scope.run(TEXT).attention
    assert [site.n_heads for site in plain.values()] == [2, 3]
    edit = MaskChange(Where(heads=(1,)), block=((4, 1),))
    for site in scope.run(TEXT, edits=[edit]).attention.values():
        is_closed = site.weights()[:, 4, 1].eq(0)
        assert is_closed.tolist() == [head == 1 for head in range(site.n_heads)]
