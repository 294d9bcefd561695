"""Browser parts, each a folder with its JavaScript, CSS and HTML: one payload in, small events out.

A component has no sandbox, so text of the user is only ever set with textContent or drawn on a canvas, never as HTML. Streamlit
is not imported here, so a notebook can use the parts as well; mounting.py puts one on a page of the app.
"""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from models.printable import show_directions

_HERE = Path(__file__).parent
EXPORT = "\nexport default show;"  # of components/common/live.js: what Streamlit calls


@dataclass(frozen=True)
class Event:
    """An event of a browser part: the trigger that carries it, the field it is recognised by (any message if empty), and how a
    message becomes the arguments of the handler."""

    trigger: str
    arguments: Callable[[Any], tuple[Any, ...]]
    field: str = ""

    def is_in(self, message: object) -> bool:
        """Return True if a message of this event's trigger carries the event."""
        return not self.field or (isinstance(message, dict) and self.field in message)


@dataclass(frozen=True, eq=False)
class Component:
    """A browser part: its folder, its scripts in order, the style sheets it borrows, and its events by handler name.

    One of the scripts defines the function `mount`, which is called with the data to show. Scripts and styles are relative to
    the folder; `common` is the stem of the shared scripts that go before them.
    """

    name: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...] = ()
    events: Mapping[str, Event] = field(default_factory=dict)
    common: str = "*"

    @cached_property
    def files(self) -> dict[str, str]:
        """The html, css and js, sent inline so that the part works from a source tree and from any install."""
        shared = sorted((_HERE / "common").glob(f"{self.common}.js"))
        scripts = [_HERE / self.name / script for script in self.scripts]
        sheets = [_HERE / self.name / style for style in (*self.styles, f"{self.name}.css")]
        return {
            "html": (_HERE / self.name / f"{self.name}.html").read_text("utf-8"),
            "css": _joined([_HERE / "common" / "common.css", *sheets]),
            "js": _joined([*shared, *scripts]) + EXPORT,
        }


def _joined(paths: list[Path]) -> str:
    return "\n".join(path.read_text("utf-8") for path in paths)


def stamped(data: bytes | dict, key: str, edition: tuple[int, int]) -> bytes | dict:
    """Return the data of the component with this key, stamped with the key and its edition (viz_app/session/live.py): appended
    to a packed payload, as fields of an object."""
    if isinstance(data, dict):
        said = json.loads(show_directions(json.dumps(data, ensure_ascii=False)))
        return {**said, "key": key, "edition": edition}
    name = key.encode()
    return data + name + struct.pack("<III", len(name), *edition)
