"""Distances of heads of one or two models over held-out texts, measured in the background."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from time import perf_counter

import streamlit as st

from models import Scope
from models.analysis.head_matching import (
    ADVISED,
    KindDistances,
    averaged,
    distances_of_text,
    null_distances,
)
from models.compare_command import Fields, common_texts, runs
from viz_app import checkpoints
from viz_app.controls import pick
from viz_app.session import cache
from viz_app.session.other_seeds import other_seeds

BATCH = 8  # texts in one pass, so that it can be stopped soon
SLICE, PAUSE = 0.3, 0.05  # seconds of measuring in one run of the fragment, and until the next
FEWEST_SEEDS = 2  # a null compares them with each other
_RUNNING = "compare-matching running"
_FINISHED = "compare-matchings finished"  # by pair of models

Key = tuple[str, ...]  # fingerprints and similarities of both models


@dataclass(frozen=True)
class Measured:
    """Distances over texts and, by kind, those of matched heads between seeds of the recipe."""

    kinds: tuple[KindDistances, ...]
    null: dict[str, list[float]]
    seeds: tuple[str, ...]
    n_texts: int


def measured_steps(
    first: Scope, second: Scope, seeds: Sequence[Scope], texts: Sequence[Fields]
) -> Iterator[int | Measured]:
    """Yield the number of texts compared so far, of `n_steps`, and at last the results.

    Raises:
        ValueError: nothing of the models can be compared.
    """
    pairs = [(first, second), *combinations(seeds, 2)]
    every, done = [], 0
    for one, other in pairs:
        of_texts = []
        for i in range(0, len(texts), BATCH):
            part = texts[i : i + BATCH]
            ours = list(runs(one, part))
            theirs = ours if other is one else list(runs(other, part))
            of_texts += [distances_of_text(a, b) for a, b in zip(ours, theirs, strict=True)]
            done += len(part)
            yield done
        every.append(averaged(of_texts))
    found, *null = every
    names = tuple(scope.name for scope in seeds)
    yield Measured(tuple(found), null_distances(null), names, len(texts))


def n_steps(n_texts: int, n_seeds: int) -> int:
    """Return how many pairs of runs are compared."""
    return n_texts * (1 + n_seeds * (n_seeds - 1) // 2)


@dataclass
class Running:
    """A measurement in progress, stopped, or ended with an error."""

    key: Key
    steps: Iterator[int | Measured]
    n: int
    n_texts: int
    done: int = 0
    is_stopped: bool = False
    error: str = ""

    def advance(self, seconds: float) -> None:
        """Measure for about this long; the results are kept when all is done."""
        deadline = perf_counter() + seconds
        while perf_counter() < deadline and not self.error:
            try:
                step = next(self.steps)
            except ValueError as error:
                self.error, self.is_stopped = str(error), True
                return
            if isinstance(step, Measured):
                st.session_state.setdefault(_FINISHED, {})[self.key] = step
                return
            self.done = step


def measured(first: Scope, second: Scope) -> Measured | None:
    """Return the results for these models, if they were measured here."""
    return st.session_state.get(_FINISHED, {}).get(_key(first, second))


def matching(first: Scope, second: Scope) -> None:
    """Draw the button, or the progress and its stop; nothing where the results are there."""
    if measured(first, second) is not None:
        return
    running = st.session_state.get(_RUNNING)
    if running is not None and running.key != _key(first, second):
        running = st.session_state[_RUNNING] = None  # of other models
    with pick.row("matching", "small"):
        pick.button(
            "Compare over held-out texts",
            "compare-matching-start",
            lambda: _start(first, second),
            type="primary",
            icon=":material/play_arrow:",
            disabled=running is not None and not running.is_stopped,
        )
        pick.button(
            "Stop",
            "compare-matching-stop",
            _stop,
            icon=":material/stop:",
            disabled=running is None or running.is_stopped,
        )
    if running is None:
        return
    if running.error:
        st.error(f"{running.error[:1].upper()}{running.error[1:].rstrip('.')}.")
        return
    st.fragment(_progress, run_every=None if running.is_stopped else PAUSE)()


def _key(first: Scope, second: Scope) -> Key:
    return tuple(
        f"{scope.fingerprint} {scope.model.similarity} {scope.model.positions}"
        for scope in (first, second)
    )


def _start(first: Scope, second: Scope) -> None:
    key, running = _key(first, second), st.session_state.get(_RUNNING)
    if running is not None and running.key == key and not running.error:
        running.is_stopped = False
        return
    seeds = _seeds(first, second)
    try:
        texts = common_texts([first, second, *seeds], None, ADVISED)
        found = Running(
            key,
            measured_steps(first, second, seeds, texts),
            n_steps(len(texts), len(seeds)),
            len(texts),
        )
    except ValueError as error:
        found = Running(key, iter(()), 1, 0, is_stopped=True, error=str(error))
    st.session_state[_RUNNING] = found


def _seeds(first: Scope, second: Scope) -> list[Scope]:
    """Return the other seeds of the first model's recipe; none of them is the second."""
    if first is second:
        return []
    names = [name for name in other_seeds(first) if name not in (first.name, second.name)]
    scopes = [cache.scope(checkpoints.folder(name)) for name in names]
    return scopes if len(scopes) >= FEWEST_SEEDS else []


def _stop() -> None:
    if (running := st.session_state.get(_RUNNING)) is not None:
        running.is_stopped = True


def _progress() -> None:
    """Draw the progress, and measure a slice at each run until all is done or it is stopped."""
    running: Running = st.session_state[_RUNNING]
    if not running.is_stopped:
        running.advance(SLICE)
        if running.error or running.key in st.session_state.get(_FINISHED, {}):
            if not running.error:
                st.session_state[_RUNNING] = None
            st.rerun()  # ends the periodic reruns of the fragment
    status = "stopped; press the button to go on" if running.is_stopped else "comparing"
    about = f"{running.done} of {running.n} pairs of runs, over {running.n_texts} texts: {status}"
    st.progress(running.done / running.n, about)
