"""Byte-pair encoding over bytes: every text comes back unchanged, and its tokens are legible and located in it."""

from itertools import pairwise

import pytest
from checked import unchecked
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.tokenizers import byte_level
from models.tokenizers.base import END, PAD, SPECIALS, START, UNKNOWN, Tokenizer

TEXTS = [
    "The cat sat on the mat.\n\nThe dog's bone, l'été: 日.日.",
    "The other cat  sat\ton the old mat, été!",
] * 3
BYTES = Tokenizer.byte_level(TEXTS, 290)
ODD = st.text() | st.text("The cat é日👍🏽\u0301\u200d.,'<>s/\t\n\r\x00 ", max_size=40)


@settings(max_examples=80, deadline=None)
@given(text=ODD)
@example(" ")
@example("\n\n The  cat\n")
@example("<s></s><pad>")
@example("▁under▁")
def test_every_text_comes_back_unchanged(text):
    encoding = BYTES.encode(text)
    assert BYTES.decode(encoding.ids) == text == encoding.text
    assert not {PAD, START, END, UNKNOWN} & set(encoding.ids)
    assert BYTES.encode_many([text]) == [list(encoding.ids)]
    with unchecked():
        assert Tokenizer.from_json(BYTES.to_json()).encode(text) == encoding


@settings(max_examples=80, deadline=None)
@given(text=ODD)
def test_offsets_are_spans_of_the_text_in_order_and_leave_nothing_but_spaces_out(text):
    encoding = BYTES.encode(text)
    assert all(0 <= start < end <= len(text) for start, end in encoding.offsets)
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(encoding.offsets))
    covered = {i for start, end in encoding.offsets for i in range(start, end)}
    assert all(c.isspace() for i, c in enumerate(text) if i not in covered)
    spelled = BYTES.spell(encoding.ids)
    assert spelled.ids == (START, *encoding.ids)
    assert spelled.text == text
    assert spelled.offsets == (None, *encoding.offsets)


@pytest.mark.parametrize(
    ("text", "tokens", "offsets"),
    [
        ("The cat", ("The", "▁cat"), ((0, 3), (4, 7))),
        ("The été", ("The", "▁été"), ((0, 3), (4, 7))),
        (" é\n", ("▁", "é", "\n"), ((0, 1), (1, 2), (2, 3))),
        ("é", ("é",), ((0, 1),)),
        ("x日", ("x", "日"), ((0, 1), (1, 2))),
        ("x夏", ("x", "<0xE5>", "<0xA4>", "<0x8F>"), ((0, 1), (1, 2), (1, 2), (1, 2))),
        ("▁", ("<0xE2>", "<0x96>", "<0x81>"), ((0, 1), (0, 1), (0, 1))),
    ],
)  # fmt: skip
def test_tokens_are_read_as_text_and_found_in_it(text, tokens, offsets):
    encoding = BYTES.encode(text)
    assert encoding.tokens == tokens
    assert encoding.offsets == offsets
    assert BYTES.tokens(encoding.ids) == tokens
    assert encoding.unknown == ()


def test_each_character_of_the_alphabet_is_the_librarys_own_for_its_byte():
    """Checked with the library's own encoder, one byte of UTF-8 at a time."""
    from tokenizers import pre_tokenizers

    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    assert byte_level.BYTE_ALPHABET.keys() == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_level.BYTE_ALPHABET.values()) == list(range(256))
    for text in (*map(chr, range(128)), "éÿ", "日本", "👍", "\u0301߿"):
        ((spelled, _),) = split.pre_tokenize_str(text)
        assert byte_level.bytes_of(spelled) == text.encode()
        assert byte_level.text_of([spelled]) == text


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"caf\xc3\xa9", "café"),
        (b" a", "▁a"),
        (b"\xa9", "<0xA9>"),
        (b"caf\xc3", "caf<0xC3>"),
        (b"\xa9a\xc3", "<0xA9>a<0xC3>"),
        (b" \xe2\x96", "▁<0xE2><0x96>"),
        (b"\n", "\n"),
        (b"\xff \xfe", "<0xFF>▁<0xFE>"),
    ],
)
def test_bytes_that_are_no_character_are_shown_as_numbers(content, shown):
    characters = {byte: character for character, byte in byte_level.BYTE_ALPHABET.items()}
    assert byte_level.readable_bytes("".join(characters[byte] for byte in content)) == shown


def test_generated_tokens_need_not_be_valid_utf_8():
    ids = BYTES.encode("x夏y").ids
    cut = [ids[0], ids[1], ids[2], ids[4]]  # the third byte of 夏 is missing
    spelled = BYTES.spell(cut)
    assert spelled.text == BYTES.decode(cut) == "x�y"
    assert spelled.offsets[:4] == (None, (0, 1), (1, 2), (1, 2))
    assert BYTES.decode([ids[0], PAD, UNKNOWN, ids[4], END, ids[0]]) == "xy"
    assert BYTES.spell([ids[0], UNKNOWN, ids[4]]).offsets == (None, (0, 1), (1, 1), (1, 2))
    assert BYTES.spell([ids[0], END, ids[4]]).offsets == (None, (0, 1), (1, 1), (1, 1))


def test_special_rows_and_the_first_ids():
    encoding = BYTES.encode("The", before="start", after="end")
    assert encoding.tokens == ("<s>", "The", "</s>")
    assert [BYTES.token(i) for i in range(4)] == SPECIALS
    assert BYTES.vocab_size == 290


def test_the_vocabulary_is_the_same_each_time_it_is_learned():
    assert Tokenizer.byte_level(TEXTS, 290).to_json() == BYTES.to_json()
