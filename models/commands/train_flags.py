"""The flags of `attnscope train`, and the plan made from them."""

import argparse
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from models.architectures import ARCHITECTURES, architecture_name
from models.commands.arguments import (
    PAIR_FILES,
    TEXT_FILES_HELP,
    TWO_WAYS,
    add_device,
    positive,
    seed,
)
from models.opening import load
from models.runs.scope import Scope
from models.training.recipe import Recipe
from models.training.recipes import PLANS, Plan, plan_for
from models.training.start import shared_sizes

CONTROLLED = "--controlled"  # commands on stdin, reports on stdout (models/training/controlled.py)
ATTEMPT_FLAGS = RESUME, OVERWRITE = "--resume", "--overwrite"  # what to do with an earlier attempt


def add_train_flags(command: argparse.ArgumentParser) -> None:
    """Add all flags of `attnscope train`."""
    command.add_argument("task", choices=list(PLANS))
    kinds = sorted({model for plans in PLANS.values() for model in plans})
    command.add_argument("--model", choices=kinds, help="model to train (the task's first)")
    _add_data(command)
    _add_start(command)
    command.add_argument("--out", type=Path, help="folder of the checkpoint (runs/TASK-MODEL)")
    command.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="processor threads; the same run needs the same number (default: torch's)",
    )
    command.add_argument(CONTROLLED, action="store_true", help=argparse.SUPPRESS)
    over = command.add_mutually_exclusive_group()
    over.add_argument(
        RESUME, action="store_true", help="continue from the last saved state in --out"
    )
    over.add_argument(
        OVERWRITE, action="store_true", help="remove the files of an earlier run in --out"
    )
    add_device(command)
    _add_settings(command)


def _add_data(command: argparse.ArgumentParser) -> None:
    """Add the flags that name the texts to train on and their languages."""
    command.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help=f"the sentence pairs: {TWO_WAYS} (translation); {TEXT_FILES_HELP}",
    )
    command.add_argument(
        "--valid", type=Path, **PAIR_FILES, help="pairs to validate on, instead of 1 %% of --data"
    )
    command.add_argument(
        "--test",
        type=Path,
        **PAIR_FILES,
        help="pairs to score at the end, instead of 2 %% of --data",
    )
    command.add_argument(
        "--languages",
        nargs="+",
        default=[],
        metavar="CODE",
        help="ISO codes of the texts' languages, source before target (en fr), for the record",
    )


def _add_start(command: argparse.ArgumentParser) -> None:
    """Add the flags that name a checkpoint to begin from."""
    command.add_argument(
        "--vocabulary", metavar="CHECKPOINT", help="use this checkpoint's tokenizer (translation)"
    )
    command.add_argument(
        "--from",
        dest="start",
        metavar="CHECKPOINT",
        help="continue from this checkpoint's weights, with its tokenizer",
    )


def _add_settings(command: argparse.ArgumentParser) -> None:
    """Add one flag for each setting of model, data and recipe; the plan has the defaults."""
    for kind, names in _settings().items():
        group = command.add_argument_group(f"{kind} (defaults depend on task and model)")
        for name, of_type in names.items():
            flag = "--" + name.replace("_", "-")
            if of_type is bool:
                group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
            else:
                group.add_argument(flag, type=of_type)


def _settings() -> dict[str, dict[str, Any]]:
    sizes = {f.name: f.type for _, read in ARCHITECTURES.values() for f in fields(read)}
    recipe = {f.name: f.type for f in fields(Recipe)} | {"seed": seed}
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
        "digits": str,
        "period": str,
        "max_letters": int,
    }
    sizes = {n: t for n, t in sizes.items() if n != "vocab_size" and not n.endswith("_id")}
    return {"model": sizes, "data": data, "recipe": recipe}


def model_of(options: argparse.Namespace) -> str:
    """Return the model to train: the task's first if none is named."""
    return options.model or next(iter(PLANS[options.task]))


def plan_of(
    options: argparse.Namespace, n_pairs: int | None = None, start: Scope | None = None
) -> Plan:
    """Return the plan of the task, the model and this number of sentence pairs.

    Sizes and vocabulary come from the checkpoint that the run starts from, if any; flags override
    them.

    Raises:
        ValueError: A flag does not apply to the task or model, or the start has a different
            architecture.
    """
    plan = plan_for(options.task, model_of(options), n_pairs)
    flags = {
        kind: {n: v for n in names if (v := getattr(options, n)) is not None}
        for kind, names in _settings().items()
    }
    sizes = set(plan.size_names)
    inapplicable = {n: f"the task {options.task}" for n in flags["data"] if n not in plan.data}
    inapplicable |= {n: f"the model {model_of(options)}" for n in flags["model"] if n not in sizes}
    for name, owner in inapplicable.items():
        raise ValueError(f"--{name.replace('_', '-')} does not apply to {owner}")
    for flag, is_given in (("vocabulary", options.vocabulary), ("from", start)):
        if is_given and "vocab_size" not in plan.data:
            raise ValueError(f"--{flag} does not apply to the task {options.task}")
    if options.vocabulary or start:
        _check_one_tokenizer(options)
    if start and architecture_name(start.config) != model_of(options):
        raise ValueError(
            f"--from must be a {model_of(options)} checkpoint; "
            f"{start.name} is a {architecture_name(start.config)}"
        )
    sizes = plan.sizes | (shared_sizes(start.config) if start else {}) | flags["model"]
    recipe, data = replace(plan.recipe, **flags["recipe"]), plan.data | flags["data"]
    if "n_ctx" in data:
        data |= {"n_ctx": sizes["n_ctx"]}  # a row of text fills the model's context
    if options.vocabulary or start:
        data |= {"tokenizer": (start or load(options.vocabulary, device="cpu")).tokenizer}
        del data["vocab_size"]
    return Plan(plan.config, sizes, recipe, data)


def _check_one_tokenizer(options: argparse.Namespace) -> None:
    """Check that no flag asks for another tokenizer than that of the checkpoint named.

    Raises:
        ValueError: One does.
    """
    flag = "--from" if options.start else "--vocabulary"
    others = {"--vocab-size": options.vocab_size, "--tokens": options.tokens}
    others |= {"--vocabulary": options.vocabulary} if options.start else {}
    for other, value in others.items():
        if value is not None:
            raise ValueError(f"{other} does not apply with {flag}, whose tokenizer is used")
