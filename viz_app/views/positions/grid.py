"""The section Grid of patches: how similar the position vectors of image or sound patches are."""

from collections.abc import Sequence
from math import ceil, isnan

import numpy as np
import plotly.graph_objects as go
import torch

from models.analysis.checks import Check
from models.analysis.grid_similarity import GridSimilarity, grid_similarity
from models.images import PatchRow
from models.number_text import decimal
from models.sounds import PatchedSound
from viz_app import ui
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file
from viz_app.drawing.frame import colour_bar, framed_figure, scale_of
from viz_app.drawing.labels import Label
from viz_app.drawing.look import Look
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, caption, facts, of_model
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.page import Columns, File, Foot, PageCell, Plot, View
from viz_app.views.positions.tables import model_table, position_kind
from viz_app.views.run_difference import Quantity

MAX_TILES = 14  # tiles in a row or column; in a larger grid some patches are left out
GRID_HEIGHT = 470  # px
LIKE_IMAGE, LIKE_SPECTROGRAM = "the image", "the spectrogram, with the lowest bands in row 1"
NO_IMAGE = "**This model reads no image.** A vision model has a position for each patch of a grid."
TWO_STREAMS = (
    "**The grid is shown for a model that reads an image alone.** The positions of an image encoder beside a text are "
    "not shown."
)
NO_PATCH_TABLE = "**No position vectors are known for the patches of this model.** None of its parameters was seen to be added."


def find_grid(run: CurrentRun) -> View[None] | str:
    """Return the view of a model that adds a vector to each patch, or why there is none."""
    row = _row(run)
    if row is None:
        return NO_IMAGE
    if len(run.trace.streams) > 1:
        return TWO_STREAMS
    if position_kind(run) == "none" or len(model_table(run)) != len(row.grid.tokens):
        return NO_PATCH_TABLE
    return PATCH_GRID_VIEW


def _row(run: CurrentRun) -> PatchRow | PatchedSound | None:
    """Return the image or the sound of a run as a row of patches."""
    streams = run.trace.streams.values()
    return next((row for row in streams if isinstance(row, PatchRow | PatchedSound)), None)


def similarity_of(run: CurrentRun) -> GridSimilarity:
    """Return the similarity of this model's patches."""
    row = _row(run)
    assert row is not None  # by `find_grid`
    return grid_similarity(model_table(run), row.grid)


def _payloads(run: CurrentRun, choices: None) -> Pictures:
    similarity = similarity_of(run)
    title = f"Cosine of each patch's position vector with all patches': {run.scope.name}"
    note = caption(_about(run))
    return {
        "positions-grid": mosaic(similarity, ui.page_look(), title, note, rises=_is_sound(run)),
        "checks": check_rows(_checks(run, similarity)),
    }


def _is_sound(run: CurrentRun) -> bool:
    return isinstance(_row(run), PatchedSound)


def mosaic(
    similarity: GridSimilarity, look: Look, title: str, note: str, *, rises: bool = False
) -> go.Figure:
    """Draw a tile for each patch, at its place in the grid: its cosine with every patch.

    If the grid `rises`, as that of a spectrogram does, its first row is at the bottom and its
    patches are as wide as there is room.
    """
    down, across = tile_indices(similarity.rows), tile_indices(similarity.columns)
    cells = np.full(
        (len(down) * (similarity.rows + 1), len(across) * (similarity.columns + 1)), np.nan
    )
    for i, row in enumerate(down):
        for j, column in enumerate(across):
            top, left = i * (similarity.rows + 1), j * (similarity.columns + 1)
            tile = similarity.of(row, column).numpy()
            cells[top : top + similarity.rows, left : left + similarity.columns] = tile
    trace = {
        "type": "heatmap", "z": cells.round(5), "zmin": -1, "zmax": 1, "colorscale": scale_of(look.diverging()),
        "colorbar": colour_bar(look, "cosine"), "x": _sides("column", across, similarity.columns),
        "y": _sides("row", down, similarity.rows),
        "hovertemplate": "%{y}, %{x}: <b>%{z:.4f}</b><extra></extra>", "hoverongaps": False,
    }  # fmt: skip
    side = {"type": "category", "tickmode": "array", "ticks": "", "constrain": "domain"}
    down_from = {"autorange": True} if rises else {"scaleanchor": "x", "scaleratio": 1}
    return framed_figure(
        [trace],
        look,
        title,
        GRID_HEIGHT,
        46,
        note=note,
        x=side | _ticks("column", across, similarity.columns),
        y=side | _ticks("row", down, similarity.rows) | down_from,
    )


def _ticks(side: str, chosen: Sequence[int], n: int) -> dict[str, object]:
    """Return the number of each tile, from 1, at its middle."""
    middles = [f"{side} {one + 1} with {side} {(n + 1) // 2}" for one in chosen]
    numbers = [str(one + 1) for one in chosen]
    return {"tickvals": middles, "ticktext": numbers, "title": {"text": f"{side} of the patch"}}


def tile_indices(n: int) -> list[int]:
    """Return the rows or columns whose patches have a tile, at most MAX_TILES at even distances."""
    return list(range(0, n, ceil(n / MAX_TILES)))


def _sides(side: str, chosen: Sequence[int], n: int) -> list[str]:
    """Return the name of each line of cells, from 1; a gap after each tile has one too."""
    return [
        f"{side} {one + 1} with {side} {other + 1}" if other < n else f"gap after {side} {one + 1}"
        for one in chosen
        for other in range(n + 1)
    ]


def _checks(run: CurrentRun, similarity: GridSimilarity) -> list[Check]:
    row = _row(run)
    first = len(row.grid.before) if row else 0
    vectors = model_table(run)[first : first + len(similarity.cosine)].double()
    by_torch = torch.cosine_similarity(vectors[:, None], vectors[:1], dim=-1)[:, 0]
    diagonal = similarity.cosine.diagonal()
    return [
        Check(
            "the first tile by torch's cosine",
            float((similarity.cosine[0] - by_torch).abs().max()),
            1e-6,
            "Largest difference in the tile of the patch in row 1, column 1",
        ),
        Check(
            "each patch is like itself",
            float((diagonal - 1).abs().max()),
            1e-9,
            "Largest difference of a patch's cosine with itself from 1",
        ),
    ]


def explain_grid(similarity: GridSimilarity, special: Sequence[str], like: str = LIKE_IMAGE) -> str:
    """Say what a tile shows, and whether patches beside each other are more alike here."""
    names = ("that share an edge", "elsewhere in one row or column", "of other rows and columns")
    means = (similarity.beside, similarity.in_line, similarity.elsewhere)
    listed = "; ".join(
        f"{name} {decimal(mean, 2)}"
        for name, mean in zip(names, means, strict=True)
        if not isnan(mean)
    )
    text = f"Mean cosine of two patches {listed}."
    if not isnan(similarity.elsewhere) and not isnan(similarity.beside):
        more = "more" if similarity.beside > similarity.elsewhere else "less"
        text += f" Here patches beside each other are **{more} alike** than distant ones."
        line = "more" if similarity.in_line > similarity.elsewhere else "less"
        if not isnan(similarity.in_line):
            text += f" Those of one row or column are {line} alike than the rest."
    left_out = f" {' and '.join(special)} {'are' if len(special) > 1 else 'is'} left out." * bool(
        special
    )
    fewer = ""
    if max(similarity.rows, similarity.columns) > MAX_TILES:
        n_tiles = len(tile_indices(similarity.rows)) * len(tile_indices(similarity.columns))
        fewer = f" {n_tiles} of {len(similarity.cosine)} patches have a tile."
    return (
        f"**Each tile belongs to one patch** and is laid out like {like}. It shows the cosine of that patch's position "
        "vector with each patch's (Dosovitskiy et al. 2021). 1: the same direction, 0: a right angle, −1: the opposite."
        f"{left_out}{fewer}\n\n{text}"
    )


def _text(run: CurrentRun, choices: None) -> str:
    row = _row(run)
    grid = row.grid if row else None
    like = LIKE_SPECTROGRAM if _is_sound(run) else LIKE_IMAGE
    return explain_grid(similarity_of(run), (*grid.before, *grid.after) if grid else (), like)


def _files(run: CurrentRun, choices: None) -> Sequence[File]:
    name = file_name(run.trace, "positions", "grid")

    def table(now: CurrentRun) -> str:
        similarity = similarity_of(now)
        row = _row(now)
        names = row.grid.patches if row else ()
        rows = ([name, *line] for name, line in zip(names, similarity.cosine.tolist(), strict=True))
        return csv_table(["patch \\ patch", *names], rows)

    def numbers(now: CurrentRun) -> bytes:
        return npz_file({"cosine": similarity_of(now).cosine.numpy()})

    return [
        File("Cosines, CSV", table, f"{name}.csv", _about),
        File("Cosines, npz", numbers, f"{name}.npz", about=_about),
    ]


def _about(run: CurrentRun) -> Facts:
    """Return the facts of the model without its input: the vectors are the same for each."""
    names = of_model(run.trace)
    return {name: fact for name, fact in facts(run.trace).items() if name in names}


def _layout(run: CurrentRun, choices: None, pictures: Pictures) -> Sequence[PageCell]:
    file = file_name(run.trace, "positions", "grid")
    return [Columns((1,), ([Plot("positions-grid", file)],)), Foot((1, 1))]


def _quantities(run: CurrentRun, choices: None) -> list[Quantity]:
    similarity = similarity_of(run)
    return [
        Quantity(
            "the cosines of the patches' positions",
            "cosine",
            similarity.cosine,
            [Label(str(place + 1)) for place in range(len(similarity.cosine))],
            "patch",
            are_rows_numbered=True,
            of_columns="patch",
            same={
                "number of rows of patches": similarity.rows,
                "number of columns of patches": similarity.columns,
            },
            file="positions.grid",
            about=_about(run),
        )
    ]


PATCH_GRID_VIEW = View(
    _payloads,
    _layout,
    text=_text,
    files=_files,
    quantities=_quantities,
    is_live=lambda choices: False,
    has_strip=False,
)
