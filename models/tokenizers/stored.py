"""Stored tokenizers: rebuild ours from the vocabulary and merges of a tokenizer.json."""

from typing import Any

import tokenizers
from tokenizers import AddedToken
from tokenizers import models as algorithms

from models.tokenizers import byte_level
from models.tokenizers.pieces import MAX_PIECE, by_character, by_piece
from models.tokenizers.special_tokens import BERT_SPECIAL, PLAIN_SPECIAL, special_ids
from models.tokenizers.wordpiece import by_wordpiece

_NOT_OURS = "not a tokenizer of this project"


def with_vocabulary_of(content: Any) -> tokenizers.Tokenizer:
    """Return a tokenizer of ours with the vocabulary and merges of a tokenizer.json.

    Raises:
        ValueError: They are malformed.
    """
    model = content.get("model") if isinstance(content, dict) else None
    model = model if isinstance(model, dict) else {}
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or sorted(map(repr, vocabulary.values())) != sorted(
        map(repr, range(len(vocabulary)))
    ):
        raise ValueError(f"{_NOT_OURS}: its tokens must have the ids 0, 1, 2 …")
    tokens = _by_id(vocabulary)
    masks = model.get("type") == "WordPiece" or (
        model.get("type") == "WordLevel" and tokens[:1] == [BERT_SPECIAL["pad"]]
    )
    specials = BERT_SPECIAL if masks else PLAIN_SPECIAL
    if tokens[: len(specials)] != list(specials.values()):
        raise ValueError(
            f"{_NOT_OURS}: ids 0–{len(specials) - 1} must be {' '.join(specials.values())}"
        )
    if not all(0 < len(token) <= MAX_PIECE for token in vocabulary):
        raise ValueError(f"{_NOT_OURS}: a token must have 1 to {MAX_PIECE} characters")
    if model.get("type") == "WordLevel":
        return by_character(vocabulary)
    backend = (
        by_wordpiece(vocabulary)
        if model.get("type") == "WordPiece"
        else _by_merges(content, vocabulary)
    )
    special = [tokens[i] for i in special_ids(tokens).values()]
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special]
    )
    return backend


def _by_merges(content: dict[str, Any], vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    """Return a byte-pair encoding, over bytes or over words."""
    merges = content["model"].get("merges")
    if not isinstance(merges, list) or not all(_is_merge(merge, vocabulary) for merge in merges):
        raise ValueError(f"{_NOT_OURS}: a merge must join two tokens into a third")
    merges = [tuple(merge) for merge in merges]
    if not _is_byte_level(content):
        return by_piece(algorithms.BPE(vocabulary, merges, unk_token=PLAIN_SPECIAL["unknown"]))
    spelled = set("".join(vocabulary.keys() - set(PLAIN_SPECIAL.values())))
    if not spelled <= byte_level.BYTE_ALPHABET.keys() <= vocabulary.keys():
        raise ValueError(
            f"{_NOT_OURS}: a byte-level vocabulary must hold every byte, and only bytes"
        )
    return byte_level.by_bytes(algorithms.BPE(vocabulary, merges))


def ids_of_specials(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """Return the ids of a tokenizer's special tokens, by name."""
    return special_ids(_by_id(backend.get_vocab()))


def _by_id(vocabulary: dict[str, int]) -> list[str]:
    return sorted(vocabulary, key=lambda token: vocabulary[token])


def _is_byte_level(content: dict[str, Any]) -> bool:
    splits = content.get("pre_tokenizer")
    return isinstance(splits, dict) and splits.get("type") == "ByteLevel"


def _is_merge(merge: Any, vocabulary: dict[str, int]) -> bool:
    whole = (
        isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge)
    )
    return whole and {*merge, "".join(merge)} <= vocabulary.keys()
