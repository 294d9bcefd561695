"""The menu of models: shipped ones by family in historical order, folders by their location."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from models import weights
from models.architectures import architecture_name, family_of
from models.checkpoint import CheckpointError, Description, read_config
from models.hub import load as hub
from models.opening import folder_of
from models.printable import printable
from models.tasks import TASK_NAMES
from models.tasks.purpose import task_purpose
from viz_app import checkpoints, words
from viz_app.session import cache

OWN_MODULE, FOLDER_ENTRY = "Own module", "Folder {}"
UNREADABLE = "cannot be read"
_PAPER = r" \([^()]*\d{4}\)"  # in the name of a family


@dataclass(frozen=True)
class Entry:
    """An entry of the menu: a model's name, and its purpose, family and size in `detail`."""

    name: str
    detail: str
    group: str
    rank: tuple[Any, ...]  # sorts the menu
    attends: bool = True  # False if the model is known to have no attention

    def as_json(self) -> dict[str, str]:
        """Return the entry as the picker shows it."""
        label = Path(self.name).name if self.group == OWN_MODULE else self.name
        return {
            "name": self.name,
            "label": printable(label),
            "detail": printable(self.detail),
        }


def menu_entries() -> list[Entry]:
    """Return the entries in menu order: shipped models, folders, the user's own module."""
    return sorted(
        (entry(name, folder) for name, folder in checkpoints.offered().items()),
        key=lambda one: one.rank,
    )


def groups() -> list[dict[str, Any]]:
    """Return the menu as the picker shows it; a family is called by its shortest name."""
    grouped = []
    for _, members in groupby(menu_entries(), key=lambda one: one.rank[:3]):
        together = list(members)
        title = min((one.group for one in together), key=len)
        options = [one.as_json() for one in together]
        grouped.append({"title": printable(title), "options": options})
    return grouped


def entry(name: str, folder: str) -> Entry:
    """Return the menu entry of an offered model, which is opened from `folder`."""
    if name == checkpoints.module():
        return Entry(name, "", OWN_MODULE, (2, 0, "", name))
    shipped = name == folder
    group = "" if shipped else FOLDER_ENTRY.format(name.partition("/")[0])
    with suppress(CheckpointError, ValueError):
        return cache.checkpoint_drawing(
            folder, ("menu", name), lambda: _of_folder(name, folder, group)
        )
    return Entry(name, UNREADABLE, group, (1, 0, group, True, name))


def menu_description(name: str) -> Description | None:
    """Return the description of a checkpoint; None if unreadable (reported when picked)."""
    with suppress(CheckpointError):
        return cache.description(checkpoints.folder(name))
    return None


def _of_folder(name: str, folder: str, group: str) -> Entry:
    """Return the entry of a checkpoint.

    Raises:
        CheckpointError, ValueError: It cannot be read, or is too large.
    """
    path = folder_of(folder)
    if hub.is_folder(path):
        return Entry(name, cache.description(folder).family.name, group, (1, 0, group, False, name))
    config, training = read_config(path), cache.description(folder).training
    family = family_of(config)
    blank = weights.blank(config)
    n_parameters, attends = sum(p.numel() for p in blank.parameters()), bool(blank.kinds)
    detail = " · ".join([*_facts(training, config), size_text(n_parameters)])
    if group:
        return Entry(name, detail, group, (1, 0, group, False, name), attends)
    task = training.get("task", "")
    rank = (
        0,
        family.year,
        architecture_name(config),
        TASK_NAMES.index(task) if task in TASK_NAMES else len(TASK_NAMES),
    )
    title = words.as_sentence(family.name).removesuffix(".")
    return Entry(name, detail, title, (*rank, len(family.name), name), attends)


def _facts(training: dict[str, Any], config: Any) -> Iterator[str]:
    """Yield a model's purpose, its family, and the λ of its fine-tuning."""
    if purpose := task_purpose(training, config):
        yield purpose
    yield re.sub(_PAPER, "", family_of(config).name)
    data = training.get("data")
    if isinstance(data, dict) and isinstance(data.get("lm_weight"), int | float):
        yield f"λ = {data['lm_weight']:g}"


def size_text(n_parameters: int) -> str:
    """Return a number of parameters in short form: "4.3 M", "240 k"."""
    for unit, n in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n_parameters >= n:
            scaled = n_parameters / n
            return f"{scaled:.1f} {unit}" if scaled < 10 else f"{scaled:.0f} {unit}"
    return str(n_parameters)
