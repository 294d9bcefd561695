"""What tests of the app read from a page that AppTest has run: what was sent to its components, and the checks it shows."""

import json
from typing import Any

import numpy as np
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.testing.v1 import AppTest

from viz_app.drawing.payload import unpack


def component(app: AppTest, key: str) -> BidiComponent:
    """The message that was sent to the component of this key."""
    (found,) = (element.proto for element in app.get("bidi_component") if element.proto.id.endswith(f"-{key}"))
    return found


def picture(app: AppTest, key: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a component's payload."""
    return unpack(component(app, key).bytes)


def said(app: AppTest, key: str) -> dict[str, Any]:
    """The look and the rows of a piece of plain text."""
    return json.loads(component(app, key).json)


def all_passed(app: AppTest, n: int) -> None:
    """The page stands, and n checks stand on it, all passed."""
    assert not app.exception
    looks = [look for look, _ in said(app, "checks")["rows"]]
    assert (looks.count("passed"), looks.count("failed")) == (n, 0)


def prose(app: AppTest) -> str:
    """All that is written on the page."""
    html = [part.proto.body for part in app.get("html")]
    told = [json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.json]
    plain = [text for data in told for _, text in data.get("rows", [])]
    return "\n".join([*(part.value for part in app.markdown), *(part.value for part in app.caption), *html, *plain])
