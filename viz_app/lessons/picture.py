"""What the component `lesson` shows: the question, then what happened in the run."""

import math
from collections.abc import Mapping
from typing import Any

from viz_app.lessons.lesson import CELLS, CHOOSE, NUMBER, ORDER, TOKEN, Lesson, Prediction, Step
from viz_app.lessons.readings import finder, plain_token
from viz_app.lessons.sentence import Value
from viz_app.session.current_run import CurrentRun

MOST_ORDERED, MOST_CELLS = 8, 12  # tokens to put in an order; rows and columns to paint
MOVED = "Show the step again: the run on the screen is another one."


def lesson_picture(
    lesson: Lesson,
    number: int,
    predictions: Mapping[int, str],
    run: CurrentRun,
    pinned: CurrentRun | None,
    is_here: bool,
) -> dict[str, Any]:
    """Return the payload of a step; what happened is not in it before a prediction.

    `is_here` says that the page is the step's own.
    """
    step, said = lesson.steps[number - 1], predictions.get(number)
    picture: dict[str, Any] = {
        "lesson": lesson.title,
        "step": number,
        "made": [i in predictions for i in range(1, len(lesson.steps) + 1)],
        "question": step.question,
        "text": step.text,
        "look": step.looks_at if is_here else "",
        "away": not is_here,
        "asks": None,
        "told": None,
    }
    try:
        if said is None:
            picture["asks"] = _asked(step.prediction, run)
        else:
            picture["told"] = _told(step, said, run, pinned)
    except ValueError as error:
        message = str(error)
        picture["error"] = f"{message[:1].upper()}{message[1:]}. {MOVED}"
    return picture


def _asked(prediction: Prediction, run: CurrentRun) -> dict[str, Any]:
    """Return what there is to predict with.

    Raises:
        ValueError: the run has no such tokens or cells, or too many.
    """
    asks: dict[str, Any] = {"kind": prediction.kind}
    if prediction.kind == CHOOSE:
        asks["options"] = [list(option) for option in prediction.options.items()]
    elif prediction.kind == NUMBER:
        asks["unit"] = prediction.of
    elif prediction.kind == CELLS:
        site = run.trace.attention.get(prediction.of)
        if site is None:
            raise ValueError(f"this run has no attention {prediction.of[:60]}")
        if max(site.n_query, site.n_key) > MOST_CELLS:
            raise ValueError(f"the text is longer than {MOST_CELLS} tokens")
        asks["rows"] = [plain_token(token) for token in site.query_tokens]
        asks["columns"] = [plain_token(token) for token in site.key_tokens]
    else:
        tokens = _tokens(prediction, run)
        if prediction.kind == ORDER and len(tokens) > MOST_ORDERED:
            raise ValueError(f"more than {MOST_ORDERED} tokens are too many to put in an order")
        asks["tokens"] = tokens
    return asks


def _tokens(prediction: Prediction, run: CurrentRun) -> list[str]:
    stream = run.trace.streams.get(prediction.of)
    if stream is None:
        raise ValueError(f"this run has no stream {prediction.of[:40]}")
    tokens = [plain_token(token) for token in stream.tokens]
    # what a decision can write: every token after the first
    return tokens[1:] if prediction.kind == ORDER and run.scope.model.can_write else tokens


def _told(step: Step, said: str, run: CurrentRun, pinned: CurrentRun | None) -> dict[str, Any]:
    """Return what was predicted, what happened, and the reveal.

    Raises:
        ValueError: something is not there in this run.
    """
    find = finder(run, pinned)
    happened = step.happened.places[0].value(find)
    said_words, said_value = _said(step.prediction, said, run)
    return {
        "said": said_words,
        "happened": _happened(step.prediction, happened, run),
        "agrees": None if step.prediction.kind == NUMBER else said_value == happened.value,
        "reveal": [sentence.words(find) for sentence in step.reveal],
    }


def _said(prediction: Prediction, said: str, run: CurrentRun) -> tuple[str, Any]:
    """Return a prediction in words and as a value to compare with what happened."""
    kind = prediction.kind
    try:
        if kind == CHOOSE:
            return prediction.options[said], said
        if kind == NUMBER:
            if not math.isfinite(number := float(said)):
                raise ValueError("not a number")
            return _with_unit(f"{number:g}", prediction.of), number
        if kind == CELLS:
            cells = tuple(tuple(c == "1" for c in row) for row in said.split("-"))
            site = run.trace.attention[prediction.of]
            if [len(row) for row in cells] != [site.n_key] * site.n_query:
                raise ValueError("the cells of another text")
            n = sum(map(sum, cells))
            return f"{n:,} of {sum(map(len, cells)):,} cells", cells
        tokens = _tokens(prediction, run)
        order = tuple(int(part) for part in said.split("-"))
        if kind == TOKEN:
            (place,) = order
            return tokens[place], place
        if sorted(order) != list(range(len(tokens))):
            raise ValueError("the order of another text")
        return ", ".join(tokens[i] for i in order), order
    except (KeyError, ValueError, IndexError):
        raise ValueError("the prediction in this address fits another run") from None


def _with_unit(number: str, unit: str) -> str:
    if number.endswith(unit):
        return number
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"


def _happened(prediction: Prediction, happened: Value, run: CurrentRun) -> str:
    if prediction.kind == CHOOSE:
        return prediction.options.get(happened.value, happened.words)
    if prediction.kind == NUMBER:
        return _with_unit(happened.words, prediction.of)
    return happened.words
