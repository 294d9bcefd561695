"""The purpose of a checkpoint as a verb phrase, from its training record and its configuration."""

from collections.abc import Mapping
from typing import Any

from models.tasks import TASKS
from models.tasks.languages import language_name


def task_purpose(training: Mapping[str, Any], config: Any = None) -> str:
    """Return what a model does, for example "translates English to French"; "" if unknown.

    The task says it; a translator adds its languages, a classifier its classes.
    """
    task = TASKS.get(training.get("task", ""))
    if task is None:
        return ""
    languages = [language_name(code) for code in training.get("languages", [])]
    if task.name == "translation" and len(languages) == 2:
        return "translates {} to {}".format(*languages)
    classes = getattr(config, "classes", "").split(",")
    if task.name == "classify" and len(classes) > 1:
        return f"classifies text as {', '.join(classes[:-1])} or {classes[-1]}"
    return task.purpose
