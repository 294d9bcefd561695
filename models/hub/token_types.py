"""Token types (segments A and B in Devlin et al. 2019), taken from a tokenizer's template."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from torch import nn

from models.errors import CheckpointError

TYPES_INPUT = "token_type_ids"  # name of this input of a module, and of a tokenizer's output


class PartTypes(NamedTuple):
    """The types of one text's tokens, and of each special token before and after it."""

    before: tuple[int, ...]
    text: int
    after: tuple[int, ...]

    def row(self, n: int) -> list[int]:
        """Return the types of a part of n tokens."""
        n_text = n - len(self.before) - len(self.after)
        return [*self.before, *[self.text] * n_text, *self.after][:n]


@dataclass(frozen=True)
class TokenTypes:
    """The token types of a text alone, and of both texts of a pair (empty if there is none)."""

    alone: PartTypes
    pair: tuple[PartTypes, ...] = ()

    def of(self, segments: Sequence[int], n: int) -> list[int]:
        """Return the types of a row of n tokens; `segments` is each token's text, or empty."""
        if 1 not in segments:
            return self.alone.row(n)
        return [
            type_id
            for text, tokens in groupby(segments)
            for type_id in self.pair[text].row(len(list(tokens)))
        ]

    @property
    def largest(self) -> int:
        """The largest type."""
        parts = (self.alone, *self.pair)
        return max(max((*part.before, part.text, *part.after)) for part in parts)


FIRST_AND_SECOND = TokenTypes(PartTypes((), 0, ()), (PartTypes((), 0, ()), PartTypes((), 1, ())))


def template_types(
    types: Sequence[int], texts: Sequence[int | None], n_closing: int
) -> tuple[PartTypes, ...]:
    """Return the types of each text in a template's row; `texts` gives the owner of each token.

    The first `n_closing` special tokens between two texts belong to the first.
    """
    parts, start = [], 0
    for text in sorted({owner for owner in texts if owner is not None}):
        tokens = [i for i, owner in enumerate(texts) if owner == text]
        is_last = text == max(owner for owner in texts if owner is not None)
        end = len(types) if is_last else tokens[-1] + 1 + n_closing
        before, after = types[start : tokens[0]], types[tokens[-1] + 1 : end]
        parts.append(PartTypes(tuple(before), types[tokens[0]], tuple(after)))
        start = end
    return tuple(parts)


def given_types(
    module: nn.Module, n_types: int | None, library: Any, of_template: TokenTypes | None
) -> TokenTypes | None:
    """Return the token types to pass to a module with `n_types`, or None.

    They follow the template if the `library` tokenizer returns types. Without a tokenizer, ids of
    the first text have type 0 and of the second type 1. A module with too few types gets None if
    the template gives a single text only type 0. Raises CheckpointError otherwise.
    """
    if not _takes_types(module) or n_types == 0:
        return None
    if of_template is None:
        return FIRST_AND_SECOND if (n_types or 0) > 1 else None
    if TYPES_INPUT not in library.model_input_names:
        return None
    if n_types is None or of_template.largest < n_types:
        return of_template
    if any((*of_template.alone.before, of_template.alone.text, *of_template.alone.after)):
        raise CheckpointError(
            f"its tokenizer uses token type {of_template.largest}, but the model has only {n_types} types, counted from 0"
        )
    return None


def _takes_types(module: Any) -> bool:
    """Report whether a module takes token types, itself or through its base model."""
    parameters = inspect.signature(module.forward).parameters
    passes_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    base = getattr(module, "base_model", module)
    taken = inspect.signature(base.forward).parameters if passes_on else parameters
    return TYPES_INPUT in parameters or TYPES_INPUT in taken
