"""`attnscope survey`: a measure of lessons over held-out texts, with its interval."""

import argparse
from dataclasses import asdict

from tqdm import tqdm

from models.ablate_command import held_out
from models.checkpoint import add_to_record
from models.checkpoint_files import RECORD, read_json
from models.devices import chosen_device
from models.opening import load
from models.percent import percent
from models.runs.surveys import SHARE, SURVEYS, SurveyedMean
from models.scores import SURVEYS_ENTRY


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
    with tqdm(unit="run", leave=False) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        means = SURVEYS[options.survey](scope, sources, options.seed, progress)
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
    return 0


def survey_line(found: SurveyedMean) -> str:
    """Return a mean with its interval and its number of texts."""
    if found.unit == SHARE:
        mean, low, high = (percent(one) for one in (found.mean, found.low, found.high))
    else:
        mean, low, high = (f"{one:.3f}" for one in (found.mean, found.low, found.high))
        mean = f"{mean} {found.unit}"
    return f"{mean} ({low} to {high}), {found.n_texts} texts"
