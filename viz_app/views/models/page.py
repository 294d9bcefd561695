"""Models: a card with the masks of each available checkpoint, grouped by family."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import numpy as np

from models.analysis.outline import Outline, outline
from models.architectures import family_of
from models.checkpoint import read_config
from models.hub import load as hub
from models.hub.describe import capabilities
from models.opening import folder_of
from models.printable import printable
from viz_app import checkpoints, words
from viz_app.components.catalogue import CARDS, PLAIN
from viz_app.drawing.payload import pack
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.url_state import CHECKPOINT
from viz_app.views import onward
from viz_app.views.models import text
from viz_app.views.page import Checks, Page, PageCell, ShownComponent, View

CARD_PAGE = "task"  # the page that a card opens
REFERENCE = "reference/index.html"  # viz_app/reference

Card = tuple[tuple[int, str], dict[str, Any], list[np.ndarray]]  # its group, its texts, the masks


def cards(run: CurrentRun) -> tuple[bytes, list[tuple[str, str]]]:
    """Return the payload of the component `cards`, and (name, reason) of unreadable checkpoints.

    The opened model comes first, without a link; the others follow by family in
    historical order.
    """
    outlines, unreadable = [], []
    now: Card | None = None
    for name, folder in checkpoints.offered().items():
        if name == checkpoints.module():  # nothing is known of it before a run
            continue
        try:
            path = folder_of(folder)
            is_open, of_library = path.resolve() == run.scope.path.resolve(), hub.is_folder(path)
            if is_open and of_library:
                continue
            make = library_card if of_library else card
            drawing = lambda make=make, name=name, folder=folder: make(name, folder)  # noqa: E731
            one = cache.checkpoint_drawing(folder, ("card", name), drawing)
            if is_open:
                now = one
            else:
                outlines.append(one)
        except ValueError as error:
            unreadable.append((name, checkpoints.error_message(error)))
    outlines.sort(key=lambda one: (*one[0], len(one[1]["family"]), one[1]["name"]))
    first = (0, ""), opened_card(run), []
    if now is not None:
        first = now[0], {key: value for key, value in now[1].items() if key != "href"}, now[2]
    masks = [mask for *_, outline_masks in (first, *outlines) for mask in outline_masks]
    groups = [{"title": text.OPEN, "cards": [first[1]]}]
    for _, members in groupby(outlines, key=lambda one: one[0]):
        together = [shown_card for _, shown_card, _ in members]
        groups.append(
            {
                "title": min((shown_card["family"] for shown_card in together), key=len),
                "cards": together,
            }
        )
    cells = np.concatenate([mask.ravel() for mask in masks]) if masks else np.zeros(0)
    python = {"label": text.PYTHON, "href": REFERENCE}
    header = {"groups": groups, "none": text.NO_THUMBNAIL, "more": text.MORE, "python": python}
    return pack(header, cells=cells.astype(np.uint8)), unreadable


def card(name: str, folder: str) -> Card:
    """Return the card of a checkpoint.

    Raises:
        CheckpointError: it cannot be read.
        ValueError: the model is too large.
    """
    config, training = read_config(folder_of(folder)), cache.description(folder).training
    model_outline: Outline = outline(config)
    picture = {
        "name": printable(name),
        "family": text.model_family(family_of(config)),
        "purpose": text.menu_purpose(training, config),
        **_record(training),
        "sizes": text.sizes(config, model_outline.n_parameters),
        "href": _href(name),
        "masks": [
            [
                text.mask_name(kind),
                text.mask_title(kind, int((~mask).sum()), mask.numel()),
                *mask.shape,
            ]
            for kind, mask in model_outline.masks.items()
        ],
    }
    return (
        text.model_group(config),
        picture,
        [mask.numpy() for mask in model_outline.masks.values()],
    )


def library_card(name: str, folder: str) -> Card:
    """Return the card of a Hugging Face folder that is not open.

    Raises:
        CheckpointError: it cannot be read.
    """
    family = cache.description(folder).family
    picture = {
        "name": printable(name),
        "family": text.model_family(family),
        "purpose": text.UNOPENED,
        "shown": [],
        "masks": [],
        "href": _href(name),
    }
    return (family.year, family.name), picture, []


def opened_card(run: CurrentRun) -> dict[str, Any]:
    """Return the opened model's card: its record, what a run shows, and why the rest is missing."""
    scope, training = run.scope, run.scope.training
    n = sum(parameter.numel() for parameter in scope.model.parameters())
    return {
        "name": scope.name,
        "family": text.model_family(family_of(scope.config)),
        **_record(training),
        "purpose": ""
        if scope.model.answer_description
        else text.menu_purpose(training, scope.config),
        "sizes": text.opened_sizes(n, scope.n_ctx),
        "masks": [],
        "shown": [words.as_sentence(line) for line in capabilities(scope, run.trace)],
    }


def _record(training: dict[str, Any]) -> dict[str, str]:
    return {
        "scores": text.scores(training),
        "made": words.training_origin(training),
        "licence": training.get("licence", ""),
    }


def _href(name: str) -> str:
    return f"{CARD_PAGE}?{urlencode({CHECKPOINT.name: name})}"


def _payloads(run: CurrentRun, choices: None) -> Pictures:
    payload, unreadable = cards(run)
    n_searched = checkpoints.MAX_SEARCHED_FOLDERS if checkpoints.is_search_cut() else None
    return {"cards": payload, "note models": text.missing_checkpoints(unreadable, n_searched)}


def _layout(run: CurrentRun, choices: None, pictures: Pictures) -> Sequence[PageCell]:
    return [ShownComponent(CARDS), ShownComponent(PLAIN, "note models"), Checks()]


ALL_MODELS = View(
    _payloads,
    _layout,
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)
MODELS_PAGE = Page(
    "Models",
    text.MODELS_QUESTION,
    lambda run: text.MODELS_ANSWER,
    {"": lambda run: ALL_MODELS},
    lambda run, choices: onward.what_it_reads(run, run.scope.name),
    shows_changes=False,
)
