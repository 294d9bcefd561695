"""The pictures of class probabilities: of a text, beside other values of λ, and of each token."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Scope
from models.analysis.checks import Check
from models.analysis.distributions import check_softmax
from models.trace import AttentionSite
from models.trace.edits import Edits
from models.trace.outputs import ClassProbabilities, Output, TokenClasses
from viz_app import words
from viz_app.drawing.labels import answer_labels
from viz_app.drawing.over_file import reads_file
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, name_weights, saving
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.reference_models import alike_but_for_lambda
from viz_app.views.task import text
from viz_app.views.task.image import file_answer
from viz_app.views.task.pair import pair
from viz_app.views.task.reading import (
    DrawnOutput,
    TaskChoices,
    attention_row_payload,
    check_row,
    no_row,
    reading_site,
)

LAMBDA_TITLE = "Same text, one fine-tuning for each λ: class probabilities"
FINE_TUNING_NOTE = (
    "Each was fine-tuned from the same weights on the same texts, to minimise L3 = L2 + λ·L1 (Radford et al. 2018). "
    "L2 is the loss of the class, L1 that of every token after those before it. Click a name to open that run."
)


def run_score(measured: str, perplexity: object) -> str:
    """Return the score of a run and, if recorded, its perplexity on the same texts."""
    if not measured:
        return "No score was measured."
    perplexity_note = (
        f"; perplexity of their text {perplexity:,.0f}"
        if isinstance(perplexity, int | float)
        else ""
    )
    return f"{measured[:1].upper()}{measured[1:]}{perplexity_note}."


TEXT_PERPLEXITY = "text perplexity"  # of the scores of models.tasks.classify


@dataclass(frozen=True)
class LambdaRun:
    """A run with another λ: the checkpoint's name, the opened model, its λ, and its output."""

    name: str
    scope: Scope
    factor: float
    output: ClassProbabilities


def side_by_side(run: CurrentRun, output: ClassProbabilities) -> list[LambdaRun]:
    """Return the runs, by λ, of all models that differ from the shown one only in λ, with its own.

    All have read the same text, under the run's edits. Empty if the shown model is not offered in
    the menu.
    """
    alike = alike_but_for_lambda(run.scope)
    scopes = {name: cache.scope(folder) for name, (folder, _) in alike.items()}
    texts = tuple(run.trace.fields[field.name] or "" for field in run.scope.model.text_fields)
    output_name = next(name for name, result in run.trace.outputs.items() if result is output)
    runs = []
    for name, (_, factor) in alike.items():
        is_shown = scopes[name].fingerprint == run.scope.fingerprint
        lambda_output = (
            output if is_shown else _edited(scopes[name], texts, run.spec.edits)[output_name]
        )
        runs.append(LambdaRun(name, scopes[name], factor, lambda_output))
    return runs if any(result.output is output for result in runs) else []


def _edited(scope: Scope, texts: tuple[str, ...], edits: Edits) -> Mapping[str, Output]:
    trace = cache.trace(scope, texts)
    return (cache.edited_trace(scope, trace, edits) if edits else trace).outputs


def class_probabilities(
    run: CurrentRun, output: ClassProbabilities, choices: TaskChoices
) -> DrawnOutput:
    """Draw the classes with what the answering token reads, and the runs with another λ, if any.

    The second result is the checks.
    """
    if reads_file(run.trace, output.stream):
        return file_answer(run, output, choices)
    runs = side_by_side(run, output)
    pictures, checks = pair(run, output, choices, has_bars=len(runs) < 2)
    if len(runs) < 2:
        return pictures, checks
    return {"classes": classes_payload(run, output, runs), **pictures}, [
        *checks,
        check_probabilities(runs),
    ]


def classes_payload(run: CurrentRun, output: ClassProbabilities, runs: list[LambdaRun]) -> bytes:
    """Return the payload of the component `classes`."""
    about = facts(
        run.trace, **{f"λ = {entry.factor:g}": name_weights(entry.scope) for entry in runs}
    )
    header: dict[str, Any] = {
        "title": LAMBDA_TITLE, "note": FINE_TUNING_NOTE, **saving(file_name(run.trace, "classes-by-lambda"), about),
        "runs": [
            {
                "name": entry.name, "title": f"λ = {entry.factor:g}", "whose": entry.scope.name, "chosen": entry.output is output,
                "score": _score(entry.scope.training.get("scores", {})),
                "rows": [[i, [name, "", False], text.MOST_PROBABLE * (name == entry.output.predicted)]
                         for i, name in enumerate(entry.output.names)],
            }
            for entry in runs
        ],
    }  # fmt: skip
    p = [entry.output.probabilities for entry in runs]
    ranks = [1 + (probabilities[None] > probabilities[:, None]).sum(-1) for probabilities in p]
    arrays = {
        "p": np.concatenate([row.numpy() for row in p]),
        "ranks": np.concatenate([row.numpy() for row in ranks]),
    }
    return pack(header, p=arrays["p"], ranks=arrays["ranks"].astype(np.int32))


def check_probabilities(runs: list[LambdaRun]) -> Check:
    """Check the probabilities against the softmax of the logits in double precision."""
    worst = 0.0
    for lambda_run in runs:
        powers = np.exp(
            lambda_run.output.logits.double().numpy() - float(lambda_run.output.logits.max())
        )
        worst = max(
            worst,
            float(np.abs(powers / powers.sum() - lambda_run.output.probabilities.numpy()).max()),
        )
    return Check(
        "the classes' probabilities are softmax of their logits",
        worst,
        1e-6,
        "Largest difference, worked out by hand",
    )


def _score(scores: dict[str, Any]) -> str:
    """Return the model's first score with its number of cases, and its perplexity."""
    names = [name for name in scores if name != "cases"][:1]
    summary = words.score_summary(
        {name: scores[name] for name in (*names, "cases") if name in scores}
    )
    return run_score(summary, scores.get(TEXT_PERPLEXITY))


CLASS_SCALE = ["0", "1  probability of the class"]
NO_TOKEN = "This part comes after the last token, so it is read from none."
N_COUNTED_CLASSES = 4  # classes that the summary counts


def class_counts(predicted: Sequence[str], unit: str) -> str:
    """Return the number of tokens, or other units, in each class, special tokens included."""
    counts = Counter(predicted).most_common()
    each = [f"{name} {n}" for name, n in counts[:N_COUNTED_CLASSES]]
    more = len(counts) - N_COUNTED_CLASSES
    other = f" and {more} other class{'es' * (more > 1)}" * (more > 0)
    return f"{len(predicted)} {unit}s: {', '.join(each)}{other}."


def token_classes_title(token: str, special: bool) -> str:
    """Return the title of one token's classes."""
    return f"The class of {token if special else f'“{token}”'}"


def most_probable_class(name: str, probability: float) -> str:
    """Return the most probable class of the chosen token."""
    return f"Most probable: {name}, {words.percent(probability, 1)}."


def unlisted_classes(n_shown: int, n_classes: int, mass: float) -> str:
    """Return the share of the listed classes in the probability; "" if all are listed."""
    if n_shown == n_classes:
        return ""
    return (
        f"These {n_shown} of {n_classes} classes hold {words.percent(mass, 1)} of the probability."
    )


N_LISTED_CLASSES = 10  # classes of the distribution at the chosen token


def token_classes(run: CurrentRun, output: TokenClasses, choices: TaskChoices) -> DrawnOutput:
    """Draw the class of each token, and return the checks."""
    site, head = reading_site(run.trace, output.stream, choices.focus)
    position = chosen_token(run, output, choices)
    checks = check_softmax(output.logits, output.log_probs)
    if site is not None and (source := output.source(position)) is not None:
        checks.append(check_row(site, head, source))
    return {"answers": _payload(run, output, position, site, head)}, checks


def chosen_token(run: CurrentRun, output: TokenClasses, choices: TaskChoices) -> int:
    """Return the chosen position, by default the first of the rarest class.

    Special tokens count only if the text has no others; in a sound, every frame or part counts.
    """
    row, names = run.trace.streams[output.stream], output.predicted
    if choices.position is not None and choices.position < len(names):
        return choices.position
    typed = [i for i, offset in enumerate(row.offsets) if offset is not None]
    places = typed or range(len(names))
    count = Counter(names[i] for i in places)
    return min(places, key=lambda i: (count[names[i]], i))


def _payload(
    run: CurrentRun, output: TokenClasses, position: int, site: AttentionSite | None, head: int
) -> bytes:
    tokens, p = answer_labels(run.trace, output), output.log_probs.exp()
    token, best = tokens[position], p[position].topk(min(N_LISTED_CLASSES, len(output.names)))
    source, unit = output.source(position), "part" if output.parts else "token"
    attention_row, row = (
        no_row(NO_TOKEN) if source is None else attention_row_payload(run, site, head, source)
    )
    listed = best.indices.tolist()
    header: dict[str, Any] = {
        "kind": "classes",
        "title": f"The most probable class of each {unit}",
        **saving(file_name(run.trace, "classes-of-tokens"), facts(run.trace)),
        "opening": None,
        "places": [label.as_json() for label in tokens],
        "classes": list(output.predicted),
        "position": position,
        "scale": [*CLASS_SCALE, f"Click a {unit} to see all its classes."],
        "summary": class_counts(output.predicted, unit),
        "answer": {
            "title": token_classes_title(token.text, token.special),
            "rows": [[i, [output.names[i], "", False], ""] for i in listed],
            "fact": most_probable_class(output.predicted[position], float(best.values[0])),
            "rest": unlisted_classes(len(listed), len(output.names), float(best.values.sum())),
        },
        "reading": attention_row,
    }
    ranks = np.arange(1, len(listed) + 1, dtype=np.int32)
    probability = p.max(-1).values.numpy()
    return pack(header, probability=probability, p=best.values.numpy(), ranks=ranks, **row)
