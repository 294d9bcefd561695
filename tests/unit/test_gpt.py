"""GPT against the papers' counts and against what must hold for every model of running text."""

from dataclasses import replace

import pytest
import torch
from small import BATCH, D_FF, D_HEAD, N_CTX, N_HEADS, VOCAB, random_gpt, random_ids

from models import decoding
from models.analysis.checks import check_site
from models.architectures.gpt import GPT, GPTConfig
from models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.trace import record
from models.trace.edits import MaskChange, Where, editing, for_kinds

N = 13


@pytest.fixture(scope="module")
def model() -> GPT:
    return random_gpt()


@pytest.fixture(scope="module")
def scope(tmp_path_factory) -> Scope:
    """A random model over the letters a to z and a space: 31 tokens."""
    folder = tmp_path_factory.mktemp("gpt") / "letters"
    tokenizer = Tokenizer.characters("abcdefghijklmnopqrstuvwxyz ")
    save_checkpoint(folder, random_gpt(), tokenizer, {"step": 3, "task": "language"})
    checkpoint = load_checkpoint(folder)
    return Scope(
        Checkpoint(folder, checkpoint.model, tokenizer, checkpoint.training), torch.device("cpu")
    )


def parameters(config: GPTConfig) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in GPT(config).parameters())


@pytest.mark.parametrize(
    ("config", "millions"), [(GPTConfig.gpt(), 117), (GPTConfig.gpt2_small(), 124)]
)
def test_parameter_counts_are_the_papers(config, millions):
    """The sizes of the released GPT-1 and GPT-2, rounded to millions; table 2 of Radford et al. 2019 says 117, which its
    authors corrected to 124."""
    assert round(parameters(config) / 1e6) == millions
    d, v = config.d_model, config.vocab_size
    layer = 4 * (d * d + d) + (d * 4 * d + 4 * d) + (4 * d * d + d) + 4 * d
    assert parameters(config) == v * d + config.n_ctx * d + 12 * layer + (
        2 * d if config.norm == "pre" else 0
    )


def test_the_presets_are_the_papers_models():
    gpt, gpt2 = GPTConfig.gpt(), GPTConfig.gpt2_small()
    assert (gpt.norm, gpt.n_ctx, gpt.vocab_size, gpt.d_ff) == ("post", 512, 40_478, 3072)
    assert (gpt2.norm, gpt2.n_ctx, gpt2.vocab_size, gpt2.init) == ("pre", 1024, 50_257, "scaled")
    for c in (gpt, gpt2):
        assert (c.n_layers, c.n_heads, c.d_model, c.positions, c.activation) == (
            12,
            12,
            768,
            "learned",
            "gelu tanh",
        )


def test_its_fields_are_a_text_and_an_optional_continuation():
    assert [(f.name, f.stream, f.optional, f.before, f.after) for f in GPT.fields] == [
        ("text", "text", False, "start", ""), ("continuation", "text", True, "", ""),
    ]  # fmt: skip
    assert (GPT.streams, GPT.writes, random_gpt().continues) == (("text",), "text", True)


def test_without_a_feed_forward_width_it_is_four_times_d_model():
    assert GPTConfig(VOCAB, d_model=7 * 12).d_ff == 4 * 7 * 12
    assert GPTConfig(VOCAB, d_ff=19).d_ff == 19
    assert GPTConfig(VOCAB) == GPTConfig(VOCAB, d_ff=4 * 768)


def test_embedding_plus_position_without_a_factor_and_one_matrix_for_both_ends(model):
    ids = random_ids(BATCH, N)
    with record() as recording:
        logits = model(ids)
    value = {name: a.value for name, a in recording.activations.items()}
    torch.testing.assert_close(value["decoder.embedding"], model.embedding.weight[ids])
    torch.testing.assert_close(value["decoder.position"][0], model.positions.table[:N])
    torch.testing.assert_close(
        value["decoder.layers.0.resid_pre"],
        model.embedding.weight[ids] + model.positions.table[:N],
        rtol=1e-6,
        atol=1e-6,
    )
    last = model.decoder.last_norm(value["decoder.layers.1.resid_post"])
    torch.testing.assert_close(logits, last @ model.embedding.weight.T)
    assert (
        parameters(replace(model.config, vocab_size=VOCAB + 7)) - parameters(model.config)
        == 7 * N_HEADS * D_HEAD
    )


def test_tokens_and_positions_begin_small():
    """N(0, 0.02²), Radford et al. 2018, §4.1."""
    torch.manual_seed(7)
    model = GPT(GPTConfig(997, d_model=128, n_heads=4, n_layers=1, n_ctx=503))
    for table in (model.embedding.weight, model.positions.table):
        assert float(table.detach().std()) == pytest.approx(0.02, rel=0.02)
        assert abs(float(table.detach().mean())) < 0.001


LAYER = [
    "resid_pre", "add_norm_1.normed", "self_attn.attn_out", "resid_mid", "add_norm_2.normed",
    "ff.ff_pre", "ff.ff_post", "ff.ff_out", "resid_post",
]  # fmt: skip


def test_golden_list_of_trace_names(model):
    with record() as recording:
        model(random_ids(BATCH, N))
    assert list(recording.activations) == [
        "decoder.embedding", "decoder.position",
        *(f"decoder.layers.0.{name}" for name in LAYER),
        *(f"decoder.layers.1.{name}" for name in LAYER),
        "logits",
    ]  # fmt: skip
    found = [
        (name, s.kind, s.role, s.query_stream, s.key_stream, s.layer)
        for name, s in recording.attention.items()
    ]
    assert found == [
        (f"decoder.layers.{i}.self_attn", "self", "self", "text", "text", i) for i in (0, 1)
    ]
    assert {a.axes[1] for a in recording.activations.values()} == {"text"}
    assert [
        c.name for s in recording.attention.values() for c in check_site(s) if not c.passed
    ] == []


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_no_token_is_seen_ahead_of_time(norm, positions):
    model, ids = random_gpt(norm=norm, positions=positions), random_ids(BATCH, N)
    before = model(ids)
    for t in range(N):
        changed = ids.clone()
        changed[:, t] = (ids[:, t] - 3) % (VOCAB - 4) + 4
        moved = (model(changed) - before).abs().amax((0, 2))
        assert t == 0 or moved[:t].max() == 0
        assert moved[t:].min() > 0


def test_a_window_of_k_lets_each_layer_look_back_k_tokens():
    """Two layers with a window of 3 reach 6 tokens back, and no further."""
    model, ids = random_gpt(window=3), random_ids(BATCH, N)
    before = model(ids)
    for t in range(N):
        changed = ids.clone()
        changed[:, t] = (ids[:, t] - 3) % (VOCAB - 4) + 4
        moved = (model(changed) - before).abs().amax((0, 2)) > 0
        assert moved.tolist() == [t <= i <= t + 6 for i in range(N)]


def test_the_masks_are_named_and_are_padding_look_ahead_and_the_window():
    ids = random_ids(BATCH, 7)
    ids[1, 5:] = 0
    mask = random_gpt(window=2).masks(ids)["self"]
    assert [layer.name for layer in mask.layers] == ["padding", "look-ahead", "window of 2"]
    for row, real in ((0, 7), (1, 5)):
        wanted = [[j < real and j <= i and i - j <= 2 for j in range(7)] for i in range(7)]
        assert mask.expanded(row, 0, 7, 7).tolist() == wanted
    assert [layer.name for layer in random_gpt().masks(ids)["self"].layers] == [
        "padding",
        "look-ahead",
    ]


def test_padding_behind_a_text_changes_nothing(model):
    ids = random_ids(BATCH, N)
    longer = torch.cat([ids, torch.zeros(BATCH, 5, dtype=torch.long)], 1)
    torch.testing.assert_close(model(longer)[:, :N], model(ids), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_parameter_gets_a_gradient(norm):
    model, ids = random_gpt(norm=norm), random_ids(3, N_CTX)
    (model(ids).log_softmax(-1) * torch.randn(3, N_CTX, VOCAB)).sum().backward()
    for name, parameter in model.named_parameters():
        # shifting all keys adds the same to every score of a query, which softmax cancels
        assert name.endswith("W_K.bias") or parameter.grad.abs().max() > 1e-4, name


def test_recording_changes_nothing(model):
    ids = random_ids(BATCH, N)
    plain = model(ids)
    with record():
        assert torch.equal(model(ids), plain)


@pytest.mark.parametrize("window", [0, 3])
def test_cached_and_uncached_steps_equal_one_pass(window):
    model, ids = random_gpt(window=window), random_ids(BATCH, N)
    together = model(ids).log_softmax(-1)
    for use_cache in (True, False):
        run = decoding.Incremental(model, ids[:, :3], use_cache=use_cache)
        assert run.opening.tolist() == ids[:, :3].tolist()
        for m in range(3, N + 1):
            torch.testing.assert_close(
                run.next_log_probs(ids[:, :m]), together[:, m - 1], rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("window", [0, 2])
def test_greedy_decoding_continues_a_prompt_with_the_most_probable_token(window):
    model, prompt = random_gpt(window=window), random_ids(1, 5)[0].tolist()
    row = list(prompt)
    for _ in range(11):
        row.append(int(model(torch.tensor([row]))[0, -1].argmax()))
        if row[-1] == model.config.end_id:
            break
    steps = list(decoding.greedy(model, prompt, max_new=11))
    assert [*prompt, *(step.token for step in steps)] == row
    assert [step.prefix for step in steps] == [tuple(row[5 : 5 + i]) for i in range(len(steps))]


def test_it_generates_no_more_than_its_context():
    model = random_gpt()
    model.embedding.weight.data[2] = 0  # </s> is never the best
    for n in (1, 5, N_CTX):
        assert (
            len(list(decoding.greedy(model, random_ids(1, n)[0].tolist())))
            == model.max_new_tokens(n)
            == N_CTX - n
        )
    with pytest.raises(
        ValueError, match=f"{N_CTX + 1} tokens, but this model reads at most {N_CTX}"
    ):
        model(random_ids(1, N_CTX + 1))


def test_a_beam_of_one_is_greedy_and_a_wide_one_finds_the_best(model):
    prompt = random_ids(1, 5, seed=4)[0].tolist()
    greedy = [step.token for step in decoding.greedy(model, prompt, max_new=6)]
    assert (
        list(list(decoding.beam(model, prompt, width=1, max_new=6))[-1].hypotheses[0].tokens)
        == greedy
    )
    rows = torch.cartesian_prod(torch.arange(VOCAB), torch.arange(VOCAB))
    rows = rows[rows[:, 0] != 2]
    whole = torch.cat([torch.tensor([prompt]).expand(len(rows), -1), rows], 1)
    with torch.no_grad():
        log_probs = model(whole).log_softmax(-1)
    total = log_probs[:, 4].gather(1, rows[:, :1]) + log_probs[:, 5].gather(1, rows[:, 1:])
    ended = log_probs[0, 4, 2]
    best = list(decoding.beam(model, prompt, width=VOCAB, alpha=0.0, max_new=2))[-1].hypotheses[0]
    assert best.log_prob == pytest.approx(float(max(total.max(), ended)), rel=1e-4)


def test_the_same_seed_draws_the_same_continuation(model):
    prompt = random_ids(1, 5)[0].tolist()
    drawn = [
        [s.token for s in decoding.sample(model, prompt, seed=seed, max_new=9)]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_teacher_forcing_gives_the_continuation_after_the_prompt(model):
    ids = random_ids(1, 9)[0].tolist()
    steps = list(decoding.teacher_forced(model, ids[:4], ids[4:]))
    together = model(torch.tensor([ids])).log_softmax(-1)[0]
    assert [step.token for step in steps] == [*ids[4:], 2]
    for i, step in enumerate(steps):
        torch.testing.assert_close(step.log_probs, together[3 + i])


def test_an_edited_mask_applies_to_that_head_alone(model):
    ids = random_ids(1, 7)
    only = (MaskChange(Where(kind="self", layers=(1,), heads=(2,)), preset="previous"),)
    with editing(only), record() as recording:
        changed = model(ids)
    assert not torch.equal(changed, model(ids))
    first, second = (recording.attention[f"decoder.layers.{i}.self_attn"] for i in (0, 1))
    assert torch.equal(first.weights(2)[3, :4] > 0, torch.ones(4, dtype=torch.bool))
    assert second.weights(2)[3].tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert (second.weights(1)[3, :4] > 0).all()


def test_opening_a_cell_ahead_lets_the_later_token_through(model):
    ids = random_ids(1, 7)
    changed = ids.clone()
    changed[0, 5] = 4 + (int(ids[0, 5]) - 3) % (VOCAB - 4)
    with editing(for_kinds(self=MaskChange(allow=((2, 5),)))):
        moved = (model(ids) - model(changed)).abs().amax(-1)[0]
    assert moved[:2].max() == 0
    assert moved[2] > 0


def test_a_run_has_one_text_with_its_tokens_and_the_next_at_every_position(scope):
    trace = scope.run("once upon a time")
    assert trace.streams.keys() == {"text"}
    assert trace.streams["text"].tokens == ("<s>", *"once upon a time")
    assert trace.next_token.logits.shape == (17, VOCAB)
    assert trace.next_token.labels == trace.streams["text"].ids[1:]
    assert trace.teacher_forced
    assert (
        trace.output
        == scope.tokenizer.decode(trace.next_token.logits.argmax(-1).tolist())
        != trace.streams["text"].text
    )
    site = trace.attention["decoder.layers.1.self_attn"]
    assert site.query_tokens == site.key_tokens == trace.streams["text"].tokens
    with torch.no_grad():
        logits = scope.model(torch.tensor([trace.streams["text"].ids]))[0]
    torch.testing.assert_close(trace.next_token.logits, logits, rtol=1e-4, atol=1e-5)


def test_a_continuation_is_part_of_the_same_stream(scope):
    apart, together = scope.run("once upon", " a time"), scope.run("once upon a time")
    assert apart.streams["text"].ids == together.streams["text"].ids
    assert apart.streams["text"].offsets == together.streams["text"].offsets
    assert torch.equal(apart.next_token.logits, together.next_token.logits)


@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_generation_continues_after_the_prompt(scope, how):
    settings = {"seed": 3} if how == "sample" else {}
    written = scope.write("once upon", how, max_new=5, **settings)
    assert 1 <= len(written.ids) <= 5
    assert written.text == scope.tokenizer.decode(written.ids)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": 2}, r"d_model \(15\) must be divisible by n_heads \(2\)"),
        ({"norm": "middle"}, "norm must be post or pre, not 'middle'"),
        ({"positions": "rotary"}, "positions must be sinusoidal, learned or none, not 'rotary'"),
        ({"activation": "swish"}, "activation must be one of relu, gelu, gelu tanh, not 'swish'"),
        ({"init": "zeros"}, "init must be one of xavier, scaled, normal, not 'zeros'"),
        ({"window": -1}, "window must be at least 0, not -1"),
        ({"n_layers": 257}, "n_layers must be at most 256, not 257"),
        ({"n_ctx": 1}, "n_ctx must be at least 2, not 1"),
        ({"d_ff": -1}, "d_ff must be at least 1, not -1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
    ],
)
def test_impossible_sizes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        random_gpt(**changes)


def test_activations_are_recognised_by_their_formula():
    ids = random_ids(1, N)
    tanh = torch.nn.GELU(approximate="tanh")
    for activation, function, formula in (
        ("relu", torch.relu, "max(0, ff_pre)"), ("gelu", torch.nn.functional.gelu, "ff_pre·Φ(ff_pre)"),
        ("gelu tanh", tanh, "½·ff_pre·(1 + tanh(√(2/π)·(ff_pre + 0.044715·ff_pre³)))"),
    ):  # fmt: skip
        with record() as recording:
            random_gpt(activation=activation)(ids)
        value = {name: a.value for name, a in recording.activations.items()}
        before, after = (value[f"decoder.layers.0.ff.{name}"] for name in ("ff_pre", "ff_post"))
        torch.testing.assert_close(after, function(before))
        assert after.shape[-1] == D_FF
        assert recording.activations["decoder.layers.0.ff.ff_post"].formula == formula
        assert recording.activations["decoder.layers.0.ff.ff_pre"].formula == "x·W₁ + b₁"
