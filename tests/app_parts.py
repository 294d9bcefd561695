"""What tests of the app read from a page that AppTest has run: what was sent to its components, and the checks it shows."""

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
    """Within it, code sees the session of this app, as an event of the browser does."""
    return patch("streamlit.session_state", _SessionState(app))


def pick_model(app: AppTest, name: str) -> AppTest:
    """Choose a model, as the picker in the browser does, and run the page."""
    with in_session(app):
        form.pick_model(name)
    return app.run()


def picker(app: AppTest) -> dict[str, Any]:
    """What the picker of models was sent."""
    return json.loads(component(app, "picker").json)


def offered(app: AppTest) -> dict[str, str]:
    """The models that the picker offers: name → what is said of it."""
    menu = [option for group in picker(app)["groups"] for option in group["options"]]
    return {option["name"]: option["detail"] for option in menu}


APP = Path(viz_app.__file__).with_name("app.py")
PATIENCE = 240  # s


def app_at(page: str = "", **address: str | list[str]) -> AppTest:
    """The whole app, run at this address, in whose names "_" may stand for "-"."""
    app = AppTest.from_file(str(APP), default_timeout=PATIENCE)
    if page:
        app._page_hash = calc_hash(page)
    return _run_at(app, address)


def page_at(name: str, **address: str | list[str]) -> AppTest:
    """One page without the sidebar, run at this address."""
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
    """The message that was sent to the component of this key."""
    (found,) = (
        element.proto
        for element in app.get("bidi_component")
        if element.proto.id.endswith(f"-{key}")
    )
    return found


def picture(app: AppTest, key: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a component's payload."""
    return unpack(component(app, key).bytes)


def plotly(app: AppTest, key: str) -> dict[str, Any]:
    """The plotly figure of this key."""
    (found,) = (
        element.proto for element in app.get("plotly_chart") if element.proto.id.endswith(key)
    )
    return json.loads(found.spec)


def heatmap(app: AppTest, key: str) -> np.ndarray:
    """The cells of a plotly heatmap on the page."""
    z = plotly(app, key)["data"][0]["z"]
    flat = np.frombuffer(base64.b64decode(z["bdata"]), np.dtype(z["dtype"]))
    return flat.reshape([int(n) for n in z["shape"].split(",")])


def points(app: AppTest, title: str) -> list[dict[str, list]]:
    """The columns of the table that each layer of the altair chart with this in its title draws."""
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
    """The look and the rows of a piece of plain text."""
    return json.loads(component(app, key).json)


def address_of(app: AppTest) -> dict[str, list[str]]:
    """The address that the browser is told to write."""
    query = json.loads(component(app, "live").json)["address"]["query"]
    return parse_qs(query, keep_blank_values=True)


def of_key(found: Iterable[Any], key: str) -> Any:
    """The one widget of this key, among those of a kind."""
    return next(widget for widget in found if widget.key == key)


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
    return "\n".join(
        [
            *(part.value for part in app.markdown),
            *(part.value for part in app.caption),
            *html,
            *plain,
        ]
    )
