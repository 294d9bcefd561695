"""The tables of the page Task as CSV, one for each type of output, with the model's fingerprint.

Positions are counted from 0 and written before the token ("3 cat"); probabilities are exact
float32.
"""

from collections.abc import Sequence

from models.analysis.distributions import entropy_bits, expectation
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.labels import answer_labels, labels, mask_token, token_label
from viz_app.drawing.notes import first_output
from viz_app.session.current_run import CurrentRun
from viz_app.views.task.masked import guesses, own_labels
from viz_app.views.task.next_token import next_token_view
from viz_app.views.task.reading import TaskChoices
from viz_app.views.task.span import answer_text, candidate_spans

ALL = 20  # spans in a table


def next_token_csv(run: CurrentRun, choices: TaskChoices) -> str:
    """Return a row for each position: its token and the token that follows.

    What follows the last token of an unfinished text is left empty.
    """
    view = next_token_view(run, choices)
    expected, entropies = view.expectations, view.expectations.entropy.numpy()
    numbers = expected.probability.numpy(), expected.surprisal.numpy(), expected.rank.tolist()
    facts, rows = list(zip(view.following, *numbers, strict=True)), []
    for i, token in enumerate(view.tokens):
        following = [""] * 4
        if i < len(facts):
            label, probability, surprisal, rank = facts[i]
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


def masked_csv(run: CurrentRun, choices: TaskChoices) -> str:
    """Return a row for each listed guess at each [MASK]: position, hidden token if known, guess."""
    output = first_output(run.trace)
    tokens, rows = own_labels(run, output), []
    for guess in guesses(output, run.trace.streams[output.stream]):
        hidden = "" if guess.hidden is None else tokens[guess.position].text
        for token, guessed in zip(guess.ids, guess.each, strict=True):
            expected = token_label(run.scope.tokenizer, token).text
            place = [
                guess.position,
                f"{guess.position} {hidden or mask_token(run.trace)}",
                f"{token} {expected}",
            ]
            rows.append(
                [
                    *place,
                    guessed.probability,
                    guessed.surprisal,
                    guessed.rank,
                    guess.entropy,
                ]
            )
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


def classes_csv(run: CurrentRun, choices: TaskChoices) -> str:
    """Return a row for each class."""
    return _probabilities_csv(run, "class")


def labels_csv(run: CurrentRun, choices: TaskChoices) -> str:
    """Return a row for each label."""
    return _probabilities_csv(run, "label")


def _probabilities_csv(run: CurrentRun, column: str) -> str:
    output = first_output(run.trace)
    rows = [[name, float(p)] for name, p in zip(output.names, output.probabilities, strict=True)]
    return _csv(run, (column, "probability"), rows)


def token_classes_csv(run: CurrentRun, choices: TaskChoices) -> str:
    """Return a row for each token or part: position, most probable class, all probabilities."""
    output = first_output(run.trace)
    tokens = answer_labels(run.trace, output)
    rows = [
        [i, f"{i} {token.text}", name, *p]
        for i, (token, name, p) in enumerate(
            zip(tokens, output.predicted, output.log_probs.exp().tolist(), strict=True)
        )
    ]
    unit = "part" if output.parts else "token"
    return _csv(run, ("position", unit, "class", *output.names), rows)


def span_csv(run: CurrentRun, choices: TaskChoices) -> str:
    """Return a row for each span, most probable first: its tokens, its text, its ln p in nats."""
    output = first_output(run.trace)
    row = run.trace.streams[output.stream]
    rows = [
        [
            candidate.start,
            candidate.end,
            f"{candidate.start} {answer_text(row, candidate.start, candidate.end)}",
            candidate.log_prob,
        ]
        for candidate in candidate_spans(output, ALL)
    ]
    return _csv(run, ("first token", "last token", "first token and text", "ln p (nats)"), rows)


def in_order_csv(run: CurrentRun, choices: TaskChoices) -> str:
    """Return a row for each token as predicted: turn, position, probability, best guess.

    Turns are counted from 1.
    """
    output, rows = first_output(run.trace), []
    tokens = labels(run.trace.streams[output.stream])
    best = output.log_probs.max(-1)
    for turn, i in enumerate(output.order, 1):
        actual = expectation(output.log_probs[i], output.labels[i])
        first = token_label(run.scope.tokenizer, int(best.indices[i])).text
        rows.append(
            [
                turn,
                i,
                f"{i} {tokens[i].text}",
                actual.probability,
                actual.surprisal,
                actual.rank,
                entropy_bits(output.log_probs[i]),
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
    """Return the table with the model's name and fingerprint in each row."""
    model = run.trace.model
    return csv_table(
        [*columns, "model", "fingerprint"], ([*row, model.name, model.fingerprint] for row in rows)
    )
