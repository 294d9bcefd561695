"""Tasks: one file per data set; models.training.task defines their interface."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from models.tasks.classify import ClassifyTask
from models.tasks.dates import DatesTask
from models.tasks.language import LanguageTask
from models.tasks.masked import MaskedTask
from models.tasks.pair_files import Files, same_files
from models.tasks.permutation import PermutationTask
from models.tasks.questions import SpanTask
from models.tasks.small import SMALL_TASKS
from models.tasks.text_files import DOCUMENTS
from models.tasks.translation import TranslationTask
from models.training.task import DataError, Task

__all__ = ["TASK_NAMES", "DataError", "Task", "has_data_of", "open_task", "reopen_task"]

_OF_FILES = {
    **{task.name: ("files of text", task) for task in (LanguageTask, MaskedTask, PermutationTask)},
    ClassifyTask.name: ("tables of texts and labels", ClassifyTask),
}
TASKS: dict[str, type[Any]] = {
    task.name: task
    for task in (
        TranslationTask,
        DatesTask,
        LanguageTask,
        MaskedTask,
        PermutationTask,
        SpanTask,
        ClassifyTask,
        *SMALL_TASKS.values(),
    )
}
# tasks whose texts are made by a rule and are not sentences
GENERATED: dict[str, type[Any]] = {DatesTask.name: DatesTask} | SMALL_TASKS
TASK_NAMES = tuple(TASKS)
# settings that `data` stores under their own names, and their types
STORED: dict[str, tuple[type, ...]] = {
    "lm_weight": (float, int),
    "fold": (int,),
    "form": (str,),
    "digits": (str,),
    "period": (str,),
    "max_letters": (int,),
}


def reopen_task(
    name: str, data: Files | None, trained_on: Mapping[str, Any], **model_settings: Any
) -> Task:
    """Open the task that a model was trained on, with the settings of that training.

    `trained_on` is what the task's `data` returned then; `model_settings` are the model's own.

    Raises:
        DataError: As for open_task, or a stored setting is of another type.
    """
    stored = {name: trained_on.get(name) for name in STORED}
    for setting, value in stored.items():
        if value is not None and type(value) not in (types := STORED[setting]):
            wanted = "text" if str in types else "a number" if float in types else "a whole number"
            raise DataError(f"{setting} in the record must be {wanted}, not {str(value)[:20]!r}")
    if (documents := trained_on.get("documents are")) in DOCUMENTS:
        stored["documents"] = documents
    settings = {key: value for key, value in stored.items() if value is not None} | model_settings
    needed = TASKS[name].model_settings if name in TASKS else ()
    return open_task(name, data, **{key: settings[key] for key in needed if key in settings})


def has_data_of(task: Task, trained_on: Mapping[str, Any]) -> bool:
    """Return True if a task has the data of a record, which may lack settings of later versions.

    A file may have been renamed.
    """
    data = task.data().items()
    known = {n: value for n, value in data if n in trained_on or n not in STORED}
    return same_files(trained_on, known)


def open_task(name: str, data: Files | None = None, **settings: Any) -> Task:
    """Open the task of this name.

    translation, language, mlm, permutation and classify need data files.

    Raises:
        DataError: The name is unknown, or its files are missing, superfluous or malformed.
    """
    if name in GENERATED:
        if data is not None or settings.keys() & {"validation_files", "test_files"}:
            subject = "dates are" if name == "dates" else f"examples of {name} are"
            raise DataError(f"{subject} generated; they take no data file")
        # cast: pyright does not match a cached_property with a protocol's property
        return cast(Task, GENERATED[name](**settings))
    if name == "translation":
        if data is None:
            raise DataError(
                "translation needs a tab-separated file of sentence pairs (--data FILE)"
            )
        return cast(Task, TranslationTask(data, **settings))
    if settings.keys() & {"validation_files", "test_files"} and name in TASK_NAMES:
        raise DataError(
            f"{name} splits its own files; --valid and --test apply to translation only"
        )
    if name in _OF_FILES:
        expected, make = _OF_FILES[name]
        if data is None:
            raise DataError(f"{name} needs one or several {expected} (--data FILE …)")
        return make(data, **settings)
    if name == "span":
        files = [data] if data is None or isinstance(data, str | Path) else list(data)
        if len(files) != 1:
            raise DataError(
                f"span takes one file of questions, contexts and answers, got {len(files)}"
            )
        return cast(Task, SpanTask(files[0], **settings))
    raise DataError(f"task must be one of {', '.join(TASK_NAMES)}, got {name!r}")
