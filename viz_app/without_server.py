"""Pages that Streamlit's AppTest runs without a server, one after the other."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

from streamlit.components.v2 import manifest_scanner

# where Streamlit warns of a page that is run without a server
_WARNS = "streamlit.runtime.scriptrunner_utils.script_run_context"


@contextmanager
def many_runs() -> Iterator[None]:
    """Let Streamlit look through the installed packages once, not at every run (0.1 s each).

    Its warning at every run that there is no server is suppressed, too.
    """
    scan, log = manifest_scanner.scan_component_manifests, logging.getLogger(_WARNS)
    manifest_scanner.scan_component_manifests = cache(scan)
    log.addFilter(_nothing)
    try:
        yield
    finally:
        manifest_scanner.scan_component_manifests = scan
        log.removeFilter(_nothing)


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back until the end, or until it is pressed again.

    AppTest runs a page in a thread and joins it even if Ctrl-C came before the thread had started,
    which is an error of its own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed = []

    def hold(number: int, frame: FrameType | None) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def _nothing(record: logging.LogRecord) -> bool:
    """Let no record through."""
    return False
