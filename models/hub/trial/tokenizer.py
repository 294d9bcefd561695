"""Try a tokenizer on odd texts: for each it must return valid tokens, and not too many.

This runs in a process with limits (`models.hub.trial`), which end it if a text takes too long or
too much memory.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tokenizers

from models.errors import CheckpointError
from models.hub.tokenizer import HubTokenizer, frames_of
from models.tokenizers.base import Tokenizer

TRIAL_TEXTS = (
    "", "a", " The 3rd  of Été, 2021: l'œuf\t<s>▁</s> [MASK]", "日本 👍🏽 e\u0301", "\x00\ufffd\U0010ffff", "ab" * 50, "x" * 300,
)  # fmt: skip
RUN = 4096  # characters of a text that repeats one or two letters
GROWTH = 64  # tokens, or characters after normalising, that one character may become
SLOWEST = 0.25  # s of processor time for a run; those of the library take a tenth of it
AROUND = 64  # special tokens that a template may put around texts
MAX_TRIAL_TOKEN = 4096  # characters
_LETTERS = "a 0.\n"  # one of each class that patterns name
_MAX_LETTERS = 8


def try_tokenizer(tokenizer: Tokenizer, library: Any) -> None:
    """Raise CheckpointError if a text gives no row, invalid ids or far too many of them."""
    if library is None:  # ids are typed
        return
    _check_vocabulary(tokenizer, library)
    for text in TRIAL_TEXTS:
        row = tokenizer.encode(text)
        _check_row(text, row.ids, tokenizer.vocab_size)
        tokenizer.spell(row.ids)
        tokenizer.words(text)
    if isinstance(tokenizer, HubTokenizer):
        content = json.loads(tokenizer.backend.to_str())
        _check_charsmap(content["normalizer"])
        _check_affixes(content["model"])
        for text in _runs(content):
            _check_run(tokenizer.backend, text, tokenizer.vocab_size)
    else:
        for text in _runs_of_letters(_LETTERS):
            _check_timed_run(tokenizer, text)


def _check_vocabulary(tokenizer: Tokenizer, library: Any) -> None:
    vocabulary, n = library.get_vocab(), tokenizer.vocab_size
    around = [i for ids in frames_of(tokenizer).values() for i in ids]
    if len(around) > AROUND:
        raise CheckpointError(
            f"its tokenizer puts {len(around):,} special tokens around texts, more than {AROUND}"
        )
    if (largest := max([*vocabulary.values(), *around], default=0)) >= n:
        raise CheckpointError(
            f"its tokenizer has a token {largest:,}, but the model's embedding has {n:,} rows"
        )
    if (longest := max(map(len, vocabulary), default=0)) > MAX_TRIAL_TOKEN:
        raise CheckpointError(
            f"its tokenizer has a token of {longest:,} characters, more than {MAX_TRIAL_TOKEN:,}"
        )


def _check_row(text: str, ids: Sequence[int], vocab_size: int) -> None:
    if any(not 0 <= i < vocab_size for i in ids):
        raise CheckpointError(
            f"its tokenizer turns {text[:20]!r} into token {max(ids):,}, but the model's embedding has {vocab_size:,} rows"
        )
    if len(ids) > GROWTH * (len(text) + 1):
        raise CheckpointError(
            f"its tokenizer turns {len(text):,} characters, {text[:20]!r}, into {len(ids):,} tokens"
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
    _check_text(backend.decode(ids), ids, text)


def _check_timed_run(tokenizer: Tokenizer, text: str) -> None:
    """Check a tokenizer in Python, whose rules can take the square of a text's length, or more."""
    begin = time.process_time()
    ids = tokenizer.encode(text).ids
    _check_row(text, ids, tokenizer.vocab_size)
    _check_text(tokenizer.decode(ids), ids, text)
    if (seconds := time.process_time() - begin) > SLOWEST:
        raise CheckpointError(
            f"its tokenizer takes {seconds:.1f} s for {len(text):,} characters, {text[:20]!r}, more than {SLOWEST} s"
        )


def _check_text(decoded: str, ids: Sequence[int], text: str) -> None:
    if len(decoded) > MAX_TRIAL_TOKEN * (len(ids) + 1):
        raise CheckpointError(
            f"its tokenizer writes {len(decoded):,} characters for the {len(ids):,} tokens of {text[:20]!r}"
        )


def _runs(content: dict[str, Any]) -> Iterator[str]:
    """Yield long texts that repeat what the patterns name, with another letter at the end.

    This is the worst case of a pattern that starts again from each position.
    """
    parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    texts = sorted({text for part in parts for text in _texts(content.get(part))}, key=len)
    letters = list(
        dict.fromkeys([*_LETTERS, *(c for text in texts for c in text if c.isprintable())])
    )
    pieces = [*letters[:_MAX_LETTERS], *(text for text in texts[:_MAX_LETTERS] if len(text) > 1)]
    for piece in pieces:
        yield (piece * RUN)[:RUN]
        yield ((piece * 99)[:99] + " ") * (RUN // 100)  # words as long as WordPiece splits
    yield from _runs_of_letters(letters[:_MAX_LETTERS])


def _runs_of_letters(letters: Iterable[str]) -> Iterator[str]:
    """Yield long texts of one letter that end with another, and of two letters in turn."""
    for one, other in itertools.permutations(letters, 2):
        yield one * (RUN - 1) + other
        yield (one + other) * (RUN // 2)


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings in a part of a tokenizer.json that are a pattern or are matched by one."""
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
    """Raise CheckpointError for a long prefix or suffix, which is added to each piece of a word."""
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if len(affix := model.get(name) or "") > GROWTH:
            raise CheckpointError(
                f"its tokenizer has a {name} of {len(affix):,} characters, more than {GROWTH}"
            )


def _check_charsmap(value: Any) -> None:
    """Raise CheckpointError if SentencePiece's character map has a long replacement.

    The table holds the length of a trie, the trie, and replacements that end with a zero byte.
    """
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
