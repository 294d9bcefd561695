"""A mask change as the page offers it, and its short notation in the URL.

A change is a ready-made mask, padding masked or not, and painted cells. The notation is a list of
items joined by "_": "nolook", "nopad", "nowindow3" and "no:stride" (layers removed, the last by its
own name), "causal", "previous", "window2", "blocks3" (ready-made), and painted rectangles, "f3-5.0"
(forbidden: queries 3 to 5, key 0) or "a1.1" (allowed).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from urllib.parse import quote, unquote

from models.hub.recording.masks import MODEL_MASK
from models.layers.masks import LOOK_AHEAD, ORDER_MASK, PADDING, SiteKind
from models.trace.edits import READY_MADE, Cell, MaskChange

MAX_POSITION = 4095  # the last position a cell may name
MAX_PAINTED_CELLS = 100_000  # painted cells in one notation
_REMOVALS = {LOOK_AHEAD: "nolook", PADDING: "nopad", ORDER_MASK: "noorder", MODEL_MASK: "noown"}
_READY = {
    "causal": "causal",
    "previous": "previous",
    "window": "window",
    "block-diagonal": "blocks",
}
_SPAN = r"(\d{1,4})(?:-(\d{1,4}))?"


def own_choice(kind: SiteKind) -> str:
    """Return the name of the ready-made mask that equals the model's own."""
    return "causal" if kind.is_causal else "none"


def preset_of(kind: SiteKind, change: MaskChange) -> str:
    """Return the name of the ready-made mask that this change results in."""
    if change.preset != "none":
        return change.preset
    return "none" if not kind.is_causal or LOOK_AHEAD in change.removed_layers else "causal"


def with_preset(
    kind: SiteKind, change: MaskChange, ready: str, k: int, own_layers: Iterable[str] = ()
) -> MaskChange:
    """Return the change with another ready-made mask.

    Where the model's own mask is look-ahead, "none" lifts that and all of its `own_layers` except
    padding; any other choice leaves them on.

    Raises:
        ValueError: there is no ready-made mask of this name.
    """
    if ready not in READY_MADE:
        raise ValueError(f"a preset mask is one of {', '.join(READY_MADE)}, not {ready!r}")
    lifts = {LOOK_AHEAD, *own_layers} - {PADDING} if kind.is_causal and ready == "none" else set()
    added = ready if ready != own_choice(kind) else "none"
    return replace(
        change,
        preset=added,
        k=_fitting(added, k),
        removed_layers=tuple(sorted({*change.removed_layers} & {PADDING} | lifts)),
    )


def _fitting(preset: str, k: int) -> int:
    """Return a k that this ready-made mask may have; only a window may be of 0 tokens."""
    return k if preset == "window" else max(1, k)


def with_padding_masked(change: MaskChange, on: bool) -> MaskChange:
    """Return the change with padding masked or not."""
    removed = {*change.removed_layers} - {PADDING} | (set() if on else {PADDING})
    return replace(change, removed_layers=tuple(sorted(removed)))


def with_painted(change: MaskChange, cells: Iterable[tuple[int, int, int]]) -> MaskChange:
    """Return the change with exactly these painted cells (query, key, 0 forbidden or 1 allowed)."""
    state = {
        (int(q), int(k)): bool(allowed)
        for q, k, allowed in cells
        if 0 <= q <= MAX_POSITION and 0 <= k <= MAX_POSITION
    }
    forbidden, opened = (
        tuple(sorted(cell for cell, on in state.items() if on == allowed_state))
        for allowed_state in (False, True)
    )
    return replace(change, block=forbidden, allow=opened)


def painted_cells(change: MaskChange) -> list[list[int]]:
    """Return the painted cells in the form that `with_painted` takes."""
    return [[q, k, 0] for q, k in change.block] + [[q, k, 1] for q, k in change.allow]


def mask_to_text(change: MaskChange) -> str:
    """Return the notation of a change; "" for no change."""
    items = [_removal(name) for name in change.removed_layers]
    if change.preset != "none":
        items.append(
            _READY[change.preset]
            + (str(change.k) if change.preset in ("window", "block-diagonal") else "")
        )
    for letter, cells in (("f", change.block), ("a", change.allow)):
        items += [
            f"{letter}{_span(*rows)}.{_span(*keys)}" for rows, keys in sorted(_rectangles(cells))
        ]
    return "_".join(items)


def _removal(name: str) -> str:
    """Return the item for a removed layer; of any other name, with "_" and signs escaped."""
    if match := re.fullmatch(r"window of (\d{1,4})", name):
        return f"nowindow{match[1]}"
    return _REMOVALS.get(name) or f"no:{quote(name, safe='').replace('_', '%5F')}"


def _layer_of_removal(item: str) -> str:
    """Return the name of the layer that an item removes; "" if it removes none."""
    if match := re.fullmatch(r"nowindow(\d{1,4})", item):
        return MaskChange(preset="window", k=int(match[1])).preset_name
    if item.startswith("no:"):
        return unquote(item.removeprefix("no:"))
    return next((name for name, short in _REMOVALS.items() if short == item), "")


def parse_mask(text: str) -> MaskChange:
    """Parse the notation of a change; unreadable items are ignored."""
    change, cells, n_cells = MaskChange(), [], 0
    presets = {short: name for name, short in _READY.items()}
    for item in text.split("_"):
        if name := _layer_of_removal(item):
            removed = tuple(sorted({*change.removed_layers, name}))
            change = replace(change, removed_layers=removed)
        elif match := re.fullmatch(r"(causal|previous)|(window|blocks)(\d{1,4})", item):
            preset, k = presets[match[1] or match[2]], int(match[3] or change.k)
            change = replace(change, preset=preset, k=_fitting(preset, k))
        elif match := re.fullmatch(rf"([fa]){_SPAN}\.{_SPAN}", item):
            queries, keys = (
                range(int(a), int(b or a) + 1)
                for a, b in ((match[2], match[3]), (match[4], match[5]))
            )
            n_cells += len(queries) * len(keys)
            if n_cells <= MAX_PAINTED_CELLS:
                cells += [(q, k, int(match[1] == "a")) for q in queries for k in keys]
    return with_painted(change, cells)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _rectangles(cells: Iterable[Cell]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield ((first, last query), (first, last key)) of disjoint rectangles that cover the cells.

    Runs within a row are joined with identical runs of the rows below.
    """
    rows = groupby(sorted(cells), key=lambda cell: cell[0])
    runs = [(q, run) for q, row in rows for run in _runs([k for _, k in row])]
    for keys, same in groupby(sorted(runs, key=lambda r: (r[1], r[0])), key=lambda r: r[1]):
        for queries in _runs([q for q, _ in same]):
            yield queries, keys


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return (first, last) of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs
