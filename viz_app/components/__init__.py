"""Browser parts, each a folder with its JavaScript, CSS and a Python wrapper: one payload in, small triggers out.

A component has no sandbox, so text of the user is only ever set with textContent or drawn on a canvas, never as HTML. What a
component is made of is told here without Streamlit, for a notebook; mounting.py puts it on a page of the app.
"""

import struct
from functools import cached_property
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
EXPORT = "\nexport default show;"  # of components/common/live.js: what Streamlit calls


def assemble(
    name: str, *scripts: str, styles: tuple[str, ...] = (), common: str = "*"
) -> dict[str, str]:
    """The html, css and js of the component in folder `name`: its scripts after the shared ones (of the stem `common`), its
    style too (after `styles`, which lie in its folder or, as "../other/x.css", in another's).

    One of its scripts holds the function `mount`, which is called with what there is to show.
    """
    shared = sorted((_HERE / "common").glob(f"{common}.js"))
    own = [_HERE / name / script for script in scripts]
    sheets = [
        _HERE / "common" / "common.css",
        *(_HERE / name / style for style in (*styles, f"{name}.css")),
    ]
    return {
        "html": (_HERE / name / f"{name}.html").read_text("utf-8"),
        "css": "\n".join(path.read_text("utf-8") for path in sheets),
        "js": "\n".join(path.read_text("utf-8") for path in (*shared, *own)) + EXPORT,
    }


class Component:
    """A browser part by the folder it lies in; called, it is put on the page that Streamlit is drawing."""

    def __init__(self, name: str, *scripts: str, **parts: Any) -> None:
        self.name = name
        self._asked = scripts, parts

    @cached_property
    def files(self) -> dict[str, str]:
        """Its html, css and js, sent inline, so that it works from a source tree, an editable and a plain install alike."""
        scripts, parts = self._asked
        return assemble(self.name, *scripts, **parts)

    def __call__(self, *, key: str, data: bytes | dict, **on: Any) -> Any:
        from viz_app.components.mounting import mount  # here: a notebook has no need of Streamlit

        return mount(self, key=key, data=data, **on)


def register(name: str, *scripts: str, **parts: Any) -> Component:
    """The component that `assemble` puts together; what it shows is stamped with its edition."""
    return Component(name, *scripts, **parts)


def news(key: str, name: str) -> Any:
    """What the component of this key has sent under a name, None if nothing."""
    from viz_app.components import mounting

    return mounting.news(key, name)


def stamped(data: bytes | dict, key: str, edition: tuple[int, int]) -> bytes | dict:
    """What the component of this key shows, with the key and its edition (viz_app/session/live.py): behind a payload, in an
    object."""
    if isinstance(data, dict):
        return {**data, "key": key, "edition": edition}
    name = key.encode()
    return data + name + struct.pack("<III", len(name), *edition)
