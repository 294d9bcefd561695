"""Byte-pair encoding over bytes (Radford et al. 2019, §2.2): every text can be written, and comes back as it was.

The library spells each byte as a printable character of its own (a space as Ġ); people read text, so tokens are turned back.
"""

import codecs
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, pre_tokenizers
from tokenizers import models as algorithms


def _alphabet() -> dict[str, int]:
    """The library's character for each byte: the byte's own where it is printable in Latin-1, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + i): byte for i, byte in enumerate(others)
    }


ALPHABET = _alphabet()  # character → byte


def by_bytes(algorithm: algorithms.BPE) -> tokenizers.Tokenizer:
    """A tokenizer that cuts a text into words with the space before them, as GPT-2's, and their bytes by `algorithm`."""
    backend = tokenizers.Tokenizer(algorithm)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def is_byte_level(backend: tokenizers.Tokenizer) -> bool:
    return isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel)


def bytes_of(token: str) -> bytes:
    """The bytes that a token spells. Raises KeyError for a character that spells none."""
    return bytes(ALPHABET[character] for character in token)


def text_of(tokens: Iterable[str]) -> str:
    """The text of these tokens; what is no UTF-8 becomes U+FFFD."""
    return b"".join(map(bytes_of, tokens)).decode("utf-8", "replace")


def readable(token: str) -> str:
    """A token as its text, ▁ for each space; bytes that are no whole characters stand as <0xE2>."""
    shown, left = "", bytes_of(token)
    while left:
        try:
            return shown + left.decode("utf-8").replace(" ", "▁")
        except UnicodeDecodeError as error:
            shown += left[: error.start].decode("utf-8").replace(" ", "▁")
            shown += "".join(f"<0x{byte:02X}>" for byte in left[error.start : error.end])
            left = left[error.end :]
    return shown


def spans(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Where each token stands in `text_of` them all; tokens that share a character each have the whole of it."""
    decoder, done, found = codecs.getincrementaldecoder("utf-8")("replace"), 0, []
    for token in tokens:
        start = done
        done += len(decoder.decode(bytes_of(token)))
        found.append((start, done + bool(decoder.getstate()[0])))
    return found
