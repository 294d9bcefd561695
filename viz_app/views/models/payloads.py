"""A card for each checkpoint that is offered, from its configuration and its record: no weights are read. Of somebody else's
model only a run tells what it can show: its card says so until it is open, and says it then."""

from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import numpy as np

from models.analysis.outline import Outline, outline
from models.architectures import family_of
from models.checkpoint import config_of
from models.hub import load as hub
from models.hub.describe import capabilities
from models.opening import folder_of
from models.printable import printable
from viz_app import checkpoints, words
from viz_app.drawing.payload import pack
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.url_state import CHECKPOINT
from viz_app.views.models import text

OPENS = "task"  # the page that a card opens

Card = tuple[
    tuple[int, str], dict[str, Any], list[np.ndarray]
]  # the group that it stands in, what is said, the masks


def cards(run: CurrentRun) -> tuple[bytes, list[tuple[str, str]]]:
    """The payload of the component `cards`: the opened model, if no other card tells of it, then those offered, grouped by family
    in the order of history; and of those that cannot be read the name and the reason."""
    found, unreadable, is_told = [], [], False
    for name in checkpoints.available():
        if name == checkpoints.module():  # nothing is known of it before a run
            continue
        try:
            folder = checkpoints.folder(name)
            path = folder_of(folder)
            is_open, of_library = path.resolve() == run.scope.path.resolve(), hub.is_folder(path)
            if not (is_open and of_library):
                make = library_card if of_library else card
                drawing = lambda make=make, name=name, folder=folder: make(name, folder)  # noqa: E731
                found.append(cache.checkpoint_drawing(folder, ("card", name), drawing))
                is_told |= is_open
        except ValueError as error:
            unreadable.append((name, checkpoints.error_message(error)))
    found.sort(key=lambda one: (*one[0], len(one[1]["family"]), one[1]["name"]))
    groups = [] if is_told else [{"title": text.OPEN, "cards": [opened_card(run)]}]
    masks = [mask for *_, own in found for mask in own]
    for _, members in groupby(found, key=lambda one: one[0]):
        together = [said for _, said, _ in members]
        groups.append(
            {"title": min((said["family"] for said in together), key=len), "cards": together}
        )
    cells = np.concatenate([mask.ravel() for mask in masks]) if masks else np.zeros(0)
    return pack({"groups": groups, "none": text.NO_MASK}, cells=cells.astype(np.uint8)), unreadable


def card(name: str, folder: str) -> Card:
    """One checkpoint. Raises CheckpointError, ValueError for a model that is too large."""
    config, training = config_of(folder_of(folder)), cache.description(folder).training
    drawn: Outline = outline(config)
    said = {
        "name": printable(name),
        "family": text.family(family_of(config)),
        "purpose": text.purpose(name, training),
        **_record(training),
        "sizes": text.sizes(config, drawn.n_parameters),
        "href": _href(name),
        "masks": [
            [
                text.mask_name(kind),
                text.mask_title(kind, int((~mask).sum()), mask.numel()),
                *mask.shape,
            ]
            for kind, mask in drawn.masks.items()
        ],
    }
    return text.group(config), said, [mask.numpy() for mask in drawn.masks.values()]


def library_card(name: str, folder: str) -> Card:
    """A folder of another library, which is not open. Raises CheckpointError."""
    family = cache.description(folder).family
    said = {
        "name": printable(name),
        "family": text.family(family),
        "purpose": text.UNOPENED,
        "shown": [],
        "masks": [],
        "href": _href(name),
    }
    return (family.year, family.name), said, []


def opened_card(run: CurrentRun) -> dict[str, Any]:
    """What the opened model says of itself and what a run of it lays open, and why the rest is not. It leads nowhere."""
    scope, made = run.scope, run.scope.training
    n = sum(parameter.numel() for parameter in scope.model.parameters())
    return {
        "name": scope.name,
        "family": text.family(family_of(scope.config)),
        **_record(made),
        "purpose": "" if scope.model.what_it_answers else text.purpose(scope.name, made),
        "sizes": text.opened_sizes(n, scope.n_ctx),
        "masks": [],
        "shown": [words.sentence(line) for line in capabilities(scope, run.trace)],
    }


def _record(training: dict[str, Any]) -> dict[str, str]:
    return {
        "scores": text.scores(training),
        "made": words.training_origin(training),
        "licence": training.get("licence", ""),
    }


def _href(name: str) -> str:
    return f"{OPENS}?{urlencode({CHECKPOINT.name: name})}"
