"""The owners of training runs: a run belongs to the Streamlit session that starts it."""

import os
from pathlib import Path

import streamlit as st
from streamlit.runtime import exists, get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx

from viz_app.singletons import made_once
from viz_app.trainers import folders
from viz_app.trainers.pool import Pool, trainers
from viz_app.trainers.watched import WatchedRun

WATCHED = "ATTNSCOPE_WATCH"  # environment variable: the folder of `attnscope watch`
_KEY = "owned runs"  # in the session's state: the folders of its runs


def session_id() -> str:
    """Return the id of this rerun's session; "" outside a rerun."""
    context = get_script_run_ctx(suppress_warning=True)
    return context.session_id if context else ""


def is_there(owner: str) -> bool:
    """Return True if a browser is connected to the session, or if there is no server."""
    return not exists() or get_instance().is_active_session(owner)


@made_once
def pool() -> Pool:
    """Return the trainers of this process."""
    return Pool(trainers(), is_there)


def grant_run(folder: Path) -> None:
    """Let this session open a run."""
    st.session_state.setdefault(_KEY, set()).add(folder)


def offered_runs(is_shared: bool) -> dict[str, Path]:
    """Return name → folder of the runs that this session may open.

    They are the watched run and all runs trained here, in a shared app only those of this session.
    """
    offered = folders.all_runs()
    if is_shared:
        mine = st.session_state.get(_KEY, set()) if session_id() else set()
        offered = {name: folder for name, folder in offered.items() if folder in mine}
    run = watched_run()
    return offered | ({run.name: run.folder} if run and run.can_be_opened else {})


def watched_run() -> WatchedRun | None:
    """Return the run that was started on the command line and is watched here; None without one."""
    folder = os.environ.get(WATCHED)
    return _watched(folder) if folder else None


@made_once
def _watched(folder: str) -> WatchedRun:
    return WatchedRun(Path(folder))
