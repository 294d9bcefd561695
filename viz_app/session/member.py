"""The part of a session in a class."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Member:
    """Someone in a class, the teacher or a pupil; `code` is "" outside a class."""

    person: str = ""  # a secret text that stands for the person (class_state.py)
    code: str = ""
    stage: str = ""  # of the class, which the page shows
    note: str = ""  # what the page has to say of a class that it is not in
    problem: str = ""  # why the last prediction did not count
    happened: dict[int, Any] = field(default_factory=dict)  # in the class, by the number of a step
    wrong_codes: list[float] = field(default_factory=list)  # when they were tried
