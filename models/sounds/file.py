"""A sound file, checked against limits before it is decoded, because it is untrusted.

It reads WAV files of integers (PCM, 8 to 32 bits) or of 32-bit floats. No decoder of another
library is called: the chunks are parsed here, and numpy reads the samples.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.checkpoint_files import read_bytes
from models.field_file import FieldFile
from models.sounds.waveform import Waveform

MAX_SOUND_BYTES = 8_000_000  # bytes of a file
MAX_SOUND_SECONDS = 30.0  # s
MIN_SOUND_SECONDS = 0.02  # s
SOUND_RATES = 4_000, 192_000  # samples a second, least and most
MAX_CHANNELS = 8
MAX_CHUNKS = 100  # before the samples
SOUND_FORMATS = "WAV of PCM (8, 16, 24 or 32 bits) or of 32-bit floats"
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE  # codes of a format
_NOT_WAV = f"the file is not a WAV file; supported: {SOUND_FORMATS}"
_CUT = "the file is cut off or damaged"


class SoundFile(FieldFile):
    """The value of a sound field: the bytes of a sound file."""

    unnamed = "sound"


def read(path: str | Path) -> SoundFile:
    """Read a sound file of at most MAX_SOUND_BYTES bytes.

    Raises:
        CheckpointError: it cannot be read, is not a regular file or is too large.
    """
    path = Path(path)
    return SoundFile(path.name, read_bytes(path, MAX_SOUND_BYTES))


def decoded_sound(file: SoundFile) -> Waveform:
    """Return the sound, its channels averaged.

    Raises:
        ValueError: it is too large or long, in another format, or damaged; the message says which.
    """
    content = file.content
    if len(content) > MAX_SOUND_BYTES:
        raise ValueError(
            f"the file has {len(content):,} bytes; at most {MAX_SOUND_BYTES:,} are read"
        )
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError(_NOT_WAV)
    sound_format, data = _chunks(memoryview(content))
    n = len(data) // sound_format.width
    if n < MIN_SOUND_SECONDS * sound_format.rate:
        raise ValueError(
            f"the sound has {n:,} samples; at least {MIN_SOUND_SECONDS:g} s are needed"
        )
    if n > MAX_SOUND_SECONDS * sound_format.rate:
        raise ValueError(
            f"the sound is {n / sound_format.rate:.1f} s long; at most {MAX_SOUND_SECONDS:g} s are read"
        )
    samples = sound_format.numbers(data[: n * sound_format.width]).reshape(
        n, sound_format.n_channels
    )
    if not np.isfinite(samples).all():
        raise ValueError("the file holds samples that are not numbers")
    return Waveform(
        samples.mean(1, dtype=np.float64).clip(-1, 1).astype(np.float32), sound_format.rate
    )


@dataclass(frozen=True)
class _Format:
    """The content of the chunk "fmt "."""

    code: int
    n_channels: int
    rate: int
    bits: int

    @property
    def width(self) -> int:
        """Bytes of the samples of all channels at one time."""
        return self.n_channels * self.bits // 8

    def numbers(self, data: memoryview) -> np.ndarray:
        """Return the samples of all channels, from −1 to 1 unless floats exceed that."""
        if self.code == _FLOAT:
            return np.frombuffer(data, "<f4")
        if self.bits == 8:
            return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
        if self.bits == 24:
            parts = np.frombuffer(data, np.uint8).reshape(-1, 3)
            whole = np.zeros((len(parts), 4), np.uint8)
            whole[:, 1:] = parts
            return whole.view("<i4")[:, 0] / np.float32(2**31)
        return np.frombuffer(data, f"<i{self.bits // 8}") / np.float32(2 ** (self.bits - 1))


def _chunks(content: memoryview) -> tuple[_Format, memoryview]:
    """Return the format and the samples, from the first chunk of each.

    The stated size of the samples' chunk may exceed the file, for example after a recorder was
    switched off; the samples then end with the file.
    """
    sound_format, at = None, 12
    for _ in range(MAX_CHUNKS):
        if at + 8 > len(content):
            raise ValueError(_CUT)
        name, (size,) = bytes(content[at : at + 4]), struct.unpack_from("<I", content, at + 4)
        body = content[at + 8 : at + 8 + size]
        if name == b"fmt " and sound_format is None:
            sound_format = _format(bytes(body[:40]))
        elif name == b"data":
            if sound_format is None:
                raise ValueError(_CUT)
            return sound_format, body
        at += 8 + size + size % 2
    raise ValueError(f"the file has more than {MAX_CHUNKS} parts before its samples")


def _format(body: bytes) -> _Format:
    if len(body) < 16:
        raise ValueError(_CUT)
    code, n_channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", body)
    if code == _EXTENSIBLE:
        if len(body) < 40:
            raise ValueError(_CUT)
        (code,) = struct.unpack_from("<H", body, 24)  # the first bytes of its subformat
    if (code, bits) not in [(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32)]:
        raise ValueError(
            f"the WAV file is of format {code}, {bits} bits; supported: {SOUND_FORMATS}"
        )
    if not 1 <= n_channels <= MAX_CHANNELS:
        raise ValueError(f"the sound has {n_channels:,} channels; expected 1 to {MAX_CHANNELS}")
    least, most = SOUND_RATES
    if not least <= rate <= most:
        raise ValueError(f"the sound has {rate:,} samples a second; expected {least:,} to {most:,}")
    if block != n_channels * bits // 8:
        raise ValueError(_CUT)
    return _Format(code, n_channels, rate, bits)
