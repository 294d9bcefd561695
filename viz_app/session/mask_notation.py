"""A mask change as the page offers it: which ready-made mask, whether padding is masked, which cells are painted; and
as a short text for the URL.

The text is items joined by "_": "nolook", "nopad" and "nowindow3" (layers lifted), "causal", "previous", "window2", "blocks3"
(ready-made), and painted rectangles, "f3-5.0" (forbidden: queries 3 to 5, key 0) or "a1.1" (allowed).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from models.layers.masks import LOOK_AHEAD, PADDING, SiteKind
from models.trace.edits import READY_MADE, Cell, MaskChange

LARGEST = 4095  # the last position a cell may name
MOST_CELLS = 100_000  # that a text may paint
_LIFTED = {LOOK_AHEAD: "nolook", PADDING: "nopad"}
_READY = {
    "causal": "causal",
    "previous": "previous",
    "window": "window",
    "block-diagonal": "blocks",
}
_SPAN = r"(\d{1,4})(?:-(\d{1,4}))?"


def hides_the_future(kind: SiteKind) -> bool:
    """Return True if the model's own mask is look-ahead: where a decoder reads the stream it stands on."""
    return kind.stack == "decoder" and kind.role == "self"


def own_choice(kind: SiteKind) -> str:
    """The ready-made mask that is the model's own."""
    return "causal" if hides_the_future(kind) else "none"


def choice(kind: SiteKind, change: MaskChange) -> str:
    """The ready-made mask that is chosen by this change."""
    if change.ready != "none":
        return change.ready
    return "none" if not hides_the_future(kind) or LOOK_AHEAD in change.lifted else "causal"


def choose(
    kind: SiteKind, change: MaskChange, ready: str, k: int, own: Iterable[str] = ()
) -> MaskChange:
    """The same change with another ready-made mask. Where the model's own is look-ahead, none lifts that and whatever else
    but padding is among its `own` layers; the others leave them on."""
    if ready not in READY_MADE:
        raise ValueError(f"a ready-made mask is one of {', '.join(READY_MADE)}, not {ready!r}")
    lifts = {LOOK_AHEAD, *own} - {PADDING} if hides_the_future(kind) and ready == "none" else set()
    laid_over = ready if ready != own_choice(kind) else "none"
    return replace(
        change, ready=laid_over, k=k, lifted=tuple(sorted({*change.lifted} & {PADDING} | lifts))
    )


def mask_padding(change: MaskChange, on: bool) -> MaskChange:
    """The same change with padding masked or not."""
    lifted = {*change.lifted} - {PADDING} | (set() if on else {PADDING})
    return replace(change, lifted=tuple(sorted(lifted)))


def paint(change: MaskChange, cells: Iterable[tuple[int, int, int]]) -> MaskChange:
    """The same change with exactly these painted cells: (query, key, 0 = forbidden or 1 = allowed)."""
    state = {
        (int(q), int(k)): bool(allowed)
        for q, k, allowed in cells
        if 0 <= q <= LARGEST and 0 <= k <= LARGEST
    }
    forbidden, opened = (
        tuple(sorted(cell for cell, on in state.items() if on == wanted))
        for wanted in (False, True)
    )
    return replace(change, forbidden=forbidden, opened=opened)


def painted(change: MaskChange) -> list[list[int]]:
    """The painted cells as `paint` takes them."""
    return [[q, k, 0] for q, k in change.forbidden] + [[q, k, 1] for q, k in change.opened]


def to_text(change: MaskChange) -> str:
    """The change in a few characters that need no escape in a URL; empty for no change."""
    items = [_LIFTED.get(name) or f"no{name.replace(' of ', '')}" for name in change.lifted]
    if change.ready != "none":
        items.append(
            _READY[change.ready]
            + (str(change.k) if change.ready in ("window", "block-diagonal") else "")
        )
    for letter, cells in (("f", change.forbidden), ("a", change.opened)):
        items += [
            f"{letter}{_span(*rows)}.{_span(*keys)}" for rows, keys in sorted(_rectangles(cells))
        ]
    return "_".join(items)


def from_text(text: str) -> MaskChange:
    """What a text asks for; anything unreadable in it is left out."""
    change, cells, n_cells = MaskChange(), [], 0
    names = {short: name for name, short in (*_LIFTED.items(), *_READY.items())}
    for item in text.split("_"):
        if item in _LIFTED.values():
            change = replace(change, lifted=tuple(sorted({*change.lifted, names[item]})))
        elif found := re.fullmatch(r"nowindow(\d{1,4})", item):
            change = replace(
                change,
                lifted=tuple(
                    sorted({*change.lifted, MaskChange(ready="window", k=int(found[1])).ready_name})
                ),
            )
        elif found := re.fullmatch(r"(causal|previous)|(?:(window)|blocks)(\d{1,4})", item):
            change = replace(
                change, ready=names[re.sub(r"\d", "", item)], k=max(1, int(found[3] or change.k))
            )
        elif found := re.fullmatch(rf"([fa]){_SPAN}\.{_SPAN}", item):
            queries, keys = (
                range(int(a), int(b or a) + 1)
                for a, b in ((found[2], found[3]), (found[4], found[5]))
            )
            n_cells += len(queries) * len(keys)
            if n_cells <= MOST_CELLS:
                cells += [(q, k, int(found[1] == "a")) for q in queries for k in keys]
    return paint(change, cells)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _rectangles(cells: Iterable[Cell]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """((first, last query), (first, last key)) of rectangles that cover the cells, each once: runs along a row, joined
    with the same run of the next rows."""
    rows = groupby(sorted(cells), key=lambda cell: cell[0])
    runs = [(q, run) for q, row in rows for run in _runs([k for _, k in row])]
    for keys, same in groupby(sorted(runs, key=lambda r: (r[1], r[0])), key=lambda r: r[1]):
        for queries in _runs([q for q, _ in same]):
            yield queries, keys


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """(first, last) of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs
