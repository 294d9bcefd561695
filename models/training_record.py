"""Form of training.json: every entry may be missing, others may be added.

The entries that the app reads have a fixed form:

task, command, licence, device, torch      strings
step, averaged_steps, processes            counts
recipe, data                               objects; the data's file is a string
start                                      name of the starting checkpoint and digest of its weights
languages                                  ISO 639 codes, source before target
notes                                      Markdown paragraphs for the model card
training_seconds                           seconds
scores                                     {name: percent}, and "cases", a count; names that end in
                                           one of NOT_PERCENT have that unit instead
by_length                                  [{"least", "most", "cases": counts, "score": percent}]
measured_on                                digest of the weights of scores and by_length
                                           (models/weights.py)
snapshot_scores                            {step: {"scores", "measured_on"}}, each of that form
ablation                                   results of `attnscope ablate --record`
                                           (models.runs.sweep.SweepResult), and "measured_on"
surveys                                    {name: {"measured_on", "seed", "means": {name: {"unit",
                                           "mean", "low", "high", "n_texts"}}}}: results of
                                           `attnscope survey --record` (models.runs.surveys)
runs                                       [{"name", "command", "accuracy": [percent]}], several
                                           variants of the same training
curve                                      [{"step": count, name: number}]
examples                                   strings, or lists of strings for several inputs
example                                    list of strings: fields of the case watched in training
held_out                                   lists of strings: texts of the validation split, by field
checksums                                  {file: SHA-256}; a file without an entry is not checked
"""

import re
from collections.abc import Callable
from typing import Any

_MAX_DEPTH = 8
_MAX_NUMBER = 2**53  # in size; JSON's readers agree on the integers up to it
NOT_PERCENT = (
    "perplexity", "bits per byte", "bits per token", "nats per character", "nats per letter", "nats per token",
    "induction score",
)  # ≥ 0  # fmt: skip


def check_record(record: dict[str, Any]) -> None:
    """Check the form of a training record.

    Raises:
        ValueError: An entry is malformed; the message names it.
    """
    _check_plain(record)
    for name, (expected, fits) in _FORMS.items():
        if name in record and not fits(record[name]):
            raise ValueError(f"{name} must be {expected}")


def recordable(measures: dict[str, float]) -> dict[str, float]:
    """Return the measures that a record can hold: not a diverged model's perplexity."""
    return {name: value for name, value in measures.items() if abs(value) <= _MAX_NUMBER}


def _check_plain(record: dict[str, Any]) -> None:
    """Refuse NaN, infinity, integers beyond 2⁵³, lone surrogates and deep nesting."""
    pending = [(name, name, 1) for name in record] + [
        (name, value, 1) for name, value in record.items()
    ]
    while pending:
        name, value, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise ValueError(f"{name} is nested too deeply")
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            raise ValueError(f"{name!a:.60} holds a lone surrogate (half of a character)")
        if isinstance(value, int | float) and not abs(value) <= _MAX_NUMBER:
            raise ValueError(f"{name} must be a finite number of at most 2^53, got {value!s:.30}")
        if isinstance(value, dict):
            pending += [(name, part, depth + 1) for part in (*value, *value.values())]
        if isinstance(value, list):
            pending += [(name, part, depth + 1) for part in value]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_percent(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 100


def _is_checksum(value: Any) -> bool:
    return _is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None


def is_language(value: Any) -> bool:
    """Return True if the value has the form of an ISO 639 code."""
    return _is_text(value) and re.fullmatch("[a-z]{2,3}", value) is not None


def _is_score(name: str, value: Any) -> bool:
    if name == "cases":
        return _is_count(value)
    return _is_number(value) and value >= 0 if name.endswith(NOT_PERCENT) else _is_percent(value)


def _are_scores(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_score(name, score) for name, score in value.items())


def _are_snapshot_scores(value: Any) -> bool:
    return isinstance(value, dict) and all(
        step.isdecimal()
        and isinstance(entry, dict)
        and _are_scores(entry.get("scores"))
        and _is_checksum(entry.get("measured_on", "0" * 64))
        for step, entry in value.items()
    )


def _is_group(value: Any) -> bool:
    counts = isinstance(value, dict) and all(
        _is_count(value.get(name)) for name in ("least", "most", "cases")
    )
    return counts and value["least"] <= value["most"] and _is_percent(value.get("score"))


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_count(value.get("step"))
        and all(map(_is_number, value.values()))
    )


def _is_example(value: Any) -> bool:
    return _is_text(value) or (
        isinstance(value, list) and bool(value) and all(map(_is_text, value))
    )


def _is_ablation(value: Any) -> bool:
    entries = {"baseline": _is_text, "n_texts": _is_count, "n_orders": _is_count}
    return (
        isinstance(value, dict)
        and all(fits(value.get(name)) for name, fits in entries.items())
        and _is_checksum(value.get("measured_on"))
        and _list_of(_is_head)(value.get("heads"))
        and isinstance(value.get("curves"), dict)
        and all(map(_is_curve, value["curves"].values()))
    )


def _is_head(value: Any) -> bool:
    effect = value.get("effect") if isinstance(value, dict) else None
    return (
        isinstance(effect, dict)
        and set(value) - {"site"} == {"kind", "layer", "head", "effect", "p", "is_marked"}
        and isinstance(value.get("site", ""), str)
        and set(effect) == {"mean", "low", "high"}
        and all(map(_is_number, (*effect.values(), value["p"])))
        and _is_text(value["kind"])
        and _is_count(value["layer"])
        and _is_count(value["head"])
        and isinstance(value["is_marked"], bool)
    )


def _is_curve(value: Any) -> bool:
    return isinstance(value, dict) and all(
        re.fullmatch("0\\.[0-9]{1,4}|1", share) is not None
        and isinstance(numbers, list)
        and len(numbers) == 4
        and all(map(_is_number, numbers))
        for share, numbers in value.items()
    )


def _are_surveys(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(survey, dict)
        and _is_checksum(survey.get("measured_on"))
        and _is_count(survey.get("seed"))
        and isinstance(survey.get("means"), dict)
        and all(map(_is_surveyed_mean, survey["means"].values()))
        for survey in value.values()
    )


def _is_surveyed_mean(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"unit", "mean", "low", "high", "n_texts"}
        and value["unit"] in ("share", "difference", "nats")
        and all(_is_number(value[name]) for name in ("mean", "low", "high"))
        and -(value["unit"] == "difference") <= value["low"] <= value["high"]
        and value["high"] <= 1  # ln 2 bounds what is in nats
        and value["low"] <= value["mean"] <= value["high"]
        and _is_count(value["n_texts"])
    )


def _is_run(value: Any) -> bool:
    accuracy = value.get("accuracy") if isinstance(value, dict) else None
    if not isinstance(accuracy, list) or not all(map(_is_percent, accuracy)):
        return False
    return all(_is_text(value.get(name)) for name in ("name", "command"))


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


_TEXT, _COUNT = ("a string", _is_text), ("an integer >= 0", _is_count)
_FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("task", "command", "licence", "device", "torch"), _TEXT),
    **dict.fromkeys(("step", "averaged_steps", "processes"), _COUNT),
    "training_seconds": ("a number of seconds", lambda value: _is_number(value) and value >= 0),
    "recipe": ("an object", lambda value: isinstance(value, dict)),
    "languages": ("a list of ISO 639 codes", _list_of(is_language)),
    "notes": ("a list of strings", _list_of(_is_text)),
    "start": (
        "an object with a name and a weights digest",
        lambda value: (
            isinstance(value, dict)
            and _is_text(value.get("name"))
            and _is_checksum(value.get("weights"))
        ),
    ),
    "data": (
        "an object whose file is a string",
        lambda value: isinstance(value, dict) and _is_text(value.get("file", "")),
    ),
    "scores": ("an object of percentages, likelihoods and a count of cases", _are_scores),
    "measured_on": ("a SHA-256 sum", _is_checksum),
    "snapshot_scores": (
        "an object with scores and a count of cases for each step",
        _are_snapshot_scores,
    ),
    "by_length": ("a list of objects with least, most, cases and score", _list_of(_is_group)),
    "ablation": ("the results of `attnscope ablate`", _is_ablation),
    "surveys": ("the results of `attnscope survey`", _are_surveys),
    "runs": (
        "a list of objects with name, command and accuracy, a list of percentages",
        _list_of(_is_run),
    ),
    "curve": ("a list of objects with a step and numbers", _list_of(_is_row)),
    "examples": ("a list of strings, or of lists of strings", _list_of(_is_example)),
    "example": ("a list of strings", _list_of(_is_text)),
    "held_out": ("a list of lists of strings", _list_of(_list_of(_is_text))),
    "checksums": (
        "an object of SHA-256 sums",
        lambda value: isinstance(value, dict) and all(map(_is_checksum, value.values())),
    ),
}
