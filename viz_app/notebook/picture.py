"""Pictures as self-contained HTML pages: browser components, payloads and click responses."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from models.checkpoint_files import write_bytes
from viz_app.components import EXPORT, Component, stamp_payload
from viz_app.drawing.payload import pack

_HERE = Path(__file__).parent
_UNPACK = _HERE.parent / "components" / "common" / "payload.js"
THEMES = ("", "light", "dark")


@dataclass(frozen=True)
class Mounted:
    """A browser component and its initial payload: a packed one, or an object."""

    component: Component
    payload: bytes | dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """The response to an event of a part that carries these `values`.

    The part number `shows` gets a new `payload`; without one it keeps its own with other header
    `fields`, and those that it `takes` from the event. Alternatively a line `says` something and
    gives the `code` that draws it, in which {name} is replaced by a value of the event.
    """

    event: str
    values: Mapping[str, Any] = field(default_factory=dict)
    part: int = 0
    shows: int = 0
    payload: bytes = b""
    fields: Mapping[str, Any] = field(default_factory=dict)
    takes: Sequence[str] = ()
    says: str = ""
    code: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture that displays itself in a notebook.

    `about` describes the run; `theme` is "light", "dark", or "" to follow the surrounding page;
    `height` is the initial height of the notebook frame in CSS pixels. `body` is HTML around the
    parts, whose elements with the attribute `data-part` hold the parts of these numbers.
    """

    title: str
    about: str
    parts: Sequence[Mounted]
    answers: Sequence[Answer] = ()
    theme: str = ""
    height: int = 620
    body: str = ""

    def __post_init__(self) -> None:
        if self.theme not in THEMES:
            raise ValueError(
                f'theme must be "light", "dark" or "" for that of the page around, not {self.theme!r}'
            )

    def __repr__(self) -> str:
        return f"<{self.title}>"

    @cached_property
    def html(self) -> str:
        """The complete page, which opens from a file.

        User and model text is embedded as base64 only.
        """
        css, js = ((_HERE / name).read_text("utf-8") for name in ("page.css", "page.js"))
        page = Template((_HERE / "page.html").read_text("utf-8"))
        packed = base64.b64encode(gzip.compress(self._packed(), mtime=0)).decode()
        return page.substitute(
            css=style_sheet() + css, js=f"{part_script()}\n{js}", drawn=packed, body=self.body
        )

    def save(self, path: str | Path) -> None:
        """Write the page to a file atomically: on an error (OSError) the file is unchanged."""
        write_bytes(Path(path), self.html.encode())

    def _repr_html_(self) -> str:
        """Return an iframe, so that neither styles nor keystrokes reach the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" width="100%" height="{self.height}" '
            'style="border: 0; width: 100%" allow="clipboard-write"></iframe>'
        )

    def _packed(self) -> bytes:
        """Return everything page.js reads as one payload, with equal payloads stored once."""
        arrays: dict[bytes, str] = {}

        def name(payload: bytes | dict, part: int) -> str:
            whole = stamp_payload(payload, self.parts[part].component.name, (0, 0))
            if isinstance(whole, dict):
                whole = json.dumps(whole, ensure_ascii=False).encode()
            return arrays.setdefault(whole, f"p{len(arrays)}")

        header = {
            "title": self.title,
            "about": self.about,
            "theme": self.theme,
            "parts": [
                {
                    "name": part.component.name,
                    "files": _files(part.component),
                    "payload": name(part.payload, i),
                    "is_object": isinstance(part.payload, dict),
                }
                for i, part in enumerate(self.parts)
            ],
            "answers": [
                asdict(answer)
                | {"payload": name(answer.payload, answer.shows) if answer.payload else ""}
                for answer in self.answers
            ],
        }
        return pack(
            header, **{name: np.frombuffer(payload, np.uint8) for payload, name in arrays.items()}
        )


def style_sheet() -> str:
    """Return the app's colours, light and dark, and the style of a lesson on paper."""
    return "".join((_HERE / name).read_text("utf-8") for name in ("colours.css", "paper.css"))


def part_script() -> str:
    """Return the script that reads packed payloads and mounts components without a server."""
    return "\n".join(path.read_text("utf-8") for path in (_UNPACK, _HERE / "parts.js"))


def _files(component: Component) -> dict[str, str]:
    """Return a component's html, css and js, with the js as a script instead of a module."""
    return {**component.files, "js": component.files["js"].removesuffix(EXPORT)}
