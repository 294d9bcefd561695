"""The outputs and inputs of a run, in the model's own fields and streams."""

import math

import pytest
import torch
from drawn import letters

from models.tokenizers.base import END, START


def test_the_expected_token_after_each_token_of_a_target():
    scope = letters()
    trace = scope.run("abcde", "edc")
    source, target = trace.streams["source"], trace.streams["target"]
    with torch.no_grad():
        logits = scope.model(torch.tensor([source.ids]), torch.tensor([target.ids]))[0].double()
    output = trace.outputs["next token"]
    assert output is trace.next_token
    assert (output.stream, output.labels, output.is_closed) == (
        "target",
        (*target.ids[1:], END),
        True,
    )
    torch.testing.assert_close(output.logits.double(), logits, atol=1e-4, rtol=1e-4)
    pairs = zip(logits, output.labels, strict=True)
    bits = [
        math.log2(float(row.exp().sum())) - float(row[label]) / math.log(2) for row, label in pairs
    ]
    assert output.surprisal.tolist() == pytest.approx(bits, abs=1e-3)
    assert output.predicted == scope.tokenizer.tokens(logits.argmax(-1).tolist())
    assert output.last.equal(output.log_probs[-1])
    assert (trace.fields, trace.teacher_forced) == ({"source": "abcde", "target": "edc"}, True)


def test_the_expected_token_after_each_token_of_a_continued_text():
    scope = letters("gpt")
    trace = scope.run("abc", "de")
    text = trace.streams["text"]
    assert text.ids == (START, *scope.tokenizer.encode("abcde").ids)
    assert (text.text, text.offsets) == ("abcde", (None, (0, 1), (1, 2), (2, 3), (3, 4), (4, 5)))
    output = trace.next_token
    assert (output.stream, output.labels, output.is_closed) == ("text", text.ids[1:], False)
    assert output.logits.shape == (6, scope.tokenizer.vocab_size)
    assert len(output.surprisal) == 5
    probability = float(output.logits[2].double().softmax(-1)[text.ids[3]])
    assert float(output.surprisal[2]) == pytest.approx(-math.log2(probability), abs=1e-4)
    assert trace.fields == {"text": "abc", "continuation": "de"}
    assert torch.equal(
        scope.run("abcde").next_token.logits, output.logits
    )  # the same tokens, however typed
    assert scope.run("abcde").fields == {"text": "abcde", "continuation": None}


def test_the_model_of_a_run_is_named():
    scope = letters("gpt")
    trace = scope.run("abc")
    assert (trace.model.name, trace.model.architecture, trace.model.fingerprint) == (
        scope.name,
        "gpt",
        scope.fingerprint,
    )
    assert trace.model.training is scope.training
    assert not trace.edits


def test_fields_are_given_in_order_or_by_name():
    scope = letters()
    assert (
        scope.run("abc", target="ed").streams
        == scope.run("abc", "ed").streams
        == scope.run(target="ed", source="abc").streams
    )
    for texts, named, wrong in (
        (("a", "b", "c"), {}, "3 texts"),
        (("a",), {"source": "b"}, "source"),
        (("a",), {"text": "b"}, "text"),
    ):
        with pytest.raises(TypeError, match=f"takes source, target, not .*{wrong}"):
            scope.run(*texts, **named)
    assert scope.input_ids("abc") == scope.run("abc", "e").streams["source"].ids
    assert letters("gpt").input_ids("abc") == letters("gpt").run("abc").streams["text"].ids


def test_an_axis_has_the_row_of_its_stream():
    trace = letters().run("abcde", "edc")
    cross = trace.attention["decoder.layers.0.cross_attn"]
    assert trace.axes(cross) == (trace.streams["target"], trace.streams["source"])
    own = letters("gpt").run("abc")
    assert own.axes(own.attention["decoder.layers.1.self_attn"]) == (
        own.streams["text"],
        own.streams["text"],
    )
