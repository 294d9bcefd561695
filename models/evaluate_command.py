"""`attnscope evaluate`: score a checkpoint on held-out cases, print and record the score."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from tqdm import tqdm

from models.checkpoint import add_to_record
from models.devices import chosen_device
from models.opening import load
from models.runs.scope import Scope
from models.tasks import open_task
from models.tasks.classify import ClassifyTask
from models.tasks.language import LanguageTask
from models.tasks.masked import MaskedTask
from models.tasks.pair_files import as_paths, fingerprint, read_pairs
from models.tasks.permutation import PermutationTask
from models.tasks.questions import SpanTask
from models.tasks.text_files import DOCUMENTS
from models.tasks.translation import TranslationTask, as_cases
from models.training.evaluation import METRICS, by_length, hypotheses, signature
from models.training.likelihood import PERPLEXITY, baselines, likelihoods
from models.training.task import Case, Passage, Task

Answering = MaskedTask | PermutationTask | SpanTask | ClassifyTask  # tasks with `evaluate`
SETTINGS = ("lm_weight", "fold")  # task settings stored in the data's record


def record_score(task: Task, out: Path, device: torch.device) -> None:
    """Score the saved checkpoint on the whole test split and add the result to its record."""
    if isinstance(task, LanguageTask):
        _predict(task, load(out, device=device), record=True)
        print(f"checkpoint in {out}")
        return
    if isinstance(task, Answering):
        _measure(task, load(out, device=device), record=True)
        print(f"checkpoint in {out}")
        return
    cases = task.held_out()
    scope = load(out, device=device)
    print(
        f"held-out {_record_cases(scope, task.metric, _write_all(scope, cases), cases)}; checkpoint in {out}"
    )
    _print_signature(task.metric, cases)


def _print_signature(metric: str, cases: list[Case]) -> None:
    if text := signature(metric, cases):
        print(f"sacrebleu's signature: {text}")


def _record_cases(scope: Scope, metric: str, texts: list[str], cases: list[Case]) -> str:
    """Add the score, overall and by length, to a checkpoint's record; return the score as text."""
    result = METRICS[metric](texts, cases)
    groups = [
        asdict(group) | {"score": round(group.score, 2)}
        for group in by_length(texts, cases, metric)
    ]
    entry = _score_entry(scope, metric, result, len(cases))
    add_to_record(scope.path, **entry, by_length=groups, signature=signature(metric, cases))
    return f"{metric}: {result:.2f} over {len(cases)} cases"


def _score_entry(scope: Scope, metric: str, result: float, n_cases: int) -> dict[str, Any]:
    """Return the record entry of a score, with the digest of the weights it was measured on."""
    scores = {f"held-out {metric}": round(result, 2), "cases": n_cases}
    return {"scores": scores, "measured_on": scope.weights_digest}


def _predict(
    task: LanguageTask, scope: Scope, limit: int | None = None, *, record: bool = False
) -> None:
    """Print the likelihood of the held-out texts, beside that of token-counting baselines.

    With `record`, also add it to the checkpoint's record.
    """
    passages = task.passages(limit)
    measured = _read_all(scope, passages)
    baseline_measures = baselines(task.labels("train"), passages, scope.tokenizer.vocab_size)
    for name, value in (measured | baseline_measures).items():
        print(f"{name:24} {value:10,.3f}")
    print(
        f"over {len(passages):,} held-out passages, {sum(len(passage.labels) for passage in passages):,} tokens"
    )
    if record:
        add_to_record(
            scope.path, **_likelihoods_entry(scope, measured | baseline_measures, len(passages))
        )


def _measure(
    task: Answering, scope: Scope, limit: int | None = None, *, record: bool = False, of: str = ""
) -> None:
    """Print how well a model that does not generate answers held-out cases.

    With `record`, also add the measures to the checkpoint's record.
    """
    measures, n = _task_measures(task, scope, limit, of)
    for name, value in measures.items():
        print(f"{name:32} {value:10,.3f}")
    print(f"over {n:,} held-out cases")
    if record:
        add_to_record(scope.path, **_measures_entry(scope, task.metric, measures, n))


def _task_measures(
    task: Answering, scope: Scope, limit: int | None, of: str = ""
) -> tuple[dict[str, float], int]:
    """Return the task's measures and the number of cases, with a progress bar meanwhile."""
    n_cases = 0
    with tqdm(unit="case", leave=False, desc=of or None) as bar:

        def show(done: int, total: int) -> None:
            nonlocal n_cases
            bar.total, n_cases = total, total
            bar.update(done - bar.n)

        measures = task.evaluate(scope.model, limit, progress=show)
    return measures, n_cases


def _measures_entry(
    scope: Scope, metric: str, measures: Mapping[str, float], n_cases: int
) -> dict[str, Any]:
    """Return the record entry of a task's measures, its metric first."""
    scores = {
        f"held-out {metric}" if name == metric else name: round(value, 4)
        for name, value in measures.items()
    }
    return {"scores": scores | {"cases": n_cases}, "measured_on": scope.weights_digest}


def _likelihoods_entry(
    scope: Scope, measured: Mapping[str, float], n_passages: int
) -> dict[str, Any]:
    """Return the record entry of likelihoods, the perplexity first."""
    names = {PERPLEXITY: f"held-out {PERPLEXITY}"}
    scores = {names.get(name, name): round(value, 4) for name, value in measured.items()}
    return {"scores": scores | {"cases": n_passages}, "measured_on": scope.weights_digest}


def _read_all(scope: Scope, passages: list[Passage], of: str = "") -> dict[str, float]:
    """Return the model's likelihoods, with a progress bar meanwhile."""
    with tqdm(total=len(passages), unit="passage", leave=False, desc=of or None) as bar:
        return likelihoods(scope.model, passages, lambda done: bar.update(done - bar.n))


def _write_all(scope: Scope, cases: list[Case], of: str = "") -> list[str]:
    """Generate the model's text for each case, with a progress bar meanwhile."""
    with tqdm(total=len(cases), unit="case", leave=False, desc=of or None) as bar:
        return hypotheses(
            scope.model, scope.tokenizer, cases, lambda done, _: bar.update(done - bar.n)
        )


def evaluate(options: argparse.Namespace) -> int:
    """Run `attnscope evaluate`; return the exit status."""
    scope = load(options.checkpoint, device=chosen_device(options.device))
    if options.record and options.limit:
        raise ValueError("--record needs the score over all cases; remove --limit")
    if scope.task == LanguageTask.name:
        return _evaluate_text(scope, options)
    if scope.task in (MaskedTask.name, PermutationTask.name, SpanTask.name, ClassifyTask.name):
        return _evaluate_answers(scope, options)
    metric, cases = _cases(options, scope)
    if options.snapshots:
        return _evaluate_snapshots(scope, metric, cases, options)
    texts = _write_all(scope, cases)
    print(f"{metric} {METRICS[metric](texts, cases):.2f} over {len(cases)} held-out cases")
    _print_signature(metric, cases)
    if options.by_length:
        for group in by_length(texts, cases, metric):
            print(
                f"  {group.least:2}-{group.most:2} words  {metric} {group.score:6.2f}  {group.cases:5} cases"
            )
    if options.record:
        _record_cases(scope, metric, texts, cases)
    return 0


def _evaluate_text(scope: Scope, options: argparse.Namespace) -> int:
    """Evaluate the likelihood of held-out text for the final weights or each snapshot."""
    if options.test or options.by_length:
        raise ValueError(
            "--test and --by-length apply to models that generate an answer, not to running text"
        )
    task = cast(LanguageTask, _reopen_task(scope, options))
    if not options.snapshots:
        _predict(task, scope, options.limit, record=options.record)
        return 0
    _check_snapshots(scope)
    passages = task.passages(options.limit)

    def evaluate_snapshot(snapshot: Scope, step: str) -> tuple[str, dict[str, Any]]:
        measures = _read_all(snapshot, passages, step)
        return _line(measures), _likelihoods_entry(snapshot, measures, len(passages))

    return _evaluate_each_snapshot(scope, options, evaluate_snapshot)


def _evaluate_answers(scope: Scope, options: argparse.Namespace) -> int:
    """Evaluate a model that does not generate, for the final weights or each snapshot."""
    if options.test or options.by_length:
        raise ValueError("--test and --by-length apply to models that generate text")
    task = cast(Answering, _reopen_task(scope, options))
    if not options.snapshots:
        _measure(task, scope, options.limit, record=options.record)
        return 0
    _check_snapshots(scope)

    def evaluate_snapshot(snapshot: Scope, step: str) -> tuple[str, dict[str, Any]]:
        measures, n = _task_measures(task, snapshot, options.limit, step)
        return _line(measures), _measures_entry(snapshot, task.metric, measures, n)

    return _evaluate_each_snapshot(scope, options, evaluate_snapshot)


def _reopen_task(scope: Scope, options: argparse.Namespace) -> Task:
    """Open the task of a checkpoint on the files given now, with the settings of its training."""
    trained_on = data if isinstance(data := scope.training.get("data"), dict) else {}
    settings = {name: trained_on[name] for name in SETTINGS if name in trained_on}
    if (documents := trained_on.get("documents are")) in DOCUMENTS:
        settings["documents"] = documents
    task = open_task(
        scope.task, options.data, tokenizer=scope.tokenizer, n_ctx=scope.n_ctx, **settings
    )
    if task.data() != trained_on:
        _note("this is not the data the checkpoint was trained on")
    return task


def _check_snapshots(scope: Scope) -> None:
    if not scope.snapshots:
        raise ValueError(
            f"{scope.name} has no training snapshots; train with --snapshots to keep them"
        )


def _evaluate_snapshots(
    scope: Scope, metric: str, cases: list[Case], options: argparse.Namespace
) -> int:
    """Evaluate the text generated by each snapshot."""
    _check_snapshots(scope)
    if options.by_length:
        raise ValueError("--by-length applies to the final weights, not to --snapshots")

    def evaluate_snapshot(snapshot: Scope, step: str) -> tuple[str, dict[str, Any]]:
        result = METRICS[metric](_write_all(snapshot, cases, step), cases)
        return f"{metric} {result:.2f} over {len(cases)} held-out cases", _score_entry(
            snapshot, metric, result, len(cases)
        )

    return _evaluate_each_snapshot(scope, options, evaluate_snapshot)


def _evaluate_each_snapshot(
    scope: Scope,
    options: argparse.Namespace,
    evaluate_snapshot: Callable[[Scope, str], tuple[str, dict[str, Any]]],
) -> int:
    """Print, and record at once, the measures of each snapshot.

    If the run is interrupted, the finished ones remain. `evaluate_snapshot` returns the line to
    print and the record entry.
    """
    entries = {}
    for step in scope.snapshots:
        line, entry = evaluate_snapshot(
            load(scope.path, device=scope.device, snapshot=step), f"step {step:,}"
        )
        print(f"step {step:6,}: {line}", flush=True)
        if options.record:
            entries[str(step)] = entry
            add_to_record(scope.path, snapshot_scores=entries)
    return 0


def _line(measures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in measures.items())


def _cases(options: argparse.Namespace, scope: Scope) -> tuple[str, list[Case]]:
    """Return the metric and the cases: all of --test, else the test split of --data."""
    trained_on = scope.training.get("data")
    if not options.test:
        arguments = {"tokenizer": scope.tokenizer} if scope.task == "translation" else {}
        task = open_task(scope.task, options.data, **arguments)
        if task.data() != trained_on:
            _note("this is not the data the checkpoint was trained on")
        return task.metric, task.held_out(options.limit)
    if options.data or scope.task != "translation":
        raise ValueError("--test applies to translation models, and replaces --data")
    if not isinstance(trained_on, dict) or trained_on.get("test file") != fingerprint(
        as_paths(options.test)
    ):
        if options.record:
            raise ValueError("--record needs the test pairs that were held out from training")
        _note(
            "these pairs were not named at training time; the model may have been trained on some"
        )
    return TranslationTask.metric, as_cases(read_pairs(options.test))[: options.limit]


def _note(text: str) -> None:
    print(f"attnscope: note: {text}", file=sys.stderr)
