"""The recurrent encoder-decoder: torch's recurrences, Bahdanau's equations by hand, and the model without attention."""

import math
from itertools import product

import pytest
import torch
from checked import unchecked
from recurrence_by_hand import logits_by_hand
from small import (
    BATCH,
    N_SOURCE,
    N_TARGET,
    VOCAB,
    padded_ids,
    random_ids,
    random_seq2seq,
    reversal_trainer,
)
from torch import nn

from models import decoding
from models.analysis.checks import check_site
from models.analysis.fixed_vector import vector_changes
from models.architectures.seq2seq import ALIGNMENT, Alignment, Seq2SeqConfig
from models.layers import masks
from models.opening import load
from models.trace import record
from models.trace.attend import Attending

KINDS = [
    {"attention": attention, "cell": cell, "bidirectional": both}
    for attention, cell, both in product(("bahdanau", "none"), ("gru", "tanh"), (True, False))
]
ALIGNED = [kind for kind in KINDS if kind["attention"] == "bahdanau"]


def case_name(kind: dict) -> str:
    return " ".join(
        [kind["attention"], kind["cell"], "both ways" if kind["bidirectional"] else "one way"]
    )


@pytest.mark.parametrize("kind", KINDS, ids=case_name)
def test_the_model_follows_its_equations_with_and_without_padding(kind):
    model = random_seq2seq(**kind)
    source, target = padded_ids()
    logits = model(source, target)
    assert logits.shape == (BATCH, N_TARGET, VOCAB)
    torch.testing.assert_close(
        logits[0],
        logits_by_hand(model, source[0].tolist(), target[0].tolist()),
        rtol=1e-4,
        atol=1e-4,
    )
    by_hand = logits_by_hand(model, source[1, :7].tolist(), target[1, :5].tolist())
    torch.testing.assert_close(logits[1, :5], by_hand, rtol=1e-4, atol=1e-4)


SIZES = {
    "source": N_SOURCE,
    "target": N_TARGET,
    "d_model": 17,
    "d_memory": 14,
    "d_hidden": 7,
    "vocab": VOCAB,
}
MARKED = {
    "encoder.embedding": ("source", "d_model"), "encoder.states": ("source", "d_memory"),
    "decoder.embedding": ("target", "d_model"), "decoder.contexts": ("target", "d_memory"),
    "decoder.states": ("target", "d_hidden"), "decoder.readout": ("target", "d_model"),
    "logits": ("target", "vocab"),
}  # fmt: skip


@pytest.mark.parametrize("attention", ["bahdanau", "none"])
def test_every_recorded_intermediate_has_its_name_axes_and_formula(attention):
    model = random_seq2seq(attention=attention)
    with record() as recording, torch.no_grad():
        model(*padded_ids())
    wanted = {
        name: axes
        for name, axes in MARKED.items()
        if attention != "none" or name != "decoder.contexts"
    }
    assert {name: a.axes for name, a in recording.activations.items()} == {
        n: ("batch", *axes) for n, axes in wanted.items()
    }
    for a in recording.activations.values():
        assert a.value.shape == (BATCH, *(SIZES[axis] for axis in a.axes[1:])), a.name
    formulas = {name: a.formula for name, a in recording.activations.items()}
    assert formulas["encoder.states"] == "h_t = (1 − z)∘n + z∘h_{t−1}, in each direction"
    assert formulas["decoder.states"] == "s_i = (1 − z)∘n + z∘h_{t−1} of s_{i−1}"
    assert (
        formulas["decoder.readout"]
        == f"tanh(W_r [s_i; y_{{i−1}}{'; c_i' if attention == 'bahdanau' else ''}] + b)"
    )
    assert formulas["logits"] == "readout · embeddingᵀ"
    assert [kind.name for kind in model.kinds] == ([] if attention == "none" else ["cross"])


@pytest.mark.parametrize("cell", ["tanh", "gru"])
def test_the_encoder_on_copied_weights_is_torchs_recurrence(cell):
    model = random_seq2seq(cell=cell)
    own = {"tanh": nn.RNN, "gru": nn.GRU}[cell](17, 7, batch_first=True, bidirectional=True)
    own.load_state_dict(
        {name: p.clone() for name, p in model.encoder.recurrence.named_parameters()}
    )
    source = random_ids(BATCH, N_SOURCE)
    memory = model.encode(source, model.masks(source, source))
    h, last = own(model.embedding(source) * math.sqrt(17))
    torch.testing.assert_close(memory, h)
    torch.testing.assert_close(model.encoder.last_state(memory), torch.cat([last[0], last[1]], -1))


@pytest.mark.parametrize("cell", ["tanh", "gru"])
def test_the_decoder_without_attention_on_copied_weights_is_torchs_cell(cell):
    model = random_seq2seq(cell=cell, attention="none")
    own = {"tanh": nn.RNNCell, "gru": nn.GRUCell}[cell](17, 7)
    own.load_state_dict(
        {
            name.removesuffix("_l0"): p.clone()
            for name, p in model.decoder.recurrence.named_parameters()
        }
    )
    source, target = random_ids(1, N_SOURCE), random_ids(1, N_TARGET)
    with record() as recording:
        model(source, target)
    memory = recording.activations["encoder.states"].value
    s = model.decoder.W_s(model.encoder.last_state(memory)).tanh()
    for i, state in enumerate(recording.activations["decoder.states"].value[0]):
        s = own(model.embedding(target[:, i]) * math.sqrt(17), s)
        torch.testing.assert_close(s[0], state)


def test_one_step_of_the_alignment_by_hand():
    """d = 1, two source positions: e = 2·tanh(s + h), h = (0, 1), s = 0.5."""
    alignment = Alignment(Seq2SeqConfig(5, d_hidden=1, d_align=1, bidirectional=False))
    with torch.no_grad():
        for name, value in (("W", [[1.0]]), ("U", [[1.0]]), ("v", [2.0])):
            getattr(alignment.similarity, name).copy_(torch.tensor(value))
        memory = torch.tensor([[[0.0], [1.0]]])
        attending = Attending(ALIGNMENT, "alignment", masks.Mask(), (1, 1, 1, 2), memory.device)
        context = alignment(torch.tensor([[0.5]]), memory, memory, attending, 0)
    e_0, e_1 = 2 * math.tanh(0.5), 2 * math.tanh(1.5)
    assert context.item() == pytest.approx(
        math.exp(e_1) / (math.exp(e_0) + math.exp(e_1)), rel=1e-6
    )


@pytest.mark.parametrize("kind", ALIGNED, ids=case_name)
def test_the_site_holds_what_each_step_used(kind):
    model = random_seq2seq(**kind)
    source, target = padded_ids()
    with record() as recording, torch.no_grad():
        model(source, target)
    site, states = (
        recording.attention["decoder.alignment"],
        recording.activations["decoder.states"].value,
    )
    assert (site.kind, site.n_heads, site.layer, site.n_query, site.n_key) == (
        "cross",
        1,
        0,
        N_TARGET,
        N_SOURCE,
    )
    for row in range(BATCH):
        assert [check.name for check in check_site(site, row) if not check.passed] == []
    torch.testing.assert_close(site.q[:, 0, 1:], states[:, :-1])  # the query is s(i−1), not s(i)
    assert (site.q[:, 0] - states).abs().amax((0, 2)).min() > 0.01
    memory = recording.activations["encoder.states"].value
    torch.testing.assert_close(
        site.q[:, 0, 0], model.decoder.W_s(model.encoder.last_state(memory)).tanh().detach()
    )
    torch.testing.assert_close(
        site.head_out(0, 1), recording.activations["decoder.contexts"].value[1]
    )
    assert site.blocked_by(0, 8, batch=1) == [masks.PADDING]


def test_the_first_context_does_not_know_the_first_token():
    """Bahdanau aligns before the step; aligning after it, as Luong does, would make the alignment depend on the token."""
    model, source = random_seq2seq(), random_ids(1, N_SOURCE)
    contexts = []
    for token in (5, 6):
        with record() as recording:
            model(source, torch.tensor([[1, token]]))
        contexts.append(recording.attention["decoder.alignment"].out[0, 0])
    assert torch.equal(contexts[0][0], contexts[1][0])
    assert torch.equal(
        contexts[0][1], contexts[1][1]
    )  # s_1 comes from <s>, and the token is read at the second step


@pytest.mark.parametrize("kind", KINDS, ids=case_name)
def test_decoding_step_by_step_gives_the_stacked_run(kind):
    """The three routes: with the state kept, with everything recomputed, and in one pass."""
    model = random_seq2seq(**kind)
    source, target = padded_ids()[0], random_ids(BATCH, 9, seed=4)
    together = model(source, target).log_softmax(-1)
    kept, again = (
        decoding.Incremental(model, source),
        decoding.Incremental(model, source, use_cache=False),
    )
    for m in range(1, 10):
        for run in (kept, again):
            torch.testing.assert_close(
                run.next_log_probs(target[:, :m]), together[:, m - 1], rtol=1e-4, atol=1e-5
            )


def test_a_kept_state_is_not_recomputed():
    model, source = random_seq2seq(), random_ids(1, N_SOURCE)
    run = decoding.Incremental(model, source)
    run.next_log_probs(random_ids(1, 3))
    with record() as recording:
        run.next_log_probs(random_ids(1, 4))
    assert recording.activations["decoder.states"].value.shape[1] == 1


def test_without_attention_the_fixed_vector_is_the_only_link():
    model = random_seq2seq(attention="none")
    source, target = random_ids(1, N_SOURCE), random_ids(1, N_TARGET)
    assert model.masks(source, target) == {}
    memory = model.encode(source, {})
    other = memory.clone()
    other[:, 1:-1] += 1
    other[:, 0, :7] += 1  # of the first position only the backward half belongs to h_m
    other[:, -1, 7:] += 1
    assert torch.equal(model.decode(target, memory, {}), model.decode(target, other, {}))
    other[:, -1, 3] += 1
    assert not torch.equal(model.decode(target, memory, {}), model.decode(target, other, {}))
    with record() as recording:
        model(source, target)
    assert recording.attention == {}


def test_a_blocked_source_token_gets_no_weight():
    model, source, target = random_seq2seq(), random_ids(1, N_SOURCE), random_ids(1, N_TARGET)
    allowed = torch.ones(N_TARGET, N_SOURCE, dtype=torch.bool)
    allowed[2:5, 3] = False
    allowed[6] = False
    plain = model.masks(source, target)
    with record() as recording, torch.no_grad():
        logits = model(
            source,
            target,
            {"cross": masks.Mask([*plain["cross"].layers, masks.custom_layer(allowed)])},
        )
    site = recording.attention["decoder.alignment"]
    assert site.weights(0)[2:5, 3].abs().max() == 0
    assert site.out[0, 0, 6].abs().max() == 0
    assert all(check.passed for check in check_site(site))
    assert logits.isfinite().all()
    assert torch.equal(logits[:, :2], model(source, target)[:, :2])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=case_name)
@unchecked()
def test_a_trained_checkpoint_is_loaded_run_decoded_and_resumed(kind, tmp_path):
    sizes = {
        "vocab_size": 9,
        "d_model": 33,
        "d_hidden": 29,
        "d_align": 19,
        "n_ctx": 13,
        "dropout": 0.1,
    }
    config = Seq2SeqConfig(**sizes | kind)
    records = list(
        reversal_trainer(tmp_path / "whole", config=config, steps=60, save_every=20).train()
    )
    assert records[-1].loss < 0.8 * records[0].loss
    broken = reversal_trainer(tmp_path / "broken", config=config, steps=60, save_every=20)
    for step in broken.train():
        if step.step == 50:
            break
    resumed = reversal_trainer(tmp_path / "broken", config=config, steps=60, save_every=20)
    assert resumed.resume() == 40
    assert [r.loss for r in resumed.train()] == [r.loss for r in records[40:]]
    scope = load(tmp_path / "broken", device="cpu")
    assert scope.config == config
    trace, other = scope.run_batch([("abcd", "dcba"), ("ab", None)])
    assert trace.teacher_forced
    assert not other.teacher_forced
    assert set(trace.attention) == (
        {"decoder.alignment"} if kind["attention"] == "bahdanau" else set()
    )
    for site in (*trace.attention.values(), *other.attention.values()):
        assert all(check.passed for check in check_site(site))
    alone = scope.run("abcd", "dcba")
    torch.testing.assert_close(alone.next_token.logits, trace.next_token.logits)
    assert scope.write("abc", "beam", width=1).ids == scope.write("abc").ids
    forced = list(
        decoding.teacher_forced(
            scope.model, trace.streams["source"].ids, trace.streams["target"].ids[1:]
        )
    )
    torch.testing.assert_close(
        torch.stack([step.log_probs for step in forced]), trace.next_token.logits.log_softmax(-1)
    )


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"d_hidden": 0}, "d_hidden must be at least 1"),
        ({"cell": "lstm"}, "cell must be tanh or gru, not 'lstm'"),
        ({"attention": "luong"}, "attention must be bahdanau or none, not 'luong'"),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        Seq2SeqConfig(VOCAB, **sizes)


def test_too_many_tokens_are_refused():
    model = random_seq2seq(n_ctx=5)
    with pytest.raises(ValueError, match="6 tokens, but this model reads at most 5"):
        model(random_ids(1, 6), random_ids(1, 3))


def test_how_much_one_token_changes_the_fixed_vector_is_a_mean_over_other_tokens():
    """Each source is read alone; replacing a token by itself changes nothing and is not counted."""
    model = random_seq2seq(attention="none", bidirectional=True)
    source, others, places = [5, 9, 7, 9, 3], [9, 4, 11], [0, 1, 3]

    def vector(ids: list[int]) -> torch.Tensor:
        row = torch.tensor([ids])
        with torch.no_grad():
            states = model.encode(row, model.masks(row, row[:, :0]))
        return torch.cat(
            [states[0, -1, : model.config.d_hidden], states[0, 0, model.config.d_hidden :]]
        )

    own, expected = vector(source), []
    for place in places:
        changed = [
            float(
                (vector([*source[:place], other, *source[place + 1 :]]) - own).norm() / own.norm()
            )
            for other in others
            if other != source[place]
        ]
        expected.append(sum(changed) / len(changed))
    found = vector_changes(model, source, places, others)
    assert found.tolist() == pytest.approx(expected, rel=1e-4)
