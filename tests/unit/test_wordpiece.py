"""WordPiece: lower case, pieces, special tokens by name, and those that can be typed."""

import json
from pathlib import Path

import pytest
import torch
from drawn import letters
from small import random_bert, words_of

from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import concatenate, hiding, positions_to_hide, with_masks
from models.tokenizers.special_tokens import BERT_SPECIAL, PLAIN_SPECIAL, special_ids
from viz_app import words
from viz_app.drawing.labels import labels
from viz_app.session import respond
from viz_app.session.live import LiveSession

TEXTS = ["The café's dogs run.", "A dog runs, the doors shut."]
PIECES = Tokenizer.wordpiece(TEXTS * 3, 200)


def test_special_tokens_have_names_and_other_vocabularies_others():
    assert PIECES.special_ids == {"pad": 0, "unknown": 1, "cls": 2, "sep": 3, "mask": 4}
    assert (PIECES.pad_id, PIECES.unknown_id, PIECES.cls_id, PIECES.sep_id, PIECES.mask_id) == (
        0,
        1,
        2,
        3,
        4,
    )
    assert (PIECES.start_id, PIECES.end_id) == (None, None)
    plain = Tokenizer.characters("ab")
    assert (plain.pad_id, plain.start_id, plain.end_id, plain.unknown_id) == (0, 1, 2, 3)
    assert (plain.cls_id, plain.sep_id, plain.mask_id) == (None, None, None)
    assert [plain.is_special(i) for i in range(6)] == [True] * 4 + [False] * 2
    assert (PIECES.special("sep"), PIECES.special("start"), plain.special("start")) == (
        (3, "[SEP]"),
        None,
        (1, "<s>"),
    )
    assert special_ids([*BERT_SPECIAL.values(), "x"]) == PIECES.special_ids
    with pytest.raises(
        ValueError,
        match=r"its first tokens must be <pad> <s> </s> <unk> or \[PAD\] \[UNK\] \[CLS\]",
    ):
        special_ids(["<pad>", "<s>", "x"])


def test_words_are_lowercased_without_accents_and_mapped_to_the_text():
    text = "The CAFÉ’s dogs, run 漢."
    row = PIECES.encode(text, before="cls", after="sep")
    assert row.tokens == (
        "[CLS]",
        "the",
        "cafe",
        "'",
        "s",
        "dogs",
        ",",
        "run",
        "[UNK]",
        ".",
        "[SEP]",
    )
    assert [text[slice(*place)] for place in row.offsets if place] == [
        "The",
        "CAFÉ",
        "’",
        "s",
        "dogs",
        ",",
        "run",
        "漢",
        ".",
    ]
    assert (row.offsets[0], row.offsets[-1], row.unknown) == (None, None, ("漢",))
    assert PIECES.encode("Dogs", before="start").tokens == (
        "dogs",
    )  # it has no token with that name


def test_an_unseen_word_is_split_into_pieces():
    row = PIECES.encode("doorss")
    assert len(row.tokens) > 1
    assert row.tokens[1].startswith("##")
    assert "".join(token.removeprefix("##") for token in row.tokens) == "doorss"
    assert PIECES.decode(row.ids) == "doorss"
    assert PIECES.decode([2, *PIECES.encode("a dog").ids, 3, 4]) == "a dog"


def test_only_the_mask_token_can_be_typed():
    row = PIECES.encode("The[MASK] [CLS]run[mask]")
    assert row.tokens[:2] == ("the", "[MASK]")
    assert row.ids.count(PIECES.mask_id) == 1
    assert PIECES.cls_id not in row.ids
    assert (row.offsets[1], row.text) == ((3, 9), "The[MASK] [CLS]run[mask]")
    assert all(row.text[slice(*place)].strip() == row.text[slice(*place)] for place in row.offsets)
    assert [label.as_json() for label in labels(row)][1] == ["[MASK]", "special token [MASK]", True]
    framed = PIECES.encode("run", before="cls", after="sep")
    assert [label.special for label in labels(framed)] == [True, False, True]


def test_only_a_learned_vocabulary_is_read_back():
    again = Tokenizer.from_json(PIECES.to_json())
    assert again.to_json() == PIECES.to_json()
    assert again.encode(TEXTS[0]) == PIECES.encode(TEXTS[0])
    content = json.loads(PIECES.to_json())
    vocabulary = content["model"]["vocab"]
    vocabulary["[SEP]"], vocabulary["[MASK]"] = vocabulary["[MASK]"], vocabulary["[SEP]"]
    with pytest.raises(
        ValueError, match=r"ids 0–4 must be \[PAD\] \[UNK\] \[CLS\] \[SEP\] \[MASK\]"
    ):
        Tokenizer.from_json(json.dumps(content))
    content = json.loads(PIECES.to_json())
    content["normalizer"] = None
    with pytest.raises(ValueError, match="its normalizer is not what this program writes"):
        Tokenizer.from_json(json.dumps(content))


def test_learning_is_reproducible_and_ignores_case():
    assert Tokenizer.wordpiece(TEXTS * 3, 200).to_json() == PIECES.to_json()
    tokens = [PIECES.token(i) for i in range(5, PIECES.vocab_size)]
    assert all(token == token.lower() for token in tokens)
    assert not set(PLAIN_SPECIAL.values()) & set(tokens)


def test_rows_are_joined_with_their_segments_and_hidden_by_position():
    first, second = (PIECES.encode(text) for text in ("a dog", "dogs run"))
    row = concatenate(first, second, " ")
    assert (row.text, row.tokens) == ("a dog dogs run", ("a", "dog", "dogs", "run"))
    assert [row.text[slice(*place)] for place in row.offsets] == ["a", "dog", "dogs", "run"]
    masked = hiding(row, [3, 0, 3], (4, "[MASK]"))
    assert masked.hidden == ((0, row.ids[0]), (3, row.ids[3]))
    assert masked.ids == (4, *row.ids[1:3], 4)
    assert (masked.offsets, masked.text) == (row.offsets, row.text)
    with pytest.raises(ValueError, match=r"this model's vocabulary has no \[MASK\]"):
        Tokenizer.characters("ab").hiding(row, [0])


def test_a_typed_mask_is_plain_text_for_a_model_without_one_and_is_reported():
    warning = "[MASK] is plain text here: this model has no such token"
    opened, session = letters("gpt", n_ctx=17), LiveSession()
    assert opened.warnings("a[MASK]b", "c") == {"text": warning}
    assert opened.warnings("ab", "[MASK]") == {"continuation": warning}
    assert opened.warnings("mask", "[CLS]") == {}
    session.scope = opened
    trace, notes = respond.run_texts(session, "a[MASK]b", "")
    assert trace is not None
    assert notes["text"]["rows"] == [
        ["line", f"9 of at most 17 tokens. Not in the vocabulary: [ M A S K ] {warning}."]
    ]
    tokenizer = words_of("Mary went.")
    model = random_bert(vocab_size=tokenizer.vocab_size)
    session.scope = Scope(Checkpoint(Path("random"), model, tokenizer, {}), torch.device("cpu"))
    _, notes = respond.run_texts(session, "Mary [MASK].", "")
    assert notes["text"]["rows"] == [["line", "5 of at most 37 tokens."]]
    assert notes["second_text"]["rows"] == [["line", words.ONE_TEXT]]


def test_only_a_texts_own_tokens_can_be_hidden() -> None:
    tokenizer = words_of("Mary went to the garden.")
    first, second = (
        tokenizer.encode("Mary [MASK] to", before="cls", after="sep"),
        tokenizer.encode("the garden.", after="sep"),
    )
    row = concatenate(first, second, " ")
    assert row.tokens == ("[CLS]", "mary", "[MASK]", "to", "[SEP]", "the", "garden", ".", "[SEP]")
    assert positions_to_hide(row, tokenizer.mask_id) == (1, 3, 5, 6, 7)
    hidden = tokenizer.hiding(row, [6, 1])
    assert positions_to_hide(hidden, tokenizer.mask_id) == (
        1,
        3,
        5,
        6,
        7,
    )  # what is hidden can be shown again
    assert with_masks(hidden, "[MASK]") == "[MASK] [MASK] to the [MASK]."
    assert with_masks(row, "#") == row.text
    assert positions_to_hide(Tokenizer.characters("ab").encode("ab"), None) == ()
