"""The view of a model without attention: its encoder's states, as a picture and as files."""

import csv
import io

import numpy as np
import pytest
import torch
from small import random_seq2seq

import models
from models import Trace
from models.checkpoint import Checkpoint, describe_checkpoint
from models.opening import shipped_folder
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app import words
from viz_app.drawing import states
from viz_app.drawing.payload import unpack


@pytest.fixture(scope="module", params=[True, False], ids=["both ways", "one way"])
def scope(request, tmp_path_factory) -> Scope:
    tokenizer = Tokenizer.characters("abcde<&")
    model = random_seq2seq(
        attention="none", vocab_size=tokenizer.vocab_size, bidirectional=request.param
    )
    return Scope(
        Checkpoint(tmp_path_factory.mktemp("states"), model, tokenizer, {"step": 0}),
        torch.device("cpu"),
    )


@pytest.fixture(scope="module")
def trace(scope) -> Trace:
    return scope.run("ab<&", "cd")


def by_torch(scope: Scope, trace: Trace) -> np.ndarray:
    """Return the states from torch's own recurrence over the embedded tokens."""
    with torch.no_grad():
        embedded = (
            scope.model.embedding(torch.tensor([trace.streams["source"].ids]))
            * scope.config.d_model**0.5
        )
        return scope.model.encoder.recurrence(embedded)[0][0].numpy()


def test_the_picture_shows_the_states(scope, trace):
    header, arrays = unpack(states.encoder_states(trace, scope.config, "The states"))
    np.testing.assert_allclose(arrays["states"], by_torch(scope, trace), atol=1e-6)
    assert (header["title"], header["columns"]) == ("The states", scope.config.d_memory)
    assert arrays["states"].shape == (len(trace.streams["source"].ids), scope.config.d_memory)
    assert header["limit"] == pytest.approx(np.abs(by_torch(scope, trace)).max(), abs=1e-6)
    assert [text for text, *_ in header["rows"]] == ["a", "b", "<", "&", "[end]"]


def test_the_frames_surround_the_states_given_to_the_decoder(scope, trace):
    header, arrays = unpack(states.encoder_states(trace, scope.config, "The states"))
    cells, given = (
        arrays["states"],
        scope.model.encoder.last_state(torch.tensor(arrays["states"])[None])[0],
    )
    framed = [
        cells[one["row"], one["first"] : one["first"] + one["count"]] for one in header["frames"]
    ]
    np.testing.assert_array_equal(np.concatenate(framed), given.numpy())
    assert header["ways"] == (["forwards →", "← backwards"] if scope.config.bidirectional else [])


def test_the_files_hold_the_states(scope, trace):
    rows = list(csv.reader(io.StringIO(states.states_csv(trace))))
    np.testing.assert_allclose(
        [[float(v) for v in row[1:]] for row in rows[1:]], by_torch(scope, trace), atol=1e-6
    )
    assert [row[0] for row in rows[1:]] == ["0 a", "1 b", "2 <", "3 &", "4 [end]"]
    kept = np.load(io.BytesIO(states.states_npz(trace)))
    np.testing.assert_array_equal(
        kept["encoder.states"], trace.activations["encoder.states"].value[0].numpy()
    )
    assert kept["decoder.states"].shape == (3, scope.config.d_hidden)
    assert kept["target_tokens"].tolist() == ["[start]", *trace.streams["target"].tokens[1:]]


def test_the_text_gives_its_sizes_and_reading_direction(scope, trace):
    text, both = (
        states.explain_states(scope.config, words.terms("translation")),
        scope.config.bidirectional,
    )
    assert f"**{scope.config.d_memory} numbers**" in text
    assert ("in both directions" in text) == both
    assert ("h←(t) = f(token t, h←(t+1))" in text) == both
    assert ("the state after that token: h(t) = f(token t, h(t−1))" in text) == (not both)
    moved = states_after(scope, trace, 1)  # another token at place 1
    forwards, backwards = (
        moved[:, : scope.config.d_hidden].any(1),
        moved[:, scope.config.d_hidden :].any(1),
    )
    assert forwards.tolist() == [False, True, True, True, True]
    if both:
        assert backwards.tolist() == [True, True, False, False, False]


def states_after(scope: Scope, trace: Trace, place: int) -> np.ndarray:
    """Return the change of each state when the token at this position is replaced."""
    ids = list(trace.streams["source"].ids)
    ids[place] = ids[place] + 1
    other = scope.model.embedding(torch.tensor([ids])) * scope.config.d_model**0.5
    return (
        scope.model.encoder.recurrence(other)[0][0].detach().numpy() - by_torch(scope, trace)
    ).round(6)


def test_the_decoder_starts_from_the_state_named_in_the_text(scope, trace):
    text, d = states.explain_states(scope.config, words.terms("translation")), scope.config.d_hidden
    assert f"s(0) = tanh(W h(m) + b), {d} numbers" in text
    read, decoder = by_torch(scope, trace), scope.model.decoder
    h_m = np.concatenate(
        [read[-1, :d], read[0, d:]]
    )  # forward at the last token, backward at the first
    s_0 = np.tanh(decoder.W_s.weight.detach().numpy() @ h_m + decoder.W_s.bias.detach().numpy())
    y = (
        scope.model.embedding(torch.tensor([trace.streams["target"].ids]))
        * scope.config.d_model**0.5
    )
    with torch.no_grad():
        again = decoder.recurrence(y, torch.tensor(s_0)[None, None])[0][0]
    np.testing.assert_allclose(
        trace.activations["decoder.states"].value[0].numpy(), again.numpy(), atol=1e-6
    )
    if scope.config.bidirectional:
        assert f"forward reading ({d} numbers, last token)" in text
        assert f"backward reading ({d}, first token)" in text
    else:
        assert f"the {d} numbers its reading ended with, at the last token" in text


@pytest.mark.parametrize(
    ("task", "named"), [("dates", "dates-bahdanau"), ("translation", "eng-fra-bahdanau")]
)
def test_the_suggested_model_has_the_same_task(scope, task, named):
    assert f"(such as **{named}**)" in states.explain_states(scope.config, words.terms(task))


def test_the_model_to_open_instead_is_one_of_the_same_task_with_an_attention() -> None:
    without = [
        name
        for name in models.shipped()
        if describe_checkpoint(shipped_folder() / name).family.year == 2014
    ]
    assert len(without) > 1
    for name in without:
        task = describe_checkpoint(shipped_folder() / name).training["task"]
        named = words.terms(task).aligned
        assert named in states.explain_states(
            models.load(name, device="cpu").config, words.terms(task)
        )
        assert describe_checkpoint(shipped_folder() / named).training["task"] == task
        assert models.load(named, device="cpu").model.kinds
