"""The parts of a lesson: steps, each with a question, a prediction, an address and a reveal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from viz_app.lessons.sentence import Sentence

CHOOSE_STEP, TOKEN_STEP, NUMBER_STEP, ORDER_STEP, CELLS_STEP = (
    "choose",
    "token",
    "number",
    "order",
    "cells",
)
# kind of prediction → what comes after its name in the file
STEP_KINDS = {
    CHOOSE_STEP: "",
    TOKEN_STEP: "a stream of tokens",
    NUMBER_STEP: "a unit",
    ORDER_STEP: "a stream of tokens",
    CELLS_STEP: "an attention",
}

MAX_LESSON_STEPS = 20

Query = Mapping[str, Sequence[str]]  # texts of URL parameters, by name


@dataclass(frozen=True)
class Prediction:
    """The subject of a prediction.

    It is one of `options` (key → text), a token or an order of tokens of the stream `of`, a number
    in the unit `of`, or the cells that the attention `of` may read.
    """

    kind: str
    of: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LessonStep:
    """One question of a lesson.

    The page opens with `query`; once the prediction is made, `then_page` opens, with the parameters
    of `then` changed. `happened` is the result, in the form of the prediction.
    """

    question: str
    text: str
    page: str
    query: Query
    prediction: Prediction
    then_page: str
    then: Query
    pins: bool  # the run before the change is pinned beside the one after it
    looks_at: str  # key of the picture that is marked; "" for none
    happened: Sentence
    reveal: tuple[Sentence, ...]  # paragraphs

    def page_when(self, is_predicted: bool) -> str:
        """Return the page that the step is on, before or after the prediction."""
        return self.then_page if is_predicted else self.page

    def query_when(self, is_predicted: bool) -> Query:
        """Return the texts of the step's address, before or after the prediction."""
        return {**self.query, **self.then} if is_predicted else self.query


@dataclass(frozen=True)
class Lesson:
    """A lesson; `name` is its file's, without suffix."""

    name: str
    title: str
    about: str
    minutes: int
    steps: tuple[LessonStep, ...]
