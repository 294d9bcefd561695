"""Layers compiled for training: the same numbers, one compilation for each kind, and recording runs the uncompiled code."""

import copy
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from models.architectures.transformer import Transformer, TransformerConfig
from models.trace import record
from models.trace.edits import HeadOff
from models.trace.edits.active import editing
from models.training.compiled_layers import compile_layers, compiling_pays

SIZES = TransformerConfig(
    29, d_model=12, n_heads=3, d_ff=17, n_encoder_layers=6, n_decoder_layers=6, dropout=0.0
)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[Transformer, Transformer]:
    """A model, and the same one compiled."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(1)
    written = Transformer(SIZES)
    compiled = copy.deepcopy(written)
    compile_layers(compiled, backend="eager")
    return written, compiled


def batch(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of n source and m target tokens, one row of each with padding."""
    source, target = torch.randint(4, 29, (5, n)), torch.randint(4, 29, (5, m))
    source[1, -2:] = target[2, -1:] = 0
    return source, target


def test_batches_of_any_shape_give_the_same_logits_and_gradients(pair: Any) -> None:
    for n, m in ((7, 5), (11, 13), (3, 2)):
        inputs = batch(n, m)
        logits = [model.train()(*inputs) for model in pair]
        assert torch.equal(*logits)
        for each in logits:
            each.square().sum().backward()
    gradients = [[p.grad for p in model.parameters()] for model in pair]
    assert all(map(torch.equal, *gradients))
    # for an encoder layer and a decoder layer, for all shapes
    assert counters["stats"]["unique_graphs"] <= 4


def test_a_recording_and_an_edit_use_the_uncompiled_layers(pair: Any) -> None:
    inputs = batch(7, 5)
    for model in pair:
        model.eval()(*inputs)
    recordings, answers = [], []
    for model in pair:
        with record() as recording:
            model(*inputs)
        recordings.append(recording)
        with editing([HeadOff("encoder.layers.1.self_attn", 2)]):
            answers.append(model(*inputs))
    assert [list(r.activations) for r in recordings][0] == list(recordings[1].activations)
    assert len(recordings[1].attention) == 18
    assert torch.equal(*answers)
    assert not torch.equal(answers[0], pair[0](*inputs))


def test_only_a_long_run_of_a_wide_model_on_a_gpu_is_compiled() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert compiling_pays(512, 100_000, gpu)
    assert not compiling_pays(512, 100_000, cpu)
    assert not compiling_pays(128, 100_000, gpu)
    assert not compiling_pays(512, 500, gpu)
