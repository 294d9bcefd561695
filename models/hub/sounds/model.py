"""A model that reads a sound and writes a text, as an Architecture: frames are its stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from models.architectures.base import SOUND_FIELD, Field, LogitsProcessor
from models.hub.recording.context import PassContext
from models.hub.sounds.frames import SoundFrames
from models.hub.sounds.processor import SoundHubTokenizer
from models.hub.sounds.prompt import Prompt
from models.hub.writers import EncoderDecoderLM, after_start, of_library
from models.layers.cache import Cache
from models.layers.masks import Mask, Masks, SiteKind
from models.sounds import FrameIds
from models.tokenizers.base import Encoding, Tokenizer

FRAMES_STREAM, TRANSCRIPT_STREAM = "frames", "transcript"
NOT_ONE_LENGTH = "sounds of different lengths cannot run as one batch"
SOUND_CROSS = SiteKind("cross", "decoder", "cross", TRANSCRIPT_STREAM, FRAMES_STREAM)


def stacked(rows: Sequence[FrameIds]) -> Float[Tensor, " batch *shape"]:
    """Return the numbers of several sounds of one size as a batch. Raises ValueError."""
    features = [row.features for row in rows]
    if len({one.shape for one in features}) > 1:
        raise ValueError(NOT_ONE_LENGTH)
    return torch.stack(features)


class SpeechToText(EncoderDecoderLM):
    """A speech-to-text encoder-decoder (Whisper, Radford et al. 2022)."""

    fields = (
        Field("sound", FRAMES_STREAM, kind=SOUND_FIELD),
        Field(TRANSCRIPT_STREAM, TRANSCRIPT_STREAM, optional=True, before="start"),
    )
    streams: ClassVar[tuple[str, ...]] = (FRAMES_STREAM, TRANSCRIPT_STREAM)
    writes: ClassVar[str] = TRANSCRIPT_STREAM
    kinds = (
        SiteKind("encoder_self", "encoder", "self", FRAMES_STREAM, FRAMES_STREAM),
        SiteKind("decoder_self", "decoder", "self", TRANSCRIPT_STREAM, TRANSCRIPT_STREAM),
        SOUND_CROSS,
    )
    pads = False
    answer_description = "the text spoken in a sound, token by token"

    def __init__(
        self,
        *args: Any,
        reads: str,
        frames: SoundFrames,
        trial: Float[Tensor, "*shape"],
        prompt: Prompt,
        text_limit: int,
        **settings: Any,
    ) -> None:
        """Wrap a module that makes `frames` of its input and writes up to `text_limit` tokens.

        `reads` is the name of the input, and `trial` the sound of trial runs.
        """
        super().__init__(*args, **settings)
        self.reads, self.frames, self._trial = reads, frames, trial
        self.prompt, self.text_limit = prompt, text_limit

    @property
    def trial(self) -> Float[Tensor, " 1 *shape"]:
        return self._trial[None].to(self.device, self.module.dtype)

    def repeated(self, ids: Int[Tensor, "batch n"]) -> tuple[Tensor, ...]:
        """Return the trial sound and these ids as a text."""
        return self.trial.expand(len(ids), *self._trial.shape), ids

    def trial_inputs(self, ids: Shaped[Tensor, "batch n"]) -> Tensor:
        """Return the trial sound, mirrored along its last axis in every second row."""
        both = torch.cat([self.trial, self.trial.flip(-1)])
        return both.repeat(len(ids), *[1] * self._trial.dim())[: len(ids)]

    def encoder_inputs(self, rows: Sequence[Sequence[int]]) -> Float[Tensor, " batch *shape"]:
        return stacked([cast(FrameIds, row) for row in rows]).to(self.device, self.module.dtype)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        texts = [row[TRANSCRIPT_STREAM].ids for row in rows]
        return self.encoder_inputs([row[FRAMES_STREAM].ids for row in rows]), self.padded(
            texts, self.config.pad_id
        )

    def forward(
        self, sound: Float[Tensor, " batch *shape"], text: Int[Tensor, "batch m"]
    ) -> Float[Tensor, "batch m vocab"]:
        masks = self.written_masks(sound, text)
        return self.decode(text, self.encode(sound, masks), masks)

    def opening(self, inputs: Float[Tensor, " batch *shape"]) -> Int[Tensor, "batch 1"]:
        return torch.full((len(inputs), 1), self.config.start_id, device=inputs.device)

    def encode(self, inputs: Float[Tensor, " batch *shape"], masks: Masks) -> Tensor:
        kind, n = self.kinds[0], self.frames.count(inputs[0])
        context = PassContext(
            lambda frame: kind, n, n_key={FRAMES_STREAM: n}, groups=self.groups, n_rows=len(inputs)
        )
        output = self._ask(self.reader, context, {"attentions": kind}, **{self.reads: inputs})
        return output.last_hidden_state

    def written_masks(
        self, inputs: Float[Tensor, " batch *shape"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return no layers: no frame is padding, and the model makes its look-ahead mask."""
        return {SOUND_CROSS.name: Mask([], start)}

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        is_token: Bool[Tensor, "batch n"] = torch.ones(
            memory.shape[:2], dtype=torch.bool, device=memory.device
        )
        past = (
            {}
            if cache is None
            else {"past_key_values": of_library(cache, self.module.config, crosses=True).past}
        )
        return self.ask_decoder(
            row, memory, is_token, start, **past, use_cache=cache is not None
        ).logits

    def stream_limit(self, stream: str) -> int:
        return self.frames.longest if stream == FRAMES_STREAM else self.text_limit

    def max_new_tokens(self, n_given: int) -> int:
        """Return half the length of the decoder's row, as Whisper's own code does."""
        return self.text_limit // 2

    def forced_by_position(self, limit: int) -> dict[int, int]:
        return self.prompt.forced_by_position() | super().forced_by_position(limit)

    def logits_processor(
        self, inputs: Shaped[Tensor, " batch *size"], n_opening: int
    ) -> LogitsProcessor | None:
        """Choose a language that the prompt leaves open; the settings are for the text after it."""
        tokens = self.prompt.tokens
        after_prompt = super().logits_processor(inputs, n_opening + len(tokens))

        def process(
            row: Int[Tensor, "batch m"], logits: Float[Tensor, "batch vocab"]
        ) -> Float[Tensor, "batch vocab"]:
            position = row.shape[1] - n_opening
            if position < len(tokens):
                return (
                    logits if tokens[position] is not None else self.prompt.among_languages(logits)
                )
            return logits if after_prompt is None else after_prompt(row, logits)

        return process

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return the streams with the model's prompt before a typed text."""
        if (text := streams.get(TRANSCRIPT_STREAM)) is None:
            return dict(streams)
        if not self.prompt.begins(text.ids[1:]):
            prompt = self.prompt.tokens
            ids = [self.language(streams[FRAMES_STREAM]) if i is None else i for i in prompt]
            text = after_start(text, ids, tokenizer)
        return {**streams, TRANSCRIPT_STREAM: text}

    @torch.no_grad()
    def language(self, sound: Encoding) -> int:
        """Return the token of the language that the model detects in a sound."""
        inputs = self.encoder_inputs([sound.ids])
        opening = self.opening(inputs)
        masks = self.written_masks(inputs, opening)
        logits = self.decode(opening, self.encode(inputs, masks), masks)[0, -1]
        languages = list(self.prompt.languages)
        return languages[int(logits[languages].argmax())]

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        return list(cast(SoundHubTokenizer, tokenizer).examples)
