"""Browser components, each a folder of JavaScript, CSS and HTML: payloads in, small events out.

A component has no sandbox, so user text is only set with textContent or drawn on a canvas, never as
HTML. Streamlit is not imported here, so that notebooks can use the components as well; mounting.py
mounts one on a page of the app.
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
    """An event of a browser component.

    `trigger` carries it, `field` is the key it is recognised by (any message if empty), and
    `arguments` converts a message to the handler's arguments.
    """

    trigger: str
    arguments: Callable[[Any], tuple[Any, ...]]
    field: str = ""

    def is_in(self, message: object) -> bool:
        """Return True if a message of this event's trigger carries the event."""
        return not self.field or (isinstance(message, dict) and self.field in message)


@dataclass(frozen=True, eq=False)
class Component:
    """A browser component: its folder, its scripts in order, borrowed style sheets, and its events.

    One of the scripts defines the function `mount`, which is called with the data to show. Scripts
    and styles are relative to the folder; `common` is a glob pattern for the shared scripts that go
    before them.
    """

    name: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...] = ()
    events: Mapping[str, Event] = field(default_factory=dict)
    common: str = "*"

    @cached_property
    def files(self) -> dict[str, str]:
        """The html, css and js, sent inline so that the component works from any installation."""
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


def stamp_payload(data: bytes | dict, key: str, edition: tuple[int, int]) -> bytes | dict:
    """Return a component's data with its key and edition appended (viz_app/session/live.py).

    For an object they are added as fields, for a packed payload as a suffix.
    """
    if isinstance(data, dict):
        content = json.loads(show_directions(json.dumps(data, ensure_ascii=False)))
        return {**content, "key": key, "edition": edition}
    name = key.encode()
    return data + name + struct.pack("<III", len(name), *edition)
