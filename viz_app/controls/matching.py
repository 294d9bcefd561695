"""Distances of heads of one or two models over held-out texts, measured in the background."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import combinations

from models import Scope
from models.analysis.head_matching import (
    ADVISED,
    KindDistances,
    average_distances,
    distances_of_text,
    null_distances,
)
from models.held_out_texts import RunFields, common_texts, runs
from viz_app import checkpoints
from viz_app.controls import pick
from viz_app.controls.slices import SlicedWork, Slices
from viz_app.session import cache
from viz_app.session.other_seeds import other_seeds

MATCHED_PER_PASS = 8  # texts in one pass, so that it can be stopped soon
MIN_SEEDS = 2  # the null distribution compares them with each other

MatchKey = tuple[str, ...]  # fingerprints and similarities of both models
_MATCHINGS = Slices("compare-matching")


@dataclass(frozen=True)
class MatchedHeads:
    """Distances over texts and, by kind, those of matched heads between seeds of the recipe."""

    kinds: tuple[KindDistances, ...]
    null: dict[str, list[float]]
    seeds: tuple[str, ...]
    n_texts: int


def measured_steps(
    first: Scope, second: Scope, seeds: Sequence[Scope], texts: Sequence[RunFields]
) -> Generator[int, None, MatchedHeads]:
    """Yield the number of texts compared so far, of `n_steps`; return the results.

    Raises:
        ValueError: no part of the models can be compared.
    """
    pairs = [(first, second), *combinations(seeds, 2)]
    compared, done = [], 0
    for one, other in pairs:
        of_texts = []
        for i in range(0, len(texts), MATCHED_PER_PASS):
            part = texts[i : i + MATCHED_PER_PASS]
            ours = list(runs(one, part, first))
            theirs = ours if other is one else list(runs(other, part, first))
            of_texts += [distances_of_text(a, b) for a, b in zip(ours, theirs, strict=True)]
            done += len(part)
            yield done
        compared.append(average_distances(of_texts))
    matches, *null = compared
    names = tuple(scope.name for scope in seeds)
    return MatchedHeads(tuple(matches), null_distances(null), names, len(texts))


def n_steps(n_texts: int, n_seeds: int) -> int:
    """Return how many pairs of runs are compared."""
    return n_texts * (1 + n_seeds * (n_seeds - 1) // 2)


def matched_heads(first: Scope, second: Scope) -> MatchedHeads | None:
    """Return the results for these models, if they were measured here."""
    return _MATCHINGS.result(_key(first, second))


def matching(first: Scope, second: Scope) -> None:
    """Draw the buttons and the progress; nothing once there are results."""
    if matched_heads(first, second) is not None:
        return
    key = _key(first, second)
    is_running = _MATCHINGS.is_running(key)
    with pick.control_row("matching", "small"):
        pick.button(
            "Compare over held-out texts",
            "compare-matching-start",
            lambda: _MATCHINGS.start(key, None, lambda: _matching(first, second)),
            type="primary",
            icon=":material/play_arrow:",
            disabled=is_running,
        )
        pick.button(
            "Stop",
            "compare-matching-stop",
            _MATCHINGS.stop,
            icon=":material/stop:",
            disabled=not is_running,
        )
    _MATCHINGS.draw()


def _key(first: Scope, second: Scope) -> MatchKey:
    return tuple(
        f"{scope.fingerprint} {scope.model.similarity} {scope.model.positions}"
        for scope in (first, second)
    )


def _matching(first: Scope, second: Scope) -> SlicedWork:
    seeds = _seeds(first, second)
    texts = common_texts([first, second, *seeds], None, ADVISED)
    steps = measured_steps(first, second, seeds, texts)
    unit = f"pairs of runs, over {len(texts)} texts"
    n = n_steps(len(texts), len(seeds))
    return SlicedWork(_key(first, second), None, steps, n, unit, "comparing")


def _seeds(first: Scope, second: Scope) -> list[Scope]:
    """Return the other seeds of the first model's recipe; none of them is the second."""
    if first is second:
        return []
    names = [name for name in other_seeds(first) if name not in (first.name, second.name)]
    scopes = [cache.scope(checkpoints.folder(name)) for name in names]
    return scopes if len(scopes) >= MIN_SEEDS else []
