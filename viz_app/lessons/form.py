"""The form of a prediction: its choices in a run, and the value and words of a prediction."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from viz_app.lessons.lesson import (
    CELLS_STEP,
    CHOOSE_STEP,
    NUMBER_STEP,
    ORDER_STEP,
    TOKEN_STEP,
    Prediction,
)
from viz_app.lessons.readings.answers import surprising_tokens
from viz_app.lessons.readings.registry import numbered, plain_token
from viz_app.session.current_run import CurrentRun

MAX_ORDERED, MAX_PREDICTED_CELLS = 8, 12  # tokens to put in an order; rows and columns to paint
MAX_PREDICTION = 300  # characters of one prediction
_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_PLACE = re.compile(r"[0-9]{1,6}")

PredictionForm = Mapping[str, Any]  # JSON that the component `lesson` draws its controls from


def form_of(prediction: Prediction, run: CurrentRun) -> PredictionForm:
    """Return the form in which a prediction is made.

    Raises:
        ValueError: the run has no such tokens or cells, or too many.
    """
    form: dict[str, Any] = {"kind": prediction.kind}
    if prediction.kind == CHOOSE_STEP:
        form["options"] = [list(option) for option in prediction.options.items()]
    elif prediction.kind == NUMBER_STEP:
        form["unit"] = prediction.of
    elif prediction.kind == CELLS_STEP:
        site = run.trace.attention.get(prediction.of)
        if site is None:
            raise ValueError(f"this run has no attention {prediction.of[:60]}")
        if max(site.n_query, site.n_key) > MAX_PREDICTED_CELLS:
            raise ValueError(f"the text is longer than {MAX_PREDICTED_CELLS} tokens")
        form["rows"] = [plain_token(token) for token in site.query_tokens]
        form["columns"] = [plain_token(token) for token in site.key_tokens]
    else:
        tokens = _tokens(prediction, run)
        if prediction.kind == ORDER_STEP and len(tokens) > MAX_ORDERED:
            raise ValueError(f"more than {MAX_ORDERED} tokens are too many to put in an order")
        form["tokens"] = tokens
    return form


def _tokens(prediction: Prediction, run: CurrentRun) -> list[str]:
    stream = run.trace.streams.get(prediction.of)
    if stream is None:
        raise ValueError(f"this run has no stream {prediction.of[:40]}")
    if prediction.kind == ORDER_STEP:
        return surprising_tokens(run, prediction.of)
    return numbered([plain_token(token) for token in stream.tokens])


def value_of(form: PredictionForm, prediction: str) -> Any:
    """Return a prediction as the value to compare with what happened.

    Raises:
        ValueError: it is not a prediction of this form.
    """
    kind = form["kind"]
    fits = len(prediction) <= MAX_PREDICTION
    if fits and kind == CHOOSE_STEP and prediction in dict(form["options"]):
        return prediction
    if fits and kind == NUMBER_STEP and _NUMBER.fullmatch(prediction):
        return float(prediction)
    if fits and kind == CELLS_STEP:
        sizes = [len(form["columns"])] * len(form["rows"])
        if (
            re.fullmatch("[01-]+", prediction)
            and [len(row) for row in prediction.split("-")] == sizes
        ):
            return tuple(tuple(c == "1" for c in row) for row in prediction.split("-"))
    if (
        fits
        and kind in (TOKEN_STEP, ORDER_STEP)
        and all(map(_PLACE.fullmatch, prediction.split("-")))
    ):
        places, n = tuple(map(int, prediction.split("-"))), len(form["tokens"])
        if kind == ORDER_STEP and sorted(places) == list(range(n)):
            return places
        if kind == TOKEN_STEP and len(places) == 1 and places[0] < n:
            return places[0]
    raise ValueError("the prediction was made for a different run")


def words_of(form: PredictionForm, value: Any) -> str:
    """Return a prediction in words, given its value."""
    kind = form["kind"]
    if kind == CHOOSE_STEP:
        return dict(form["options"])[value]
    if kind == NUMBER_STEP:
        return with_unit(in_digits(value), form["unit"])
    if kind == CELLS_STEP:
        return f"{sum(map(sum, value)):,} of {sum(map(len, value)):,} cells"
    places = value if kind == ORDER_STEP else [value]
    return ", ".join(form["tokens"][place] for place in places)


def in_digits(value: float) -> str:
    """Return a number as a person types it, with no exponent."""
    return f"{Decimal(f'{value:.15g}'):,f}"


def with_unit(number: str, unit: str) -> str:
    """Return a number with its unit, in the singular after 1."""
    if number.endswith(unit):
        return number
    is_plural = len(unit) > 3 and unit.endswith("s") and not unit.endswith("ss")  # not ms, loss
    return f"{number} {unit[:-1] if number == '1' and is_plural else unit}"


def any_prediction(form: PredictionForm) -> str:
    """Return a prediction of this form, to see what is revealed after one."""
    kind = form["kind"]
    if kind == CHOOSE_STEP:
        return form["options"][0][0]
    if kind == CELLS_STEP:
        return "-".join(["0" * len(form["columns"])] * len(form["rows"]))
    return "-".join(map(str, range(len(form["tokens"])))) if kind == ORDER_STEP else "0"
