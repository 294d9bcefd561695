"""Shared parts of charts: titles, line styles, and a plotly layout in the page's colours."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import TypeVar

import altair as alt
import plotly.graph_objects as go

from viz_app.drawing.look import Look
from viz_app.drawing.screen import LABEL_SIZE, TITLE_SIZE, USUAL_SCREEN, Screen

LINE_COLOURS = [
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#8C6BB1",
    "#999933",
]  # as HEAD_COLOURS
# dashes and gaps in px, in the order of LINE_COLOURS, so that lines differ without colours too
LINE_STYLES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [12, 3], [4, 2], [1, 3], [9, 3, 2, 3, 2, 3]]
FONT = "Source Sans, sans-serif"
Titled = TypeVar("Titled", alt.Chart, alt.LayerChart, alt.FacetChart)
NO_SETTINGS: Mapping = MappingProxyType({})
NOTE_LINE, NOTE_GAP = 16, 14  # px: height of a note's line, and its distance from the x axis title
GRID_COLOUR = "rgba(128, 136, 153, 0.25)"
LEGEND_LAYOUT = {
    "orientation": "h",
    "x": 0,
    "y": 0,
    "yref": "container",
    "yanchor": "bottom",
}  # in a margin under the picture


TITLE_CHARACTERS = 44  # in a line of a title
# px; Streamlit's own follow the page's font size, which changes after the chart has been drawn
AXIS_PADDING = {"labelPadding": 6, "titlePadding": 8}
LEGEND_LINE = 20  # px, of an entry of a legend
PHONE_LEGEND_LENGTH = 36  # characters of the entries of a legend that are side by side on a phone
MAX_LABEL_LENGTH = 20  # longest label of a legend, in multiples of its font size
Chart = TypeVar("Chart", alt.TopLevelMixin, go.Figure)


def with_title(chart: Titled, text: str, height: int | None = None) -> Titled:
    """Return the chart with a wrapped title and, if one is given, a fixed height."""
    title = alt.TitleParams(
        textwrap.wrap(text, TITLE_CHARACTERS),
        anchor="start",
        fontSize=TITLE_SIZE,
        fontWeight=600,
        offset=10,
    )
    return chart.properties(title=title, **({} if height is None else {"height": height}))


def framed_figure(
    traces: Sequence[dict],
    look: Look,
    title: str,
    height: int,
    wrap: int = 62,
    *,
    x: Mapping[str, object] = NO_SETTINGS,
    y: Mapping[str, object] = NO_SETTINGS,
    margin: Mapping[str, int] = NO_SETTINGS,
    note: str = "",
    **layout: object,
) -> go.Figure:
    """Return a figure of the traces with a title, the y axis downwards and the page's colours.

    `x`, `y` and `layout` add to the settings of the axes and of the layout. `note` is printed below
    the x axis, so that a saved image names the run it shows.

    The figure is built in one call and without plotly's template: plotly validates the whole figure
    at each later change and copies the template into every figure, and both take longer than
    drawing.
    """
    lines, notes = textwrap.wrap(title, wrap), textwrap.wrap(note, wrap)
    note_height = NOTE_LINE * len(notes) + NOTE_GAP if notes else 0
    # narrow pictures are shown side by side: reserve two lines for each
    title_height = 20 * max(len(lines), 2 if wrap < 50 else 1)
    sides = {"showgrid": False, "zeroline": False, "automargin": True}
    margins = {"l": 55, "r": 10, "t": 14 + title_height, "b": 45, **margin}
    return go.Figure(
        {
            "data": list(traces),
            "layout": {
                "template": {},
                "title": _title(lines, height + note_height),
                "height": height + note_height,
                "margin": {**margins, "b": margins["b"] + note_height},
                "annotations": [_note(notes, look, margins["l"])] if notes else [],
                "showlegend": False,
                **_colours(look),
                "xaxis": {**sides, **x},
                "yaxis": {**sides, "autorange": "reversed", **y},
                **layout,
            },
        }
    )


def _colours(look: Look) -> dict[str, object]:
    """Return the layout's colours: text as on the page, a transparent background."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": look.text, "family": FONT},
        "hoverlabel": {"bgcolor": look.paper, "font": {"color": look.text}},
        "modebar": {"color": look.quiet, "bgcolor": "rgba(0,0,0,0)"},
    }  # fmt: skip


def _title(lines: Sequence[str], height: int) -> dict[str, object]:
    """Return the layout of a title that grows downwards from the upper edge."""
    return {
        "text": "<br>".join(lines), "font": {"size": 14, "weight": 600}, "xref": "container", "yref": "container",
        "x": 0, "xanchor": "left", "y": 1 - 21 / height, "yanchor": "bottom", "pad": {"l": 2},
    }  # fmt: skip


def fitted(chart: Chart, screen: Screen, *, grows: bool = True, extra_px: int = 0) -> Chart:
    """Return the chart with the font sizes of the screen, and as tall as the screen has room for.

    A chart that does not grow keeps its height. An Altair chart of one plot is
    `extra_px` px taller where it is presented, except on a phone.
    """
    if isinstance(chart, go.Figure):
        return _fitted_figure(chart, screen)
    is_usual = screen == USUAL_SCREEN  # a deep copy is not needed then
    chart = chart.copy(deep=False if is_usual else ["title", "layer", "spec", "encoding"])
    if not is_usual:
        rows_added = _stack_legends(chart) if screen.window == "phone" else None
        if rows_added is not None:
            chart.height += LEGEND_LINE * rows_added
        elif grows:
            _grow(chart, screen)
            if extra_px and screen.is_presented and screen.window != "phone":
                chart.height += extra_px
        _enlarge(chart, screen)
    size, title_size = screen.label_size, screen.title_size
    sizes = {"labelFontSize": size, "titleFontSize": title_size}
    chart.config = {
        "axis": sizes | AXIS_PADDING,
        "header": sizes,
        "legend": sizes | {"labelLimit": MAX_LABEL_LENGTH * size},
    }
    return chart


def _stack_legends(chart: alt.TopLevelMixin) -> int | None:
    """Put the entries of a legend below the plot in the columns that a phone has room for.

    Return how many rows the legend gains; None if there is none below the plot.
    """
    added = None
    for channel in _channels_with_legends(chart):
        legend, names = channel["legend"], channel["scale"].domain
        columns = max(1, PHONE_LEGEND_LENGTH // max(map(len, names)))
        rows = [-(-len(names) // each) for each in (legend.columns, columns)]
        added = max(0, rows[1] - rows[0])
        channel["legend"] = legend.copy(deep=False)
        channel["legend"].columns = columns
    return added


def _channels_with_legends(chart: alt.TopLevelMixin) -> Iterator[alt.Color | alt.StrokeDash]:
    """Yield the encodings of a chart and of its layers that have a legend below the plot."""
    for part in (chart, *(chart.layer if isinstance(chart, alt.LayerChart) else ())):
        for name in ("color", "strokeDash"):
            channel = part.encoding[name] if part.encoding is not alt.Undefined else None
            legend = channel["legend"] if isinstance(channel, alt.Color | alt.StrokeDash) else None
            if isinstance(legend, alt.Legend) and legend.orient == "bottom":
                yield channel


def _enlarge(chart: alt.TopLevelMixin, screen: Screen) -> None:
    """Give the chart's title and the texts in its plot the font sizes of the screen."""
    for part in chart.layer if isinstance(chart, alt.LayerChart) else ():
        if isinstance(part.mark, alt.MarkDef) and part.mark.type == "text":
            part.mark.fontSize = screen.label_size
    if isinstance(title := chart.title, alt.TitleParams):
        text = title.text if isinstance(title.text, str) else " ".join(title.text)
        size = max(TITLE_SIZE, screen.label_size + 2)
        characters = TITLE_CHARACTERS * TITLE_SIZE * screen.growth / size
        title.fontSize, title.text = size, textwrap.wrap(text, int(characters))


def _fitted_figure(chart: go.Figure, screen: Screen) -> go.Figure:
    margin, notes, height = chart.layout.margin, chart.layout.annotations, chart.layout.height
    above_title = (1 - chart.layout.title.y) * height  # px
    height += screen.taller
    if not screen.is_presented:
        return chart.update_layout(height=height, title_y=1 - above_title / height)
    by = screen.label_size - LABEL_SIZE  # px: what the text grows by
    under, over = (0.075 * by * side for side in (margin.b, margin.t))
    height += under + over
    return chart.update_layout(
        font_size=screen.label_size,
        hoverlabel_font_size=screen.label_size,
        title_font_size=screen.label_size + 2,
        title_y=1 - (above_title + by + 1) / height,
        margin={"t": margin.t + over, "b": margin.b + under},
        height=height,
        annotations=[{**note.to_plotly_json(), "yshift": note.yshift - 4.5 * by} for note in notes],
    ).update_annotations(font_size=screen.label_size)


def _grow(chart: alt.TopLevelMixin, screen: Screen) -> None:
    """Make the chart as tall as the screen has room for.

    Several plots, and one of a given width, keep their shape.
    """
    if isinstance(chart, alt.FacetChart):
        spec = chart.spec
        spec.width, spec.height = screen.growth * spec.width, screen.growth * spec.height
        return
    chart.height += screen.taller
    if chart.width is not alt.Undefined:
        chart.width += screen.taller


def _note(lines: Sequence[str], look: Look, left: int) -> dict:
    """Return an annotation in small print, aligned with the left edge of the figure."""
    position = {
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "xshift": 4 - left,
        "yref": "paper",
        "y": 0,
        "yanchor": "top",
    }
    text = "<br>".join(escape(line, quote=False) for line in lines)
    return {
        **position,
        "yshift": -58,
        "align": "left",
        "showarrow": False,
        "text": text,
        "font": {"size": 12, "color": look.quiet},
    }


def plotly_dash(lengths: Sequence[int]) -> str:
    """Convert one of LINE_STYLES to plotly's notation."""
    return ",".join(f"{length}px" for length in lengths)


def colour_bar(look: Look, title: str | dict = "", **more: object) -> dict:
    """Return the settings of a heatmap's colour bar."""
    return {"thickness": 11, "outlinewidth": 0, "tickformat": ".3~g", "title": title, **more}


def scale_of(colours: list[str]) -> list[list]:
    """Return a plotly colour scale with these colours at even steps."""
    return [[i / (len(colours) - 1), colour] for i, colour in enumerate(colours)]
