"""Byte-level byte-pair encoding (Radford et al. 2019, §2.2): lossless for every text.

The library spells each byte as one printable character (a space as Ġ); `readable_bytes` turns
tokens back into text.
"""

import codecs
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, pre_tokenizers
from tokenizers import models as algorithms


def _alphabet() -> dict[str, int]:
    """Return the library's character for each byte.

    It is the byte's own if printable in Latin-1, else one from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + i): byte for i, byte in enumerate(others)
    }


BYTE_ALPHABET = _alphabet()  # character → byte


def by_bytes(algorithm: algorithms.BPE) -> tokenizers.Tokenizer:
    """Return a tokenizer that splits into words as GPT-2's does, then into bytes."""
    backend = tokenizers.Tokenizer(algorithm)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def is_byte_level(backend: tokenizers.Tokenizer) -> bool:
    return isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel)


def bytes_of(token: str) -> bytes:
    """Return the bytes that a token spells.

    Raises:
        KeyError: A character does not stand for a byte.
    """
    return bytes(BYTE_ALPHABET[character] for character in token)


def text_of(tokens: Iterable[str]) -> str:
    """Return the text of these tokens; invalid UTF-8 becomes U+FFFD."""
    return b"".join(map(bytes_of, tokens)).decode("utf-8", "replace")


def readable_bytes(token: str) -> str:
    """Return a token as text, with ▁ for a space and <0xE2> for bytes of split characters."""
    text, rest = "", bytes_of(token)
    while rest:
        try:
            return text + rest.decode("utf-8").replace(" ", "▁")
        except UnicodeDecodeError as error:
            text += rest[: error.start].decode("utf-8").replace(" ", "▁")
            text += "".join(f"<0x{byte:02X}>" for byte in rest[error.start : error.end])
            rest = rest[error.end :]
    return text


def token_spans(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Return the span of each token in their `text_of`; tokens may share a character."""
    decoder, done = codecs.getincrementaldecoder("utf-8")("replace"), 0
    result: list[tuple[int, int]] = []
    for token in tokens:
        start = done
        done += len(decoder.decode(bytes_of(token)))
        result.append((start, done + bool(decoder.getstate()[0])))
    return result
