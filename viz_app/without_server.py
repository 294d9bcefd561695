"""Pages that Streamlit's AppTest runs without a server, one after the other."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from streamlit.components.v2 import manifest_scanner

# where Streamlit warns of a page that is run without a server
_WARNS = "streamlit.runtime.scriptrunner_utils.script_run_context"


@contextmanager
def many_runs() -> Iterator[None]:
    """Let Streamlit look through the installed packages once, not at every run (0.1 s each).

    Nor does it warn at every run that there is no server.
    """
    scan, log = manifest_scanner.scan_component_manifests, logging.getLogger(_WARNS)
    manifest_scanner.scan_component_manifests = cache(scan)
    log.addFilter(_nothing)
    try:
        yield
    finally:
        manifest_scanner.scan_component_manifests = scan
        log.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    """Let no record through."""
    return False
