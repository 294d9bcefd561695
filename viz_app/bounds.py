"""Bounds of the serving process: how many files it may have open, and how often it writes the same line to its log."""

import logging
import time
from contextlib import suppress

SECOND = 1.0
REMEMBERED = 200  # lines


def more_files() -> None:
    """Raise the number of open files to what the system allows. Streamlit keeps up to 128 sessions for two minutes after
    their page was closed, with three files each; many systems start a process with room for 256 or 1,024."""
    try:
        import resource  # not on Windows, which has no such limit
    except ImportError:
        return
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (most, 65_536, 10_240):  # macOS says "infinite" and grants less
        if wanted == resource.RLIM_INFINITY or wanted <= now:
            continue
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            return


class NoRepeats(logging.Filter):
    """Lets a line through once a second, however often it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = (record.name, record.getMessage()), time.monotonic()
        if now - self._written.get(line, -SECOND) < SECOND:
            return False
        if len(self._written) >= REMEMBERED:
            self._written = {}
        self._written[line] = now
        return True


def no_repeats() -> None:
    """Put one such filter before everything that writes a log by now."""
    loggers = [
        logging.getLogger(),
        *(x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger)),
    ]
    repeats = NoRepeats()
    for handler in {
        logging.lastResort,
        *(handler for logger in loggers for handler in logger.handlers),
    }:
        handler.addFilter(repeats)
