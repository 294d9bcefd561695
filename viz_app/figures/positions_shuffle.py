"""Pictures of the shuffle test: where each token went, and how far its vector moved at each layer."""

from collections.abc import Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from models.shuffle import ShuffleTest
from viz_app.figures.look import Look
from viz_app.figures.positions import GRID, LEGEND, LINES, bar, framed, scale_of

UNRELATED = 2**0.5  # the change at which a vector stands at a right angle to what it was
SPELLED = 40  # up to so many tokens, each cell has its number written in it
NAMED = 60             # up to so many tokens, the tangle has their names; beyond, they are on the pointer
TOP, BOTTOM = 78, 62  # room for a title of two lines and the names of the columns; for the scale
WITH, WITHOUT = "with positions", "positions switched off"


def numbered(tokens: Sequence[str]) -> list[str]:
    """Tokens made distinct by their place, counted from 0."""
    return [f"{i} {token}" for i, token in enumerate(tokens)]


def height(n: int) -> int:
    """Of a picture with one row a token."""
    return TOP + BOTTOM + min(560, max(90, 25 * n))


def _letters(n: int) -> int:
    """The size of the tokens beside n rows."""
    return 13 if n <= 26 else 11 if n <= SPELLED else 8


def tangle(tokens: Sequence[str], order: Sequence[int], look: Look, title: str) -> go.Figure:
    """Each token at its place in the text (left), and a line to its place in the reordered text (right)."""
    n = len(order)
    place = np.argsort(order)  # old place → new place
    traces = []
    for moved, colour in ((True, LINES[5]), (False, "#8f96a3")):
        rows = [i for i in range(n) if (place[i] != i) == moved]
        x = [v for _ in rows for v in (0.0, 1.0, None)]
        y = [v for i in rows for v in (i, int(place[i]), None)]
        line = {"mode": "lines", "line": {"color": colour, "width": 1.8}}
        traces.append({"type": "scatter", "x": x, "y": y, "hoverinfo": "skip", **line})
    names = [plain(token) for token in tokens]
    for at, rows, side in ((0.0, range(n), "middle left"), (1.0, order, "middle right")):
        traces.append({
            "type": "scatter", "x": [at] * n, "y": list(range(n)),
            "mode": "markers+text" if n <= NAMED else "markers",
            "text": [names[i] for i in rows],
            "textposition": side,
            "hovertext": [f"{names[i]}: place {i} → {place[i]}" for i in rows],
            "hoverinfo": "text",
            "marker": {"size": 4, "color": look.quiet},
            "textfont": {"size": _letters(n), "color": look.text},
            "cliponaxis": False,
        })  # fmt: skip
    x = {"range": [-0.75, 1.75], "tickvals": [0, 1], "ticktext": ["as typed", "reordered"], "side": "top", "fixedrange": True}
    y = {"range": [n - 0.5, -0.5], "autorange": False, "visible": False, "fixedrange": True}
    return framed(traces, look, title, height(n), 46, x=x, y=y, margin={"l": 5, "r": 5, "t": TOP, "b": BOTTOM})


def change_map(test: ShuffleTest, tokens: Sequence[str], look: Look, title: str) -> go.Figure:
    """How far each token's vector moved at each stage: 0 = the page's background, √2 = the accent."""
    n = len(tokens)
    names = [plain(name) for name in numbered(tokens)]
    cells = test.change.T
    words = [[says(v) for v in row] for row in cells.tolist()] if n <= SPELLED else None
    most = "≥ 1.41" if float(cells.max()) > UNRELATED else "1.41"
    scale = {"tickvals": [0, 0.5, 1, UNRELATED], "ticktext": ["0", "0.5", "1", most]}
    said = {"text": "moved by (share of its length)", "side": "bottom", "font": {"size": 11}}
    below = {"orientation": "h", "y": 0, "yanchor": "top", "ypad": 6, "len": 0.9}
    map_of_changes = {
        "type": "heatmap", "z": cells.numpy(), "x": list(test.stages), "y": names, "zmin": 0, "zmax": UNRELATED,
        "xgap": 1, "ygap": 1, "textfont": {"size": 11},
        "colorscale": scale_of(look.sequential()), "colorbar": bar(look, title=said, **scale, **below),
        "hovertemplate": "%{y}, %{x}: moved by <b>%{z:.3g}</b> of its length<extra></extra>",
        **({"text": words, "texttemplate": "%{text}"} if words else {}),
    }  # fmt: skip
    edge = {"showline": True, "mirror": True, "linecolor": look.quiet, "linewidth": 0.6, "fixedrange": True}
    y = {"type": "category", "tickfont": {"size": _letters(n)}, **edge}
    margin = {"l": 95, "r": 5, "t": TOP, "b": BOTTOM}
    return framed([map_of_changes], look, title, height(n), 46, x={"side": "top", **edge}, y=y, margin=margin)


def plain(text: str) -> str:
    """The text as plotly must be given it to show every sign: it reads <b> and &amp; as formatting."""
    return escape(text if len(text) <= 12 else text[:6] + "…" + text[-5:], quote=False)


def change_by_stage(positioned: ShuffleTest, bare: ShuffleTest, look: Look, title: str) -> go.Figure:
    """The mean change at each stage in both runs, with the number on each bar."""
    bars = [
        {
            "type": "bar", "name": name, "x": list(test.stages), "y": test.mean.numpy(), "marker": {"color": colour},
            "text": [says(v) for v in test.mean.tolist()], "textposition": "outside", "cliponaxis": False,
            "hovertemplate": "%{x}, " + name + ": <b>%{y:.3g}</b><extra></extra>",
        }
        for name, test, colour in ((WITH, positioned, look.accent), (WITHOUT, bare, LINES[1]))
    ]  # fmt: skip
    y = {"title": {"text": "mean change"}, "range": [0, UNRELATED], "autorange": False, "tickformat": ".1f",
         "showgrid": True, "gridcolor": GRID}
    y["fixedrange"] = True
    return framed(bars, look, title, 330, x={"fixedrange": True}, y=y, margin={"b": 65}, showlegend=True, legend=LEGEND)


def says(value: float) -> str:
    """A change as people read it: two decimals, or its order of magnitude where it is only rounding."""
    return "0" if value == 0 else f"{value:.2f}" if value >= 0.005 else f"{value:.0e}".replace("e-0", "e-")
