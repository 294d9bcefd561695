"""The tokens that a speech model's text begins with.

They are given in generation_config.json and combined as in the library's `generate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.hub.generation import is_id

SPEECH_TASKS = ("transcribe", "translate")


@dataclass(frozen=True)
class Prompt:
    """Tokens after the start token; None is the language, to be chosen among `languages`."""

    tokens: tuple[int | None, ...] = ()
    languages: tuple[int, ...] = ()

    def forced_by_position(self) -> dict[int, int]:
        """Return position → token, for those that do not depend on the sound."""
        return {i: token for i, token in enumerate(self.tokens) if token is not None}

    def among_languages(self, logits: Float[Tensor, "batch vocab"]) -> Float[Tensor, "batch vocab"]:
        """Return the logits with −∞ for every token that is not a language."""
        mask = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
        mask[list(self.languages)] = False
        return logits.masked_fill(mask, -torch.inf)

    def begins(self, ids: Sequence[int]) -> bool:
        """Return True if tokens after the start token begin with the prompt."""
        if len(ids) < len(self.tokens):
            return False
        return all(
            i in self.languages if token is None else i == token
            for i, token in zip(ids, self.tokens, strict=False)
        )


def speech_prompt(module: Any, vocab_size: int) -> Prompt:
    """Return the prompt of a module of transformers; an empty one if its files name none."""
    settings = module.generation_config
    language, task = getattr(settings, "language", None), getattr(settings, "task", None)
    languages = _by_name(getattr(settings, "lang_to_id", None), vocab_size)
    tasks = _by_name(getattr(settings, "task_to_id", None), vocab_size)
    tokens: list[int | None] = []
    if language is None and task is None:
        tokens = _forced_tokens(settings, module.config, vocab_size)
    is_open = not tokens or tokens[0] is None
    if isinstance(language, str) and (token := languages.get(_code(language))) is not None:
        tokens[:1] = [token]
    elif languages and is_open:
        tokens[:1] = [None]
    elif is_open:
        tokens = tokens[1:]
    if task in SPEECH_TASKS and task in tasks:
        tokens.append(tasks[task])
    elif language is not None and "transcribe" in tasks and not set(tasks.values()) & set(tokens):
        tokens.append(tasks["transcribe"])
    last = getattr(settings, "no_timestamps_token_id", None)
    if is_id(last, vocab_size) and (not tokens or tokens[-1] != last):
        tokens.append(last)
    return Prompt(tuple(tokens), tuple(sorted(languages.values())))


def _forced_tokens(settings: Any, config: Any, vocab_size: int) -> list[int | None]:
    """Return the tokens of an older setting: [[1, token], [2, token], …]."""
    pairs = getattr(settings, "forced_decoder_ids", None)
    pairs = getattr(config, "forced_decoder_ids", None) if pairs is None else pairs
    tokens: list[int | None] = []
    for pair in pairs if isinstance(pairs, list) else []:
        if not isinstance(pair, list) or len(pair) != 2 or pair[0] != len(tokens) + 1:
            break
        if pair[1] is None and not tokens:
            tokens.append(None)
        elif is_id(pair[1], vocab_size):
            tokens.append(pair[1])
        else:
            break
    return tokens


def _code(language: str) -> str:
    """Return a language's name in `lang_to_id`: "<|en|>"."""
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    language = language.lower()
    return (
        language if language.startswith("<|") else f"<|{TO_LANGUAGE_CODE.get(language, language)}|>"
    )


def _by_name(ids: Any, vocab_size: int) -> dict[str, int]:
    if not isinstance(ids, Mapping):
        return {}
    return {str(name): i for name, i in ids.items() if is_id(i, vocab_size)}
