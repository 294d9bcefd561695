"""What a lesson's sentences can read from a run: each function below, by its name.

A reading is written `{run.weight(encoder.layers.0.self_attn, 1, 3, 0)}`; the run is the one on the
screen, `unchanged` is the same without its changes, and `pinned` the pinned one. Heads, positions
and tokens count from 0, as in addresses and in Python.
"""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from models.analysis.shuffle import edits_positions, without_positions
from models.runs.explanation import js_divergence
from models.runs.surveys import SHARE, SHARE_DIFFERENCE
from models.runs.text_loss import labels_of, loss_of
from models.scores import SURVEYS_ENTRY
from models.trace import AttentionSite, Trace
from models.trace.edits import HeadOff
from models.trace.outputs import MaskedToken, NextToken, TokenInOrder
from viz_app import words
from viz_app.drawing.labels import token_text
from viz_app.drawing.notes import answer_line, first_output, read_text
from viz_app.lessons.lesson import CELLS_STEP, ORDER_STEP, TOKEN_STEP
from viz_app.lessons.sentence import FindReading, Reading, ReadingValue
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun

READ_RUNS = ("run", "unchanged", "pinned")
SPACE_LABEL = "·"  # of drawing/labels.py, for a space
MAX_BACKWARDS_TOKENS = 512  # tokens of a text that is read backwards as well
MAX_PATH_LENGTH = 6  # names from the training record to one of its numbers


@dataclass(frozen=True)
class Named:
    """A reading that lessons may name, and how it is written."""

    read: Callable[..., ReadingValue]
    kinds: Mapping[str, type]  # of its arguments
    predicted_as: str = (
        ""  # kind of the prediction whose values it has, other than words or numbers
    )

    @property
    def form(self) -> str:
        """The name as written, with its arguments."""
        arguments = ", ".join(self.kinds)
        return f"{self.read.__name__}({arguments})" if arguments else self.read.__name__

    def fits(self, arguments: tuple[str, ...]) -> bool:
        """Return True if these are the arguments that it takes."""
        return len(arguments) == len(self.kinds) and all(
            text.isdecimal() and len(text) < 7 if kind is int else text != ""
            for text, kind in zip(arguments, self.kinds.values(), strict=True)
        )

    def of(self, run: CurrentRun, arguments: tuple[str, ...]) -> ReadingValue:
        """Return what it reads from this run."""
        values = (kind(text) for text, kind in zip(arguments, self.kinds.values(), strict=True))
        return self.read(run, *values)


_named: dict[str, Named] = {}
READINGS: Mapping[str, Named] = MappingProxyType(_named)


def finder(run: CurrentRun, pinned: CurrentRun | None) -> FindReading:
    """Return the function that looks a reading up in these runs."""
    runs = {"run": run, "unchanged": _unchanged(run), "pinned": pinned}

    def find(reading: Reading) -> ReadingValue:
        of = runs[reading.whose]
        if of is None:
            raise ValueError("no run is pinned")
        return READINGS[reading.name].of(of, reading.arguments)

    return find


def _unchanged(run: CurrentRun) -> CurrentRun:
    """Return the run of the model as trained, with no token forced."""
    return CurrentRun(run.unchanged.scope, run.unchanged.trace, run.stale)


def _reading(
    reading: Callable[..., ReadingValue], predicted_as: str = ""
) -> Callable[..., ReadingValue]:
    _, *parameters = inspect.signature(reading).parameters.values()
    kinds = {p.name: p.annotation for p in parameters}
    _named[reading.__name__] = Named(reading, kinds, predicted_as)
    return reading


def _number(value: float, digits: int) -> ReadingValue:
    def write(number: float) -> str:
        is_tiny = number != 0 and abs(number) < 0.5 * 0.1**digits
        return f"{number:.0e}".replace("e-0", "e-") if is_tiny else f"{number:.{digits}f}"

    return ReadingValue(value, write(value), write)


def _share(value: float) -> ReadingValue:
    return ReadingValue(value, words.percent(value), lambda change: f"{100 * change:.0f} points")


def _in_unit(value: float, unit: str) -> ReadingValue:
    if unit == SHARE_DIFFERENCE:
        return ReadingValue(value, f"{100 * value:+.0f} points")
    return _share(value) if unit == SHARE else _number(value, 2)


def _count(value: int) -> ReadingValue:
    return ReadingValue(value, f"{value:,}", "{:,.0f}".format)


def plain_token(token: str) -> str:
    """Return a token without the mark of a space before it."""
    text = token_text(token)
    return text.removeprefix(SPACE_LABEL) or text


def numbered(tokens: Sequence[str]) -> list[str]:
    """Return tokens, with their place from 1 where another one has the same text."""
    count = Counter(tokens)
    return [
        f"{token} (token {place})" if count[token] > 1 else token
        for place, token in enumerate(tokens, 1)
    ]


def _token(token: str) -> ReadingValue:
    text = plain_token(token)
    return ReadingValue(text, text)


@_reading
def output(run: CurrentRun) -> ReadingValue:
    """Return the answer, as the line above the page says it."""
    text = answer_line(run.trace)[1]
    return ReadingValue(text, text)


@_reading
def read(run: CurrentRun) -> ReadingValue:
    """Return the text that the model read."""
    text = read_text(run.trace) or str(next(iter(run.trace.fields.values())))
    return ReadingValue(text, text)


@_reading
def writes(run: CurrentRun) -> ReadingValue:
    """Return what a translating model writes by itself, token by token, under the run's changes."""
    if not run.scope.model.translates:
        raise ValueError("this model does not write a translation")
    text = cache.free_text(run)
    return ReadingValue(text, text)


@_reading
def changed_words(run: CurrentRun) -> ReadingValue:
    """Return the number of words of its own text that the unchanged model writes otherwise."""
    ours, theirs = (writes(one).value.split() for one in (run, _unchanged(run)))
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks()
    return _count(len(ours) - sum(block.size for block in blocks))


@_reading
def model(run: CurrentRun) -> ReadingValue:
    """Return the name of the checkpoint."""
    return ReadingValue(run.scope.name, run.scope.name)


@_reading
def tokens(run: CurrentRun, stream: str) -> ReadingValue:
    """Return the number of tokens of a stream."""
    return _count(len(_stream(run.trace, stream)))


@_reading
def token(run: CurrentRun, stream: str, position: int) -> ReadingValue:
    """Return the token at this position of a stream."""
    tokens = _stream(run.trace, stream)
    if position >= len(tokens):
        raise ValueError(f"the {stream} has {len(tokens)} tokens, none is number {position}")
    return _token(tokens[position])


@_reading
def loss(run: CurrentRun) -> ReadingValue:
    """Return the mean loss of the tokens read, or of what the model chose, in nats."""
    outputs = run.trace.outputs
    return _number(float(loss_of(outputs, labels_of(outputs))), 2)


@_reading
def probability(run: CurrentRun, position: int) -> ReadingValue:
    """Return the probability of the token that was read or written at this decision."""
    labels, log_probs = _decisions(run.trace)
    if not 0 <= position < len(labels):
        raise ValueError(f"the text has {len(labels)} decisions, none is number {position}")
    return _share(math.exp(float(log_probs[position, labels[position]])))


@_reading
def decision(run: CurrentRun, position: int) -> ReadingValue:
    """Return the token that was read or written at this decision."""
    labels, _ = _decisions(run.trace)
    if not 0 <= position < len(labels):
        raise ValueError(f"the text has {len(labels)} decisions, none is number {position}")
    (token,) = run.scope.tokenizer.tokens((labels[position],))
    return _token(token)


@_reading
def choice(run: CurrentRun, position: int) -> ReadingValue:
    """Return the token that the model finds most probable at this decision."""
    answer = first_output(run.trace)
    predicted = getattr(answer, "predicted", ())
    if not isinstance(predicted, tuple) or position >= len(predicted):
        raise ValueError(f"the model makes no decision number {position}")
    return _token(predicted[position])


@_reading
def bits(run: CurrentRun, position: int) -> ReadingValue:
    """Return the surprise of the token at this position, −log₂ of its probability, in bits."""
    surprises = _surprises(run)
    if position not in surprises:
        raise ValueError(f"the model gives no probability to the token at position {position}")
    return _number(surprises[position][1], 1)


@partial(_reading, predicted_as=TOKEN_STEP)
def most_surprising(run: CurrentRun) -> ReadingValue:
    """Return the token of the text with the largest surprise."""
    surprises = _surprises(run)
    if not surprises:
        raise ValueError("the model gives no token of this text a probability")
    position = max(surprises, key=lambda one: surprises[one][1])
    return ReadingValue(position, surprises[position][0])


@partial(_reading, predicted_as=ORDER_STEP)
def surprise(run: CurrentRun) -> ReadingValue:
    """Return the tokens that the model gives a probability, the most surprising first."""
    names, bits = _surprising_names(run), [bits for _, bits in _surprises(run).values()]
    order = sorted(range(len(bits)), key=lambda place: -bits[place])
    return ReadingValue(tuple(order), ", ".join(f"{names[i]} {bits[i]:.1f} bits" for i in order))


@_reading
def weight(run: CurrentRun, site: str, head: int, query: int, key: int) -> ReadingValue:
    """Return one attention weight."""
    row = _row(run.trace, site, head, query)
    if key >= len(row):
        raise ValueError(f"{site} reads {len(row)} tokens, none is number {key}")
    return _share(row[key])


@partial(_reading, predicted_as=TOKEN_STEP)
def most_read(run: CurrentRun, site: str, head: int, query: int) -> ReadingValue:
    """Return the token that a row of weights reads most."""
    row = _row(run.trace, site, head, query)
    key = max(range(len(row)), key=row.__getitem__)
    return ReadingValue(key, plain_token(run.trace.attention[site].key_tokens[key]))


@_reading
def largest_weight(run: CurrentRun, site: str, head: int, query: int) -> ReadingValue:
    """Return the largest weight of a row."""
    return _share(max(_row(run.trace, site, head, query)))


@_reading
def divergence(run: CurrentRun, site: str, head: int, query: int) -> ReadingValue:
    """Return the Jensen–Shannon divergence in nats of a row from the unchanged run's."""
    theirs = _row(_unchanged(run).trace, site, head, query)
    ours = _row(run.trace, site, head, query)
    if len(theirs) != len(ours):
        raise ValueError("the two rows read different tokens")
    pair = torch.tensor([ours, theirs]).double()
    return _number(float(js_divergence(pair[0], pair[1])), 2)


@partial(_reading, predicted_as=CELLS_STEP)
def allowed(run: CurrentRun, site: str) -> ReadingValue:
    """Return the cells that an attention's masks leave open, a row for each query."""
    attention = _site(run.trace, site)
    open_cells = attention.allowed(0, 0, slice(0, attention.n_query))
    cells = tuple(tuple(map(bool, row)) for row in open_cells.tolist())
    count = sum(map(sum, cells))
    return ReadingValue(cells, f"{count:,} of {attention.n_query * attention.n_key:,} cells")


@_reading
def cells_ahead(run: CurrentRun, site: str) -> ReadingValue:
    """Return the number of open cells whose key comes after their query."""
    attention = _site(run.trace, site)
    return _count(int(attention.allowed(0, 0, slice(0, attention.n_query)).triu(1).sum()))


@_reading
def heads_off(run: CurrentRun) -> ReadingValue:
    """Return the number of heads that are switched off."""
    off = {
        (name, head)
        for name, site in run.trace.attention.items()
        for edit in site.edits
        if isinstance(edit, HeadOff)
        for head in (edit.where.heads or range(site.n_heads))
    }
    return _count(len(off))


@_reading
def heads(run: CurrentRun) -> ReadingValue:
    """Return the number of heads of the model."""
    return _count(sum(site.n_heads for site in run.trace.attention.values()))


@_reading
def change_backwards(run: CurrentRun, positions: str) -> ReadingValue:
    """Return the largest relative change of an encoder vector when the tokens are reversed.

    The model is run "with" or "without" positions.
    """
    model, row = run.scope.model, run.trace.streams.get("source")
    if row is None or not model.translates or model.is_recurrent or not model.can_drop_positions:
        raise ValueError("this model has no encoder whose tokens can be put in another order")
    if len(row.ids) > MAX_BACKWARDS_TOKENS:
        raise ValueError(f"the text is longer than {MAX_BACKWARDS_TOKENS} tokens")
    if edits_positions(run.trace, "source"):
        raise ValueError("an edit depends on positions of the source")
    order = (*reversed(range(len(row.ids) - 1)), len(row.ids) - 1)
    encoder = model if positions == "with" else without_positions(model)
    test = cache.cached_shuffle(run, f"a lesson {positions} positions", encoder, row, order)
    return _number(float(test.largest[-1]), 2)


@_reading
def marked_heads(run: CurrentRun) -> ReadingValue:
    """Return the number of heads that raise the loss significantly when off alone, as recorded."""
    heads = _ablation(run)["heads"]
    return _count(sum(one["is_marked"] and one["effect"]["mean"] > 0 for one in heads))


@_reading
def costliest_kind(run: CurrentRun) -> ReadingValue:
    """Return the kind of attention whose loss rises most with all its heads off, as recorded."""
    curves = _ablation(run)["curves"]
    kind = max(curves, key=lambda one: curves[one]["1"][0])
    return ReadingValue(kind.replace("_", "-"), kind.replace("_", " "))


@_reading
def surveyed(run: CurrentRun, survey: str, measure: str) -> ReadingValue:
    """Return a mean over held-out texts, as `attnscope survey --record` wrote it down."""
    record = _surveyed_mean(run, survey, measure)
    return _in_unit(record["mean"], record["unit"])


@_reading
def interval(run: CurrentRun, survey: str, measure: str) -> ReadingValue:
    """Return the 95 % interval of a recorded mean over held-out texts."""
    record = _surveyed_mean(run, survey, measure)
    ends = record["low"], record["high"]
    low, high = (_in_unit(end, record["unit"]).words for end in ends)
    return ReadingValue(ends, f"{low.removesuffix(' points')} to {high}")


@_reading
def surveyed_texts(run: CurrentRun, survey: str, measure: str) -> ReadingValue:
    """Return the number of held-out texts of a recorded mean."""
    return _count(_surveyed_mean(run, survey, measure)["n_texts"])


@_reading
def stored(run: CurrentRun, path: str) -> ReadingValue:
    """Return a number of the checkpoint's training record, such as scores/held-out BLEU."""
    entry: object = run.scope.training
    for name in path.split("/")[:MAX_PATH_LENGTH]:
        if isinstance(entry, Mapping):
            entry = entry.get(name)
        elif (
            isinstance(entry, list) and re.fullmatch("[0-9]{1,6}", name) and int(name) < len(entry)
        ):
            entry = entry[int(name)]
        else:
            entry = None
    if isinstance(entry, bool) or not isinstance(entry, int | float) or not math.isfinite(entry):
        raise ValueError(f"the record of {run.scope.name} has no number {path[:60]}")
    return _count(entry) if isinstance(entry, int) else _number(entry, 2)


def _stream(trace: Trace, stream: str) -> tuple[str, ...]:
    if stream not in trace.streams:
        raise ValueError(f"the run has no stream {stream[:40]}, only {', '.join(trace.streams)}")
    return trace.streams[stream].tokens


def _site(trace: Trace, name: str) -> AttentionSite:
    if name not in trace.attention:
        raise ValueError(f"the run has no attention {name[:60]}")
    return trace.attention[name]


def _row(trace: Trace, name: str, head: int, query: int) -> list[float]:
    site = _site(trace, name)
    if head >= site.n_heads or query >= site.n_query:
        raise ValueError(f"{name} has {site.n_heads} heads and {site.n_query} rows")
    return site.weights(head, 0, slice(query, query + 1))[0].float().tolist()


def _decisions(trace: Trace) -> tuple[Sequence[int], torch.Tensor]:
    """Return the labels of the decisions and their log-probabilities, of a model of next tokens."""
    answer = first_output(trace)
    if not isinstance(answer, NextToken | TokenInOrder):
        raise ValueError("the model decides on no token after another")
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


def _ablation(run: CurrentRun) -> Mapping[str, Any]:
    record = run.scope.training.get("ablation")
    if not record:
        raise ValueError(f"{run.scope.name} has no record of a sweep over its heads")
    return record


def _surveyed_mean(run: CurrentRun, survey: str, measure: str) -> Mapping[str, Any]:
    surveys = run.scope.training.get(SURVEYS_ENTRY, {})
    if survey not in surveys:
        raise ValueError(
            f"these weights of {run.scope.name} have no record of a survey named {survey[:40]}"
        )
    means = surveys[survey]["means"]
    if measure not in means:
        raise ValueError(f"the survey measured {', '.join(means)}; it has no {measure[:40]}")
    return means[measure]
