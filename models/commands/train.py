"""`attnscope train`: the run with its progress bar, and the score at the end."""

import argparse
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from models.architectures import Config
from models.commands.arguments import Commands
from models.commands.evaluate import record_score
from models.commands.train_flags import add_train_flags, model_of, plan_of
from models.devices import chosen_device
from models.number_text import how_many
from models.opening import load
from models.tasks import open_task
from models.tasks.classify import ClassifyTask
from models.tasks.pair_files import read_pairs
from models.tasks.translation import TranslationTask
from models.training.controlled import follow_controlled
from models.training.live_report import reporting
from models.training.processes import joined_processes
from models.training.recipe import StepRecord
from models.training.recipes import Plan, settings_line
from models.training.run_folder import STATE, claim_folder, clear, leftovers
from models.training.start import Start
from models.training.task import Task
from models.training.trainer import Trainer
from models.training_record import is_language


def add_train(commands: Commands) -> None:
    """Add `attnscope train`."""
    command = commands.add_parser("train", help="train a model on a task")
    add_train_flags(command)
    command.set_defaults(run=_train)


def planned_config(plan: Plan, task: Task) -> Config:
    """Return the configuration of the plan's model for the vocabulary and the classes of a task.

    Raises:
        ValueError: A size is out of range, or does not fit another or the task.
    """
    ids = {f"{name}_id": i for name, i in task.tokenizer.special_ids.items()}
    sizes = {name: ids[name] for name in plan.size_names if name in ids}
    class_sizes = task.sizes if isinstance(task, ClassifyTask) else {}
    sizes |= {name: class_sizes[name] for name in plan.size_names if name in class_sizes}
    config = plan.config(task.tokenizer.vocab_size, **sizes | plan.sizes)
    if isinstance(task, ClassifyTask):
        task.check(config)
    return config


def _train(options: argparse.Namespace) -> int:
    """Run `attnscope train`; return the exit status, 130 if it was stopped."""
    n_pairs = (
        len(read_pairs(options.data)) if options.task == "translation" and options.data else None
    )
    start = load(options.start, device="cpu") if options.start else None
    device = chosen_device(options.device)
    _check_languages(options.languages)
    if options.threads:
        torch.set_num_threads(options.threads)
    plan = plan_of(options, n_pairs, start)
    out = options.out or Path("runs") / f"{options.task}-{model_of(options)}"
    with joined_processes(device) as rank:
        task = _task_of(options, plan)
        config = planned_config(plan, task)
        begin = Start(start.name, start.weights_digest, start.model.state_dict()) if start else None
        trainer = Trainer(
            task, config, plan.recipe, out, device, options.command, begin, options.languages
        )
        with claim_folder(out) if rank == 0 else nullcontext():
            if options.resume:
                step = trainer.resume()
                if rank == 0:
                    print(f"resumed at step {step}")
            elif rank == 0:
                _begin(out, options.overwrite)
            if rank == 0:
                _print_run(options, plan, task, n_pairs)
            if options.controlled:
                return follow_controlled(trainer, lambda: record_score(task, out, device))
            if not _follow(trainer, quiet=rank > 0):
                return 130
            if rank == 0:
                record_score(task, out, device)
    return 0


def _task_of(options: argparse.Namespace, plan: Plan) -> Task:
    """Open the task with its data, and the files that are held out if they are given."""
    held_out_files = {"validation_files": options.valid, "test_files": options.test}
    return open_task(
        options.task,
        options.data,
        **plan.data,
        **{name: files for name, files in held_out_files.items() if files},
    )


def _check_languages(codes: Sequence[str]) -> None:
    """Check the codes of --languages before anything is trained.

    Raises:
        ValueError: One of them is not an ISO 639 code.
    """
    for code in codes:
        if not is_language(code):
            raise ValueError(f"--languages takes ISO 639 codes such as en and fr, not {code!r}")


def _begin(out: Path, overwrite: bool) -> None:
    """Prepare the output folder of a new run.

    Raises:
        ValueError: An earlier run left files there and --overwrite was not given.
    """
    if overwrite:
        clear(out)
    elif old_files := leftovers(out):
        resumes = "--resume continues it, " if (out / STATE).is_file() else ""
        raise ValueError(
            f"{out} already holds a run ({old_files[0].name}); {resumes}--overwrite removes it"
        )


def _print_run(options: argparse.Namespace, plan: Plan, task: Task, n_pairs: int | None) -> None:
    """Print the settings of the run, and of a task of texts the sizes of its splits."""
    if n_pairs and isinstance(task, TranslationTask):
        _print_pairs(n_pairs, plan, task)
    elif "documents" in (data := task.data()):
        _print_texts(plan, data)
    else:
        print(f"{options.task}, {model_of(options)}: {settings_line(plan)}")


def _print_pairs(n_pairs: int, plan: Plan, task: TranslationTask) -> None:
    """Print the sizes of the splits, and the sizes and settings of the run."""
    data, n_too_long = task.data(), task.n_too_long
    sets, n_left_out, n_removed = data["pairs"], data["left out"], data.get("taken out", 0)
    print(f"{how_many(n_pairs, 'pair')}: {settings_line(plan)}")
    print(
        f"{how_many(sets['train'] - n_too_long, 'pair')} to train on, {sets['validation']:,} to validate on, {sets['test']:,} to test on"
    )
    if n_left_out:
        print(
            "left out of validation and test, as repeats of a training or test pair up to "
            f"punctuation or contractions: {n_left_out:,}"
        )
    if n_too_long:
        print(f"not trained on, as a side has {task.max_length} tokens or more: {n_too_long:,}")
    if n_removed:
        print(f"removed from training, as repeats of a pair of --valid or --test: {n_removed:,}")


def _print_texts(plan: Plan, data: dict[str, Any]) -> None:
    """Print the sizes of the splits of running text, and the sizes and settings of the run."""
    print(f"{sum(data['characters'].values()):,} characters of text: {settings_line(plan)}")
    parts = (
        f"{how_many(data['documents'][name], 'document')} ({data['characters'][name]:,} characters) to {what}"
        for name, what in (
            ("train", "train on"),
            ("validation", "validate on"),
            ("test", "test on"),
        )
    )
    print(", ".join(parts))
    if n_left_out := data["left out"]:
        print(
            "left out of validation and test, as repeats of a training or test document: "
            f"{n_left_out:,}"
        )


def _follow(trainer: Trainer, quiet: bool) -> bool:
    """Train with a progress bar; return False if Ctrl-C stopped the run, after saving its state.

    The first process, which is not `quiet`, shows the run to an app that watches its folder.
    """
    if not quiet and trainer.step == 0:
        trainer.save_beginning()
    reporter = nullcontext(lambda record: None) if quiet else reporting(trainer)
    progress = tqdm(total=trainer.recipe.steps, initial=trainer.step, unit="step", disable=quiet)
    with progress as bar, _interrupt() as interrupted, reporter as report:
        for record in trainer.train():
            bar.update()
            report(record)
            bar.set_postfix(
                loss=f"{record.loss:.3f}",
                labels_s=f"{record.labels_per_second:,.0f}",
                refresh=False,
            )
            if not quiet:
                _print_validation(bar, record)
            if interrupted() and trainer.step < trainer.recipe.steps:
                trainer.save_state()
                if not quiet:
                    bar.write(f"stopped at step {trainer.step}; --resume continues from there")
                return False
        if trainer.stopped_early and not quiet:
            bar.write(
                f"stopped early at step {trainer.step:,}; "
                f"the weights of step {trainer.best_step:,} are kept"
            )
    return True


def _print_validation(bar: Any, record: StepRecord) -> None:
    """Print the results of a step's validation, if it had one, above the progress bar."""
    if record.validation:
        results = ", ".join(f"{name} {value:.3f}" for name, value in record.validation.items())
        bar.write(f"step {record.step}: {results}")
    for warning in record.warnings:
        bar.write(f"warning: {warning}")


@contextmanager
def _interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True once Ctrl-C has been pressed.

    The current step ends first, so that no half step is saved; a second Ctrl-C stops at once.
    """
    pressed: list[int] = []

    def note(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, previous)
