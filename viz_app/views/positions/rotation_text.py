"""What the Positions page says of turned queries and keys, and of scores by distance."""

import torch
from torch import Tensor

from models.analysis.scores_by_distance import ScoresByDistance
from models.architectures import Model
from models.architectures.base import BY_MASK, BY_SCORES
from models.layers.rotation import Rotation
from viz_app.views.positions.text import length

_OTHERS = "In others each query and each key is turned by angles that its position sets (rotary positions)."
_NONE = f"**This model has no rotary positions.** {_OTHERS}"
_UNKNOWN = (
    f"**No rotation is shown for this model.** {_OTHERS} Of this one no module is known that makes such angles and that a run of it "
    "bears out, so nothing is claimed."
)
NO_SCORES = (
    "**There are no scores by distance here.** They need a text whose tokens attend to each other, with queries and keys that the "
    "run lays open."
)
BAND = "Line: mean over all pairs of the text at this distance. Band: least to largest."
CARRIED = "This query and this key as they were before they were turned, turned to each distance. Orange: where they stand in the text."


def size(n: int, n_pairs: int) -> str:
    """How large the map is."""
    return f"{n} positions × {n_pairs} pairs of dimensions"


def no_rotation(model: Model) -> str:
    """Why no angles are shown of a model that is not known to turn its queries and keys."""
    return _NONE if model.order_from in (BY_SCORES, BY_MASK) else _UNKNOWN


def within_half_a_turn(angles: Tensor) -> Tensor:
    """Angles in turns, whole turns left out: from −½ to ½."""
    turns = angles / (2 * torch.pi)
    return turns - turns.round()


def rotation(turns: Rotation, d_head: int, n: int) -> str:
    """What is turned, and how fast."""
    pairs, waves = turns.n_pairs, turns.wavelengths
    rest = d_head - 2 * pairs
    what = (
        f"the first {2 * pairs} of its {d_head} numbers" if rest else f"all of its {d_head} numbers"
    )
    left = f" The other {rest} are left as they are, the same at every position." if rest else ""
    stretched = float(turns.stretch.max())
    longer = (
        f" Each pair is also made {stretched:.4g} times as long."
        if abs(stretched - 1) > 1e-6
        else ""
    )
    return (
        f"**Each query and each key is turned**, in every layer and head, by these angles: {what}, in {pairs} pairs. Pair i is "
        f"dimensions i and i + {pairs}.{left}{longer} The fastest pair comes round once in {length(float(waves.min()))} positions, "
        f"the slowest once in {length(float(waves.max()))}; {int((waves <= n).sum())} of {pairs} come round within the {n} "
        "positions shown. The product of a query and a key depends on the difference of their angles only, so on how far apart "
        "they stand. The map leaves whole turns out: −½ and ½ are the same."
    )


def distances(scores: ScoresByDistance, turns: bool, hidden: bool) -> list[tuple[str, str]]:
    """What the pictures by distance are, as rows of plain text; `hidden` where the look-ahead mask hides the keys after a query."""
    left_out = hidden and int(scores.distance.min()) == 0
    behind = " A key never comes after its query here: the look-ahead mask hides those." * left_out
    rows = [
        ("lead", f"By distance: all {int(scores.pairs.sum()):,} pairs of a query and a key"),
        (
            "line",
            f"By how far apart they stand. Content and position are both in these scores.{behind}",
        ),
    ]
    alone = [
        ("lead", "Only turned: one query and one key"),
        (
            "line",
            "The tokens stay the same, only the positions change: what the line does is the rotation and nothing else.",
        ),
    ]
    return rows + alone * turns
