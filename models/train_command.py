"""`attnscope train`: the settings it takes, the run with its bar, the score at the end."""

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from models.architectures import ARCHITECTURES, name_of
from models.devices import chosen_device
from models.evaluate_command import record_score
from models.opening import load
from models.runs.scope import Scope
from models.tasks import open_task
from models.tasks.classify import ClassifyTask
from models.tasks.pair_files import read_pairs
from models.training.processes import join_processes
from models.training.recipe import Recipe
from models.training.recipes import PLANS, Plan, in_words, plan_for
from models.training.run_folder import claimed, clear, leftovers
from models.training.start import Start, sizes_of
from models.training.trainer import Trainer


def add_settings(train: argparse.ArgumentParser) -> None:
    """One flag for each setting of the model, the data and the recipe; the plan gives the defaults."""
    for kind, names in _settings().items():
        group = train.add_argument_group(f"{kind} (defaults depend on task and model)")
        for name, of_type in names.items():
            flag = "--" + name.replace("_", "-")
            if of_type is bool:
                group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
            else:
                group.add_argument(flag, type=of_type)


def _settings() -> dict[str, dict[str, type]]:
    sizes = {f.name: f.type for _, read in ARCHITECTURES.values() for f in fields(read)}
    recipe = {f.name: f.type for f in fields(Recipe)}
    data = {
        "vocab_size": int,
        "max_tokens": int,
        "batch_size": int,
        "licence": str,
        "documents": str,
        "tokens": str,
        "lm_weight": float,
        "fold": int,
        "predict_last": int,
        "order": str,
    }
    sizes = {n: t for n, t in sizes.items() if n != "vocab_size" and not n.endswith("_id")}
    return {"model": sizes, "data": data, "recipe": recipe}


def _model(options: argparse.Namespace) -> str:
    """The model to train: the task's first if none is named."""
    return options.model or next(iter(PLANS[options.task]))


def plan_of(
    options: argparse.Namespace, n_pairs: int | None = None, start: Scope | None = None
) -> Plan:
    """The plan of the task, the model and so many sentence pairs, with the sizes and the vocabulary of a checkpoint that the run
    goes on from, and with the flags that were given. Raises ValueError for a flag that is not theirs, and for a start that is."""
    plan = plan_for(options.task, _model(options), n_pairs)
    given = {
        kind: {n: v for n in names if (v := getattr(options, n)) is not None}
        for kind, names in _settings().items()
    }
    sizes = {f.name for f in fields(plan.config)}
    odd = {n: f"the task {options.task}" for n in given["data"] if n not in plan.data}
    odd |= {n: f"the model {_model(options)}" for n in given["model"] if n not in sizes}
    for name, of in odd.items():
        raise ValueError(f"--{name.replace('_', '-')} is no setting of {of}")
    for flag, is_given in (("vocabulary", options.vocabulary), ("from", start)):
        if is_given and "vocab_size" not in plan.data:
            raise ValueError(f"--{flag} is no setting of the task {options.task}")
    if start and name_of(start.config) != _model(options):
        raise ValueError(
            f"--from {start.name} is no {_model(options)} but a {name_of(start.config)}"
        )
    sizes = plan.sizes | (sizes_of(start.config) if start else {}) | given["model"]
    recipe, data = replace(plan.recipe, **given["recipe"]), plan.data | given["data"]
    if "n_ctx" in data:
        data |= {"n_ctx": sizes["n_ctx"]}  # a row of text is as long as what the model reads
    if options.vocabulary or start:
        data |= {"tokenizer": (start or load(options.vocabulary, device="cpu")).tokenizer}
        del data["vocab_size"]
    return Plan(plan.config, sizes, recipe, data)


def train(options: argparse.Namespace) -> int:
    """Run `attnscope train`; returns the status, 130 if it was stopped."""
    n_pairs = (
        len(read_pairs(options.data)) if options.task == "translation" and options.data else None
    )
    start, device = (
        load(options.start, device="cpu") if options.start else None,
        chosen_device(options.device),
    )
    plan = plan_of(options, n_pairs, start)
    out = options.out or Path("runs") / f"{options.task}-{_model(options)}"
    rank = join_processes(device)
    own = {"validation_files": options.valid, "test_files": options.test}
    task = open_task(
        options.task,
        options.data,
        **plan.data,
        **{name: files for name, files in own.items() if files},
    )
    ids = {f"{name}_id": i for name, i in task.tokenizer.special_ids.items()}
    named = {f.name: ids[f.name] for f in fields(plan.config) if f.name in ids}
    told = task.sizes if isinstance(task, ClassifyTask) else {}
    named |= {f.name: told[f.name] for f in fields(plan.config) if f.name in told}
    config = plan.config(task.tokenizer.vocab_size, **named | plan.sizes)
    if isinstance(task, ClassifyTask):
        task.check(config)
    begin = Start(start.name, start.weights_digest, start.model.state_dict()) if start else None
    trainer = Trainer(task, config, plan.recipe, out, device, options.command, begin)
    with claimed(out) if rank == 0 else nullcontext():
        if options.resume:
            print(f"resumed at step {trainer.resume()}")
        elif rank == 0:
            _begin(out, options.overwrite)
        if rank == 0 and n_pairs:
            _print_beginning(n_pairs, plan, task.data())
        elif rank == 0 and "documents" in (data := task.data()):
            _print_texts(plan, data)
        if not _follow(trainer, quiet=rank > 0):
            return 130
        if rank == 0:
            record_score(task, out, device)
    return 0


def _begin(out: Path, overwrite: bool) -> None:
    """Nothing of an old run stays beside a new one. Raises ValueError if that was not asked for."""
    if overwrite:
        clear(out)
    elif there := leftovers(out):
        raise ValueError(
            f"{out} holds a run already ({there[0].name}); --resume goes on with it, --overwrite takes it away"
        )


def _print_beginning(n_pairs: int, plan: Plan, data: dict[str, Any]) -> None:
    """What is learned from and held out, and with which sizes and settings."""
    sets, left, taken = data["pairs"], data["left out"], data.get("taken out", 0)
    print(f"{n_pairs:,} pairs: {in_words(plan)}")
    print(
        f"{sets['train']:,} pairs to train on, {sets['validation']:,} to validate on, {sets['test']:,} to test on"
    )
    if left:
        print(
            f"{left:,} were left out of validation and test: they say what a pair before says, in other signs or contracted"
        )
    if taken:
        print(
            f"{taken:,} were taken out of training: they say what a pair of --valid or --test says"
        )


def _print_texts(plan: Plan, data: dict[str, Any]) -> None:
    """What text is learned from and held out, and with which sizes and settings."""
    print(f"{sum(data['characters'].values()):,} characters of text: {in_words(plan)}")
    parts = (
        f"{data['documents'][name]:,} documents ({data['characters'][name]:,} characters) to {what}"
        for name, what in (
            ("train", "train on"),
            ("validation", "validate on"),
            ("test", "test on"),
        )
    )
    print(", ".join(parts))
    if left := data["left out"]:
        print(
            f"{left:,} were left out of validation and test: they say what a document before says"
        )


def _follow(trainer: Trainer, quiet: bool) -> bool:
    """Draw the progress bar; returns False if the run was stopped by Ctrl-C (after saving where it stood)."""
    progress = tqdm(total=trainer.recipe.steps, initial=trainer.step, unit="step", disable=quiet)
    with progress as bar, _interrupt() as interrupted:
        for record in trainer.train():
            bar.update()
            bar.set_postfix(
                loss=f"{record.loss:.3f}",
                tokens_s=f"{record.tokens_per_second:,.0f}",
                refresh=False,
            )
            if record.validation:
                results = ", ".join(
                    f"{name} {value:.3f}" for name, value in record.validation.items()
                )
                bar.write(f"step {record.step}: {results}")
            for warning in record.warnings:
                bar.write(f"warning: {warning}")
            if interrupted() and trainer.step < trainer.recipe.steps:
                trainer.save_state()
                bar.write(f"stopped at step {trainer.step}; --resume goes on from there")
                return False
        if trainer.stopped_early:
            bar.write(
                f"stopped early at step {trainer.step:,}; the weights of step {trainer.best_step:,} are kept"
            )
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
