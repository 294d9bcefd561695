"""The errors that several packages raise."""


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, changed or of the wrong shape, and how."""


class InputError(ValueError):
    """Something a model cannot read or be shown with, and the field of the model that it was given in."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field
