"""Helpers to read a page that AppTest has run: the data sent to its components, its text and its checks."""

import base64
import io
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs

import numpy as np
import pyarrow as pa
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import viz_app
from viz_app.drawing.payload import unpack
from viz_app.input_bar import form
from viz_app.session.parameters import declared_parameters


class _SessionState:
    """The state of a session that AppTest runs, as code in the session sees it between two runs."""

    def __init__(self, app: AppTest) -> None:
        self._state = app.session_state

    def __contains__(self, key: str) -> bool:
        return key in self._state

    def __getitem__(self, key: str) -> Any:
        return self._state[key]

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __setitem__(self, key: str, value: Any) -> None:
        self._state[key] = value

    def pop(self, key: str, default: Any) -> Any:
        if key not in self._state:
            return default
        value = self._state[key]
        del self._state[key]
        return value

    def setdefault(self, key: str, value: Any) -> Any:
        if key not in self._state:
            self._state[key] = value
        return self._state[key]


def in_session(app: AppTest) -> AbstractContextManager:
    """Let the code in this block see the session of this app, as an event of the browser does."""
    return patch("streamlit.session_state", _SessionState(app))


def pick_model(app: AppTest, name: str) -> AppTest:
    """Choose a model, as the picker in the browser does, and run the page."""
    with in_session(app):
        form.pick_model(name)
    return app.run()


def picker(app: AppTest) -> dict[str, Any]:
    """Return the data sent to the picker of models."""
    return json.loads(component(app, "picker").json)


def picker_models(app: AppTest) -> dict[str, str]:
    """Return the models that the picker offers: name → description."""
    menu = [option for group in picker(app)["groups"] for option in group["options"]]
    return {option["name"]: option["detail"] for option in menu}


APP = Path(viz_app.__file__).with_name("app.py")
PATIENCE = 240  # s


def app_at(page: str = "", **address: str | list[str]) -> AppTest:
    """Run the whole app at this address; a "_" in a parameter's name may be written for "-"."""
    app = AppTest.from_file(str(APP), default_timeout=PATIENCE)
    if page:
        app._page_hash = calc_hash(page)
    return _run_at(app, address)


def page_at(name: str, **address: str | list[str]) -> AppTest:
    """Run one page at this address, without the sidebar."""
    return _run_at(AppTest.from_function(_page, args=(name,), default_timeout=PATIENCE), address)


def _page(name: str) -> None:
    from viz_app.navigation import _page

    _page(name, {})


def _run_at(app: AppTest, address: dict[str, str | list[str]]) -> AppTest:
    for name, value in address.items():
        app.query_params[name if name in declared_parameters() else name.replace("_", "-")] = value
    app.run()
    assert not app.exception, app.exception
    return app


def component(app: AppTest, key: str) -> BidiComponent:
    """Return the message that was sent to the component with this key."""
    (found,) = (
        element.proto
        for element in app.get("bidi_component")
        if element.proto.id.endswith(f"-{key}")
    )
    return found


def picture(app: AppTest, key: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a component's payload."""
    return unpack(component(app, key).bytes)


def plotly(app: AppTest, key: str) -> dict[str, Any]:
    """Return the plotly figure with this key."""
    (found,) = (
        element.proto for element in app.get("plotly_chart") if element.proto.id.endswith(key)
    )
    return json.loads(found.spec)


def heatmap(app: AppTest, key: str) -> np.ndarray:
    """Return the cells of a plotly heatmap on the page."""
    z = plotly(app, key)["data"][0]["z"]
    flat = np.frombuffer(base64.b64decode(z["bdata"]), np.dtype(z["dtype"]))
    return flat.reshape([int(n) for n in z["shape"].split(",")])


def points(app: AppTest, title: str) -> list[dict[str, list]]:
    """Return the columns of the table behind each layer of the altair chart with this text in its title."""
    charts = [
        (json.loads(element.proto.spec), element.proto.datasets)
        for element in app.get("vega_lite_chart")
    ]
    ((spec, sent),) = (chart for chart in charts if title in json.dumps(chart[0]["title"]))
    tables = {
        data.name: pa.ipc.open_stream(io.BytesIO(data.data.data)).read_all().to_pydict()
        for data in sent
    }
    return [tables[layer["data"]["name"]] for layer in spec["layer"] if "data" in layer]


def said(app: AppTest, key: str) -> dict[str, Any]:
    """Return the look and the rows of a piece of plain text."""
    return json.loads(component(app, key).json)


def address_of(app: AppTest) -> dict[str, list[str]]:
    """Return the address that the browser is told to show."""
    query = json.loads(component(app, "live").json)["address"]["query"]
    return parse_qs(query, keep_blank_values=True)


def with_key(widgets: Iterable[Any], key: str) -> Any:
    """Return the first of these widgets that has this key."""
    return next(widget for widget in widgets if widget.key == key)


def assert_all_passed(app: AppTest, n: int) -> None:
    """Assert that the page has run without an error and shows n checks, all passed."""
    assert not app.exception
    looks = [look for look, _ in said(app, "checks")["rows"]]
    assert (looks.count("passed"), looks.count("failed")) == (n, 0)


def prose(app: AppTest) -> str:
    """Return all text on the page."""
    html = [part.proto.body for part in app.get("html")]
    told = [json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.json]
    plain = [text for data in told for _, text in data.get("rows", [])]
    return "\n".join(
        [
            *(part.value for part in app.markdown),
            *(part.value for part in app.caption),
            *html,
            *plain,
        ]
    )
