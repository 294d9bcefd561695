"""Browser parts, each a folder with its JavaScript, CSS and a Python wrapper: one payload in, small triggers out.

A component has no sandbox, so text of the user is only ever set with textContent or drawn on a canvas, never as HTML.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from viz_app.session.live import session

_HERE = Path(__file__).parent


def assemble(name: str, *scripts: str, styles: tuple[str, ...] = (), common: str = "*") -> dict[str, str]:
    """The html, css and js of the component in folder `name`: its scripts after the shared ones (of the stem `common`), its
    style too (after `styles`, which lie in its folder or, as "../other/x.css", in another's).

    One of its scripts holds the function `mount`, which is called with what there is to show.
    """
    shared = sorted((_HERE / "common").glob(f"{common}.js"))
    own = [_HERE / name / script for script in scripts]
    sheets = [_HERE / "common" / "common.css", *(_HERE / name / style for style in (*styles, f"{name}.css"))]
    return {
        "html": (_HERE / name / f"{name}.html").read_text("utf-8"),
        "css": "\n".join(path.read_text("utf-8") for path in sheets),
        "js": "\n".join(path.read_text("utf-8") for path in (*shared, *own)),
    }


def register(name: str, *scripts: str, **parts: Any) -> Callable[..., Any]:
    """The mount function of the component that `assemble` puts together; what it shows is stamped with its edition.

    Everything is sent inline, so that it works from a source tree, an editable and a plain install alike.
    """
    show = st.components.v2.component(f"attnscope_{name}", **assemble(name, *scripts, **parts))

    def mount(*, key: str, data: bytes | dict, **on: Any) -> Any:
        return show(key=key, data=stamped(data, key, session().edition), **on)

    return mount


def stamped(data: bytes | dict, key: str, edition: tuple[int, int]) -> bytes | dict:
    """What the component of this key shows, with the key and its edition (viz_app/session/live.py): behind a payload, in an
    object."""
    if isinstance(data, dict):
        return {**data, "key": key, "edition": edition}
    name = key.encode()
    return data + name + struct.pack("<III", len(name), *edition)
