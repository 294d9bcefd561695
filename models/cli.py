"""The `attnscope` command: app, train, watch, decode, evaluate, compare, inspect and so on."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from models import (
    __version__,
    ablate_command,
    compare_command,
    evaluate_command,
    model_card,
    print_commands,
    survey_command,
    train_command,
)
from models.analysis.head_matching import ADVISED
from models.checkpoint import CheckpointError
from models.errors import InputError
from models.runs.surveys import SURVEYS
from models.tasks import DataError
from models.training.frozen_survey import FROZEN_SURVEY
from models.training.recipes import PLANS

DTYPES = ("float32", "bfloat16", "float16")
DTYPE_HELP = (
    "dtype for Hugging Face models (default: the checkpoint's); values are shown in float32"
)
PAIR_FILES = {"nargs": "+", "metavar": "FILE"}
TWO_WAYS = "a tab-separated file, or two files aligned line by line; .gz too"
TEXT_FILES_HELP = (
    "text files, or the first column of .tsv tables (language, mlm, permutation); "
    "tab-separated question, context and answer (span); tab-separated text and label (classify)"
)
CONTROLLED = "--controlled"
EXPECTED = (CheckpointError, DataError, InputError, FloatingPointError, OSError, ValueError)


def main(
    arguments: Sequence[str] | None = None,
    open_app: Callable[[argparse.Namespace], int] | None = None,
    write_handout: Callable[[argparse.Namespace], int] | None = None,
    export_site: Callable[[argparse.Namespace], int] | None = None,
) -> int:
    """Run the command, or `open_app` if no command is given.

    `write_handout` and `export_site` are commands of the app.

    An error that a user can cause prints one line on stderr and returns 1; Ctrl-C returns 130.
    """
    parser = _parser()
    parser.set_defaults(
        run=open_app or _no_app,
        open_app=open_app or _no_app,
        write_handout=write_handout or _no_app,
        export_site=export_site or _no_app,
        watch=None,
    )
    options = parser.parse_args(arguments)
    words = (
        [word for word in sys.argv[1:] if word != CONTROLLED] if arguments is None else arguments
    )
    options.command = shlex.join(["attnscope", *words])
    try:
        return options.run(options) or 0
    except KeyboardInterrupt:
        print("attnscope: stopped", file=sys.stderr)
        return 130
    except EXPECTED as error:
        print(f"attnscope: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "attnscope", description="See attention work. Without a command: open the app."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    _add_app_flags(parser)
    commands = parser.add_subparsers(title="commands")
    train, decode, evaluate = _add_train(commands), _add_decode(commands), _add_evaluate(commands)
    ablate, compare = _add_ablate(commands), _add_compare(commands)
    survey = _add_survey(commands)
    _add_handout(commands)
    _add_export_site(commands)
    _add_watch(commands)
    inspect = commands.add_parser(
        "inspect", help="print configuration, parameters and training record"
    )
    inspect.add_argument("checkpoint")
    inspect.set_defaults(run=print_commands.print_checkpoint)
    seal = commands.add_parser(
        "seal",
        help="accept a checkpoint's files as they are: write their checksums into training.json",
    )
    seal.add_argument("checkpoint", nargs="+")
    seal.set_defaults(run=print_commands.seal_files)
    card = commands.add_parser(
        "card", help="write a checkpoint's model card, README.md, from its training record"
    )
    card.add_argument("checkpoint", nargs="+")
    card.set_defaults(run=model_card.write_cards)
    for command in (train, decode, evaluate, ablate, compare, survey, inspect):
        command.add_argument(
            "--device", default=argparse.SUPPRESS, help="cuda, mps or cpu (the first available)"
        )
    for command in (decode, inspect):
        command.add_argument("--dtype", choices=DTYPES, default=argparse.SUPPRESS, help=DTYPE_HELP)
    return parser


def _add_app_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=8501, help="port of the app (8501)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument(
        "--models", type=Path, metavar="DIR", help="also offer the checkpoints in this folder"
    )
    parser.add_argument(
        "--lessons", type=Path, metavar="DIR", help="also offer the lessons in this folder"
    )
    parser.add_argument(
        "--module",
        metavar="FILE.py:FUNCTION",
        help="also open your own module, the one that this function watches",
    )
    parser.add_argument(
        "--share",
        nargs="?",
        const="0.0.0.0",
        metavar="ADDRESS",
        help="let other machines connect: listen on this address (default: all addresses) "
        "and open only the folders in --models",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        metavar="NAME",
        help="a host name by which the app is reached (of a proxy, for example)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="server processes that share the work of many people, each with models of its own "
        "(1; with --share one for each core, at most 4)",
    )
    parser.add_argument(
        "--keep",
        metavar="MB",
        help="memory for opened models and their runs (512); the least recently used go first",
    )
    parser.add_argument(
        "--trainers",
        type=int,
        metavar="N",
        help="runs that the page Train trains at a time, a process each; others wait (1; with "
        "--share 0)",
    )
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="DIR",
        help="keep the runs of the page Train in this folder (default: until the app ends)",
    )
    parser.add_argument("--device", help="cuda, mps or cpu (the first available)")
    parser.add_argument("--dtype", choices=DTYPES, help=DTYPE_HELP)


def _add_train(commands: Any) -> argparse.ArgumentParser:
    train = commands.add_parser("train", help="train a model on a task")
    train.add_argument("task", choices=list(PLANS))
    kinds = sorted({model for plans in PLANS.values() for model in plans})
    train.add_argument("--model", choices=kinds, help="model to train (the task's first)")
    train.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help=f"the sentence pairs: {TWO_WAYS} (translation); {TEXT_FILES_HELP}",
    )
    train.add_argument(
        "--valid", type=Path, **PAIR_FILES, help="pairs to validate on, instead of 1 %% of --data"
    )
    train.add_argument(
        "--test",
        type=Path,
        **PAIR_FILES,
        help="pairs to score at the end, instead of 2 %% of --data",
    )
    train.add_argument(
        "--vocabulary", metavar="CHECKPOINT", help="use this checkpoint's tokenizer (translation)"
    )
    train.add_argument(
        "--from",
        dest="start",
        metavar="CHECKPOINT",
        help="continue from this checkpoint's weights, with its tokenizer",
    )
    train.add_argument(
        "--languages",
        nargs="+",
        default=[],
        metavar="CODE",
        help="ISO codes of the texts' languages, source before target (en fr), for the record",
    )
    train.add_argument("--out", type=Path, help="folder of the checkpoint (runs/TASK-MODEL)")
    train.add_argument(
        "--threads",
        type=_positive,
        metavar="N",
        help="processor threads; the same run needs the same number (default: torch's)",
    )
    # commands on stdin, reports on stdout (models/training/controlled.py)
    train.add_argument(CONTROLLED, action="store_true", help=argparse.SUPPRESS)
    over = train.add_mutually_exclusive_group()
    over.add_argument(
        "--resume", action="store_true", help="continue from the last saved state in --out"
    )
    over.add_argument(
        "--overwrite", action="store_true", help="remove the files of an earlier run in --out"
    )
    train_command.add_settings(train)
    train.set_defaults(run=train_command.train)
    return train


def _add_decode(commands: Any) -> argparse.ArgumentParser:
    decode = commands.add_parser(
        "decode", help="print the text a checkpoint generates, or its answer"
    )
    decode.add_argument("checkpoint")
    decode.add_argument(
        "text",
        nargs="+",
        help="the input text, or the path of an image or a sound; several for a model with several inputs (a question "
        "and its context)",
    )
    decode.add_argument(
        "--order",
        nargs="+",
        type=int,
        metavar="POSITION",
        help="prediction order of an order-based model: every position of the text, from 0",
    )
    decode.add_argument("--how", choices=["greedy", "beam", "sample"], default="greedy")
    decode.add_argument("--seed", type=_seed, default=1, help="random seed for --how sample")
    decode.set_defaults(run=print_commands.print_answer)
    return decode


def _add_evaluate(commands: Any) -> argparse.ArgumentParser:
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
    evaluate.add_argument("--limit", type=_positive, help="maximum number of cases")
    evaluate.add_argument(
        "--by-length", action="store_true", help="also print the score by source length"
    )
    evaluate.add_argument(
        "--snapshots",
        action="store_true",
        help="score each training snapshot instead of the final weights",
    )
    evaluate.add_argument(
        "--record", action="store_true", help="write the result into the checkpoint's training.json"
    )
    evaluate.set_defaults(run=evaluate_command.evaluate)
    return evaluate


def _add_ablate(commands: Any) -> argparse.ArgumentParser:
    ablate = commands.add_parser(
        "ablate", help="print what each head off does to the loss on held-out texts"
    )
    ablate.add_argument("checkpoint")
    ablate.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help="the training files, which are split again, or any files of held-out pairs, lines or "
        "tables as for training (default: the texts in the checkpoint's record)",
    )
    ablate.add_argument(
        "--limit", type=_positive, default=400, help="maximum number of texts (400)"
    )
    ablate.add_argument(
        "--baseline",
        choices=ablate_command.ABLATION_BASELINES,
        default="zero",
        help="what a head that is off passes on: zero, or uniform weights",
    )
    ablate.add_argument(
        "--orders", type=_positive, default=20, help="number of random orders of heads (20)"
    )
    ablate.add_argument(
        "--seed", type=_seed, default=0, help="random seed of the orders and intervals (0)"
    )
    ablate.add_argument(
        "--out", type=Path, help="where losses are kept, to stop and continue (ablate-NAME.json)"
    )
    ablate.add_argument(
        "--record",
        action="store_true",
        help="write the results into the checkpoint's training.json",
    )
    ablate.set_defaults(run=ablate_command.ablate)
    return ablate


def _add_compare(commands: Any) -> argparse.ArgumentParser:
    compare = commands.add_parser(
        "compare", help="print how far apart the heads of two checkpoints are, and match them"
    )
    compare.add_argument("first", metavar="A")
    compare.add_argument("second", metavar="B")
    compare.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help="the files A was trained on, which are split again, or any files of pairs, lines or "
        "tables as for training (default: the texts in A's record)",
    )
    compare.add_argument(
        "--limit", type=_positive, default=ADVISED, help=f"maximum number of texts ({ADVISED})"
    )
    compare.add_argument(
        "--null",
        nargs="+",
        default=[],
        metavar="CHECKPOINT",
        help="two or more other checkpoints of the same recipe: how far apart their heads are",
    )
    compare.add_argument("--seed", type=_seed, default=0, help="random seed of the intervals (0)")
    compare.add_argument(
        "--out", type=Path, help="where everything is saved as JSON (compare-A-B.json)"
    )
    compare.set_defaults(run=compare_command.run_compare)
    return compare


def _add_survey(commands: Any) -> argparse.ArgumentParser:
    survey = commands.add_parser(
        "survey", help="print how a translator behaves over held-out texts, with intervals"
    )
    survey.add_argument(
        "survey",
        choices=[*SURVEYS, FROZEN_SURVEY],
        help="recovery after a wrong word, words that stay under other weights, or what frozen "
        "weights give other models, which are trained for the survey",
    )
    survey.add_argument("checkpoint")
    survey.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help="the training files, which are split again, or any files of held-out pairs "
        "(default: the texts in the checkpoint's record)",
    )
    survey.add_argument("--limit", type=_positive, default=64, help="maximum number of texts (64)")
    survey.add_argument(
        "--seed",
        type=_seed_from_0,
        default=0,
        help="random seed of wrong words, trained models and intervals (0)",
    )
    survey.add_argument(
        "--state",
        type=Path,
        help="where finished parts are kept until the end, to stop and continue "
        "(survey-SURVEY-NAME.json)",
    )
    survey.add_argument(
        "--record",
        action="store_true",
        help="write the results into the checkpoint's training.json",
    )
    survey.set_defaults(run=survey_command.run_survey)
    return survey


def _add_watch(commands: Any) -> None:
    watch = commands.add_parser(
        "watch", help="open the app on a run of `attnscope train` and watch it while it trains"
    )
    watch.add_argument("watch", type=Path, metavar="DIR", help="folder of the run (its --out)")
    watch.set_defaults(run=lambda options: options.open_app(options))


def _add_handout(commands: Any) -> None:
    handout = commands.add_parser("handout", help="write a lesson as a printable page or PDF")
    handout.add_argument("lesson", help="its name, such as 6-positions")
    handout.add_argument("--answers", action="store_true", help="include what happens in each step")
    handout.add_argument(
        "--out", type=Path, required=True, help="the file: HTML, or PDF printed by Chromium"
    )
    handout.set_defaults(run=lambda options: options.write_handout(options))


def _add_export_site(commands: Any) -> None:
    site = commands.add_parser(
        "export-site", help="write the shipped models' pages as files that need no server"
    )
    site.add_argument("folder", type=Path, help="a new or empty folder, or one written before")
    site.set_defaults(run=lambda options: options.export_site(options))


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def _seed(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise argparse.ArgumentTypeError(f"must be a 64-bit integer, not {text:.30}")
    return number


def _seed_from_0(text: str) -> int:
    if (number := _seed(text)) < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {text}")
    return number


def _no_app(options: argparse.Namespace) -> int:
    raise ValueError("the app needs the command attnscope; this is only the back end")


if __name__ == "__main__":
    sys.exit(main())
