"""Tokens that generation_config.json suppresses, and generation settings that are not applied.

Tokens are suppressed as in the library's `generate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

# settings that change a step's logits depending on the text so far → their neutral values
_BY_TEXT: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (None, 1),
    "encoder_repetition_penalty": (None, 1),
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "exponential_decay_length_penalty": (None,),
    "guidance_scale": (None, 1),
    "sequence_bias": (None,),
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


NOTHING_SUPPRESSED = SuppressedTokens()


def suppressed_tokens(
    module: Any, ends: Sequence[int], n_given: int, begin: int = 0
) -> SuppressedTokens:
    """Return the tokens that a module's settings suppress once its decoder has `n_given` tokens.

    `n_given` is 0 for a text that continues a prompt, whose length is not known. `begin` is the
    position after the tokens that are forced.
    """
    settings, n_logits = module.generation_config, len(module.get_output_embeddings().weight)
    least = _count(settings, "min_new_tokens")
    if least is None:  # otherwise the library ignores min_length
        least = (_count(settings, "min_length") or 0) - n_given if n_given else 0
    single = [word[0] for word in _words(settings) if len(word) == 1 and word[0] not in ends]
    return SuppressedTokens(
        n_logits,
        tuple(i for i in single if is_id(i, n_logits))
        + _ids(settings, "suppress_tokens", n_logits),
        _ids(settings, "begin_suppress_tokens", n_logits),
        begin,
        tuple(i for i in ends if is_id(i, n_logits)),
        least,
    )


def settings_not_applied(module: Any, continues: bool) -> tuple[str, ...]:
    """Return the settings of a module that change what `generate` writes and are not applied."""
    settings = module.generation_config
    names = [n for n, neutral in _BY_TEXT.items() if getattr(settings, n, None) not in neutral]
    if any(len(word) > 1 for word in _words(settings)):
        names.append("bad_words_ids")
    has_least = _count(settings, "min_length") and _count(settings, "min_new_tokens") is None
    if continues and has_least:
        names.append("min_length")
    return tuple(sorted(names))


def is_id(i: Any, n: int) -> bool:
    """Report whether a value is an id below n."""
    return isinstance(i, int) and not isinstance(i, bool) and 0 <= i < n


def _ids(settings: Any, name: str, n: int) -> tuple[int, ...]:
    ids = getattr(settings, name, None)
    return tuple(i for i in ids if is_id(i, n)) if isinstance(ids, list) else ()


def _count(settings: Any, name: str) -> int | None:
    value = getattr(settings, name, None)
    return value if isinstance(value, int) and value >= 0 else None


def _words(settings: Any) -> list[list[Any]]:
    words = getattr(settings, "bad_words_ids", None)
    return [word for word in words if isinstance(word, list)] if isinstance(words, list) else []
