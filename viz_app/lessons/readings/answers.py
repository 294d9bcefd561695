"""Readings of the text and the answer of a run, and of its probabilities."""

import math
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import partial

import torch

from models.runs.text_loss import labels_of, loss_of
from models.trace import Trace
from models.trace.outputs import MaskedToken, NextToken, TokenInOrder
from viz_app.drawing.notes import answer_line, first_output, read_text
from viz_app.lessons.lesson import ORDER_STEP, TOKEN_STEP
from viz_app.lessons.readings.registry import (
    count_value,
    number_value,
    numbered,
    plain_token,
    reading,
    share_value,
    token_value,
    without_changes,
)
from viz_app.lessons.sentence import ReadingValue
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun


@reading
def output(run: CurrentRun) -> ReadingValue:
    """Return the answer, as in the line above the page."""
    text = answer_line(run.trace)[1]
    return ReadingValue(text, text)


@reading
def read(run: CurrentRun) -> ReadingValue:
    """Return the text that the model read."""
    text = read_text(run.trace) or str(next(iter(run.trace.fields.values())))
    return ReadingValue(text, text)


@reading
def writes(run: CurrentRun) -> ReadingValue:
    """Return what a translating model writes by itself, token by token, under the run's changes."""
    if not run.scope.model.translates:
        raise ValueError("this model does not write a translation")
    text = cache.free_text(run)
    return ReadingValue(text, text)


@reading
def changed_words(run: CurrentRun) -> ReadingValue:
    """Return the number of words of its own text that the unchanged model writes differently."""
    ours, theirs = (writes(one).value.split() for one in (run, without_changes(run)))
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks()
    return count_value(len(ours) - sum(block.size for block in blocks))


@reading
def model(run: CurrentRun) -> ReadingValue:
    """Return the name of the checkpoint."""
    return ReadingValue(run.scope.name, run.scope.name)


@reading
def tokens(run: CurrentRun, stream: str) -> ReadingValue:
    """Return the number of tokens of a stream."""
    return count_value(len(_stream(run.trace, stream)))


@reading
def token(run: CurrentRun, stream: str, position: int) -> ReadingValue:
    """Return the token at this position of a stream."""
    tokens = _stream(run.trace, stream)
    if position >= len(tokens):
        raise ValueError(f"the {stream} has {len(tokens)} tokens; there is no token {position}")
    return token_value(tokens[position])


@reading
def loss(run: CurrentRun) -> ReadingValue:
    """Return the mean loss of the tokens read, or of what the model chose, in nats."""
    outputs = run.trace.outputs
    return number_value(float(loss_of(outputs, labels_of(outputs))), 2)


@reading
def probability(run: CurrentRun, position: int) -> ReadingValue:
    """Return the probability of the token that was read or written at this decision."""
    labels, log_probs = _decisions(run.trace)
    if not 0 <= position < len(labels):
        raise ValueError(f"the text has {len(labels)} decisions; there is no decision {position}")
    return share_value(math.exp(float(log_probs[position, labels[position]])))


@reading
def decision(run: CurrentRun, position: int) -> ReadingValue:
    """Return the token that was read or written at this decision."""
    labels, _ = _decisions(run.trace)
    if not 0 <= position < len(labels):
        raise ValueError(f"the text has {len(labels)} decisions; there is no decision {position}")
    (token,) = run.scope.tokenizer.tokens((labels[position],))
    return token_value(token)


@reading
def choice(run: CurrentRun, position: int) -> ReadingValue:
    """Return the token that the model finds most probable at this decision."""
    answer = first_output(run.trace)
    predicted = getattr(answer, "predicted", ())
    if not isinstance(predicted, tuple) or position >= len(predicted):
        raise ValueError(f"the model makes no decision {position}")
    return token_value(predicted[position])


@reading
def bits(run: CurrentRun, position: int) -> ReadingValue:
    """Return the surprise of the token at this position, −log₂ of its probability, in bits."""
    surprises = _surprises(run)
    if position not in surprises:
        raise ValueError(f"the model gives no probability to the token at position {position}")
    return number_value(surprises[position][1], 1)


@partial(reading, predicted_as=TOKEN_STEP)
def most_surprising(run: CurrentRun) -> ReadingValue:
    """Return the token of the text with the largest surprise."""
    surprises = _surprises(run)
    if not surprises:
        raise ValueError("the model gives no token of this text a probability")
    position = max(surprises, key=lambda one: surprises[one][1])
    stream = first_output(run.trace).stream
    return ReadingValue(position, surprises[position][0], stream=stream)


@partial(reading, predicted_as=ORDER_STEP)
def surprise(run: CurrentRun) -> ReadingValue:
    """Return the tokens that the model gives a probability, the most surprising first."""
    names, bits = _surprising_names(run), [bits for _, bits in _surprises(run).values()]
    order = sorted(range(len(bits)), key=lambda place: -bits[place])
    return ReadingValue(tuple(order), ", ".join(f"{names[i]} {bits[i]:.1f} bits" for i in order))


def _stream(trace: Trace, stream: str) -> tuple[str, ...]:
    if stream not in trace.streams:
        raise ValueError(f"the run has no stream {stream[:40]}, only {', '.join(trace.streams)}")
    return trace.streams[stream].tokens


def _decisions(trace: Trace) -> tuple[Sequence[int], torch.Tensor]:
    """Return the labels and log-probabilities of the decisions of a model of next tokens."""
    answer = first_output(trace)
    if not isinstance(answer, NextToken | TokenInOrder):
        raise ValueError("the model does not predict one token after another")
    return answer.labels, answer.log_probs


def _surprises(run: CurrentRun) -> dict[int, tuple[str, float]]:
    """Return the tokens that the model gives a probability, by position, and −log₂ p of each."""
    answer = first_output(run.trace)
    if isinstance(answer, NextToken | TokenInOrder):
        first = 1 if isinstance(answer, NextToken) else 0
        bits = answer.surprisal.tolist()
        places, labels = range(first, first + len(bits)), answer.labels
    elif isinstance(answer, MaskedToken):
        rows = [i for i, label in enumerate(answer.labels) if label is not None]
        places = [answer.positions[i] for i in rows]
        labels = [label for label in answer.labels if label is not None]
        bits = (-answer.log_probs[rows, labels] / math.log(2)).tolist()
    else:
        raise ValueError("the model gives no probability to the tokens of its text")
    tokens = [plain_token(token) for token in run.scope.tokenizer.tokens(labels)]
    return dict(zip(places, zip(tokens, bits, strict=True), strict=True))


def surprising_tokens(run: CurrentRun, stream: str) -> list[str]:
    """Return the tokens of a stream that the model gives a probability, by their names.

    They are in the stream's order.

    Raises:
        ValueError: the model gives none to the tokens of this stream.
    """
    names = _surprising_names(run)
    if first_output(run.trace).stream != stream:
        raise ValueError(f"the model gives no probability to the tokens of the {stream[:40]}")
    return names


def _surprising_names(run: CurrentRun) -> list[str]:
    """Return the tokens that the model gives a probability, numbered as all of their stream are."""
    surprises = {position: token for position, (token, _) in _surprises(run).items()}
    stream = run.trace.streams[first_output(run.trace).stream]
    tokens = dict(enumerate(map(plain_token, stream.tokens))) | surprises
    names = numbered([tokens[position] for position in sorted(tokens)])
    return [names[position] for position in surprises]
