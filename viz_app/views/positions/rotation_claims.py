"""What the Positions page claims of turned queries and keys, each claim with the value measured and its limit."""

import torch

from models.analysis.checks import ROUNDING, Check, rounding_in
from models.analysis.scores_by_distance import RotatedPair
from models.layers.rotation import Rotation
from models.trace import AttentionSite


def rotation(turns: Rotation, dtype: torch.dtype) -> list[Check]:
    """A run bears the angles out, and each position turns on by the same."""
    n, angles = len(turns.cos), turns.angles
    uneven = float((angles - angles[1] * torch.arange(n, dtype=torch.float64)[:, None]).abs().max())
    return [
        Check(
            "the model turns by these angles",
            turns.miss,
            rounding_in(dtype),
            "One token at several positions, all layers and heads: largest difference of its q and k from those at position 0, "
            "turned, as a share of the largest number",
        ),
        Check(
            "each position turns on by the same",
            uneven,
            2e-6 * n,
            "Largest difference from position × first angle, in radians",
        ),
    ]


def rotated_pair(
    one_pair: RotatedPair, site: AttentionSite, head: int, distance: int
) -> list[Check]:
    """Turned to where they stand in the text the query and key have the recorded score; moved together they keep every score."""
    scores, (query, key) = one_pair.scores(), one_pair.places
    limit = ROUNDING * max(1.0, float(scores.abs().max()), one_pair.length)
    recorded = site.scores(head, rows=slice(query, query + 1))[0, key].cpu()
    shift = max(1, len(scores) // 2)
    moved = one_pair.scores(shift)
    return [
        Check(
            "turned back and again, q and k are the recorded ones",
            one_pair.miss,
            limit,
            "Largest difference of any of their numbers",
        ),
        Check(
            "at the distance of the text, the score is the recorded one",
            abs(float(scores[distance] - recorded)),
            limit,
            f"Difference from the score of query {query} and key {key}",
        ),
        Check(
            "only the distance counts",
            float((moved - scores[: len(moved)]).abs().max()),
            limit,
            f"Largest change of any score when query and key are moved on together by {shift}",
        ),
    ]
