"""The `attnscope` command: app, train, watch, decode, evaluate, compare, inspect and so on."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from models import __version__
from models.commands.ablate import add_ablate
from models.commands.app import add_app_flags, add_export_site, add_handout, add_watch
from models.commands.checkpoint import add_card, add_inspect, add_seal
from models.commands.compare import add_compare
from models.commands.decode import add_decode
from models.commands.evaluate import add_evaluate
from models.commands.survey import add_survey
from models.commands.train import add_train
from models.commands.train_flags import ATTEMPT_FLAGS, CONTROLLED
from models.errors import CheckpointError, InputError
from models.tasks import DataError

ADD_COMMANDS = (
    add_train,
    add_decode,
    add_evaluate,
    add_ablate,
    add_compare,
    add_survey,
    add_handout,
    add_export_site,
    add_watch,
    add_inspect,
    add_seal,
    add_card,
)
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
    words = sys.argv[1:] if arguments is None else arguments
    # a run's record holds the command that trains it, whatever an earlier attempt left
    words = [word for word in words if word not in (CONTROLLED, *ATTEMPT_FLAGS)]
    options.command = shlex.join(["attnscope", *words])
    try:
        return options.run(options) or 0
    except KeyboardInterrupt:
        print("attnscope: stopped", file=sys.stderr)
        return 130
    except EXPECTED as error:
        print(f"attnscope: {error}", file=sys.stderr)
        return 1


class _FullFlagsParser(argparse.ArgumentParser):
    """A parser that takes no abbreviated flags: a run's record holds them as they were typed."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings, allow_abbrev=False)


def _parser() -> argparse.ArgumentParser:
    parser = _FullFlagsParser(
        "attnscope", description="See attention work. Without a command: open the app."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add_app_flags(parser)
    commands = parser.add_subparsers(title="commands")
    for add_command in ADD_COMMANDS:
        add_command(commands)
    return parser


def _no_app(options: argparse.Namespace) -> int:
    raise ValueError("the app needs the command attnscope; this is only the back end")


if __name__ == "__main__":
    sys.exit(main())
