"""What the section Score by distance shows of a run: the scores of one head by distance; of one query and one key, what turning
alone makes of their score; what both are, and the checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from models.analysis.checks import Check, check_used
from models.analysis.scores_by_distance import (
    RotatedPair,
    ScoresByDistance,
    rotated_pair,
    scores_by_distance,
)
from models.layers.masks import LOOK_AHEAD
from models.trace import AttentionSite
from viz_app import words
from viz_app.drawing import notes
from viz_app.drawing.labels import Label, labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import Facts, facts, saving
from viz_app.drawing.weight_cell import Cell, token_choice
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.positions import rotation_claims as claims
from viz_app.views.positions import rotation_text as say

DISTANCE = "distance: position of the query − position of the key"


@dataclass(frozen=True)
class Choices:
    """The attention and its head; the places of a query, None for the last token, and of a key."""

    site: str
    head: int
    query: int | None = None
    key: int = 0


@dataclass(frozen=True)
class DistanceView:
    """One run's scores by distance."""

    run: CurrentRun
    choices: Choices

    @cached_property
    def site(self) -> AttentionSite:
        return self.run.trace.attention[self.choices.site]

    @cached_property
    def tokens(self) -> list[Label]:
        return labels(self.run.trace.streams[self.site.query_stream])

    @cached_property
    def places(self) -> tuple[int, int]:
        """Of the query, and of a key that does not stand behind it."""
        last = len(self.tokens) - 1
        query = last if self.choices.query is None else min(self.choices.query, last)
        return query, min(self.choices.key, query)

    @cached_property
    def all_pairs(self) -> ScoresByDistance:
        return scores_by_distance(
            self.site, self.choices.head, back_only=self.run.scope.model.continues
        )

    @cached_property
    def one_pair(self) -> RotatedPair | None:
        """None of a model that turns nothing."""
        turns = self.run.scope.model.rotation(max(2, len(self.tokens)))
        return (
            None
            if turns is None
            else rotated_pair(self.site, turns, self.choices.head, *self.places)
        )

    @property
    def axes(self) -> tuple[str, str]:
        """What both pictures are drawn along: the distance, and the score by its formula."""
        return DISTANCE, f"score {words.formula(self.site)}, before the mask"

    @property
    def hidden(self) -> bool:
        """Return True if the look-ahead mask blocks a key of this run."""
        return any(layer.name == LOOK_AHEAD and layer.blocks for layer in self.site.mask.layers)

    @property
    def file(self) -> str:
        return file_name(
            self.run.trace, "score-by-distance", self.site.name, f"head{self.choices.head + 1}"
        )

    @property
    def about(self) -> Facts:
        return facts(self.run.trace)


def sites_by_kind(run: CurrentRun) -> dict[str, list[AttentionSite]]:
    """The attentions whose tokens read each other, and whose queries and keys are known."""
    kinds = ((kind, sites, sites[0]) for kind, sites in by_kind(run.trace))
    return {
        kind: sites
        for kind, sites, one in kinds
        if one.query_stream == one.key_stream and one.has_causes
    }


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the section's components show of a run."""
    view = DistanceView(run, choices)
    all_pairs, one_pair, (query, key) = view.all_pairs, view.one_pair, view.places
    scores = None if one_pair is None else one_pair.scores()[: len(view.tokens)]
    domain, where = domain_of(all_pairs, scores), words.place(view.site, choices.head)
    drawn: Pictures = {
        "positions-distance": every_pair(
            all_pairs, f"{where}: score by distance", view.axes, domain, view.file, view.about
        ),
        "positions-explained": notes.rows(
            "explained", *say.distances(all_pairs, one_pair is not None, view.hidden)
        ),
        "checks": notes.check_rows(checks(view)),
    }
    if one_pair is None:
        return drawn
    names = [f"{place} {view.tokens[place].text}" for place in (query, key)]
    return drawn | {
        "choice": token_choice(
            run.trace, Cell(view.site, choices.head, query, key), run.terms, query + 1
        ),
        "positions-carried": only_turned(
            scores, query - key, names, view.axes, domain, f"{view.file}.turned", view.about
        ),
    }


def checks(view: DistanceView) -> list[Check]:
    """That the head's weights are what the model used, and what turning claims."""
    used, (query, key) = [check_used(view.site)], view.places
    if view.one_pair is None:
        return used
    return used + claims.rotated_pair(view.one_pair, view.site, view.choices.head, query - key)


def every_pair(
    all_pairs: ScoresByDistance,
    title: str,
    axes: tuple[str, str],
    domain: tuple[float, float],
    file: str,
    about: Facts,
) -> bytes:
    """The payload of the component `by_distance`: the mean score at each distance, from the least to the largest."""
    arrays = {"value": all_pairs.mean, "least": all_pairs.least, "largest": all_pairs.largest}
    numbers = {name: scores.numpy() for name, scores in arrays.items()}
    counts = {
        name: getattr(all_pairs, of).numpy().astype(np.int32)
        for name, of in (("distance", "distance"), ("pairs", "pairs"))
    }
    return _pack(title, axes, domain, file, about, **counts, **numbers)


def only_turned(
    scores: Tensor,
    distance: int,
    names: Sequence[str],
    axes: tuple[str, str],
    domain: tuple[float, float],
    file: str,
    about: Facts,
) -> bytes:
    """The same of the score of one query and one key carried to each distance; where they stand in the text is marked."""
    query, key = names
    places = np.arange(len(scores), dtype=np.int32)
    return _pack(
        f"{query} asks {key}: their score, only turned",
        axes,
        domain,
        file,
        about,
        marked=distance,
        distance=places,
        value=scores.numpy(),
    )


def _pack(
    title: str,
    axes: tuple[str, str],
    domain: tuple[float, float],
    file: str,
    about: Facts,
    marked: int | None = None,
    **arrays: np.ndarray,
) -> bytes:
    header = {
        "title": title,
        "axes": axes,
        "domain": domain,
        "marked": marked,
        **saving(file, about),
    }
    return pack(header, **arrays)


def domain_of(all_pairs: ScoresByDistance, one_pair: Tensor | None) -> tuple[float, float]:
    """One scale for both, 0 on it."""
    values = [all_pairs.least, all_pairs.largest, *([] if one_pair is None else [one_pair])]
    return min(0.0, *(float(v.min()) for v in values)), max(1e-9, *(float(v.max()) for v in values))
