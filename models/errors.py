"""The error that both a checkpoint's files and its tokenizer raise."""


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, changed or of the wrong shape, and how."""
