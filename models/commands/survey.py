"""`attnscope survey`: a measure of lessons over held-out texts, with its interval."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from models.checkpoint import change_record
from models.checkpoint_files import checksum
from models.commands.arguments import (
    PAIR_FILES,
    Commands,
    add_device,
    add_record,
    check_record_option,
    positive,
    seed_from_0,
)
from models.devices import chosen_device
from models.held_out_texts import held_out
from models.number_text import percent
from models.opening import load
from models.runs.scope import Scope
from models.runs.survey_parts import SurveyParts
from models.runs.surveys import SHARE, SHARE_DIFFERENCE, SURVEYS, SurveyedMean, SurveyProgress
from models.scores import SURVEYS_ENTRY
from models.tasks import TASK_NAMES, Task, open_task, reopen_task
from models.training.frozen_survey import (
    FROZEN_SURVEY,
    GUIDED_STEPS,
    GUIDED_TOKENS,
    check_imposable,
    survey_frozen,
)

PreparedSurvey = Callable[[SurveyProgress, SurveyParts], dict[str, SurveyedMean]]


def add_survey(commands: Commands) -> None:
    """Add `attnscope survey`."""
    survey = commands.add_parser(
        "survey", help="print how a translator behaves over held-out texts, with intervals"
    )
    survey.add_argument(
        "survey",
        choices=[*SURVEYS, FROZEN_SURVEY],
        help="recovery after a wrong word, words unchanged under other weights, or what frozen "
        "weights give to other models, which are trained for the survey",
    )
    survey.add_argument("checkpoint")
    survey.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help="the training files, which are split again, or any files of held-out pairs "
        "(default: the texts in the checkpoint's record)",
    )
    survey.add_argument("--limit", type=positive, default=64, help="maximum number of texts (64)")
    survey.add_argument(
        "--seed",
        type=seed_from_0,
        default=0,
        help="random seed of wrong words, trained models and intervals (0)",
    )
    survey.add_argument(
        "--state",
        type=Path,
        help="where finished parts are kept until the end, so that a stopped survey can continue "
        "(survey-SURVEY-NAME.json)",
    )
    add_record(survey)
    add_device(survey)
    survey.set_defaults(run=_survey)


def _survey(options: argparse.Namespace) -> int:
    """Run `attnscope survey`; return the exit status."""
    scope = load(options.checkpoint, device=chosen_device(options.device))
    if not scope.model.translates:
        raise ValueError(f"{scope.name} does not translate; surveys apply to translators only")
    check_record_option(options, scope)
    measure, basis = _prepare(options, scope)
    path = options.state or Path(f"survey-{options.survey}-{scope.name}.json")
    settings = [options.survey, scope.fingerprint, options.seed, basis]
    parts = SurveyParts(path, checksum(json.dumps(settings).encode()))
    if parts.continues:
        print(f"continues {path}")
    try:
        with parts:
            _report(options, scope, _measure(measure, parts))
    except KeyboardInterrupt:
        if path.exists():
            print(f"finished parts are in {path}; the same command continues", file=sys.stderr)
        raise
    parts.remove()
    return 0


def _prepare(options: argparse.Namespace, scope: Scope) -> tuple[PreparedSurvey, Any]:
    """Return the measuring function, and what else than model, survey and seed sets its results."""
    seed, limit = options.seed, options.limit
    if options.survey == FROZEN_SURVEY:
        check_imposable(scope)
        task = _guided_task(scope, options.data)

        def measure(progress: SurveyProgress, parts: SurveyParts) -> dict[str, SurveyedMean]:
            return survey_frozen(scope, task, limit, seed, progress, parts, GUIDED_STEPS)

        return measure, [task.data(), limit, GUIDED_STEPS]
    first = scope.model.fields[0].stream
    sources = [text[first] for text in held_out(scope, options.data, limit)]
    survey = partial(SURVEYS[options.survey], scope, sources, seed)
    return survey, [row.ids for row in sources]


def _guided_task(scope: Scope, paths: Sequence[Path] | None) -> Task:
    """Return the task whose texts guided models are trained and tested on.

    Files are split as in training, by a hash of the source.

    Raises:
        ValueError: files must be named.
    """
    trained_on = scope.training.get("data", {})
    if paths is not None:
        settings = {"tokenizer": scope.tokenizer, "max_tokens": GUIDED_TOKENS}
        return open_task("translation", paths, **settings)
    if scope.task not in TASK_NAMES or "generator" not in trained_on:
        raise ValueError(
            f"the survey {FROZEN_SURVEY} trains models on sentence pairs: name {scope.name}'s "
            "files with --data"
        )
    return reopen_task(scope.task, None, trained_on, tokenizer=scope.tokenizer, n_ctx=scope.n_ctx)


def _measure(measure: PreparedSurvey, parts: SurveyParts) -> dict[str, SurveyedMean]:
    with tqdm(unit="step", leave=False) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        return measure(progress, parts)


def _report(options: argparse.Namespace, scope: Scope, means: dict[str, SurveyedMean]) -> None:
    """Print the results and, with --record, write them into the training record."""
    print(f"{scope.name}: {options.survey}, with 95 % bootstrap intervals over held-out texts")
    for name, one in means.items():
        print(f"{name:<20} {survey_line(one)}")
    if options.record:
        steps = {"steps": GUIDED_STEPS} if options.survey == FROZEN_SURVEY else {}
        entry = {
            "measured_on": scope.weights_digest,
            "seed": options.seed,
            **steps,
            "means": {name: asdict(one) for name, one in means.items()},
        }

        def with_entry(record: dict[str, Any]) -> dict[str, Any]:
            return {SURVEYS_ENTRY: record.get(SURVEYS_ENTRY, {}) | {options.survey: entry}}

        change_record(scope.path, with_entry)


def survey_line(result: SurveyedMean) -> str:
    """Return a mean with its interval and its number of texts."""
    if result.unit == SHARE:
        mean, low, high = (percent(one) for one in (result.mean, result.low, result.high))
    elif result.unit == SHARE_DIFFERENCE:
        mean, low, high = (
            f"{round(100 * one, 1) + 0.0:+.1f}"  # never -0.0
            for one in (result.mean, result.low, result.high)
        )
        mean = f"{mean} points"
    else:
        mean, low, high = (f"{one:.3f}" for one in (result.mean, result.low, result.high))
        mean = f"{mean} {result.unit}"
    return f"{mean} ({low} to {high}), {result.n_texts} texts"
