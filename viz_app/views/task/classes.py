"""The picture of what kind of text a model takes its row for, beside what the runs say that were trained alike but for λ."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Scope
from models.analysis.checks import Check
from models.trace.outputs import ClassProbabilities
from viz_app import words
from viz_app.drawing.payload import pack
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.reference_models import alike_but_for_lambda
from viz_app.views.task import classes_text as text
from viz_app.views.task.choices import Choices
from viz_app.views.task.pair import pair
from viz_app.views.task.reading import Drawn

PERPLEXITY = "text perplexity"  # of the scores of models.tasks.classify


@dataclass(frozen=True)
class LambdaRun:
    """One of the runs: the name under which it is opened, the model, its λ, and its answer."""

    name: str
    scope: Scope
    factor: float
    output: ClassProbabilities


def side_by_side(run: CurrentRun, output: ClassProbabilities) -> list[LambdaRun]:
    """The run that is shown among those that differ from it in λ alone, all of the same text, by λ; none where it is not offered
    itself."""
    found = alike_but_for_lambda(run.scope)
    others = {name: cache.scope(folder) for name, (folder, _) in found.items()}
    texts = tuple(run.trace.fields[field.name] or "" for field in run.scope.model.text_fields)
    answered = next(name for name, each in run.trace.outputs.items() if each is output)
    runs = []
    for name, (_, factor) in found.items():
        is_shown = others[name].fingerprint == run.scope.fingerprint
        answer = output if is_shown else cache.trace(others[name], texts).outputs[answered]
        runs.append(LambdaRun(name, others[name], factor, answer))
    return runs if any(each.output is output for each in runs) else []


def class_probabilities(run: CurrentRun, output: ClassProbabilities, choices: Choices) -> Drawn:
    """The classes of one run with what its answering token reads, and above it the runs with another λ where there are any; what
    must hold of them."""
    pictures, checks = pair(run, output, choices)
    runs = side_by_side(run, output)
    if len(runs) < 2:
        return pictures, checks
    return {"classes": classes(run, output, runs), **pictures}, [*checks, check_probabilities(runs)]


def classes(run: CurrentRun, output: ClassProbabilities, runs: list[LambdaRun]) -> bytes:
    """The payload of the component `classes`."""
    header: dict[str, Any] = {
        "title": text.TITLE, "note": text.NOTE,
        "runs": [
            {
                "name": each.name, "title": f"λ = {each.factor:g}", "whose": each.scope.name, "chosen": each.output is output,
                "score": _score(each.scope.training.get("scores", {})),
                "rows": [[i, [name, "", False], text.MOST * (name == each.output.predicted)]
                         for i, name in enumerate(each.output.names)],
            }
            for each in runs
        ],
    }  # fmt: skip
    p = [each.output.probabilities for each in runs]
    ranks = [1 + (one[None] > one[:, None]).sum(-1) for one in p]
    arrays = {
        "p": np.concatenate([one.numpy() for one in p]),
        "ranks": np.concatenate([one.numpy() for one in ranks]),
    }
    return pack(header, p=arrays["p"], ranks=arrays["ranks"].astype(np.int32))


def check_probabilities(runs: list[LambdaRun]) -> Check:
    """softmax by its formula, in double precision."""
    worst = 0.0
    for each in runs:
        powers = np.exp(each.output.logits.double().numpy() - float(each.output.logits.max()))
        worst = max(
            worst, float(np.abs(powers / powers.sum() - each.output.probabilities.numpy()).max())
        )
    return Check(
        "the classes' probabilities are softmax of their logits",
        worst,
        1e-6,
        "Largest difference, worked out by hand",
    )


def _score(scores: dict[str, Any]) -> str:
    """The first of a model's scores, over how many cases, and its perplexity there."""
    names = [name for name in scores if name != "cases"][:1]
    summary = words.score_summary(
        {name: scores[name] for name in (*names, "cases") if name in scores}
    )
    return text.score(summary, scores.get(PERPLEXITY))
