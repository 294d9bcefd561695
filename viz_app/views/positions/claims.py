"""Checks of the page Positions, each with the value measured and its limit."""

from collections.abc import Sequence

import torch
from torch import Tensor

from models.analysis.checks import ROUNDING, Check, rounding_in
from models.analysis.position_measures import Concatenated, FormulaMeasures, SimilarityByDistance
from models.analysis.scores_by_distance import RotatedPair
from models.analysis.shuffle import ShuffleTest
from models.layers.rotation import Rotation
from models.trace import AttentionSite
from viz_app.views.positions.text import TABLE_NAMES


def formulas(measures: Sequence[FormulaMeasures]) -> list[Check]:
    """Check that a fixed rotation shifts the formulas of sine-cosine pairs.

    The other one has a zero vector.
    """
    return [_zero(m.table, m.formula) if m.formula == "sin-sin" else _turns(m) for m in measures]


def _turns(m: FormulaMeasures) -> Check:
    sentence = (
        f"R·PE(pos) against PE(pos+{m.shift}) over {m.n_fit} positions, as a share of their length"
    )
    return Check(
        f"{TABLE_NAMES[m.formula]}: a shift is a rotation", m.rotation_miss, 1e-9, sentence
    )


def _zero(table: Tensor, formula: str) -> Check:
    return Check(
        f"{TABLE_NAMES[formula]}: PE(0) is zero",
        _largest(table[0]),
        0.0,
        "Largest value in the vector of position 0, which no matrix can move",
    )


def table_checks(formula: str, values: Tensor, similarity: SimilarityByDistance) -> list[Check]:
    """Check properties of every table that this formula makes."""
    if formula == "sin-sin":
        return [_zero(values, formula)]
    half = (values.shape[1] / 2) ** 0.5
    uneven = _largest(values.norm(dim=1) - half)
    return [
        Check(
            "all vectors have length √(d/2)", uneven, 1e-9, f"Largest difference from {half:.4g}"
        ),
        Check(
            "only the distance counts",
            similarity.spread,
            1e-9,
            "Largest spread of PE·PEᵀ at any one distance",
        ),
    ]


def own_table_checks(used: Tensor, table: Tensor, kind: str, by_formula: Tensor) -> list[Check]:
    """Check that the model's table is what the run added and, if sinusoidal, the paper's."""
    gap = _largest(used - table[: len(used)])
    checks = [
        Check("the model adds this table", gap, 0.0, "Largest difference from the run on your text")
    ]
    if kind == "sinusoidal":
        sentence = f"Largest difference over {len(table)} positions"
        checks.append(
            Check("it is the paper's formula", _largest(table - by_formula), 1e-6, sentence)
        )
    return checks


def shuffle_checks(shuffled: ShuffleTest, bare: ShuffleTest, recorded: Tensor) -> list[Check]:
    """Check that without positions the outputs are only reordered.

    A second check: the test used the run that is shown, which is `bare` if its positions are
    switched off.

    Float32: sums in another order differ by some 1e-7 of the values, and each layer adds to it.
    """
    at = shuffled.stages.index("last LayerNorm") - 1 if "last LayerNorm" in shuffled.stages else -1
    gap, size = _largest(shuffled.original[at] - recorded), max(1.0, _largest(recorded))
    about = "Largest change of any vector at any layer, as a share of its length"
    recorded_as = "Largest difference from the last layer as recorded"
    return [
        Check("without positions, order is invisible", float(bare.largest.max()), 1e-4, about),
        Check("the same run as on the other pages", gap, 1e-5 * size, recorded_as),
    ]


def recurrent_checks(test: ShuffleTest, recorded: Tensor) -> list[Check]:
    """Check that an RNN's state depends only on what it has read so far.

    A second check: the test used the run that is shown. `recorded` is (stage, n, d).
    """
    indices = [i for i, place in enumerate(test.order) if place != i]
    first, last = (indices[0], indices[-1]) if indices else (len(test.order), -1)
    change, size = test.change, max(1.0, _largest(recorded))
    checks = [
        Check(
            "what is read before cannot change",
            _largest(change[0, :first]),
            1e-6,
            "Reading forwards: largest change of a state before the first moved token, as a share of its length",
        ),
    ]
    if len(test.stages) > 1:
        checks.append(
            Check(
                "the same, reading backwards",
                _largest(change[1, last + 1 :]),
                1e-6,
                "Reading backwards: largest change of a state after the last moved token",
            )
        )
    gap = _largest(test.original - recorded)
    return [
        *checks,
        Check(
            "the same run as on the other pages",
            gap,
            1e-5 * size,
            "Largest difference from the states recorded",
        ),
    ]


def adding(both: Concatenated, total: Tensor) -> list[Check]:
    """Check that both ways give the same result, over all tokens of the source."""
    size, sentence = max(1.0, _largest(both.added)), "Largest difference over all tokens"
    return [
        Check("[x; p]·[I; I] is x + p", _largest(both.folded - total), 1e-6 * size, sentence),
        Check("[x; p]·[W; W] is (x + p)·W", both.difference, 1e-5 * size, sentence),
    ]


def queries(both: Concatenated, bias: Tensor, q: Tensor) -> Check:
    """Check that the model's first attention used the product; q is (head, query, d_head)."""
    gap, size = _largest(both.added + bias - q.transpose(0, 1).flatten(1)), max(1.0, _largest(q))
    sentence = "Largest difference of (x + p)·W_Q + b from the q of the run"
    return Check("these are the model's own queries", gap, 1e-5 * size, sentence)


def rotation_checks(turns: Rotation, dtype: torch.dtype) -> list[Check]:
    """Check that a run confirms the angles, and that each position adds the same rotation."""
    n, angles = len(turns.cos), turns.angles
    uneven = float((angles - angles[1] * torch.arange(n, dtype=torch.float64)[:, None]).abs().max())
    return [
        Check(
            "the model rotates by these angles",
            turns.miss,
            rounding_in(dtype),
            "One token at several positions, all layers and heads: largest relative difference of q and k from "
            "position 0's, rotated",
        ),
        Check(
            "each position adds the same rotation",
            uneven,
            2e-6 * n,
            "Largest difference from position × first angle, in radians",
        ),
    ]


def rotated_pair_checks(
    one_pair: RotatedPair, site: AttentionSite, head: int, distance: int
) -> list[Check]:
    """Check the recorded score of the query and key at their places in the text.

    Moved together, they keep every score.
    """
    scores, (query, key) = one_pair.scores(), one_pair.places
    limit = ROUNDING * max(1.0, float(scores.abs().max()), one_pair.length)
    recorded = site.scores(head, rows=slice(query, query + 1))[0, key].cpu()
    shift = max(1, len(scores) // 2)
    other_scores = one_pair.scores(shift)
    return [
        Check(
            "rotating q and k back and forth restores them",
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
            float((other_scores - scores[: len(other_scores)]).abs().max()),
            limit,
            f"Largest change of any score when query and key are shifted together by {shift}",
        ),
    ]


def _largest(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0
