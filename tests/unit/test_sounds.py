"""Sound files: their samples as read, and attacks on the reader."""

import os
import struct
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from models.errors import CheckpointError
from models.sounds import (
    SOUND_EXAMPLES,
    FrameIds,
    SoundFile,
    Waveform,
    decoded_sound,
    example_sound,
    read,
)
from models.sounds.file import MAX_CHANNELS, MAX_CHUNKS, MAX_SOUND_BYTES, MAX_SOUND_SECONDS

RATE = 8000


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    size = len(body) if size is None else size
    return name + struct.pack("<I", size) + body + b"\0" * (len(body) % 2)


def form(
    code: int = 1, channels: int = 1, rate: int = RATE, bits: int = 16, block: int | None = None
) -> bytes:
    block = channels * bits // 8 if block is None else block
    rest = struct.pack("<IHH", rate * block % 2**32, block % 2**16, bits)
    return chunk(b"fmt ", struct.pack("<HHI", code, channels, rate) + rest)


def wav(*chunks: bytes) -> SoundFile:
    body = b"WAVE" + b"".join(chunks)
    return SoundFile("a sound", b"RIFF" + struct.pack("<I", len(body)) + body)


def samples(n: int = 1001) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, n)


def stored(values: np.ndarray, code: int, bits: int) -> bytes:
    """Encode the same samples in each format, by a different route than the reader's."""
    if code == 3:
        return values.astype("<f4").tobytes()
    if bits == 8:
        return bytes(round(v * 127) + 128 for v in values)
    whole = [round(v * (2 ** (bits - 1) - 1)) for v in values]
    return b"".join(v.to_bytes(bits // 8, "little", signed=True) for v in whole)


@pytest.mark.parametrize(("code", "bits"), [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32)])
def test_each_format_holds_the_samples_that_were_saved(code: int, bits: int) -> None:
    values = samples()
    sound = decoded_sound(wav(form(code, bits=bits), chunk(b"data", stored(values, code, bits))))
    assert (sound.rate, sound.samples.dtype, len(sound.samples)) == (RATE, np.float32, 1001)
    assert np.abs(sound.samples - values).max() < 2 ** (2 - min(bits, 24))


def test_channels_are_averaged_and_a_list_chunk_is_skipped() -> None:
    left, right = samples(), samples()[::-1]
    both = np.stack([left, right], axis=1).reshape(-1)
    facts = chunk(b"LIST", b"INFOsecret <script>x")
    sound = decoded_sound(wav(facts, form(channels=2), facts, chunk(b"data", stored(both, 1, 16))))
    assert np.abs(sound.samples - (left + right) / 2).max() < 1e-4


def test_an_extensible_header_and_an_unfinished_recording_are_read() -> None:
    extensible = form()[8:] + struct.pack("<HHI", 22, 16, 4) + struct.pack("<H", 1) + bytes(14)
    extensible = struct.pack("<H", 0xFFFE) + extensible[2:]
    data = stored(samples(), 1, 16)
    plain = decoded_sound(wav(form(), chunk(b"data", data)))
    for file in (
        wav(chunk(b"fmt ", extensible), chunk(b"data", data)),
        wav(form(), chunk(b"data", data, 2**32 - 1)),
        wav(form(), chunk(b"data", data + b"\1")),  # half a sample
    ):
        assert np.array_equal(decoded_sound(file).samples, plain.samples)


def long(n: int, **how: int) -> SoundFile:
    return wav(form(**how), chunk(b"data", bytes(n)))


HOSTILE = {
    "nothing": (SoundFile("x", b""), "not a WAV file"),
    "html": (SoundFile("x", b"<html><script>alert(1)</script>"), "not a WAV file"),
    "noise": (SoundFile("x", os.urandom(4000)), "not a WAV file"),
    "another RIFF": (SoundFile("x", b"RIFF\x10\0\0\0WEBPVP8 " + bytes(90)), "not a WAV file"),
    "header alone": (SoundFile("x", b"RIFF\x24\0\0\0WAVE"), "cut off"),
    "no samples": (wav(form()), "cut off"),
    "samples first": (wav(chunk(b"data", bytes(9000)), form()), "cut off"),
    "half a format": (wav(chunk(b"fmt ", bytes(9)), chunk(b"data", bytes(9000))), "cut off"),
    "a huge chunk": (wav(form(), chunk(b"junk", b"", 2**32 - 1)), "cut off"),
    "a chunk that ends nowhere": (wav(form(), chunk(b"junk", b"", 10**9)), "cut off"),
    "many chunks": (wav(*[chunk(b"junk", b"")] * 5000, form()), f"more than {MAX_CHUNKS} parts"),
    "no rate": (long(9000, rate=0), "0 samples a second"),
    "a huge rate": (long(9000, rate=4 * 10**9), "4,000,000,000 samples a second"),
    "no channels": (long(9000, channels=0, block=2), "0 channels"),
    "many channels": (long(9000, channels=65_535, block=2), f"expected 1 to {MAX_CHANNELS}"),
    "no bits": (long(9000, bits=0), "format 1, 0 bits"),
    "odd bits": (long(9000, bits=12), "format 1, 12 bits"),
    "64-bit floats": (long(9000, code=3, bits=64), "format 3, 64 bits"),
    "compressed": (long(9000, code=85), "format 85"),
    "another block": (long(9000, block=65_535), "cut off"),
    "too short": (long(2), "at least 0.02 s are needed"),
    "too long": (long(int(2 * RATE * (MAX_SOUND_SECONDS + 1))), "31.0 s long; at most 30 s"),
    "not a number": (
        wav(form(3, bits=32), chunk(b"data", np.full(900, np.nan, "<f4").tobytes())),
        "samples that are not numbers",
    ),
    "endless": (
        wav(form(3, bits=32), chunk(b"data", np.full(900, np.inf, "<f4").tobytes())),
        "samples that are not numbers",
    ),
    "too large": (SoundFile("x", b"RIFF" + bytes(MAX_SOUND_BYTES)), "at most 8,000,000 are read"),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_file_is_refused_at_once_with_the_reason(how: str) -> None:
    file, wanted = HOSTILE[how]
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises(ValueError, match=wanted.replace(".", r"\.")):
            decoded_sound(file)
        assert tracemalloc.get_traced_memory()[1] < 4 * 10**6
    finally:
        tracemalloc.stop()
    assert time.process_time() - begin < 1


def test_a_file_cut_off_anywhere_is_read_or_refused_in_words() -> None:
    whole = wav(chunk(b"LIST", b"12345"), form(), chunk(b"data", stored(samples(), 1, 16))).content
    n_read = 0
    for end in range(len(whole)):
        with suppress(ValueError):
            n_read += len(decoded_sound(SoundFile("x", whole[:end])).samples) > 0
    assert n_read > 1000  # the samples that are there


def test_a_file_damaged_anywhere_is_refused_or_read_as_numbers() -> None:
    whole = bytearray(wav(form(), chunk(b"data", stored(samples(300), 1, 16))).content)
    rng = np.random.default_rng(2)
    for _ in range(2000):
        damaged = bytearray(whole)
        for place in rng.integers(0, 60, 3):
            damaged[place] = rng.integers(256)
        try:
            sound = decoded_sound(SoundFile("x", bytes(damaged)))
        except ValueError:
            continue
        assert np.isfinite(sound.samples).all()
        assert np.abs(sound.samples).max() <= 1


def test_loud_floats_are_clipped() -> None:
    values = np.array([1e30, -1e30, 0.25] * 300)
    sound = decoded_sound(wav(form(3, bits=32), chunk(b"data", stored(values, 3, 32))))
    assert sound.samples[:3].tolist() == [1, -1, 0.25]


@pytest.mark.parametrize("rate", [4001, 11_025, 44_100, 192_000])
def test_at_another_rate_a_tone_keeps_its_pitch_and_loudness(rate: int) -> None:
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    sound = Waveform(tone.astype(np.float32), rate).at(16_000)
    assert len(sound.samples) == 16_000
    power = np.abs(np.fft.rfft(sound.samples * np.hanning(16_000)))
    assert power.argmax() == 440
    assert abs(np.abs(sound.samples[2000:-2000]).max() - 0.5) < 0.01


def test_frequencies_above_half_the_rate_are_filtered_out() -> None:
    tone = np.sin(2 * np.pi * 7000 * np.arange(32_000) / 32_000)
    sound = Waveform(tone.astype(np.float32), 32_000).at(8_000)
    assert np.abs(sound.samples[500:-500]).max() < 0.01  # and does not alias to 1,000 Hz


def test_only_a_regular_file_of_bounded_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(example_sound().content)
    assert decoded_sound(read(path)).seconds == 2
    (tmp_path / "link.wav").symlink_to(path)
    assert read(tmp_path / "link.wav").content == example_sound().content
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "away.wav").symlink_to(tmp_path / "pipe.wav")
    (tmp_path / "large.wav").write_bytes(bytes(MAX_SOUND_BYTES + 1))
    for name in ("pipe.wav", "away.wav", "large.wav", "none.wav", ""):
        with pytest.raises(CheckpointError):
            read(tmp_path / name)
    with pytest.raises(CheckpointError):
        read("/dev/zero")


def test_the_examples_match_their_names() -> None:
    spectra = {}
    for name in SOUND_EXAMPLES:
        sound = decoded_sound(example_sound(name))
        assert (sound.rate, sound.seconds) == (16_000, 2)
        assert 0.1 < np.abs(sound.samples).max() <= 1
        windows = sound.samples.reshape(20, -1)
        spectra[name] = np.abs(np.fft.rfft(windows * np.hanning(1600)))
    tones = spectra["four tones"].argmax(1) * 10  # Hz
    assert [int(tones[i]) for i in (1, 6, 11, 16)] == [260, 330, 390, 520]
    rising = spectra["rising tone"].argmax(1)
    assert (np.diff(rising) > 0).all()
    loud = spectra["four bursts of noise"].sum(1)
    assert (loud > loud.max() / 10).sum() in range(4, 9)
    assert len({example_sound(name) for name in SOUND_EXAMPLES}) == len(SOUND_EXAMPLES)


def test_files_and_ids_are_equal_if_their_content_is() -> None:
    one, other = SoundFile("a", b"1"), SoundFile("a", b"2")
    assert one == SoundFile("a", b"1")
    assert one not in (other, SoundFile("b", b"1"), "a")
    assert len({one, SoundFile("a", b"1"), other}) == 2
    ids = [FrameIds(3, torch.zeros(1), digest) for digest in ("x", "x", "y")]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0] != (0, 1, 2)
    assert list(ids[0]) == [0, 1, 2]
    assert len({*ids}) == 2
