"""Put a tokenizer to odd texts: it must answer all of them, with tokens of the model, and not with a thousand for one letter.

This runs where it can be ended (`models.hub.trial`): how long a text takes and how much memory is measured by whether it ends.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import tokenizers

from models.errors import CheckpointError
from models.tokenizers.base import Tokenizer

TEXTS = (
    "", "a", " The 3rd  of Été, 2021: l'œuf\t<s>▁</s> [MASK]", "日本 👍🏽 e\u0301", "\x00\ufffd\U0010ffff", "ab" * 50, "x" * 300,
)  # fmt: skip
RUN = 4096  # characters of a text of one or two letters over and over
GROWTH = 64  # tokens, or characters after normalising, that one character may become
AROUND = 64  # special tokens that a template may put around texts
LONGEST_TOKEN = 4096  # characters
_LETTERS = "a 0.\n"  # one of each class that patterns speak of
_MOST_LETTERS = 8


def try_out(tokenizer: Tokenizer, library: Any) -> None:
    """Raises CheckpointError if a text is not answered, or with tokens that the model has not or far too many."""
    if library is None:  # ids are typed
        return
    _check_vocabulary(tokenizer, library)
    for text in TEXTS:
        row = tokenizer.encode(text)
        _check_row(text, row.ids, tokenizer.vocab_size)
        tokenizer.spell(row.ids)
        tokenizer.words(text)
    backend = getattr(tokenizer, "backend", None)
    if isinstance(backend, tokenizers.Tokenizer):
        content = json.loads(backend.to_str())
        _check_charsmap(content["normalizer"])
        _check_affixes(content["model"])
        for text in _runs(content):
            _check_run(backend, text, tokenizer.vocab_size)


def _check_vocabulary(tokenizer: Tokenizer, library: Any) -> None:
    vocabulary, n = library.get_vocab(), tokenizer.vocab_size
    around = [i for ids in tokenizer.frames.values() for i in ids]
    if len(around) > AROUND:
        raise CheckpointError(
            f"its tokenizer puts {len(around):,} special tokens around texts, more than {AROUND}"
        )
    if (largest := max([*vocabulary.values(), *around], default=0)) >= n:
        raise CheckpointError(
            f"its tokenizer has a token {largest:,}, but the model's embedding {n:,} rows"
        )
    if (longest := max(map(len, vocabulary), default=0)) > LONGEST_TOKEN:
        raise CheckpointError(
            f"its tokenizer has a token of {longest:,} characters, more than {LONGEST_TOKEN:,}"
        )


def _check_row(text: str, ids: Sequence[int], vocab_size: int) -> None:
    if any(not 0 <= i < vocab_size for i in ids):
        raise CheckpointError(
            f"its tokenizer makes token {max(ids):,} of {text[:20]!r}, but the model's embedding has {vocab_size:,} rows"
        )
    if len(ids) > GROWTH * (len(text) + 1):
        raise CheckpointError(
            f"its tokenizer makes {len(ids):,} tokens of {len(text):,} characters, {text[:20]!r}"
        )


def _check_run(backend: tokenizers.Tokenizer, text: str, vocab_size: int) -> None:
    if backend.normalizer is not None:
        length = len(backend.normalizer.normalize_str(text))
        if length > GROWTH * len(text):
            raise CheckpointError(
                f"its tokenizer turns {len(text):,} characters, {text[:20]!r}, into {length:,}"
            )
    ids = backend.encode(text, add_special_tokens=False).ids
    _check_row(text, ids, vocab_size)
    if len(backend.decode(ids)) > LONGEST_TOKEN * (len(ids) + 1):
        raise CheckpointError(f"its tokenizer writes far too much for the tokens of {text[:20]!r}")


def _runs(content: dict[str, Any]) -> Iterator[str]:
    """Long texts of what its patterns speak of, over and over and with another letter at the end: the worst that patterns can be
    put to, for those that try again from each place."""
    parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    named = sorted({text for part in parts for text in _texts(content.get(part))}, key=len)
    letters = list(
        dict.fromkeys([*_LETTERS, *(c for text in named for c in text if c.isprintable())])
    )
    pieces = [*letters[:_MOST_LETTERS], *(text for text in named[:_MOST_LETTERS] if len(text) > 1)]
    for piece in pieces:
        yield (piece * RUN)[:RUN]
        yield ((piece * 99)[:99] + " ") * (RUN // 100)  # words as long as WordPiece splits
    for one, other in itertools.permutations(letters[:_MOST_LETTERS], 2):
        yield one * (RUN - 1) + other
        yield (one + other) * (RUN // 2)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a part of a tokenizer.json that are a pattern or stand for one."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key in ("String", "Regex", "content", "prepend") and isinstance(part, str):
                yield part
            elif key != "precompiled_charsmap":
                yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _check_affixes(model: dict[str, Any]) -> None:
    """Raises CheckpointError for a long prefix or suffix, which is put to each piece of a word that is tried."""
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if len(affix := model.get(name) or "") > GROWTH:
            raise CheckpointError(
                f"its tokenizer has a {name} of {len(affix):,} characters, more than {GROWTH}"
            )


def _check_charsmap(value: Any) -> None:
    """Raises CheckpointError if SentencePiece's table of characters holds a long text for one: after the length of a trie and the
    trie, these texts follow, each with a zero byte behind it."""
    if isinstance(value, dict):
        if isinstance(table := value.get("precompiled_charsmap"), str):
            content = base64.b64decode(table)
            texts = content[4 + int.from_bytes(content[:4], "little") :].split(b"\0")
            if (longest := max(map(len, texts))) > GROWTH:
                raise CheckpointError(
                    f"its tokenizer turns one character into {longest:,} bytes, more than {GROWTH}"
                )
        for part in value.values():
            _check_charsmap(part)
    elif isinstance(value, list):
        for part in value:
            _check_charsmap(part)
