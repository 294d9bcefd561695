"""Models that read a sound in one pass: a class of it, or a letter for each of its frames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, cast

from jaxtyping import Float, Shaped
from torch import Tensor

from models.architectures.base import CLASSES_OUTPUT, SOUND_FIELD, Answers, Field
from models.hub.labels import describe_labels, label_output, labels_in_words
from models.hub.model import HubModel
from models.hub.recording.context import PassContext
from models.hub.sounds.model import FRAMES_STREAM, stacked
from models.hub.sounds.processor import FrameTokenizer
from models.layers.masks import SiteKind
from models.printable import printable
from models.sounds import FrameIds, SoundRow
from models.sounds.frames import frame_times
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import Output, TokenClasses

BETWEEN_WORDS = "|"  # the letter for a space (wav2vec 2.0, Baevski et al. 2020)
BEFORE_WORD = "▁"  # a space within a piece of a word (SentencePiece, Kudo and Richardson 2018)
_OF_PARTS = "a letter, or none, for each of {} parts of a frame; joined, they form a text"


class SoundReader(HubModel):
    """An encoder whose tokens are the frames of one sound."""

    fields = (Field("sound", FRAMES_STREAM, kind=SOUND_FIELD),)
    streams: ClassVar[tuple[str, ...]] = (FRAMES_STREAM,)
    kinds = (SiteKind("self", "encoder", "self", FRAMES_STREAM, FRAMES_STREAM),)
    pads = False

    def __init__(
        self,
        *args: Any,
        reads: str,
        count_frames: Callable[[Tensor], int],
        trial: Float[Tensor, "*shape"],
        names: Sequence[str],
        blank: int = -1,
        **settings: Any,
    ) -> None:
        """Wrap a module that takes the input `reads`; `count_frames` counts the frames it makes.

        `trial` is the input of trial runs; `names` are those of its classes; `blank` is not one.
        """
        super().__init__(*args, **settings)
        self._reads, self._count, self._trial = reads, count_frames, trial
        self.names, self.blank = tuple(names), blank

    @property
    def token_table(self) -> None:
        """None: frames are not looked up in a table."""
        return

    def repeated(self, ids: Shaped[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the sound of trial runs, whatever the ids."""
        return (self._trial[None].to(self.device, self.module.dtype),)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        sounds = stacked([cast(FrameIds, row[self.streams[0]].ids) for row in rows])
        return (sounds.to(self.device, self.module.dtype),)

    def forward(self, sound: Float[Tensor, "batch ..."]) -> Answers:
        kind, n = self.kinds[0], self._count(sound[0])
        context = PassContext(
            lambda frame: kind, n, n_key={kind.key_stream: n}, groups=self.groups, n_rows=len(sound)
        )
        return {CLASSES_OUTPUT: self.ask(context, **{self._reads: sound}).logits}

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        return list(cast(FrameTokenizer, tokenizer).examples)


class SoundClassifier(SoundReader):
    """One class for the whole sound."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.answer_description = describe_labels(self.module, self.names, "sound")

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        logits = answers[CLASSES_OUTPUT]
        return {
            CLASSES_OUTPUT: label_output(self.module, self.streams[0], None, self.names, logits)
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return labels_in_words(outputs[CLASSES_OUTPUT])


class CTCModel(SoundReader):
    """A letter for each frame, joined into a text (CTC, Graves et al. 2006)."""

    answer_description = "a letter, or none, for each frame of the sound; joined, they form a text"

    def __init__(
        self,
        *args: Any,
        per_frame: int = 1,
        unnamed: Collection[int] = (),
        decode: Callable[[list[int]], str] | None = None,
        **settings: Any,
    ) -> None:
        """Take the number of letters that are read from each frame, one after the other.

        `decode` is the library's function that joins the most probable letters. Without it they are
        joined here, and the numbers of `unnamed` classes are separated by spaces.
        """
        super().__init__(*args, **settings)
        self.per_frame, self._unnamed, self._decode = per_frame, unnamed, decode
        if per_frame > 1:
            self.answer_description = _OF_PARTS.format(per_frame)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        row, logits = cast(SoundRow, streams[FRAMES_STREAM]), answers[CLASSES_OUTPUT]
        parts: dict[str, Any] = {}
        if self.per_frame > 1:
            frames = [i // self.per_frame for i in range(len(logits))]
            parts = {
                "parts": frame_times(len(logits), row.step / self.per_frame),
                "sources": tuple(i if i < len(row.ids) else None for i in frames),
            }
        return {CLASSES_OUTPUT: TokenClasses(FRAMES_STREAM, self.names, logits, **parts)}

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """Return the most probable letters: repeated ones once, and without the blank."""
        best = cast(TokenClasses, outputs[CLASSES_OUTPUT]).logits.argmax(-1).tolist()
        if self._decode is not None:
            return printable(self._decode(best))
        text, previous = "", -1
        for i in (i for i, _ in groupby(best) if i != self.blank):
            between = " " * (i in self._unnamed or previous in self._unnamed)
            text += between + (" " if self.names[i] == BETWEEN_WORDS else self.names[i])
            previous = i
        return text.replace(BEFORE_WORD, " ").strip()
