"""The section Rotation: each pair of dimensions' angle at each position, and wavelengths."""

from collections.abc import Sequence

import altair as alt
import torch
from torch import Tensor

from models.architectures import Model
from models.architectures.base import BY_MASK, BY_SCORES
from models.layers.rotation import Rotation
from viz_app import ui
from viz_app.drawing.extent import Extent, scale_picture
from viz_app.drawing.labels import Label
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, caption, of_model
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.page import Columns, File, Foot, PageCell, Plot, View
from viz_app.views.positions import charts, claims, files
from viz_app.views.positions.tables import LOW, WAVELENGTH_REACH, WAVELENGTH_TITLE, choose_length
from viz_app.views.positions.text import wavelength_text
from viz_app.views.run_difference import Quantity

_OTHERS = "Rotary positions rotate each query and key by angles that depend on its position."
_NONE = f"**This model has no rotary positions.** {_OTHERS}"
_UNKNOWN = f"**No rotary positions were found in this model.** {_OTHERS}"
ROTATED_PAIRS_TITLE = "pair of dimensions"


def no_rotation(model: Model) -> str:
    """Explain why no angles are shown: the model is not known to rotate its queries and keys."""
    return _NONE if model.order_source in (BY_SCORES, BY_MASK) else _UNKNOWN


def within_half_a_turn(angles: Tensor) -> Tensor:
    """Return angles in turns, whole turns left out: from −½ to ½."""
    turns = angles / (2 * torch.pi)
    return turns - turns.round()


def find_rotation(run: CurrentRun) -> View[int] | str:
    """Return the view of a model that rotates its queries and keys, or why there is none."""
    return no_rotation(run.scope.model) if run.scope.model.rotation(2) is None else ROTATION


def _payloads(run: CurrentRun, n: int) -> Pictures:
    turns, waves = run.scope.model.rotation(n), run.scope.model.rotation(n).wavelengths
    angles = charts.heatmap(
        within_half_a_turn(turns.angles),
        ui.page_look(),
        f"Rotation angle of each pair at each position: {run.scope.name}",
        ("position", ROTATED_PAIRS_TITLE),
        LOW,
        0.5,
        note=caption(_about(run, n)),
        value="turns",
    )

    def by_pair(scales: Extent) -> alt.Chart:
        title, longest = f"{WAVELENGTH_TITLE}{ROTATED_PAIRS_TITLE}", scales["wavelength"]
        chart = charts.wavelength_chart(waves, (), n, title, ROTATED_PAIRS_TITLE, longest)
        return chart.properties(height=LOW)

    longest = max([WAVELENGTH_REACH, *waves[waves < charts.NEVER].tolist()])
    site = next(site for site in run.trace.attention.values() if site.has_causes)
    return {
        "positions-rotation": angles,
        "positions-rotation-waves": scale_picture({"wavelength": longest}, by_pair),
        "checks": check_rows(claims.rotation_checks(turns, site.dtype)),
    }


def _layout(run: CurrentRun, n: int, pictures: Pictures) -> Sequence[PageCell]:
    angles = Plot("positions-rotation", file_name(run.trace, "rotation"))
    return [
        Columns(
            (1.3, 1), ([angles], [Plot("positions-rotation-waves")]), ("Angles", "Wavelengths")
        ),
        Foot((1, 1)),
    ]


def _text(run: CurrentRun, n: int) -> str:
    site = next(site for site in run.trace.attention.values() if site.has_causes)
    return explain_rotation(run.scope.model.rotation(n), site.d_head, n)


def explain_rotation(turns: Rotation, d_head: int, n: int) -> str:
    """Explain what is rotated, and how fast."""
    pairs, waves = turns.n_pairs, turns.wavelengths
    rest = d_head - 2 * pairs
    what = (
        f"the first {2 * pairs} of its {d_head} numbers" if rest else f"all of its {d_head} numbers"
    )
    left = f" The other {rest} are left as they are, the same at every position." if rest else ""
    stretched = float(turns.stretch.max())
    longer = (
        f" Each pair is also made {stretched:.4g} times as long."
        if abs(stretched - 1) > 1e-6
        else ""
    )
    return (
        f"**Each query and each key is rotated**, in every layer and head, by these angles: {what}, in {pairs} pairs. "
        f"Pair i is dimensions i and i + {pairs}.{left}{longer} The fastest pair completes a turn in "
        f"{wavelength_text(float(waves.min()))} positions, the slowest in {wavelength_text(float(waves.max()))}. "
        f"{int((waves <= n).sum())} of {pairs} complete one within the {n} positions shown. The product of a query and"
        " a key depends only on the difference of their angles, so on their distance. The map leaves out whole turns:"
        " −½ and ½ are the same."
    )


def _files(run: CurrentRun, n: int) -> Sequence[File]:
    def angles(now: CurrentRun) -> str:
        return files.angles_csv(now.scope.model.rotation(n))

    name = f"{file_name(run.trace, 'rotation')}.csv"
    about = lambda now: _about(now, n)  # noqa: E731
    return [File("The angles in radians, CSV", angles, name, about)]


def _quantities(run: CurrentRun, n: int) -> list[Quantity]:
    angles = run.scope.model.rotation(n).angles / (2 * torch.pi)
    places = [Label(str(place)) for place in range(n)]
    return [
        Quantity(
            "the angles",
            "turns",
            angles,
            places,
            "position",
            are_rows_numbered=True,
            of_columns=ROTATED_PAIRS_TITLE,
            file="rotation",
            about=_about(run, n),
        )
    ]


def _about(run: CurrentRun, n: int) -> Facts:
    n_pairs = run.scope.model.rotation(n).n_pairs
    return {"size": f"{n} positions × {n_pairs} pairs of dimensions"} | of_model(run.trace)


ROTATION = View(
    _payloads,
    _layout,
    choose=lambda run: choose_length(),
    text=_text,
    files=_files,
    trained=lambda run: "",
    quantities=_quantities,
    is_live=lambda choices: False,
    has_strip=False,
)
