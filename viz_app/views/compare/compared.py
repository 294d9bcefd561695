"""Two runs and the chosen pair of heads: what the page and a notebook draw, without Streamlit."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.analysis.comparison import Comparison, KindPair
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.provenance import file_name, name_of_two, site_name
from viz_app.drawing.stamp import Facts, facts, of_two
from viz_app.views.compare import text
from viz_app.views.compare.text import Sides

MAX_TEXT_TOKENS = 256  # tokens of a text whose heads are compared
MAX_RUN_WEIGHTS = 12_000_000  # weights of all heads of a run
COMPARED_SCALES = (0.1, 0.25, 0.5, 1.0)  # ends of the difference's scale

ComparedHead = tuple[str, int]  # a site and a head
GridIndex = tuple[int, int]  # a layer and a head of one kind


@dataclass(frozen=True)
class Compared:
    """Two runs, and the chosen pair of heads."""

    comparison: Comparison
    pair: KindPair
    grids: dict[str, Tensor]  # (layer, head) distances by kind
    chosen: GridIndex  # of the first run
    reference: GridIndex | None  # of the second; None: the same head
    is_one_run: bool = False
    is_reread: bool = False  # the second run was made to read the first one's answer
    sides: Sides = text.PAGE

    @property
    def terms(self) -> words.Terms:
        """Names of the first run's task."""
        training = self.comparison.first.model.training
        return words.terms(training.get("task", "unknown"), training.get("languages", ()))

    @property
    def site(self) -> AttentionSite:
        return self.pair.first[self.chosen[0]]

    @property
    def opposite(self) -> GridIndex:
        """Layer and head in the second run."""
        return self.reference or self.chosen

    @property
    def head_names(self) -> tuple[str, str]:
        """The names of both heads."""
        first, second = self.site, self.pair.second[self.opposite[0]]
        return (
            text.compared_head_name(first, self.chosen[1]),
            text.compared_head_name(second, self.opposite[1]),
        )

    def about(self, **more: str) -> Facts:
        """Return the facts of both runs, or of the one whose heads are compared, and `more`."""
        if self.is_one_run:
            return facts(self.comparison.first, **more)
        return of_two(self.comparison.first, self.comparison.second, **more)

    def file(self, *parts: str) -> str:
        """Return the file name of both runs, or of the one whose heads are compared."""
        if self.is_one_run:
            return file_name(self.comparison.first, *parts)
        return name_of_two(self.comparison.first, self.comparison.second, *parts)

    @property
    def file_of_pair(self) -> str:
        """The name of the file of the pair of heads, without its extension."""
        layer, head = self.opposite
        ours = site_name(self.site), f"head{self.chosen[1] + 1}"
        theirs = site_name(self.pair.second[layer]), f"head{head + 1}"
        parts = (*theirs, "compared")
        if self.is_one_run:
            return file_name(self.comparison.first, *ours, "and", *parts)
        return file_name(
            self.comparison.first, *ours, "and", file_name(self.comparison.second, *parts)
        )

    @property
    def maps(self) -> tuple[Tensor, Tensor]:
        return self.pair.maps(0, *self.chosen), self.pair.maps(1, *self.opposite)

    @property
    def distance(self) -> float:
        return float(self.grids[self.pair.kind][self.chosen])

    @property
    def scale(self) -> float:
        """The end of the difference's scale, which all heads of the page share."""
        if self.reference is None:
            largest = self.comparison.largest_difference
        else:
            other = self.pair.maps(1, *self.reference)
            largest = max(
                float((self.pair.maps(0, layer) - other).abs().max())
                for layer in range(len(self.pair.first))
            )
        return next(
            scale for scale in COMPARED_SCALES if largest <= scale or scale == COMPARED_SCALES[-1]
        )


def check_size(trace: Trace) -> None:
    """Check that a run is short enough for all its heads to be compared.

    Raises:
        ValueError: it is too long.
    """
    n = max(len(row.ids) for row in trace.streams.values())
    n_weights = sum(site.n_heads * site.n_query * site.n_key for site in trace.attention.values())
    if n > MAX_TEXT_TOKENS or n_weights > MAX_RUN_WEIGHTS:
        fits = min(MAX_TEXT_TOKENS, int(n * (MAX_RUN_WEIGHTS / max(1, n_weights)) ** 0.5))
        raise ValueError(text.COMPARE_TOO_LONG.format(n, fits))


def head_within(trace: Trace, head: ComparedHead | None) -> ComparedHead | None:
    """Return the head if this run has it."""
    if head is None or (site := trace.attention.get(head[0])) is None or head[1] >= site.n_heads:
        return None
    return head


def of_one_run(comparison: Comparison, focus: ComparedHead, other: ComparedHead | None) -> Compared:
    """Compare every head of the focus's kind with the focus, and choose `other` or the nearest."""
    pair, layer = comparison.of(focus[0]) or (comparison.kinds[0], 0)
    reference = layer, min(focus[1], pair.first[layer].n_heads - 1)
    grid = pair.to_head(*reference)
    place = comparison.of(other[0]) if other else None
    if other and place and place[0] is pair:
        chosen = place[1], other[1]
    else:
        chosen = nearest_other_head(grid, reference) or reference
    return Compared(comparison, pair, {pair.kind: grid}, chosen, reference, is_one_run=True)


def nearest_other_head(grid: Tensor, reference: GridIndex) -> GridIndex | None:
    """Return the nearest other head to a head of the same grid; None if there is none."""
    others = grid.clone()
    others[reference] = torch.nan
    return nearest_head(others) if others.isfinite().any() else None


def nearest_head(grid: Tensor) -> GridIndex:
    """Return the index of the least distance."""
    layer, head = divmod(int(grid.nan_to_num(torch.inf).argmin()), grid.shape[1])
    return layer, head


def compare_heads(
    comparison: Comparison,
    focus: ComparedHead,
    other: ComparedHead | None = None,
    is_reread: bool = False,
    sides: Sides = text.PAGE,
) -> Compared:
    """Compare heads of the same layer and number, or all of a kind with one head of the second run.

    The chosen pair is the one in focus, or the one furthest apart.
    """
    reference = None
    if other:
        for pair in comparison.kinds:
            names = [site.name for site in pair.second]
            if other[0] in names:
                reference = pair, (names.index(other[0]), other[1])
    if reference:
        pair, at = reference
        grids = {pair.kind: pair.to_head(*at)}
    else:
        grids, at = {pair.kind: pair.distances for pair in comparison.kinds}, None
    pair, chosen = _in_focus(comparison, grids, focus) or _furthest(comparison, grids)
    return Compared(comparison, pair, grids, chosen, at, is_reread=is_reread, sides=sides)


def _in_focus(
    comparison: Comparison, grids: dict[str, Tensor], focus: ComparedHead
) -> tuple[KindPair, GridIndex] | None:
    for pair in comparison.kinds:
        grid = grids.get(pair.kind, ())
        for layer, site in enumerate(pair.first[: len(grid)]):
            if site.name == focus[0] and focus[1] < min(site.n_heads, len(grid[layer])):
                return pair, (layer, focus[1])
    return None


def _furthest(comparison: Comparison, grids: dict[str, Tensor]) -> tuple[KindPair, GridIndex]:
    pairs = [pair for pair in comparison.kinds if pair.kind in grids]
    sizes = {kind: grid.nan_to_num(-1.0) for kind, grid in grids.items()}
    pair = max(pairs, key=lambda pair: float(sizes[pair.kind].max()))
    layer, head = divmod(int(sizes[pair.kind].argmax()), grids[pair.kind].shape[1])
    return pair, (layer, head)
