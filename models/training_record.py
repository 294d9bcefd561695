"""What training.json may say. Every entry may be missing, and others may be added; those the app reads are of one form.

task, command, licence, device, torch      texts
step, averaged_steps, processes            counts
recipe, data                               objects; the data's file is a text
start                                      the name of the checkpoint that the run went on from, and the digest of its weights
training_seconds                           a number
scores                                     {name: percent}, and "cases", a count; names that end in one of NOT_PERCENT are
                                           numbers in that unit
by_length                                  [{"least", "most", "cases": counts, "score": percent}]
measured_on                                the digest of the weights that scores and by_length are of (models/fingerprint.py)
snapshot_scores                            {step: {"scores", "measured_on"}}, of that form
runs                                       [{"name", "command", "accuracy": [percent]}], the same training in several ways
curve                                      [{"step": count, name: number}]
examples                                   texts, or lists of texts: one for each field of a model that is asked several
checksums                                  {file: SHA-256}; what it does not name may be any file
"""

import re
from collections.abc import Callable
from typing import Any

_DEEPEST = 8
NOT_PERCENT = ("perplexity", "bits per byte", "nats per character")  # from 0 on


def check_record(record: dict[str, Any]) -> None:
    """Raises ValueError naming the entry that is not of its form."""
    _check_plain(record)
    for name, (wanted, fits) in _FORMS.items():
        if name in record and not fits(record[name]):
            raise ValueError(f"{name} must be {wanted}")


def _check_plain(record: dict[str, Any]) -> None:
    """No NaN, no infinity, no whole number that a browser cannot count to, no half of a character, nothing nested deeply."""
    left = [(name, name, 1) for name in record] + [
        (name, value, 1) for name, value in record.items()
    ]
    while left:
        name, value, depth = left.pop()
        if depth > _DEEPEST:
            raise ValueError(f"{name} is nested too deeply")
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            raise ValueError(f"{name!a:.60} holds half of a character")
        if isinstance(value, int | float) and not abs(value) <= 2**53:
            raise ValueError(f"{name} holds a number that cannot be: {value!s:.30}")
        if isinstance(value, dict):
            left += [(name, part, depth + 1) for part in (*value, *value.values())]
        if isinstance(value, list):
            left += [(name, part, depth + 1) for part in value]


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


def _is_score(name: str, value: Any) -> bool:
    if name == "cases":
        return _is_count(value)
    return _is_number(value) and value >= 0 if name.endswith(NOT_PERCENT) else _is_percent(value)


def _are_scores(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_score(name, score) for name, score in value.items())


def _are_snapshot_scores(value: Any) -> bool:
    each = value.items() if isinstance(value, dict) else [("", None)]
    return all(
        step.isdecimal() and isinstance(one, dict) and _are_scores(one.get("scores"))
        for step, one in each
    ) and all(_is_checksum(one.get("measured_on", "0" * 64)) for _, one in each)


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


def _is_run(value: Any) -> bool:
    accuracy = value.get("accuracy") if isinstance(value, dict) else None
    if not isinstance(accuracy, list) or not all(map(_is_percent, accuracy)):
        return False
    return all(_is_text(value.get(name)) for name in ("name", "command"))


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


_TEXT, _COUNT = ("a text", _is_text), ("a whole number from 0 on", _is_count)
_FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("task", "command", "licence", "device", "torch"), _TEXT),
    **dict.fromkeys(("step", "averaged_steps", "processes"), _COUNT),
    "training_seconds": ("a number of seconds", lambda value: _is_number(value) and value >= 0),
    "recipe": ("an object", lambda value: isinstance(value, dict)),
    "start": (
        "an object of a name and the digest of its weights",
        lambda value: (
            isinstance(value, dict)
            and _is_text(value.get("name"))
            and _is_checksum(value.get("weights"))
        ),
    ),
    "data": (
        "an object, its file a text",
        lambda value: isinstance(value, dict) and _is_text(value.get("file", "")),
    ),
    "scores": ("an object of percentages, likelihoods and a count of cases", _are_scores),
    "measured_on": ("a SHA-256 sum", _is_checksum),
    "snapshot_scores": (
        "an object with scores and a count of cases for each step",
        _are_snapshot_scores,
    ),
    "by_length": ("a list of objects with least, most, cases and score", _list_of(_is_group)),
    "runs": (
        "a list of objects with name, command and accuracy, a list of percentages",
        _list_of(_is_run),
    ),
    "curve": ("a list of objects with a step and numbers", _list_of(_is_row)),
    "examples": ("a list of texts, or of lists of texts", _list_of(_is_example)),
    "checksums": (
        "an object of SHA-256 sums",
        lambda value: isinstance(value, dict) and all(map(_is_checksum, value.values())),
    ),
}
