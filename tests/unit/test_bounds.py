"""The bounds of the serving process: open files, and repeated lines in its log."""

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from viz_app import bounds
from viz_app.bounds import NoRepeats

resource = pytest.importorskip("resource")


def limits_after(soft: str, hard: str) -> list[int]:
    """Return the limits of a fresh process after it raises these ("most" is the system's maximum)."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = (
        "import resource; from viz_app.bounds import raise_file_limit; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard.replace('most', str(most))})); raise_file_limit(); "
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    return [int(part) for part in said.split()]


def test_the_limit_of_open_files_is_raised_to_what_the_system_allows() -> None:
    assert limits_after("256", "1021") == [1021, 1021]
    assert limits_after("256", "256") == [256, 256]
    soft, hard = limits_after("256", "most")
    assert soft == hard or (hard == resource.RLIM_INFINITY and soft > 10_000)


def test_after_a_limit_that_the_system_refuses_a_smaller_one_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def grant(kind: int, limits: tuple[int, int]) -> None:
        asked.append(limits)
        if limits[0] > 10_240:
            raise ValueError("not so many")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", grant)
    bounds.raise_file_limit()
    assert asked == [(65_536, resource.RLIM_INFINITY), (10_240, resource.RLIM_INFINITY)]


def test_a_system_without_such_limits_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    bounds.raise_file_limit()


class Lines(logging.Handler):
    """A handler that keeps the lines it is given to write."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(bounds.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def written() -> Iterator[Lines]:
    """Return what a separate logger writes once `filter_repeated_lines` has been called."""
    lines, before = (
        Lines(),
        {h: list(h.filters) for h in (logging.lastResort, *logging.getLogger().handlers)},
    )
    logger = logging.getLogger("a test's own")
    logger.propagate = False
    logger.addHandler(lines)
    bounds.filter_repeated_lines()
    yield lines
    logger.removeHandler(lines)
    for handler, filters in before.items():
        handler.filters = filters


def test_no_line_is_written_twice_a_second(clock: list[float], written: Lines) -> None:
    logger = logging.getLogger("a test's own")
    for now in (100.0, 100.5, 100.999, 101.0, 101.5, 102.1):
        clock[0] = now
        for name in "ab":
            for _ in range(1_000):
                logger.error("too many open files: %s", name)
    assert written.lines == [f"too many open files: {name}" for _ in range(3) for name in "ab"]


def test_the_log_of_the_event_loop_is_filtered_too(written: Lines) -> None:
    """It has no handler of its own, so logging's last resort writes it."""
    assert any(isinstance(filter, NoRepeats) for filter in logging.lastResort.filters)


def test_the_filter_remembers_a_bounded_number_of_lines() -> None:
    repeats = NoRepeats()
    for i in range(10_000):
        assert repeats.filter(logging.LogRecord("x", logging.ERROR, "", 0, "line %d", (i,), None))
    assert len(repeats._written) <= bounds.N_REMEMBERED_LINES
