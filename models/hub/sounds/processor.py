"""Turn a sound into the input of a model, as the folder's preprocessor_config.json says.

The library's own feature extractor does it. Its settings are untrusted, so every number in them is
bounded before it is built.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.errors import CheckpointError, InputError
from models.hub.files import PREPROCESSOR
from models.hub.python_tokenizer import PythonTokenizer
from models.hub.sounds.rows import SpectrogramRows, spectrogram_rows
from models.hub.tokenizer import HubTokenizer, IdTokenizer
from models.sounds import (
    SOUND_EXAMPLES,
    SoundFile,
    SoundRow,
    Waveform,
    decoded_sound,
    example_sound,
)
from models.sounds.file import MAX_SOUND_SECONDS
from models.sounds.frames import frame_time
from models.tokenizers.base import Encoding, Tokenizer

EXTRACTOR_MISSING = (
    f"{PREPROCESSOR} is missing, which says how a sound becomes the numbers that this model reads"
)
# smallest and largest value of each number that takes memory or time
EXTRACTOR_LIMITS: dict[str, tuple[float, float]] = {
    "feature_size": (1, 512), "num_mel_bins": (1, 512), "sampling_rate": (4_000, 48_000), "hop_length": (16, 4096),
    "chunk_length": (0.1, MAX_SOUND_SECONDS), "n_fft": (16, 8192), "n_samples": (1, 30 * 48_000), "nb_max_frames": (1, 90_000),
    "max_length": (1, 90_000), "dither": (0, 0),
}  # fmt: skip
MAX_OTHER_SETTING = 100_000
_UNUSED = "mel_filters"  # the library computes it again
PICTURE_BANDS, PICTURE_HOP, PICTURE_WINDOW = 80, 160, 400  # of a waveform's spectrogram
_DECADES = 8  # factors of ten below the loudest that are shown


def check_extractor(settings: dict[str, Any]) -> None:
    """Raise CheckpointError for a setting that no feature extractor may have."""
    for name, value in settings.items():
        if name in EXTRACTOR_LIMITS:
            least, most = EXTRACTOR_LIMITS[name]
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and least <= value <= most):
                raise CheckpointError(
                    f"{PREPROCESSOR}: {name} must be a number from {least:,} to {most:,}, not {value!s:.40}"
                )
        elif name != _UNUSED:
            _check_other(name, value)


def _check_other(name: str, value: Any) -> None:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_other(name, part)
    elif isinstance(value, int | float) and not -MAX_OTHER_SETTING <= value <= MAX_OTHER_SETTING:
        raise CheckpointError(
            f"{PREPROCESSOR}: {name} has the number {value:,}; the largest allowed is {MAX_OTHER_SETTING:,}"
        )


class SoundProcessor:
    """The library's feature extractor of a folder.

    `reads` is the name of the input that it makes, and `max_seconds` the longest sound that fits.
    `rows` are those of a spectrogram that is as long as its sound, None for others.
    """

    def __init__(self, folder: Path, transformers: Any) -> None:
        """Read the extractor and try it on an example. Raises CheckpointError."""
        if not (folder / PREPROCESSOR).is_file():
            raise CheckpointError(EXTRACTOR_MISSING)
        settings = json.loads((folder / PREPROCESSOR).read_text("utf-8"))
        self.settings = {name: value for name, value in settings.items() if name != _UNUSED}
        check_extractor(self.settings)
        (folder / PREPROCESSOR).write_text(json.dumps(self.settings), "utf-8")  # of a private copy
        self._library = transformers.AutoFeatureExtractor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        rate = getattr(self._library, "sampling_rate", None)
        if not isinstance(rate, int):
            raise CheckpointError(f"{PREPROCESSOR} gives no sampling_rate")
        self.rate = rate
        chunk = getattr(self._library, "chunk_length", None)
        self.max_seconds = float(chunk) if isinstance(chunk, int | float) else MAX_SOUND_SECONDS
        self.reads, features = self._extract(decoded_sound(example_sound()).at(rate))
        if features.dim() not in (1, 2):
            raise CheckpointError(
                f"its feature extractor turns a sound into {' × '.join(map(str, features.shape))} numbers"
            )
        self.rows = self._measure_rows(features.shape[1]) if features.dim() == 2 else None

    def features(self, sound: Waveform) -> Float[Tensor, "*shape"]:
        """Return the model's input for a sound. Raises CheckpointError."""
        return self._extract(sound.at(self.rate), padded=self.rows is None)[1]

    def inputs(self, sound: Waveform) -> dict[str, Tensor]:
        """Return all results of the extractor for a sound, with padding and its mask.

        Raises CheckpointError.
        """
        return dict(self._run_extractor(sound.at(self.rate)))

    def _run_extractor(self, sound: Waveform) -> Any:
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # a sound too short for a norm
                return self._library(sound.samples, sampling_rate=self.rate, return_tensors="pt")
        except Exception as error:  # the library may raise anything
            is_internal = isinstance(error, AttributeError | TypeError | KeyError)  # no explanation
            reason = "" if is_internal else f": {error!s:.200}"
            raise CheckpointError(f"{PREPROCESSOR} cannot be used for a sound{reason}") from None

    def _extract(self, sound: Waveform, padded: bool = True) -> tuple[str, Tensor]:
        """Return the name of the model's input and its numbers, with the padding if `padded`."""
        results = self._run_extractor(sound)
        inputs = {
            name: results[name] for name in ("input_features", "input_values") if name in results
        }
        name, value = next(iter(inputs.items()), ("", None))
        if not isinstance(value, Tensor) or value.shape[:1] != (1,):
            raise CheckpointError("its feature extractor makes no row of numbers from a sound")
        if not value.isfinite().all():
            raise CheckpointError(
                "its feature extractor makes infinite numbers from this sound, which is silent, "
                "constant or too short to be normalised"
            )
        value, mask = value[0].float(), results.get("attention_mask")
        if not padded and mask is not None:
            n = int(mask.sum())
            if not bool(mask[0, :n].all()):
                raise CheckpointError("its feature extractor puts padding before a sound")
            value = value[:n]
        return name, value

    def _measure_rows(self, width: int) -> SpectrogramRows | None:
        """Return the rows of a spectrogram that is as long as its sound. Raises CheckpointError."""
        bands = getattr(self._library, "num_mel_bins", None)
        bands = bands or getattr(self._library, "feature_size", None)

        def extract(samples: np.ndarray, padded: bool = True) -> Tensor:
            return self._extract(Waveform(samples, self.rate), padded)[1]

        return spectrogram_rows(
            extract,
            lambda samples: extract(samples, padded=False),
            self.rate,
            bands if isinstance(bands, int) else width,
        )

    def picture(
        self, sound: Waveform, features: Float[Tensor, "*shape"], seconds: float
    ) -> Float[Tensor, "band time"]:
        """Return the spectrogram to draw: the model's input, or that of its waveform.

        It ends after `seconds`, where the model's last frame ends.
        """
        bands = features
        if features.dim() == 1:
            bands = _spectrogram(sound.at(self.rate).samples, round(seconds * self.rate))
        elif self.rows is not None:
            bands = self.rows.picture(features, seconds * self.rate)
        least, most = bands.amin(), bands.amax()
        return (bands - least) / (most - least).clamp(min=1e-6)


def _spectrogram(samples: Any, length: int) -> Float[Tensor, "band time"]:
    """Return the logarithm of the power in bands of equal width, of the first `length` samples.

    Its columns share the length equally; the window of each is centred on its middle.
    """
    n, half = max(1, round(length / PICTURE_HOP)), PICTURE_WINDOW // 2
    wave = torch.from_numpy(samples)
    silence = half + max(0, length - len(wave))
    starts = ((torch.arange(n) + 0.5) * length / n).round().long()
    windows = torch.nn.functional.pad(wave, (half, silence)).unfold(0, PICTURE_WINDOW, 1)[starts]
    spectrum = torch.fft.rfft(windows * torch.hann_window(PICTURE_WINDOW))
    power = spectrum.abs().square()
    bands = torch.nn.functional.adaptive_avg_pool1d(power[:, 1:], PICTURE_BANDS).T
    logs = bands.clamp(min=1e-10).log10()
    return logs.clamp(min=float(logs.max()) - _DECADES)


class FrameReader:
    """A feature extractor with the frames that a model makes of its numbers."""

    def __init__(self, processor: SoundProcessor, frames: Any, step: float) -> None:
        """Take `frames`, the number of frames of features, and the seconds between two."""
        self.processor, self._frames, self.step = processor, frames, step

    def row(self, file: SoundFile) -> SoundRow:
        """Return the row of frames of a sound.

        Raises:
            ValueError: it cannot be decoded, or is too long or too short.
        """
        sound = decoded_sound(file)
        if sound.seconds > self.processor.max_seconds:
            raise ValueError(
                f"the sound is {sound.seconds:.1f} s long; this model reads at most {self.processor.max_seconds:g} s"
            )
        features = self.processor.features(sound)
        n = self._frames(features)
        if n < 1:
            raise ValueError(
                f"the sound is {sound.seconds:.3g} s long, too short for a frame of this model"
            )
        digest = hashlib.sha256(features.numpy().tobytes()).hexdigest()
        picture = self.processor.picture(sound, features, n * self.step)
        return SoundRow.of(file, n, features, picture, digest, self.step, sound.seconds)

    def token(self, i: int) -> str:
        """Return the name of token i."""
        return frame_time(i, self.step)

    def is_special(self, i: int) -> bool:
        """Return True if token i is not part of the sound."""
        return False

    def to_json(self) -> str:
        """Return the settings that identify this tokenizer, as JSON."""
        return json.dumps([self.processor.settings, self.step])


class _ReadsSound(Tokenizer):
    """A tokenizer of texts that reads sounds, too."""

    reader: FrameReader

    def encode_sound(self, file: str) -> Encoding:
        if not isinstance(file, SoundFile):
            raise InputError("the sound must be a sound file", "sound")
        return self.reader.row(file)

    def to_json(self) -> str:
        return json.dumps([super().to_json(), self.reader.to_json()])

    @property
    def examples(self) -> list[SoundFile]:
        """The sounds that every model of this kind opens with."""
        return [example_sound(name) for name in SOUND_EXAMPLES]


class FrameTokenizer(_ReadsSound):
    """A feature extractor as a tokenizer: frames, or patches, for tokens."""

    def __init__(self, reader: FrameReader, longest: int) -> None:
        """Take the number of tokens of the longest sound."""
        self.reader, self._longest = reader, longest
        self.special_ids, self._of_bytes = {"pad": longest}, False

    @property
    def vocab_size(self) -> int:
        return self._longest

    def special(self, name: str) -> None:
        return

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        raise InputError("this model reads a sound, not a text", "sound")

    def words(self, text: str) -> None:
        """None: the parts of a sound have no words."""
        return

    def decode(self, ids: Any) -> str:
        return ""

    def token(self, i: int) -> str:
        return "[pad]" if i == self.pad_id else self.reader.token(int(i))

    def is_special(self, i: int) -> bool:
        return i == self.pad_id or self.reader.is_special(int(i))

    def to_json(self) -> str:
        return self.reader.to_json()


class SoundHubTokenizer(_ReadsSound, HubTokenizer): ...


class SoundPythonTokenizer(_ReadsSound, PythonTokenizer): ...


class SoundIdTokenizer(_ReadsSound, IdTokenizer): ...
