"""Limits of the server process: open files, the head of a request, repeated lines in its log."""

import logging
import time
from contextlib import suppress

LOG_SECONDS = 1.0
N_REMEMBERED_LINES = 200  # lines
MAX_HEAD = 2**18  # bytes of a request's head: room for an address with the longest text
MAX_ADDRESS = MAX_HEAD - 2**14  # characters; the rest of the head is cookies and the like


def raise_file_limit() -> None:
    """Raise the limit of open files to what the system allows.

    Streamlit keeps up to 128 sessions for two minutes after their page was closed, with three files
    each; many systems start a process with room for 256 or 1,024.
    """
    try:
        import resource  # not on Windows, which has no such limit
    except ImportError:
        return
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (most, 65_536, 10_240):  # macOS says "infinite" and grants less
        if limit == resource.RLIM_INFINITY or limit <= now:
            continue
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
            return


def raise_head_limit() -> None:
    """Read addresses of up to MAX_HEAD bytes, so that a page with a long text can be loaded again.

    uvicorn refuses most heads above 64 KiB, and Streamlit has no option for it.
    """
    from uvicorn.protocols.http import h11_impl  # the front process does not need it

    h11_impl.DEFAULT_MAX_INCOMPLETE_EVENT_SIZE = MAX_HEAD


class NoRepeats(logging.Filter):
    """A log filter that passes each line at most once a second."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = (record.name, record.getMessage()), time.monotonic()
        if now - self._written.get(line, -LOG_SECONDS) < LOG_SECONDS:
            return False
        if len(self._written) >= N_REMEMBERED_LINES:
            self._written = {}
        self._written[line] = now
        return True


def filter_repeated_lines() -> None:
    """Add a NoRepeats filter to all current log handlers."""
    loggers = [
        logging.getLogger(),
        *(
            logger
            for logger in logging.root.manager.loggerDict.values()
            if isinstance(logger, logging.Logger)
        ),
    ]
    repeats = NoRepeats()
    for handler in {
        logging.lastResort,
        *(handler for logger in loggers for handler in logger.handlers),
    }:
        handler.addFilter(repeats)
