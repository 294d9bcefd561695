"""The section Score by distance: one head's scores, and the share of rotation in one score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from models.analysis.checks import Check, check_used
from models.analysis.scores_by_distance import (
    RotatedPair,
    ScoresByDistance,
    rotated_pair,
    scores_by_distance,
)
from models.architectures.base import BY_MASK
from models.trace import AttentionSite
from viz_app import words
from viz_app.components.catalogue import BY_DISTANCE, CHOICE, PLAIN
from viz_app.controls.which_head import head_row, which_head
from viz_app.drawing import notes
from viz_app.drawing.extent import Extent, domain, scale_picture, signed_extent
from viz_app.drawing.labels import Label, labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name, site_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import Facts, facts, saving
from viz_app.drawing.weight_cell import WeightCell as Weight
from viz_app.drawing.weight_cell import token_choice
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.parameters import Whole
from viz_app.views.page import Columns, File, Foot, PageCell, Prose, ShownComponent, View
from viz_app.views.positions import claims, files
from viz_app.views.positions.rotation import no_rotation
from viz_app.views.run_difference import Quantity
from viz_app.words.allowed import hides_all_later, reads_later

QUERY_POSITION, KEY_POSITION = Whole("positions-query"), Whole("positions-key", 0)
DISTANCE = "distance: position of the query − position of the key"
NO_SCORES = (
    "**There are no scores by distance here.** They need a text whose tokens attend to each other, with queries and "
    "keys known to the app."
)
BAND_OF_PAIRS = "Line: mean over all pairs of tokens at this distance. Band: min–max."
CARRIED = (
    "This query and this key, unrotated, then rotated to each distance. Orange: their distance in the "
    "text."
)


@dataclass(frozen=True)
class DistanceChoices:
    """The attention and its head; the places of a query, None for the last token, and of a key."""

    site: str
    head: int
    query: int | None = None
    key: int = 0


@dataclass(frozen=True)
class DistanceView:
    """One run's scores by distance."""

    run: CurrentRun
    choices: DistanceChoices

    @cached_property
    def site(self) -> AttentionSite:
        return self.run.trace.attention[self.choices.site]

    @cached_property
    def tokens(self) -> list[Label]:
        return labels(self.run.trace.streams[self.site.query_stream])

    @cached_property
    def places(self) -> tuple[int, int]:
        """The query, and a key that does not come after it."""
        last = len(self.tokens) - 1
        query = last if self.choices.query is None else min(self.choices.query, last)
        return query, min(self.choices.key, query)

    @cached_property
    def all_pairs(self) -> ScoresByDistance:
        back_only = self.run.scope.model.continues and not reads_later(self.site)
        return scores_by_distance(self.site, self.choices.head, back_only=back_only)

    @cached_property
    def one_pair(self) -> RotatedPair | None:
        """One query and one key, rotated; None for a model that rotates nothing."""
        turns = self.run.scope.model.rotation(max(2, len(self.tokens)))
        if turns is None:
            return None
        return rotated_pair(self.site, turns, self.choices.head, *self.places)

    @property
    def pair_facts(self) -> Facts:
        """The facts about the run and the one pair."""
        query, key = (f"{place} {self.tokens[place].text}" for place in self.places)
        return facts(self.run.trace, rotated=f"query {query}, key {key}")

    @cached_property
    def carried(self) -> Tensor | None:
        """The score of the one pair at each distance that the text has."""
        return None if self.one_pair is None else self.one_pair.scores()[: len(self.tokens)]

    @property
    def scales(self) -> Extent:
        """One scale for both pictures, 0 on it."""
        carried = () if self.carried is None else (self.carried,)
        return signed_extent(self.all_pairs.least, self.all_pairs.largest, *carried)

    @property
    def axes(self) -> tuple[str, str]:
        """The titles of both axes: the distance, and the score by its formula."""
        return DISTANCE, f"score {words.formula(self.site)}, before the mask"

    @property
    def hidden(self) -> bool:
        """True if the look-ahead mask blocks all keys after their query."""
        return hides_all_later(self.site)

    @property
    def file_of_head(self) -> str:
        """The name of the head's file after that of its run."""
        return f"score-by-distance.{site_name(self.site)}.head{self.choices.head + 1}"

    @property
    def file(self) -> str:
        return file_name(self.run.trace, self.file_of_head)


def sites_by_kind(run: CurrentRun) -> dict[str, list[AttentionSite]]:
    """Return the attentions whose tokens read each other, and whose queries and keys are known."""
    kinds = ((kind, sites, sites[0]) for kind, sites in by_kind(run.trace))
    return {
        kind: sites
        for kind, sites, one in kinds
        if one.query_stream == one.key_stream and one.has_causes
    }


def find_distances(run: CurrentRun) -> View[DistanceChoices] | str:
    """Return the view of this run, or why it has no scores by distance."""
    return DISTANCES_VIEW if sites_by_kind(run) else NO_SCORES


def _choose(run: CurrentRun) -> DistanceChoices:
    kinds = sites_by_kind(run)
    site, focus = chosen_focus(run.trace)
    site = site if site.kind in kinds else next(iter(kinds.values()))[0]
    head = min(focus.head, site.n_heads - 1)
    with head_row():
        which_head(kinds, site, head)
    return DistanceChoices(
        site.name, head, url_state.get(QUERY_POSITION), url_state.get(KEY_POSITION)
    )


def _within(choices: DistanceChoices, run: CurrentRun, other: CurrentRun) -> DistanceChoices:
    """Return the same choices for the other run; its first such attention if it lacks this one."""
    sites = {site.name: site for sites in sites_by_kind(other).values() for site in sites}
    site = sites.get(choices.site) or next(iter(sites.values()))
    return replace(choices, site=site.name, head=min(choices.head, site.n_heads - 1))


def distance_payloads(run: CurrentRun, choices: DistanceChoices) -> Pictures:
    """Make all pictures of the section."""
    view = DistanceView(run, choices)
    positioned = run.scope.model.order_source != BY_MASK
    explained = explain_distances(
        view.all_pairs, view.one_pair is not None, view.hidden, positioned=positioned
    )
    pictures: Pictures = {
        "positions-distance": scale_picture(view.scales, partial(every_pair, view)),
        "positions-explained": notes.rows("explained", *explained),
        "checks": notes.check_rows(_checks(view)),
    }
    if view.one_pair is None:
        return pictures
    query, key = view.places
    weight = Weight(view.site, choices.head, query, key)
    return pictures | {
        "choice": token_choice(run.trace, weight, run.terms, query + 1),
        "positions-carried": scale_picture(view.scales, partial(only_rotated, view)),
    }


def _quantities(run: CurrentRun, choices: DistanceChoices) -> list[Quantity]:
    """Return the scores of the head by distance: their mean, the least and the largest."""
    view = DistanceView(run, choices)
    pairs, place = view.all_pairs, words.head_place(view.site, choices.head)
    scores = {"mean": pairs.mean, "least": pairs.least, "largest": pairs.largest}
    values, names = torch.stack(list(scores.values())), [Label(name) for name in scores]
    distances = [Label(str(distance)) for distance in pairs.distance.tolist()]
    return [
        Quantity(
            f"the scores by distance, {words.lower_first(place)}",
            "score",
            values,
            names,
            "row",
            columns=distances.__getitem__,
            of_columns="distance",
            same={"number of tokens": len(view.tokens)},
            file=view.file_of_head,
            about=facts(run.trace),
        )
    ]


def _checks(view: DistanceView) -> list[Check]:
    """Check that the model used the head's weights, and the identities of rotation."""
    used, (query, key) = [check_used(view.site)], view.places
    if view.one_pair is None:
        return used
    return used + claims.rotated_pair_checks(
        view.one_pair, view.site, view.choices.head, query - key
    )


def every_pair(view: DistanceView, scales: Extent) -> bytes:
    """Return the payload of the component `by_distance`: the mean score at each distance.

    Distances go from the least to the largest.
    """
    pairs = view.all_pairs
    arrays = {
        "distance": pairs.distance.numpy().astype(np.int32),
        "pairs": pairs.pairs.numpy().astype(np.int32),
        "value": pairs.mean.numpy(),
        "least": pairs.least.numpy(),
        "largest": pairs.largest.numpy(),
    }
    title = f"{words.head_place(view.site, view.choices.head)}: score by distance"
    saved = saving(view.file, facts(view.run.trace))
    return _pack(view, scales, title, saved, None, **arrays)


def only_rotated(view: DistanceView, scales: Extent) -> bytes:
    """Return the payload of the score of one query and key carried to each distance.

    Their own distance in the text is marked.
    """
    names = [f"{place} {view.tokens[place].text}" for place in view.places]
    query, key = view.places
    return _pack(
        view,
        scales,
        f"{names[0]} → {names[1]}: the score by rotation alone",
        saving(f"{view.file}.rotated", view.pair_facts),
        query - key,
        distance=np.arange(len(view.carried), dtype=np.int32),
        value=view.carried.numpy(),
    )


def _pack(
    view: DistanceView,
    scales: Extent,
    title: str,
    saved: Mapping[str, str],
    marked: int | None,
    **arrays: np.ndarray,
) -> bytes:
    header = {
        "title": title,
        "axes": view.axes,
        "domain": domain(scales),
        "marked": marked,
        **saved,
    }
    return pack(header, **arrays)


def _layout(run: CurrentRun, choices: DistanceChoices, pictures: Pictures) -> Sequence[PageCell]:
    """Place the tokens to choose above the pictures, and the sentences in the drawer."""
    pairs: PageCell = ShownComponent(BY_DISTANCE, "positions-distance", caption=BAND_OF_PAIRS)
    sentences: list[PageCell] = [ShownComponent(PLAIN, "positions-explained")]
    if "positions-carried" in pictures:
        carried = ShownComponent(BY_DISTANCE, "positions-carried", caption=CARRIED)
        pairs = Columns((1, 1), ([pairs], [carried]), ("Score", "Share that attends"))
    else:
        sentences.append(Prose(no_rotation(run.scope.model)))
    return [
        ShownComponent(CHOICE, choose={"on_choose": _choose_pair}),
        pairs,
        Foot(cells=sentences),
    ]


def explain_distances(
    scores: ScoresByDistance, turns: bool, hidden: bool, *, positioned: bool = True
) -> list[tuple[str, str]]:
    """Explain the pictures, as rows of plain text.

    `hidden` is True where the look-ahead mask hides the keys after a query, `positioned` is False
    for a model without positions.
    """
    in_scores = (
        "Content and position are both in these scores."
        if positioned
        else "No position is added here: these scores come from the content, under the masks."
    )
    left_out = hidden and int(scores.distance.min()) == 0
    order_note = (
        " A key never comes after its query here: the look-ahead mask hides those." * left_out
    )
    rows = [
        ("lead", f"By distance: all {int(scores.pairs.sum()):,} pairs of a query and a key"),
        (
            "line",
            f"{in_scores}{order_note}",
        ),
    ]
    turn_rows = [
        ("lead", "Rotation alone: one query and one key"),
        (
            "line",
            "The tokens stay the same and only their distance changes, so the line shows the rotation alone.",
        ),
    ]
    return rows + turn_rows * turns


def _files(run: CurrentRun, choices: DistanceChoices) -> Sequence[File]:
    def scores(now: CurrentRun) -> str:
        view = DistanceView(now, choices)
        return files.distances_csv(view.all_pairs, view.one_pair)

    def about(now: CurrentRun) -> Facts:
        view = DistanceView(now, choices)
        return facts(now.trace) if view.one_pair is None else view.pair_facts

    name = f"{DistanceView(run, choices).file}.csv"
    return [File("Scores by distance, CSV", scores, name, about)]


def _choose_pair(query: int, key: int) -> None:
    """Choose another query, or this key."""
    url_state.set_value(QUERY_POSITION, query)
    if key >= 0:
        url_state.set_value(KEY_POSITION, key)


DISTANCES_VIEW = View(
    distance_payloads,
    _layout,
    choose=_choose,
    within=_within,
    files=_files,
    quantities=_quantities,
)
