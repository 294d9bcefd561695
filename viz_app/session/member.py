"""The part of a session in a class."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Member:
    """Someone in a class, the teacher or a pupil; `code` is "" outside a class."""

    person: str = ""  # a random text that identifies the person (class_state.py)
    code: str = ""
    stage: str = ""  # of the class, which the page shows
    note: str = ""  # a message about a class that the session is not in
    problem: str = ""  # why the last prediction did not count
    happened: dict[int, Any] = field(
        default_factory=dict
    )  # what was revealed in the class, by the number of a step
    wrong_codes: list[float] = field(default_factory=list)  # when they were tried
