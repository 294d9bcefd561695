"""From which input of a module the rows of each tensor come, followed through every torch function of a pass.

The rows of an attention's result are those of its queries, so what it reads does not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from models.layers.masks import SiteKind

Origins = frozenset[str]
NONE: Origins = frozenset()


class Provenance:
    """The inputs that the tensors of one pass come from, by name."""

    def __init__(self, inputs: Mapping[str, Sequence[Tensor]]) -> None:
        self._origins = WeakTensorKeyDictionary()
        self._queries, self._keys = NONE, NONE
        for name, tensors in inputs.items():
            for tensor in tensors:
                self._origins[tensor] = self.of(tensor) | {name}

    def of(self, t: Tensor) -> Origins:
        """Return the inputs that a tensor comes from; none if that is not known."""
        return self._origins.get(t, NONE)

    def note(self, result: Any, *causes: Any) -> None:
        """A function has made `result` of `causes`."""
        found = NONE.union(*map(self.of, _tensors(causes)))
        for t in _tensors(result) if found else ():
            self._origins[t] = found

    def note_call(self, query: Tensor, key: Tensor) -> None:
        """An attention of these queries and keys comes next."""
        self._queries, self._keys = self.of(query), self.of(key)

    def kind(self, n_query: int, n_key: int) -> SiteKind | str:
        """Return the kind of the attention that was noted last, or the reason why it is of none."""
        raise NotImplementedError

    def lengths(self, kind: SiteKind) -> tuple[int, int] | None:
        """Return how many queries and keys an attention of this kind has, where the inputs say so."""
        return None


class OneText(Provenance):
    """A module that reads one text, perhaps beside other inputs. Its tokens are those of the first attention that fits them."""

    def __init__(self, tensors: Sequence[Tensor], kind: SiteKind, n: int) -> None:
        distinct = {id(t): t for t in tensors}
        super().__init__({f"input {i}": [t] for i, t in enumerate(distinct.values())})
        self._kind, self._n, self._text = kind, n, NONE

    def kind(self, n_query: int, n_key: int) -> SiteKind | str:
        fits = (n_query, n_key) == (self._n, self._n)
        if not self._text and fits:
            self._text = self._queries & self._keys
        if not fits or not (self._queries or self._keys):
            return self._kind  # of other lengths, which is another reason, or of unknown origin
        for what, origins in (("queries", self._queries), ("keys", self._keys)):
            if not origins & self._text:
                return f"its {what} do not come from the tokens that are shown"
        return self._kind


class Texts(Provenance):
    """A module that reads several texts, each on a stream of its own."""

    def __init__(
        self,
        inputs: Mapping[str, Sequence[Tensor]],
        kinds: Sequence[SiteKind],
        lengths: Mapping[str, int],
    ) -> None:
        super().__init__(inputs)
        self._kinds = {(kind.query_stream, kind.key_stream): kind for kind in kinds}
        self._lengths = lengths

    def kind(self, n_query: int, n_key: int) -> SiteKind | str:
        for what, origins in (("queries", self._queries), ("keys", self._keys)):
            if not origins:
                return f"it is not known which text its {what} come from"
            if len(origins) > 1:
                return f"its {what} come from {' and '.join(sorted(origins))} together"
        return self._kinds[next(iter(self._queries)), next(iter(self._keys))]

    def lengths(self, kind: SiteKind) -> tuple[int, int]:
        return self._lengths[kind.query_stream], self._lengths[kind.key_stream]


def _tensors(values: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and mappings."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _tensors(value)
