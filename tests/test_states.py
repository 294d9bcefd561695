"""What is shown of a model without attention: its encoder's states, as a picture and as files."""

import csv
import io

import numpy as np
import pytest
import torch
from small import random_seq2seq

from models import Trace
from models.checkpoint import Checkpoint
from models.scope import Scope
from models.tokenizer import Tokenizer
from viz_app import words
from viz_app.figures import states
from viz_app.figures.look import DARK, LIGHT


@pytest.fixture(scope="module", params=[True, False], ids=["both ways", "one way"])
def scope(request, tmp_path_factory) -> Scope:
    tokenizer = Tokenizer.characters("abcde<&")
    model = random_seq2seq(attention="none", vocab_size=tokenizer.vocab_size, bidirectional=request.param)
    return Scope(Checkpoint(tmp_path_factory.mktemp("states"), model, tokenizer, {"step": 0}), torch.device("cpu"))


@pytest.fixture(scope="module")
def trace(scope) -> Trace:
    return scope.run("ab<&", "cd")


def by_torch(scope: Scope, trace: Trace) -> np.ndarray:
    """The states by torch's own recurrence over the embedded tokens."""
    with torch.no_grad():
        embedded = scope.model.embedding(torch.tensor([trace.source.ids])) * scope.config.d_model**0.5
        return scope.model.encoder.recurrence(embedded)[0][0].numpy()


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_the_picture_is_of_the_states(scope, trace, look):
    figure = states.encoder_states(trace, scope.config, look, "The states")
    cells, n, d = figure.data[0], len(trace.source.ids), scope.config.d_memory
    np.testing.assert_allclose(cells.z, by_torch(scope, trace), atol=1e-6)
    assert cells.z.shape == (n, d)
    assert cells.zmax == -cells.zmin == np.abs(cells.z).max()
    assert cells.y == ("0 a", "1 b", "2 &lt;", "3 &amp;", "4 [end]")
    assert figure.layout.title.text == "The states"


def test_the_frames_are_round_what_the_decoder_is_given(scope, trace):
    figure = states.encoder_states(trace, scope.config, LIGHT, "The states")
    cells, given = figure.data[0].z, scope.model.encoder.last_state(torch.tensor(figure.data[0].z)[None])[0]
    frames = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    framed = [cells[int(f.y0 + 0.5), int(f.x0 - 0.5) : int(f.x1 - 0.5)] for f in frames]
    np.testing.assert_array_equal(np.concatenate(framed), given.numpy())
    assert len(figure.layout.annotations) == (2 if scope.config.bidirectional else 0)


def test_the_files_hold_the_states(scope, trace):
    rows = list(csv.reader(io.StringIO(states.states_csv(trace))))
    np.testing.assert_allclose([[float(v) for v in row[1:]] for row in rows[1:]], by_torch(scope, trace), atol=1e-6)
    assert [row[0] for row in rows[1:]] == ["0 a", "1 b", "2 <", "3 &", "4 [end]"]
    kept = np.load(io.BytesIO(states.states_npz(trace)))
    np.testing.assert_array_equal(kept["encoder.states"], trace.activations["encoder.states"].value[0].numpy())
    assert kept["decoder.states"].shape == (3, scope.config.d_hidden)
    assert list(kept["target_tokens"]) == list(trace.target.tokens)


def test_the_words_say_its_sizes(scope):
    text = states.says(scope.config, words.terms("translation"))
    assert f"**{scope.config.d_memory} numbers**" in text
    assert ("backward" in text) == scope.config.bidirectional
