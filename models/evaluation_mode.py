"""Evaluation mode for the length of a block: no dropout."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode; restore its mode however the block ends."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
