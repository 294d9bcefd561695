"""Readings of measurements over held-out texts, from a checkpoint's record."""

import math
import re
from collections.abc import Mapping
from typing import Any

from models.scores import SURVEYS_ENTRY
from viz_app.lessons.readings.registry import count_value, number_value, reading, value_in_unit
from viz_app.lessons.sentence import ReadingValue
from viz_app.session.current_run import CurrentRun

MAX_PATH_LENGTH = 6  # names in the path to a number of the training record


@reading
def marked_heads(run: CurrentRun) -> ReadingValue:
    """Return the number of heads that raise the loss significantly when off alone, as recorded."""
    heads = _ablation(run)["heads"]
    return count_value(sum(one["is_marked"] and one["effect"]["mean"] > 0 for one in heads))


@reading
def costliest_kind(run: CurrentRun) -> ReadingValue:
    """Return the kind of attention whose loss rises most with all its heads off, as recorded."""
    curves = _ablation(run)["curves"]
    kind = max(curves, key=lambda one: curves[one]["1"][0])
    return ReadingValue(kind.replace("_", "-"), kind.replace("_", " "))


@reading
def surveyed(run: CurrentRun, survey: str, measure: str) -> ReadingValue:
    """Return a mean over held-out texts, recorded by `attnscope survey --record`."""
    record = _surveyed_mean(run, survey, measure)
    return value_in_unit(record["mean"], record["unit"])


@reading
def interval(run: CurrentRun, survey: str, measure: str) -> ReadingValue:
    """Return the 95 % interval of a recorded mean over held-out texts."""
    record = _surveyed_mean(run, survey, measure)
    ends = record["low"], record["high"]
    low, high = (value_in_unit(end, record["unit"]).words for end in ends)
    return ReadingValue(ends, f"{low.removesuffix(' points')} to {high}")


@reading
def surveyed_texts(run: CurrentRun, survey: str, measure: str) -> ReadingValue:
    """Return the number of held-out texts of a recorded mean."""
    return count_value(_surveyed_mean(run, survey, measure)["n_texts"])


@reading
def stored(run: CurrentRun, path: str) -> ReadingValue:
    """Return a number of the checkpoint's training record, such as scores/held-out BLEU."""
    entry: object = run.scope.training
    for name in path.split("/")[:MAX_PATH_LENGTH]:
        if isinstance(entry, Mapping):
            entry = entry.get(name)
        elif (
            isinstance(entry, list) and re.fullmatch("[0-9]{1,6}", name) and int(name) < len(entry)
        ):
            entry = entry[int(name)]
        else:
            entry = None
    if isinstance(entry, bool) or not isinstance(entry, int | float) or not math.isfinite(entry):
        raise ValueError(f"the record of {run.scope.name} has no number {path[:60]}")
    return count_value(entry) if isinstance(entry, int) else number_value(entry, 2)


def _ablation(run: CurrentRun) -> Mapping[str, Any]:
    record = run.scope.training.get("ablation")
    if not record:
        raise ValueError(f"{run.scope.name} has no record of a sweep over its heads")
    return record


def _surveyed_mean(run: CurrentRun, survey: str, measure: str) -> Mapping[str, Any]:
    surveys = run.scope.training.get(SURVEYS_ENTRY, {})
    if survey not in surveys:
        raise ValueError(
            f"these weights of {run.scope.name} have no record of a survey named {survey[:40]}"
        )
    means = surveys[survey]["means"]
    if measure not in means:
        raise ValueError(f"the survey measured {', '.join(means)}; it has no {measure[:40]}")
    return means[measure]
