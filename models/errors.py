"""Errors that several packages raise."""


class CheckpointError(ValueError):
    """Missing, damaged, changed or mismatched checkpoint."""


class IndistinctRowsError(ValueError):
    """An edited batch has as many rows as an attention has heads, and their axes look alike."""


class InputError(ValueError):
    """Invalid input to a model; `field` names the model's input field."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field
