"""Scores of one head by the distance between query and key, and the effect of rotation alone."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.analysis.slices import WEIGHTS_PER_SLICE
from models.layers.rotation import Rotation
from models.trace import AttentionSite


@dataclass(frozen=True)
class ScoresByDistance:
    """Scaled scores before the mask: mean, least and largest over all pairs at a distance.

    `distance` is the query's position minus the key's.
    """

    distance: Int[Tensor, "m"]
    mean: Float[Tensor, "m"]
    least: Float[Tensor, "m"]
    largest: Float[Tensor, "m"]
    pairs: Int[Tensor, "m"]


def scores_by_distance(site: AttentionSite, head: int, *, back_only: bool) -> ScoresByDistance:
    """Return the scores by distance, of all pairs or of those whose key is not after the query.

    Computed some rows at a time.
    """
    n = site.n_query
    site, size = site.read("q", "k"), 2 * n - 1
    total, pairs = torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.long)
    least, largest = torch.full((size,), torch.inf), torch.full((size,), -torch.inf)
    step = max(1, WEIGHTS_PER_SLICE // n)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        scores = site.scores(head, rows=rows).float().cpu().flatten()
        place = (torch.arange(n)[rows, None] - torch.arange(n) + n - 1).flatten()
        total.index_add_(0, place, scores.double())
        pairs.index_add_(0, place, torch.ones_like(place))
        least.scatter_reduce_(0, place, scores, "amin")
        largest.scatter_reduce_(0, place, scores, "amax")
    selected = slice(n - 1 if back_only else 0, None)
    mean = (total / pairs).float()
    return ScoresByDistance(
        torch.arange(1 - n, n)[selected],
        mean[selected],
        least[selected],
        largest[selected],
        pairs[selected],
    )


@dataclass(frozen=True)
class RotatedPair:
    """Query and key of two tokens of a text, each (1, d_head), and their positions, `places`."""

    site: AttentionSite
    rotation: Rotation
    query: Float[Tensor, "1 d_head"]
    key: Float[Tensor, "1 d_head"]
    places: tuple[int, int]

    def scores(self, shift: int = 0) -> Float[Tensor, "n"]:
        """Return the score at each distance 0, 1, … with both vectors rotated again.

        The key is rotated to position `shift`, the query to each later position of the rotation
        table.
        """
        query, key = self._unrotate()
        places = torch.arange(shift, len(self.rotation.cos))
        queries = self.rotation.rotate(query.expand(len(places), -1), places)
        return self.site.similarity(queries, self.rotation.rotate(key, places[:1]))[:, 0]

    @property
    def miss(self) -> float:
        """Error of rotating both back and forth again."""
        pairs = zip(self._unrotate(), (self.query, self.key), self.places, strict=True)
        return max(
            float((self.rotation.rotate(bare, torch.tensor([at])) - t).abs().max())
            for bare, t, at in pairs
        )

    @property
    def length(self) -> float:
        """|q|·|k|: the largest possible score."""
        return float(self.query.norm() * self.key.norm())

    def _unrotate(self) -> tuple[Tensor, Tensor]:
        query, key = (torch.tensor([at]) for at in self.places)
        return self.rotation.unrotate(self.query, query), self.rotation.unrotate(self.key, key)


def rotated_pair(
    site: AttentionSite, rotation: Rotation, head: int, query: int, key: int
) -> RotatedPair:
    """Return the query of one token of the text and the key of another."""
    q, k = site.q[0, head], site.k[0, head * site.k.shape[1] // site.n_heads]
    q, k = q[query : query + 1].float().cpu(), k[key : key + 1].float().cpu()
    return RotatedPair(site, rotation, q, k, (query, key))
