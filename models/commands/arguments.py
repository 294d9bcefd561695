"""Flags, their types and their help texts that several commands share."""

import argparse
from typing import Any

import torch

from models.checkpoint_files import RECORD
from models.hub.model import HubModel
from models.opening import load
from models.runs.scope import Scope

Commands = argparse._SubParsersAction  # to which each command adds its parser
DTYPES = ("float32", "bfloat16", "float16")
DTYPE_HELP = (
    "dtype for Hugging Face models (default: the checkpoint's); values are shown in float32"
)
DEVICE_HELP = "cuda, mps or cpu (the first available)"
PAIR_FILES: dict[str, Any] = {"nargs": "+", "metavar": "FILE"}
TWO_WAYS = "a tab-separated file, or two files aligned line by line; .gz too"
TEXT_FILES_HELP = (
    "text files, or the first column of .tsv tables (language, mlm, permutation); "
    "tab-separated question, context and answer (span); tab-separated text and label (classify)"
)


def add_device(command: argparse.ArgumentParser) -> None:
    """Add --device, which may also come before the command."""
    command.add_argument("--device", default=argparse.SUPPRESS, help=DEVICE_HELP)


def add_dtype(command: argparse.ArgumentParser) -> None:
    """Add --dtype, which may also come before the command."""
    command.add_argument("--dtype", choices=DTYPES, default=argparse.SUPPRESS, help=DTYPE_HELP)


def add_record(command: argparse.ArgumentParser) -> None:
    """Add --record; `check_record_option` checks it once the checkpoint is open."""
    command.add_argument(
        "--record",
        action="store_true",
        help="write the results into the checkpoint's training.json",
    )


def check_record_option(options: argparse.Namespace, scope: Scope) -> None:
    """Check that a checkpoint has the record that --record writes into.

    Raises:
        ValueError: It has none.
    """
    if options.record and not (scope.path / RECORD).is_file():
        raise ValueError(f"{scope.name} has no training record, to which --record adds the results")


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def seed(text: str) -> int:
    """Parse a seed of torch's generators."""
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise argparse.ArgumentTypeError(
            f"must be from {-(2**63)} to {2**63 - 1} (64 bits), not {text:.30}"
        )
    return number


def seed_from_0(text: str) -> int:
    """Parse a seed of numpy's generators."""
    if (number := seed(text)) < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {text}")
    return number


def open_scope(options: argparse.Namespace, device: str | torch.device) -> Scope:
    """Open the named checkpoint.

    Raises:
        ValueError: --dtype does not apply to this checkpoint.
    """
    scope = load(options.checkpoint, device=device, dtype=options.dtype)
    if options.dtype not in (None, "float32") and not isinstance(scope.model, HubModel):
        raise ValueError(
            f"--dtype applies to Hugging Face models only; {scope.name} runs in float32"
        )
    return scope
