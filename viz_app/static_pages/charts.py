"""The charts of a static edition: their figures as JSON, and the libraries that draw them."""

import json
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import altair as alt
import plotly
import plotly.graph_objects as go

from viz_app.drawing.frame import fitted
from viz_app.drawing.screen import USUAL_SCREEN, Screen
from viz_app.ui import svg_export
from viz_app.views.page import Plot

SCREENS = (USUAL_SCREEN, Screen(window="phone"))
PLOTLY, VEGA = "plotly", "vega"  # libraries, by the names of their scripts
VEGA_SOURCE = "vl_convert"  # the package that holds Vega-Lite's script, an optional dependency


def has_vega() -> bool:
    """Return True if Vega-Lite's script is installed; that of Plotly always is."""
    return find_spec(VEGA_SOURCE) is not None


def can_draw(chart: Any) -> bool:
    """Return True if the library that draws the chart is installed."""
    return isinstance(chart, go.Figure) or has_vega()


def chart_payload(plot: Plot, light: Any, dark: Any) -> dict[str, Any]:
    """Return a chart in both themes, for usual screens and for phones, as static.js reads it."""
    figures = {
        theme: {screen.window: _chart_json(plot, chart, screen) for screen in SCREENS}
        for theme, chart in (("light", light), ("dark", dark))
    }
    is_plotly = isinstance(light, go.Figure)
    config = svg_export(plot.file) if is_plotly else {}
    return {"library": PLOTLY if is_plotly else VEGA, "config": config, **figures}


def _chart_json(plot: Plot, chart: Any, screen: Screen) -> dict[str, Any]:
    if isinstance(chart, go.Figure):
        return json.loads(fitted(go.Figure(chart), screen).to_json())  # `fitted` changes a figure
    chart = fitted(chart, screen)
    if plot.fits:
        chart.width = "container"
        chart.autosize = alt.AutoSizeParams(type="fit", contains="padding")
    with alt.data_transformers.disable_max_rows():
        return chart.to_dict()


def libraries(payloads: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the libraries that draw these charts, in a fixed order."""
    return sorted({payload["library"] for payload in payloads})


def library_script(name: str) -> bytes:
    """Return the script of a library."""
    if name == PLOTLY:
        return (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    import vl_convert  # only where Altair's charts are exported

    versions = vl_convert.get_vegalite_versions()
    fitting = [each for each in versions if is_compatible(each, alt.SCHEMA_VERSION)]
    script = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=(fitting or versions)[-1]
    )
    return f"(() => {{\n{script}\n}})();\n".encode()


def is_compatible(version: str, schema: str) -> bool:
    """Return True for a Vega-Lite of the schema's major version that is not newer than it."""
    (major, minor), wanted = map(int, version.split(".")), schema.removeprefix("v").split(".")
    return major == int(wanted[0]) and minor <= int(wanted[1])
