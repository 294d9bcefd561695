"""The sentences on training, inference and recurrent models are true of the models."""

import pytest
import torch
from small import random_attention_only, random_bert, random_ids, random_model, random_seq2seq

from models.architectures import Model
from models.trace import Trace, finish, record
from models.trace.edits import MaskChange, Where
from models.trace.edits.active import editing
from viz_app import words
from viz_app.views.decoding import text as say

SOURCE, TARGET = random_ids(1, 5), random_ids(1, 7, 2)


def sites(model: Model) -> Trace:
    """Return the part of a run that the sentences depend on."""
    with torch.no_grad(), record() as recording:
        model(SOURCE, TARGET)
    attention = finish(recording, {"source": ("x",) * 5, "target": ("y",) * 7})[1]
    return type("Run", (), {"attention": attention})()


def moved(model: Model, place: int) -> list[bool]:
    """Return the positions at which another target token at `place` changes the logits."""
    other = TARGET.clone()
    other[0, place] += 1
    with torch.no_grad():
        return [
            not same
            for same in torch.isclose(model(SOURCE, TARGET), model(SOURCE, other), atol=1e-6)[0]
            .all(-1)
            .tolist()
        ]


def test_a_decoder_that_reads_itself_needs_look_ahead_and_one_that_does_not_has_nothing_to_hide():
    text = say.explain_decoding(random_model())
    assert "The look-ahead mask (hatched) hides" in text
    assert "Keys and values of earlier positions never change" in text
    assert moved(random_model(), 3) == [False] * 3 + [True] * 4
    alone = random_attention_only(n_self_layers=0)
    text = say.explain_decoding(alone)
    assert "look-ahead" not in text
    assert "reads its own token and the source" in text
    assert moved(alone, 3) == [False] * 3 + [True] + [False] * 3


def test_a_lifted_look_ahead_mask_hides_nothing_and_leaves_nothing_to_keep() -> None:
    """Lesson 4 opens this: a later token then changes what is predicted before it."""
    model = random_model()
    kind = next(
        kind.name for kind in model.kinds if kind.query_stream == kind.key_stream == "target"
    )
    lift = MaskChange(Where(kind=kind), removed_layers=("look-ahead",))
    text = say.explain_decoding(model, [lift])
    assert "hides" not in text
    assert "may attend to the very token that it should predict" in text
    assert "**No cache is used here.** With this run's changed mask" in text
    assert "What the cache keeps" not in text
    other = TARGET.clone()
    other[0, 3] += 1
    with torch.no_grad(), editing([lift]):
        moved = ~torch.isclose(model(SOURCE, TARGET), model(SOURCE, other), atol=1e-6)[0].all(-1)
    assert bool(moved[:3].all())
    assert "What the cache keeps" in say.explain_decoding(
        model, [MaskChange(Where(kind=kind), preset="window", k=2)]
    )


@pytest.mark.parametrize("attention", ["bahdanau", "none"])
def test_a_recurrence_keeps_its_state(attention):
    model = random_seq2seq(attention=attention)
    text = say.explain_decoding(model)
    assert "Only the state: 7 numbers" in text
    assert ("U h(j)" in text) == (attention == "bahdanau")
    assert ("may forget its own text" in text) == (attention == "bahdanau")
    assert ("may forget either text" in text) == (attention == "none")
    assert moved(model, 3)[:3] == [False] * 3
    assert moved(model, 3)[3]
    assert "each state waits for the one before" in say.decoding_answer(model)
    assert "all positions in parallel" in say.decoding_answer(random_model())


def test_a_model_that_does_not_generate_is_not_said_to_read_its_own_tokens():
    sentence = say.decoding_answer(random_bert())
    assert "no text" in sentence
    assert "feeds" not in sentence


# where our model with an alignment differs from its paper


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", ["gru", "tanh"])
def test_the_first_state_the_cell_and_the_readout_are_those_described(cell, bidirectional):
    """Each formula of the sentence is computed from the weights and compared with the run."""
    model = random_seq2seq(cell=cell, bidirectional=bidirectional)
    text, weights = words.departures(model.config), dict(model.named_parameters())
    with torch.no_grad(), record() as recording:
        logits = model(SOURCE, TARGET)
    states, contexts, h = (recording.activations[f"{name}"].value[0] for name in
                           ("decoder.states", "decoder.contexts", "encoder.states"))  # fmt: skip
    ends = torch.cat([h[-1, :7], h[0, 7:]]) if bidirectional else h[-1]
    s_0 = (weights["decoder.W_s.weight"] @ ends + weights["decoder.W_s.bias"]).tanh()
    torch.testing.assert_close(
        recording.attention["decoder.alignment"].q[0, 0, 0], s_0, atol=1e-6, rtol=1e-4
    )
    both = r"[\overrightarrow{h}_m; \overleftarrow{h}_1] + b)$; the paper takes $\overleftarrow{h}_1$ alone"
    assert (both in text) == bidirectional
    assert (r"$s_0 = \tanh(W h_m + b)$; the paper reads backwards too" in text) == (
        not bidirectional
    )

    y = model.embedding(TARGET)[0] * 17**0.5
    x, before = torch.cat([y[0], contexts[0]]), s_0
    W, U = (weights[f"decoder.recurrence.weight_{part}"] for part in ("ih", "hh"))
    wx, us = (
        W @ x + weights["decoder.recurrence.bias_ih"],
        U @ before + weights["decoder.recurrence.bias_hh"],
    )
    if cell == "gru":
        r, z = (wx[:7] + us[:7]).sigmoid(), (wx[7:14] + us[7:14]).sigmoid()
        state = (1 - z) * (
            wx[14:] + r * us[14:]
        ).tanh() + z * before  # the reset gate acts on U s(i−1)
    else:
        state = (wx + us).tanh()
    torch.testing.assert_close(states[0], state, atol=1e-6, rtol=1e-4)
    assert ("reset gate act on $U s_{i-1}$; the paper's on $s_{i-1}$" in text) == (cell == "gru")
    assert ("Its cell is a plain tanh" in text) == (cell == "tanh")

    read = torch.cat([states, y, contexts], dim=1)
    readout = (read @ weights["decoder.W_r.weight"].T + weights["decoder.W_r.bias"]).tanh()
    torch.testing.assert_close(
        logits[0], readout @ weights["embedding.weight"].T, atol=1e-4, rtol=1e-4
    )
    assert (
        r"from $\tanh(W[s_i; y_{i-1}; c_i] + b)$; the paper from a maxout layer of $s_{i-1}$, $y_{i-1}$ and $c_i$"
        in text
    )
    assert "One matrix embeds source and target and gives the logits" in text


def test_other_models_have_no_such_paper():
    for model in (random_model(), random_attention_only(), random_seq2seq(attention="none")):
        assert words.departures(model.config) == ""


def changed_rows(model: Model, site: str, place: int) -> list[bool]:
    """Return the rows of attention that another target token at `place` changes."""
    found = []
    for bump in (0, 1):
        target = TARGET.clone()
        target[0, place] += bump
        with torch.no_grad(), record() as recording:
            model(SOURCE, target)
        made = recording.attention[site]
        found.append(made.weights() if hasattr(made, "weights") else made)
    return [
        not torch.allclose(a, b, atol=1e-6)
        for a, b in zip(*(weights[0] for weights in found), strict=True)
    ]


def test_an_alignment_depends_only_on_earlier_rows():
    """Another token at row 3 changes the rows below it, not its own; in self-attention its own, too."""
    model, other = random_seq2seq(), random_model(n_decoder_layers=1)
    assert changed_rows(model, "decoder.alignment", 3) == [False] * 4 + [True] * 3
    assert changed_rows(other, "decoder.layers.0.self_attn", 3) == [False] * 3 + [True] * 4
    alignment = sites(model).attention["decoder.alignment"]
    said = words.where_from(alignment, words.terms("translation"))
    assert "query is made before that token is read, from the tokens above it alone" in said
