"""Errors that several packages raise."""


class CheckpointError(ValueError):
    """Missing, damaged, changed or mismatched checkpoint."""


class IndistinctRowsError(ValueError):
    """The rows of a batch cannot be kept apart, so that each has to be run alone.

    An edited batch has as many rows as an attention has heads, and their axes look alike; or a
    module of the user's own reads one row at a time.
    """


class InputError(ValueError):
    """Invalid input to a model; `field` names the model's input field."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


def first_line(error: BaseException | str, longest: int = 200) -> str:
    """Return the first line of an error's text, cut to `longest` characters; empty without text."""
    return next(iter(str(error).strip().splitlines()), "")[:longest]
