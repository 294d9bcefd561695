"""Character tokenizers, and byte-pair encoding over words (Sennrich et al. 2016)."""

import string
from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

from models.tokenizers.special_tokens import PLAIN_SPECIAL, UNKNOWN_TOKENS

# a word with its apostrophe (l', don'), one digit, or one other sign, each after a ▁ for a space
_PIECES = r"▁?\p{L}[\p{L}\p{M}]*'?|▁?\p{N}|▁?[^▁\p{L}\p{N}]|▁"

MAX_PIECE = 1000  # characters


def by_character(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    """Return a tokenizer of single characters, after those of one of SPECIAL_SETS."""
    unknown = next(token for token in vocabulary if token in UNKNOWN_TOKENS)
    backend = tokenizers.Tokenizer(algorithms.WordLevel(vocabulary, unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return backend


def by_piece(algorithm: algorithms.BPE) -> tokenizers.Tokenizer:
    """Return a tokenizer that splits into words, digits and signs, then by `algorithm`."""
    backend = tokenizers.Tokenizer(algorithm)
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("’", "'")]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(split=False),
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
        ]
    )
    backend.decoder = decoders.Metaspace()
    return backend


def trainer(vocab_size: int, alphabet: list[str]) -> trainers.BpeTrainer:
    """Return a trainer of BPE merges, with the special tokens first."""
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(PLAIN_SPECIAL.values()),
        show_progress=False,
        min_frequency=2,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        max_token_length=MAX_PIECE,
    )


def alphabet(texts: Iterable[str], size: int = 150, space: str = "▁") -> list[str]:
    """Return printable ASCII, the space sign, and the most frequent other characters.

    Ties go by code point: the library's own limit breaks them at random, so that a resumed run
    could get a different vocabulary.
    """
    always = [*string.printable.strip(), *space]
    counts = Counter(c for text in texts for c in text if c not in always and c != " ")
    return always + sorted(counts, key=lambda c: (-counts[c], c))[: size - len(always)]
