"""What the page Inside a head shows of a run: the tokens to choose, the walk, the matrices or the heads, and the checks."""

from dataclasses import dataclass

from models.analysis import head_walk
from viz_app.drawing.notes import checked
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.inside import cell as cells
from viz_app.views.inside import matrices, similarity
from viz_app.views.inside.cell import Cell

DRAWN_BY_STREAMLIT = "scaling"      # the view that is charts, and has no payload


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page: a similarity instead of the model's own, or ""; the view and its convention; the site and the
    head; the query and the key, None where a telling one is to be found; the stage where the walk begins."""

    similarity: str
    view: str
    convention: str
    site: str
    head: int
    query: int | None
    key: int | None
    stage: int


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    compared, cell = chosen(run, choices)
    trace, terms = compared.trace, run.terms
    views = {
        "walk": lambda: cells.walk(trace, cell, terms, choices.stage),
        "matrices": lambda: matrices.matrices(trace, cell, terms, choices.convention),
        "heads": lambda: cells.heads(trace, cell, terms),
    }
    return {
        **similarity.note(run, compared, choices.site, choices.head, choices.similarity),
        "choice": cells.token_choice(trace, cell, terms),
        **({choices.view: views[choices.view]()} if choices.view in views else {}),
        "checks": checked(head_walk.check_walk(trace, cell.site, cell.query, cell.head)),
    }


def chosen(run: CurrentRun, choices: Choices) -> tuple[CurrentRun, Cell]:
    """The run under the chosen similarity, and the chosen weight of it."""
    compared = similarity.under(run, choices.similarity)
    site = compared.trace.attention[choices.site]
    return compared, cells.cell(compared.trace, site, choices.head, choices.query, choices.key)
