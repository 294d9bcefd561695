"""Characters, and byte-pair encoding over pieces of words (Sennrich et al. 2016): the library's parts as we put them together."""

import string
from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

from models.tokenizers.special_tokens import PLAIN

# A word with its apostrophe (l', don'), one digit, or one other sign; a leading ▁ stands for the space before it.
_PIECES = r"▁?\p{L}[\p{L}\p{M}]*'?|▁?\p{N}|▁?[^▁\p{L}\p{N}]|▁"

LONGEST_TOKEN = 1000  # characters


def by_character(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    """One token a character."""
    backend = tokenizers.Tokenizer(algorithms.WordLevel(vocabulary, unk_token=PLAIN["unknown"]))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return backend


def by_piece(algorithm: algorithms.BPE) -> tokenizers.Tokenizer:
    """Words, digits and signs, cut further by `algorithm`."""
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
    """Learns a vocabulary of merges, the special tokens first."""
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(PLAIN.values()),
        show_progress=False,
        min_frequency=2,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        max_token_length=LONGEST_TOKEN,
    )


def alphabet(texts: Iterable[str], size: int = 150, space: str = "▁") -> list[str]:
    """Printable ASCII, the space sign, and the most frequent other characters; ties by code point, where the library's own
    limit picks by chance and a resumed run could meet another vocabulary."""
    always = [*string.printable.strip(), *space]
    counts = Counter(c for text in texts for c in text if c not in always and c != " ")
    return always + sorted(counts, key=lambda c: (-counts[c], c))[: size - len(always)]
