"""The parts of the Positions page about the tables: curves, maps, and the paper's formula beside two misprints."""

from dataclasses import dataclass
from functools import partial

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator
from torch import Tensor

from models.analysis.checks import Check
from models.analysis.position_measures import (
    FormulaMeasures,
    SimilarityByDistance,
    rotation,
    similarity_by_distance,
)
from models.layers.positions import FORMULAS, formula_table, sinusoidal, wavelengths
from viz_app import ui, words
from viz_app.drawing.look import look
from viz_app.drawing.provenance import file_name, readable
from viz_app.drawing.stamp import Facts, caption, facts, of_model
from viz_app.session import cache, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice, Several, Whole
from viz_app.views.positions import charts as draw
from viz_app.views.positions import claims as claims
from viz_app.views.positions import files as files
from viz_app.views.positions import measured_text as measured
from viz_app.views.positions import text as say

SIZES = [2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512]  # of d_model
FIRST_DIMS = (0, 1, 8, 16, 24)
TABLE = Choice("positions-table", say.NAMES["paper"], options=tuple(say.NAMES.values()))
D_MODEL, LENGTH = (
    Choice("positions-d_model", 64, False, tuple(SIZES)),
    Whole("positions-length", 100, low=4, high=512),
)
SHIFT, PAIR = (
    Whole("positions-shift", 5, low=1, high=32),
    Whole("positions-pair", 4, high=SIZES[-1] // 2 - 1),
)
DIMS = Several("positions-dims", FIRST_DIMS, most=len(draw.LINES))


@dataclass(frozen=True)
class TableView:
    """The table on the screen: a formula of FORMULAS or OWN, its values in float64, its wavelengths if it has any."""

    formula: str
    table: Tensor
    waves: Tensor | None
    owner: str

    @property
    def similarity(self) -> SimilarityByDistance:
        return similarity_by_distance(self.table)


def curves(run: CurrentRun) -> None:
    """Chosen dimensions along the positions, and every dimension's wavelength."""
    view = _pick(run)
    n, d_model = view.table.shape
    dims = sorted(
        st.multiselect(
            "Dimensions drawn",
            list(range(d_model)),
            max_selections=DIMS.most,
            placeholder="Choose up to eight dimensions",
            **url_state.bound(DIMS, [i for i in url_state.get(DIMS) if i < d_model]),
        )
    )
    left, right = st.columns([1.7, 1], gap="medium")
    of_sine = "paper" if view.formula == say.OWN else view.formula
    waves = [None if view.waves is None else float(view.waves[i]) for i in dims]
    names = [say.dimension(of_sine, i, wave) for i, wave in zip(dims, waves, strict=True)]
    title = f"What each place is told: {view.owner}, {d_model} dimensions"
    left.altair_chart(
        ui.presented(draw.curves(view.table, dims, names, title)), key="positions-curves"
    )
    if view.waves is None:
        right.markdown(say.NO_WAVES)
    else:
        title = "How many positions one full turn takes, by dimension"
        chart = draw.wavelength_chart(view.waves, dims, n, title)
        right.altair_chart(ui.presented(chart), key="positions-waves")
        right.caption(say.turns(view.waves, n))
    _foot(run, view)


def maps(run: CurrentRun) -> None:
    """The whole table, PE·PEᵀ, and PE·PEᵀ by distance."""
    view = _pick(run)
    colours, similarity = look(st.context.theme.type), view.similarity
    left, middle, right = st.columns([1.15, 1, 1], gap="medium")
    title, note = f"Position by dimension: {view.owner}", caption(_model_facts(run, view))
    figure = draw.heatmap(view.table, colours, title, ("position", "dimension"), wrap=46, note=note)
    left.plotly_chart(
        ui.presented(figure),
        theme=None,
        key="positions-map",
        config=ui.camera(_name(run, view, "map")),
    )
    title, products = "PE·PEᵀ: how alike two places are", view.table @ view.table.T
    figure = draw.heatmap(
        products, colours, title, ("position", "other position"), wrap=46, note=note
    )
    middle.plotly_chart(
        ui.presented(figure),
        theme=None,
        key="positions-products",
        config=ui.camera(_name(run, view, "products")),
    )
    chart = draw.similarity_chart(
        similarity, colours, "PE·PEᵀ by distance", draw.similarity_domain(similarity), 370
    )
    right.altair_chart(ui.presented(chart), key="positions-similarity")
    right.caption(say.BAND)
    _foot(run, view)


def misprints(run: CurrentRun) -> None:
    """The paper's formula and the two misprints side by side, what each breaks in pictures, numbers and words."""
    one, two, three, four = st.columns(4, gap="medium")
    d_model, n = _sizes(three, four)
    shift = one.slider(
        "Shift k (positions)",
        SHIFT.low,
        SHIFT.high,
        help=say.SHIFT_HELP,
        **url_state.bound(SHIFT, url_state.get(SHIFT)),
    )
    pair = 0
    if d_model > 2:
        pairs = list(range(d_model // 2))
        pair = two.select_slider(
            "Pair of dimensions drawn",
            pairs,
            **url_state.bound(PAIR, min(url_state.get(PAIR), pairs[-1])),
        )
    measures = [cache.formula_measures(formula, n, d_model, shift) for formula in FORMULAS]
    domain = draw.similarity_domain(*(m.similarity for m in measures))
    for row in (_said, _map, partial(_similarity, domain=domain), partial(_plane, pair=pair)):
        for column, m in zip(st.columns(3, gap="medium"), measures, strict=True):
            with column:
                row(m)
    st.markdown(measured.measured_table(measures))
    st.caption(measured.measured_note(measures[0]))
    left, right = st.columns(2, gap="medium")
    name = f"formulas.{n}x{d_model}.shift{shift}"
    size = {"formulas": ", ".join(FORMULAS), "size": say.size(n, d_model), "shift": f"{shift}"}
    with left, st.container(horizontal=True, gap="small", key="downloads"):
        ui.download(
            "These numbers, CSV",
            lambda: files.measures_csv(measures),
            f"{name}.csv",
            "text/csv",
            lambda: size,
        )
        ui.download(
            "Tables and rotations, npz",
            lambda: files.measures_npz(measures),
            f"{name}.npz",
            about=lambda: size,
        )
    with right:
        ui.checks_panel(ui.check_rows(claims.formulas(measures)), "")


def _said(m: FormulaMeasures) -> None:
    """A formula, and what its numbers mean."""
    st.markdown(f"**{say.NAMES[m.formula]}**")
    st.latex(say.LATEX[m.formula])
    st.markdown(measured.verdict(m))


def _map(m: FormulaMeasures) -> None:
    title = f"{say.NAMES[m.formula]}: position by dimension"
    note = caption({"size": say.size(*m.table.shape)})
    figure = draw.heatmap(
        m.table, look(st.context.theme.type), title, ("position", "dimension"), 300, 1.0, 46, note
    )
    name = ".".join((readable(m.formula), "x".join(map(str, m.table.shape)), "positions", "map"))
    st.plotly_chart(
        ui.presented(figure), theme=None, key=f"positions-map-{m.formula}", config=ui.camera(name)
    )


def _similarity(m: FormulaMeasures, domain: tuple[float, float]) -> None:
    title = f"{say.NAMES[m.formula]}: how alike, by distance"
    chart = draw.similarity_chart(m.similarity, look(st.context.theme.type), title, domain, 250)
    st.altair_chart(ui.presented(chart), key=f"positions-similarity-{m.formula}")


def _plane(m: FormulaMeasures, pair: int) -> None:
    """One pair of dimensions, and what turning it by a fixed angle misses."""
    n, d_model = m.table.shape
    longer = formula_table(m.formula, n + m.shift, d_model)
    turned = m.table @ rotation(m.formula, m.shift, d_model).T
    title = f"{say.NAMES[m.formula]}: pair {pair}. Orange: what a fixed turn misses of a step of {m.shift}"
    chart = draw.plane(longer, turned, pair, m.shift, look(st.context.theme.type), title)
    st.altair_chart(ui.presented(chart), width="content", key=f"positions-plane-{m.formula}")


def _pick(run: CurrentRun) -> TableView:
    """The knobs, and the table they ask for."""
    config, kind = run.scope.config, _kind(run)
    if run.scope.model.is_recurrent:
        st.markdown(say.TABLES_ONLY)
    left, middle, right = st.columns([2.2, 1, 1], gap="medium")
    names = {name: key for key, name in say.NAMES.items() if key != say.OWN or kind != "none"}
    formula = names[
        left.segmented_control(
            "Table",
            list(names),
            required=True,
            help=say.own_help(kind, run.scope.model.order_from),
            **url_state.bound(TABLE, url_state.one_of(TABLE, list(names), TABLE.default)),
        )
    ]
    d_model, n = _sizes(middle, right, config.d_model if formula == say.OWN else None)
    if formula != say.OWN:
        return TableView(
            formula,
            formula_table(formula, n, d_model),
            wavelengths(formula, d_model),
            say.WHOSE[formula],
        )
    table = own_table(run)[:n].double()
    waves = wavelengths("paper", config.d_model) if config.positions == "sinusoidal" else None
    return TableView(formula, table, waves, f"{config.positions} positions of {run.scope.name}")


def own_table(run: CurrentRun) -> Tensor:
    """The loaded model's position vectors, all of them."""
    return run.scope.model.positions.table.detach().to("cpu", torch.float32)


def _kind(run: CurrentRun) -> str:
    """How the loaded model tells places apart; "none" in a recurrence."""
    return getattr(run.scope.config, "positions", "none")


def _sizes(
    left: DeltaGenerator, right: DeltaGenerator, fixed: int | None = None
) -> tuple[int, int]:
    """d_model and length; a `fixed` d_model is the model's, and there is no knob for it."""
    if fixed is None:
        d_model = left.select_slider(
            "d_model (dimensions)",
            SIZES,
            **url_state.bound(D_MODEL, url_state.get(D_MODEL)),
            help="How many numbers a position vector has.",
        )
    else:
        d_model = left.number_input(
            "d_model of this model", value=fixed, key=f"positions-own-{fixed}", disabled=True
        )
    length = right.slider(
        "Length (positions)",
        LENGTH.low,
        LENGTH.high,
        step=4,
        **url_state.bound(LENGTH, url_state.get(LENGTH)),
    )
    return d_model, length


def _foot(run: CurrentRun, view: TableView) -> None:
    """What the table is, its downloads, and its checks."""
    name, about = _name(run, view), partial(_about, run, view)
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(say.explanation(view.formula, _kind(run), run.scope.model.order_from))
        with st.container(horizontal=True, gap="small", key="downloads"):
            ui.download(
                "This table, CSV",
                lambda: files.table_csv(view.table),
                f"{name}.csv",
                "text/csv",
                about,
            )
            ui.download(
                "Table and similarity, npz",
                lambda: files.table_npz(view.table, view.waves, view.similarity),
                f"{name}.npz",
                about=about,
            )
        st.caption(say.PICTURES)
    with right:
        ui.checks_panel(
            ui.check_rows(_checks(run, view)), words.training_summary(run.scope.training)
        )


def _name(run: CurrentRun, view: TableView, *parts: str) -> str:
    """A file name: the model's where the table is its own, else the formula's and its size."""
    if view.formula == say.OWN:
        return file_name(run.trace, "positions", *parts)
    return ".".join(
        (readable(view.formula), "x".join(map(str, view.table.shape)), "positions", *parts)
    )


def _about(run: CurrentRun, view: TableView) -> Facts:
    """What is to be known of the table: whose it is, and of a model's own which model it is."""
    size = {"table": view.owner, "size": say.size(*view.table.shape)}
    return size | (facts(run.trace) if view.formula == say.OWN else {})


def _model_facts(run: CurrentRun, view: TableView) -> Facts:
    """The same without what was asked: the table is the same for every text."""
    return {
        name: said
        for name, said in _about(run, view).items()
        if name in {"table", "size", *of_model(run.trace)}
    }


def _checks(run: CurrentRun, view: TableView) -> list[Check]:
    if view.formula != say.OWN:
        return claims.table(view.formula, view.table, view.similarity)
    whole = own_table(run)
    used = run.trace.activations[f"{run.scope.model.stack}.position"].value[0]
    return claims.own_table(used, whole, run.scope.config.positions, sinusoidal(*whole.shape))
