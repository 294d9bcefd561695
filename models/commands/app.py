"""Commands and flags of the app, which the back end parses and the front end runs."""

import argparse
from pathlib import Path

from models.commands.arguments import DEVICE_HELP, DTYPE_HELP, DTYPES, Commands


def add_app_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the app itself."""
    parser.add_argument("--port", type=int, default=8501, help="port of the app (8501)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    _add_contents(parser)
    _add_sharing(parser)
    _add_trainers(parser)
    parser.add_argument("--device", help=DEVICE_HELP)
    parser.add_argument("--dtype", choices=DTYPES, help=DTYPE_HELP)


def _add_contents(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name what the app offers besides its own models and lessons."""
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


def _add_sharing(parser: argparse.ArgumentParser) -> None:
    """Add the flags that let many people use one app."""
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
        help="a host name by which the app is reached (that of a proxy, for example)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="server processes that share the work of many people, each with its own models "
        "(1; with --share one for each core, at most 4)",
    )
    parser.add_argument(
        "--keep",
        metavar="MB",
        help="memory for opened models and their runs (512); the least recently used go first",
    )


def _add_trainers(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the page Train."""
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


def add_watch(commands: Commands) -> None:
    """Add `attnscope watch`."""
    watch = commands.add_parser(
        "watch", help="open the app on a run of `attnscope train` and watch it while it trains"
    )
    watch.add_argument("watch", type=Path, metavar="DIR", help="folder of the run (its --out)")
    watch.set_defaults(run=lambda options: options.open_app(options))


def add_handout(commands: Commands) -> None:
    """Add `attnscope handout`."""
    handout = commands.add_parser("handout", help="write a lesson as a printable page or PDF")
    handout.add_argument("lesson", help="its name, such as 6-positions")
    handout.add_argument("--answers", action="store_true", help="include what happens in each step")
    handout.add_argument(
        "--out", type=Path, required=True, help="the file: HTML, or PDF printed by Chromium"
    )
    handout.set_defaults(run=lambda options: options.write_handout(options))


def add_export_site(commands: Commands) -> None:
    """Add `attnscope export-site`."""
    site = commands.add_parser(
        "export-site", help="write the shipped models' pages as files that need no server"
    )
    site.add_argument("folder", type=Path, help="a new or empty folder, or one written before")
    site.set_defaults(run=lambda options: options.export_site(options))
