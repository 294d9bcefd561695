"""The checks of the distance shown: by a second formula, against itself and swapped."""

import numpy as np

from models.analysis.checks import Check, check_site
from models.analysis.comparison import MIN_SHARE_LEFT, row_distances
from viz_app.views.compare.compared import Compared

CLOSE = 1e-5  # bits between two routes to one distance


def distance_checks(what: Compared) -> list[Check]:
    """Check the distance by a second route, against itself and swapped."""
    first, second = what.maps
    itself = row_distances(first, first).nan_to_num(0.0)
    swapped = float(row_distances(second, first).nanmean().nan_to_num(0.0))
    by_kl = _by_kl(first.double().numpy(), second.double().numpy())
    return [
        Check(
            "against itself: 0",
            float(itself.max()),
            0.0,
            "The head beside itself, its furthest row, in bits",
        ),
        Check(
            "swapped: the same distance",
            abs(swapped - what.distance),
            CLOSE,
            "The distance with the two sides exchanged, minus the distance shown, in bits",
        ),
        Check(
            "the distance by another formula",
            abs(by_kl - what.distance),
            CLOSE,
            "Half of KL(p‖m) + half of KL(q‖m) with m = (p + q)/2, minus the distance shown, in bits",
        ),
        *check_site(what.site),
    ]


def _by_kl(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean divergence of the rows from two Kullback–Leibler divergences, in bits."""
    has_weights = (first.sum(-1) > 0) | (second.sum(-1) > 0)
    first, second = _with_sink(first), _with_sink(second)
    half = (first + second) / 2
    rows = np.zeros(len(first))
    for one in (first, second):
        ratio = np.divide(one, half, out=np.ones_like(one), where=one > 0)
        rows += (one * np.log2(ratio)).sum(-1) / 2
    return float(rows[has_weights].mean()) if has_weights.any() else 0.0


def _with_sink(rows: np.ndarray) -> np.ndarray:
    """Append a column with the weight that each row leaves to no token."""
    sums = rows.sum(-1, keepdims=True)
    return np.hstack([rows, np.where((sums > 0) & (sums < 1 - MIN_SHARE_LEFT), 1 - sums, 0.0)])
