"""The shipped checkpoints, and opening one of them or any folder."""

from pathlib import Path

import torch

from models.checkpoint import CheckpointError, Description, load_checkpoint
from models.checkpoint import describe as describe_checkpoint
from models.devices import chosen_device
from models.hub import load as hub
from models.runs.scope import Scope

_PACKAGE = Path(__file__).parent


def shipped_folder() -> Path:
    """Where the shipped checkpoints lie: inside an installed package, or in assets/ of a source tree."""
    installed = _PACKAGE / "shipped"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets" / "checkpoints"


def shipped() -> list[str]:
    """Names of the shipped checkpoints."""
    return sorted(p.parent.name for p in shipped_folder().glob("*/config.json"))


def load(
    name: str | Path,
    *,
    device: str | torch.device | None = None,
    snapshot: int | None = None,
    dtype: str | torch.dtype | None = None,
) -> Scope:
    """A shipped checkpoint by its name, or any checkpoint folder, of ours or of Hugging Face; at an earlier training step if
    `snapshot` says so. `dtype` is in which numbers a model of Hugging Face runs, those of its files if None.

    Raises CheckpointError, saying what is wrong with which file."""
    folder, device = folder_of(name), chosen_device(device)
    if hub.is_folder(folder):
        return Scope(hub.load(folder, device, dtype), device)
    return Scope(load_checkpoint(folder, snapshot), device)


def describe(name: str | Path) -> Description:
    """What a shipped checkpoint, or any folder that can be opened, says it is; it is not opened. Raises CheckpointError."""
    folder = folder_of(name)
    return hub.describe(folder) if hub.is_folder(folder) else describe_checkpoint(folder)


def folder_of(name: str | Path) -> Path:
    """The folder of a shipped checkpoint, or the one named. Raises CheckpointError if it is none."""
    folder = shipped_folder() / name if str(name) in shipped() else Path(name).expanduser()
    if not folder.is_dir():
        raise CheckpointError(
            f"{name}: neither a folder nor a shipped checkpoint ({', '.join(shipped()) or 'none'})"
        )
    return folder
