"""Texts held out from the training of checkpoints, and runs on them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from models.errors import InputError
from models.number_text import how_many
from models.runs.scope import Scope
from models.runs.text_loss import complete_streams
from models.tasks import TASK_NAMES, DataError, Task, has_data_of, reopen_task
from models.tasks.classify import ClassifyTask
from models.tasks.pair_files import names, read_lines, read_pairs
from models.tasks.text_files import is_table
from models.tokenizers.base import Encoding
from models.trace import Trace

MIN_HELD_OUT_TEXTS = 8  # texts in a sweep or a comparison
COMPARED_PER_PASS = 32  # texts in one pass
RunFields = tuple[str, ...]


def held_out(scope: Scope, paths: Sequence[Path] | None, limit: int) -> list[dict[str, Encoding]]:
    """Return the first held-out texts that the model can read.

    Without a file they are those that the checkpoint's record holds, or are generated. Data that
    the model was trained on is split as in training; any other file is read whole: pairs, one text
    per line, or a table of texts.

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
    _check_enough(len(texts), limit, paths, scope.name)
    return texts


def common_texts(
    scopes: Sequence[Scope], paths: Sequence[Path] | None, limit: int
) -> list[RunFields]:
    """Return the first held-out texts of the first checkpoint that all can read.

    `runs` says what each reads of a text of two fields.

    Raises:
        ValueError: there are too few, or a model has no field for the second text.
    """
    texts: list[RunFields] = []
    for values in map(tuple, yield_held_out(scopes[0], paths, limit)):
        if len(texts) == limit:
            break
        try:
            for scope in scopes:
                scope.streams(*_fields(scope, values, scopes[0]))
        except InputError:
            continue
        texts.append(values)
    readers = ", ".join(dict.fromkeys(scope.name for scope in scopes))
    _check_enough(len(texts), limit, paths, f"all of {readers}")
    return texts


def _check_enough(n: int, limit: int, paths: Sequence[Path] | None, readers: str) -> None:
    if limit < MIN_HELD_OUT_TEXTS:
        raise ValueError(
            f"at least {MIN_HELD_OUT_TEXTS} texts are needed, but the limit is {limit}"
        )
    if n < MIN_HELD_OUT_TEXTS:
        raise ValueError(
            f"{names(paths) if paths else 'the record'} holds {how_many(n, 'text')} that {readers} can read; "
            f"at least {MIN_HELD_OUT_TEXTS} are needed"
        )


def runs(scope: Scope, texts: Sequence[RunFields], owner: Scope) -> Iterator[Trace]:
    """Yield a run on each of the held-out texts of `owner`, teacher-forced if both translate.

    Two models of which one translates have only the first text of a pair in common.
    """
    n = COMPARED_PER_PASS if scope.model.pads else 1
    for i in range(0, len(texts), n):
        part = texts[i : i + n]
        yield from scope.run_batch([_fields(scope, values, owner) for values in part])


def _fields(scope: Scope, values: RunFields, owner: Scope) -> RunFields:
    fields = scope.model.text_fields
    if scope.model.translates != owner.model.translates:
        required = sum(not field.optional for field in fields)
        return values[: min(len(fields), max(1, required))]
    if len(values) > len(fields):
        raise ValueError(
            f"the held-out texts of {owner.name} have {len(values)} fields, but {scope.name} "
            f"reads {len(fields)}"
        )
    return values


def yield_held_out(
    scope: Scope, paths: Sequence[Path] | None, limit: int
) -> Iterator[Sequence[str]]:
    """Yield held-out texts for the model's fields, at least `limit` if there are as many.

    Raises:
        ValueError: files must be named.
    """
    if task := _training_task(scope, paths):
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


def _training_task(scope: Scope, paths: Sequence[Path] | None) -> Task | None:
    """Return the task that the model was trained on, if this is its data."""
    trained_on = scope.training.get("data", {})
    if scope.task not in TASK_NAMES or (paths is None and "generator" not in trained_on):
        return None
    settings = {"tokenizer": scope.tokenizer, "n_ctx": scope.n_ctx}
    try:
        task = reopen_task(scope.task, paths, trained_on, **settings)
    except DataError:  # files in another format
        return None
    return task if has_data_of(task, trained_on) else None
