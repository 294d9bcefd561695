"""The Transformer against the paper's counts, torch's own implementation, and properties of every model."""

import math
from dataclasses import replace

import pytest
import torch
from small import (
    BATCH,
    D_HEAD,
    N_CTX,
    N_HEADS,
    N_SOURCE,
    N_TARGET,
    VOCAB,
    padded_ids,
    random_ids,
    random_model,
)
from torch import nn

from models.architectures.transformer import Transformer, TransformerConfig
from models.trace import record
from models.training.batches import NO_LABEL
from models.training.objectives import label_smoothed_loss


def parameters(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


@pytest.mark.parametrize(
    ("config", "paper"), [(TransformerConfig.base(), 65e6), (TransformerConfig.big(), 213e6)]
)
def test_parameter_counts_are_the_papers(config, paper):
    """Table 3, with the 37,000 tokens of §5.1; the paper rounds, and does not say which biases it counts."""
    assert parameters(config) == pytest.approx(paper, rel=0.03)


def test_one_embedding_matrix_for_source_target_and_pre_softmax():
    config = TransformerConfig.base()
    assert (
        parameters(replace(config, vocab_size=config.vocab_size + 7)) - parameters(config)
        == 7 * config.d_model
    )


def test_embedding_is_scaled_by_the_root_of_d_model_and_positions_are_added(tiny):
    source, target = padded_ids()
    with record() as recording:
        logits = tiny(source, target)
    value = {name: a.value for name, a in recording.activations.items()}
    root = math.sqrt(N_HEADS * D_HEAD)
    torch.testing.assert_close(value["encoder.embedding"], tiny.embedding.weight[source] * root)
    torch.testing.assert_close(value["decoder.embedding"], tiny.embedding.weight[target] * root)
    for side in ("encoder", "decoder"):
        summed = value[f"{side}.embedding"] + value[f"{side}.position"]
        torch.testing.assert_close(value[f"{side}.layers.0.resid_pre"], summed)
    torch.testing.assert_close(
        logits, value["decoder.layers.1.resid_post"] @ tiny.embedding.weight.T
    )


def test_scaled_weights_begin_as_xaviers_but_for_the_last_matrix_of_each_sublayer():
    """2 layers of 2 sublayers in the encoder, 3 of 3 in the decoder: W_O and W_2 are 1/√4 and 1/√9 of the others' draw."""
    sizes = {"d_model": 15, "n_heads": 3, "d_ff": 23, "n_encoder_layers": 2, "n_decoder_layers": 3}
    found = {}
    for init in ("xavier", "scaled"):
        torch.manual_seed(7)
        found[init] = dict(
            Transformer(TransformerConfig(VOCAB, **sizes, init=init)).named_parameters()
        )
    for name, plain in found["xavier"].items():
        last = name.endswith(("W_O.weight", "W_2.weight"))
        factor = (1 / 2 if name.startswith("encoder") else 1 / 3) if last else 1
        torch.testing.assert_close(found["scaled"][name], factor * plain, msg=name)


DEEP = {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 1}


def test_each_matrix_begins_with_the_standard_deviation_of_its_formula():
    """Glorot and Bengio 2010, eq. 16: √(2/(in + out)); then 1/√8 for 4 encoder layers of 2 sublayers, 1/√3 for one of 3."""
    torch.manual_seed(7)
    model = Transformer(TransformerConfig(VOCAB, **DEEP, init="scaled"))
    last = {"encoder": 8**-0.5, "decoder": 3**-0.5}
    for name, matrix in model.named_parameters():
        if matrix.dim() == 2 and not name.startswith("embedding"):
            expected = (2 / sum(matrix.shape)) ** 0.5
            if name.split(".")[-2] in ("W_O", "W_2"):
                expected *= last[name.split(".")[0]]
            assert float(matrix.detach().std()) == pytest.approx(expected, rel=0.02), name


def test_normal_weights_begin_alike_in_every_matrix():
    """They are N(0, 0.02²) in each matrix and in the embedding; biases are 0 and norms 1 as usual."""
    torch.manual_seed(7)
    model = Transformer(TransformerConfig(VOCAB, **DEEP, init="normal"))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert float(parameter.detach().std()) == pytest.approx(0.02, rel=0.05), name
            assert abs(float(parameter.detach().mean())) < 0.001, name
        else:
            assert (parameter == (1 if "norm.weight" in name else 0)).all(), name


def likeness(init: str, seed: int) -> float:
    """Return the mean cosine between positions of one source after a new encoder of four layers."""
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(VOCAB, **DEEP, init=init)).eval()
    source = random_ids(BATCH, N_SOURCE, seed)
    with torch.no_grad():
        memory = model.encode(source, model.masks(source, source))
    rows, columns = torch.triu_indices(N_SOURCE, N_SOURCE, 1)
    return float(torch.cosine_similarity(memory[:, rows], memory[:, columns], dim=-1).mean())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_positions_of_a_new_deep_encoder_stay_apart_where_the_weights_are_scaled(seed):
    """With Xavier's weights there is hardly anything to attend to: every position has nearly the same vector."""
    assert likeness("xavier", seed) > 0.75
    assert likeness("scaled", seed) < 0.45


ATTENTION = ["attn_out"]
FEED_FORWARD = ["ff.ff_pre", "ff.ff_post", "ff.ff_out"]
ENCODER_LAYER = ["resid_pre", "self_attn.attn_out", "resid_mid", *FEED_FORWARD, "resid_post"]
DECODER_LAYER = [
    "resid_pre", "self_attn.attn_out", "resid_mid", "cross_attn.attn_out", "resid_mid_cross", *FEED_FORWARD, "resid_post",
]  # fmt: skip


def test_golden_list_of_trace_names(tiny):
    with record() as recording:
        tiny(*padded_ids())
    assert list(recording.activations) == [
        "encoder.embedding", "encoder.position",
        *(f"encoder.layers.0.{name}" for name in ENCODER_LAYER),
        "decoder.embedding", "decoder.position",
        *(f"decoder.layers.0.{name}" for name in DECODER_LAYER),
        *(f"decoder.layers.1.{name}" for name in DECODER_LAYER),
        "logits",
    ]  # fmt: skip
    assert [(name, site.kind, site.layer) for name, site in recording.attention.items()] == [
        ("encoder.layers.0.self_attn", "encoder_self", 0),
        ("decoder.layers.0.self_attn", "decoder_self", 0),
        ("decoder.layers.0.cross_attn", "cross", 0),
        ("decoder.layers.1.self_attn", "decoder_self", 1),
        ("decoder.layers.1.cross_attn", "cross", 1),
    ]
    for name, site in recording.attention.items():
        assert (
            tiny.get_submodule(name).kind == site.site_kind
        )  # a name is a path in the module tree


def test_no_target_token_is_seen_ahead_of_time(tiny):
    source, target = random_ids(BATCH, N_SOURCE), random_ids(BATCH, N_TARGET)
    before = tiny(source, target)
    for t in range(N_TARGET):
        changed = target.clone()
        changed[:, t] = (target[:, t] + 1) % VOCAB
        moved = (tiny(source, changed) - before).abs().amax((0, 2))
        assert moved[:t].max() == 0 if t else True
        assert moved[t:].min() > 0


def test_without_a_decoder_mask_a_position_reads_its_own_answer():
    model = random_model(decoder_mask="none")
    source, target = random_ids(2, N_SOURCE), random_ids(2, N_TARGET, seed=2)
    kind = next(kind for kind in model.kinds if kind.name == "decoder_self")
    assert (kind.is_causal, kind.title) == (False, "Decoder self-attention, unmasked")
    assert [layer.name for layer in model.masks(source, target)["decoder_self"].layers] == [
        "padding"
    ]
    changed = target.clone()
    changed[:, -1] = 4 + (target[:, -1] - 3) % (VOCAB - 4)
    apart = (model(source, target) - model(source, changed)).abs().amax((0, 2))
    assert bool((apart > 1e-4).all())


def test_every_source_token_reaches_every_position(tiny):
    source, target = random_ids(BATCH, N_SOURCE), random_ids(BATCH, N_TARGET)
    before = tiny(source, target)
    for t in range(N_SOURCE):
        changed = source.clone()
        changed[:, t] = (source[:, t] + 1) % VOCAB
        assert (tiny(changed, target) - before).abs().amax(-1).min() > 0


def test_padding_changes_nothing(tiny):
    """A short pair gives the same alone and padded beside a long one."""
    source, target = padded_ids()
    together = tiny(source, target)
    alone = tiny(source[1:, :7], target[1:, :5])
    torch.testing.assert_close(together[1:, :5], alone)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_every_parameter_gets_a_gradient(norm, positions):
    model = random_model(norm=norm, positions=positions).train()
    source, target = padded_ids()
    label_smoothed_loss(model(source, target), random_ids(BATCH, N_TARGET, seed=5), 0.1).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith(
            "W_K.bias"
        ):  # adds the same to every score of a row, so softmax cancels it
            assert parameter.grad.abs().max() > 1e-6, name


def torch_twin(model: Transformer) -> nn.Transformer:
    """Return a torch.nn.Transformer of the same sizes with the same weights."""
    c = model.config
    last = [nn.LayerNorm(c.d_model) if c.norm == "pre" else None for _ in range(2)]
    how = {"dropout": 0.0, "batch_first": True, "norm_first": c.norm == "pre"}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(c.d_model, c.n_heads, c.d_ff, **how), c.n_encoder_layers, last[0],
        enable_nested_tensor=False,
    )  # fmt: skip
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(c.d_model, c.n_heads, c.d_ff, **how), c.n_decoder_layers, last[1]
    )
    twin = nn.Transformer(
        c.d_model, c.n_heads, c.n_encoder_layers, c.n_decoder_layers, c.d_ff, 0.0, custom_encoder=encoder,
        custom_decoder=decoder, batch_first=True, norm_first=c.norm == "pre",
    )  # fmt: skip
    state = {}
    for name, value in model.state_dict().items():
        for ours, theirs in {
            "cross_attn": "multihead_attn", "W_O": "out_proj", "ff.W_1": "linear1", "ff.W_2": "linear2",
            "last_norm": "norm", "add_norm_1.layer_norm": "norm1", "add_norm_2.layer_norm": "norm2",
            "add_norm_3.layer_norm": "norm3",
        }.items():  # fmt: skip
            name = name.replace(ours, theirs)
        state[name] = value
    for name in [n for n in state if ".W_Q." in n]:
        parts = [state.pop(name.replace("W_Q", part)) for part in ("W_Q", "W_K", "W_V")]
        state[name.replace("W_Q.", "in_proj_")] = torch.cat(parts)
    del state["embedding.weight"]
    twin.load_state_dict(state)  # strict: every weight of theirs has one of ours
    return twin.eval()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_torchs_own_transformer_with_copied_weights_gives_the_same(norm):
    model = random_model(norm=norm, n_encoder_layers=2)
    source, target = padded_ids()
    with record() as recording, torch.no_grad():
        ours = model(source, target)
    x, y = (
        recording.activations[f"{side}.layers.0.resid_pre"].value for side in ("encoder", "decoder")
    )
    with torch.no_grad():
        theirs = torch_twin(model)(
            x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(N_TARGET).isinf(),
            src_key_padding_mask=source == 0, tgt_key_padding_mask=target == 0, memory_key_padding_mask=source == 0,
        )  # fmt: skip
    real = target != 0  # values at padded positions do not matter
    torch.testing.assert_close(
        ours[real], (theirs @ model.embedding.weight.T)[real], atol=1e-4, rtol=1e-4
    )


def test_dropout_is_for_training_only():
    model = random_model(dropout=0.5)
    source, target = padded_ids()
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


def test_label_smoothing_by_hand():
    """ε is spread over all tokens, padding is not counted, and the loss is a sum."""
    logits = torch.randn(1, 3, 5)
    labels = torch.tensor([[4, 2, NO_LABEL]])
    log_probs = logits.log_softmax(-1)[0]
    plain = -(log_probs[0, 4] + log_probs[1, 2])
    uniform = -log_probs[:2].mean(-1).sum()
    torch.testing.assert_close(label_smoothed_loss(logits, labels), plain)
    torch.testing.assert_close(
        label_smoothed_loss(logits, labels, 0.1), 0.9 * plain + 0.1 * uniform
    )


def test_more_tokens_than_n_ctx_is_an_error(tiny):
    with pytest.raises(
        ValueError, match=f"{N_CTX + 1} tokens, but this model reads at most {N_CTX}"
    ):
        tiny(random_ids(1, N_CTX + 1), random_ids(1, 3))
    assert tiny(random_ids(1, N_CTX), random_ids(1, N_CTX)).shape == (1, N_CTX, VOCAB)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": 4}, r"d_model \(15\) must be divisible by n_heads \(4\)"),
        ({"d_model": 0}, "d_model must be at least 1, not 0"),
        ({"n_ctx": 1}, "n_ctx must be at least 2, not 1"),
        ({"n_decoder_layers": -1}, "n_decoder_layers must be at least 0, not -1"),
        ({"norm": "rms"}, "norm must be post or pre, not 'rms'"),
        ({"positions": "rotary"}, "positions must be sinusoidal, learned or none, not 'rotary'"),
    ],
)
def test_impossible_sizes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        random_model(**changes)
