"""Tokens map to the text they came from, whatever is typed; decoding gives the text back."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.tokenizers.base import END, PAD, SPECIALS, START, UNKNOWN, Tokenizer

PAIRS = [
    ("She is reading a book.", "Elle est en train de lire un livre."),
    ("Don't you like the theatre?", "N'aimes-tu pas le théâtre ?"),
    ("I was born in 1987, near Besançon!", "Je suis né en 1987, près de Besançon !"),
    ("He likes reading the book.", "Il aime lire le livre de l'été."),
]
BPE = Tokenizer.bpe((text for pair in PAIRS for text in pair), 211)
LETTERS = Tokenizer.characters("abcdé 0123")

ODD = [
    "👩‍👩‍👧 is a family 👍🏽", "你好,世界", "שלום עולם", "e\u0301te\u0301 o\u0308\u0323",
    "<script>alert('x')</script> & </style>",
    "<pad> <s> </s> <unk>", "a  b\t\tc\n\nd", " leading and trailing ", "’‘“”", "▁under▁", "\u200b", "\ud83d half an emoji",
    "ﬁne ½ Å ²", "\x00\x07", "",
]  # fmt: skip


def plain(text: str) -> str:
    """Normalise a text as the vocabulary does: composed letters, single spaces, straight apostrophes."""
    return " ".join(unicodedata.normalize("NFC", text).replace("’", "'").split())


@pytest.mark.parametrize("tokenizer", [BPE, LETTERS], ids=["bpe", "characters"])
@settings(max_examples=100, deadline=None)
@given(text=st.text() | st.text("abé '’.▁\u0301\u200d👍🏽<>s/pad\t\n ") | st.sampled_from(ODD))
@example("e\u0301")
@example("<s></s>")
def test_offsets_are_spans_of_the_text_in_order_and_leave_nothing_out(tokenizer, text):
    encoding = tokenizer.encode(text)
    assert encoding.text == text
    assert len(encoding.ids) == len(encoding.tokens) == len(encoding.offsets)
    assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(encoding.offsets))
    covered = {i for start, end in encoding.offsets for i in range(start, end)}
    left_out = {c for i, c in enumerate(text) if i not in covered}
    assert all(c.isspace() or c == "▁" for c in left_out)
    assert not {PAD, START, END} & set(encoding.ids)  # special tokens cannot be typed


@pytest.mark.parametrize(
    "text",
    [text for pair in PAIRS for text in pair] + ["théâtre e\u0301te\u0301", "l’été  est\tla"],
)
def test_each_token_spells_its_span(text):
    encoding = BPE.encode(text)
    assert UNKNOWN not in encoding.ids
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        assert token.replace("▁", "") == plain(text[start:end])
    assert "".join(encoding.tokens).replace("▁", " ").strip() == plain(text)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("👍🏽 a", ("👍", "🏽")), ("你好", ("你", "好")), ("שלום", ("ש", "ל", "ו", "ם")), ("a你b你", ("你",)), ("abc", ()),
        ("<script>", ()),
    ],
)  # fmt: skip
def test_unknown_pieces_are_named_once_each(text, pieces):
    assert BPE.encode(text).unknown == pieces


def test_special_tokens_typed_as_text_are_text():
    encoding = BPE.encode("a <pad> b</s>")
    assert BPE.decode(encoding.ids) == "a <pad> b</s>"
    assert not set(encoding.tokens) & set(SPECIALS)
    again = Tokenizer.from_json(BPE.to_json())
    assert again.encode("a <pad> b</s>") == encoding


@settings(max_examples=100, deadline=None)
@given(st.text("".join({c for pair in PAIRS for text in pair for c in text}) + "<>/&", max_size=60))
def test_bpe_round_trip(text):
    assert BPE.decode(BPE.encode(text).ids) == plain(text)


@settings(max_examples=100, deadline=None)
@given(st.text("abcdé 0123", max_size=60))
def test_characters_round_trip_and_one_token_each(text):
    encoding = LETTERS.encode(text)
    assert encoding.tokens == tuple(text)
    assert encoding.offsets == tuple((i, i + 1) for i in range(len(text)))
    assert LETTERS.decode(encoding.ids) == text


def test_merges_stay_inside_words_and_an_apostrophe_ends_one():
    assert "▁l'" in Tokenizer.bpe(["l'été l'eau l'an"] * 3, 120).encode("l'été").tokens
    for text in ("reading the book", "1987", "tu pas."):
        for token in BPE.encode(text).tokens:
            assert "▁" not in token[1:]
    assert [t for t in BPE.encode("1987").tokens if t != "▁"][-4:] in (
        ["1", "9", "8", "7"],
        ["▁1", "9", "8", "7"],
    )


def test_special_rows():
    source, target = LETTERS.encode("ab", after="end"), LETTERS.encode("ab", before="start")
    assert source.tokens == ("a", "b", "</s>")
    assert source.ids[-1] == END
    assert source.offsets == ((0, 1), (1, 2), None)
    assert target.tokens == ("<s>", "a", "b")
    assert target.ids[0] == START
    assert target.offsets == (None, (0, 1), (1, 2))
    assert [LETTERS.token(i) for i in range(4)] == SPECIALS


def test_decode_stops_at_the_end_and_leaves_special_tokens_out():
    a, b, c, *_ = LETTERS.encode("abc").ids
    assert LETTERS.decode([START, a, PAD, UNKNOWN, b, END, c]) == "ab"
    assert LETTERS.decode([]) == LETTERS.decode([END, a]) == ""


@pytest.mark.parametrize("text", [text for pair in PAIRS for text in pair])
def test_the_spelling_of_generated_tokens(text):
    """Tokens that the tokenizer itself would have split differently keep their ids and map to the decoded text."""
    whole = BPE.encode(text).ids
    letters = [
        i for token in BPE.tokens(whole) for i in BPE.encode_many([token.replace("▁", " ")])[0]
    ]
    for ids in (whole, letters):
        spelled = BPE.spell(ids)
        assert spelled.ids == (START, *ids)
        assert spelled.offsets[0] is None
        for token, (start, end) in zip(spelled.tokens[1:], spelled.offsets[1:], strict=True):
            assert token.replace("▁", "") == spelled.text[start:end].strip()


def test_encoding_many_texts_equals_encoding_each():
    texts = [text for pair in PAIRS for text in pair] + ["<s>", "你"]
    assert BPE.encode_many(texts) == [list(BPE.encode(text).ids) for text in texts]


@pytest.mark.parametrize("tokenizer", [BPE, LETTERS], ids=["bpe", "characters"])
def test_json_round_trip(tokenizer):
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.vocab_size == tokenizer.vocab_size
    for text in ODD:
        assert again.encode(text) == tokenizer.encode(text)


@pytest.mark.parametrize("text", ["", "{}", "not json", "[1]"])
def test_a_damaged_tokenizer_is_an_error(text):
    with pytest.raises(ValueError, match="not a tokenizer"):
        Tokenizer.from_json(text)


def test_a_foreign_tokenizer_is_an_error():
    foreign = BPE.to_json().replace("<s>", "[CLS]")
    with pytest.raises(ValueError, match="ids 0–3 must be <pad> <s> </s> <unk>"):
        Tokenizer.from_json(foreign)
