"""The payload of the grid: how far every head is from its counterpart, or from one head."""

import math
from typing import Any

from viz_app import words
from viz_app.drawing.stamp import Facts, saving
from viz_app.views.compare import text
from viz_app.views.compare.compared import Compared, nearest_head, nearest_other_head

MIN_END = 0.01  # bits: least end of the scale, so that rounding errors stay pale


def distances(what: Compared) -> dict[str, Any]:
    """Return the payload of the grid of all heads."""
    kinds = []
    for pair in what.comparison.kinds:
        if (grid := what.grids.get(pair.kind)) is None:
            continue
        sites = pair.first[: len(grid)]
        kinds.append(
            {
                "title": words.kind_title(pair.first[0]),
                "note": text.partial(pair) if what.reference is None else "",
                "sites": [site.name for site in sites],
                "layers": [site.layer + 1 for site in sites],
                "heads": grid.shape[1],
                "values": [[v if math.isfinite(v) else None for v in row] for row in grid.tolist()],
            }
        )
    ours = {site.kind: site for site in what.comparison.first.attention.values()}
    reasons = {words.kind_title(ours[kind]): why for kind, why in what.comparison.reasons.items()}
    return {
        "why": "",
        **saving(what.file("distances"), about_distances(what)),
        "title": _title(what),
        "sentence": _sentence(what),
        "legend": text.COMPARE_LEGEND,
        "unit": "bits",
        "largest": max(
            [MIN_END, *(float(grid.nan_to_num(0).max()) for grid in what.grids.values())]
        ),
        "kinds": kinds,
        "reasons": [f"{title}: {why}." for title, why in reasons.items()],
        "chosen": {"site": what.site.name, "head": what.chosen[1]},
        "reference": _reference(what),
    }


def about_distances(what: Compared) -> Facts:
    """Return the facts about the distances of all heads, and from which head they are."""
    return what.about(distance=f"in bits to {_compared_with(what, 'the second run')}")


def _reference(what: Compared) -> dict[str, Any] | None:
    """Return the head of this run that all are compared with; None if it is in another run."""
    if not what.is_one_run or what.reference is None:
        return None
    layer, head = what.reference
    return {"site": what.pair.first[layer].name, "head": head}


def _title(what: Compared) -> str:
    return f"How far each head is from {_compared_with(what, what.sides.second)}"


def _compared_with(what: Compared, second: str) -> str:
    """Return the head that all are compared with, in the run called `second` if there are two."""
    if what.reference is None:
        return f"the same head of {second}"
    other = text.compared_head_name(what.pair.second[what.reference[0]], what.reference[1])
    return other if what.is_one_run else f"{other} of {second}"


def _sentence(what: Compared) -> str:
    if what.reference is None:
        best = max(what.comparison.kinds, key=lambda pair: float(pair.distances.max()))
        layer, head = divmod(int(best.distances.argmax()), best.n_heads)
        n = sum(grid.numel() for grid in what.grids.values())
        place = text.compared_head_name(best.first[layer], head)
        return text.furthest(place, float(best.distances[layer, head]), n)
    grid, reference = what.grids[what.pair.kind], what.reference
    name = text.compared_head_name(what.pair.second[reference[0]], reference[1])
    if what.is_one_run:
        at = nearest_other_head(grid, reference)
    else:
        at, name = nearest_head(grid), f"{name} of {what.sides.second}"
    place = "" if at is None else text.compared_head_name(what.pair.first[at[0]], at[1])
    return text.nearest_head_text(name, place, 0.0 if at is None else float(grid[at]))
