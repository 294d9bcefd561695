"""Tokens that a text may not have, by generation_config.json, and settings that are not applied.

They are barred as the library's `generate` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

# settings that change the logits of a step by the text before it → values that change nothing
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
class BarredTokens:
    """Tokens that a generated text does not have, does not begin with, or does not end with yet.

    They are among `n_logits`; `ends` are barred from its first `n_least` tokens.
    """

    n_logits: int = 0
    never: tuple[int, ...] = ()
    not_first: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    n_least: int = 0

    def takeable(self, position: int) -> Bool[Tensor, " vocab"] | None:
        """Return True for the tokens that may be taken at a position; None for all."""
        barred = [*self.never, *(self.not_first if position == 0 else ())]
        barred += self.ends if position < self.n_least else ()
        if not barred:
            return None
        mask = torch.ones(self.n_logits, dtype=torch.bool)
        mask[barred] = False
        return mask


NOTHING_BARRED = BarredTokens()


def barred_tokens(module: Any, ends: tuple[int, ...], n_given: int) -> BarredTokens:
    """Return the tokens that a module's own settings bar after `n_given` tokens of its decoder.

    `n_given` is 0 for a text that continues a prompt, whose length is not known.
    """
    settings, n_logits = module.generation_config, len(module.get_output_embeddings().weight)
    least = _count(settings, "min_new_tokens")
    if n_given:
        least = max(least, _count(settings, "min_length") - n_given)
    single = [word[0] for word in _words(settings) if len(word) == 1 and word[0] not in ends]
    return BarredTokens(
        n_logits,
        tuple(i for i in single if is_id(i, n_logits))
        + _ids(settings, "suppress_tokens", n_logits),
        _ids(settings, "begin_suppress_tokens", n_logits),
        ends,
        least,
    )


def settings_not_applied(module: Any, continues: bool) -> tuple[str, ...]:
    """Return the settings of a module that change what `generate` writes and are not applied."""
    settings = module.generation_config
    names = [n for n, neutral in _BY_TEXT.items() if getattr(settings, n, None) not in neutral]
    if any(len(word) > 1 for word in _words(settings)):
        names.append("bad_words_ids")
    if continues and _count(settings, "min_length"):
        names.append("min_length")
    return tuple(sorted(names))


def is_id(i: Any, n: int) -> bool:
    """Report whether a value is an id below n."""
    return isinstance(i, int) and not isinstance(i, bool) and 0 <= i < n


def _ids(settings: Any, name: str, n: int) -> tuple[int, ...]:
    ids = getattr(settings, name, None)
    return tuple(i for i in ids if is_id(i, n)) if isinstance(ids, list) else ()


def _count(settings: Any, name: str) -> int:
    value = getattr(settings, name, None)
    return value if isinstance(value, int) and value > 0 else 0


def _words(settings: Any) -> list[list[Any]]:
    words = getattr(settings, "bad_words_ids", None)
    return [word for word in words if isinstance(word, list)] if isinstance(words, list) else []
