"""Models: which are there, and who may see whom in each? A card a checkpoint, family by family; before them the opened one, if
it is none of those offered or nothing is known of it before it is opened."""

from viz_app import ui
from viz_app.components.catalogue import CARDS, PLAIN
from viz_app.components.mounting import show
from viz_app.session.current_run import CurrentRun
from viz_app.views.models import text
from viz_app.views.models.payloads import cards


def models(run: CurrentRun) -> None:
    """Draw the page, which is the same whatever was typed."""
    ui.headline(text.QUESTION, text.ANSWER)
    payload, unreadable = cards(run)
    show(CARDS, payload)
    show(PLAIN, text.unreadable(unreadable), key="note models")
