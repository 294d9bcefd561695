"""The settings of generation_config.json that change which token comes next.

They are applied as in the library's `generate`; its own logits processors apply those that depend
on the text so far. Settings that are not applied are named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from models.architectures.base import LogitsProcessor

# settings that are not applied → their neutral values
_NOT_APPLIED: dict[str, tuple[Any, ...]] = {
    "exponential_decay_length_penalty": (None,),
    "guidance_scale": (None, 1),
    "stop_strings": (None, []),
    "watermarking_config": (None,),
}


@dataclass(frozen=True)
class SuppressedTokens:
    """Tokens that generated text may not contain, may not begin with, or may not end with yet.

    All ids are below `n_logits`. A text begins at position `begin`, after a token that is forced;
    `ends` are suppressed at its first `n_least` positions.
    """

    n_logits: int = 0
    always: tuple[int, ...] = ()
    not_first: tuple[int, ...] = ()
    begin: int = 0
    ends: tuple[int, ...] = ()
    n_least: int = 0

    def allowed(self, position: int) -> Bool[Tensor, " vocab"] | None:
        """Return a mask of the tokens allowed at a position; None if all are."""
        suppressed = [*self.always, *(self.not_first if position == self.begin else ())]
        suppressed += self.ends if position < self.n_least else ()
        if not suppressed:
            return None
        mask = torch.ones(self.n_logits, dtype=torch.bool)
        mask[suppressed] = False
        return mask

    def is_active(self) -> bool:
        """Return True if any token is suppressed anywhere."""
        return bool(self.always or self.not_first or (self.ends and self.n_least))


@dataclass(frozen=True)
class GenerationSettings:
    """The settings applied to each step's logits: those `by_text`, then the suppressed tokens.

    `by_text` maps the name of a setting to its valid value.
    """

    suppressed: SuppressedTokens = SuppressedTokens()
    by_text: Mapping[str, Any] = field(default_factory=dict)

    def logits_processor(
        self, inputs: Shaped[Tensor, " batch *size"], n_opening: int, pad_id: int
    ) -> LogitsProcessor | None:
        """Return a function that applies the settings to logits; None if they do nothing.

        `inputs` are what the encoder reads, or the prompts, padded with `pad_id`; the generated
        row begins with `n_opening` tokens.
        """
        processors = [
            _processor(name, value, inputs, pad_id) for name, value in self.by_text.items()
        ]
        by_text = [processor for processor in processors if processor is not None]
        if not by_text and not self.suppressed.is_active():
            return None

        def process(
            row: Int[Tensor, "batch m"], logits: Float[Tensor, "batch vocab"]
        ) -> Float[Tensor, "batch vocab"]:
            for processor in by_text:
                logits = processor(row, logits)
            allowed = self.suppressed.allowed(row.shape[1] - n_opening)
            if allowed is None:
                return logits
            return logits.masked_fill(~allowed.to(logits.device), -math.inf)

        return process


def generation_settings(
    module: Any, ends: Sequence[int], *, continues: bool, n_given: int, begin: int = 0
) -> tuple[GenerationSettings, tuple[str, ...]]:
    """Return the settings of a module that are applied, and the names of those that are not.

    A text that does not continue a prompt follows `n_given` tokens of the decoder. It begins at
    position `begin`, after the forced tokens.
    """
    settings, n_logits = module.generation_config, len(module.get_output_embeddings().weight)
    n_read = len(module.get_input_embeddings().weight)
    least, shortest = _count(settings, "min_new_tokens"), _count(settings, "min_length") or 0
    by_text = {name: getattr(settings, name, None) for name in _VALID}
    words: Any = by_text["bad_words_ids"]
    single = [word for word in words if len(word) == 1] if _are_words(words, 2**63) else []
    if single:
        by_text["bad_words_ids"] = [word for word in words if len(word) > 1] or None
    # without min_new_tokens, which the library prefers, min_length counts every token of the row
    by_text["min_length"] = (shortest, list(ends)) if continues and shortest and ends else None
    if least is None:
        least = 0 if continues else max(0, shortest - n_given)
    else:
        by_text["min_length"] = None
    by_text = {
        name: value for name, value in by_text.items() if value not in _NEUTRAL.get(name, (None,))
    }
    valid = {
        name: value
        for name, value in by_text.items()
        if _VALID[name](value, n_logits) and (name not in _OF_SOURCE or n_read <= n_logits)
    }
    single_ids = [word[0] for word in single if word[0] not in ends]
    suppressed = SuppressedTokens(
        n_logits,
        tuple(i for i in single_ids if is_id(i, n_logits))
        + _ids(settings, "suppress_tokens", n_logits),
        _ids(settings, "begin_suppress_tokens", n_logits),
        begin,
        tuple(i for i in ends if is_id(i, n_logits)),
        least,
    )
    others = [n for n, neutral in _NOT_APPLIED.items() if getattr(settings, n, None) not in neutral]
    return GenerationSettings(suppressed, valid), tuple(sorted({*others, *by_text} - {*valid}))


def is_id(i: Any, n: int) -> bool:
    """Report whether a value is an id below n."""
    return isinstance(i, int) and not isinstance(i, bool) and 0 <= i < n


def _ids(settings: Any, name: str, n: int) -> tuple[int, ...]:
    ids = getattr(settings, name, None)
    return tuple(i for i in ids if is_id(i, n)) if isinstance(ids, list) else ()


def _count(settings: Any, name: str) -> int | None:
    value = getattr(settings, name, None)
    return value if is_id(value, 2**63) else None


# Checks of the values that the library's processors accept; a vocabulary has n logits.

_LARGEST = 1e6  # penalty or bias: beyond it a float32 score may overflow


def _is_number(value: Any, least: float) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and least <= value <= _LARGEST


def _is_penalty(value: Any, n: int) -> bool:
    return _is_number(value, 1 / _LARGEST)


def _is_size(value: Any, n: int) -> bool:
    return is_id(value, 2**63) and value > 0


def _are_words(words: Any, n: int) -> bool:
    return (
        isinstance(words, list)
        and all(isinstance(word, list) and word for word in words)
        and all(is_id(i, n) for word in words for i in word)
    )


def _are_biases(biases: Any, n: int) -> bool:
    return (
        isinstance(biases, list)
        and bool(biases)
        and all(isinstance(one, list) and len(one) == 2 for one in biases)
        and _are_words([ids for ids, _ in biases], n)
        and all(_is_number(bias, -_LARGEST) for _, bias in biases)
    )


_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "encoder_repetition_penalty": (None, 1),
    "repetition_penalty": (None, 1),
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
}
_OF_SOURCE = ("encoder_repetition_penalty", "encoder_no_repeat_ngram_size")  # these read the source
# in the order in which the library applies them
_VALID: dict[str, Callable[[Any, int], bool]] = {
    "sequence_bias": _are_biases,
    "encoder_repetition_penalty": _is_penalty,
    "repetition_penalty": _is_penalty,
    "no_repeat_ngram_size": _is_size,
    "encoder_no_repeat_ngram_size": _is_size,
    "bad_words_ids": _are_words,
    "min_length": lambda value, n: True,  # built by generation_settings
}


def _processor(name: str, value: Any, inputs: Tensor, pad_id: int) -> Any:
    """Return the library's processor of a setting; None if it does not apply to these inputs."""
    from transformers.generation import logits_process as library

    match name:
        case "sequence_bias":
            return library.SequenceBiasLogitsProcessor([[ids, float(bias)] for ids, bias in value])
        case "repetition_penalty":
            return library.RepetitionPenaltyLogitsProcessor(float(value))
        case "no_repeat_ngram_size":
            return library.NoRepeatNGramLogitsProcessor(value)
        case "bad_words_ids":
            return library.NoBadWordsLogitsProcessor(value)
        case "min_length":
            return library.MinLengthLogitsProcessor(*value, device=str(inputs.device))
    if inputs.dim() != 2 or inputs.is_floating_point():
        return None
    return _row_by_row([_of_source(name, value, row[row != pad_id][None]) for row in inputs])


def _of_source(name: str, value: Any, source: Tensor) -> Any:
    """Return the library's processor for one source; None if the n-gram is longer than it."""
    from transformers.generation import logits_process as library

    ids: Any = source
    if name == "encoder_repetition_penalty":
        return library.EncoderRepetitionPenaltyLogitsProcessor(float(value), ids)
    if value > source.shape[1]:
        return None
    return library.EncoderNoRepeatNGramLogitsProcessor(value, ids)


def _row_by_row(processors: list[Any]) -> LogitsProcessor | None:
    """Return a processor that applies one to each row of a batch; a single one to all rows."""
    if len(processors) == 1:
        return processors[0]

    def process(
        row: Int[Tensor, "batch m"], logits: Float[Tensor, "batch vocab"]
    ) -> Float[Tensor, "batch vocab"]:
        each = zip(processors, row[:, None], logits[:, None], strict=True)
        return torch.cat(
            [one if processor is None else processor(read, one) for processor, read, one in each]
        )

    return process
