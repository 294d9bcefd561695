"""`attnscope compare`: how far apart the heads of two checkpoints are, over held-out texts."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

from tqdm import tqdm

from models.ablate_command import MIN_ABLATION_TEXTS, yield_held_out
from models.analysis.comparison import POSITIONS, WORDS
from models.analysis.head_matching import (
    ADVISED,
    KindDistances,
    Match,
    match_heads,
    mean_distances,
    null_distances,
    similarity_within,
)
from models.analysis.paired import Interval, bootstrap
from models.architectures.base import TEXT_FIELD
from models.checkpoint_files import write_bytes
from models.devices import chosen_device
from models.errors import InputError
from models.opening import load
from models.runs.scope import Scope
from models.tasks.pair_files import names as names_of
from models.trace import Trace

COMPARED_PER_PASS = 32  # texts in one pass
COMPARED_BY = {
    WORDS: "compared by words: the mean over a word's queries, the sum over its keys",
    POSITIONS: "some texts differ and are compared by position",
}
RunFields = tuple[str, ...]
Intervals = list[list[Interval]]  # by layer and head


def run_compare(options: argparse.Namespace) -> int:
    """Run `attnscope compare`; return the exit status."""
    device = chosen_device(options.device)
    if len(options.null) == 1:
        raise ValueError("--null needs at least two checkpoints, to compare them with each other")
    first, second = (load(name, device=device) for name in (options.first, options.second))
    path = options.out or Path(f"compare-{first.name}-{second.name}.json")
    if path.is_dir():
        raise ValueError(f"--out must be a file, but {path} is a folder")
    others = [load(name, device=device) for name in options.null]
    texts = common_texts([first, second, *others], options.data, options.limit)
    pairs = [(first, second), *combinations(others, 2)]
    with tqdm(total=len(texts) * (len(pairs) + 1), unit="text", leave=False) as bar:
        distances, *null = (_distances(one, other, texts, bar) for one, other in pairs)
        within = similarity_within(_with_progress(runs(first, texts), bar))
    null_drawn = null_distances(null)
    matches = {kind.kind: match_heads(kind, null_drawn.get(kind.kind, ())) for kind in distances}
    intervals = {kind.kind: _intervals(kind, options.seed) for kind in distances}
    saved = _saved(first, second, others, texts, distances, within, intervals, matches, null_drawn)
    _report(first, second, len(texts), distances, intervals, matches)
    write_bytes(path, json.dumps(saved, indent=1, ensure_ascii=False).encode())
    print(f"saved to {path}")
    return 0


def common_texts(
    scopes: Sequence[Scope], paths: Sequence[Path] | None, limit: int
) -> list[RunFields]:
    """Return the first held-out texts of the first checkpoint that all can read.

    A model that does not translate reads the first text of a pair.

    Raises:
        ValueError: there are too few.
    """
    texts: list[RunFields] = []
    for values in map(tuple, yield_held_out(scopes[0], paths, limit)):
        if len(texts) == limit:
            break
        try:
            for scope in scopes:
                scope.streams(*_fields(scope, values))
        except InputError:
            continue
        texts.append(values)
    if len(texts) < MIN_ABLATION_TEXTS:
        names = ", ".join(dict.fromkeys(scope.name for scope in scopes))
        raise ValueError(
            f"{names_of(paths) if paths else 'the record'} holds {len(texts)} texts that all of {names} can read; "
            f"at least {MIN_ABLATION_TEXTS} are needed"
        )
    return texts


def runs(scope: Scope, texts: Sequence[RunFields]) -> Iterator[Trace]:
    """Yield a run on each text, teacher-forced where it is a pair."""
    n = COMPARED_PER_PASS if scope.model.pads else 1
    for i in range(0, len(texts), n):
        yield from scope.run_batch([_fields(scope, values) for values in texts[i : i + n]])


def _fields(scope: Scope, values: RunFields) -> RunFields:
    fields = [field for field in scope.model.fields if field.kind == TEXT_FIELD]
    required = sum(not field.optional for field in fields)
    return values[: len(fields) if scope.model.translates else min(len(fields), max(1, required))]


def _with_progress(traces: Iterator[Trace], bar: tqdm) -> Iterator[Trace]:
    for trace in traces:
        yield trace
        bar.update()


def _distances(
    first: Scope, second: Scope, texts: Sequence[RunFields], bar: tqdm
) -> list[KindDistances]:
    both = zip(runs(first, texts), runs(second, texts), strict=True)
    return mean_distances(both, bar.update)


def _saved(
    first: Scope,
    second: Scope,
    others: Sequence[Scope],
    texts: Sequence[RunFields],
    distances: Sequence[KindDistances],
    within: Sequence[KindDistances],
    intervals: Mapping[str, Intervals],
    matches: dict[str, list[Match]],
    null: dict[str, list[float]],
) -> dict[str, Any]:
    """Return everything that was found; layers and heads are counted from 0."""
    similarity = {kind.kind: kind.mean.tolist() for kind in within}
    kinds = []
    for kind in distances:
        kinds.append(
            {
                "kind": kind.kind,
                "title": kind.title,
                "compared by": list(kind.how),
                "same head": [
                    [{"mean": one.mean, "low": one.low, "high": one.high} for one in layer]
                    for layer in intervals[kind.kind]
                ],
                "heads of A": [list(place) for place in kind.first],
                "heads of B": [list(place) for place in kind.second],
                "every head of A from every head of B": kind.mean.tolist(),
                "every head of A from every head of A": similarity[kind.kind],
                "matches": [asdict(match) for match in matches[kind.kind]],
                "matches of other checkpoints": null.get(kind.kind, []),
            }
        )
    return {
        "A": {"name": first.name, "fingerprint": first.fingerprint},
        "B": {"name": second.name, "fingerprint": second.fingerprint},
        "null": [scope.name for scope in others],
        "measure": "mean Jensen-Shannon divergence of rows in bits",
        "texts": [list(values) for values in texts],
        "kinds": kinds,
    }


def _intervals(kind: KindDistances, seed: int) -> Intervals:
    """Return the mean distance of each head from the same head, by layer and head."""
    return [[bootstrap(values, seed) for values in layer.T] for layer in kind.own.transpose(0, 1)]


def _report(
    first: Scope,
    second: Scope,
    n_texts: int,
    distances: Sequence[KindDistances],
    intervals: Mapping[str, Intervals],
    matches: dict[str, list[Match]],
) -> None:
    print(
        f"{first.name} and {second.name} on {n_texts} texts: mean Jensen-Shannon divergence of each "
        "head from the same head, in bits from 0 to 1, with its 95 % bootstrap interval"
    )
    for kind in distances:
        notes = [COMPARED_BY[how] for how in kind.how if how in COMPARED_BY]
        print("; ".join([kind.title, *notes]))
        for i, layer in enumerate(intervals[kind.kind]):
            for head, one in enumerate(layer):
                print(f"  {_place((i, head))}  {one.mean:.3f} ({one.low:.3f} to {one.high:.3f})")
    print(
        "heads matched one to one at the least total distance; margin: how much further the next "
        "head is"
    )
    if n_texts < ADVISED:
        print(f"(only {n_texts} texts; {ADVISED} or more are advised)")
    for kind in distances:
        print(kind.title)
        for match in matches[kind.kind]:
            p = "" if match.p is None else f"  p {match.p:.3f}"
            margin = "" if match.margin is None else f"  margin {match.margin:+.3f}"
            print(
                f"  {_place(match.first)} → {_place(match.second)}  {match.distance:.3f}{margin}{p}"
            )
    if any(match.p is not None for some in matches.values() for match in some):
        print(
            "p: (1 + matches between the other checkpoints that are at least as close) / (1 + all of these)"
        )


def _place(place: tuple[int, int]) -> str:
    return f"layer {place[0] + 1} head {place[1] + 1}"
