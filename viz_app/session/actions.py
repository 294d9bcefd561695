"""A visitor's actions, each carried out to its end.

Streamlit calls the callbacks of a request before its run. If the next request has arrived
meanwhile, it ends a callback at its next access to the session, and what was typed or clicked would
be lost. So a callback only notes what to do. The next run that begins does it, in a thread of its
own, which Streamlit does not end.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread

from streamlit.runtime.scriptrunner import add_script_run_ctx

Action = Callable[[], None]
MAX_ACTIONS = 100  # waiting in a session; if its runs never begin, the oldest are dropped


class Actions:
    """Actions that a session has yet to carry out, in order."""

    def __init__(self) -> None:
        self._noted: deque[Action] = deque(maxlen=MAX_ACTIONS)
        self._lock = Lock()  # a run that is about to end may still be carrying them out

    def note(self, action: Action) -> None:
        """Have an action carried out by the next run that begins."""
        self._noted.append(action)

    def carry_out(self) -> None:
        """Carry out what has been noted. Exceptions are raised here."""
        with self._lock:
            while self._noted:
                _run_to_end(self._noted.popleft())


def _run_to_end(action: Action) -> None:
    done: Future[None] = Future()

    def run() -> None:
        try:
            done.set_result(action())
        except BaseException as error:
            done.set_exception(error)

    thread = Thread(target=run, name="action")
    add_script_run_ctx(thread)
    thread.start()
    done.result()
