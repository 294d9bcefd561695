"""`attnscope ablate`: the effect of every head on held-out texts, with intervals."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from models.checkpoint import add_to_record
from models.checkpoint_files import RECORD
from models.devices import chosen_device
from models.errors import InputError
from models.opening import load
from models.runs.scope import Scope
from models.runs.sweep import Sweep
from models.runs.text_loss import complete_streams
from models.tasks import TASK_NAMES, DataError, Task, reopen_task
from models.tasks.classify import ClassifyTask
from models.tasks.pair_files import names, read_lines, read_pairs
from models.tasks.text_files import is_table
from models.tokenizers.base import Encoding

MIN_ABLATION_TEXTS = 8  # texts in a sweep
ABLATION_BASELINES = ("zero", "uniform")


def ablate(options: argparse.Namespace) -> int:
    """Run `attnscope ablate`; return the exit status."""
    scope = load(options.checkpoint, device=chosen_device(options.device))
    texts = held_out(scope, options.data, options.limit)
    if options.record and not (scope.path / RECORD).is_file():
        raise ValueError(f"{scope.name} has no training record, to which --record adds the results")
    path = options.out or Path(f"ablate-{scope.name}.json")
    sweep = Sweep(scope, texts, path, options.baseline, options.orders, options.seed)
    if sweep.losses:
        print(f"continues {path}")
    with tqdm(total=sweep.n_passes, unit="pass", leave=False) as bar:
        sweep.run(lambda done, of: bar.update(done - bar.n))
    _report(sweep)
    if options.record:
        entry = sweep.swept().record() | {"measured_on": scope.weights_digest}
        add_to_record(scope.path, ablation=entry)
    return 0


def held_out(scope: Scope, paths: Sequence[Path] | None, limit: int) -> list[dict[str, Encoding]]:
    """Return the first held-out texts that the model can read.

    Without a file they are those that the checkpoint's record holds, or are generated. Data that
    the model was trained on is split as in training; any other file is read whole: pairs, one
    text a line, or a table of texts.

    Raises:
        ValueError: there are too few.
    """
    texts: list[dict[str, Encoding]] = []
    for values in yield_held_out(scope, paths, limit):
        if len(texts) == limit:
            break
        try:
            texts.append(complete_streams(scope, values))
        except InputError:
            continue
    if len(texts) < MIN_ABLATION_TEXTS:
        raise ValueError(
            f"{names(paths) if paths else 'the record'} holds {len(texts)} texts that {scope.name} can read; "
            f"at least {MIN_ABLATION_TEXTS} are needed"
        )
    return texts


def yield_held_out(
    scope: Scope, paths: Sequence[Path] | None, limit: int
) -> Iterator[Sequence[str]]:
    """Yield held-out texts for the model's fields, at least `limit` if there are as many.

    Raises:
        ValueError: files must be named.
    """
    if task := _trained_on(scope, paths):
        yield from (case.fields for case in task.held_out(2 * limit))
    elif paths is None:
        if not scope.held_out:
            raise ValueError(f"{scope.name} needs held-out texts: name files with --data")
        yield from scope.held_out
    elif scope.model.translates:
        yield from read_pairs(paths)
    else:
        for path in paths:
            yield from _read_texts(scope, path)


def _read_texts(scope: Scope, path: Path) -> Iterator[Sequence[str]]:
    """Yield the texts of each line, in the columns that `attnscope train` reads them from.

    These are the first columns of a .tsv table or for a model of several texts, and all before the
    label for a classifier. Any other line is one text.
    """
    fields = scope.model.text_fields
    n_needed = max(1, sum(not field.optional for field in fields))
    is_labelled = scope.task == ClassifyTask.name
    has_columns = is_labelled or n_needed > 1 or is_table(path)
    for line in read_lines(path):
        if not line.strip():
            continue
        columns = [one.strip() for one in line.split("\t")] if has_columns else [line]
        n = max(n_needed, len(columns) - 1) if is_labelled else n_needed
        yield columns[: min(n, len(fields))]


def _trained_on(scope: Scope, paths: Sequence[Path] | None) -> Task | None:
    """Return the task that the model was trained on, if this is its data."""
    trained_on = scope.training.get("data", {})
    if scope.task not in TASK_NAMES or (paths is None and "generator" not in trained_on):
        return None
    settings = {"tokenizer": scope.tokenizer, "n_ctx": scope.n_ctx}
    try:
        task = reopen_task(scope.task, paths, trained_on, **settings)
    except DataError:  # files of another form
        return None
    return task if task.data() == trained_on else None


def _report(sweep: Sweep) -> None:
    results, n = sweep.results(), len(sweep.texts)
    marked = sum(one.is_marked for one in results)
    print(
        f"{sweep.scope.name}: each of {len(results)} heads off ({sweep.baseline}), change of the loss in "
        f"{sweep.unit} on {n // 2} texts, 95 % paired-bootstrap interval; * significant on the other "
        f"{n - n // 2} texts, with the same sign, by sign flips after Holm's correction ({marked}; without one "
        f"{0.05 * len(results):.1f} would be by chance)"
    )
    if not sweep.swept().can_mark:
        print(f"{n} texts are too few for an effect to be significant beside {len(results)} heads")
    for one in results:
        name = f"{one.kind} layer {one.layer + 1} head {one.head + 1}"
        effect = one.effect
        mark = "*" if one.is_marked else " "
        print(f"{name:<34} {effect.mean:+.4f} ({effect.low:+.4f} to {effect.high:+.4f}) {mark}")
    print(
        "heads off in order of importance, the least important first (random orders: upper median, range)"
    )
    swept = sweep.swept()
    for kind, curve in swept.curves.items():
        for share, (ordered, low, median, high) in curve.items():
            off, n_heads = swept.n_off(kind, share)
            print(
                f"{kind:<20} {off:>3} of {n_heads:<3} {ordered:+.3f} ({median:+.3f}, {low:+.3f} to {high:+.3f})"
            )
