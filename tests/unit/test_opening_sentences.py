"""The sentences and the head that a newcomer sees first show each family at its best, checked by running the shipped models."""

import pytest

import models
from viz_app.drawing.sites import sharpest_head
from viz_app.input_bar.examples import readable_examples, references
from viz_app.views.from_rnn.page import OPENS_ON


def test_from_rnn_opens_on_a_sentence_that_only_the_fixed_vector_gets_wrong() -> None:
    sentence = OPENS_ON["translation"]
    written = {
        name: models.load(name, device="cpu").run(sentence).output
        for name in ("eng-fra-rnn", "eng-fra-bahdanau", "eng-fra")
    }
    correct = references(sentence)
    assert written["eng-fra-bahdanau"] in correct
    assert written["eng-fra"] in correct
    assert "ville" in written["eng-fra-rnn"]  # a town, which the sentence does not mention


def test_gpt_opens_on_a_beginning_that_it_continues_with_confidence() -> None:
    scope = models.load("gpt", device="cpu")
    ((prompt,), *_) = readable_examples(scope)
    log_probs = scope.run(prompt).next_token.log_probs
    best = log_probs[-1].exp().max(-1)
    assert best.values > 0.9
    assert scope.tokenizer.decode([int(best.indices)]).strip() == "time"


def test_xlnet_opens_on_a_sentence_of_which_it_guesses_half() -> None:
    scope = models.load("xlnet", device="cpu")
    ((sentence,), *_) = readable_examples(scope)
    (output,) = scope.run(sentence).outputs.values()
    guessed = output.logits.argmax(-1).tolist()
    right = [one for one, label in zip(guessed, output.labels, strict=True) if one == label]
    assert len(right) >= len(output.labels) / 2
    assert len(set(right)) > 2  # not only the full stop


def test_the_token_that_is_classified_opens_on_words_of_opinion() -> None:
    scope = models.load("gpt-sentiment", device="cpu")
    ((sentence, *_), *_) = readable_examples(scope)
    trace = scope.run(sentence)
    site, head = sharpest_head(trace)
    row, tokens = trace.attention[site].weights(head)[-1], trace.streams["text"].tokens
    share = sum(float(row[i]) for i, token in enumerate(tokens) if token in ("▁cold", "▁rude"))
    assert share > 0.5
    assert (
        trace.outputs["classes"].names[int(trace.outputs["classes"].logits.argmax())] == "negative"
    )


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("gpt", {"▁here": "▁lived", "▁for": "▁here", "▁long": "▁a"}),
        ("gpt-sentiment", {"▁the": "▁cold", "<e>": "▁rude"}),
        ("bert-where", {"kitchen": "tom", "cinema": "tom"}),
    ],
)
def test_the_first_head_shown_reads_several_words(name: str, pairs: dict[str, str]) -> None:
    scope = models.load(name, device="cpu")
    trace = scope.run(*readable_examples(scope)[0])
    site, head = sharpest_head(trace)
    query, key = (row.tokens for row in trace.axes(trace.attention[site]))
    strongest = trace.attention[site].weights(head).max(-1)
    read = {
        q: key[k]
        for q, k, weight in zip(query, strongest.indices, strongest.values, strict=True)
        if weight > 0.7
    }
    assert read | pairs == read
