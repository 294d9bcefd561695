"""Choice of the device that models run on."""

import os

import torch

from models.errors import first_line


def default_device() -> torch.device:
    """Return the device in ATTNSCOPE_DEVICE, else CUDA, then MPS, then the CPU."""
    if name := os.environ.get("ATTNSCOPE_DEVICE"):
        return named_device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def chosen_device(name: str | torch.device | None) -> torch.device:
    """Return the named device, or the default one if the name is empty."""
    return named_device(name) if name else default_device()


def named_device(name: str | torch.device) -> torch.device:
    """Return the device of this name.

    Raises:
        ValueError: The device is not available.
    """
    try:
        torch.empty(0, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error, 400) or type(error).__name__
        raise ValueError(f"device {str(name)!r} cannot be used: {reason}") from None
