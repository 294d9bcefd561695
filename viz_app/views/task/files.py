"""The numbers of the page Task to take away, with what they were computed by: a table for each kind of answer. Positions are
counted from 0, and a token stands with its own ("3 cat"); probabilities are float32, every digit kept."""

from collections.abc import Sequence

from models.analysis.distributions import entropy, expectation
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.labels import labels, token_label
from viz_app.drawing.notes import first_output
from viz_app.session.current_run import CurrentRun
from viz_app.views.task.choices import Choices
from viz_app.views.task.masked import guesses, own_labels
from viz_app.views.task.next_token import next_token_view
from viz_app.views.task.span import answer_text, candidates

ALL = 20  # spans in a table


def next_token_csv(run: CurrentRun, choices: Choices) -> str:
    """A row a position: its token and the one that follows. What follows the last token of a text that goes on is left empty."""
    view = next_token_view(run, choices)
    expected, entropies = view.expectations, view.expectations.entropy.numpy()
    numbers = expected.probability.numpy(), expected.surprisal.numpy(), expected.rank.tolist()
    named, rows = list(zip(view.following, *numbers, strict=True)), []
    for i, token in enumerate(view.tokens):
        following = [""] * 4
        if i < len(named):
            label, probability, surprisal, rank = named[i]
            following = [f"{i + 1} {label.text}", str(probability), str(surprisal), str(rank)]
        rows.append([i, f"{i} {token.text}", *following, str(entropies[i])])
    columns = (
        "position",
        "token",
        "next token",
        "probability",
        "surprisal (bits)",
        "rank",
        "entropy (bits)",
    )
    return _csv(run, columns, rows)


def masked_csv(run: CurrentRun, choices: Choices) -> str:
    """A row a listed token of each [MASK]: the place, the token that was hidden there if one was, what is expected."""
    output = first_output(run.trace)
    own, rows = own_labels(run, output), []
    for guess in guesses(output, run.trace.streams[output.stream]):
        hidden = "" if guess.hidden is None else own[guess.position].text
        for token, each in zip(guess.ids, guess.each, strict=True):
            expected = token_label(run.scope.tokenizer, token).text
            place = [
                guess.position,
                f"{guess.position} {hidden or '[MASK]'}",
                f"{token} {expected}",
            ]
            rows.append([*place, each.probability, each.surprisal, each.rank, guess.entropy])
    columns = (
        "position",
        "hidden token",
        "id and expected token",
        "probability",
        "surprisal (bits)",
        "rank",
        "entropy (bits)",
    )
    return _csv(run, columns, rows)


def classes_csv(run: CurrentRun, choices: Choices) -> str:
    """A row a class."""
    output = first_output(run.trace)
    rows = [[name, float(p)] for name, p in zip(output.names, output.probabilities, strict=True)]
    return _csv(run, ("class", "probability"), rows)


def token_classes_csv(run: CurrentRun, choices: Choices) -> str:
    """A row a token: its position, its most probable class, and the probability of every class."""
    output = first_output(run.trace)
    tokens = labels(run.trace.streams[output.stream])
    rows = [
        [i, f"{i} {token.text}", name, *p]
        for i, (token, name, p) in enumerate(
            zip(tokens, output.predicted, output.log_probs.exp().tolist(), strict=True)
        )
    ]
    return _csv(run, ("position", "token", "class", *output.names), rows)


def span_csv(run: CurrentRun, choices: Choices) -> str:
    """A row a span, the most probable first: its first and last token, its text, ln p(start) + ln p(end) in nats."""
    output = first_output(run.trace)
    row = run.trace.streams[output.stream]
    rows = [
        [one.start, one.end, f"{one.start} {answer_text(row, one.start, one.end)}", one.log_prob]
        for one in candidates(output, ALL)
    ]
    return _csv(run, ("first token", "last token", "first token and text", "ln p (nats)"), rows)


def in_order_csv(run: CurrentRun, choices: Choices) -> str:
    """A row a token, in the order of the predictions: its turn from 1, its position, how probable it was, and what was expected."""
    output, rows = first_output(run.trace), []
    tokens = labels(run.trace.streams[output.stream])
    best = output.log_probs.max(-1)
    for turn, i in enumerate(output.order, 1):
        mine = expectation(output.log_probs[i], output.labels[i])
        first = token_label(run.scope.tokenizer, int(best.indices[i])).text
        rows.append(
            [
                turn,
                i,
                f"{i} {tokens[i].text}",
                mine.probability,
                mine.surprisal,
                mine.rank,
                entropy(output.log_probs[i]),
                f"{int(best.indices[i])} {first}",
                float(best.values[i].exp()),
            ]
        )
    columns = (
        "turn",
        "position",
        "token",
        "probability",
        "surprisal (bits)",
        "rank",
        "entropy (bits)",
        "id and expected token",
        "its probability",
    )
    return _csv(run, columns, rows)


def _csv(run: CurrentRun, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The table, each row with the model and its fingerprint."""
    model = run.trace.model
    return csv_table(
        [*columns, "model", "fingerprint"], ([*row, model.name, model.fingerprint] for row in rows)
    )
