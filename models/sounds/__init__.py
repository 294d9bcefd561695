"""Sound files as values of a model's field: bounded, decoded, made by code, cut into frames.

`models.sounds.read("speech.wav")` returns a value of `Scope.run` for a field of kind SOUND_FIELD.
"""

from models.sounds.examples import SOUND_EXAMPLES, example_sound
from models.sounds.file import SoundFile, decoded_sound, read
from models.sounds.frames import FrameIds, SoundRow
from models.sounds.patches import PatchedSound, SpectrogramGrid
from models.sounds.waveform import Waveform

__all__ = [
    "SOUND_EXAMPLES",
    "FrameIds",
    "PatchedSound",
    "SoundFile",
    "SoundRow",
    "SpectrogramGrid",
    "Waveform",
    "decoded_sound",
    "example_sound",
    "read",
]
