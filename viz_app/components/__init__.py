"""Browser parts, each a folder with its JavaScript, CSS and a Python wrapper: one bytes payload in, small triggers out.

A component has no sandbox, so text of the user is only ever set with textContent or drawn on a canvas, never as HTML.
"""

from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent


def register(name: str, *scripts: str, styles: tuple[str, ...] = ()) -> Any:
    """The mount function of the component in folder `name`, its scripts joined after the shared ones, its style too
    (after `styles`, which lie in its folder or, as "../other/x.css", in another's).

    The last script holds the `export default` that Streamlit calls. Everything is sent inline, so that it works from a
    source tree, an editable and a plain install alike.
    """
    shared = sorted((_HERE / "common").glob("*.js"))
    own = [_HERE / name / script for script in scripts]
    js = "\n".join(path.read_text("utf-8") for path in (*shared, *own))
    sheets = [_HERE / "common" / "common.css", *(_HERE / name / style for style in (*styles, f"{name}.css"))]
    css = "\n".join(path.read_text("utf-8") for path in sheets)
    html = (_HERE / name / f"{name}.html").read_text("utf-8")
    return st.components.v2.component(f"attnscope_{name}", html=html, css=css, js=js)
