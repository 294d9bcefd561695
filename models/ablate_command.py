"""`attnscope ablate`: the effect of every head on held-out texts, with intervals."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from models.devices import chosen_device
from models.errors import InputError
from models.opening import load
from models.runs.scope import Scope
from models.runs.sweep import Sweep
from models.tasks import reopen_task
from models.tasks.dates import DatesTask
from models.tasks.pair_files import lines, read_pairs
from models.tasks.translation import TranslationTask
from models.tokenizers.base import Encoding
from models.training.task import Case

FEWEST = 8  # texts in a sweep
BASELINES = ("zero", "uniform")
SPLIT = (TranslationTask.name, DatesTask.name)  # tasks with pairs held out from training


def ablate(options: argparse.Namespace) -> int:
    """Run `attnscope ablate`; return the exit status."""
    scope = load(options.checkpoint, device=chosen_device(options.device))
    texts = held_out(scope, options.data, options.limit)
    path = options.out or Path(f"ablate-{scope.name}.json")
    sweep = Sweep(scope, texts, path, options.baseline, options.orders, options.seed)
    if sweep.losses:
        print(f"continues {path}")
    with tqdm(total=sweep.n_passes, unit="pass", leave=False) as bar:
        sweep.run(lambda done, of: bar.update(done - bar.n))
    _report(sweep)
    return 0


def held_out(scope: Scope, path: Path | None, limit: int) -> list[dict[str, Encoding]]:
    """Return the first held-out texts that the model can read.

    Data that the model was trained on is split as in training; any other file is read whole: pairs,
    or one text a line.

    Raises:
        ValueError: there are too few.
    """
    texts: list[dict[str, Encoding]] = []
    for values in texts_of(scope, path, limit):
        if len(texts) == limit:
            break
        try:
            texts.append(scope.encode(*values))
        except InputError:
            continue
    if len(texts) < FEWEST:
        raise ValueError(
            f"{path} holds {len(texts)} texts that {scope.name} can read; at least {FEWEST} are needed"
        )
    return texts


def texts_of(scope: Scope, path: Path | None, limit: int) -> Iterator[tuple[str, ...]]:
    """Yield held-out texts for the model's fields; `limit` is how many are needed.

    Raises:
        ValueError: a file must be named.
    """
    trained_on = data if isinstance(data := scope.training.get("data"), dict) else {}
    if scope.task in SPLIT and (path is not None or scope.task == DatesTask.name):
        settings = {"tokenizer": scope.tokenizer, "n_ctx": scope.n_ctx}
        task = reopen_task(scope.task, path, trained_on, **settings)
        if task.data() == trained_on:
            yield from (_fields(case) for case in task.held_out(limit))
            return
    if path is None:
        raise ValueError(f"{scope.name} needs held-out texts: name a file with --data")
    if scope.model.translates:
        yield from read_pairs([path])
    else:
        yield from ((line,) for line in lines(path) if line.strip())


def _fields(case: Case) -> tuple[str, ...]:
    sources = (case.source,) if isinstance(case.source, str) else case.source
    return (*sources, case.references[0])


def _report(sweep: Sweep) -> None:
    found, n = sweep.results(), len(sweep.texts)
    marked = sum(one.is_marked for one in found)
    print(
        f"{sweep.scope.name}: each of {len(found)} heads off ({sweep.baseline}), change of the loss in "
        f"nats a token on {n // 2} texts, 95 % paired-bootstrap interval; * significant on the other "
        f"{n - n // 2} texts after Holm's correction ({marked}; without a correction "
        f"{0.05 * len(found):.1f} would be by chance)"
    )
    for one in found:
        name = f"{one.kind} layer {one.layer + 1} head {one.head + 1}"
        effect = one.effect
        mark = "*" if one.is_marked else " "
        print(f"{name:<34} {effect.mean:+.4f} ({effect.low:+.4f} to {effect.high:+.4f}) {mark}")
    print(
        "heads off in order of importance, the least important first (random orders: median, range)"
    )
    for kind, curve in sweep.curves().items():
        for share, (ordered, low, median, high) in curve.items():
            print(
                f"{kind:<20} {share:>4.0%} {ordered:+.3f} ({median:+.3f}, {low:+.3f} to {high:+.3f})"
            )
