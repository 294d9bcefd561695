"""A card for each checkpoint that is offered, from its configuration and its record: no weights are read."""

from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import numpy as np

from models.analysis.outline import Outline, outline
from models.architectures import Config
from models.checkpoint import CheckpointError, config_of
from models.scope import folder_of
from viz_app import checkpoints, words
from viz_app.drawing.payload import pack
from viz_app.session import cache
from viz_app.session.url_state import CHECKPOINT
from viz_app.views.models import text

OPENS = "task"      # the page that a card opens

Card = tuple[Config, dict[str, Any], list[np.ndarray]]      # configuration, what is said, the masks


def cards() -> tuple[bytes, list[str]]:
    """The payload of the component `cards`, its models grouped by family in the order of history; and the names of those that
    cannot be read."""
    found, unreadable = [], []
    for name in checkpoints.offered():
        try:
            folder = checkpoints.folder(name)
            found.append(cache.drawn_of(folder, ("card", name), lambda name=name, folder=folder: card(name, folder)))
        except (CheckpointError, ValueError):
            unreadable.append(name)
    found.sort(key=lambda one: (*text.group(one[0]), len(text.family(one[0])), one[1]["name"]))
    groups, masks = [], []
    for _, members in groupby(found, key=lambda one: text.group(one[0])):
        members = list(members)
        title = min((text.family(config) for config, *_ in members), key=len)
        groups.append({"title": title, "cards": [said for _, said, _ in members]})
        masks += [mask for *_, own in members for mask in own]
    cells = np.concatenate([mask.ravel() for mask in masks]) if masks else np.zeros(0)
    return pack({"groups": groups, "none": text.NO_MASK}, cells=cells.astype(np.uint8)), unreadable


def card(name: str, folder: str) -> Card:
    """One checkpoint. Raises CheckpointError, ValueError for a model that is too large."""
    config, training = config_of(folder_of(folder)), cache.description(folder).training
    drawn: Outline = outline(config)
    said = {
        "name": name, "family": text.family(config), "purpose": text.purpose(name, training), "scores": text.scores(training),
        "made": words.made(training), "licence": training.get("licence", ""), "sizes": text.sizes(config, drawn.n_parameters),
        "href": f"{OPENS}?{urlencode({CHECKPOINT.name: name})}",
        "masks": [
            [text.mask_name(kind), text.mask_title(kind, int((~mask).sum()), mask.numel()), *mask.shape]
            for kind, mask in drawn.masks.items()
        ],
    }
    return config, said, [mask.numpy() for mask in drawn.masks.values()]
