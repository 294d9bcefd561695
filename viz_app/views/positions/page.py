"""Positions: how does the model know word order? The page shows one section at a time."""

from models.architectures import Model
from models.architectures.base import BY_MASK, BY_ROTATION, BY_SCORES, BY_STATES, UNSEEN
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice
from viz_app.views import onward
from viz_app.views.page import Find, NextQuestion, Page
from viz_app.views.positions import adding, distance, grid, rotation, shuffle
from viz_app.views.positions.misprints import MISPRINTS
from viz_app.views.positions.tables import CURVES_VIEW, MAP
from viz_app.views.positions.text import NO_TABLE_REASONS
from viz_app.words.allowed import predicts_seen_tokens

POSITIONS_QUESTION = "Positions: how does the model know word order?"


def positions_answer(model: Model, *, looks_back: bool = True) -> str:
    """Say how this model knows the order of what it reads, in one or two sentences.

    `looks_back` is False where the mask of a decoder lets tokens attend to later ones.
    """
    if model.order_source == BY_STATES:
        return (
            "This model reads one token after the other, so the order is in its states. It has no position "
            "vectors."
        )
    if model.order_source == BY_SCORES:
        return "Each score gets a term for the distance between the two tokens. No vector is added to a token."
    if model.rotation(2) is not None:
        return (
            "This model rotates each query and key by angles that grow with its position. So a score depends on "
            "the distance between two tokens."
        )
    if model.order_source in (BY_ROTATION, UNSEEN):
        return f"This model {NO_TABLE_REASONS[model.order_source]}."
    order, begin = "Attention alone ignores order.", "So "
    if model.stack == "decoder" and looks_back:
        order = "The look-ahead mask gives some order: each token attends only to those before it."
        begin = "In addition, "
    added = "a position vector is added to each token."
    without = "This model has no position vectors. In others, "
    return f"{order} {without if model.order_source == BY_MASK else begin}{added}"


def _answer(run: CurrentRun) -> str:
    model = run.scope.model
    is_open = predicts_seen_tokens(run.trace, model.fields[0].stream)
    return positions_answer(model, looks_back=not is_open)


def _leads_to(run: CurrentRun, choices: object) -> NextQuestion:
    if run.trace.attention and run.scope.model.can_edit_masks:
        return NextQuestion("Which tokens may not be attended to?", "masks")
    return onward.how_it_writes(run)


POSITIONS_SECTIONS: dict[str, Find] = {
    "Shuffle test": shuffle.find_shuffle,
    "Curves": lambda run: CURVES_VIEW,
    "Map": lambda run: MAP,
    "Two misprints": lambda run: MISPRINTS,
    "Added or concatenated": adding.find_adding,
    "Rotation": rotation.find_rotation,
    "Score by distance": distance.find_distances,
    "Grid of patches": grid.find_grid,
}
POSITIONS_SECTION = Choice("positions-section", "", options=tuple(POSITIONS_SECTIONS))
POSITIONS_PAGE = Page(
    "Positions",
    POSITIONS_QUESTION,
    _answer,
    POSITIONS_SECTIONS,
    _leads_to,
    POSITIONS_SECTION,
)
