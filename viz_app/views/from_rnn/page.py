"""The page From RNN to attention: what each layer reaches and costs, and what attention changed."""

from collections.abc import Callable

from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice
from viz_app.views.from_rnn import pair
from viz_app.views.from_rnn.cost import COST
from viz_app.views.from_rnn.learning import LENGTH_VIEW, SIMILARITIES_VIEW, STAGES_ON_DATES
from viz_app.views.from_rnn.reach import REACH
from viz_app.views.from_rnn.three import THREE
from viz_app.views.page import Find, NextQuestion, Page, View

FROM_RNN_QUESTION = "From RNN to attention: what changed?"
FROM_RNN_ANSWER = "Four kinds of layer pass information between tokens. How far does each reach, and at what cost?"

NO_SOURCE = (
    "**This model does not translate.** The section compares how an encoder reads a source. Open **eng-fra**, "
    "**eng-fra-bahdanau** or one of the date models for it."
)
# Task → the text that the page opens on. Of the held-out sentences of 6 to 10 words that both
# models with attention translate word for word as a known translation does, one that the model with
# a fixed vector gives another meaning ("a large town in his neighbours").
OPENS_ON = {"translation": "The boy has an apple in his pocket."}


def _of_source(find: Callable[[CurrentRun], View | str]) -> Find:
    """Return a section that needs an encoder of a source, or two texts."""

    def find_view(run: CurrentRun) -> View | str:
        is_translation = run.scope.model.translates and "source" in run.trace.streams
        return find(run) if is_translation else NO_SOURCE

    return find_view


FROM_RNN_SECTIONS: dict[str, Find] = {
    "Three models": _of_source(lambda run: THREE),
    "What reaches what": _of_source(lambda run: REACH),
    "Parallel and cost": _of_source(lambda run: COST),
    "Sentence length": lambda run: LENGTH_VIEW,
    "Two alignments": _of_source(pair.find_pair),
    "Stages, on dates": lambda run: STAGES_ON_DATES,
    "Similarities": lambda run: SIMILARITIES_VIEW,
}
FROM_RNN_SECTION = Choice("from-rnn-section", "", options=tuple(FROM_RNN_SECTIONS))
FROM_RNN_PAGE = Page(
    "From RNN to attention",
    FROM_RNN_QUESTION,
    lambda run: FROM_RNN_ANSWER,
    FROM_RNN_SECTIONS,
    lambda run, choices: NextQuestion("Which other models can I open?", "models"),
    FROM_RNN_SECTION,
    shows_changes=False,
    opens_on=OPENS_ON,
)
