"""`attnscope evaluate`: score a checkpoint on held-out cases, print and record the score."""

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from models.checkpoint import add_to_record
from models.commands.arguments import (
    PAIR_FILES,
    TEXT_FILES_HELP,
    TWO_WAYS,
    Commands,
    add_device,
    add_record,
    positive,
)
from models.devices import chosen_device
from models.number_text import how_many
from models.opening import load
from models.runs.scope import Scope
from models.tasks import has_data_of, reopen_task
from models.tasks.pair_files import as_paths, file_record, read_pairs, same_files
from models.tasks.translation import TranslationTask, as_cases
from models.training.evaluation import METRICS, TextCases, scores_by_length, signature
from models.training.task import Evaluated, Evaluation, Progress, Task, validation_texts
from models.training_record import recordable


def record_score(task: Task, out: Path, device: torch.device) -> None:
    """Evaluate the saved checkpoint on the whole test split and add the result to its record."""
    scope = load(out, device=device)
    evaluation = _with_baselines(_evaluate(task, scope))
    _report(task.metric, evaluation)
    _record(scope, task, evaluation)
    print(f"checkpoint in {out}")


def add_evaluate(commands: Commands) -> None:
    """Add `attnscope evaluate`."""
    evaluate = commands.add_parser("evaluate", help="print a checkpoint's score on held-out cases")
    evaluate.add_argument("checkpoint")
    evaluate.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help=f"the pairs to split (translation); {TEXT_FILES_HELP}",
    )
    evaluate.add_argument(
        "--test",
        type=Path,
        **PAIR_FILES,
        help=f"pairs to score, all of them: {TWO_WAYS} (translation)",
    )
    evaluate.add_argument("--limit", type=positive, help="maximum number of cases")
    evaluate.add_argument(
        "--by-length", action="store_true", help="also print the score by source length"
    )
    evaluate.add_argument(
        "--snapshots",
        action="store_true",
        help="score each training snapshot instead of the final weights",
    )
    add_record(evaluate)
    add_device(evaluate)
    evaluate.set_defaults(run=_evaluate_checkpoint)


def _evaluate_checkpoint(options: argparse.Namespace) -> int:
    """Run `attnscope evaluate`; return the exit status."""
    scope = load(options.checkpoint, device=chosen_device(options.device))
    if options.record and options.limit:
        raise ValueError("--record needs the score over all cases; remove --limit")
    cases = _test_pairs(scope, options) if options.test else _reopen(scope, options)
    _check_options(scope, cases.metric, options)
    if options.snapshots:
        return _evaluate_snapshots(scope, cases, options)
    evaluation = _with_baselines(_evaluate(cases, scope, options.limit))
    _report(cases.metric, evaluation, lengths=options.by_length)
    if options.record:
        _record(scope, cases, evaluation)
    return 0


def _test_pairs(scope: Scope, options: argparse.Namespace) -> TextCases:
    """Return all pairs of --test."""
    if options.data or scope.task != TranslationTask.name:
        raise ValueError("--test applies to translation models, and replaces --data")
    trained_on = scope.training.get("data", {})
    if not same_files(trained_on.get("test file", {}), file_record(as_paths(options.test))):
        if options.record:
            raise ValueError("--record needs the test pairs that were held out from training")
        _note(
            "these pairs were not named at training time; the model may have been trained on some"
        )
    return TextCases(as_cases(read_pairs(options.test)), scope.tokenizer, TranslationTask.metric)


def _reopen(scope: Scope, options: argparse.Namespace) -> Task:
    """Open the task of a checkpoint on the files given now."""
    trained_on = scope.training.get("data", {})
    task = reopen_task(
        scope.task, options.data, trained_on, tokenizer=scope.tokenizer, n_ctx=scope.n_ctx
    )
    if not has_data_of(task, trained_on):
        if options.record:
            raise ValueError("--record needs the data that the checkpoint was trained on")
        _note("this is not the data the checkpoint was trained on")
    return task


def _check_options(scope: Scope, metric: str, options: argparse.Namespace) -> None:
    if options.by_length and metric not in METRICS:
        raise ValueError("--test and --by-length apply to models that generate an answer as text")
    if options.snapshots and not scope.snapshots:
        raise ValueError(
            f"{scope.name} has no training snapshots; train with --snapshots to keep them"
        )
    if options.snapshots and options.by_length:
        raise ValueError("--by-length applies to the final weights, not to --snapshots")


def _evaluate(
    cases: Evaluated, scope: Scope, limit: int | None = None, label: str = ""
) -> Evaluation:
    """Evaluate a model on held-out cases, with a progress bar."""
    with tqdm(unit="case", leave=False, desc=label or None) as bar:
        return cases.evaluate(scope.model, limit, progress=_show_on(bar))


def _with_baselines(evaluation: Evaluation) -> Evaluation:
    measures = evaluation.measures | evaluation.baselines()
    return replace(evaluation, measures=measures, baselines=dict)


def _show_on(bar: Any) -> Progress:
    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return show


def _report(metric: str, evaluation: Evaluation, *, lengths: bool = False) -> None:
    """Print an evaluation: a single score in one line, several measures as a table."""
    over = _over(evaluation)
    if metric in METRICS:
        print(f"{_line(evaluation)} {over}")
        if text := signature(metric, evaluation.cases):
            print(f"sacrebleu's signature: {text}")
    else:
        for name, value in evaluation.measures.items():
            print(f"{name:32} {value:10,.3f}")
        print(over)
    if lengths:
        for group in scores_by_length(evaluation.texts, evaluation.cases, metric):
            print(
                f"  {group.least:2}-{group.most:2} words  {metric} {group.score:6.2f}  {group.cases:5} cases"
            )


def _record(scope: Scope, cases: Evaluated, evaluation: Evaluation) -> None:
    """Add an evaluation to a checkpoint's record, and a sample of the held-out texts."""
    metric = cases.metric
    entry = _entry(scope, metric, evaluation)
    if isinstance(cases, Task):
        entry["held_out"] = validation_texts(cases, scope.n_ctx)
    if metric in METRICS:
        groups = scores_by_length(evaluation.texts, evaluation.cases, metric)
        entry["by_length"] = [
            asdict(group) | {"score": round(group.score, evaluation.digits)} for group in groups
        ]
        entry["signature"] = signature(metric, evaluation.cases)
    add_to_record(scope.path, **entry)


def _entry(scope: Scope, metric: str, evaluation: Evaluation) -> dict[str, Any]:
    """Return the record entry of measures, with the digest of the weights they belong to."""
    scores = {
        f"held-out {metric}" if name == metric else name: round(value, evaluation.digits)
        for name, value in recordable(evaluation.measures).items()
    }
    return {
        "scores": scores | {"cases": evaluation.n_cases},
        "measured_on": scope.weights_digest,
    }


def _evaluate_snapshots(scope: Scope, cases: Evaluated, options: argparse.Namespace) -> int:
    """Print the measures of each snapshot, and record them immediately.

    If the run is interrupted, the finished ones remain.
    """
    metric, entries = cases.metric, {}
    for step in scope.snapshots:
        snapshot = load(scope.path, device=scope.device, snapshot=step)
        evaluation = _evaluate(cases, snapshot, options.limit, f"step {step:,}")
        print(f"step {step:6,}: {_line(evaluation)} {_over(evaluation)}", flush=True)
        if options.record:
            entries[str(step)] = _entry(snapshot, metric, evaluation)
            add_to_record(scope.path, snapshot_scores=entries)
    return 0


def _line(evaluation: Evaluation) -> str:
    digits = min(evaluation.digits, 3)
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in evaluation.measures.items())


def _over(evaluation: Evaluation) -> str:
    """Return what an evaluation is over: "over 200 held-out passages, 1,503 tokens"."""
    counts = {evaluation.case_noun: evaluation.n_cases} | evaluation.parts
    return f"over {', '.join(how_many(n, noun) for noun, n in counts.items())}"


def _note(text: str) -> None:
    print(f"attnscope: note: {text}", file=sys.stderr)
