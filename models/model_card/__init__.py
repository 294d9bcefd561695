"""`attnscope card`: the model card of a checkpoint, README.md in the Hugging Face hub's format.

A card is made from the checkpoint's files alone: training.json, config.json and the weights. Its
header names no licence: the record holds only that of the data, which is in the text.
"""

import argparse

from models.checkpoint_files import write_bytes
from models.errors import CheckpointError
from models.hub.model import HubModel
from models.model_card.header import LIBRARY, metadata, yaml
from models.model_card.text import card_sections
from models.opening import folder_of, load
from models.runs.scope import Scope

CARD = "README.md"


def write_cards(options: argparse.Namespace) -> int:
    """Run `attnscope card`: write the card of each checkpoint into its folder."""
    for name in options.checkpoint:
        path = folder_of(name) / CARD
        write_bytes(path, card_text(load(name, device="cpu")).encode())
        print(f"{name}: {path}")
    return 0


def card_text(scope: Scope) -> str:
    """Return the text of a checkpoint's card.

    Raises:
        CheckpointError: It is a Hugging Face checkpoint, whose author writes its card.
    """
    if isinstance(scope.model, HubModel):
        raise CheckpointError(f"{scope.name}: cards are written for checkpoints of {LIBRARY} only")
    header = "\n".join(yaml(metadata(scope)))
    body = "\n\n".join(filter(None, map("\n".join, card_sections(scope))))
    return f"---\n{header}\n---\n\n{body}\n"
