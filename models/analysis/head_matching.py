"""Head matching: which head of one model does what which head of another does.

The heads of one kind are matched one to one, over all layers, so that the mean distance of the
matched heads over texts is smallest (the Hungarian algorithm). A margin says how much closer a
match is than the head's second best, and other pairs of checkpoints of the same recipe say how far
apart matched heads usually are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.comparison import KindPair, compare, head_distances
from models.trace import Trace

ADVISED = 200  # texts, below which a match says little

HeadIndex = tuple[int, int]  # a layer and a head, from 0


@dataclass(frozen=True)
class KindDistances:
    """Mean distances of all heads of one kind of a model from those of another, over texts.

    `own` holds the distance of each head from its counterpart, the head of the same number, on each
    text; the layers and heads that only one of the models has are left out.
    """

    kind: str
    title: str
    first: tuple[HeadIndex, ...]
    second: tuple[HeadIndex, ...]
    mean: Float[Tensor, "first second"]
    own: Float[Tensor, "text layer head"]
    how: tuple[str, ...]  # the ways in which texts were compared (comparison.TOKENS and so on)


@dataclass(frozen=True)
class Match:
    """A head of the first model and the head of the second that it is matched to.

    `margin` is the distance of the nearest other head minus that of the match; below 0, another
    head is nearer and matched elsewhere, and None if there is no other. `p` is (1 + k) / (1 + n),
    where k of n matches between other checkpoints of the same recipe are at least as close; None
    without such checkpoints.
    """

    first: HeadIndex
    second: HeadIndex
    distance: float
    margin: float | None
    p: float | None = None


def mean_distances(
    pairs: Iterable[tuple[Trace, Trace]], report: Callable[[], object] = lambda: None
) -> list[KindDistances]:
    """Return the distances of all heads of two models over texts, a pair of runs for each.

    `report` is called after each text. A kind that cannot be compared on every text is left out.

    Raises:
        ValueError: there is no text, or nothing can be compared on all of them.
    """
    of_texts = []
    for first, second in pairs:
        of_texts.append(distances_of_text(first, second))
        report()
    return average_distances(of_texts)


def distances_of_text(first: Trace, second: Trace) -> dict[str, KindDistances]:
    """Return the distances of all heads of two models on one text, by kind.

    Raises:
        ValueError: the runs cannot be compared.
    """
    return {pair.kind: _of_text(pair) for pair in compare(first, second).kinds}


def average_distances(of_texts: Sequence[Mapping[str, KindDistances]]) -> list[KindDistances]:
    """Return the mean over texts of what `distances_of_text` returns, kind by kind.

    Raises:
        ValueError: there is no text, or nothing can be compared on all of them.
    """
    if not of_texts:
        raise ValueError("heads are matched over texts, and there is none")
    distances = []
    for kind, one in of_texts[0].items():
        if all(kind in each for each in of_texts):
            several = [each[kind] for each in of_texts]
            mean = torch.stack([each.mean for each in several]).double().mean(0).float()
            own_distances = torch.cat([each.own for each in several])
            how = tuple(sorted({way for each in several for way in each.how}))
            distances.append(replace(one, mean=mean, own=own_distances, how=how))
    if not distances:
        raise ValueError("no kind of attention can be compared on every text")
    return distances


def similarity_within(traces: Iterable[Trace]) -> list[KindDistances]:
    """Return the mean distances of all heads of a model from each other, over runs of it."""
    return mean_distances((trace, trace) for trace in traces)


def match_heads(distances: KindDistances, null: Sequence[float] = ()) -> list[Match]:
    """Match heads one to one, at the least total distance; `null` comes from `null_distances`.

    Of models with different numbers of heads, some heads of the larger one have no match.
    """
    from scipy.optimize import linear_sum_assignment  # here, because it is slow to import

    rows, columns = linear_sum_assignment(distances.mean.numpy())
    null_sorted = sorted(null)
    matches = []
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        distance = float(distances.mean[row, column])
        others = torch.cat([distances.mean[row, :column], distances.mean[row, column + 1 :]])
        margin = float(others.min()) - distance if len(others) else None
        p = None
        if null_sorted:
            p = (1 + sum(one <= distance for one in null_sorted)) / (1 + len(null_sorted))
        matches.append(Match(distances.first[row], distances.second[column], distance, margin, p))
    return matches


def null_distances(distances: Iterable[Sequence[KindDistances]]) -> dict[str, list[float]]:
    """Return the distances of matched heads between other checkpoints of a recipe, by kind.

    `distances` has one item for each pair of checkpoints.
    """
    null: dict[str, list[float]] = {}
    for pair in distances:
        for kind in pair:
            null.setdefault(kind.kind, []).extend(one.distance for one in match_heads(kind))
    return null


def _of_text(pair: KindPair) -> KindDistances:
    """Return the distances of all heads in one pair of runs."""
    maps = [
        torch.cat([pair.maps(side, layer) for layer in range(len(sites))])
        for side, sites in enumerate((pair.first, pair.second))
    ]
    first, second = (
        tuple((i, head) for i, site in enumerate(sites) for head in range(site.n_heads))
        for sites in (pair.first, pair.second)
    )
    mean = head_distances(*maps)
    rows = {place: i for i, place in enumerate(first)}
    columns = {place: i for i, place in enumerate(second)}
    places = [[(i, head) for head in range(pair.n_heads)] for i in range(pair.n_layers)]
    own_distances = torch.stack(
        [torch.stack([mean[rows[at], columns[at]] for at in layer]) for layer in places]
    )
    title = pair.first[0].site_kind.title
    return KindDistances(pair.kind, title, first, second, mean, own_distances[None], (pair.how,))
