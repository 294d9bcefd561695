"""Token types (Devlin et al. 2019: segment A and B) as a folder's own template gives them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from torch import nn

from models.errors import CheckpointError

TYPES_INPUT = "token_type_ids"  # of a module, and of what its tokenizer returns


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
        """Return the types of a row of n tokens; `segments` is empty or the text of each token."""
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
    """Return the types of each text in a row of a template, `texts` being the owner of each token.

    Of the special tokens between two texts, the first `n_closing` belong to the first.
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
    """Return the token types that a module of `n_types` is given; None if it is given none.

    They are those of its template if its `library` tokenizer returns any. Without a tokenizer,
    typed ids are of the first text or the second. A module with fewer types is given none, if its
    template has no other type than 0 for one text. Raises CheckpointError otherwise.
    """
    if TYPES_INPUT not in inspect.signature(module.forward).parameters or n_types == 0:
        return None
    if of_template is None:
        return FIRST_AND_SECOND if (n_types or 0) > 1 else None
    if TYPES_INPUT not in library.model_input_names:
        return None
    if n_types is None or of_template.largest < n_types:
        return of_template
    if any((*of_template.alone.before, of_template.alone.text, *of_template.alone.after)):
        raise CheckpointError(
            f"its tokenizer gives a token the type {of_template.largest}, but the model has {n_types} types"
        )
    return None
