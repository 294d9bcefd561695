"""WordPiece (Schuster & Nakajima 2012; Wu et al. 2016), as BERT has it: words in small letters without accents, cut into the
longest pieces of the vocabulary; a piece that goes on with a word begins with ##."""

import string
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

from models.tokenizers.pieces import alphabet
from models.tokenizers.special_tokens import BERT

GOES_ON = "##"  # before a piece that goes on with a word


def by_wordpiece(vocabulary: dict[str, int] | None = None) -> tokenizers.Tokenizer:
    """A tokenizer of this vocabulary, or one to be trained."""
    backend = tokenizers.Tokenizer(
        algorithms.WordPiece(
            vocabulary or {}, unk_token=BERT["unknown"], continuing_subword_prefix=GOES_ON
        )
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Replace("’", "'"), normalizers.BertNormalizer()]
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix=GOES_ON)
    return backend


def learned(texts: Iterable[str], vocab_size: int) -> tokenizers.Tokenizer:
    """A vocabulary learned on `texts`, the special tokens first. It holds every known character, alone and, where one was
    seen inside a word, going on with a word; these are named beforehand, because the library's own order is by chance, and ties
    between merges are broken by it."""
    backend, texts = by_wordpiece(), list(texts)
    plain = [backend.normalizer.normalize_str(text) for text in texts]
    known = [c for c in alphabet(plain, space="") if c not in string.ascii_uppercase]
    inside = {
        c
        for text in plain
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)
        for c in word[1:]
    }
    named = [*BERT.values(), *known, *(GOES_ON + c for c in known if c in inside)]
    backend.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=named, show_progress=False, min_frequency=2, limit_alphabet=len(known),
        initial_alphabet=known, continuing_subword_prefix=GOES_ON,
    ))  # fmt: skip
    return backend
