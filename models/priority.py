"""The priority of a process of ours that works beside others."""

import os
import time
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")
_ATTEMPTS, _PAUSE = 20, 0.1  # s; on one machine, Linux takes one change in that time


def lower_priority(niceness: int) -> None:
    """Let other processes come first; `niceness` is 1 to 19, as nice(2) takes it.

    Where Linux has autogroups (sched(7)), it shares the processor out among sessions first, and
    niceness counts only within one. The leader of a session therefore lowers all of it. Windows
    has no niceness; there, a parent sets the priority.
    """
    if not hasattr(os, "nice"):
        return
    os.nice(niceness)
    if os.getsid(0) != os.getpid():
        return
    for _ in range(_ATTEMPTS):
        try:
            AUTOGROUP.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:  # no autogroups here
            return
        else:
            return
