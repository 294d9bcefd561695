"""The page From RNN to attention: what each layer reaches and costs, and what attention changed."""

from collections.abc import Callable

from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice
from viz_app.views.from_rnn import pair
from viz_app.views.from_rnn.cost import COST
from viz_app.views.from_rnn.learning import LENGTH_VIEW, SIMILARITIES_VIEW, STAGES_ON_DATES
from viz_app.views.from_rnn.reach import REACH
from viz_app.views.from_rnn.three import THREE
from viz_app.views.page import Find, NextQuestion, Page, View

FROM_RNN_QUESTION = "From RNN to attention: what changed?"
FROM_RNN_ANSWERS = {
    "Three models": "One sentence in three models: one fixed vector, an alignment, or attention alone. What gets lost?",
    "What reaches what": "How far does each kind of layer carry information from one token to another?",
    "Parallel and cost": "How many steps must wait for each other, and how much does each layer compute?",
    "Sentence length": "Does a model without attention lose more as sentences get longer?",
    "Two alignments": "Does a Transformer's head align a sentence pair as Bahdanau's model does?",
    "Stages, on dates": "Each model has one part more than the one before it. What does each part bring?",
    "Similarities": "How is a query compared with a key, and how well does each way learn?",
}

NO_SOURCE = (
    "**This model does not translate.** The section compares how an encoder reads a source. Open **eng-fra**, "
    "**eng-fra-bahdanau** or one of the date models for it."
)
# Task → the text that the page opens on: a held-out sentence of 6 to 10 words. Both models with
# attention translate it exactly as a known translation does; the model with a fixed vector gives it
# another meaning ("a large town in his neighbours").
OPENS_ON = {"translation": "The boy has an apple in his pocket."}


def _is_translation(run: CurrentRun) -> bool:
    return run.scope.model.translates and "source" in run.trace.streams


def _answer(run: CurrentRun) -> str:
    first = "Three models" if _is_translation(run) else "Sentence length"
    return FROM_RNN_ANSWERS[url_state.get(FROM_RNN_SECTION) or first]


def _of_source(find: Callable[[CurrentRun], View | str]) -> Find:
    """Return a section that needs an encoder of a source, or two texts."""

    def find_view(run: CurrentRun) -> View | str:
        return find(run) if _is_translation(run) else NO_SOURCE

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
    _answer,
    FROM_RNN_SECTIONS,
    lambda run, choices: NextQuestion("Which other models can I open?", "models"),
    FROM_RNN_SECTION,
    shows_changes=False,
    opens_on=OPENS_ON,
)
