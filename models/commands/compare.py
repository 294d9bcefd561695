"""`attnscope compare`: how far apart the heads of two checkpoints are, over held-out texts."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from tqdm import tqdm

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
from models.checkpoint_files import write_bytes
from models.commands.arguments import PAIR_FILES, Commands, add_device, positive, seed
from models.devices import chosen_device
from models.held_out_texts import RunFields, common_texts, runs
from models.opening import load
from models.runs.scope import Scope
from models.trace import Trace

COMPARED_BY = {
    WORDS: "compared by words: the mean over a word's queries, the sum over its keys",
    POSITIONS: "some texts differ and are compared by position",
}
Intervals = list[list[Interval]]  # by layer and head


def add_compare(commands: Commands) -> None:
    """Add `attnscope compare`."""
    compare = commands.add_parser(
        "compare", help="print how far apart the heads of two checkpoints are, and match them"
    )
    compare.add_argument("first", metavar="A")
    compare.add_argument("second", metavar="B")
    compare.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help="the files A was trained on, which are split again, or any files of pairs, lines or "
        "tables as for training (default: the texts in A's record)",
    )
    compare.add_argument(
        "--limit", type=positive, default=ADVISED, help=f"maximum number of texts ({ADVISED})"
    )
    compare.add_argument(
        "--null",
        nargs="+",
        default=[],
        metavar="CHECKPOINT",
        help="two or more other checkpoints of the same recipe: how far apart their heads are",
    )
    compare.add_argument("--seed", type=seed, default=0, help="random seed of the intervals (0)")
    compare.add_argument(
        "--out", type=Path, help="where everything is saved as JSON (compare-A-B.json)"
    )
    add_device(compare)
    compare.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    """Run `attnscope compare`; return the exit status."""
    device = chosen_device(options.device)
    if len(options.null) == 1:
        raise ValueError("--null needs at least two checkpoints, to compare them with each other")
    first, second = (load(name, device=device) for name in (options.first, options.second))
    path = options.out or Path(f"compare-{first.name}-{second.name}.json")
    if path.is_dir():
        raise ValueError(f"--out must be a file, but {path} is a folder")
    others = [load(name, device=device) for name in options.null]
    _check_null([first, second], others)
    texts = common_texts([first, second, *others], options.data, options.limit)
    pairs = [(first, second), *combinations(others, 2)]
    with tqdm(total=len(texts) * (len(pairs) + 1), unit="text", leave=False) as bar:
        traces = partial(runs, texts=texts, owner=first)
        distances, *null = (
            mean_distances(zip(traces(one), traces(other), strict=True), bar.update)
            for one, other in pairs
        )
        within = similarity_within(_with_progress(traces(first), bar))
    null_drawn = null_distances(null)
    matches = {kind.kind: match_heads(kind, null_drawn.get(kind.kind, ())) for kind in distances}
    intervals = {kind.kind: _intervals(kind, options.seed) for kind in distances}
    saved = _content(
        first, second, others, texts, distances, within, intervals, matches, null_drawn
    )
    _report(first, second, len(texts), distances, intervals, matches)
    write_bytes(path, json.dumps(saved, indent=1, ensure_ascii=False).encode())
    print(f"saved to {path}")
    return 0


def _check_null(compared: Sequence[Scope], others: Sequence[Scope]) -> None:
    """Check that the checkpoints of --null are others than those compared, and differ.

    Raises:
        ValueError: one has the weights of another, so that its heads match by themselves.
    """
    known = {scope.fingerprint: scope.name for scope in compared}
    for scope in others:
        if scope.fingerprint in known:
            raise ValueError(
                f"--null needs other checkpoints: {scope.name} has the weights of "
                f"{known[scope.fingerprint]}"
            )
        known[scope.fingerprint] = scope.name


def _with_progress(traces: Iterator[Trace], bar: tqdm) -> Iterator[Trace]:
    for trace in traces:
        yield trace
        bar.update()


def _content(
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
    """Return all results; layers and heads are counted from 0."""
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
    every_match = [match for of_kind in matches.values() for match in of_kind]
    has_margins = any(match.margin is not None for match in every_match)
    margins = "; margin: how much further the next head is" if has_margins else ""
    print(f"heads matched one to one at the least total distance{margins}")
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
    if any(match.p is not None for match in every_match):
        print(
            "p: (1 + matches between the other checkpoints that are at least as close) / (1 + all matches between them)"
        )


def _place(place: tuple[int, int]) -> str:
    return f"layer {place[0] + 1} head {place[1] + 1}"
