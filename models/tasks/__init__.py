"""One file a data set; `base` says what a task offers."""

from typing import Any

from models.tasks.base import DataError, Task
from models.tasks.dates import DatesTask
from models.tasks.language import LanguageTask
from models.tasks.pair_files import Files
from models.tasks.translation import TranslationTask

__all__ = ["NAMES", "DataError", "Task", "open_task"]

NAMES = ("dates", "translation", "language")


def open_task(name: str, data: Files | None = None, **settings: Any) -> Task:
    """The task of that name. translation and language need data files. Raises DataError."""
    if name == "dates":
        if data is not None or settings.keys() & {"validation_files", "test_files"}:
            raise DataError("dates are generated; they take no data file")
        return DatesTask(**settings)
    if name == "translation":
        if data is None:
            raise DataError("translation needs a tab-separated file of sentence pairs (--data FILE)")
        return TranslationTask(data, **settings)
    if name == "language":
        if data is None:
            raise DataError("language needs one or several files of text (--data FILE …)")
        if settings.keys() & {"validation_files", "test_files"}:
            raise DataError("language takes its held-out texts from its own files; --valid and --test are for translation")
        return LanguageTask(data, **settings)
    raise DataError(f"task {name!r} is not one of {', '.join(NAMES)}")
