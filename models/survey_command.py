"""`attnscope survey`: a measure of lessons over held-out texts, with its interval."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from models.ablate_command import held_out
from models.checkpoint import add_to_record
from models.checkpoint_files import RECORD, checksum, read_json
from models.devices import chosen_device
from models.opening import load
from models.percent import percent
from models.runs.scope import Scope
from models.runs.survey_parts import SurveyParts
from models.runs.surveys import SHARE, SURVEYS, SurveyedMean
from models.scores import SURVEYS_ENTRY
from models.tokenizers.base import Encoding


def run_survey(options: argparse.Namespace) -> int:
    """Run `attnscope survey`; return the exit status."""
    scope = load(options.checkpoint, device=chosen_device(options.device))
    if not scope.model.translates:
        raise ValueError(
            f"{scope.name} does not translate; a survey replaces what a translator does"
        )
    if options.record and not (scope.path / RECORD).is_file():
        raise ValueError(f"{scope.name} has no training record, to which --record adds the results")
    first = scope.model.fields[0].stream
    sources = [text[first] for text in held_out(scope, options.data, options.limit)]
    path = options.state or Path(f"survey-{options.survey}-{scope.name}.json")
    parts = SurveyParts(path, _identity(scope, options.survey, options.seed, sources))
    if parts.continues:
        print(f"continues {path}")
    try:
        with parts:
            means = _measured(options, scope, sources, parts)
            _report(options, scope, means)
    except KeyboardInterrupt:
        if path.exists():
            print(f"finished parts are in {path}; the same command continues", file=sys.stderr)
        raise
    parts.remove()
    return 0


def _identity(scope: Scope, survey: str, seed: int, sources: Sequence[Encoding]) -> str:
    """Return a checksum of everything that the numbers of a survey depend on."""
    texts = [row.ids for row in sources]
    return checksum(json.dumps([survey, scope.fingerprint, seed, texts]).encode())


def _measured(
    options: argparse.Namespace, scope: Scope, sources: Sequence[Encoding], parts: SurveyParts
) -> dict[str, SurveyedMean]:
    with tqdm(unit="run", leave=False) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        return SURVEYS[options.survey](scope, sources, options.seed, progress, parts)


def _report(options: argparse.Namespace, scope: Scope, means: dict[str, SurveyedMean]) -> None:
    """Print the results and, with --record, write them into the training record."""
    print(f"{scope.name}: {options.survey}, with 95 % bootstrap intervals over held-out texts")
    for name, one in means.items():
        print(f"{name:<20} {survey_line(one)}")
    if options.record:
        entry = {
            "measured_on": scope.weights_digest,
            "seed": options.seed,
            "means": {name: asdict(one) for name, one in means.items()},
        }
        before = read_json(scope.path / RECORD).get(SURVEYS_ENTRY, {})
        add_to_record(scope.path, **{SURVEYS_ENTRY: before | {options.survey: entry}})


def survey_line(found: SurveyedMean) -> str:
    """Return a mean with its interval and its number of texts."""
    if found.unit == SHARE:
        mean, low, high = (percent(one) for one in (found.mean, found.low, found.high))
    else:
        mean, low, high = (f"{one:.3f}" for one in (found.mean, found.low, found.high))
        mean = f"{mean} {found.unit}"
    return f"{mean} ({low} to {high}), {found.n_texts} texts"
