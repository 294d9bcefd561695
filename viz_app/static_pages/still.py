"""A still: a page of the app in one state, and where its clicks lead."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from models import Scope
from viz_app.notebook.picture import Mounted
from viz_app.static_pages.contents import StaticPage
from viz_app.static_pages.events import Message

Node = dict[str, Any]  # of a layout: a part, a text, columns, a row, choices, or a drawer


@dataclass(frozen=True)
class Job:
    """A still to be made: a page at an address, for a model and its texts."""

    scope: Scope
    texts: tuple[str, ...]
    place: StaticPage
    query: str


@dataclass(frozen=True)
class Move:
    """The address that a message of a component, or an option of a choice, leads to.

    `is_change` is True if it changes the run.
    """

    key: str  # of the component's picture, or of the choice
    trigger: str
    message: Message
    query: str
    is_change: bool = False


@dataclass(frozen=True)
class Still:
    """A page at an address, and where its clicks lead.

    `parts` are the components and `charts` the charts (charts.py) by the keys of their pictures,
    `choices` the choices among a few options by theirs, `texts` the texts of the app as HTML by
    name, and `layout` places all of them. `leads_to` is the address of the question at the end, and
    `is_changed` is True if the run is not that of the model as trained.
    """

    query: str
    parts: Mapping[str, Mounted] = field(default_factory=dict)
    charts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    layout: tuple[Node, ...] = ()
    moves: tuple[Move, ...] = ()
    leads_to: tuple[str, str] = ("", "")  # page, query
    is_changed: bool = False
    missing: str = ""  # why there is nothing to show


def sorted_query(query: str) -> str:
    """Return the query with sorted parameters, so that equal addresses are equal texts."""
    return urlencode(sorted(parse_qsl(query, keep_blank_values=True)))
