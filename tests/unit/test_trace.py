"""Recording: it changes nothing, costs O(n·d), stays in its own thread, and its parts recompute each other."""

import gc
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
from small import (
    BATCH,
    D_FF,
    D_HEAD,
    N_HEADS,
    N_SOURCE,
    N_TARGET,
    VOCAB,
    padded_ids,
    random_ids,
    random_model,
)

from models.layers import masks
from models.layers.masks import LOOK_AHEAD, PADDING, Mask
from models.layers.similarity import scaled_dot
from models.trace import current, finish, record, recorder, tap

SITES = ["encoder.layers.0.self_attn", "decoder.layers.1.self_attn", "decoder.layers.1.cross_attn"]


@pytest.fixture(scope="module")
def recording(tiny):
    with record() as recording, torch.no_grad():
        tiny(*padded_ids())
    return recording


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_recording_leaves_output_and_gradients_bit_equal(norm):
    model = random_model(norm=norm, dropout=0.3).train()
    results = []
    for recorded in (False, True):
        torch.manual_seed(3)  # of the dropout
        model.zero_grad()
        if recorded:
            with record():
                logits = model(*padded_ids())
        else:
            logits = model(*padded_ids())
        logits.square().sum().backward()
        results.append([logits, *(p.grad.clone() for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("batch", range(BATCH))
def test_derived_weights_times_v_match_the_fused_kernel(recording, name, batch):
    site = recording.attention[name]
    torch.testing.assert_close(site.head_out(batch=batch), site.out[batch])
    for head in range(N_HEADS):
        torch.testing.assert_close(site.head_out(head, batch), site.out[batch, head])
        assert torch.equal(site.scores(head, batch), site.scores(batch=batch)[head])
        assert torch.equal(site.weights(head, batch), site.weights(batch=batch)[head])


@pytest.mark.parametrize("name", SITES)
def test_names_mean_one_thing(tiny, recording, name):
    """Every part of a site is recomputed from its module and the residual stream."""
    site, module = recording.attention[name], tiny.get_submodule(name)
    value = {n: a.value for n, a in recording.activations.items()}
    layer = name.rpartition(".")[0]
    x = value[f"{layer}.resid_mid" if site.kind == "cross" else f"{layer}.resid_pre"]
    memory = value["encoder.layers.0.resid_post"] if site.kind == "cross" else x
    for part, projection, from_ in (
        ("q", module.W_Q, x),
        ("k", module.W_K, memory),
        ("v", module.W_V, memory),
    ):
        by_head = projection(from_).unflatten(-1, (N_HEADS, D_HEAD)).transpose(1, 2)
        torch.testing.assert_close(getattr(site, part), by_head)
    torch.testing.assert_close(
        site.scores(2, 1), scaled_dot(site.q[1, 2], site.k[1, 2])
    )  # before the mask
    assert site.scores().isfinite().all()
    attn_out = value[f"{name}.attn_out"]
    torch.testing.assert_close(attn_out, module.W_O(site.out.transpose(1, 2).flatten(2)))
    assert torch.equal(site.projections["W_K"][0], module.W_K.weight)
    assert list(site.projections) == ["W_Q", "W_K", "W_V", "W_O"]


def test_residual_stream_adds_up(tiny, recording):
    value = {n: a.value for n, a in recording.activations.items()}
    layer = tiny.decoder.layers[1]
    path = "decoder.layers.1."
    mid = layer.add_norm_1.layer_norm(
        value[path + "resid_pre"] + value[path + "self_attn.attn_out"]
    )
    torch.testing.assert_close(value[path + "resid_mid"], mid)
    mid_cross = layer.add_norm_2.layer_norm(mid + value[path + "cross_attn.attn_out"])
    torch.testing.assert_close(value[path + "resid_mid_cross"], mid_cross)
    torch.testing.assert_close(value[path + "ff.ff_pre"], layer.ff.W_1(mid_cross))
    torch.testing.assert_close(value[path + "ff.ff_post"], F.relu(value[path + "ff.ff_pre"]))
    post = layer.add_norm_3.layer_norm(mid_cross + layer.ff.W_2(value[path + "ff.ff_post"]))
    torch.testing.assert_close(value[path + "resid_post"], post)
    assert torch.equal(value[path + "resid_pre"], value["decoder.layers.0.resid_post"])


ADD_NORM = {"post": "LayerNorm(x + Sublayer(x))", "pre": "x + Sublayer(LayerNorm(x))"}


@pytest.mark.parametrize("norm", ADD_NORM)
def test_each_intermediate_says_how_it_was_made(norm):
    with record() as recording, torch.no_grad():
        random_model(norm=norm)(*padded_ids())
    own, layer = "Concat(head_out)·W_O", "decoder.layers.1."
    made = {
        "resid_pre": "residual stream before self-attention", "self_attn.attn_out": own, "resid_mid": ADD_NORM[norm],
        "cross_attn.attn_out": own, "resid_mid_cross": ADD_NORM[norm], "ff.ff_pre": "x·W₁ + b₁", "ff.ff_post": "max(0, ff_pre)",
        "ff.ff_out": "ff_post·W₂ + b₂", "resid_post": ADD_NORM[norm],
    }  # fmt: skip
    if norm == "pre":
        made |= {f"add_norm_{i}.normed": "LayerNorm(x)" for i in (1, 2, 3)}
    said = {name: a.formula for name, a in recording.activations.items()}
    assert {
        name.removeprefix(layer): text for name, text in said.items() if name.startswith(layer)
    } == made
    del made["cross_attn.attn_out"], made["resid_mid_cross"]
    made.pop("add_norm_3.normed", None)
    layer = "encoder.layers.0."
    assert {
        name.removeprefix(layer): text for name, text in said.items() if name.startswith(layer)
    } == made
    outside = {name: text for name, text in said.items() if "layers" not in name}
    assert outside == {
        "encoder.embedding": "embedding(token)·√d_model", "encoder.position": "sinusoidal position vectors",
        "decoder.embedding": "embedding(token)·√d_model", "decoder.position": "sinusoidal position vectors",
        "logits": "decoder output · embeddingᵀ",
    }  # fmt: skip


def test_shapes_and_axes(recording):
    assert recording.attention["decoder.layers.1.cross_attn"].q.shape == (
        BATCH,
        N_HEADS,
        N_TARGET,
        D_HEAD,
    )
    assert recording.attention["decoder.layers.1.cross_attn"].k.shape == (
        BATCH,
        N_HEADS,
        N_SOURCE,
        D_HEAD,
    )
    assert recording.attention["decoder.layers.1.cross_attn"].weights(batch=1).shape == (
        N_HEADS,
        N_TARGET,
        N_SOURCE,
    )
    sizes = {
        "source": N_SOURCE,
        "target": N_TARGET,
        "d_model": N_HEADS * D_HEAD,
        "d_ff": D_FF,
        "vocab": VOCAB,
    }
    for a in recording.activations.values():
        batch = 1 if a.name.endswith("position") else BATCH
        assert a.value.shape == (batch, sizes[a.axes[1]], sizes[a.axes[2]]), a.name
        assert a.axes[0] == "batch"
        assert a.formula


def test_rows_sum_to_one_and_blocked_cells_name_the_layers_that_block_them(recording):
    site = recording.attention["decoder.layers.1.self_attn"]
    weights, allowed = site.weights(batch=1), site.allowed(batch=1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(N_HEADS, N_TARGET))
    assert (weights[:, ~allowed] == 0).all()
    assert site.blocked_by(2, 3, batch=1) == [LOOK_AHEAD]
    assert site.blocked_by(7, 6, batch=1) == [PADDING]
    assert site.blocked_by(2, 6, batch=1) == [PADDING, LOOK_AHEAD]
    assert site.blocked_by(2, 1, batch=1) == site.blocked_by(7, 6, batch=0) == []


def test_a_query_with_nothing_allowed_reads_nothing_and_gives_no_nan(tiny):
    source, target = random_ids(1, N_SOURCE), random_ids(1, N_TARGET)
    drawn = torch.ones(N_TARGET, N_SOURCE, dtype=torch.bool)
    drawn[4] = False
    plain = tiny.masks(source, target)
    with record() as recording, torch.inference_mode():
        logits = tiny(
            source,
            target,
            {**plain, "cross": Mask([*plain["cross"].layers, masks.custom_layer(drawn)])},
        )
    site = recording.attention["decoder.layers.1.cross_attn"]
    assert logits.isfinite().all()
    assert site.weights()[:, 4].abs().max() == site.out[0, :, 4].abs().max() == 0
    torch.testing.assert_close(site.head_out(), site.out[0])


def test_finish_takes_one_row_and_names_the_tokens(recording):
    source, target = tuple("abcdefghijk"), tuple("ABCDEFGHIJKLM")
    activations, sites = finish(recording, {"source": source, "target": target}, row=1)
    site = sites["decoder.layers.1.cross_attn"]
    assert (site.query_tokens, site.key_tokens) == (target, source)
    assert sites["encoder.layers.0.self_attn"].query_tokens == source
    assert activations["encoder.layers.0.resid_mid"].tokens == source
    for name, kept in sites.items():
        whole = recording.attention[name]
        assert torch.equal(kept.q[0], whole.q[1])
        torch.testing.assert_close(kept.weights(2), whole.weights(2, batch=1))
        assert torch.equal(kept.allowed(), whole.allowed(batch=1))
    for name, a in activations.items():
        assert a.value.dtype == torch.float32
        torch.testing.assert_close(a.value[0], recording.activations[name].value[-1])


def test_a_tensor_kept_by_its_cause_reads_unchanged(tiny, recording, monkeypatch):
    """For long inputs, q, k and v are not kept but recomputed when read."""
    monkeypatch.setattr(recorder, "MAX_KEPT_ELEMENTS", 0)
    with record() as lazy, torch.no_grad():
        tiny(*padded_ids())
    for name, site in recording.attention.items():
        again = lazy.attention[name]
        for part in ("q", "k", "v"):
            assert not isinstance(getattr(again, f"lazy_{part}"), torch.Tensor)
            torch.testing.assert_close(getattr(again, part), getattr(site, part))
        for head in (None, 2):
            torch.testing.assert_close(again.weights(head, 1), site.weights(head, 1))
            torch.testing.assert_close(
                again.head_out(head, 1), again.out[1] if head is None else again.out[1, head]
            )
    _, sites = finish(
        lazy, {"source": tuple("abcdefghijk"), "target": tuple("ABCDEFGHIJKLM")}, row=1
    )
    torch.testing.assert_close(
        sites[SITES[2]].weights(1), recording.attention[SITES[2]].weights(1, batch=1)
    )


def test_a_tensor_kept_by_its_cause_is_not_read_with_other_weights():
    model = random_model(seed=9)
    with record() as recording, torch.no_grad():
        model(*padded_ids())
        assert recording.activations["encoder.layers.0.ff.ff_pre"].value.isfinite().all()
        model.encoder.layers[0].ff.W_1.weight.add_(1)
    with pytest.raises(RuntimeError, match="weights have been changed since this run was recorded"):
        recording.activations["encoder.layers.0.ff.ff_pre"].value  # noqa: B018 (reading raises)
    with pytest.raises(RuntimeError, match="weights have been changed"):
        recording.activations["encoder.layers.0.ff.ff_out"].value  # noqa: B018 (what it is made of is read, too)


def test_a_product_of_a_product_is_kept_by_the_first_cause(tiny, recording):
    """For a feed-forward layer neither the d_ff numbers nor its output are kept, and both change with their cause."""
    made, inner = (
        recording.activations[f"decoder.layers.1.ff.{name}"].lazy_value
        for name in ("ff_out", "ff_post")
    )
    assert made.x is inner
    assert made.shape == (*inner.shape[:2], tiny.config.d_model)
    row = made.map_tensors(lambda x: x[1:, :4].double())
    assert row.read().dtype == torch.float64
    torch.testing.assert_close(row.read().float(), made.read()[1:, :4])
    assert made.map_tensors(lambda x: x) is made
    with torch.no_grad():
        by_module = tiny.decoder.layers[1].ff(
            recording.activations["decoder.layers.1.resid_mid_cross"].value
        )
    torch.testing.assert_close(made.read(), by_module)


def bytes_held(recording) -> int:
    """Return the bytes of all tensors reachable from a recording, each storage once."""
    storages, seen, todo = {}, set(), [recording]
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            storages[thing.untyped_storage().data_ptr()] = thing.untyped_storage().nbytes()
        elif isinstance(thing, (list, tuple)):
            todo += thing
        elif isinstance(thing, dict):
            todo += thing.values()
        elif hasattr(thing, "__dict__"):
            todo += vars(thing).values()
    return sum(storages.values())


def test_memory_grows_with_n_and_not_with_n_squared():
    model = random_model(n_ctx=1024, positions="none")
    held = []
    for n in (256, 512, 1024):
        ids = random_ids(1, n)
        with record() as recording, torch.inference_mode():
            model(ids, ids)
        mask = (
            n * n
        )  # the look-ahead layer, one byte a cell; nothing is padded, so no union is made
        held.append(bytes_held(recording) - mask)
    assert held[2] - held[1] == pytest.approx(2 * (held[1] - held[0]), rel=0.01)
    assert held[2] < 0.2 * 5 * N_HEADS * 1024 * 1024 * 4  # all weights of the five sites


def test_thirty_two_threads_on_one_model_never_see_each_others_tensors(tiny):
    n_threads = 32
    alone, together, failures = [], [None] * n_threads, []
    inputs = [
        (random_ids(1, 3 + i, seed=i), random_ids(1, 4 + i % 7, seed=100 + i))
        for i in range(n_threads)
    ]

    def recorded(i: int):
        with record() as recording, torch.inference_mode():
            tiny(*inputs[i])
        return recording

    alone = [recorded(i) for i in range(n_threads)]
    start = threading.Barrier(n_threads)

    def work(i: int) -> None:
        try:
            assert current() is None
            start.wait()
            for _ in range(3):
                together[i] = recorded(i)
            assert current() is None
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for a, b in zip(alone, together, strict=True):
        assert list(a.activations) == list(b.activations)
        assert all(
            torch.equal(a.activations[n].value, b.activations[n].value) for n in a.activations
        )
        assert all(
            torch.equal(a.attention[n].weights(), b.attention[n].weights()) for n in a.attention
        )


def test_a_recording_gets_nothing_from_another_thread(tiny):
    with record() as recording:
        thread = threading.Thread(target=tiny, args=padded_ids())
        thread.start()
        thread.join()
    assert recording.activations == recording.attention == {}


def test_only_the_innermost_recording_records_and_an_error_ends_it(tiny):
    with record() as outer:
        with record() as inner:
            tap("a", "b", torch.zeros(1, 2, 3), "source", "d_model", "b")
        tap("a", "c", torch.zeros(1, 2, 3), "source", "d_model", "c")
    assert list(inner.activations) == ["a.b"]
    assert list(outer.activations) == ["a.c"]
    with pytest.raises(ValueError, match="at most"), record():
        tiny(random_ids(1, 100), random_ids(1, 3))
    assert current() is None


def contents(model: torch.nn.Module) -> dict[str, set[str]]:
    return {name: set(vars(module)) for name, module in model.named_modules()}


def test_a_recording_leaves_nothing_on_the_model_and_keeps_nothing_alive(tiny):
    before = contents(tiny)
    weights = {name: (value.clone(), value._version) for name, value in tiny.state_dict().items()}
    with record() as recording, torch.inference_mode():
        tiny(*padded_ids())
    held = weakref.ref(recording.attention["decoder.layers.1.cross_attn"])
    assert contents(tiny) == before
    for name, value in tiny.state_dict().items():
        assert torch.equal(value, weights[name][0])
    del recording
    gc.collect()
    assert held() is None


def test_an_empty_mask_means_full_attention(tiny):
    with record() as recording:
        x = torch.randn(1, N_SOURCE, N_HEADS * D_HEAD)
        tiny.encoder.layers[0].self_attn(x, x, Mask())
    site = recording.attention["encoder.layers.0.self_attn"]
    torch.testing.assert_close(site.head_out(), site.out[0])
    assert site.allowed().all()
