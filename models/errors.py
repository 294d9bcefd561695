"""Errors that several packages raise."""


class CheckpointError(ValueError):
    """Missing, damaged, changed or mismatched checkpoint."""


class InputError(ValueError):
    """Invalid input to a model; `field` names the model's input field."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field
