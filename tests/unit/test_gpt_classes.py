"""A GPT that classifies texts: against Hugging Face, and what must hold for its rows, outputs and tokens."""

import json

import pytest
import torch
from small import BATCH, D_HEAD, N_CTX, N_HEADS, VOCAB, random_gpt, random_ids
from test_gpt_parity import PLAIN, SIZES, copied
from transformers import GPT2Config, GPT2ForSequenceClassification

from models.architectures.gpt import GPTConfig
from models.checkpoint import load_checkpoint, save_checkpoint
from models.devices import chosen_device
from models.errors import InputError
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.trace.outputs import ClassProbabilities, NextToken

N = 13
THREE = {"head": "classes", "classes": "good, bad,neither"}
LETTERS = Tokenizer.characters(
    "abcdefghijklmnopqrstuvwxyz "
).for_classes()  # 33 tokens, the last two to classify by


@pytest.fixture(scope="module")
def scope(tmp_path_factory) -> Scope:
    folder = tmp_path_factory.mktemp("gpt") / "judge"
    model = random_gpt(vocab_size=LETTERS.vocab_size, n_texts=2, **THREE)
    save_checkpoint(folder, model, LETTERS, {"step": 3, "task": "classify"})
    return Scope(load_checkpoint(folder), chosen_device("cpu"))


@torch.no_grad()
def test_classes_are_hugging_faces_for_rows_of_several_lengths():
    """Hugging Face's classifier reads the last token that is not padding."""
    model, rows = (
        random_gpt(activation="gelu tanh", d_ff=4 * N_HEADS * D_HEAD, **THREE),
        random_ids(BATCH, N),
    )
    rows[1, 7:] = 0
    theirs = GPT2ForSequenceClassification(
        GPT2Config(**SIZES, **PLAIN, num_labels=3, pad_token_id=0)
    ).eval()
    copied(model, theirs.transformer.wte, theirs.transformer.wpe, theirs.transformer.h)
    theirs.transformer.ln_f.load_state_dict(model.decoder.last_norm.state_dict())
    theirs.score.weight.copy_(model.heads["classes"].weight)
    torch.testing.assert_close(model(rows)["classes"], theirs(rows).logits)


@torch.no_grad()
def test_the_next_token_is_that_of_the_model_without_the_head():
    model, plain = random_gpt(**THREE), random_gpt()
    plain.load_state_dict(
        {name: value for name, value in model.state_dict().items() if not name.startswith("heads.")}
    )
    rows = random_ids(BATCH, N)
    made = model(rows)
    assert list(made) == ["classes", "next token"]
    assert torch.equal(made["next token"], plain(rows))


@torch.no_grad()
def test_dropout_falls_on_what_the_classes_are_read_from():
    model = random_gpt(dropout=0.5, **THREE)
    rows = random_ids(1, N)
    for module in model.decoder.modules():
        module.training = False
    model.training = model.dropout.training = True
    model.embedding.weight.zero_()
    model.positions.table.zero_()  # nothing else that dropout could change
    drawn = [model(rows)["classes"] for _ in range(7)]
    assert any(not torch.equal(one, drawn[0]) for one in drawn)


def test_a_row_is_closed_by_the_token_that_answers(scope):
    row = scope.encode("a cat")["text"]
    assert (row.tokens[0], row.tokens[-1], row.ids[-1]) == ("<s>", "<e>", 32)
    assert row.offsets[-1] is None
    both = scope.encode("a cat", "sat")["text"]
    assert both.tokens == ("<s>", *"a cat", "<$>", *"sat", "<e>")
    assert both.text == "a cat sat"
    assert [both.text[o[0] : o[1]] for o in both.offsets if o] == list("a catsat")
    assert scope.encode("a cat", "  ") == scope.encode("a cat")
    assert scope.encode(both) == {"text": both}  # read again, it is closed once


def test_its_only_field_is_one_text():
    fields = [
        [(f.name, f.before, f.optional) for f in random_gpt(n_texts=n, **THREE).fields]
        for n in (1, 2)
    ]
    assert fields == [
        [("text", "start", False)],
        [("text", "start", False), ("second_text", "delimiter", True)],
    ]


@pytest.mark.parametrize(
    ("texts", "field"), [(("a" * 36,), "text"), (("a" * 17, "b" * 18), "second_text")]
)
def test_the_closing_token_needs_room_too(scope, texts, field):
    assert len(scope.encode("a" * 35)["text"].ids) == N_CTX
    with pytest.raises(InputError, match="38 tokens"):
        scope.encode(*texts)


def test_outputs_and_answer(scope):
    trace = scope.run("a cat sat")
    classes, following = trace.outputs["classes"], trace.outputs["next token"]
    assert list(trace.outputs) == ["classes", "next token"]
    assert isinstance(classes, ClassProbabilities)
    assert isinstance(following, NextToken)
    assert (classes.position, classes.names) == (10, ("good", "bad", "neither"))
    h = scope.model.decoder.last_norm(trace.activations["decoder.layers.1.resid_post"].value[0, -1])
    torch.testing.assert_close(
        classes.probabilities, torch.softmax(scope.model.heads["classes"].weight @ h, 0)
    )
    assert trace.output == classes.names[int(classes.probabilities.argmax())]
    assert following.labels == trace.streams["text"].ids[1:]
    assert not scope.model.can_write
    with pytest.raises(ValueError, match="does not generate text"):
        scope.write("a cat")


def test_texts_in_a_batch_are_classified_as_alone(scope):
    alone, (first, second) = (
        scope.run("a cat"),
        scope.run_each([("a cat",), ("a longer text", "and another")]),
    )
    torch.testing.assert_close(first.outputs["classes"].logits, alone.outputs["classes"].logits)
    assert second.streams["text"].tokens.count("<$>") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "classes"}, "^classes must be two names or more"),
        ({"head": "classes", "classes": "one,"}, "^classes must be two names"),
        ({"classes": "a,b"}, "none for other heads, not 'a,b'$"), ({"head": "span"}, "^head of a GPT must be pretraining or classes"),
        ({"head": "words"}, "^head must be one of"),
    ],
)  # fmt: skip
def test_an_impossible_head_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        GPTConfig(VOCAB, **changes)


def test_new_tokens_are_appended_to_a_vocabulary():
    texts = ["a cat sat on a mat", "<e> or $ is text"] * 3
    for plain in (
        Tokenizer.byte_level(texts, 300),
        Tokenizer.characters("abc"),
        Tokenizer.bpe(texts, 200),
    ):
        ready = plain.for_classes()
        assert ready.vocab_size == plain.vocab_size + 2
        assert ready.tokens(range(plain.vocab_size)) == plain.tokens(range(plain.vocab_size))
        assert (ready.special("delimiter"), ready.special("extract")) == (
            (plain.vocab_size, "<$>"),
            (plain.vocab_size + 1, "<e>"),
        )
        assert plain.special("extract") is None
        assert ready.for_classes() is ready
        again = Tokenizer.from_json(ready.to_json())
        assert again.special_ids == ready.special_ids
        for text in ("a cat", "<e> and <$> typed"):
            assert again.encode(text).ids == plain.encode(text).ids
            assert again.decode(
                [*plain.encode(text).ids, ready.special_ids["extract"]]
            ) == plain.decode(plain.encode(text).ids)
    of_bert = Tokenizer.wordpiece(texts, 100)
    assert of_bert.for_classes() is of_bert


def test_a_vocabulary_that_has_the_token_already():
    ready = json.loads(Tokenizer.characters("abc").for_classes().to_json())
    ready["model"]["vocab"] |= {"x": 9}
    with pytest.raises(ValueError, match=r"already has a token <\$>"):
        Tokenizer.from_json(json.dumps(ready)).for_classes()
