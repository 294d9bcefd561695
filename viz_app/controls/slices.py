"""Long work of a session, done in slices while the page is drawn; it can be stopped."""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import streamlit as st

from viz_app import ui

SLICE_SECONDS, SLICE_PAUSE = (
    0.3,
    0.05,
)  # seconds of work in one run of the fragment, and until the next


@dataclass
class SlicedWork:
    """Work in progress, stopped, or ended with an error; `steps` returns its result."""

    key: Hashable
    inputs: Any  # work on other inputs starts from the beginning
    steps: Generator[int, None, Any]  # yields the number of units done
    n: int
    unit: str  # noun for the steps, such as "texts"
    doing: str  # status while running, such as "scoring"
    done: int = 0
    is_stopped: bool = False
    error: str = ""


class Slices:
    """A kind of work: one at a time runs in a session, and results are kept by key."""

    def __init__(self, name: str) -> None:
        self._running, self._finished = f"{name} running", f"{name} finished"

    def result(self, key: Hashable) -> Any:
        """Return the result of the work with this key; None if there is none."""
        return st.session_state.get(self._finished, {}).get(key)

    def is_running(self, key: Hashable) -> bool:
        """Return True if the work with this key is running; drop that of another key."""
        work = self._work
        if work is not None and work.key != key:
            work = st.session_state[self._running] = None
        return work is not None and not work.is_stopped

    def start(self, key: Hashable, inputs: Any, begin: Callable[[], SlicedWork]) -> None:
        """Start work, or continue work on the same inputs."""
        work = self._work
        if work is not None and (work.key, work.inputs) == (key, inputs) and not work.error:
            work.is_stopped = False
            return
        try:
            work = begin()
        except ValueError as error:
            work = SlicedWork(key, inputs, _nothing(), 1, "", "", is_stopped=True, error=str(error))
        st.session_state[self._running] = work

    def stop(self) -> None:
        """Stop until the next start."""
        if (work := self._work) is not None:
            work.is_stopped = True

    def draw(self) -> None:
        """Draw the progress of the unfinished work, or its error."""
        if (work := self._work) is None:
            return
        if work.error:
            st.error(f"{work.error[:1].upper()}{work.error[1:].rstrip('.')}.")
        else:
            ui.redraw_alone(self._progress, every=None if work.is_stopped else SLICE_PAUSE)

    @property
    def _work(self) -> SlicedWork | None:
        return st.session_state.get(self._running)

    def _progress(self) -> None:
        """Draw the progress, and work for a slice at each run until the end or a stop."""
        work = st.session_state[self._running]
        if not work.is_stopped and self._ends_within(work, SLICE_SECONDS):
            if not work.error:
                st.session_state[self._running] = None
            st.rerun()  # ends the periodic reruns of the fragment
        status = "stopped; press the button to continue" if work.is_stopped else work.doing
        st.progress(work.done / work.n, f"{work.done} of {work.n} {work.unit}: {status}")

    def _ends_within(self, work: SlicedWork, seconds: float) -> bool:
        """Work for about this long; return True once there is a result or an error."""
        deadline = perf_counter() + seconds
        while perf_counter() < deadline:
            try:
                work.done = next(work.steps)
            except StopIteration as end:
                st.session_state.setdefault(self._finished, {})[work.key] = end.value
                return True
            except ValueError as error:
                work.error, work.is_stopped = str(error), True
                return True
        return False


def _nothing() -> Generator[int, None, None]:
    yield from ()
