"""One file a data set; `base` says what a task offers."""

from pathlib import Path
from typing import Any

from models.tasks.classify import ClassifyTask
from models.tasks.dates import DatesTask
from models.tasks.language import LanguageTask
from models.tasks.masked import MaskedTask
from models.tasks.pair_files import Files
from models.tasks.permutation import PermutationTask
from models.tasks.questions import SpanTask
from models.tasks.translation import TranslationTask
from models.training.task import DataError, Task

__all__ = ["NAMES", "DataError", "Task", "open_task"]

_OF_FILES = {
    **{task.name: ("files of text", task) for task in (LanguageTask, MaskedTask, PermutationTask)},
    ClassifyTask.name: ("tables of texts and labels", ClassifyTask),
}
NAMES = ("dates", "translation", "language", "mlm", "permutation", "span", "classify")


def open_task(name: str, data: Files | None = None, **settings: Any) -> Task:
    """The task of that name. translation, language, mlm, permutation and classify need data files. Raises DataError."""
    if name == "dates":
        if data is not None or settings.keys() & {"validation_files", "test_files"}:
            raise DataError("dates are generated; they take no data file")
        return DatesTask(**settings)
    if name == "translation":
        if data is None:
            raise DataError(
                "translation needs a tab-separated file of sentence pairs (--data FILE)"
            )
        return TranslationTask(data, **settings)
    if settings.keys() & {"validation_files", "test_files"} and name in NAMES:
        raise DataError(
            f"{name} takes its held-out texts from its own files; --valid and --test are for translation"
        )
    if name in _OF_FILES:
        wanted, make = _OF_FILES[name]
        if data is None:
            raise DataError(f"{name} needs one or several {wanted} (--data FILE …)")
        return make(data, **settings)
    if name == "span":
        files = [data] if data is None or isinstance(data, str | Path) else list(data)
        if len(files) != 1:
            raise DataError(
                f"span takes one file of questions, contexts and answers, not {len(files)}"
            )
        return SpanTask(files[0], **settings)
    raise DataError(f"task {name!r} is not one of {', '.join(NAMES)}")
