"""Browser parts, each a folder with its JavaScript, CSS and a Python wrapper: one bytes payload in, small triggers out.

A component has no sandbox, so text of the user is only ever set with textContent or drawn on a canvas, never as HTML.
"""

from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent


def assemble(name: str, *scripts: str, styles: tuple[str, ...] = ()) -> dict[str, str]:
    """The html, css and js of the component in folder `name`: its scripts after the shared ones, its style too (after
    `styles`, which lie in its folder or, as "../other/x.css", in another's).

    The last script holds the `export default` that Streamlit calls.
    """
    shared = sorted((_HERE / "common").glob("*.js"))
    own = [_HERE / name / script for script in scripts]
    sheets = [_HERE / "common" / "common.css", *(_HERE / name / style for style in (*styles, f"{name}.css"))]
    return {
        "html": (_HERE / name / f"{name}.html").read_text("utf-8"),
        "css": "\n".join(path.read_text("utf-8") for path in sheets),
        "js": "\n".join(path.read_text("utf-8") for path in (*shared, *own)),
    }


def register(name: str, *scripts: str, styles: tuple[str, ...] = ()) -> Any:
    """The mount function of the component that `assemble` puts together.

    Everything is sent inline, so that it works from a source tree, an editable and a plain install alike.
    """
    return st.components.v2.component(f"attnscope_{name}", **assemble(name, *scripts, styles=styles))
