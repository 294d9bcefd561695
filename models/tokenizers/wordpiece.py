"""WordPiece (Schuster & Nakajima 2012; Wu et al. 2016), as BERT has it: words in small letters without accents, cut into the
longest pieces of the vocabulary; a piece that goes on with a word begins with ##."""

import string
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

from models.tokenizers.pieces import alphabet
from models.tokenizers.special_tokens import BERT

GOES_ON = "##"      # before a piece that goes on with a word


def by_wordpiece(vocabulary: dict[str, int] | None = None) -> tokenizers.Tokenizer:
    """A tokenizer of this vocabulary, or one to be trained."""
    backend = tokenizers.Tokenizer(
        algorithms.WordPiece(vocabulary or {}, unk_token=BERT["unknown"], continuing_subword_prefix=GOES_ON)
    )
    backend.normalizer = normalizers.Sequence([normalizers.Replace("’", "'"), normalizers.BertNormalizer()])
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix=GOES_ON)
    return backend


def learned(texts: Iterable[str], vocab_size: int) -> tokenizers.Tokenizer:
    """A vocabulary learned on `texts`, the special tokens first."""
    backend, texts = by_wordpiece(), list(texts)
    known = alphabet((backend.normalizer.normalize_str(text) for text in texts), space="")
    known = [c for c in known if c not in string.ascii_uppercase]
    backend.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=list(BERT.values()), show_progress=False, min_frequency=2,
        initial_alphabet=known, limit_alphabet=len(known), continuing_subword_prefix=GOES_ON,
    ))  # fmt: skip
    return backend
