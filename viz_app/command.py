"""The console script `attnscope`: the command line of `models`, plus the app.

Slow imports are inside the functions, where Ctrl-C is handled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

SHARING = 4  # server processes of a shared app, on as many cores
WARNING = """
*** SHARED: this app is open to everyone who can reach {address}, port {port}. ***

It opens {models}, no other folder of this machine.
It has no accounts and no passwords, and does not encrypt what is typed and shown. It does not limit who uses it, or
how much they compute. It is for people you trust on a network you trust. For others, put a proxy with TLS and a login in front
of it. Name the host of the proxy with --allow-host (README, "Share it").
"""


def main() -> int:
    """Run the command; Ctrl-C ends it at once with a one-line message."""
    try:
        from models import cli

        return cli.main(open_app=open_app, write_handout=run_handout, export_site=run_export_site)
    except KeyboardInterrupt:
        print("attnscope: stopped", file=sys.stderr)
        return 130


def open_app(options: Namespace) -> int:
    """Serve the app until Ctrl-C.

    It runs in this process, so that files in the working folder hide no package.

    Raises:
        ValueError: the folder of --models, --lessons or `watch` does not exist, or another option
            is invalid.
    """
    from viz_app.host_guard import ALLOWED
    from viz_app.session import byte_cache
    from viz_app.session.byte_cache import BUDGET_VARIABLE
    from viz_app.session.run_owners import WATCHED

    if options.keep is not None:
        os.environ[BUDGET_VARIABLE] = options.keep
    # raises now, not on every page
    budget = byte_cache.budget(BUDGET_VARIABLE if options.keep is None else "--keep")
    n = _workers(options)
    _use(options)
    if options.watch:
        if not options.watch.is_dir():
            raise ValueError(
                f"watch {options.watch}: no such folder; `attnscope train` makes it (--out)"
            )
        os.environ[WATCHED] = str(options.watch.resolve())
    if options.allow_host:
        os.environ[ALLOWED] = ",".join(options.allow_host)
    with _trainers(options):
        return _serve(options, n, budget)


def _serve(options: Namespace, n: int, budget: float) -> int:
    """Serve the app from n processes, with a memory `budget` in bytes in all."""
    from viz_app import checkpoints, workers
    from viz_app.session import byte_cache

    flags = []
    if options.share:
        os.environ[checkpoints.SHARED_VARIABLE] = "1"
        flags.append("--client.showErrorDetails=none")
        print(
            WARNING.format(address=options.share, port=options.port, models=_menu_summary(options)),
            file=sys.stderr,
        )
    if n > 1:
        os.environ[byte_cache.BUDGET_VARIABLE] = str(budget / byte_cache.MEGABYTE / n)
        address = options.share or "localhost"
        return workers.serve_app(n, address, options.port, flags, not options.no_browser)
    if options.share:
        flags.append(f"--server.address={options.share}")
    headless = str(options.no_browser).lower()
    return workers.run_server(
        [f"--server.port={options.port}", f"--server.headless={headless}", *flags]
    )


def run_handout(options: Namespace) -> int:
    """Write a lesson as a file.

    Raises:
        ValueError: there is no such lesson, or it cannot be shown or printed.
    """
    from viz_app import handout

    _use(options)
    return handout.write_handout(options)


def run_export_site(options: Namespace) -> int:
    """Write the static edition into a folder.

    Raises:
        ValueError: the folder contains something else.
    """
    from viz_app.static_pages.folder import check_folder

    check_folder(options.folder)  # first, since loading the app takes long
    from viz_app.static_pages import export

    _use(options)
    return export.export_site(options)


@contextmanager
def _trainers(options: Namespace) -> Iterator[None]:
    """Set how many runs are trained at a time, and the folder that all processes keep them in.

    Raises:
        ValueError: --trainers is out of range, or --runs is not a folder.
    """
    from viz_app.trainers import folders, pool

    n = options.trainers
    if n is None:
        n = 0 if options.share else 1
    if not 0 <= n <= pool.MAX_TRAINERS:
        raise ValueError(f"--trainers must be between 0 and {pool.MAX_TRAINERS}, not {n}")
    os.environ[pool.TRAINERS_VARIABLE] = str(n)
    if options.runs and options.runs.exists() and not options.runs.is_dir():
        raise ValueError(f"--runs {options.runs}: not a folder")
    with TemporaryDirectory(prefix="attnscope-runs-", ignore_cleanup_errors=True) as temporary:
        os.environ[folders.RUNS_VARIABLE] = str((options.runs or Path(temporary)).resolve())
        yield


def _use(options: Namespace) -> None:
    """Offer the models, the lessons and the module of the options, on their device and dtype.

    Raises:
        ValueError: a folder does not exist, a lesson is invalid, or the module cannot be opened.
    """
    from viz_app import checkpoints

    if options.device:
        os.environ["ATTNSCOPE_DEVICE"] = options.device
    if options.dtype:
        os.environ[checkpoints.DTYPE_VARIABLE] = options.dtype
    if options.models:
        if not options.models.is_dir():
            raise ValueError(f"--models {options.models}: no such folder")
        os.environ[checkpoints.MODELS_VARIABLE] = str(options.models.resolve())
        if checkpoints.is_search_cut():
            n = checkpoints.MAX_SEARCHED_FOLDERS
            print(
                f"attnscope: note: --models {options.models} holds more than {n:,} folders; "
                "models in the others are not offered",
                file=sys.stderr,
            )
    if options.lessons:
        _use_lessons(options.lessons)
    if options.module:
        os.environ[checkpoints.MODULE_VARIABLE] = options.module
        checkpoints.open_found(options.module)  # raises now, not on every page


def _use_lessons(folder: Path) -> None:
    """Offer the lessons of a folder.

    Raises:
        ValueError: there is no such folder, or a file in it is not a lesson.
    """
    import viz_app.navigation  # noqa: F401  # declares every URL parameter
    from viz_app.controls.lesson_panel import offered_lessons
    from viz_app.lessons import library

    if not folder.is_dir():
        raise ValueError(f"--lessons {folder}: no such folder")
    os.environ[library.LESSONS_VARIABLE] = str(folder.resolve())
    if errors := offered_lessons().errors:
        raise ValueError(f"--lessons {folder}: {'; '.join(errors)}")


def _workers(options: Namespace) -> int:
    """Return the number of server processes.

    Raises:
        ValueError: --workers is out of range.
    """
    from viz_app.workers import MAX_WORKERS

    n = options.workers
    if n is None:
        n = min(os.cpu_count() or 1, SHARING) if options.share else 1
    if not 1 <= n <= MAX_WORKERS:
        raise ValueError(f"--workers must be between 1 and {MAX_WORKERS}, not {n}")
    return n


def _menu_summary(options: Namespace) -> str:
    import models
    from viz_app import checkpoints

    n = len(checkpoints.available()) - len(models.shipped())
    added = [f"{n} under {options.models}"] if options.models else []
    added += ["the watched run"] if options.watch else []
    return " and ".join(["the shipped models", *added])


if __name__ == "__main__":
    sys.exit(main())
