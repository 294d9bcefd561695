"""What was measured of the paper's formula and of two misprints of it, as a table and in words."""

from collections.abc import Sequence

from models.analysis.position_measures import FormulaMeasures
from viz_app.views.positions.text import NAMES


def share(value: float) -> str:
    """A share of the vectors' length, as a percentage or as rounding."""
    return f"0 (rounding: {value:.0e})" if value < 1e-6 else f"{100 * value:.1f} %"


def measured_rows(measures: Sequence[FormulaMeasures]) -> list[tuple[str, list[str]]]:
    """The comparison as a table: what is measured, and its value for each formula."""
    d, k = measures[0].table.shape[1], measures[0].shift
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
            "Aliased: positions that resemble one further away more than those beside them",
            [f"{m.neighbours.aliased} of {len(m.table)}" for m in measures],
        ),
        (
            "The two positions least alike: their PE·PEᵀ, as a share of a vector's with itself, on average",
            [f"{100 * m.similarity.floor:.0f} %".replace("-", "−") for m in measures],
        ),
        (
            "PE·PEᵀ at one distance differs from place to place by",
            [f"{m.similarity.spread:.2g}" if m.similarity.spread > 1e-6 else "0" for m in measures],
        ),
        (
            f"Shift by {k}: turning each pair by its fixed angle misses by",
            [share(m.rotation_miss) for m in measures],
        ),
        (
            f"Shift by {k}: the best single matrix there is misses by",
            [share(m.best_linear_miss) for m in measures],
        ),
    ]


def measured_table(measures: Sequence[FormulaMeasures]) -> str:
    """The rows as a markdown table."""
    lines = [
        "| Measured | " + " | ".join(NAMES[m.formula] for m in measures) + " |",
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
    """How the shifts were measured."""
    return (
        f"The upper rows are over the {len(m.table)} positions shown. Shifts are measured over {m.n_fit} positions, at "
        "least four times as many as dimensions, so that no matrix fits by luck; a miss is the root mean square, as a "
        "share of the vectors' length."
    )


def verdict(m: FormulaMeasures) -> str:
    """What these numbers mean, in words."""
    n, d = m.table.shape
    said = []
    if m.n_varying < d / 2:
        said.append(
            f"{d - m.n_varying} of {d} dimensions stand still over these {n} positions: they cost space in every vector and say "
            f"nothing, and any two positions are at least {100 * m.similarity.floor:.0f} % alike."
        )
    elif m.formula != "sin-sin":
        said.append(f"{m.n_varying} of {d} dimensions take part.")
    if m.neighbours.aliased:
        said.append(
            f"{m.neighbours.aliased} of {n} positions resemble one further away more than those beside them."
        )
    if m.rotation_miss < 1e-6:
        said.append(
            f"A step of {m.shift} is the same rotation at every position. That might make it easy for a head to learn “look "
            f"{m.shift} back”: it is why the paper chose its formula (§3.5)."
        )
    else:
        said.append(
            f"No matrix takes PE(pos) to PE(pos+{m.shift}) everywhere. PE(0) already shows it: it is all zeros, and any matrix "
            f"makes zeros of zeros. Over {m.n_fit} positions together the best one misses by {share(m.best_linear_miss)} of the "
            "vectors' length."
        )
    if m.similarity.spread > 1e-6:
        said.append(
            "How alike two positions are depends on where they stand, not only on their distance."
        )
    else:
        said.append("How alike two positions are depends on their distance alone.")
    return " ".join(said)
