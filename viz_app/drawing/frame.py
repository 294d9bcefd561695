"""What charts of several pages share: titles in words, a style for each line, and plotly's layout in the page's colours."""

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import TypeVar

import altair as alt
import plotly.graph_objects as go

from viz_app.drawing.look import Look

LINES = [
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#8C6BB1",
    "#999933",
]  # as HEAD_COLOURS
# a line's dashes and gaps in px, in the order of LINES: told apart without colours
LINE_STYLES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [12, 3], [4, 2], [1, 3], [9, 3, 2, 3, 2, 3]]
FONT = "Source Sans, sans-serif"
NOTHING: Mapping = MappingProxyType({})
NOTE_LINE, NOTE_GAP = (
    16,
    14,
)  # px: of a note's lines, and between them and the words of the lower axis
GRID = "rgba(128, 136, 153, 0.25)"
LEGEND = {
    "orientation": "h",
    "x": 0,
    "y": 0,
    "yref": "container",
    "yanchor": "bottom",
}  # in a margin under the picture


TITLE, TITLE_SIZE = 44, 14  # letters in a line of a title, and px of each
SMALL, LARGE = 16, 18  # px of letters in a presentation
Chart = TypeVar("Chart", alt.TopLevelMixin, go.Figure)


def titled(chart: alt.Chart, text: str, height: int) -> alt.Chart:
    """The chart with a title in words, broken into lines, and a fixed height."""
    title = alt.TitleParams(
        textwrap.wrap(text, TITLE), anchor="start", fontSize=TITLE_SIZE, fontWeight=600, offset=10
    )
    return chart.properties(title=title, height=height)


def framed(
    traces: Sequence[dict],
    look: Look,
    title: str,
    height: int,
    wrap: int = 62,
    *,
    x: Mapping[str, object] = NOTHING,
    y: Mapping[str, object] = NOTHING,
    margin: Mapping[str, int] = NOTHING,
    note: str = "",
    **layout: object,
) -> go.Figure:
    """The traces with a title in words, rows counted downwards, the page's colours, and no other decoration.

    `x` and `y` say more about the axes, `layout` about the whole, `note`, under the lower axis, whose numbers these are: so it
    is in the file that the picture's camera saves. All in one call and without plotly's template: each later
    change to a figure is checked against all of it, the template is copied into each, and both take longer than drawing."""
    lines, notes = textwrap.wrap(title, wrap), textwrap.wrap(note, wrap)
    under = NOTE_LINE * len(notes) + NOTE_GAP if notes else 0
    room = 20 * max(
        len(lines), 2 if wrap < 50 else 1
    )  # narrow pictures stand side by side: two lines for each
    sides = {"showgrid": False, "zeroline": False, "automargin": True}
    margins = {"l": 55, "r": 10, "t": 14 + room, "b": 45, **margin}
    return go.Figure(
        {
            "data": list(traces),
            "layout": {
                "template": {},
                "title": _title(lines, height + under),
                "height": height + under,
                "margin": {**margins, "b": margins["b"] + under},
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
    """A figure on the page's own ground, its letters in the page's colours."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": look.text, "family": FONT},
        "hoverlabel": {"bgcolor": look.paper, "font": {"color": look.text}},
        "modebar": {"color": look.quiet, "bgcolor": "rgba(0,0,0,0)"},
    }  # fmt: skip


def _title(lines: Sequence[str], height: int) -> dict[str, object]:
    """A figure's title, its first line at the upper edge."""
    return {
        "text": "<br>".join(lines), "font": {"size": 14, "weight": 600}, "xref": "container", "yref": "container",
        "x": 0, "xanchor": "left", "y": 1 - 21 / height, "yanchor": "bottom", "pad": {"l": 2},
    }  # fmt: skip


def larger(chart: Chart) -> Chart:
    """The chart for a presentation: all that is written in it in larger letters."""
    if isinstance(chart, go.Figure):
        margin, notes = chart.layout.margin, chart.layout.annotations
        under, over = (0.3 * side for side in (margin.b, margin.t))
        return chart.update_layout(
            font_size=SMALL,
            hoverlabel_font_size=SMALL,
            title_font_size=LARGE,
            title_y=1 - 26 / (chart.layout.height + under + over),
            margin={"t": margin.t + over, "b": margin.b + under},
            height=chart.layout.height + under + over,
            annotations=[{**note.to_plotly_json(), "yshift": note.yshift - 18} for note in notes],
        ).update_annotations(font_size=SMALL)
    chart = chart.copy(deep=["title", "layer"])
    for part in chart.layer if isinstance(chart, alt.LayerChart) else ():
        if isinstance(part.mark, alt.MarkDef) and part.mark.type == "text":
            part.mark.fontSize = SMALL
    if isinstance(title := chart.title, alt.TitleParams):
        text = title.text if isinstance(title.text, str) else " ".join(title.text)
        title.fontSize, title.text = LARGE, textwrap.wrap(text, TITLE * TITLE_SIZE // LARGE)
    letters = {"labelFontSize": SMALL, "titleFontSize": SMALL}
    return chart.configure_axis(**letters).configure_legend(**letters).configure_header(**letters)


def _note(lines: Sequence[str], look: Look, left: int) -> dict:
    """Lines of small print that begin at the picture's edge, `left` of the axes."""
    place = {
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
        **place,
        "yshift": -58,
        "align": "left",
        "showarrow": False,
        "text": text,
        "font": {"size": 12, "color": look.quiet},
    }


def plotly_dash(lengths: Sequence[int]) -> str:
    """One of LINE_STYLES as plotly takes it."""
    return ",".join(f"{length}px" for length in lengths)


def bar(look: Look, title: str | dict = "", **more: object) -> dict:
    """The scale beside a map."""
    return {"thickness": 11, "outlinewidth": 0, "tickformat": ".3~g", "title": title, **more}


def scale_of(colours: list[str]) -> list[list]:
    """A plotly colour scale through these colours at even steps."""
    return [[i / (len(colours) - 1), colour] for i, colour in enumerate(colours)]
