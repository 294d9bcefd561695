"""The four layers against torch's own modules, their Jacobians against autograd, finite differences and the closed form, and
their graphs against the zeros of the Jacobians."""

import math
import platform
import re

import pytest
import torch
from small import VOCAB, random_ids, random_model
from torch import nn

from models.analysis import jacobian_norms, layer_timing
from models.analysis.divergence import jensen_shannon
from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    D_NEW,
    LAYER_KINDS,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    has_layer,
    layer_reach,
)
from models.analysis.layer_timing import TIMED_LENGTHS, Timing, growth_rate, machine, time_layers
from models.analysis.sequence_layers import (
    BACKWARD,
    FORWARD,
    Convolutional,
    Recurrent,
    SelfAttention,
    hops,
)
from models.architectures.encoder_decoder import ENCODER_SELF
from models.architectures.seq2seq import Seq2Seq, Seq2SeqConfig
from models.layers.attention import MultiHeadAttention
from models.layers.similarity import SIMILARITIES

N, D_IN, D_OUT = 7, 5, 3
BOTH = (FORWARD, BACKWARD)


def recurrent_model(seed: int = 1, **changes) -> Seq2Seq:
    """A recurrent encoder-decoder with random weights."""
    torch.manual_seed(seed)
    return Seq2Seq(
        Seq2SeqConfig(VOCAB, **{"d_model": 11, "d_hidden": 13, "d_align": 7, "n_ctx": 37} | changes)
    ).eval()


def every_layer() -> dict[str, tuple]:
    """Layers of all kinds, each with an input it takes."""
    torch.manual_seed(3)
    x, wide = torch.randn(N, D_IN), torch.randn(N, 8)
    modules = {
        "tanh": nn.RNN(D_IN, D_OUT, bidirectional=True),
        "gru": nn.GRU(D_IN, D_OUT, bidirectional=True),
    }
    layers = {
        f"{name}, {way}": (Recurrent.of(m, *ways), x)
        for name, m in modules.items()
        for way, ways in (("forward", (FORWARD,)), ("backward", (BACKWARD,)), ("both", BOTH))
    }
    for width, depth in ((1, 1), (3, 1), (3, 2), (5, 1)):
        layers[f"cnn {width} × {depth}"] = (Convolutional.random(D_IN, D_OUT, width, depth, 2), x)
    return {**layers, "self-attention": (SelfAttention.random(8, 2), wide)}


LAYERS = every_layer()


@pytest.mark.parametrize("name", LAYERS)
def test_the_norms_match_plain_autograd(name):
    layer, x = LAYERS[name]
    plain = torch.stack([jacobian_norms.by_autograd(layer, x, i) for i in range(len(x))])
    torch.testing.assert_close(jacobian_norms.norms(layer, x), plain, rtol=1e-4, atol=1e-6)
    assert (plain > 0).any()


@pytest.mark.parametrize("name", LAYERS)
def test_the_norms_match_finite_differences(name):
    layer, x = LAYERS[name]
    module = layer.module if isinstance(layer, SelfAttention) else None
    layer = SelfAttention(module.double()) if module is not None else _double(layer)
    x, step = x.double(), 1e-6
    found = jacobian_norms.norms(layer, x)
    for j in range(len(x)):
        columns = []
        for feature in range(x.shape[1]):
            nudge = torch.zeros_like(x)
            nudge[j, feature] = step
            columns.append((layer(x + nudge) - layer(x - nudge)).detach() / (2 * step))
        torch.testing.assert_close(
            found[:, j], torch.stack(columns).square().sum((0, 2)).sqrt(), rtol=1e-6, atol=1e-8
        )
    if module is not None:
        module.float()


def _double(layer):
    if isinstance(layer, Convolutional):
        return Convolutional(
            tuple(k.double() for k in layer.kernels), tuple(b.double() for b in layer.biases)
        )
    return Recurrent({
        name: type(d)(d.step, d.W.double(), d.U.double(), d.b_W.double(), d.b_U.double()) for name, d in layer.directions.items()
    })  # fmt: skip


def test_elmans_jacobian_by_hand():
    """∂h_2/∂x_0 = diag(1 − h_2²) U diag(1 − h_1²) U diag(1 − h_0²) W."""
    module = nn.RNN(D_IN, D_OUT)
    layer, x = Recurrent.of(module, FORWARD), torch.randn(N, D_IN)
    W, U = module.weight_ih_l0.detach(), module.weight_hh_l0.detach()
    slopes = [torch.diag(1 - h**2) for h in module(x)[0].detach()]
    found = jacobian_norms.norms(layer, x)
    assert float(found[2, 0]) == pytest.approx(
        float((slopes[2] @ U @ slopes[1] @ U @ slopes[0] @ W).norm()), rel=1e-5
    )
    assert float(found[4, 4]) == pytest.approx(float((slopes[4] @ W).norm()), rel=1e-5)
    A, B = jacobian_norms.cell_jacobians(layer.directions[FORWARD], x)
    torch.testing.assert_close(A[3], slopes[3] @ U)
    torch.testing.assert_close(B[3], slopes[3] @ W)


@pytest.mark.parametrize("name", LAYERS)
def test_exactly_the_pairs_without_a_path_have_a_zero_norm(name):
    layer, x = LAYERS[name]
    torch.testing.assert_close(jacobian_norms.norms(layer, x) > 0, layer.reaches(N))


@pytest.mark.parametrize("module", [nn.RNN, nn.GRU])
def test_a_recurrence_is_torchs_own(module):
    own, x = module(D_IN, D_OUT, bidirectional=True), torch.randn(N, D_IN)
    torch.testing.assert_close(Recurrent.of(own, *BOTH)(x), own(x)[0].detach())
    torch.testing.assert_close(Recurrent.of(own, BACKWARD)(x), own(x)[0][:, D_OUT:].detach())


def test_a_missing_direction_is_refused():
    with pytest.raises(ValueError, match="reads forward only"):
        Recurrent.of(nn.GRU(D_IN, D_OUT), *BOTH)


@pytest.mark.parametrize(("width", "depth"), [(2, 1), (0, 1), (3, 0)])
def test_an_impossible_convolution_is_refused(width, depth):
    with pytest.raises(ValueError, match="odd width and a depth"):
        Convolutional.random(D_IN, D_OUT, width, depth, 1)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_gradients_of_scores_are_right_for_every_similarity(similarity):
    layer, x = SelfAttention(MultiHeadAttention(6, 3, ENCODER_SELF, similarity)), torch.randn(5, 6)
    plain = torch.stack([jacobian_norms.by_autograd(layer, x, i) for i in range(5)])
    torch.testing.assert_close(jacobian_norms.norms(layer, x), plain, rtol=1e-4, atol=1e-6)


# Graphs


def test_hops_by_hand():
    reads = torch.tensor(
        [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0]], dtype=torch.bool
    )  # 3 reads 2 and 0
    assert hops(reads).tolist() == [[0, -1, -1, -1], [1, 0, -1, -1], [2, 1, 0, -1], [1, 2, 1, 0]]


@pytest.mark.parametrize("width", [3, 5])
def test_the_path_length_of_a_cnn_is_the_depth_at_which_its_jacobian_fills(width):
    """It is counted on the graph and compared with stacks of every depth: a pair is 0 until there are enough layers."""
    x = torch.randn(N, D_IN)
    counted = Convolutional.random(D_IN, D_OUT, width, 1, 1).steps(N)
    needed = torch.zeros(N, N, dtype=torch.int64)
    for depth in range(N, 0, -1):
        stack = Convolutional.random(D_IN, D_OUT, width, depth, 1)
        needed[jacobian_norms.norms(stack, x) > 0] = depth
        assert stack.field == 1 + depth * (width - 1)
    assert counted.tolist() == needed.tolist()
    apart = (torch.arange(N)[:, None] - torch.arange(N)).abs()
    assert counted.tolist() == [
        [max(1, math.ceil(d / (width // 2))) for d in row] for row in apart.tolist()
    ]


def test_a_cnn_of_width_one_reaches_only_its_own_token():
    assert Convolutional.random(D_IN, D_OUT, 1, 4, 1).steps(3).tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
    ]


def test_path_lengths_of_the_others():
    module = nn.RNN(D_IN, D_OUT, bidirectional=True)
    assert Recurrent.of(module, FORWARD).steps(3).tolist() == [[1, 0, 0], [2, 1, 0], [3, 2, 1]]
    assert Recurrent.of(module, *BOTH).steps(3).tolist() == [[1, 2, 3], [2, 1, 2], [3, 2, 1]]
    assert SelfAttention.random(8, 1).steps(3).tolist() == [[1] * 3] * 3


@pytest.mark.parametrize("name", LAYERS)
def test_a_schedule_computes_every_position_and_takes_as_long_as_the_longest_path(name):
    layer, _ = LAYERS[name]
    schedule = layer.schedule(N)
    assert {i for step in schedule for i in step} == set(range(N))
    if isinstance(layer, Convolutional):
        assert len(schedule) == layer.depth
    else:
        assert len(schedule) == int(layer.steps(N).max())


def test_an_empty_choice_is_the_models_own_layer_or_a_cnn_of_three_layers():
    assert (LayerChoice(CNN).seed, LayerChoice(CNN).width, LayerChoice(CNN).depth) == (None, 3, 3)
    model, ids = random_model(), tuple(random_ids(1, 6)[0].tolist())
    found = layer_reach(model, ids, LayerChoice(CNN, 2))
    with torch.no_grad():
        x = model.embedding(torch.tensor(ids)) * model.config.d_model**0.5
    torch.testing.assert_close(
        found.norms,
        jacobian_norms.norms(Convolutional.random(x.shape[1], D_NEW, 3, 3, 2), x.detach()),
    )
    assert (found.d_in, found.d_out, found.schedule) == (x.shape[1], D_NEW, [list(range(6))] * 3)
    assert found.steps[0].tolist() == [1, 1, 2, 3, 4, 5]
    assert found.reaches[0].tolist() == [True, True, True, True, False, False]


def test_means_by_distance_by_hand():
    values, counted = (
        torch.tensor([[1.0, 9.0], [3.0, 2.0]]),
        torch.tensor([[True, False], [True, True]]),
    )
    assert jacobian_norms.norms_by_distance(values, counted) == [(0, 1.5, 2), (1, 3.0, 1)]


# A model's own layers


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (recurrent_model(), {RNN, BIDIRECTIONAL}),
        (recurrent_model(bidirectional=False), {RNN}),
        (random_model(), {SELF_ATTENTION}),
        (random_model(n_encoder_layers=0), set()),
    ],
)
def test_the_layers_of_each_model(model, kinds):
    assert {kind for kind in LAYER_KINDS if has_layer(model, kind)} == kinds
    for kind in set(LAYER_KINDS) - kinds:
        with pytest.raises(ValueError, match=f"^this model has no trained {kind} in its encoder$"):
            layer_reach(model, (5, 6), LayerChoice(kind))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("changes", [{}, {"cell": "tanh"}, {"attention": "none"}])
@pytest.mark.parametrize("kind", [RNN, BIDIRECTIONAL])
def test_a_models_recurrence_is_differentiated_at_its_own_embeddings(changes, kind):
    model, ids = recurrent_model(**changes), random_ids(1, N)
    found = layer_reach(model, tuple(ids[0].tolist()), LayerChoice(kind))
    x = (model.embedding(ids)[0] * model.config.d_model**0.5).detach().requires_grad_()
    y = model.encoder(x[None], torch.ones(1, N, dtype=torch.bool))[0]
    side = y if kind == BIDIRECTIONAL else y[:, : model.config.d_hidden]
    for i in range(N):
        rows = torch.stack(
            [torch.autograd.grad(number, x, retain_graph=True)[0] for number in side[i]]
        )
        torch.testing.assert_close(
            found.norms[i], rows.square().sum((0, 2)).sqrt(), rtol=1e-4, atol=1e-7
        )
    assert found.output_gap < 1e-5
    assert found.autograd_gap < 1e-4
    assert found.leak == 0
    assert found.d_out == model.config.d_hidden * (1 + (kind == BIDIRECTIONAL))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_transformers_first_self_attention_is_differentiated_at_what_enters_it(norm):
    model, ids = random_model(norm=norm, n_encoder_layers=2), random_ids(1, N)
    found = layer_reach(model, tuple(ids[0].tolist()), LayerChoice(SELF_ATTENTION))
    first = model.encoder.layers[0]
    x = model._embed_scaled(ids, "source")[0].detach()
    x = (first.add_norm_1.layer_norm(x) if norm == "pre" else x).detach()
    plain = torch.stack(
        [jacobian_norms.by_autograd(SelfAttention(first.self_attn), x, i) for i in range(N)]
    )
    torch.testing.assert_close(found.norms, plain, rtol=1e-4, atol=1e-6)
    assert found.output_gap < 1e-5
    assert found.autograd_gap < 1e-4


@pytest.mark.parametrize("kind", LAYER_KINDS)
@pytest.mark.parametrize("model", [recurrent_model(), random_model()])
def test_a_new_layer_depends_on_its_seed_alone_and_leaves_the_generator(model, kind):
    ids = tuple(random_ids(1, N)[0].tolist())
    before = torch.get_rng_state()
    one, same, other = (layer_reach(model, ids, LayerChoice(kind, seed)) for seed in (1, 1, 2))
    assert torch.equal(one.norms, same.norms)
    assert not torch.equal(one.norms, other.norms)
    assert torch.equal(torch.get_rng_state(), before)
    assert one.leak == 0
    assert one.autograd_gap < 1e-4
    assert one.output_gap < 1e-5
    assert one.d_out == (
        D_NEW * (1 + (kind == BIDIRECTIONAL)) if kind != SELF_ATTENTION else one.d_in
    )


def test_a_single_token_and_an_unknown_kind():
    found = layer_reach(random_model(), (5,), LayerChoice(SELF_ATTENTION))
    assert found.norms.shape == (1, 1)
    assert found.norms_by_distance()[0][0] == 0
    with pytest.raises(
        ValueError,
        match=r"^kind must be one of RNN, bidirectional RNN, CNN, self-attention, not 'LSTM'$",
    ):
        layer_reach(random_model(), (5,), LayerChoice("LSTM", 1))
    with pytest.raises(ValueError, match="odd width"):
        layer_reach(random_model(), (5,), LayerChoice(CNN, 1, width=4))


# Time


def test_every_layer_is_timed_at_every_length():
    found = list(time_layers(8, 3, 2, torch.device("cpu"), lengths=(4, 8)))
    assert [(t.n, t.layer) for t in found] == [(n, kind) for n in (4, 8) for kind in LAYER_KINDS]
    assert all(
        len(t.seconds) == 2 and min(t.seconds) > 0 and t.median <= max(t.seconds) for t in found
    )
    assert TIMED_LENGTHS == (8, 16, 32, 64, 128, 256, 512, 1024)


@pytest.mark.parametrize(
    "odd", [{"d": 0}, {"width": 2}, {"width": -1}, {"repetitions": 0}, {"lengths": (4, 0)}]
)
def test_what_cannot_be_timed_is_refused(odd):
    how = {"d": 8, "width": 3, "repetitions": 2, "lengths": (4, 8)} | odd
    message = f"cannot measure d {how['d']}, width {how['width']}, {how['repetitions']} repetitions, lengths {list(how['lengths'])}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        time_layers(device=torch.device("cpu"), **how)


def test_the_first_pass_warms_up_and_is_not_counted(monkeypatch):
    """The layer itself moves the clock: 100 s for the first pass, then 1, 2 and 4."""
    clock, lasts = [0.0], iter((100.0, 1.0, 2.0, 4.0))
    monkeypatch.setattr(layer_timing, "perf_counter", lambda: clock[0])
    seconds = layer_timing._time_passes(
        lambda x: clock.__setitem__(0, clock[0] + next(lasts)), torch.zeros(1), 3
    )
    assert seconds == (1.0, 2.0, 4.0)
    assert next(lasts, None) is None
    assert Timing(RNN, 8, (1.0, 2.0, 30.0)).median == 2.0
    assert Timing(RNN, 8, (1.0, 30.0, 2.0, 4.0)).median == 3.0


@pytest.mark.parametrize(("d", "heads"), [(8, 8), (12, 4), (6, 2), (7, 1)])
def test_the_timed_layers_have_the_requested_sizes(monkeypatch, d, heads):
    seen = {}

    def noted(forward, x, repetitions):
        seen[len(seen)] = (x, forward(x), repetitions)
        return (1.0,) * repetitions

    monkeypatch.setattr(layer_timing, "_time_passes", noted)
    before = torch.get_rng_state()
    timings = list(time_layers(d, 5, 3, torch.device("cpu"), lengths=(4, 11)))
    assert torch.equal(torch.get_rng_state(), before)
    assert [len(t.seconds) for t in timings] == [3] * 8
    for timing, (x, y, repetitions) in zip(timings, seen.values(), strict=True):
        assert (x.shape, repetitions) == ((1, timing.n, d), 3)
        n = timing.n
        wanted = {
            RNN: (1, n, d),
            BIDIRECTIONAL: (1, n, 2 * d),
            CNN: (1, d, n),
            SELF_ATTENTION: (1, n, d),
        }
        assert y.shape == wanted[timing.layer]
    layers = layer_timing._layers(d, 5)
    assert layers[SELF_ATTENTION].n_heads == heads
    assert layers[CNN].kernel_size == (5,)
    assert (layers[RNN].bidirectional, layers[BIDIRECTIONAL].bidirectional) == (False, True)
    x = seen[2][0]
    assert 0 < float(seen[2][1].detach().abs().max()) <= 1  # the convolution's tanh
    assert x.std() > 0.5


def test_the_smallest_layers_of_all_are_timed():
    timings = list(time_layers(1, 1, 1, torch.device("cpu"), lengths=(1,)))
    assert [(t.n, len(t.seconds)) for t in timings] == [(1, 1)] * 4


def test_the_slope_is_fitted_to_the_upper_half():
    times = [Timing(RNN, n, (1.0 if n < 64 else (n / 64) ** 2,) * 3) for n in TIMED_LENGTHS]
    assert growth_rate(times, RNN) == (128, 1024, pytest.approx(2.0))
    assert growth_rate(times[::-1], RNN) == (
        128,
        1024,
        pytest.approx(2.0),
    )  # in any order
    assert growth_rate([*times, Timing(CNN, 4096, (1.0,))], RNN) == (128, 1024, pytest.approx(2.0))
    outliers = [
        Timing(t.layer, t.n, (*t.seconds[:2], 1000.0)) for t in times
    ]  # by the median of each
    assert growth_rate(outliers, RNN) == (128, 1024, pytest.approx(2.0))
    assert growth_rate(times[:5], RNN) == (
        32,
        128,
        pytest.approx(1.0),
    )  # three of five; 1, 1 and 4 seconds
    assert growth_rate(times[:3], RNN)[:2] == (16, 32)
    assert growth_rate(times[:2], RNN) is None
    assert growth_rate(times, CNN) is None


def test_the_device_of_the_measurement(monkeypatch):
    monkeypatch.setattr(layer_timing.os, "cpu_count", lambda: 6)
    for threads, said in ((1, "6 cores, 1 thread,"), (3, "6 cores, 3 threads,")):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        where = machine(torch.device("cpu"))
        assert said in where
        assert where.endswith(f", device cpu, torch {torch.__version__}")
    assert where.startswith(f"{platform.system()} on {platform.machine()}, ")


# Divergence


def test_the_divergence_by_hand():
    p, q = (
        torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]),
        torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]),
    )
    third = (0.5 * math.log2(0.5 / 0.75) + 0.5 * math.log2(0.5 / 0.25) + math.log2(1 / 0.75)) / 2
    torch.testing.assert_close(jensen_shannon(p, q), torch.tensor([1.0, 0.0, third]))
    torch.testing.assert_close(jensen_shannon(q, p), jensen_shannon(p, q))
