"""WordPiece (Schuster & Nakajima 2012; Wu et al. 2016) as in BERT.

Words are lower-cased, stripped of accents and cut into the longest pieces of the vocabulary; a
piece inside a word begins with ##.
"""

import string
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

from models.tokenizers.pieces import alphabet
from models.tokenizers.special_tokens import BERT_SPECIAL

CONTINUATION = "##"  # before a piece that continues a word


def by_wordpiece(vocabulary: dict[str, int] | None = None) -> tokenizers.Tokenizer:
    """Return a tokenizer with this vocabulary, or an untrained one."""
    backend = tokenizers.Tokenizer(
        algorithms.WordPiece(
            vocabulary or {},
            unk_token=BERT_SPECIAL["unknown"],
            continuing_subword_prefix=CONTINUATION,
        )
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Replace("’", "'"), normalizers.BertNormalizer()]
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix=CONTINUATION)
    return backend


def trained_backend(texts: Iterable[str], vocab_size: int) -> tokenizers.Tokenizer:
    """Train a vocabulary on `texts`, with the special tokens first.

    It holds every known character, alone and, if seen inside a word, as a continuation. These are
    listed in advance: the library's own order is random, and it decides ties between merges.
    """
    backend, texts = by_wordpiece(), list(texts)
    plain = [backend.normalizer.normalize_str(text) for text in texts]
    letters = [c for c in alphabet(plain, space="") if c not in string.ascii_uppercase]
    inside = {
        c
        for text in plain
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)
        for c in word[1:]
    }
    special = [
        *BERT_SPECIAL.values(),
        *letters,
        *(CONTINUATION + c for c in letters if c in inside),
    ]
    backend.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=special, show_progress=False, min_frequency=2, limit_alphabet=len(letters),
        initial_alphabet=letters, continuing_subword_prefix=CONTINUATION,
    ))  # fmt: skip
    return backend
