"""The section Two misprints: the paper's formula beside two misprints, one picture at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import plotly.graph_objects as go

from models.analysis.position_measures import FormulaMeasures, rotation_matrix
from models.layers.positions import FORMULAS, formula_table
from models.number_text import decimal
from viz_app import ui
from viz_app.controls import pick
from viz_app.drawing.extent import domain, signed_extent
from viz_app.drawing.look import Look
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name_part
from viz_app.drawing.stamp import Facts, caption
from viz_app.session import cache, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Whole
from viz_app.views.page import Columns, File, Foot, PageCell, Plot, Prose, View
from viz_app.views.positions import charts, claims, files
from viz_app.views.positions import text as say
from viz_app.views.positions.tables import TABLE_SIZES, choose_d_model, choose_length

# option → (its label, the prefix of the keys of its pictures)
MISPRINT_PICTURES = {
    "map": ("Table", "positions-map-"),
    "similarity": ("Similarity", "positions-similarity-"),
    "plane": ("Shift by k", "positions-plane-"),
}
MISPRINT_PICTURE = Choice("positions-picture", "map", options=tuple(MISPRINT_PICTURES))
TABLE_SHIFT, DIMENSION_PAIR = (
    Whole("positions-shift", 5, low=1, high=32),
    Whole("positions-pair", 4, high=TABLE_SIZES[-1] // 2 - 1),
)


HIGH = 300  # px, of a picture without its title


@dataclass(frozen=True)
class MisprintChoices:
    """The picture of each formula, the tables' size, the shift, and the pair of dimensions."""

    picture: str
    d_model: int
    n: int
    shift: int
    pair: int

    @property
    def measures(self) -> list[FormulaMeasures]:
        """The measurements of every formula."""
        return [cache.formula_measures(f, self.n, self.d_model, self.shift) for f in FORMULAS]


def _choose(run: CurrentRun) -> MisprintChoices:
    shown, one, two, three, four = pick.columns(2.2, 1, 1, 1, 1)
    with shown:
        picture = pick.pick_few(
            "Show",
            MISPRINT_PICTURE,
            list(MISPRINT_PICTURES),
            lambda name: MISPRINT_PICTURES[name][0],
        )
    with three:
        d_model = choose_d_model()
    with four:
        n = choose_length()
    with one:
        shift = pick.pick_whole("Shift k (positions)", TABLE_SHIFT, help=say.SHIFT_HELP)
    pair, pairs = 0, list(range(d_model // 2))
    if len(pairs) > 1:
        chosen = min(url_state.get(DIMENSION_PAIR), pairs[-1])
        with two:
            pair = pick.step(
                "Pair drawn", DIMENSION_PAIR, pairs, chosen, disabled=picture != "plane"
            )
    return MisprintChoices(picture, d_model, n, shift, pair)


def _payloads(run: CurrentRun, choices: MisprintChoices) -> Pictures:
    """Make the chosen picture of each formula: its table, PE·PEᵀ by distance, or a turning pair."""
    look, measures = ui.page_look(), choices.measures
    ends = [values for m in measures for values in (m.similarity.least, m.similarity.largest)]
    shared, key = domain(signed_extent(*ends)), MISPRINT_PICTURES[choices.picture][1]
    make = {
        "map": lambda m: _map(m, look),
        "similarity": lambda m: charts.similarity_chart(
            m.similarity,
            look,
            f"{say.TABLE_NAMES[m.formula]}: how alike, by distance",
            shared,
            HIGH,
        ),
        "plane": lambda m: _plane(m, choices, look),
    }[choices.picture]
    pictures = {f"{key}{m.formula}": make(m) for m in measures}
    return {**pictures, "checks": check_rows(claims.formulas(measures))}


def _map(m: FormulaMeasures, look: Look) -> go.Figure:
    title, size = f"{say.TABLE_NAMES[m.formula]}: position by dimension", say.size(*m.table.shape)
    axes = ("position", "dimension")
    return charts.heatmap(m.table, look, title, axes, HIGH, 1.0, 46, caption({"size": size}))


def _plane(m: FormulaMeasures, choices: MisprintChoices, look: Look) -> alt.Chart:
    longer = formula_table(m.formula, choices.n + m.shift, choices.d_model)
    turned = m.table @ rotation_matrix(m.formula, m.shift, choices.d_model).T
    missed = f"Orange: what a fixed turn misses of a step of {m.shift}"
    title = f"{say.TABLE_NAMES[m.formula]}: pair {choices.pair}. {missed}"
    return charts.plane(longer, turned, choices.pair, m.shift, look, title)


def _layout(run: CurrentRun, choices: MisprintChoices, pictures: Pictures) -> Sequence[PageCell]:
    """Place a column for each formula: the formula and the chosen picture."""
    measures, key = choices.measures, MISPRINT_PICTURES[choices.picture][1]

    def column(m: FormulaMeasures) -> list[PageCell]:
        file = _file(m) if choices.picture == "map" else ""
        plot = Plot(f"{key}{m.formula}", file, fits=choices.picture != "plane")
        return [Prose(f"${say.LATEX[m.formula]}$"), plot]

    columns = tuple(column(m) for m in measures)
    return [Columns((1,) * len(measures), columns), Foot((1.6, 1))]


def _text(run: CurrentRun, choices: MisprintChoices) -> str:
    """Say what the numbers of each formula mean, and list them."""
    measures = choices.measures
    explanations = [f"**{say.TABLE_NAMES[m.formula]}.** {explain_misprint(m)}" for m in measures]
    return "\n\n".join([*explanations, measured_table(measures), measured_note(measures[0])])


def _file(m: FormulaMeasures) -> str:
    return ".".join(
        (file_name_part(m.formula), "x".join(map(str, m.table.shape)), "positions", "map")
    )


def _files(run: CurrentRun, choices: MisprintChoices) -> Sequence[File]:
    name = f"formulas.{choices.n}x{choices.d_model}.shift{choices.shift}"

    def about(now: CurrentRun) -> Facts:
        size = say.size(choices.n, choices.d_model)
        return {"formulas": ", ".join(FORMULAS), "size": size, "shift": f"{choices.shift}"}

    def numbers(now: CurrentRun) -> str:
        return files.formula_measures_csv(choices.measures)

    def tables(now: CurrentRun) -> bytes:
        return files.measures_npz(choices.measures)

    return [
        File("These numbers, CSV", numbers, f"{name}.csv", about),
        File("Tables and rotations, npz", tables, f"{name}.npz", about=about),
    ]


def length_share(value: float) -> str:
    """Write a share of the vectors' length, as a percentage or as rounding."""
    return f"0 (rounding: {value:.0e})" if value < 1e-6 else f"{100 * value:.1f} %"


def measured_rows(measures: Sequence[FormulaMeasures]) -> list[tuple[str, list[str]]]:
    """Return the comparison as a table: measurements, each with its value for each formula."""
    return [*_table_rows(measures), *_shift_rows(measures)]


def _table_rows(measures: Sequence[FormulaMeasures]) -> list[tuple[str, list[str]]]:
    """Return what is measured over the positions shown."""
    d = measures[0].table.shape[1]
    lengths = [m.table.norm(dim=1) for m in measures]
    return [
        (
            "Dimensions that move at all (by 0.01 or more)",
            [f"{m.n_varying} of {d}" for m in measures],
        ),
        (
            "Length of the vectors, shortest to longest",
            [f"{float(v.min()):.2f} to {float(v.max()):.2f}" for v in lengths],
        ),
        (
            "The two positions hardest to tell apart",
            [
                "{} and {}".format(*m.neighbours.closest_pair) + f", {m.neighbours.least:.3f} apart"
                for m in measures
            ],
        ),
        (
            "Aliased: positions more like a distant one than like those beside them",
            [f"{m.neighbours.aliased} of {len(m.table)}" for m in measures],
        ),
        (
            "The two positions least alike: their PE·PEᵀ, as a share of a vector's with itself, on average",
            [f"{decimal(100 * m.similarity.floor, 0)} %" for m in measures],
        ),
        (
            "PE·PEᵀ at one distance differs between positions by",
            [f"{m.similarity.spread:.2g}" if m.similarity.spread > 1e-6 else "0" for m in measures],
        ),
    ]


def _shift_rows(measures: Sequence[FormulaMeasures]) -> list[tuple[str, list[str]]]:
    """Return how well one matrix takes every position to the one a shift further on."""
    k = measures[0].shift
    return [
        (
            f"Shift by {k}: turning each pair by its fixed angle misses by",
            [length_share(m.rotation_miss) for m in measures],
        ),
        (
            f"Shift by {k}: the best single matrix misses by",
            [length_share(m.best_linear_miss) for m in measures],
        ),
    ]


def measured_table(measures: Sequence[FormulaMeasures]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| Measured | " + " | ".join(say.TABLE_NAMES[m.formula] for m in measures) + " |",
        "|---" * (len(measures) + 1) + "|",
    ]
    return "\n".join(
        [
            *lines,
            *(
                "| " + " | ".join([what, *values]) + " |"
                for what, values in measured_rows(measures)
            ),
        ]
    )


def measured_note(m: FormulaMeasures) -> str:
    """Return a note on how the shifts were measured."""
    return (
        f"The upper rows are over the {len(m.table)} positions shown. Shifts are measured over {m.n_fit} positions, at"
        " least four times as many as dimensions. So no matrix fits by luck. A miss is the root mean square, as a "
        "share of the vectors' length."
    )


def explain_misprint(m: FormulaMeasures) -> str:
    """Explain these numbers."""
    n, d = m.table.shape
    sentences = []
    if m.n_varying < d / 2:
        sentences.append(
            f"{d - m.n_varying} of {d} dimensions hardly change over these {n} positions: they take room in every "
            f"vector and carry no information. Any two positions are at least {100 * m.similarity.floor:.0f} % alike."
        )
    elif m.formula != "sin-sin":
        sentences.append(f"{m.n_varying} of {d} dimensions change.")
    if m.neighbours.aliased:
        sentences.append(
            f"{m.neighbours.aliased} of {n} positions are more like a distant one than like those beside them."
        )
    if m.rotation_miss < 1e-6:
        sentences.append(
            f"A step of {m.shift} is the same rotation at every position. The paper chose its formula so that a head "
            f"might easily learn “look {m.shift} back” (§3.5)."
        )
    else:
        sentences.append(
            f"No matrix takes PE(pos) to PE(pos+{m.shift}) everywhere. PE(0) already shows it: it is all zeros, and "
            f"any matrix maps zeros to zeros. Over {m.n_fit} positions together the best matrix misses by "
            f"{length_share(m.best_linear_miss)} of the vectors' length."
        )
    if m.similarity.spread > 1e-6:
        sentences.append(
            "How alike two positions are depends on the positions, not only on their distance."
        )
    else:
        sentences.append("How alike two positions are depends on their distance alone.")
    return " ".join(sentences)


MISPRINTS = View(
    _payloads,
    _layout,
    choose=_choose,
    text=_text,
    files=_files,
    trained=lambda run: "",
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)
