"""A model whose tokens are the patches of a spectrogram, and their extractor."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import ClassVar

from models.architectures.base import SOUND_FIELD, Field
from models.hub.sounds.columns import SpectrogramColumns
from models.hub.sounds.processor import FrameReader, SoundProcessor
from models.hub.sounds.reader import SoundClassifier
from models.layers.masks import SiteKind
from models.sounds import PatchedSound, SoundFile, SpectrogramGrid, decoded_sound

SPECTROGRAM_STREAM = "spectrogram"


class SpectrogramClassifier(SoundClassifier):
    """One class for the whole sound, from patches of its spectrogram (AST, Gong et al. 2021)."""

    fields = (Field("sound", SPECTROGRAM_STREAM, kind=SOUND_FIELD),)
    streams: ClassVar[tuple[str, ...]] = (SPECTROGRAM_STREAM,)
    kinds = (SiteKind("self", "encoder", "self", SPECTROGRAM_STREAM, SPECTROGRAM_STREAM),)


class PatchReader(FrameReader):
    """A feature extractor with the patches that a model makes of its spectrogram."""

    def __init__(
        self, processor: SoundProcessor, grid: SpectrogramGrid, columns: SpectrogramColumns
    ) -> None:
        super().__init__(processor, lambda features: len(grid.tokens), grid.step)
        self.grid, self._columns = grid, columns

    def row(self, file: SoundFile) -> PatchedSound:
        """Return the row of patches of a sound, whose end the extractor may cut off.

        Raises:
            ValueError: it cannot be decoded, or is too short.
        """
        sound = decoded_sound(file)
        held = self._columns.held(len(sound.at(self.processor.rate).samples))
        if held < 1:
            raise ValueError(
                f"the sound is {sound.seconds:.3g} s long, too short for a patch of this model"
            )
        features = self.processor.features(sound)
        digest = hashlib.sha256(features.numpy().tobytes()).hexdigest()
        bands, columns = self.grid.extent
        read = self._columns.by_bands(features)[:bands, :columns]
        picture = self.processor.picture(sound, read, sound.seconds)
        n_heard = min(self.grid.columns, -(-held // self.grid.stride[1]))
        return PatchedSound.on(self.grid, file, features, picture, digest, n_heard, sound.seconds)

    def token(self, i: int) -> str:
        return self.grid.tokens[i]

    def is_special(self, i: int) -> bool:
        return self.grid.patch(i) is None

    def to_json(self) -> str:
        return json.dumps([self.processor.settings, asdict(self.grid)])
