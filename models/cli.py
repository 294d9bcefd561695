"""The `attnscope` command: open the app, train, decode, evaluate, inspect, seal."""

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from models.architectures import ARCHITECTURES
from models.checkpoint import CheckpointError, add_to_record, seal
from models.evaluation import METRICS, by_length, hypotheses, signature
from models.recipes import PLANS, Plan, in_words, plan_for
from models.run_folder import claimed, clear, leftovers
from models.scope import InputError, Scope, default_device, folder_of, load, named_device
from models.tasks import DataError, open_task
from models.tasks.base import Case, Task
from models.tasks.pair_files import as_paths, fingerprint, read_pairs
from models.tasks.translation import TranslationTask, as_cases
from models.training import Recipe, Trainer, join_processes

PAIRS = {"nargs": "+", "metavar": "FILE"}
TWO_WAYS = "a tab-separated file, or two that agree line by line; .gz too"
EXPECTED = (CheckpointError, DataError, InputError, FloatingPointError, OSError, ValueError)


def main(arguments: Sequence[str] | None = None, open_app: Callable[[argparse.Namespace], int] | None = None) -> int:
    """Run the command, or `open_app` where none is given. An error that a user can cause ends with one line on stderr
    and status 1."""
    parser = _parser()
    parser.set_defaults(run=open_app or _no_app)
    options = parser.parse_args(arguments)
    options.command = shlex.join(["attnscope", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        return options.run(options) or 0
    except KeyboardInterrupt:
        return 130
    except EXPECTED as error:
        print(f"attnscope: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("attnscope", description="See attention work. Without a command: open the app.")
    parser.add_argument("--port", type=int, default=8501, help="port of the app (8501)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--models", type=Path, metavar="DIR", help="offer the checkpoints under this folder, too")
    parser.add_argument(
        "--share", nargs="?", const="0.0.0.0", metavar="ADDRESS",
        help="let others in: listen on this address of the machine (all of them), and open no folders but those of --models",
    )
    parser.add_argument(
        "--allow-host", action="append", metavar="NAME", help="a name by which the app is reached, of a proxy before it, say",
    )
    parser.add_argument("--device", help="cuda, mps or cpu (the first there is)")
    commands = parser.add_subparsers(title="commands")

    train = commands.add_parser("train", help="train a model on a task")
    train.add_argument("task", choices=list(PLANS))
    kinds = sorted({model for plans in PLANS.values() for model in plans})
    train.add_argument("--model", choices=kinds, default="transformer", help="what to train (transformer)")
    train.add_argument("--data", type=Path, **PAIRS, help=f"the sentence pairs: {TWO_WAYS} (translation)")
    train.add_argument("--valid", type=Path, **PAIRS, help="pairs to validate on, instead of 1 %% of --data")
    train.add_argument("--test", type=Path, **PAIRS, help="pairs to score at the end, instead of 2 %% of --data")
    train.add_argument("--vocabulary", metavar="CHECKPOINT", help="use this checkpoint's tokens (translation)")
    train.add_argument("--out", type=Path, help="folder of the checkpoint (runs/TASK-MODEL)")
    over = train.add_mutually_exclusive_group()
    over.add_argument("--resume", action="store_true", help="go on from the last saved state in --out")
    over.add_argument("--overwrite", action="store_true", help="take away what an earlier run has left in --out")
    _add_settings(train)
    train.set_defaults(run=_train)

    decode = commands.add_parser("decode", help="print what a checkpoint writes for a text")
    decode.add_argument("checkpoint")
    decode.add_argument("text")
    decode.add_argument("--how", choices=["greedy", "beam", "sample"], default="greedy")
    decode.add_argument("--seed", type=int, default=1, help="of --how sample")
    decode.set_defaults(run=_decode)

    evaluate = commands.add_parser("evaluate", help="print a checkpoint's score on held-out cases")
    evaluate.add_argument("checkpoint")
    evaluate.add_argument("--data", type=Path, **PAIRS, help="the pairs the split is taken from (translation)")
    evaluate.add_argument("--test", type=Path, **PAIRS, help=f"score on all of these pairs: {TWO_WAYS} (translation)")
    evaluate.add_argument("--limit", type=_positive, help="only the first so many cases")
    evaluate.add_argument("--by-length", action="store_true", help="the score of short and of long sources too")
    evaluate.add_argument("--snapshots", action="store_true", help="the score of each snapshot of its training, one by one")
    evaluate.add_argument("--record", action="store_true", help="write the result into the checkpoint's training.json")
    evaluate.set_defaults(run=_evaluate)

    inspect = commands.add_parser("inspect", help="print configuration, parameters and training record")
    inspect.add_argument("checkpoint")
    inspect.set_defaults(run=_inspect)
    seal = commands.add_parser("seal", help="take a checkpoint's files as they are: write their checksums into its training.json")
    seal.add_argument("checkpoint", nargs="+")
    seal.set_defaults(run=_seal)
    for command in (train, decode, evaluate, inspect):
        command.add_argument("--device", default=argparse.SUPPRESS, help="cuda, mps or cpu (the first there is)")
    return parser


def _add_settings(train: argparse.ArgumentParser) -> None:
    """One flag for each setting of the model, the data and the recipe; the plan gives the defaults."""
    for kind, names in _settings().items():
        group = train.add_argument_group(f"{kind} (defaults depend on task and model)")
        for name, of_type in names.items():
            flag = "--" + name.replace("_", "-")
            if of_type is bool:
                group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
            else:
                group.add_argument(flag, type=of_type)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def _settings() -> dict[str, dict[str, type]]:
    sizes = {f.name: f.type for _, read in ARCHITECTURES.values() for f in fields(read)}
    recipe = {f.name: f.type for f in fields(Recipe)}
    data = {"vocab_size": int, "max_tokens": int, "batch_size": int, "licence": str}
    return {"model": {n: t for n, t in sizes.items() if n not in ("vocab_size", "pad_id")}, "data": data, "recipe": recipe}


def _plan(options: argparse.Namespace, n_pairs: int | None = None) -> Plan:
    """The plan of the task, the model and so many sentence pairs, with the flags that were given. Raises ValueError for a
    flag that is not theirs."""
    plan = plan_for(options.task, options.model, n_pairs)
    given = {
        kind: {n: v for n in names if (v := getattr(options, n)) is not None} for kind, names in _settings().items()
    }
    sizes = {f.name for f in fields(plan.config)}
    odd = {n: f"the task {options.task}" for n in given["data"] if n not in plan.data}
    odd |= {n: f"the model {options.model}" for n in given["model"] if n not in sizes}
    for name, of in odd.items():
        raise ValueError(f"--{name.replace('_', '-')} is no setting of {of}")
    if options.vocabulary and "vocab_size" not in plan.data:
        raise ValueError(f"--vocabulary is no setting of the task {options.task}")
    sizes, recipe, data = plan.sizes | given["model"], replace(plan.recipe, **given["recipe"]), plan.data | given["data"]
    if options.vocabulary:
        data |= {"tokenizer": load(options.vocabulary, device="cpu").tokenizer}
        del data["vocab_size"]
    return Plan(plan.config, sizes, recipe, data)


def _device(options: argparse.Namespace) -> torch.device:
    return named_device(options.device) if getattr(options, "device", None) else default_device()


def _no_app(options: argparse.Namespace) -> int:
    raise ValueError("the app belongs to the command attnscope; this is the back end alone")


def _train(options: argparse.Namespace) -> int:
    n_pairs = len(read_pairs(options.data)) if options.task == "translation" and options.data else None
    plan, device = _plan(options, n_pairs), _device(options)
    out = options.out or Path("runs") / f"{options.task}-{options.model}"
    rank = join_processes(device)
    own = {"validation_files": options.valid, "test_files": options.test}
    task = open_task(options.task, options.data, **plan.data, **{name: files for name, files in own.items() if files})
    config = plan.config(task.tokenizer.vocab_size, **plan.sizes)
    trainer = Trainer(task, config, plan.recipe, out, device, options.command)
    with claimed(out) if rank == 0 else nullcontext():
        if options.resume:
            print(f"resumed at step {trainer.resume()}")
        elif rank == 0:
            _begin(out, options.overwrite)
        if rank == 0 and n_pairs:
            _print_beginning(n_pairs, plan, task.data())
        if not _follow(trainer, quiet=rank > 0):
            return 130
        if rank == 0:
            _record_score(task, out, device)
    return 0


def _begin(out: Path, overwrite: bool) -> None:
    """Nothing of an old run stays beside a new one. Raises ValueError if that was not asked for."""
    if overwrite:
        clear(out)
    elif there := leftovers(out):
        raise ValueError(f"{out} holds a run already ({there[0].name}); --resume goes on with it, --overwrite takes it away")


def _print_beginning(n_pairs: int, plan: Plan, data: dict[str, Any]) -> None:
    """What is learned from and held out, and with which sizes and settings."""
    sets, left, taken = data["pairs"], data["left out"], data.get("taken out", 0)
    print(f"{n_pairs:,} pairs: {in_words(plan)}")
    print(f"{sets['train']:,} pairs to train on, {sets['validation']:,} to validate on, {sets['test']:,} to test on")
    if left:
        print(f"{left:,} were left out of validation and test: they say what a pair before says, in other signs or contracted")
    if taken:
        print(f"{taken:,} were taken out of training: they say what a pair of --valid or --test says")


def _follow(trainer: Trainer, quiet: bool) -> bool:
    """Draw the progress bar; returns False if the run was stopped by Ctrl-C (after saving where it stood)."""
    progress = tqdm(total=trainer.recipe.steps, initial=trainer.step, unit="step", disable=quiet)
    with progress as bar, _interrupt() as interrupted:
        for record in trainer.train():
            bar.update()
            bar.set_postfix(loss=f"{record.loss:.3f}", tokens_s=f"{record.tokens_per_second:,.0f}", refresh=False)
            if record.validation:
                results = ", ".join(f"{name} {value:.3f}" for name, value in record.validation.items())
                bar.write(f"step {record.step}: {results}")
            for warning in record.warnings:
                bar.write(f"warning: {warning}")
            if interrupted() and trainer.step < trainer.recipe.steps:
                trainer.save_state()
                bar.write(f"stopped at step {trainer.step}; --resume goes on from there")
                return False
        if trainer.stopped_early:
            bar.write(f"stopped early at step {trainer.step:,}; the weights of step {trainer.best_step:,} are kept")
    return True


@contextmanager
def _interrupt() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed. The step under way ends first, so that no half step is saved; a second one stops at once."""
    pressed: list[int] = []

    def note(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _record_score(task: Task, out: Path, device: torch.device) -> None:
    """Score the checkpoint as it lies on the disk on the whole test split, and add that to its record."""
    cases = task.held_out()
    scope = load(out, device=device)
    print(f"held-out {_recorded(scope, task.metric, _write_all(scope, cases), cases)}; checkpoint in {out}")
    _print_signature(task.metric, cases)


def _print_signature(metric: str, cases: list[Case]) -> None:
    if said := signature(metric, cases):
        print(f"sacrebleu's signature: {said}")


def _recorded(scope: Scope, metric: str, texts: list[str], cases: list[Case]) -> str:
    """Add the score, and the score by length, to a checkpoint's record; returns the score in words."""
    result = METRICS[metric](texts, cases)
    groups = [asdict(group) | {"score": round(group.score, 2)} for group in by_length(texts, cases, metric)]
    add_to_record(scope.path, **_measured(scope, metric, result, len(cases)), by_length=groups, signature=signature(metric, cases))
    return f"{metric}: {result:.2f} over {len(cases)} cases"


def _measured(scope: Scope, metric: str, result: float, n_cases: int) -> dict[str, Any]:
    """A score as a record holds it, with what it was measured on (models.scores)."""
    scores = {f"held-out {metric}": round(result, 2), "cases": n_cases}
    return {"scores": scores, "measured_on": scope.weights_digest}


def _write_all(scope: Scope, cases: list[Case], of: str = "") -> list[str]:
    """What the model writes for each case, with a bar."""
    with tqdm(total=len(cases), unit="case", leave=False, desc=of or None) as bar:
        return hypotheses(scope.model, scope.tokenizer, cases, lambda done, _: bar.update(done - bar.n))


def _decode(options: argparse.Namespace) -> int:
    settings = {"seed": options.seed} if options.how == "sample" else {}
    print(load(options.checkpoint, device=_device(options)).write(options.text, options.how, **settings).text)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    scope = load(options.checkpoint, device=_device(options))
    if options.record and options.limit:
        raise ValueError("--record is for the score over all cases, not for one with a --limit")
    metric, cases = _cases(options, scope)
    if options.snapshots:
        return _evaluate_snapshots(scope, metric, cases, options)
    texts = _write_all(scope, cases)
    print(f"{metric} {METRICS[metric](texts, cases):.2f} over {len(cases)} held-out cases")
    _print_signature(metric, cases)
    if options.by_length:
        for group in by_length(texts, cases, metric):
            print(f"  {group.least:2}-{group.most:2} words  {metric} {group.score:6.2f}  {group.cases:5} cases")
    if options.record:
        _recorded(scope, metric, texts, cases)
    return 0


def _evaluate_snapshots(scope: Scope, metric: str, cases: list[Case], options: argparse.Namespace) -> int:
    """Print, and record at once, the score of one snapshot after the other: what is measured stays if it is stopped."""
    if not scope.snapshots:
        raise ValueError(f"{scope.name} keeps no snapshots of its training; attnscope train --snapshots does")
    if options.by_length:
        raise ValueError("--by-length is for the finished weights, not for --snapshots")
    every = {}
    for step in scope.snapshots:
        then = load(scope.path, device=scope.device, snapshot=step)
        result = METRICS[metric](_write_all(then, cases, f"step {step:,}"), cases)
        print(f"step {step:6,}: {metric} {result:.2f} over {len(cases)} held-out cases", flush=True)
        if options.record:
            every[str(step)] = _measured(then, metric, result, len(cases))
            add_to_record(scope.path, snapshot_scores=every)
    return 0


def _seal(options: argparse.Namespace) -> int:
    for name in options.checkpoint:
        sums = seal(folder_of(name))
        print(f"{name}: {len(sums)} files sealed: {', '.join(sums)}")
    return 0


def _cases(options: argparse.Namespace, scope: Scope) -> tuple[str, list[Case]]:
    """The metric and the cases to score: of --test where that is given, else of the test split of --data."""
    trained_on = scope.training.get("data")
    if not options.test:
        given = {"tokenizer": scope.tokenizer} if scope.task == "translation" else {}
        task = open_task(scope.task, options.data, **given)
        if task.data() != trained_on:
            _note("this is not the data the checkpoint was trained on")
        return task.metric, task.held_out(options.limit)
    if options.data or scope.task != "translation":
        raise ValueError("--test is for a translator, and instead of --data")
    if not isinstance(trained_on, dict) or trained_on.get("test file") != fingerprint(as_paths(options.test)):
        if options.record:
            raise ValueError("--record is for the test pairs that were kept from its training")
        _note("these pairs were not named when it was trained; it may have been trained on some of them")
    return TranslationTask.metric, as_cases(read_pairs(options.test))[: options.limit]


def _note(text: str) -> None:
    print(f"attnscope: note: {text}", file=sys.stderr)


def _inspect(options: argparse.Namespace) -> int:
    scope = load(options.checkpoint, device="cpu")
    record = scope.training
    print(f"{scope.name}: {scope.task}, {sum(p.numel() for p in scope.model.parameters()):,} parameters\n")
    for f in fields(scope.config):
        print(f"  {f.name:18} {getattr(scope.config, f.name)}")
    print("\nparameters")
    for name, p in scope.model.named_parameters():
        print(f"  {name:48} {' × '.join(map(str, p.shape)):>12} {p.numel():>10,}")
    print("\ntraining")
    for name in ("command", "step", "averaged_steps", "training_seconds", "device", "data", "licence", "scores"):
        print(f"  {name:18} {record.get(name)}")
    print(f"  {'snapshots':18} {', '.join(map(str, scope.snapshots)) or 'none'}")
    for row in [r for r in record.get("curve", []) if "validation loss" in r]:
        print("  " + "  ".join(f"{k} {v}" for k, v in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
