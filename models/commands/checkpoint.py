"""`attnscope inspect`, `seal` and `card`: the content, checksums and card of a checkpoint."""

import argparse
from dataclasses import fields

from models.checkpoint import seal
from models.commands.arguments import Commands, add_device, add_dtype, open_scope
from models.hub.describe import model_summary
from models.hub.model import HubModel
from models.model_card import write_cards
from models.opening import folder_of


def add_inspect(commands: Commands) -> None:
    """Add `attnscope inspect`."""
    inspect = commands.add_parser(
        "inspect", help="print configuration, parameters and training record"
    )
    inspect.add_argument("checkpoint")
    add_device(inspect)
    add_dtype(inspect)
    inspect.set_defaults(run=_print_checkpoint)


def add_seal(commands: Commands) -> None:
    """Add `attnscope seal`."""
    parser = commands.add_parser(
        "seal",
        help="accept a checkpoint's files as they are: write their checksums into training.json",
    )
    parser.add_argument("checkpoint", nargs="+")
    parser.set_defaults(run=_seal_files)


def add_card(commands: Commands) -> None:
    """Add `attnscope card`."""
    card = commands.add_parser(
        "card", help="write a checkpoint's model card, README.md, from its training record"
    )
    card.add_argument("checkpoint", nargs="+")
    card.set_defaults(run=write_cards)


def _print_checkpoint(options: argparse.Namespace) -> int:
    """Run `attnscope inspect`: print what a checkpoint holds; return the exit status."""
    scope = open_scope(options, "cpu")
    if isinstance(scope.model, HubModel):
        print("\n".join(model_summary(scope)))
        return 0
    record = scope.training
    print(
        f"{scope.name}: {scope.task}, {sum(p.numel() for p in scope.model.parameters()):,} parameters\n"
    )
    for f in fields(scope.config):
        print(f"  {f.name:18} {getattr(scope.config, f.name)}")
    print("\nparameters")
    for name, p in scope.model.named_parameters():
        print(f"  {name:48} {' × '.join(map(str, p.shape)):>12} {p.numel():>10,}")
    print("\ntraining")
    for name in (
        "command",
        "start",
        "step",
        "averaged_steps",
        "training_seconds",
        "device",
        "data",
        "licence",
        "scores",
    ):
        print(f"  {name:18} {record.get(name)}")
    for run in record.get("runs", []):
        print(f"  {run['name']:32} accuracy {', '.join(f'{one:.2f}' for one in run['accuracy'])}")
    print(f"  {'snapshots':18} {', '.join(map(str, scope.snapshots)) or 'none'}")
    for row in [r for r in record.get("curve", []) if "validation loss" in r]:
        print("  " + "  ".join(f"{k} {v}" for k, v in row.items()))
    return 0


def _seal_files(options: argparse.Namespace) -> int:
    """Run `attnscope seal`: record the checksums of checkpoints; return the exit status."""
    for name in options.checkpoint:
        sums = seal(folder_of(name))
        print(f"{name}: {len(sums)} files sealed: {', '.join(sums)}")
    return 0
