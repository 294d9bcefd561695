"""The sections of position tables: curves and a map of the table, and angles of rotations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import altair as alt
import torch
from torch import Tensor

from models import InputError
from models.analysis.checks import Check
from models.analysis.position_measures import SimilarityByDistance, similarity_by_distance
from models.layers.positions import formula_table, sinusoidal, wavelengths
from viz_app import ui
from viz_app.controls import pick
from viz_app.drawing.extent import Extent, Scaled, domain, scale_picture, signed_extent
from viz_app.drawing.labels import Label
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name, file_name_part
from viz_app.drawing.stamp import Facts, caption, facts, of_model
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Several, Whole
from viz_app.views.page import Columns, File, Foot, PageCell, Plot, Prose, View
from viz_app.views.positions import charts, claims, files
from viz_app.views.positions import text as say
from viz_app.views.run_difference import Quantity

TABLE_SIZES = [2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512]  # of d_model
FIRST_DIMS = (0, 1, 8, 16, 24)
CHOSEN_TABLE = Choice(
    "positions-table", say.TABLE_NAMES["paper"], options=tuple(say.TABLE_NAMES.values())
)
TABLE_D_MODEL, TABLE_LENGTH = (
    Choice("positions-d_model", 64, False, tuple(TABLE_SIZES)),
    Whole("positions-length", 100, low=4, high=512),
)
DIMS = Several("positions-dims", FIRST_DIMS, max_items=len(charts.LINE_COLOURS))
MAP_NAMES = ("Table", "Similarity", "By distance")
LOW = 280  # px: keeps the explanation of a rotation's pictures visible
WAVELENGTH_REACH = 100_000  # positions: the least end of the scale of wavelengths
WAVELENGTH_TITLE = "How many positions one full turn takes, by "


@dataclass(frozen=True)
class TableChoices:
    """A formula of FORMULAS or OWN, the size of its table, and the dimensions with curves."""

    formula: str
    d_model: int
    n: int
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class TableView:
    """The table on the screen: its values in float64, and its wavelengths if it has any."""

    formula: str
    table: Tensor
    waves: Tensor | None
    owner: str

    @property
    def similarity(self) -> SimilarityByDistance:
        return similarity_by_distance(self.table)


def table_view(run: CurrentRun, choices: TableChoices) -> TableView:
    """Return the chosen table."""
    config, formula = run.scope.config, choices.formula
    if formula != say.OWN_TABLE:
        table = formula_table(formula, choices.n, choices.d_model)
        return TableView(
            formula, table, wavelengths(formula, choices.d_model), say.TABLE_SOURCES[formula]
        )
    table = model_table(run)[: choices.n].double()
    waves = wavelengths("paper", config.d_model) if config.positions == "sinusoidal" else None
    return TableView(formula, table, waves, f"{config.positions} positions of {run.scope.name}")


def model_table(run: CurrentRun) -> Tensor:
    """Return all position vectors of the run's model."""
    return run.scope.model.positions.table.detach().to("cpu", torch.float32)


def position_kind(run: CurrentRun) -> str:
    """Name the model's kind of positions; "none" for a recurrence."""
    return getattr(run.scope.config, "positions", "none")


def choose_d_model(fixed: int | None = None) -> int:
    """Draw the width of a table; a `fixed` one is the model's own."""
    if fixed is not None:
        return pick.show_fixed("d_model of this model", f"positions-own-{fixed}", fixed)
    about = "How many numbers a position vector has."
    return pick.step(
        "d_model (dimensions)", TABLE_D_MODEL, TABLE_SIZES, url_state.get(TABLE_D_MODEL), help=about
    )


def choose_length() -> int:
    """Draw the number of positions shown."""
    return pick.pick_whole("Length (positions)", TABLE_LENGTH, step=4)


def _choose(run: CurrentRun) -> TableChoices:
    config, kind = run.scope.config, position_kind(run)
    left, middle, right = pick.columns(2.2, 1, 1)
    names = {
        name: key for key, name in say.TABLE_NAMES.items() if key != say.OWN_TABLE or kind != "none"
    }
    about = say.own_help(kind, run.scope.model.order_source)
    with left:
        formula = names[pick.pick_few("Table", CHOSEN_TABLE, list(names), help=about)]
    with middle:
        d_model = choose_d_model(config.d_model if formula == say.OWN_TABLE else None)
    with right:
        return TableChoices(formula, d_model, choose_length())


def _choose_curves(run: CurrentRun) -> TableChoices:
    choices = _choose(run)
    n_dims = table_view(run, choices).table.shape[1]
    dims = pick.pick_several(
        "Dimensions drawn",
        DIMS,
        range(n_dims),
        [dim for dim in url_state.get(DIMS) if dim < n_dims],
        placeholder="Choose up to eight dimensions",
    )
    return replace(choices, dims=tuple(sorted(dims)))


def _within(choices: TableChoices, run: CurrentRun, other: CurrentRun) -> TableChoices:
    """Return the same choices for the other run.

    Raises:
        InputError: the choice is the model's own table, and the other model has none.
    """
    if choices.formula != say.OWN_TABLE:
        return choices
    if position_kind(other) == "none":
        raise InputError(say.NO_OWN_TABLE.format(other.scope.name), "")
    d_model = other.scope.config.d_model
    dims = tuple(dim for dim in choices.dims if dim < d_model)
    return replace(choices, d_model=d_model, dims=dims)


def _curves(run: CurrentRun, choices: TableChoices) -> Pictures:
    """Make the pictures of the chosen dimensions by position, and of all wavelengths."""
    view, dims = table_view(run, choices), choices.dims
    of_sine = "paper" if view.formula == say.OWN_TABLE else view.formula
    waves = [None if view.waves is None else float(view.waves[i]) for i in dims]
    names = [say.dimension(of_sine, i, wave) for i, wave in zip(dims, waves, strict=True)]
    title = f"Position encoding by position ({view.owner}, {view.table.shape[1]} dimensions)"

    def curves(scales: Extent) -> alt.Chart:
        return charts.dimension_chart(view.table, dims, names, title, domain(scales))

    pictures: Pictures = {
        "positions-curves": scale_picture(signed_extent(view.table[:, list(dims)]), curves),
        "checks": check_rows(_checks(run, view)),
    }
    if view.waves is not None:
        pictures["positions-waves"] = charts.wavelength_chart(
            view.waves, dims, len(view.table), f"{WAVELENGTH_TITLE}dimension"
        )
    return pictures


def _lay_out_curves(
    run: CurrentRun, choices: TableChoices, pictures: Pictures
) -> Sequence[PageCell]:
    view, only_tables = table_view(run, choices), _only_tables(run)
    extra_px = (79, 14) if only_tables else (104, 39)  # what a presentation leaves
    turns = [Prose(say.NO_WAVES)]
    if view.waves is not None:
        sentence = say.wavelengths_sentence(view.waves, len(view.table))
        turns = [Plot("positions-waves", extra_px=extra_px[1], caption=sentence)]
    return [
        *only_tables,
        Columns(
            (1.7, 1),
            ([Plot("positions-curves", extra_px=extra_px[0])], turns),
            ("Curves", "Wavelengths"),
        ),
        Foot((1, 1)),
    ]


def _map(run: CurrentRun, choices: TableChoices) -> Pictures:
    """Make the pictures of the whole table, of PE·PEᵀ, and of PE·PEᵀ by distance."""
    view, look = table_view(run, choices), ui.page_look()
    similarity, note = view.similarity, caption(_model_facts(run, view))

    def heatmap(title: str, table: Tensor, column: str) -> Scaled:
        axes = ("position", column)
        return charts.scaled_heatmap(table, look, title, axes, wrap=46, note=note)

    def by_distance(scales: Extent) -> alt.Chart:
        title = "PE·PEᵀ by distance"
        return charts.similarity_chart(similarity, look, title, domain(scales), 288)

    products = view.table @ view.table.T
    return {
        "positions-map": heatmap(f"Position by dimension: {view.owner}", view.table, "dimension"),
        "positions-products": heatmap(
            "Similarity of two positions (PE·PEᵀ)", products, "other position"
        ),
        "positions-similarity": scale_picture(
            signed_extent(similarity.least, similarity.largest), by_distance
        ),
        "checks": check_rows(_checks(run, view)),
    }


def _lay_out_map(run: CurrentRun, choices: TableChoices, pictures: Pictures) -> Sequence[PageCell]:
    view = table_view(run, choices)
    plots = (
        [Plot("positions-map", _name(run, view, "map"))],
        [Plot("positions-products", _name(run, view, "products"))],
        [Plot("positions-similarity", caption=say.BAND_OF_DISTANCE)],
    )
    return [*_only_tables(run), Columns((1.15, 1, 1), plots, MAP_NAMES), Foot((1, 1))]


def _only_tables(run: CurrentRun) -> list[PageCell]:
    return [Prose(say.TABLES_ONLY, is_small=True)] * run.scope.model.is_recurrent


def _text(run: CurrentRun, choices: TableChoices) -> str:
    return say.explain_table(choices.formula, position_kind(run), run.scope.model.order_source)


def _files(run: CurrentRun, choices: TableChoices) -> Sequence[File]:
    name = _name(run, table_view(run, choices))

    def table(now: CurrentRun) -> str:
        return files.table_csv(table_view(now, choices).table)

    def all_numbers(now: CurrentRun) -> bytes:
        view = table_view(now, choices)
        return files.table_npz(view.table, view.waves, view.similarity)

    def about(now: CurrentRun) -> Facts:
        return _about(now, table_view(now, choices))

    return [
        File("This table, CSV", table, f"{name}.csv", about),
        File("Table and similarity, npz", all_numbers, f"{name}.npz", about=about),
    ]


def _name(run: CurrentRun, view: TableView, *parts: str) -> str:
    """Return a file name: by the model for its own table, else by the formula and its size."""
    if view.formula == say.OWN_TABLE:
        return file_name(run.trace, "positions", *parts)
    size = "x".join(map(str, view.table.shape))
    return ".".join((file_name_part(view.formula), size, "positions", *parts))


def _about(run: CurrentRun, view: TableView) -> Facts:
    """Return the facts about the table, and about the run if it is the model's own table."""
    size = {"table": view.owner, "size": say.size(*view.table.shape)}
    return size | (facts(run.trace) if view.formula == say.OWN_TABLE else {})


def _model_facts(run: CurrentRun, view: TableView) -> Facts:
    """Return the facts of the model without the text: the table is the same for every text."""
    names = {"table", "size", *of_model(run.trace)}
    return {name: fact for name, fact in _about(run, view).items() if name in names}


def _checks(run: CurrentRun, view: TableView) -> list[Check]:
    if view.formula != say.OWN_TABLE:
        return claims.table_checks(view.formula, view.table, view.similarity)
    whole = model_table(run)
    used = run.trace.activations[f"{run.scope.model.stack}.position"].value[0]
    return claims.own_table_checks(
        used, whole, run.scope.config.positions, sinusoidal(*whole.shape)
    )


def _quantities(run: CurrentRun, choices: TableChoices) -> list[Quantity]:
    view = table_view(run, choices)
    if view.formula == say.OWN_TABLE:
        name = "the model's own position table"
    else:
        name = f"the position table of {say.TABLE_SOURCES[view.formula]}"
    return [
        Quantity(
            name,
            "value",
            view.table,
            [Label(str(place)) for place in range(len(view.table))],
            "position",
            are_rows_numbered=True,
            file=f"positions.{view.formula}",
            about=_model_facts(run, view),
        )
    ]


def _note(run: CurrentRun, choices: TableChoices) -> str:
    return say.PICTURES_NOTE


CURVES_VIEW = View(
    _curves,
    _lay_out_curves,
    choose=_choose_curves,
    within=_within,
    text=_text,
    files=_files,
    files_note=_note,
    quantities=_quantities,
    is_live=lambda choices: False,
    has_strip=False,
)
MAP = replace(CURVES_VIEW, payloads=_map, layout=_lay_out_map, choose=_choose)
