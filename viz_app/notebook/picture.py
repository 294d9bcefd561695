"""A picture of the app as one HTML page that needs no server and no network: the browser parts that the app is made of, their
payloads, and what they show after a click."""

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from models.checkpoint_files import write_bytes
from viz_app.components import EXPORT, Component, stamped
from viz_app.drawing.payload import pack

_HERE = Path(__file__).parent
_UNPACK = _HERE.parent / "components" / "common" / "payload.js"
THEMES = ("", "light", "dark")


@dataclass(frozen=True)
class Part:
    """A browser part and what it shows at first."""

    component: Component
    payload: bytes


@dataclass(frozen=True)
class Answer:
    """What comes of a gesture: when a part (by its number) sends an event with these values, the part `shows` shows the payload;
    without one it shows what it has with other header `fields`, and with those that it `takes` from the event. Or a line `says`
    something and gives the `code` that draws it, in which {name} stands for a value that the event must have."""

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
    """Shows itself in a notebook. `about` says whose numbers these are; `theme` is "light", "dark", or "" for that of the page
    around; `height` is that of the frame in a notebook until it is drawn, in CSS pixels."""

    title: str
    about: str
    parts: Sequence[Part]
    answers: Sequence[Answer] = ()
    theme: str = ""
    height: int = 620

    def __post_init__(self) -> None:
        if self.theme not in THEMES:
            raise ValueError(
                f'theme must be "light", "dark" or "" for that of the page around, not {self.theme!r}'
            )

    def __repr__(self) -> str:
        return f"<{self.title}>"

    @cached_property
    def html(self) -> str:
        """The whole page, which opens from a file. What comes from users and models stands in it as base64 alone."""
        css, js = ((_HERE / name).read_text("utf-8") for name in ("page.css", "page.js"))
        page = Template((_HERE / "page.html").read_text("utf-8"))
        drawn = base64.b64encode(gzip.compress(self._packed(), mtime=0)).decode()
        return page.substitute(css=css, js=f"{_UNPACK.read_text('utf-8')}\n{js}", drawn=drawn)

    def save(self, path: str | Path) -> None:
        """Write the page to a file: all of it, or the file stays as it was. Raises OSError."""
        write_bytes(Path(path), self.html.encode())

    def _repr_html_(self) -> str:
        """A frame of its own, so that neither its styles nor its keys reach the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" width="100%" height="{self.height}" '
            'style="border: 0; width: 100%" allow="clipboard-write"></iframe>'
        )

    def _packed(self) -> bytes:
        """Everything page.js reads, as one payload; equal payloads are there once."""
        arrays: dict[bytes, str] = {}

        def name(payload: bytes, part: int) -> str:
            whole = stamped(payload, self.parts[part].component.name, (0, 0))
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
                }
                for i, part in enumerate(self.parts)
            ],
            "answers": [
                asdict(a) | {"payload": name(a.payload, a.shows) if a.payload else ""}
                for a in self.answers
            ],
        }
        return pack(
            header, **{name: np.frombuffer(payload, np.uint8) for payload, name in arrays.items()}
        )


def _files(component: Component) -> dict[str, str]:
    """Its html, css and js, the last as a script and not as a module."""
    return {**component.files, "js": component.files["js"].removesuffix(EXPORT)}
