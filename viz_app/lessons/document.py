"""A lesson on paper: its questions with space for predictions, and on request what happened.

All texts of a lesson or a model are escaped; pictures have places, which are filled later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from viz_app.lessons.form import PredictionForm
from viz_app.lessons.lesson import (
    CELLS_STEP,
    CHOOSE_STEP,
    NUMBER_STEP,
    ORDER_STEP,
    TOKEN_STEP,
    Lesson,
)

REVEAL = "Show what happened"
ANSWER_LINES = 3  # to write on below a question


@dataclass(frozen=True)
class StepOnPaper:
    """The payloads of the component `lesson` for a step, before a prediction and after it.

    `question_picture` and `reveal_picture` are the numbers of its pictures, None if it has none.
    """

    question: Mapping[str, Any]
    reveal: Mapping[str, Any] | None
    question_picture: int | None
    reveal_picture: int | None


def lesson_document(
    lesson: Lesson, steps: list[StepOnPaper], about: str, is_folded: bool = False
) -> str:
    """Return the lesson as HTML, with an element for each picture.

    What happened is hidden until a click if it `is_folded`.
    """
    title = f"<h1>{escape(lesson.title)}</h1><p>{escape(lesson.about)}</p>"
    sections = "".join(_step(number, step, is_folded) for number, step in enumerate(steps, 1))
    return f'<article class="paper">{title}{sections}<footer>{escape(about)}</footer></article>'


def _step(number: int, step: StepOnPaper, is_folded: bool) -> str:
    question = step.question
    parts = [
        f"<h2>{number}. {escape(question['question'])}</h2><p>{escape(question['text'])}</p>",
        _picture(step.question_picture),
        _FORMS[question["form"]["kind"]](question["form"]),
    ]
    if step.reveal is None:
        parts.append('<div class="line"></div>' * ANSWER_LINES)
    else:
        happened, *reveal = step.reveal["happened"], *step.reveal["paragraphs"]
        paragraphs = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in reveal)
        answer = f'<div class="told"><p><b>It was: {escape(happened)}</b></p>{paragraphs}</div>'
        answer += _picture(step.reveal_picture)
        fold = f"<details><summary>{REVEAL}</summary>{answer}</details>"
        parts.append(fold if is_folded else answer)
    return f"<section>{''.join(parts)}</section>"


def _picture(number: int | None) -> str:
    return "" if number is None else f'<div class="picture" data-part="{number}"></div>'


def _choose(form: PredictionForm) -> str:
    return _listed("boxes", [f"☐ {text}" for _, text in form["options"]])


def _token(form: PredictionForm) -> str:
    return _listed("tokens", [f"☐ {token}" for token in form["tokens"]])


def _order(form: PredictionForm) -> str:
    return _listed("tokens", [f"___ {token}" for token in form["tokens"]])


def _number(form: PredictionForm) -> str:
    return f'<p class="number">__________ {escape(form["unit"])}</p>'


def _cells(form: PredictionForm) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in form["columns"])
    blank = "<td></td>" * len(form["columns"])
    rows = "".join(f'<tr><th scope="row">{escape(row)}</th>{blank}</tr>' for row in form["rows"])
    return f'<table class="grid" tabindex="0"><tr><td class="corner"></td>{head}</tr>{rows}</table>'


def _listed(name: str, texts: list[str]) -> str:
    return f'<ul class="{name}">{"".join(f"<li>{escape(text)}</li>" for text in texts)}</ul>'


_FORMS = {
    CHOOSE_STEP: _choose,
    TOKEN_STEP: _token,
    ORDER_STEP: _order,
    NUMBER_STEP: _number,
    CELLS_STEP: _cells,
}
