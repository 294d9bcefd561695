"""Number the layers of attentions by the model's known layers, or by their paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from models.hub.recording.context import ModuleCall


class _Last(NamedTuple):
    """The last attention of one kind: its number, that of the last one in a list, and its layer."""

    number: int = -1
    in_list: int = -1
    layer: ModuleCall | None = None


class LayerCount:
    """The layer number (from 0) of each attention of a pass.

    `known` is the number of an attention's layer by its path. Elsewhere it is the module's index in
    a list, if its path has a single one. Modules that run again, follow in another list,
    or have no index or several get the next number.
    """

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known, self._last = known, dict[str, _Last]()

    def next(self, kind: str, frames: Sequence[ModuleCall]) -> int:
        """Return the number of an attention of this kind in the innermost of these modules."""
        last, path = self._last.get(kind, _NONE), frames[-1].path
        if path in self._known:
            last = _Last(self._known[path], self._known[path])
        elif (place := _place_in_list(path)) is not None:
            of_layer, index = place
            layer = next((f for f in reversed(frames) if f.path == of_layer), frames[-1])
            if layer is not last.layer:
                number = max(index, last.in_list + 1)
                last = _Last(number, number, layer)
        else:
            number = last.number + 1
            last = _Last(number, number if _is_in_lists(path) else last.in_list)
        self._last[kind] = last
        return last.number

    def join(self, kind: str, number: int) -> None:
        """Count the last attentions of this kind as one layer, of this number."""
        self._last[kind] = _Last(number, number)


_NONE = _Last()


def _is_in_lists(path: str) -> bool:
    """Return True if the path has an index, such as the two of "blocks.0.1.attention"."""
    return any(part.isdigit() for part in path.split("."))


@lru_cache(maxsize=4096)
def _place_in_list(path: str) -> tuple[str, int] | None:
    """Return the path of the layer and its index, unless the path has none or several indices."""
    parts = path.split(".")
    indices = [i for i, part in enumerate(parts) if part.isdigit()]
    if len(indices) != 1:
        return None
    return ".".join(parts[: indices[0] + 1]), int(parts[indices[0]])
