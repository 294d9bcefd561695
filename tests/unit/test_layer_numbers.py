"""The layer number of an attention is that of its layer, whatever the layers before it contain."""

from pathlib import Path

import pytest
import torch
from by_hand import HEADS, LETTERS, WIDTH, ids
from hub_models import _GROUPED, Case
from torch import Tensor, nn

import models
from models.hub.describe import layers_and_heads
from models.trace import Trace
from models.trace.edits import HeadOff, Where
from viz_app import words
from viz_app.views.decoding.decoding_runs import decoder_attention
from viz_app.views.layer.text import layer_name

_MAMBA = {
    "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
    "expert_layer_offset": 1, "num_experts": 1, "use_mamba_kernels": False, "mamba_d_state": 4, "mamba_expand": 1,
}  # fmt: skip
JAMBA = Case("JambaForCausalLM", "JambaConfig", _GROUPED | _MAMBA)
DIFF = Case(
    "DiffLlamaForCausalLM", "DiffLlamaConfig", _GROUPED | {"head_dim": 4, "hidden_size": 24}
)


class Soft(nn.MultiheadAttention):
    def __init__(self) -> None:
        super().__init__(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x, x, x, need_weights=False)[0]


class Twice(Soft):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + super().forward(x))


class Layers(nn.Module):
    """Layers with a residual stream, optionally with an attention before them, optionally run more than once."""

    def __init__(self, *layers: nn.Module, first: nn.Module | None = None, times: int = 1) -> None:
        super().__init__()
        self.embedding, self.first = nn.Embedding(len(LETTERS), WIDTH), first or nn.Identity()
        self.layers, self.times = nn.ModuleList(layers), times

    def forward(self, row: Tensor) -> Tensor:
        x = self.first(self.embedding(row))
        for _ in range(self.times):
            for layer in self.layers:
                x = x + layer(x)
        return x


def numbers(trace: Trace) -> dict[str, int]:
    return {name: site.layer for name, site in trace.attention.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "n_sites"), [(JAMBA, 2), (DIFF, 4)], ids=["hybrid", "two calls"])
def test_titles_and_the_page_of_a_layer_number_a_layer_alike(
    case: Case, n_sites: int, tmp_path: Path
) -> None:
    case.save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run("5 9 7 11")
    pages = {part.path: layer_name(part) for part in scope.model.sublayers}
    assert len(trace.attention) == n_sites
    for site in trace.attention.values():
        number = pages[site.name.partition(" ")[0]]
        assert words.layer_place(site) == f"Decoder layer {number}"
        assert site.name.startswith(f"model.layers.{int(number) - 1}.")
    assert layers_and_heads(list(trace.attention.values())).startswith("2 layers")


def test_either_call_of_a_layer_can_be_shown_on_decoding(tmp_path: Path) -> None:
    DIFF.save(tmp_path)
    trace = models.load(tmp_path, device="cpu").run("5 9 7 11")
    first, second = (name for name, site in trace.attention.items() if site.layer == 1)
    for name, call in (("", ""), (first, ""), (second, " (2)")):
        shown = decoder_attention(trace, 1, 2, name=name)
        assert shown.self_attention == (name or first)
        assert shown.name == f"decoder layer 2{call}, head 3"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Layers(Soft(), Soft()), [0, 1]),
        (Layers(nn.Linear(WIDTH, WIDTH), Soft(), nn.Identity(), Soft()), [1, 3]),
        (Layers(Soft(), Soft(), first=Soft()), [0, 0, 1]),
        (Layers(Twice(), Soft()), [0, 0, 1]),
        (Layers(Soft(), Soft(), times=2), [0, 1, 2, 3]),
    ],
    ids=["plain", "hybrid", "one before", "two calls", "run again"],
)
@torch.no_grad()
def test_a_module_in_a_list_is_the_layer_of_its_index(
    module: nn.Module, expected: list[int]
) -> None:
    scope = models.watch(module.eval(), encode=ids)
    assert list(numbers(scope.run("badge")).values()) == expected


def test_an_edit_of_a_layer_reaches_all_attention_of_that_layer_and_nothing_else() -> None:
    scope = models.watch(Layers(Twice(), Soft()).eval(), encode=ids)
    trace = scope.run("badge", edits=[HeadOff(Where(layers=(1,)), head=0)])
    edited = [name for name, site in trace.attention.items() if site.edits]
    assert edited == ["layers.1"]
    trace = scope.run("badge", edits=[HeadOff(Where(layers=(0,)), head=0)])
    assert [n for n, site in trace.attention.items() if site.edits] == ["layers.0", "layers.0 (2)"]
