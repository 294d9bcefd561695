"""Shipped checkpoints, and opening one of them or any folder."""

from functools import lru_cache
from pathlib import Path

import torch

from models.checkpoint import CheckpointError, Description, describe_checkpoint, load_checkpoint
from models.devices import chosen_device
from models.hub import load as hub
from models.runs.scope import Scope

_PACKAGE = Path(__file__).parent


def shipped_folder() -> Path:
    """Return the folder of shipped checkpoints: in the installed package or in assets/."""
    installed = _PACKAGE / "shipped"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets" / "checkpoints"


def shipped() -> list[str]:
    """Return the names of the shipped checkpoints."""
    folder = shipped_folder()
    return list(_names(folder, folder.stat().st_mtime_ns))


@lru_cache(maxsize=1)  # a page requests every model in its menu
def _names(folder: Path, mtime: int) -> tuple[str, ...]:
    return tuple(sorted(p.parent.name for p in folder.glob("*/config.json")))


def load(
    name: str | Path,
    *,
    device: str | torch.device | None = None,
    snapshot: int | None = None,
    dtype: str | torch.dtype | None = None,
) -> Scope:
    """Open a shipped checkpoint by name, or any checkpoint folder, ours or Hugging Face's.

    Args:
        name: Name of a shipped checkpoint, or a path.
        device: Default: `models.devices.default_device`.
        snapshot: Training step of a snapshot to open instead of the final weights.
        dtype: dtype for Hugging Face models (default: the checkpoint's).

    Raises:
        CheckpointError: A file is missing, damaged or unsupported; the message names it.
        ValueError: The device is not available.
    """
    folder, device = folder_of(name), chosen_device(device)
    if hub.is_folder(folder):
        return Scope(hub.open_folder(folder, device, dtype), device)
    return Scope(load_checkpoint(folder, snapshot), device)


def describe(name: str | Path) -> Description:
    """Describe a shipped checkpoint, or any folder that can be opened, without opening it.

    Raises:
        CheckpointError: The configuration or the record cannot be read.
    """
    folder = folder_of(name)
    return hub.describe_folder(folder) if hub.is_folder(folder) else describe_checkpoint(folder)


def folder_of(name: str | Path) -> Path:
    """Return the folder of a shipped checkpoint, or the one named.

    Raises:
        CheckpointError: There is neither.
    """
    folder = shipped_folder() / name if str(name) in shipped() else Path(name).expanduser()
    if not folder.is_dir():
        raise CheckpointError(
            f"{name}: neither a folder nor a shipped checkpoint ({', '.join(shipped()) or 'none'})"
        )
    return folder
