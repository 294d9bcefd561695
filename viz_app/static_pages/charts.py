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
from viz_app.drawing.screen import USUAL_SCREEN
from viz_app.ui import svg_export
from viz_app.views.page import Plot

PLOTLY, VEGA = "plotly", "vega"  # libraries, by the names of their scripts
VEGA_SOURCE = "vl_convert"  # the package that holds Vega-Lite's script, an optional dependency


def has_vega() -> bool:
    """Return True if Vega-Lite's script is installed; that of Plotly always is."""
    return find_spec(VEGA_SOURCE) is not None


def can_draw(chart: Any) -> bool:
    """Return True if the library that draws the chart is installed."""
    return isinstance(chart, go.Figure) or has_vega()


def chart_payload(plot: Plot, light: Any, dark: Any) -> dict[str, Any]:
    """Return a chart in both themes, as static.js reads it."""
    if isinstance(light, go.Figure):
        figures = {"light": _plotly_json(light), "dark": _plotly_json(dark)}
        return {"library": PLOTLY, "config": svg_export(plot.file), **figures}
    figures = {"light": _vega_json(plot, light), "dark": _vega_json(plot, dark)}
    return {"library": VEGA, "config": {}, **figures}


def _plotly_json(figure: go.Figure) -> dict[str, Any]:
    return json.loads(fitted(figure, USUAL_SCREEN).to_json())


def _vega_json(plot: Plot, chart: alt.TopLevelMixin) -> dict[str, Any]:
    chart = fitted(chart, USUAL_SCREEN)
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
